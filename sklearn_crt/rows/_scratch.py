"""Memory that the chunks of a loop use in turn."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import DTypeLike

_KEPT_BYTES = 2**20  # of an array that stays between two loops
_kept = threading.local()


class Scratch:
    """Room for arrays that are gone with the next chunk of rows.

    An allocator may give each large array pages of its own, and return them to the
    system afterwards: so glibc does under the settings of Dask's workers. Then a new
    array for each chunk costs more than what is computed in it. One such value belongs
    to one loop in one thread.

    Examples
    --------
    >>> from sklearn_crt.rows import Scratch
    >>> scratch = Scratch()
    >>> first = scratch.array("features", (3, 2), "float32")
    >>> first[:] = 7
    >>> scratch.array("features", (1, 2), "float32")  # the same memory
    array([[7., 7.]], dtype=float32)
    """

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}

    def array(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Return an array whose numbers are left from its last use.

        Parameters
        ----------
        name : str
            Arrays of one name share their memory.
        shape : tuple of int
            Its shape.
        dtype : dtype
            Its type.

        Returns
        -------
        array : ndarray
            Contiguous, until the next of this name.
        """
        dtype = np.dtype(dtype)
        n_bytes = math.prod(shape) * dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < n_bytes:
            memory = self._memory[name] = np.empty(n_bytes, np.uint8)
        return memory[:n_bytes].view(dtype).reshape(shape)

    def cast(self, values: np.ndarray, dtype: DTypeLike) -> np.ndarray:
        """Return values in another type, themselves where they have it.

        Parameters
        ----------
        values : ndarray
            Numbers.
        dtype : dtype
            The type.

        Returns
        -------
        values : ndarray
            Of that type.
        """
        if values.dtype == dtype:
            return values
        room = self.array("cast", values.shape, dtype)
        np.copyto(room, values)
        return room

    def drop_large(self) -> None:
        """Forget the memory of arrays beyond 1 MiB."""
        small = {k: v for k, v in self._memory.items() if v.size <= _KEPT_BYTES}
        self._memory = small


@contextmanager
def kept_scratch() -> Iterator[Scratch]:
    """Lend the scratch that this thread keeps between loops.

    The system clears each page of new memory, and where a loop has few chunks this
    takes as long as the rest.

    Yields
    ------
    scratch : Scratch
        Of this loop alone: one inside of it, in the same thread, gets another.
    """
    scratch = getattr(_kept, "scratch", None) or Scratch()
    _kept.scratch = None
    try:
        yield scratch
    finally:
        scratch.drop_large()
        _kept.scratch = scratch
