"""Average gradient outer products (AGOP) of a ridge regression on Fourier features.

The frequencies of each round are drawn in the metric of the round before.
"""

from __future__ import annotations

import math
from typing import NamedTuple

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
    """Return the metric of the last round whose held-out error is lower.

    ``metric`` is that of the frequencies of the first round.
    """
    # X (n, d), targets (n, k), weights (n,), metric (d, d) -> (d, d)
    X, targets, weights = (a[:MOST_ROWS] for a in (X, targets, weights))
    m = max(16, min(_MOST_FREQUENCIES, len(X)))
    share, held = weights / weights.sum(), np.arange(len(X)) % _HELD_OUT == 0
    found, lowest, size, steps = metric, math.inf, 1.0, _MULTIPLES
    for draws in np.random.default_rng(seed).spawn(_MOST_ROUNDS):
        values, vectors = np.linalg.eigh(metric)
        # the symmetric root does not depend on the signs of eigenvectors
        root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
        W = root @ draws.standard_normal((len(root), m))
        W += math.sqrt(_SPREAD * np.mean(W**2)) * draws.standard_normal(W.shape)
        W *= size / math.sqrt(np.mean(share @ (X @ W) ** 2))
        fits = [Ridge.of(X, targets, share, held, step * W) for step in steps]
        place = min(range(len(fits)), key=lambda i: fits[i].error)
        best = fits[place]
        products = best.gradient_products()
        trace = np.trace(products)
        if not (best.error < (1 - _GAIN) * lowest and trace > 0):
            break
        size *= steps[place]
        found = metric = products / trace
        lowest, steps = best.error, (1.0,)
    return found


class Ridge(NamedTuple):
    """Ridge regression on the cosines and sines of m frequencies."""

    frequencies: np.ndarray  # (d, m)
    gram: np.ndarray  # (2 m, 2 m), mean products of features over all rows
    cross: np.ndarray  # (2 m, k), those with the targets
    penalty: float
    error: float  # on rows held out, with the penalty of the lowest error

    @classmethod
    def of(cls, X, targets, share, held, frequencies) -> Ridge:
        """Return the regression of targets (n, k), with held (n,) rows held out."""
        m = frequencies.shape[1]
        F = sincos(X @ frequencies, 1 / math.sqrt(m), m)
        sums = []
        for side in (~held, held):
            left = F[side].T * share[side]
            sums.append((left @ F[side], left @ targets[side]))
        (gram, cross), rest = sums
        errors = []
        for penalty in _PENALTIES:
            coefficients = _solve(gram, cross, penalty)
            gaps = F[held] @ coefficients - targets[held]
            errors.append(float(share[held] @ np.sum(gaps**2, axis=1)))
        best = int(np.argmin(errors))
        both = gram + rest[0], cross + rest[1]
        return cls(frequencies, *both, _PENALTIES[best], errors[best])

    def gradient_products(self) -> np.ndarray:
        """Return the mean outer product of gradients of the fit to all rows.

        The gradient of f = [cos(w.x), sin(w.x)] [a; b] is W t with t = b cos - a sin.
        So its mean outer product is W H W', and H follows from the mean products of
        cosines and sines and from those of the coefficients.
        """
        # -> (d, d)
        m, gram = self.frequencies.shape[1], self.gram
        coefficients = _solve(gram, self.cross, self.penalty)
        P = coefficients @ coefficients.T
        mixed = gram[m:, :m] * P[:m, m:]  # of sines in rows, cosines in columns
        H = gram[m:, m:] * P[:m, :m] + gram[:m, :m] * P[m:, m:] - mixed - mixed.T
        M = self.frequencies @ H @ self.frequencies.T
        return (M + M.T) / 2


def _solve(gram: np.ndarray, cross: np.ndarray, penalty: float) -> np.ndarray:
    """Return the coefficients of ridge regression."""
    penalized = gram.copy(order="F")
    penalized[np.diag_indices_from(penalized)] += penalty
    return solve(penalized, cross, assume_a="pos", overwrite_a=True, check_finite=False)
