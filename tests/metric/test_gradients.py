"""The evidence of the Gaussian process against its definition, and what it finds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF

from sklearn_crt.metric import _candidates, _gradients
from sklearn_crt.samplers import _column_sigmas

PENALTIES = 1e-5, 1e-4, 1e-3, 1e-2  # relative to the total weight


@pytest.fixture
def process(rng):
    """Return a process of two targets, and log scales and noise."""
    X = rng.normal(size=(40, 3))
    targets = np.stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2 - 1], axis=1)
    targets += 0.1 * rng.normal(size=targets.shape)
    inverse = rng.uniform(0.5, 2, size=40)
    parameters = np.append(rng.normal(size=3) * 0.3, np.log(0.1))
    return _column_sigmas.GaussianProcess(X, targets, inverse), parameters


def covariance(process, parameters):
    Z = process.X * np.exp(parameters[:-1])
    R = np.exp(-0.5 * cdist(Z, Z, "sqeuclidean"))
    return R + np.exp(parameters[-1]) * np.diag(process.inverse_weights)


def test_loss_and_its_gradient(process):
    process, at = process
    common = np.array([0.1, 0.2, -0.3])
    value, slope = process.loss(at, common)
    K = covariance(process, at)
    sizes = np.diagonal(process.targets.T @ np.linalg.solve(K, process.targets)) / 40
    expected = 0.5 * (np.log(sizes).mean() + np.linalg.slogdet(K)[1] / 40)
    expected += 0.3 / 40 * np.sum((at[:-1] - common) ** 2)
    assert_allclose(value, expected)
    numeric = approx_fprime(at, lambda p: process.loss(p, common)[0], 1e-7)
    assert_allclose(slope, numeric, rtol=1e-4, atol=1e-6)


def test_loss_is_minus_the_log_evidence(process):
    """The profiled variance is the one of most evidence for scikit-learn's process."""
    process, at = process
    y, n = process.targets[:, 0], 40
    K = covariance(process, at)
    size = y @ np.linalg.solve(K, y) / n
    kernel = RBF(np.exp(-at[:-1]))
    values = []
    for factor in (0.9, 1.0, 1.1):
        scaled = factor * size * (K - covariance(process, np.append(at[:-1], -1e3)))
        model = GaussianProcessRegressor(
            factor * size * kernel, alpha=np.diagonal(scaled).copy(), optimizer=None
        ).fit(process.X, y)
        values.append(model.log_marginal_likelihood())
    assert values[1] > max(values[0], values[2])
    one = _column_sigmas.GaussianProcess(process.X, y[:, None], process.inverse_weights)
    found = -n * one.loss(at, at[:-1])[0] - n / 2 * (1 + np.log(2 * np.pi))
    assert_allclose(found, values[1], rtol=1e-9)


def test_products_of_gradients(process):
    process, at = process
    weights = np.linalg.solve(covariance(process, at), process.targets)
    scales = np.exp(at[:-1])

    def mean(x):
        Z = (x - process.X) * scales
        return np.exp(-0.5 * np.sum(Z**2, axis=1)) @ weights

    expected, step = np.zeros((3, 3)), 1e-6
    for x, inverse in zip(process.X, process.inverse_weights, strict=True):
        J = [(mean(x + step * e) - mean(x - step * e)) / (2 * step) for e in np.eye(3)]
        expected += np.array(J) @ np.array(J).T / inverse
    found = process.gradient_products(at)
    assert_allclose(found, expected, rtol=1e-5, atol=1e-7 * np.trace(expected))


def test_irrelevant_columns_are_shrunk(rng):
    """Of 20 columns one is linear, one is a sine, and no other has an effect."""
    X = rng.normal(size=(600, 20))
    y = X[:, 0] + np.sin(2 * X[:, 1]) + 0.2 * rng.normal(size=600)
    M = _candidates.learn_evidence(X, y[:, None] / y.std(), np.ones(600))
    assert_allclose(M, M.T, atol=1e-12)
    assert_allclose(np.trace(M), 2)
    share = np.diagonal(M) / 2
    assert share[:2].sum() > 0.95
    assert share[:2].min() > 20 * share[2:].max()


# -------------------------------------------------------------------------- AGOP
@pytest.fixture
def ridge_parts(rng):
    """Return rows, targets, shares, the rows held out, and frequencies."""
    X = rng.normal(size=(200, 4))
    targets = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1)
    share = rng.uniform(0.5, 2, size=200)
    held = np.arange(200) % 5 == 0
    return X, targets, share / share.sum(), held, rng.normal(size=(4, 12))


def features(X, W):
    phases = X @ W
    return np.hstack([np.cos(phases), np.sin(phases)]) / np.sqrt(W.shape[1])


def test_error_and_mean_outer_product_of_gradients(ridge_parts):
    X, targets, share, held, W = ridge_parts
    F, errors = features(X, W), []

    def solved(rows, penalty):
        left = F[rows].T * share[rows]
        return np.linalg.solve(
            left @ F[rows] + penalty * np.eye(24), left @ targets[rows]
        )

    for penalty in PENALTIES:
        gaps = F[held] @ solved(~held, penalty) - targets[held]
        errors.append(share[held] @ np.sum(gaps**2, axis=1))
    coefficients = solved(held | ~held, PENALTIES[np.argmin(errors)])
    expected, step = np.zeros((4, 4)), 1e-6
    for x, weight in zip(X, share, strict=True):
        sides = [features(x + s * step * np.eye(4), W) for s in (1, -1)]
        J = (sides[0] - sides[1]) @ coefficients / (2 * step)
        expected += weight * J @ J.T
    error, found = _gradients.one_round(*ridge_parts)
    assert_allclose(error, min(errors))
    assert_allclose(found, expected, rtol=1e-5, atol=1e-8 * np.trace(expected))


def test_rounds_find_directions(rng):
    """The target depends on one direction of ten columns."""
    X = rng.normal(size=(1500, 10))
    direction = np.linalg.qr(rng.normal(size=(10, 1)))[0][:, 0]
    y = np.sin(2 * X @ direction) + 0.3 * rng.normal(size=1500)
    targets, weights = (y / y.std())[:, None], np.ones(1500)
    first = np.eye(10) / 10
    found = _gradients.learn_agop(X, targets, weights, first, seed=0)
    M = found - 0.03 * first  # the share of the first metric
    assert_allclose(np.trace(M), 1)
    assert direction @ M @ direction > 0.9
