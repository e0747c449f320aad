"""Threads for slices of rows, and limits on the threads of BLAS."""

from __future__ import annotations

import _thread  # noqa: PLC2701 (documented)
import operator
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Any, TypeVar

from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils import gen_even_slices

from .._compat import _clear_controlling_thread, _get_threadpool_controller
from .namespaces import LEAST_CHUNK

_FEW_ROWS = 2048  # largest number of rows for which a fit uses one BLAS thread
_FEW_ROWS_OF_TREES = 4096  # largest number of rows for which trees use one thread
_WORK = 2**22  # number of entries above which two threads are faster than one
Result = TypeVar("Result")


def effective_n_threads(
    n_jobs: int | None, n_rows: int, width: int | None = None
) -> int:
    """Return the number of threads if ``width`` numbers are computed for each row.

    ``n_jobs`` has the same meaning as in scikit-learn, except for None. Inside joblib
    workers and contexts, None means the number set by joblib. Elsewhere, it means the
    number of threads that BLAS would use, but at most one per processor available to
    this process. Small inputs are processed in a single thread.
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
    """Call a function on slices of the rows, in threads with one BLAS thread each.

    BLAS is limited to one thread even if there is only one slice, because its threads
    would wait for each other after the short product of each chunk. joblib is not used
    for two reasons: its thread pool sleeps between checks for results, for longer than
    a small transform takes, and each of its processes would write to its own copy of
    the output.
    """
    if n_rows <= LEAST_CHUNK:  # there is only one chunk
        return [function(slice(None))]
    if n_threads == 1:
        return [with_one_blas_thread(function, slice(None))]
    parts = [*gen_even_slices(n_rows, n_threads)]
    return with_one_blas_thread(_shared, function, parts)


# A ThreadPoolExecutor is not used, because Ctrl-C can leave its Condition locked, which
# is written in Python. All threads would then wait forever, even when the interpreter
# exits. A SimpleQueue is written in C, and the interpreter does not wait for threads
# started by _thread.
_calls: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
_n_serving = 0


def _shared(function: Callable[[slice], Result], parts: list[slice]) -> list[Result]:
    """Run the calls in threads that are reused, because starting threads is slow."""
    global _n_serving
    while _n_serving < len(parts):
        _thread.start_new_thread(_serve, ())
        _n_serving += 1
    done: SimpleQueue[tuple[int, Any, BaseException | None]] = SimpleQueue()
    for i, part in enumerate(parts):
        _calls.put((function, part, i, done))
    results = sorted((done.get() for _ in parts), key=operator.itemgetter(0))
    for _, _, error in results:
        if error is not None:
            raise error
    return [result for _, result, _ in results]


def _serve() -> None:
    """Run the calls in the queue forever, without keeping references to arrays."""
    while True:
        _run_call(*_calls.get())


def _run_call(
    function: Callable[[slice], Any], part: slice, i: int, done: SimpleQueue[Any]
) -> None:
    """Call a function on one part, and put its result or its error into a queue."""
    try:
        done.put((i, function(part), None))
    except BaseException as error:  # raised again in the calling thread
        done.put((i, None, error))


def _is_outermost() -> bool:
    """Return whether the caller is outside of joblib workers and joblib contexts."""
    backend, n_jobs = get_active_backend()
    return n_jobs in (None, 1) and not backend.nesting_level


_lock = threading.RLock()  # reentrant, because a signal handler may call transform
_users: set[object] = set()
_before: list[tuple[Any, int]] | None = None  # result of _blas_now before limiting BLAS


def _n_blas_threads() -> int:
    """Return the number of BLAS threads, as if this module had not limited it."""
    with _lock:
        libraries = _blas_now() if _before is None else _before
    return max((n_threads for _, n_threads in libraries), default=1)


def _blas_now() -> list[tuple[Any, int]]:
    """Return the BLAS libraries, and the number of threads of each."""
    libraries = _get_threadpool_controller().lib_controllers
    return [(lib, lib.num_threads) for lib in libraries if lib.user_api == "blas"]


def with_one_blas_thread(
    function: Callable[..., Result], *args: Any, **kwargs: Any
) -> Result:
    """Call a function with BLAS limited to one thread.

    Several threads may do so at the same time. The limit applies to the whole process,
    so the first call sets it and the last one to end lifts it. If each call restored
    the number of threads that it had found, calls that overlap in time would restore
    the wrong number.
    """
    # Python may raise KeyboardInterrupt after any call to a C function, and at the
    # start of any Python function such as __exit__, even while it handles another
    # KeyboardInterrupt. A finished call is therefore unregistered by a single call to a
    # C function. If lifting the limit is interrupted, a new thread, which receives no
    # signals, completes it.
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
    """Set the limit if any call needs it, or lift it if none does.

    The original numbers of threads are stored before the limit is set, and deleted
    after it is lifted. If this call is interrupted, the next one completes the work.
    """
    global _before
    with _lock:
        lifts = not _users
        if lifts == (_before is None):
            return
        if _before is None:
            _before = _blas_now()
        _clear_controlling_thread(force=True)  # so that any thread may set numbers
        for library, n_threads in _before:
            library.set_num_threads(n_threads if lifts else 1)
        _clear_controlling_thread(force=True)
        if lifts:
            _before = None


def blas_within_processors(n_rows: int) -> Callable[..., Any]:
    """Return a function that calls another function, limiting BLAS if necessary.

    BLAS may use more threads than this process has processors available, for instance
    under the quota of a container or in a process that is bound to one processor. In a
    loop over chunks, the BLAS threads wait for each other at each chunk. If several of
    them share a processor, the loop takes at least ten times as long.
    """
    # test n_rows first, because cpu_count reads files
    if n_rows <= LEAST_CHUNK or _n_blas_threads() <= cpu_count():
        return operator.call
    return with_one_blas_thread


def blas_for_fit(n_rows: int) -> Callable[..., Any]:
    """Return a function that calls another function, limiting BLAS for few rows.

    A fit to few rows consists of many operations on small matrices, for which a second
    thread gains hardly anything. On a busy machine, however, BLAS threads that wait for
    each other can make it take 20 to 60 times as long.
    """
    if n_rows <= _FEW_ROWS:
        return with_one_blas_thread
    return blas_within_processors(n_rows)


def openmp_for_rows(n_rows: int) -> AbstractContextManager[Any]:
    """Return a context in which OpenMP uses a single thread for few rows.

    On a busy machine, OpenMP threads wait for each other like those of BLAS. The limit
    applies to the calling thread only.
    """
    if n_rows > _FEW_ROWS_OF_TREES:
        return nullcontext()
    return _get_threadpool_controller().limit(limits=1, user_api="openmp")


def _begin_anew() -> None:
    """Reset the state after a fork, which copies no threads of the parent process."""
    global _lock, _calls, _n_serving
    _lock, _calls, _n_serving = threading.RLock(), SimpleQueue(), 0
    _users.clear()
    _set_or_lift()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        # hold the lock, so that no other thread is inside a BLAS library at the fork;
        # the locks of the library would remain locked in the child process
        before=lambda: _lock.acquire(),
        after_in_parent=lambda: _lock.release(),
        after_in_child=_begin_anew,
    )
