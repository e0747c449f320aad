"""Chunks of rows, threads, and the limit of BLAS that several users share."""

import threading
import time
from collections import Counter

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator
from sklearn.preprocessing import FunctionTransformer
from threadpoolctl import threadpool_info, threadpool_limits

from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import HybridSampler

from ..hybrids import named


def blas_threads():
    return {p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"}


@pytest.fixture
def watched(with_fault):
    """Return a function that fits a sampler whose map calls another function first."""

    def fit(function, **params):
        def log_features(self, rows, **options):
            function()
            return super(type(self), self).log_features(rows, **options)

        sampler = with_fault(OPRFSampler, log_features=log_features)
        rows = np.random.default_rng(0).standard_normal((100, 3))
        return sampler(random_state=0, **params).fit(rows)

    return fit


# ---------------------------------------------------------------------------- chunks
@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 1024, 5000])
@pytest.mark.parametrize("n_components", [1, 100, 2000])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_any_number_of_rows_and_columns(n_rows, n_components, n_jobs, rng):
    X = rng.standard_normal((n_rows, 3), dtype=np.float32)
    sampler = OPRFSampler(n_components=n_components, n_jobs=n_jobs, random_state=0)
    sampler.fit(rng.standard_normal((9, 3), dtype=np.float32))
    features, start = sampler.transform(X), 0
    assert features.shape == (n_rows, n_components)
    for rows, _, exponent in sampler.map_.iter_log_features(X):
        assert rows.start == start
        assert_allclose(features[rows], np.exp(exponent), rtol=1e-4)
        start = rows.stop
    assert start == n_rows


@pytest.mark.parametrize("sampler", [TrigRBFSampler, OPRFSampler])
def test_features_that_were_given_stay(sampler, rng):
    """Also where the next transform of the thread takes the same memory."""
    X, Y = rng.normal(size=(2, 600, 3))
    fitted = sampler(random_state=0).fit(X)
    first = fitted.transform(X)
    kept = first.copy()
    fitted.transform(Y)
    assert_array_equal(first, kept)


class Inner(BaseEstimator):
    """A third-party sampler, whose transform calls that of a sampler of the package."""

    def __init__(self, *, n_components=100, calls_transform=True, random_state=None):
        self.n_components = n_components
        self.calls_transform = calls_transform
        self.random_state = random_state

    def fit(self, X, y=None):
        options = {"sigma": 2.0, "random_phase": True, "random_state": 0}
        self.kernel_ = TrigRBFSampler(n_components=self.n_components, **options).fit(X)
        return self

    def transform(self, X):
        if self.calls_transform:
            return self.kernel_.transform(X)
        phases = 2.0 * X @ self.kernel_.frequencies_ + self.kernel_.phase_
        return np.sqrt(2 / self.n_components) * np.cos(phases)

    def exact_kernel(self, X, Y=None):
        return self.kernel_.exact_kernel(X, Y)

    def kernel_variance(self, X, Y=None):
        return self.kernel_.kernel_variance(X, Y)


def test_transform_inside_of_transform(rng):
    """The inner loop leaves the memory of the outer one alone."""
    X = rng.normal(size=(5000, 3))
    features = []
    for calls_transform in (True, False):
        bases = named(Inner(calls_transform=calls_transform), OPRFSampler())
        options = {"sigma": 1.0, "n_components": 48, "random_state": 0}
        features.append(HybridSampler(bases=bases, **options).fit(X).transform(X))
    assert_allclose(*features, rtol=1e-9, atol=1e-12)


# --------------------------------------------------------------------------- threads
def test_two_overlapping_users_leave_the_threads_of_blas_as_they_were(watched, rng):
    """Each alone would restore what it saw: one thread, for ever."""
    X = rng.standard_normal((300, 3))
    inside, leave = threading.Barrier(2, timeout=60), threading.Event()
    seen = []

    def first():
        inside.wait()
        leave.wait(60)

    def second():  # begins before the first ends, and ends after it
        inside.wait()
        seen.append(blas_threads())
        leave.set()
        thread.join(60)
        seen.append(blas_threads())

    one, other = watched(first, n_jobs=1), watched(second, n_jobs=1)
    with threadpool_limits(2, user_api="blas"):
        thread = threading.Thread(target=one.transform, args=(X,), daemon=True)
        thread.start()
        other.transform(X)
        assert seen == [{1}, {1}]
        assert blas_threads() == {2}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_lifts_the_limit(n_jobs, watched, rng):
    def fail():
        if fails:
            raise KeyError("no row")

    X, fails = rng.standard_normal((4000, 3)), False
    sampler = watched(fail, n_jobs=n_jobs)
    expected = sampler.transform(X)
    fails = True
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(KeyError, match="no row"):
            sampler.transform(X)
        assert blas_threads() == {2}
    fails = False
    assert_array_equal(sampler.transform(X), expected)


@pytest.fixture
def count_threads(watched):
    """Return a function that counts the threads of a transform of many rows."""
    X = np.random.default_rng(0).standard_normal((20_000, 3))

    def count(n_jobs=None):
        seen = Counter()

        def note():
            seen[threading.get_ident()] += 1
            time.sleep(0.02)  # so that no thread takes the work of another

        watched(note, n_components=256, n_jobs=n_jobs).transform(X)
        return len(seen)

    return count


def test_number_of_threads(count_threads, monkeypatch):
    with threadpool_limits(1, user_api="blas"):
        assert count_threads() == 1
        assert count_threads(2) == 2
        assert count_threads(-1) == joblib.cpu_count()
    with threadpool_limits(2, user_api="blas"):
        most = min(joblib.cpu_count(), *blas_threads())
        assert count_threads() == most
        with parallel_config(n_jobs=3, backend="threading"):
            assert count_threads() == 3
        monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
        assert count_threads() == 1


def test_inside_of_threads_there_is_one(count_threads):
    with parallel_config(backend="threading"):
        counts = (joblib.delayed(count_threads)() for _ in range(2))
        assert joblib.Parallel(n_jobs=2)(counts) == [1, 1]


@pytest.mark.slow  # two processes start
def test_inside_of_processes_there_is_one_thread():
    def count():
        import threading

        import numpy as np

        from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler

        seen = set()

        def watched(rows, others):
            seen.add(threading.get_ident())
            return np.ones((len(rows), len(others)))

        X = np.random.default_rng(0).standard_normal((4000, 3))
        NadarayaWatsonRegressor(kernel=watched).fit(X, X[:, 0]).predict(X)
        before = threading.active_count()
        OPRFSampler().fit(X).transform(X)
        return len(seen), threading.active_count() - before

    with parallel_config(backend="loky"):
        found = joblib.Parallel(n_jobs=2)(joblib.delayed(count)() for _ in range(2))
    assert found == [(1, 0), (1, 0)]


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
    if joblib.cpu_count() < n_processors:
        pytest.skip(f"there are no {n_processors} processors")
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", str(n_processors))
    X, kernel = 0.1 * rng.standard_normal((2100, 3)), Watched()
    features = FunctionTransformer(lambda rows: kernel(rows, rows[:2]))
    with threadpool_limits(2, user_api="blas"):
        exact = NadarayaWatsonRegressor(kernel=kernel, sigma=1.0)
        exact.fit(X, X[:, 0]).predict(X)
        assert kernel.seen == expected
        kernel.seen = set()
        model = NadarayaWatsonRegressor(features).fit(X, X[:, 0])
        assert kernel.seen == expected
        kernel.seen = set()
        model.predict(X)
        assert kernel.seen == expected
        assert blas_threads() == {2}
