"""Gradient descent of metrics: NCA, and one multiplier per column."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, logsumexp

from sklearn_crt.metric import _descent


# --------------------------------------------------------------------------- NCA
def loss_of_nca(A, X, codes, weights, n_queries):
    """Return the loss of rows that are not alone in their class."""
    total = 0.0
    for i in range(n_queries):
        others = np.arange(len(X)) != i
        logs = np.log(weights) - 0.5 * np.sum(((X[i] - X) @ A.T) ** 2, axis=1)
        same = others & (codes == codes[i])
        if same.any():
            gain = logsumexp(logs[same]) - logsumexp(logs[others])
            total -= weights[i] * gain
    return total / weights[:n_queries].sum()


def labelled_rows(rng, n=40):
    codes = np.append(rng.integers(0, 3, size=n - 1), 7)[rng.permutation(n)]
    return rng.normal(size=(n, 3)), codes, rng.exponential(size=n) + 0.1


def test_loss_of_nca_and_its_gradient(rng):
    X, codes, weights = labelled_rows(rng)
    A = rng.normal(size=(2, 3))
    value, gradient = _descent.nca_gradient(A, X, codes, weights, 25)
    assert_allclose(value, loss_of_nca(A, X, codes, weights, 25))

    def of(flat):
        return loss_of_nca(flat.reshape(A.shape), X, codes, weights, 25)

    expected = approx_fprime(A.ravel(), of, 1e-7).reshape(A.shape)
    assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


def test_loss_of_nca_with_a_distant_class(rng):
    """Whose weights beside those of other rows are no numbers any more."""
    X, codes, weights = labelled_rows(rng)
    X[codes == 1] *= 30
    A = np.eye(3)
    value, gradient = _descent.nca_gradient(A, X, codes, weights, 40)
    assert_allclose(value, loss_of_nca(A, X, codes, weights, 40))
    single = _descent.nca_gradient(
        *(a.astype(np.float32) for a in (A, X)), codes, weights.astype(np.float32), 40
    )
    assert_allclose(single[0], value, rtol=1e-4)
    assert_allclose(single[1], gradient, rtol=0.01, atol=1e-3 * np.abs(gradient).max())


def test_steps_are_those_of_adam(rng):
    """A transcription of the steps, with the same minibatches."""
    sizes = {"n_steps": 20, "n_keys": 60, "n_queries": 30}
    X, codes, weights = labelled_rows(rng, 200)
    start = 0.8 * np.eye(3)
    found = _descent.learn_nca(X, codes, weights, start, seed=3, **sizes)
    A, draws = start.copy(), np.random.default_rng(3)
    size, m, v = np.sqrt(np.mean(start**2) * 3), np.zeros((3, 3)), np.zeros((3, 3))
    for t in range(1, 21):
        p = draws.permutation(200)[:60]
        g = _descent.nca_gradient(A, X[p], codes[p], weights[p], 30)[1]
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.99**t)) + 1e-12)
        A = A - 0.03 * (1 - (t - 1) / 20) ** 0.5 * size * step
    assert_allclose(found, A, atol=1e-3)
    assert np.abs(found - start).max() > 0.1


# ------------------------------------------------------- one number for each column
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
def test_loss_of_columns_and_its_gradient(labels, rng):
    X, y = noisy(rng, labels, 40, 3)
    weights = rng.uniform(0.5, 2, size=40)
    loss = _descent.loss_of_pairs(X, y, weights)
    origin, at = np.zeros(3), np.array([0.3, -0.5, 0.1])
    parts = origin, 0.7, X, loss
    value, slope = _descent.penalised_loss(at, *parts)
    expected = loss_without_each(np.exp(at), X, y, weights) + 0.7 * at @ at
    assert_allclose(value, expected)
    numeric = approx_fprime(at, lambda s: _descent.penalised_loss(s, *parts)[0], 1e-6)
    assert_allclose(slope, numeric, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("labels", [True, False])
def test_columns_of_noise_get_small_multipliers(labels, rng):
    X, y = noisy(rng, labels)
    found = _descent.learn_columns(X, y, np.ones(len(X)))
    assert found[:2].min() > 3 * found[2:].max()


@pytest.mark.parametrize("labels", [True, False])
def test_units_do_not_matter_and_weights_are_copies(labels, rng):
    X, y = noisy(rng, labels, 150)
    expected = _descent.learn_columns(X, y, np.ones(150))
    units = np.array([1.0, 1e-3, 1e3, 1.0, 10.0])
    moved = _descent.learn_columns(X * units + 5, y, np.ones(150))
    assert_allclose(moved * units, expected, rtol=0.02)
    counts = rng.integers(1, 4, size=150)
    twice = np.repeat(np.arange(150), counts)
    weighted = _descent.learn_columns(X, y, counts)
    repeated = _descent.learn_columns(X[twice], y[twice], np.ones(len(twice)))
    assert_allclose(weighted, repeated, rtol=0.02)


def test_a_larger_penalty_gives_more_equal_columns(rng):
    X, y = noisy(rng, True, 100)
    spread = [
        np.std(np.log(_descent.learn_columns(X, y, np.ones(100), penalty=penalty)))
        for penalty in (0.0, 5.0, 500.0)
    ]
    assert spread[0] > spread[1] > spread[2]


@pytest.mark.parametrize(
    "y",
    [np.arange(20), np.r_[0, np.ones(19, int)], np.zeros(20, int)],
    ids=["each apart", "one apart", "one class"],
)
def test_multipliers_are_positive_numbers_for_degenerate_targets(y, rng):
    for X in (rng.normal(size=(20, 2)), np.ones((20, 2))):
        found = _descent.learn_columns(X, y, np.ones(20))
        assert np.all(np.isfinite(found) & (found > 0))
