"""Reusable memory for arrays that are needed until the next chunk of rows."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike

_KEPT_BYTES = 2**20  # maximum size of a buffer that is kept after a loop


class Workspace:
    """Reusable memory for arrays that are only needed until the next chunk of rows.

    An allocator may request new pages from the operating system for each large array
    and return them afterwards, as glibc does with the settings of Dask workers. In this
    case, allocating an array for each chunk takes longer than the computation itself.
    A workspace must only be used by one loop in one thread.
    """

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}
        self._last: dict[str, np.ndarray] = {}  # the last array returned for each name
        self._lent: tuple[str, np.ndarray] | None = None

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Return an array with arbitrary content, in memory that later calls reuse."""
        if self._lent is not None and self._lent[0] == name:
            array, self._lent = self._lent[1], None
            if array.shape == shape and array.dtype == dtype:
                return array
        last = self._last.get(name)
        if last is not None and last.shape == shape and last.dtype == dtype:
            return last
        dtype = np.dtype(dtype)
        n_bytes = math.prod(shape) * dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < n_bytes:
            memory = self._memory[name] = np.empty(n_bytes, np.uint8)
        self._last[name] = memory[:n_bytes].view(dtype).reshape(shape)
        return self._last[name]

    def lend(self, name: str, array: np.ndarray) -> None:
        """Make ``buffer`` return this array next time, to be filled with results."""
        self._lent = name, array

    def drop_large(self) -> None:
        """Delete buffers larger than 1 MiB."""
        for name in [*self._memory]:
            if self._memory[name].size > _KEPT_BYTES:
                del self._memory[name], self._last[name]
        self._lent = None


_kept = threading.local()


@contextmanager
def kept_workspace() -> Iterator[Workspace]:
    """Provide the workspace of this thread, which is kept to save allocations."""
    workspace = getattr(_kept, "workspace", None) or Workspace()
    _kept.workspace = None
    try:
        yield workspace
    finally:
        workspace.drop_large()
        _kept.workspace = workspace
