"""The one loop over rows: how many at a time, and in which threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from joblib import effective_n_jobs
from sklearn.utils import gen_batches, gen_even_slices

from .._compat import _get_threadpool_controller

_CHUNK_BYTES = 2**21  # of features: few enough for the cache, enough for the product
_LEAST, _MOST = 256, 1024  # rows
Result = TypeVar("Result")


def row_chunks(n_rows: int, width: int, itemsize: int) -> Iterator[slice]:
    """Return slices of the rows whose features fit the cache.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    width : int
        Numbers a row, of the table or of the features, whichever are more.
    itemsize : int
        Bytes a number.

    Returns
    -------
    chunks : generator of slice
        Of 256 to 1024 rows; the last may be shorter.
    """
    size = _CHUNK_BYTES // (width * itemsize)
    return gen_batches(n_rows, min(max(_LEAST, size), _MOST))


def effective_n_threads(n_jobs: int | None, n_rows: int) -> int:
    """Return the number of threads for some rows.

    Parameters
    ----------
    n_jobs : int or None
        As in scikit-learn.
    n_rows : int
        Number of rows, at least one a thread.

    Returns
    -------
    n_threads : int
        At least 1.
    """
    return max(1, min(effective_n_jobs(n_jobs), n_rows))


def in_threads(
    function: Callable[[slice], Result], n_rows: int, n_threads: int
) -> list[Result]:
    """Call a function on even slices of the rows, each in a thread with one of BLAS.

    joblib's pool would sleep between looks for results, longer than a small transform
    takes, and under a backend of processes it would fill copies of the output.

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
    if n_threads == 1:
        return [function(slice(None))]
    with one_blas_thread(), ThreadPoolExecutor(n_threads) as pool:
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
            _limit = _get_threadpool_controller().limit(limits=1, user_api="blas")
        _n_users += 1
    try:
        yield
    finally:
        with _lock:
            _n_users -= 1
            if _n_users == 0:
                _limit.restore_original_limits()
                _limit = None
