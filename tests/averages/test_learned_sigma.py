"""A bandwidth for each column: gradients, invariance, what it does for accuracy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.metrics import log_loss

from sklearn_crt import (
    ExactKernel,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    Prototypes,
)


def learn_sigma(X, y, *, loss="log_loss", sample_weight=None):
    """Return the numbers of the columns."""
    labels = loss == "log_loss"
    cls = NadarayaWatsonClassifier if labels else NadarayaWatsonRegressor
    return cls(ExactKernel(sigma="learned")).fit(X, y, sample_weight).kernel_.sigma_


def noisy(rng, n=400, d=6):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def loss_without_each(sigma, X, y, weights):
    """Return the loss of labels, or the squared error of numbers at unit variance."""
    squares = np.sum((sigma * (X[:, None] - X)) ** 2, axis=2)
    logs = np.log(weights) - 0.5 * squares
    np.fill_diagonal(logs, -np.inf)
    shares = np.exp(log_softmax(logs, axis=1))
    share = weights / weights.sum()
    if y.dtype.kind == "i":
        return -share @ np.log(np.sum(shares * (y[:, None] == y), axis=1))
    variance = np.average(
        (y - np.average(y, axis=0, weights=weights)) ** 2, axis=0, weights=weights
    )
    return share @ np.sum((shares @ y - y) ** 2 / variance, axis=1)


def table(kind, rng, n, d):
    X, weights = rng.normal(size=(n, d)), rng.exponential(size=n)
    if kind == "labels":
        return X, ((X[:, 0] + 0.7 * rng.normal(size=n)) > 0).astype(int), weights
    y = np.stack([X[:, 0], X[:, 1] - X[:, 0]], axis=1) ** 2
    return X, y + rng.normal(size=(n, 2)), weights


@pytest.mark.parametrize("kind", ["labels", "numbers"])
@pytest.mark.parametrize("d", [2, 3])
def test_no_column_alone_can_be_changed_to_advantage(kind, d, rng):
    """Of the least loss, up to the factor for all columns that is chosen at last."""
    X, y, weights = table(kind, rng, 80, d)
    loss = "log_loss" if kind == "labels" else "squared_error"
    sigma = learn_sigma(X, y, loss=loss, sample_weight=weights)
    factors = 2.0 ** np.arange(-6, 2, 0.5)
    best = min(factors, key=lambda f: loss_without_each(f * sigma, X, y, weights))
    least = loss_without_each(best * sigma, X, y, weights)
    for column in range(d):
        for factor in (0.9, 1.1):
            moved = best * sigma
            moved[column] *= factor
            assert loss_without_each(moved, X, y, weights) > least


def test_loss_is_that_of_leave_one_out(rng):
    """Of the exact estimator, with weights, fitted without each row."""
    sigma = np.exp([0.3, -0.5])
    for kind in ("labels", "numbers"):
        X, y, weights = table(kind, rng, 30, 2)
        labels = kind == "labels"
        model = NadarayaWatsonClassifier if labels else NadarayaWatsonRegressor
        model = model(ExactKernel(sigma=sigma))
        found = []
        for i in range(30):
            others = np.arange(30) != i
            model.fit(X[others], y[others], weights[others])
            found.append(getattr(model, "predict_proba", model.predict)(X[[i]])[0])
        if labels:
            expected = log_loss(y, found, sample_weight=weights)
        else:
            variance = np.diag(np.cov(y.T, aweights=weights, ddof=0))
            squares = np.sum((found - y) ** 2 / variance, axis=1)
            expected = np.average(squares, weights=weights)
        assert_allclose(loss_without_each(sigma, X, y, weights), expected)


@pytest.mark.parametrize(
    "kernel", [ExactKernel(), Prototypes(128, random_state=0)], ids=repr
)
def test_noise_is_found(kernel, rng):
    X, y = noisy(rng, 800)
    scores = []
    for sigma in ("auto", "learned"):
        model = NadarayaWatsonClassifier(clone(kernel).set_params(sigma=sigma))
        scores.append(model.fit(X[:400], y[:400]).score(X[400:], y[400:]))
    assert scores[1] > 0.9 > 0.85 > scores[0]
    assert model.kernel_.sigma_[:2].min() > 4 * model.kernel_.sigma_[2:].max()
    y = np.sin(2 * X[:, 0])
    model = NadarayaWatsonRegressor(clone(kernel).set_params(sigma="learned"))
    assert model.fit(X[:400], y[:400]).score(X[400:], y[400:]) > 0.9


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_units_of_columns_do_not_matter(loss, rng):
    X, y = noisy(rng, 200)
    units = np.array([1.0, 1e-3, 1e3, 1.0, 10.0, 1.0])
    expected = learn_sigma(X, y, loss=loss)
    assert_allclose(
        learn_sigma(X * units + 5, y, loss=loss) * units, expected, rtol=0.1
    )


@pytest.mark.parametrize("loss", ["log_loss", "squared_error"])
def test_weights_are_repeated_rows(loss, rng):
    X, y = noisy(rng, 150)
    counts = rng.integers(0, 3, size=150)
    weighted = learn_sigma(X, y, loss=loss, sample_weight=counts)
    repeated = learn_sigma(
        np.repeat(X, counts, axis=0), np.repeat(y, counts), loss=loss
    )
    assert_allclose(weighted, repeated, rtol=1e-3)


def test_kinds_of_rows(rng):
    X, y = noisy(rng, 200)
    X[:, 3] = 7.0  # says nothing
    expected = learn_sigma(X, y)
    assert np.all(np.isfinite(expected) & (expected > 0))
    found = learn_sigma(sparse.csr_array(X), y)
    assert_allclose(found, expected, rtol=1e-2)
    model = NadarayaWatsonClassifier(ExactKernel(sigma="learned"))
    model.partial_fit(X[:100], y[:100], classes=[0, 1]).partial_fit(X[100:], y[100:])
    assert_allclose(model.kernel_.sigma_, expected)
    assert_allclose(learn_sigma(X.astype(np.float32), y), expected, rtol=0.1)


@pytest.mark.parametrize(
    "y", [np.arange(20), np.r_[0, np.ones(19, int)]], ids=["each apart", "one apart"]
)
def test_classes_of_one_row(y, rng):
    sigma = learn_sigma(rng.normal(size=(20, 2)), y)
    assert np.all(np.isfinite(sigma) & (sigma > 0))


def test_rows_all_alike():
    sigma = learn_sigma(np.ones((20, 2)), np.arange(20) % 2)
    assert np.all(np.isfinite(sigma) & (sigma > 0))
