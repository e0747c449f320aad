"""Local linear fits of tables with more columns than there are slopes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score, train_test_split

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    Prototypes,
)

KERNELS = "gaussian", Prototypes(64, random_state=0)
N_DIRECTIONS = 24


def table(rng, n_rows=500, n_features=60):
    """Rows near a space of 20 dimensions, and a linear function of them."""
    basis = np.linalg.qr(rng.normal(size=(n_features, 20)))[0]
    X = rng.normal(size=(n_rows, 20)) @ basis.T
    X += 1e-3 * rng.normal(size=X.shape)
    return X, X @ basis[:, 0] + 2 * X @ basis[:, 1] + 3, basis[:, 0] + 2 * basis[:, 1]


def leading_directions(points, weights):
    V = np.linalg.eigh(np.cov(points.T, aweights=weights, bias=True))[1]
    return V[:, : -N_DIRECTIONS - 1 : -1]


def test_values_and_slopes_are_those_of_weighted_least_squares(rng):
    X, y, _ = table(rng)
    y = y**2
    model = LocalLinearRegressor(sigma=0.3, alpha=0.0).fit(X[:400], y[:400])
    V = leading_directions(X[:400], np.ones(400, int))
    for q, found, slopes in zip(
        X[400:420], model.predict(X[400:420]), model.slopes(X[400:420]), strict=True
    ):
        w = np.sqrt(np.exp(-0.5 * 0.09 * np.sum((X[:400] - q) ** 2, axis=1)))
        A = np.column_stack([np.ones(400), (X[:400] - q) @ V])
        b = np.linalg.lstsq(A * w[:, None], y[:400] * w, rcond=None)[0]
        assert_allclose(found, b[0], rtol=1e-5)
        assert_allclose(slopes[:, 0], V @ b[1:], atol=1e-4 * np.abs(b).max())


@pytest.mark.parametrize("kernel", KERNELS)
def test_linear_targets_are_met(kernel, rng):
    X, y, slope = table(rng)
    model = LocalLinearRegressor(kernel).fit(X[:400], y[:400])
    assert np.isfinite(model.alpha_)
    assert model.score(X[400:], y[400:]) > 0.999
    assert_allclose(model.slopes(X[400:])[:, :, 0].mean(axis=0), slope, atol=0.02)
    plain = NadarayaWatsonRegressor(kernel).fit(X[:400], y[:400])
    assert plain.score(X[400:], y[400:]) < 0.95


def test_weights_of_the_training_rows_yield_the_predictions(rng):
    X, y, _ = table(rng)
    model = LocalLinearRegressor().fit(X[:400], y[:400])
    weights = model.kernel_weights(X[400:])
    assert_allclose(weights @ y[:400], model.predict(X[400:]), rtol=1e-9)


def test_a_prototype_without_a_row_is_the_mean_of_its_other_rows(rng):
    """Sigma is best for rows that are predicted by prototypes without them."""
    n, k, ridge = 150, 40, 0.01
    X = rng.normal(size=(n, 60)) * 0.9 ** np.arange(60)
    y = (X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.3 * rng.normal(size=n) > 0.3).astype(int)
    kernel = Prototypes(k, random_state=0)
    model = LocalLinearClassifier(kernel, alpha=ridge).fit(X, y)
    points = model.kernel_.prototypes_
    first = round(k * np.mean(y == 0))  # prototypes of class 0
    codes, rows = (np.arange(k) >= first).astype(int), np.arange(n)
    squares = np.sum((X[:, None] - points.points) ** 2, axis=2)
    own = np.where(y[:, None] == codes, squares, np.inf).argmin(axis=1)
    assert_array_equal(np.bincount(own), points.weights)
    V = leading_directions(points.points, points.weights)

    weights, centers = (
        np.tile(a, (n, *np.ones(a.ndim, int))) for a in (points.weights, points.points)
    )
    weights[rows, own] -= 1
    rest = weights[rows, own][:, None]
    centers[rows, own] += (centers[rows, own] - X) / np.maximum(rest, 1)
    squares = np.sum((X[:, None] - centers) ** 2, axis=2)

    def error(sigma):
        exponents = -0.5 * sigma**2 * squares
        with np.errstate(divide="ignore"):
            logs = np.log(weights) + exponents
        shares, targets = softmax(logs, axis=1), np.eye(2)[codes]
        A, means = centers @ V, shares @ targets
        middle = np.einsum("ij,ijk->ik", shares, A)
        A = A - middle[:, None]
        G = np.einsum("ij,ijk,ijl->ikl", shares, A, A, optimize=True)
        c = np.einsum("ij,ijk,jl->ikl", shares, A, targets, optimize=True)
        spread = np.trace(G, axis1=1, axis2=2) / N_DIRECTIONS
        penalties = ridge * spread + 1e-7 / sigma**2
        G += penalties[:, None, None] * np.eye(N_DIRECTIONS)
        slopes = np.linalg.solve(G, c)
        found = means + np.einsum("ik,ikl->il", X @ V - middle, slopes)
        found = np.maximum(found, 0)
        found /= found.sum(axis=1, keepdims=True)
        # effective number of rows behind the prediction, and a smoothed log loss
        sums = 2 * logsumexp(logs, axis=1) - logsumexp(logs + exponents, axis=1)
        n_rows = np.exp(sums) * n / np.sum(points.weights**2)
        own_share = (n_rows * found[rows, y] + 0.15) / (n_rows + 0.3)
        return np.sum((found.argmax(axis=1) != y) - 0.5 * np.log(own_share))

    scale = LocalLinearClassifier(sigma="scale", alpha=ridge).fit(X, y).sigma_
    octave = min(scale * 2.0 ** np.arange(-3, 6), key=error)
    expected = min(octave * 2.0 ** np.arange(-0.75, 1, 0.25), key=error)
    assert_allclose(model.sigma_, expected)


@pytest.mark.each_value
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("sigma", ["auto", 0.3])
def test_batches_and_merging(kernel, sigma, rng):
    X, y, _ = table(rng, n_rows=250)
    y, weights = y**2, rng.uniform(0.5, 2, size=250)
    model = LocalLinearRegressor(kernel, sigma=sigma, alpha=[0.1, np.inf])
    whole = clone(model).fit(X, y, weights)
    first, second = slice(100), slice(100, 250)
    parts = clone(model).partial_fit(X[first], y[first], weights[first])
    parts.partial_fit(X[second], y[second], weights[second])
    merged = clone(model).fit(X[first], y[first], weights[first])
    merged.merge(clone(model).fit(X[second], y[second], weights[second]))
    for other in (parts, merged, clone(whole).fit(X, y, weights).freeze()):
        assert_allclose(other.predict(X[:50]), whole.predict(X[:50]), rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sparse_and_single_precision(kernel, rng):
    X, y, _ = table(rng)
    X = np.where(np.abs(X) < 0.2, 0, X)
    model = LocalLinearRegressor(kernel, sigma=0.3, alpha=0.1)
    dense = clone(model).fit(X, y).predict(X[:50])
    stored = clone(model).fit(sparse.csr_array(X), y)
    assert_allclose(stored.predict(sparse.csr_array(X[:50])), dense, rtol=1e-4)
    single = clone(model).fit(X.astype(np.float32), y)
    assert single.slopes(X[:50].astype(np.float32)).dtype == np.float32
    assert_allclose(single.predict(X[:50].astype(np.float32)), dense, atol=2e-2)


@pytest.mark.parametrize("n_rows", [1, 2, 30])
@pytest.mark.parametrize("kernel", KERNELS)
def test_fewer_rows_than_columns(kernel, n_rows, rng):
    X, y = rng.normal(size=(60, 100)), rng.normal(size=60)
    model = LocalLinearRegressor(kernel).fit(X[:n_rows], y[:n_rows])
    assert np.isfinite(model.predict(X)).all()
    assert np.isfinite(model.slopes(X)).all()


@pytest.mark.slow
def test_digits():
    X, y = load_digits(return_X_y=True)
    X, Q, y, truth = train_test_split(X, y, test_size=600, random_state=0)
    X, y = X[:700], y[:700]
    model = LocalLinearClassifier().fit(X, y)
    assert model.score(Q, truth) > 0.975
    some = cross_val_score(NadarayaWatsonClassifier(), X, y, cv=3).mean()
    assert cross_val_score(LocalLinearClassifier(), X, y, cv=3).mean() > some - 0.003


def test_few_prototypes_do_not_depend_on_the_basis_of_a_null_space(rng):
    """With at most 24 prototypes, rounding errors determine that basis."""
    X = rng.normal(size=(100, 45))
    y = X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.normal(size=100)
    blurred = X * (1 + 1e-14 * rng.normal(size=X.shape))
    model = LocalLinearRegressor(Prototypes(20, random_state=0), sigma=0.1, alpha=0.01)
    expected = model.fit(X, y).predict(X)
    assert_allclose(model.fit(blurred, y).predict(X), expected, atol=1e-6)


def test_fewer_prototypes_than_columns_in_any_order(rng):
    """No direction in which the rows do not vary affects the predictions."""
    X = rng.normal(size=(24, 45))
    y, Q, order = X[:, 0] + X[:, 1], rng.normal(size=(50, 45)), rng.permutation(24)
    model = LocalLinearRegressor(Prototypes(24, random_state=0))
    expected = clone(model).fit(X, y).predict(Q)
    assert_allclose(model.fit(X[order], y[order]).predict(Q), expected, rtol=1e-6)
