"""Chunks of rows, threads, and the limit of BLAS that several users share."""

import threading

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler
from sklearn_crt.rows import Statistics, effective_n_threads, in_threads, row_chunks
from sklearn_crt.rows._chunks import one_blas_thread


def blas_threads():
    return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}


@pytest.mark.parametrize("n_rows", [1, 255, 256, 1024, 5000])
@pytest.mark.parametrize("width", [1, 100, 10**6])
def test_chunks_cover_the_rows(n_rows, width):
    chunks = list(row_chunks(n_rows, width, 8))
    assert [i for chunk in chunks for i in range(chunk.start, chunk.stop)] == list(
        range(n_rows)
    )
    assert max(chunk.stop - chunk.start for chunk in chunks) <= 8192


def test_two_overlapping_users_leave_the_threads_of_blas_as_they_were():
    """Each alone would restore what it saw: one thread, for ever."""
    inside, leave = threading.Barrier(2, timeout=60), threading.Event()

    def first():
        with one_blas_thread():
            inside.wait()
            leave.wait(60)

    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=first, daemon=True)
        thread.start()
        with one_blas_thread():  # begins before the other ends, and ends after it
            inside.wait()
            assert blas_threads() == {1}
            leave.set()
            thread.join(60)
            assert blas_threads() == {1}
        assert blas_threads() == {2}


def test_an_error_lifts_the_limit():
    def fail(part):
        raise KeyError("no row")

    with threadpool_limits(2, user_api="blas"):
        for n_threads in (1, 2):
            with pytest.raises(KeyError, match="no row"):
                in_threads(fail, 4000, n_threads)
            assert blas_threads() == {2}


def test_number_of_threads(monkeypatch):
    monkeypatch.setattr("sklearn_crt.rows._chunks.cpu_count", lambda: 3)
    assert effective_n_threads(None, 100) == 1
    with threadpool_limits(8, user_api="blas"):
        assert effective_n_threads(None, 10**5) == min(3, max(blas_threads()))
        with one_blas_thread():  # of another thread of the process
            assert effective_n_threads(None, 10**5) == min(3, 8)
        with parallel_config(n_jobs=2, backend="threading"):
            assert effective_n_threads(None, 10**5) == 2
    with threadpool_limits(1, user_api="blas"):
        assert effective_n_threads(None, 10**5) == 1
        assert effective_n_threads(2, 10**5) == 2
        assert effective_n_threads(-1, 10**5) == joblib.cpu_count()


@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_inside_of_workers_there_is_one_thread(backend):
    with parallel_config(backend=backend):
        found = joblib.Parallel(n_jobs=2)(
            joblib.delayed(effective_n_threads)(None, 10**5) for _ in range(2)
        )
    assert found == [1, 1]


def test_results_come_in_the_order_of_the_rows():
    parts = in_threads(lambda part: np.arange(4000)[part], 4000, 3)
    assert len(parts) == 3
    assert np.array_equal(np.concatenate(parts), np.arange(4000))


class Watched:
    """A kernel that notes the threads of BLAS while it works."""

    def __init__(self):
        self.seen = set()

    def __call__(self, X, Y):
        self.seen |= blas_threads()
        return np.exp(X @ Y.T)


@pytest.mark.parametrize("n_processors, expected", [(1, {1}), (2, {2})])
def test_estimators_give_blas_no_more_threads_than_processors(
    n_processors, expected, monkeypatch, rng
):
    monkeypatch.setattr("sklearn_crt.rows._chunks.cpu_count", lambda: n_processors)
    X, kernel = 0.1 * rng.standard_normal((600, 3)), Watched()
    statistics, read = [], Statistics.read
    monkeypatch.setattr(
        Statistics,
        "read",
        lambda *args, **options: (
            statistics.append(blas_threads()) or read(*args, **options)
        ),
    )
    features = FunctionTransformer(lambda rows: kernel(rows, rows[:2]))
    with threadpool_limits(2, user_api="blas"):
        exact = NadarayaWatsonRegressor("exact", kernel=kernel, sigma=1.0)
        exact.fit(X, X[:, 0]).predict(X)
        assert kernel.seen == expected
        kernel.seen = set()
        model = NadarayaWatsonRegressor(features).fit(X, X[:, 0])
        assert kernel.seen == expected
        kernel.seen = set()
        model.predict(X)
        assert kernel.seen == expected
        statistics.clear()
        OPRFSampler().fit(X)
        assert statistics == [expected]
        assert blas_threads() == {2}
