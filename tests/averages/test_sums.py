"""Sums of features in log space, against direct computation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax
from sklearn.frozen import FrozenEstimator

from sklearn_crt import NadarayaWatsonClassifier, NadarayaWatsonRegressor, OPRFSampler
from sklearn_crt.averages._sigma_choice import path_sums
from sklearn_crt.kernels import Gaussian
from sklearn_crt.rows import DenseInputs
from sklearn_crt.samplers import GeometricSampler


def log_kernel(sampler, queries, keys):
    """Return the logs of the estimates of the kernel, of positive features."""
    logs = []
    for rows, key in ((queries, False), (keys, True)):
        parts = [e for _, _, e in sampler.map_.iter_log_features(rows, key=key)]
        logs.append(np.vstack(parts))
    return logsumexp(logs[0][:, None] + logs[1], axis=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigmas", [[0.1, 0.2, 0.4, 3.2], 2.0 ** np.arange(-3, 5, 0.5)])
def test_sums_of_doubled_sigmas(sigmas, dtype, rng):
    """Weights that are squared are those of each sigma by itself, also beyond e-87.

    Each query is left out of its own sums if it is among the rows.
    """
    X, queries = 3 * rng.normal(size=(40, 3)), rng.normal(size=(9, 3))
    rows, others = (DenseInputs(Z.astype(dtype)) for Z in (X, queries))
    targets, own = rng.random((40, 2)).astype(dtype), np.arange(98, 107)
    parts = Gaussian(), others, rows, targets, np.array(sigmas), own, 100
    squares = cdist(queries, X, "sqeuclidean")
    squares[np.arange(2, 9), np.arange(7)] = np.inf
    for sigma, (found,) in zip(sigmas, path_sums(*parts), strict=True):
        logs = -0.5 * sigma**2 * squares
        expected = softmax(logs, axis=1) @ targets
        scale = np.exp(found.log_scale[:, 0] - logsumexp(logs, axis=1))
        largest = np.max(-logs, where=np.isfinite(logs), initial=1)
        rtol = 4 * np.finfo(dtype).eps * largest  # a log is rounded by so much
        assert_allclose(found.values * scale[:, None], expected, rtol=rtol)
    alone = DenseInputs(rows.dense[:1])
    parts = Gaussian(), alone, alone, targets[:1], np.array(sigmas), np.zeros(1, int), 0
    for (found,) in path_sums(*parts):
        assert not found.values.any()


@pytest.mark.parametrize("sigma", [1.0, 30.0, 300.0])
@pytest.mark.parametrize("n_rows", [40, 3000])
def test_sums_beyond_the_range_of_floats(sigma, n_rows, rng):
    """Exponents of thousands, which have no common scale."""
    X, queries = rng.normal(size=(n_rows, 3)), rng.normal(size=(50, 3))
    y, weights = rng.normal(size=(n_rows, 2)), rng.exponential(size=n_rows)
    options = {"sigma": sigma, "kernel": "softmax", "n_components": 20}
    sampler = OPRFSampler(random_state=0, **options).fit(X)
    logs = log_kernel(sampler, queries, X) + np.log(weights)
    assert sigma < 30 or logs.max() > 800
    expected = softmax(logs, axis=1) @ y
    model = NadarayaWatsonRegressor(FrozenEstimator(sampler))
    found = model.fit(X, y, weights).predict(queries)
    assert_allclose(found, expected, rtol=1e-7, atol=1e-9)
    parts = NadarayaWatsonRegressor(FrozenEstimator(sampler))
    for rows in np.array_split(np.arange(n_rows), 3):
        parts.partial_fit(X[rows], y[rows], weights[rows])
    assert_allclose(parts.predict(queries), expected, rtol=1e-7, atol=1e-9)


def test_columns_of_zeros():
    """Whose logs are minus infinity, of one class, of all rows and of queries."""
    X = np.array([[0.5, 0.0, 1.0], [0.0, 0.0, 2.0], [1.5, 0.0, 0.0], [1.0, 0.0, 1.0]])
    y, queries = np.array([0, 0, 1, 1]), np.array([[0.2, 0.0, 0.3], [0.1, 0.7, 0.0]])
    options = {"sigma": 1.0, "center": False, "n_components": 60, "random_state": 0}
    sampler = GeometricSampler(**options).fit(np.vstack([X, queries]))
    assert np.all(sampler.transform(X) >= 0)
    assert np.any(np.all(sampler.transform(X) == 0, axis=0))
    kernel = np.exp(log_kernel(sampler, queries, X))
    sums = kernel @ np.eye(2)[y]
    model = NadarayaWatsonClassifier(FrozenEstimator(sampler)).fit(X, y)
    expected = sums / sums.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(queries), expected, rtol=1e-9)
