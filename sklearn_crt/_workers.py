"""Threads for parts of a table, limits on those of BLAS, and memory for chunks."""

from __future__ import annotations

import _thread  # noqa: PLC2701 (documented)
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any, TypeVar

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from numpy.typing import DTypeLike
from sklearn.utils import gen_even_slices

from ._array import LEAST_CHUNK
from ._compat import _clear_controlling_thread, _get_threadpool_controller

_WORK = 2**22  # numbers from which two threads are faster than one by the clock
_KEPT_BYTES = 2**20  # of a buffer that stays between two loops
Result = TypeVar("Result")


# -------------------------------------------------------------------------- threads
def effective_n_threads(
    n_jobs: int | None, n_rows: int, width: int | None = None
) -> int:
    """Return the number of threads for rows, which become ``width`` numbers each.

    As in scikit-learn, except that None is no single thread: it is as many as the
    linear algebra would take, at most one for each processor that this process may
    use, and what joblib says inside of its workers and contexts. Small work has one.
    """
    n_chunks = n_rows // LEAST_CHUNK
    if n_chunks < 2 or (width is not None and n_rows * width < _WORK):
        return 1
    if n_jobs is None and _is_outermost():
        return min(n_chunks, _n_blas_threads(), cpu_count())
    return min(n_chunks, effective_n_jobs(n_jobs))


def in_threads(
    function: Callable[[slice], Result], n_rows: int, n_threads: int
) -> list[Result]:
    """Call a function on even slices of the rows, in threads with one of BLAS each.

    Also where there is one of ours: after each short product of a chunk those of BLAS
    would wait for each other. joblib's pool would sleep between looks for results,
    longer than a small transform takes, and processes would fill copies of the output.
    """
    if n_rows <= LEAST_CHUNK:  # a single chunk
        return [function(slice(None))]
    if n_threads == 1:
        return [with_one_blas_thread(function, slice(None))]
    parts = [*gen_even_slices(n_rows, n_threads)]
    return with_one_blas_thread(_shared, function, parts)


# Ctrl-C can leave a Condition of ThreadPoolExecutor locked, as it is Python: then all
# threads wait for ever, also at the exit. A SimpleQueue is C, and no exit waits for
# these threads.
_calls: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
_n_serving = 0


def _shared(function: Callable[[slice], Result], parts: list[slice]) -> list[Result]:
    """Return results from threads, which stay: to start them takes long."""
    global _n_serving
    while _n_serving < len(parts):
        _thread.start_new_thread(_serve, ())
        _n_serving += 1
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
    for i, part in enumerate(parts):
        _calls.put((function, part, i, done))
    answers = sorted((done.get() for _ in parts), key=operator.itemgetter(0))
    for _, _, error in answers:
        if error is not None:
            raise error
    return [result for _, result, _ in answers]


def _serve() -> None:
    """Answer calls, and hold none of their arrays while there is none."""
    while True:
        _answer(*_calls.get())


def _answer(
    function: Callable[[slice], Any], part: slice, i: int, done: SimpleQueue[Any]
) -> None:
    """Put the number of a part with its result, or with the error."""
    try:
        done.put((i, function(part), None))
    except BaseException as error:  # raised in the thread that asked
        done.put((i, None, error))


def _is_outermost() -> bool:
    """Return whether joblib has been told nothing: no worker, no context."""
    backend, n_jobs = get_active_backend()
    return n_jobs in (None, 1) and not backend.nesting_level


# ----------------------------------------------------------------------------- BLAS
_lock = threading.RLock()  # again in one thread where a signal's handler transforms
_users: set[object] = set()
_before: list[tuple[Any, int]] | None = None  # what _blas_now was before a limit


def _n_blas_threads() -> int:
    """Return the number of threads of BLAS before any limit of ours."""
    with _lock:
        libraries = _blas_now() if _before is None else _before
    return max((n_threads for _, n_threads in libraries), default=1)


