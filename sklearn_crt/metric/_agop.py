"""Average gradient outer products (AGOP) of a ridge regression on Fourier features.

The frequencies of each round are drawn in the metric of the round before.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve

from .._kernels import sincos

MOST_ROWS = 2**12
_MOST_FREQUENCIES = 256
_MOST_ROUNDS = 3
_PENALTIES = 1e-5, 1e-4, 1e-3, 1e-2  # of ridge regression, per row
_MULTIPLES = 0.5, 1.0, 2.0  # of one over the deviation of the phases
_SPREAD = 0.05  # of the variance of frequencies, which all directions share
_GAIN = 0.002  # of the held-out error, for a further round
_HELD_OUT = 5  # one row of so many is held out


def learn_agop(
    X: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    metric: np.ndarray,
    *,
    seed: int,
) -> np.ndarray:
    """Return the metric of the last round that lowers the error on held-out rows.

    ``metric`` is that of the frequencies of the first round.
    """
    # X (n, d), targets (n, k), weights (n,), metric (d, d) -> (d, d)
    X, targets, weights = (a[:MOST_ROWS] for a in (X, targets, weights))
    m = max(16, min(_MOST_FREQUENCIES, len(X)))
    share, held = weights / weights.sum(), np.arange(len(X)) % _HELD_OUT == 0
    found, lowest, size, steps = metric, math.inf, 1.0, _MULTIPLES
    for draws in np.random.default_rng(seed).spawn(_MOST_ROUNDS):
        values, vectors = np.linalg.eigh(found)
        # the symmetric root does not depend on the signs of eigenvectors
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        W = root @ draws.standard_normal((len(root), m))
        W += math.sqrt(_SPREAD * np.mean(W**2)) * draws.standard_normal(W.shape)
        W *= size / math.sqrt(np.mean(share @ (X @ W) ** 2))
        fits = [one_round(X, targets, share, held, step * W) for step in steps]
        place = min(range(len(fits)), key=lambda i: fits[i][0])
        error, products = fits[place]
        trace = np.trace(products)
        if not (error < (1 - _GAIN) * lowest and trace > 0):
            break
        found, lowest = products / trace, error
        size, steps = size * steps[place], (1.0,)
    return found


def one_round(
    X: np.ndarray,
    targets: np.ndarray,
    share: np.ndarray,
    held: np.ndarray,
    W: np.ndarray,
) -> tuple[float, np.ndarray]:
    """Return the error on held-out rows, and the mean outer product of gradients.

    The gradient of f = [cos(w.x), sin(w.x)] [a; b] is W t with t = b cos - a sin. So
    its mean outer product is W H W', and H follows from the mean products of cosines
    and sines and from those of the coefficients.
    """
    # share and held (n,), W (d, m) -> (d, d)
    m = W.shape[1]
    F = sincos(X @ W, 1 / math.sqrt(m), m)
    left, rest = (F[side].T * share[side] for side in (~held, held))
    gram, cross = left @ F[~held], left @ targets[~held]
    errors = []
    for penalty in _PENALTIES:
        gaps = F[held] @ _solve(gram, cross, penalty) - targets[held]
        errors.append(float(share[held] @ np.sum(gaps**2, axis=1)))
    gram, cross = gram + rest @ F[held], cross + rest @ targets[held]
    coefficients = _solve(gram, cross, _PENALTIES[int(np.argmin(errors))])
    P = coefficients @ coefficients.T
    mixed = gram[m:, :m] * P[:m, m:]  # of sines in rows, cosines in columns
    H = gram[m:, m:] * P[:m, :m] + gram[:m, :m] * P[m:, m:] - mixed - mixed.T
    M = W @ H @ W.T
    return min(errors), (M + M.T) / 2


def _solve(gram: np.ndarray, cross: np.ndarray, penalty: float) -> np.ndarray:
    """Return the coefficients of ridge regression."""
    penalized = gram + penalty * np.eye(len(gram))
    return solve(penalized, cross, assume_a="pos", overwrite_a=True, check_finite=False)
