"""The one loop over rows: how many at a time, and in which threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
from joblib import cpu_count, effective_n_jobs
from joblib.parallel import get_active_backend
from sklearn.utils import gen_even_slices

from .._compat import _clear_controlling_thread, _get_threadpool_controller
from ._unit_rows import Rows

_CHUNK_BYTES = 2**21  # of features: few enough for the cache, enough for the product
_LEAST, _MOST = 256, 1024  # rows
_MOST_IN_PLACE = 8192  # where the features need no memory of their own
Result = TypeVar("Result")


def width_of(X: Rows, n_components: int) -> int:
    """Return the width for ``row_chunks`` of a table whose rows become features.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The table.
    n_components : int
        Number of columns of the features.

    Returns
    -------
    width : int
        A column of a sparse table counts little, and not nothing: some maps write a
        chunk of rows out.
    """
    share = 1 if isinstance(X, np.ndarray) else 32
    return max(n_components, X.shape[1] // share)


def row_chunks(
    n_rows: int, width: int, itemsize: int, *, in_place: bool = False
) -> Iterator[slice]:
    """Return slices of the rows whose features fit the cache.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    width : int
        Numbers a row, of the table or of the features, whichever are more.
    itemsize : int
        Bytes a number.
    in_place : bool, default=False
        Whether the features of a chunk are written where they belong: then chunks of
        narrow features may be larger.

    Returns
    -------
    chunks : generator of slice
        Of 256 to 1024 rows, 8192 in place; the last may be shorter.
    """
    most = _MOST_IN_PLACE if in_place else _MOST
    size = min(max(_LEAST, _CHUNK_BYTES // (width * itemsize)), most)
    # gen_batches takes longer to validate its arguments than a row to be mapped
    return (slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size))


def effective_n_threads(n_jobs: int | None, n_rows: int) -> int:
    """Return the number of threads for some rows.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn, except that None is no single thread: it is as many as the
        linear algebra would take, at most one for each processor that this process
        may use, and what joblib says inside of its workers and contexts.
    n_rows : int
        Number of rows; fewer than two chunks have one thread.

    Returns
    -------
    n_threads : int
        At least 1.
    """
    n_chunks = n_rows // _LEAST
    if n_chunks < 2:
        return 1
    if n_jobs is None and _is_outermost():
        return min(n_chunks, _n_blas_threads(), cpu_count())
    return min(n_chunks, effective_n_jobs(n_jobs))


def _is_outermost() -> bool:
    """Return whether joblib has been told nothing: no worker, no context."""
    backend, n_jobs = get_active_backend()
    return n_jobs in (None, 1) and not backend.nesting_level


def _n_blas_threads() -> int:
    """Return the number of threads of BLAS before any limit of ours."""
    with _lock:
        if _limit is not None:
            numbers = _limit.get_original_num_threads()
            return numbers["blas"] or 1
    controller = _get_threadpool_controller().select(user_api="blas")
    return max((lib.num_threads for lib in controller.lib_controllers), default=1)


def in_threads(
    function: Callable[[slice], Result], n_rows: int, n_threads: int
) -> list[Result]:
    """Call a function on even slices of the rows, in threads with one of BLAS each.

    BLAS has one thread also where there is one: products of a chunk are short, and
    its threads would wait for each other after each of them. joblib's pool would sleep
    between looks for results, longer than a small transform takes, and under a backend
    of processes it would fill copies of the output.

    Parameters
    ----------
    function : callable
        Takes a slice of the rows.
    n_rows, n_threads : int
        How many.

    Returns
    -------
    results : list
        What the calls returned, in the order of the rows.
    """
    if n_rows <= _LEAST:  # one chunk
        return [function(slice(None))]
    with one_blas_thread():
        if n_threads == 1:
            return [function(slice(None))]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(function, gen_even_slices(n_rows, n_threads)))


_lock = threading.Lock()
_n_users = 0
_limit = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, in however many threads this is entered.

    The limit is one of the process, so the first user sets it and the last one lifts
    it: two that overlap would each restore what it saw.

    Yields
    ------
    None
        While the limit holds.
    """
    global _n_users, _limit
    with _lock:
        if _n_users == 0:
            with _any_thread_may_set():
                _limit = _get_threadpool_controller().limit(limits=1, user_api="blas")
        _n_users += 1
    try:
        yield
    finally:
        with _lock:
            _n_users -= 1
            if _n_users == 0:
                with _any_thread_may_set():
                    _limit.restore_original_limits()
                _limit = None


@contextmanager
def blas_within_processors(n_rows: int) -> Iterator[None]:
    """Hold BLAS to one thread where it has more than this process has processors.

    As under a quota of a container, or in a process that is bound to a processor. A
    loop over chunks is a barrier for the threads of BLAS at each chunk, and those
    that share a processor wait for each other in turn: ten times as long, and more.

    Parameters
    ----------
    n_rows : int
        Number of rows of the loop; nothing is done for a single chunk.

    Yields
    ------
    None
        While the limit holds.
    """
    if n_rows <= _LEAST:
        yield
        return
    n_threads = _n_blas_threads()
    if n_threads == 1 or n_threads <= cpu_count():  # which reads files
        yield
        return
    with one_blas_thread():
        yield


@contextmanager
def _any_thread_may_set() -> Iterator[None]:
    """Let this thread set the number: the last user need not be the first."""
    _clear_controlling_thread(force=True)
    yield
    _clear_controlling_thread(force=True)
