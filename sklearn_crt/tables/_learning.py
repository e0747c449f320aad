"""Learning of the column weights and interactions of an ANOVA kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from ..life_cycle.fitted import Step, no_step
from ._columns import Encoding
from ._kernel import AnovaKernel, ColumnKernels, Order, combined, row_blocks

# Strengths of interactions that are compared for each order. With "auto", those of
# order 2 and of order "all" are compared. Weights are learned with order 2 and strength
# 1.
STRENGTHS: dict[Order, tuple[float, ...]] = {
    1: (0.0,),
    2: (0.1, 0.3, 1.0, 3.0),
    "all": (1.0, 2.0),
}
# Maximum number of rounds, and the relative gain that is needed for another round.
# While the error is above _LITTLE_LEARNED, no gain is needed, because it can take some
# rounds to find columns that have effects only in interactions.
_MOST_ROUNDS, _LEAST_GAIN, _LITTLE_LEARNED = 6, 0.005, 0.9
_FLOOR = 0.05  # proportion of the total weight divided equally among the terms
# if there are more terms, a rough fit selects the most important ones
_MOST_TERMS = 40
_ROUGH_ROWS, _ROUGH_POINTS, _ROUGH_ROUNDS = 1500, 250, 2
_ALPHAS = np.logspace(-3, 4, 29)
# In generalised cross-validation, degrees of freedom are multiplied by _FREEDOM,
# because the weights are learned from the same rows. Penalties are excluded if the
# resulting degrees of freedom per row exceed _MOST_FREEDOM.
_FREEDOM, _MOST_FREEDOM = 1.2, 0.9


class EncodedRows(NamedTuple):
    """Encoded rows from which the weights are learned."""

    Z: np.ndarray  # (n, n_encoded)
    T: np.ndarray  # (n, k), centred and scaled targets
    weights: np.ndarray  # (n,), numbers of rows


@dataclass(frozen=True, eq=False)
class LearnedKernel:
    """The learned kernel, which has the smallest error."""

    encoding: Encoding  # contains only the terms of the kernel
    kernel: AnovaKernel
    shares: np.ndarray  # (n_owners,), standard deviations of effects; the sum is 1


class _Fit(NamedTuple):
    """A fit of kernel ridge regression."""

    error: float  # generalised cross-validation error divided by the variance
    weights: np.ndarray  # weights of the terms
    order: Order
    strength: float
    root: np.ndarray  # (m, m), lower triangular
    coef: np.ndarray  # (m, k)


def learn_kernel(
    encoding: Encoding,
    rows: EncodedRows,
    points: np.ndarray,
    order: Order,
    n_learning: int,
    step: Step = no_step,
) -> LearnedKernel:
    """Return the kernel centred over ``points`` that predicts the targets best.

    The points are landmarks, the first ``n_learning`` of which are used to learn
    weights.
    """
    n_owners, is_score = len(encoding.groups), encoding.is_score
    varies = np.ptp(points, axis=0) > 0
    active = np.flatnonzero([varies[list(term)].any() for term in encoding.terms])
    if len(active) > _MOST_TERMS:
        some = EncodedRows(*(part[:_ROUGH_ROWS] for part in rows))
        own = ColumnKernels.of(
            points[:_ROUGH_POINTS], is_score, encoding.only(active).terms
        )
        _, shares, _ = _rounds(own, some, _ROUGH_ROUNDS, no_step)
        active = np.sort(active[np.argsort(-shares, kind="stable")[:_MOST_TERMS]])
    encoding = encoding.only(active)
    own = ColumnKernels.of(points[:n_learning], is_score, encoding.terms)
    best, shares, search = _rounds(own, rows, _MOST_ROUNDS, step)
    for each in (2, "all") if order == "auto" else (order,):
        for strength in STRENGTHS[each]:
            found = search(best.weights, each, strength)
            same_order = order == "auto" or best.order == each
            best = found if found.error < best.error or not same_order else best
    whole = ColumnKernels.of(points, is_score, encoding.terms)
    kernel = AnovaKernel(whole, best.weights, best.order, best.strength)
    owned = np.bincount(np.array(encoding.owners, np.intp), shares, n_owners)
    return LearnedKernel(encoding, kernel, owned)


def _rounds(own: ColumnKernels, rows: EncodedRows, n_rounds: int, step: Step):
    """Return the best fit of order 2, the weights of its terms, and a fitting function.

    In each round, the weight of a term becomes roughly proportional to the standard
    deviation of its total effect, which is the sum of all components of the fitted
    function that involve the term.
    """
    n_terms = len(own.terms)
    terms = own.stacked(rows.Z, range(n_terms), np.float32)
    landmarks = own.stacked(own.points, range(n_terms), np.float32)

    def search(weights, order, strength):
        step()
        return _fit_of(terms, landmarks, rows, weights, order, strength)

    shares, best = np.full(n_terms, 1 / max(n_terms, 1)), None
    for _ in range(n_rounds):
        # The weights sum to the square root of their number, so that interactions do
        # not become less important as the number of columns grows.
        weights = (1 - _FLOOR) * shares + _FLOOR / max(n_terms, 1)
        found = search(weights * n_terms**0.5, 2, 1.0)
        gains = best is None or found.error <= (1 - _LEAST_GAIN) * best.error
        best = found if best is None or found.error < best.error else best
        goes_on = gains or found.error > _LITTLE_LEARNED
        if not (goes_on and found.coef.any()):
            break
        shares = _total_effects(terms, rows, found)
    return best, shares, search


def _total_effects(terms: np.ndarray, rows: EncodedRows, fit: _Fit) -> np.ndarray:
    """Return each term's share of total effects in a fit of order 2 and strength 1."""
    a = solve_triangular(fit.root, fit.coef, lower=True, trans=1).astype(np.float32)
    n, share = len(rows.Z), rows.weights / rows.weights.sum()
    weights = fit.weights.astype(np.float32)
    effects = np.empty((len(terms), n, a.shape[1]))
    for part in row_blocks(n):
        first = np.tensordot(weights, terms[:, part], 1)
        first += 1
        for q, (term, weight) in enumerate(zip(terms, weights, strict=True)):
            own = term[part] * weight
            own *= first - own
            effects[q, part] = own @ a
    means = np.einsum("n,qnk->qk", share, effects)
    variances = np.einsum("n,qnk->q", share, (effects - means[:, None]) ** 2)
    deviations = np.sqrt(np.maximum(variances, 1e-30))
    return deviations / deviations.sum()