def _blas_now() -> list[tuple[Any, int]]:
    """Return the libraries of BLAS, and the number of threads of each."""
    libraries = _get_threadpool_controller().lib_controllers
    return [(lib, lib.num_threads) for lib in libraries if lib.user_api == "blas"]


def with_one_blas_thread(
    function: Callable[..., Result], *args: Any, **kwargs: Any
) -> Result:
    """Call a function with BLAS held to one thread, in however many threads.

    The limit is one of the process, so the first user sets it and the last one lifts
    it: two that overlap would each restore what it saw.
    """
    # Python raises KeyboardInterrupt after a call of C, and where a function of its own
    # begins, as an __exit__ would be. One may come while another is handled. So a user
    # leaves by one call of C, and one more has a thread do what was cut off: there are
    # no signals there.
    user = object()
    try:
        try:
            _users.add(user)
            _set_or_lift()
            return function(*args, **kwargs)
        finally:
            _users.discard(user)
            _set_or_lift()
    except BaseException:
        if _before is not None:
            _thread.start_new_thread(_set_or_lift, ())
        raise


def _set_or_lift() -> None:
    """Set the limit if there are users, lift it if there are none.

    What was before is noted first and forgotten last: where this is cut off, the next
    call does all of it.
    """
    global _before
    with _lock:
        if _users and _before is None:
            _before = _blas_now()
            _set_threads([(library, 1) for library, _ in _before])
        elif not _users and _before is not None:
            _set_threads(_before)
            _before = None


def _set_threads(numbers: list[tuple[Any, int]]) -> None:
    """Set numbers of threads in this thread: the last user need not be the first."""
    _clear_controlling_thread(force=True)
    for library, n_threads in numbers:
        library.set_num_threads(n_threads)
    _clear_controlling_thread(force=True)


def blas_within_processors(n_rows: int) -> Callable[..., Any]:
    """Return what calls a function, with one thread of BLAS if processors are fewer.

    As under a quota of a container, or in a process that is bound to a processor. A
    loop over chunks is a barrier for the threads of BLAS at each chunk, and those
    that share a processor wait for each other in turn: ten times as long, and more.
    """
    if n_rows <= LEAST_CHUNK or _n_blas_threads() <= cpu_count():  # which reads files
        return operator.call
    return with_one_blas_thread


def _begin_anew() -> None:
    """Forget the threads of the process that this one was forked from."""
    global _lock, _calls, _n_serving
    _lock, _calls, _n_serving = threading.RLock(), SimpleQueue(), 0
    _users.clear()
    _set_or_lift()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        # no other thread is amid a library then, whose locks would stay as they are
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_begin_anew,
    )


# --------------------------------------------------------------------------- memory
class Workspace:
    """Buffers of arrays that are gone with the next chunk of rows.

    An allocator may give each large array pages of its own, and return them to the
    system afterwards: so glibc does under the settings of Dask's workers. Then a new
    array for each chunk costs more than what is computed in it. One such value belongs
    to one loop in one thread.
    """

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}
        self._last: dict[str, np.ndarray] = {}  # as they were given out
        self._lent: tuple[str, np.ndarray] | None = None

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Return an array whose numbers are left from its last use."""
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
        """Give the next buffer of a name this memory, where results are to stand."""
        self._lent = name, array

    def drop_large(self) -> None:
        """Forget buffers beyond 1 MiB."""
        for name in [*self._memory]:
            if self._memory[name].size > _KEPT_BYTES:
                del self._memory[name], self._last[name]
        self._lent = None


_kept = threading.local()


@contextmanager
def kept_workspace() -> Iterator[Workspace]:
    """Lend the workspace that this thread keeps: new pages of memory take long."""
    workspace = getattr(_kept, "workspace", None) or Workspace()
    _kept.workspace = None
    try:
        yield workspace
    finally:
        workspace.drop_large()
        _kept.workspace = workspace
