"""Average gradient outer products (AGOP) of a ridge regression on Fourier features.

The frequencies of each round are drawn in the metric of the round before.
"""

from __future__ import annotations

import math

import numpy as np

from .._kernels import sincos

MOST_ROWS = 2**13
_MOST_FREQUENCIES = 256
_MOST_ROUNDS = 3
_PENALTIES = 1e-5, 1e-4, 1e-3, 1e-2  # of ridge regression, per row
_MULTIPLES = 0.5, 1.0, 2.0  # of one over the deviation of the phases
_STEPS = (1.0,)
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
    """Return the metric of the last round whose held-out error is lower.

    ``metric`` is that of the frequencies of the first round.
    """
    # X (n, d), targets (n, k), weights (n,), metric (d, d) -> (d, d)
    X, targets, weights = (a[:MOST_ROWS] for a in (X, targets, weights))
    m = max(16, min(_MOST_FREQUENCIES, len(X)))
    share, held = weights / weights.sum(), np.arange(len(X)) % _HELD_OUT == 0
    found, lowest, tried, steps = metric, math.inf, 1.0, _MULTIPLES
    for draws in np.random.default_rng(seed).spawn(_MOST_ROUNDS):
        values, vectors = np.linalg.eigh(metric)
        # the symmetric root does not depend on the signs of eigenvectors
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        W = root @ draws.standard_normal((len(root), m))
        W += math.sqrt(_SPREAD * np.mean(W**2)) * draws.standard_normal(W.shape)
        W /= math.sqrt(np.mean(share @ (X @ W) ** 2))
        rounds = [
            _round(X, targets, share, held, W * (tried * step)) for step in steps
        ]
        best = min(range(len(rounds)), key=lambda i: rounds[i][0])
        error, new = rounds[best]
        if not error < (1 - _GAIN) * lowest:
            break
        tried, steps, lowest = tried * steps[best], _STEPS, error
        trace = np.trace(new)
        if not trace > 0:
            break
        found = metric = new / trace
    return found


def _round(X, targets, share, held, W) -> tuple[float, np.ndarray]:
    """Return the held-out error at the best penalty, and the metric of all rows.

    The gradient of f = [cos(w.x), sin(w.x)] [a; b] is W t with t = b cos - a sin. So
    its mean outer product is W H W', and H follows from the mean products of cosines
    and sines and from those of the coefficients.
    """
    m = W.shape[1]
    F = sincos(X @ W, 1 / math.sqrt(m), m)
    gram, cross = (F.T * share) @ F, (F.T * share) @ targets
    held_out = F[held] * share[held, None]
    training = gram - held_out.T @ F[held]
    values, V = np.linalg.eigh(training)
    projected = V.T @ (cross - held_out.T @ targets[held])
    along = F[held] @ V
    error = math.inf
    for penalty in _PENALTIES:
        shrunk = projected / (np.maximum(values, 0) + penalty)[:, None]
        gaps = np.sum((along @ shrunk - targets[held]) ** 2, axis=1)
        if (found := float(share[held] @ gaps)) < error:
            error, best = found, penalty
    coefficients = np.linalg.solve(gram + best * np.eye(2 * m), cross)
    P = coefficients @ coefficients.T
    mixed = gram[m:, :m] * P[:m, m:]  # of sines in rows, cosines in columns
    H = gram[m:, m:] * P[:m, :m] + gram[:m, :m] * P[m:, m:] - mixed - mixed.T
    M = W @ H @ W.T
    return error, (M + M.T) / 2