def _fit_of(terms, landmarks, rows, weights, order, strength) -> _Fit:
    """Fit kernel ridge regression with the penalty that has the smallest error."""
    gram = combined(landmarks, weights, order, strength).astype(np.float64)
    root = cholesky_with_jitter(gram)
    K = combined(terms, weights, order, strength)
    half = root.astype(np.float32)
    P = solve_triangular(half, K.T, lower=True, overwrite_b=True, check_finite=False).T
    error, coef = _best_penalty(P, rows.T, rows.weights)
    return _Fit(error, weights, order, strength, root, coef)


def cholesky_with_jitter(gram: np.ndarray) -> np.ndarray:
    """Return a lower triangular root of a possibly singular kernel matrix."""
    size, unit = len(gram), np.trace(gram) / len(gram)
    gram = (gram + gram.T) / 2
    for jitter in np.logspace(-6, 3, 10):
        shifted = gram + (jitter * unit + 1e-12) * np.eye(size)
        root, info = lapack.dpotrf(shifted, lower=1, clean=1)
        if info == 0:
            return root
    return np.eye(size) * np.sqrt(max(unit, 1.0))


def _best_penalty(
    P: np.ndarray, T: np.ndarray, weights: np.ndarray
) -> tuple[float, np.ndarray]:
    """Return the smallest generalised cross-validation error and the coefficients."""
    n, total = weights.sum(), max(float(weights @ np.square(T).sum(axis=1)), 1e-30)
    scales = np.sqrt(weights)[:, None].astype(P.dtype)
    P -= (weights @ P / n).astype(P.dtype)
    P *= scales
    gram = (P.T @ P).astype(np.float64)
    cross = P.T @ (T * scales).astype(P.dtype)
    values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 1e-12)
    along = vectors.T @ cross  # (m, k)
    shrinkage = values / (values + _ALPHAS[:, None])  # (n_alphas, m)
    explained = (2 * shrinkage - shrinkage**2) @ (np.square(along).sum(1) / values)
    freedom = _FREEDOM * shrinkage.sum(axis=1)
    left = np.maximum(n - 1 - freedom, 1e-3)
    errors = n * n * np.maximum(total - explained, 0) / (total * left**2)
    errors[freedom >= _MOST_FREEDOM * n] = np.inf
    best = int(np.argmin(errors))
    coef = vectors @ (along / (values + _ALPHAS[best])[:, None])
    return float(errors[best]), coef
