"""The exact estimator: the definition, blocks, kinds of rows, close pairs."""

import copy
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    kernels,
)
from sklearn_crt.extend import RadialKernel
from sklearn_crt.samplers import HybridSampler, PositiveRBFSampler

POSITIVE = [PositiveRBFSampler, OPRFSampler]


@dataclass(frozen=True)
class Laplacian(RadialKernel):
    """A kernel of a user's own, given by its logarithm."""

    def log_profile(self, r):
        return -r


SIGMAS = np.logspace(-2, 2, 10)


def by_hand(kernel, y, weights=None):
    """Return class probabilities from the definition."""
    weights = np.ones(len(y)) if weights is None else weights
    sums = np.stack([kernel @ (weights * (y == c)) for c in np.unique(y)], axis=1)
    return sums / sums.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("n_train", [150, 7])
@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({"kernel": "gaussian"}, lambda X, Y: rbf_kernel(X, Y, gamma=0.5)),
        ({"kernel": "laplacian"}, Matern(nu=0.5)),
        ({"kernel": "matern"}, Matern(nu=1.5)),
        ({"kernel": kernels.Matern(2.5)}, Matern(nu=2.5)),
        ({"kernel": kernels.Matern(0.8)}, Matern(nu=0.8)),
        ({"kernel": kernels.Matern(np.inf)}, Matern(nu=np.inf)),
        ({"kernel": laplacian_kernel}, laplacian_kernel),
        ({"kernel": Laplacian()}, Matern(nu=0.5)),
    ],
)
def test_exact(frequencies_of, options, kernel, n_train, iris, rng):
    X, y = iris
    keep = rng.permutation(150)[:n_train]
    weights = rng.exponential(size=n_train)
    model = NadarayaWatsonClassifier(sigma=1.7, **options)
    model.fit(X[keep], y[keep], weights)
    expected = by_hand(kernel(1.7 * X, 1.7 * X[keep]), y[keep], weights)
    assert_allclose(frequencies_of(model, X), expected, rtol=1e-7, atol=1e-12)
    assert model.sigma_ == 1.7


def test_exact_regression_of_several_outputs(iris):
    X, _ = iris
    y = X[:, :2] ** 2 + 1e6
    kernel = rbf_kernel(X, gamma=0.5 * 2.0**2)
    expected = kernel @ y / kernel.sum(axis=1, keepdims=True)
    model = NadarayaWatsonRegressor(sigma=2.0).fit(X, y)
    assert_allclose(model.predict(X), expected, rtol=1e-12)
    one = NadarayaWatsonRegressor(sigma=2.0).fit(X, y[:, 0])
    assert_allclose(one.predict(X), expected[:, 0], rtol=1e-12)


def test_exact_blocks_do_not_matter(frequencies_of, rng):
    X, y = rng.normal(size=(5000, 3)), rng.integers(0, 3, size=5000)
    queries = rng.normal(size=(700, 3))
    expected = by_hand(rbf_kernel(queries, X, gamma=0.5), y)
    model = NadarayaWatsonClassifier(sigma=1.0).fit(X, y)
    assert_allclose(frequencies_of(model, queries), expected, rtol=1e-9)
    in_single = frequencies_of(model, queries.astype(np.float32))
    assert in_single.dtype == np.float32
    assert_allclose(in_single, expected, atol=1e-5)


@pytest.mark.parametrize(
    "kernel",
    [
        "gaussian",
        Laplacian(),
        OPRFSampler(random_state=0),
        HybridSampler(random_state=0, sigma=0.2),
    ],
    ids=str,
)
def test_sparse_and_dense_rows_together(kernel, iris):
    X, y = iris[0] + [3, 0, -1, 0], iris[1]
    expected = NadarayaWatsonClassifier(kernel).fit(X, y).predict_proba(X)
    for rows, others in ((sparse.csr_array(X), X), (X, sparse.csr_array(X))):
        model = NadarayaWatsonClassifier(kernel).fit(rows, y)
        assert_allclose(model.predict_proba(others), expected, atol=1e-8)
        if isinstance(kernel, (str, RadialKernel)):
            model = NadarayaWatsonClassifier(kernel)
            model.partial_fit(rows[:70], y[:70], classes=np.unique(y))
            model.partial_fit(others[70:], y[70:])
            for queries in (rows, others):
                assert_allclose(model.predict_proba(queries), expected, atol=1e-8)


def test_a_copy_outlives_a_fit_of_the_original(iris):
    X, y = iris
    model = NadarayaWatsonClassifier().fit(X, y)
    other = copy.copy(model)
    expected = other.predict_proba(X)
    model.fit(X[:100], y[:100])
    assert_array_equal(other.predict_proba(X), expected)
    model.partial_fit(X[:100], y[:100])
    assert_array_equal(other.predict_proba(X), expected)


@pytest.mark.parametrize("kernel", ["laplacian", "matern"])
def test_close_pairs_in_single_precision(kernel, rng):
    """Of |x|^2 + |y|^2 - 2 x.y float32 leaves nothing at these distances."""
    first = rng.normal(size=(200, 8))
    steps = rng.normal(size=(200, 8))
    second = first + 0.01 * steps / np.linalg.norm(steps, axis=1, keepdims=True)
    X = np.vstack([first, second]).astype(np.float32)
    y = np.r_[np.zeros(200), np.ones(200)]
    model = NadarayaWatsonRegressor(kernel=kernel, sigma=100.0)
    single = model.fit(X, y).predict(X)
    double = model.fit(X.astype(np.float64), y).predict(X.astype(np.float64))
    assert_allclose(single, double, atol=1e-4)
