"""A bandwidth for each column: gradients, invariance, what it does for accuracy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import check_grad
from sklearn.metrics import log_loss

from sklearn_crt import NadarayaWatsonClassifier, NadarayaWatsonRegressor, learn_sigma
from sklearn_crt.nadaraya_watson import _learned_sigma
from sklearn_crt.nadaraya_watson._targets import Numbers, OneHot


def noisy(rng, n=400, d=6):
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def targets_of(kind, rng, n):
    if kind == "labels":
        return OneHot(3), rng.integers(0, 3, size=n)
    return Numbers(2), rng.normal(size=(n, 2))


@pytest.mark.parametrize("kind", ["labels", "numbers"])
def test_gradient(kind, rng):
    X, weights = rng.normal(size=(40, 3)), rng.exponential(size=40)
    X[:5] = X[5:10]
    targets, y = targets_of(kind, rng, 40)
    loss = _learned_sigma._make_loss(X, y, weights, targets)
    for point in 0.5 * rng.normal(size=(3, 3)):
        error = check_grad(
            lambda z: _learned_sigma._objective(z, X, loss)[0],
            lambda z: _learned_sigma._objective(z, X, loss)[1],
            point,
        )
        assert error < 1e-6


def test_loss_is_that_of_leave_one_out(rng):
    """Of the exact estimator, with weights, fitted without each row."""
    X, y = rng.normal(size=(30, 2)), rng.integers(0, 2, size=30)
    weights = rng.exponential(size=30)
    log_sigma = np.array([0.3, -0.5])
    loss = _learned_sigma._make_loss(X, y, weights, OneHot(2))
    found, _ = _learned_sigma._objective(log_sigma, X, loss)
    model = NadarayaWatsonClassifier("exact", sigma=np.exp(log_sigma))
    others = [np.arange(30) != i for i in range(30)]
    expected = [
        model.fit(X[o], y[o], weights[o]).predict_proba(X[[i]])[0]
        for i, o in enumerate(others)
    ]
    assert_allclose(found, log_loss(y, expected, sample_weight=weights))
    numbers = rng.normal(size=(30, 1))
    loss = _learned_sigma._make_loss(X, numbers, weights, Numbers(1))
    found, _ = _learned_sigma._objective(log_sigma, X, loss)
    model = NadarayaWatsonRegressor("exact", sigma=np.exp(log_sigma))
    expected = [
        model.fit(X[o], numbers[o, 0], weights[o]).predict(X[[i]])[0]
        for i, o in enumerate(others)
    ]
    variance = np.cov(numbers[:, 0], aweights=weights, ddof=0)
    squares = (expected - numbers[:, 0]) ** 2 / variance
    assert_allclose(found, np.average(squares, weights=weights))


@pytest.mark.parametrize("sampler", ["exact", "prototypes"])
def test_noise_is_found(sampler, rng):
    X, y = noisy(rng, 800)
    scores = []
    for sigma in ("auto", "learned"):
        model = NadarayaWatsonClassifier(sampler, sigma=sigma, random_state=0)
        scores.append(model.fit(X[:400], y[:400]).score(X[400:], y[400:]))
    assert scores[1] > 0.9 > 0.85 > scores[0]
    assert model.sigma_[:2].min() > 4 * model.sigma_[2:].max()
    y = np.sin(2 * X[:, 0])
    model = NadarayaWatsonRegressor(sampler, sigma="learned", random_state=0)
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
def test_weights_are_repeated_rows(loss, rng, monkeypatch):
    monkeypatch.setattr(_learned_sigma, "_N_STEPS", 8)
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
    model = NadarayaWatsonClassifier("exact", sigma="learned")
    model.partial_fit(X[:100], y[:100], classes=[0, 1]).partial_fit(X[100:], y[100:])
    assert_allclose(model.sigma_, expected)
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


def test_errors(rng):
    X, _ = noisy(rng, 20)
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        learn_sigma(X, rng.normal(size=20))
    with pytest.raises(ValueError, match="The 'loss' parameter of learn_sigma"):
        learn_sigma(X, np.ones(20), loss="hinge")
