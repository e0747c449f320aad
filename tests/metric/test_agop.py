"""AGOP against its definition, row by row, and what its rounds find."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.metric import _agop


@pytest.fixture
def parts(rng):
    """Return rows, targets, shares, the rows held out, and frequencies."""
    X = rng.normal(size=(200, 4))
    targets = np.stack([np.sin(2 * X[:, 0]), X[:, 1] * X[:, 2]], axis=1)
    share = rng.uniform(0.5, 2, size=200)
    held = np.arange(200) % 5 == 0
    return X, targets, share / share.sum(), held, rng.normal(size=(4, 12))


def features(X, W):
    phases = X @ W
    return np.hstack([np.cos(phases), np.sin(phases)]) / np.sqrt(W.shape[1])


def test_error_and_mean_outer_product_of_gradients(parts):
    X, targets, share, held, W = parts
    F, errors = features(X, W), []

    def solved(rows, penalty):
        left = F[rows].T * share[rows]
        return np.linalg.solve(
            left @ F[rows] + penalty * np.eye(24), left @ targets[rows]
        )

    for penalty in _agop._PENALTIES:
        gaps = F[held] @ solved(~held, penalty) - targets[held]
        errors.append(share[held] @ np.sum(gaps**2, axis=1))
    coefficients = solved(held | ~held, _agop._PENALTIES[np.argmin(errors)])
    expected, step = np.zeros((4, 4)), 1e-6
    for x, weight in zip(X, share, strict=True):
        sides = [features(x + s * step * np.eye(4), W) for s in (1, -1)]
        J = (sides[0] - sides[1]) @ coefficients / (2 * step)
        expected += weight * J @ J.T
    error, found = _agop.one_round(*parts)
    assert_allclose(error, min(errors))
    assert_allclose(found, expected, rtol=1e-5, atol=1e-8 * np.trace(expected))


def test_rounds_find_directions(rng):
    """The target depends on one direction of ten columns."""
    X = rng.normal(size=(1500, 10))
    direction = np.linalg.qr(rng.normal(size=(10, 1)))[0][:, 0]
    y = np.sin(2 * X @ direction) + 0.3 * rng.normal(size=1500)
    targets, weights = (y / y.std())[:, None], np.ones(1500)
    M = _agop.learn_agop(X, targets, weights, np.eye(10) / 10, seed=0)
    assert_allclose(np.trace(M), 1)
    assert direction @ M @ direction > 0.9
