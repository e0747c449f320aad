"""One number for each column: gradients, invariance, what it finds."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import log_softmax

from sklearn_crt.metric._descent import learn_columns, loss_of_pairs, penalised_loss


def noisy(rng, labels, n=300, d=5):
    """Return rows of which two columns say something."""
    X = rng.normal(size=(n, d))
    if labels:
        return X, (X[:, 0] * X[:, 1] > 0).astype(int)
    return X, np.stack([np.sin(2 * X[:, 0]), X[:, 1] ** 2], axis=1)


def loss_without_each(sigma, X, y, weights):
    """Return the loss of labels, or the squared error of numbers at unit variance."""
    squares = np.sum((sigma * (X[:, None] - X)) ** 2, axis=2)
    logs = np.log(weights) - 0.5 * squares
    np.fill_diagonal(logs, -np.inf)
    shares = np.exp(log_softmax(logs, axis=1))
    share = weights / weights.sum()
    if y.ndim == 1:
        return -share @ np.log(np.sum(shares * (y[:, None] == y), axis=1))
    y = y - np.average(y, axis=0, weights=weights)
    y = y / np.sqrt(np.average(y**2, axis=0, weights=weights))
    return share @ np.sum((shares @ y - y) ** 2, axis=1)


@pytest.mark.parametrize("labels", [True, False])
def test_the_objective_and_its_gradient(labels, rng):
    X, y = noisy(rng, labels, 40, 3)
    weights = rng.uniform(0.5, 2, size=40)
    loss = loss_of_pairs(X, y, weights)
    origin, at = np.zeros(3), np.array([0.3, -0.5, 0.1])
    parts = origin, 0.7, X, loss
    value, slope = penalised_loss(at, *parts)
    expected = loss_without_each(np.exp(at), X, y, weights) + 0.7 * at @ at
    assert_allclose(value, expected)
    numeric = approx_fprime(at, lambda s: penalised_loss(s, *parts)[0], 1e-6)
    assert_allclose(slope, numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labels", [True, False])
def test_columns_of_noise_are_found(labels, rng):
    X, y = noisy(rng, labels)
    found = learn_columns(X, y, np.ones(len(X)))
    assert found[:2].min() > 3 * found[2:].max()


@pytest.mark.parametrize("labels", [True, False])
def test_units_do_not_matter_and_weights_are_copies(labels, rng):
    X, y = noisy(rng, labels, 150)
    expected = learn_columns(X, y, np.ones(150))
    units = np.array([1.0, 1e-3, 1e3, 1.0, 10.0])
    moved = learn_columns(X * units + 5, y, np.ones(150))
    assert_allclose(moved * units, expected, rtol=0.02)
    counts = rng.integers(1, 4, size=150)
    twice = np.repeat(np.arange(150), counts)
    weighted = learn_columns(X, y, counts)
    repeated = learn_columns(X[twice], y[twice], np.ones(len(twice)))
    assert_allclose(weighted, repeated, rtol=0.02)


def test_the_penalty_holds_columns_together(rng):
    X, y = noisy(rng, True, 100)
    spread = [
        np.std(np.log(learn_columns(X, y, np.ones(100), penalty=penalty)))
        for penalty in (0.0, 5.0, 500.0)
    ]
    assert spread[0] > spread[1] > spread[2]


@pytest.mark.parametrize(
    "y",
    [np.arange(20), np.r_[0, np.ones(19, int)], np.zeros(20, int)],
    ids=["each apart", "one apart", "one class"],
)
def test_nothing_but_numbers(y, rng):
    for X in (rng.normal(size=(20, 2)), np.ones((20, 2))):
        found = learn_columns(X, y, np.ones(20))
        assert np.all(np.isfinite(found) & (found > 0))
