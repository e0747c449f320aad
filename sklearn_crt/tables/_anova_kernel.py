"""The ANOVA kernel of encoded columns, its linear terms, and how both are learned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular

from ..arrays.namespaces import row_slices
from ..life_cycle.fitted import Step, no_step
from ._encoding import Encoding, Level, Score

_ALL: Any = slice(None)
_BLOCK = 1024  # number of rows for which kernel values are computed at a time
Order = Any  # 1, 2 or "all"


@dataclass(frozen=True, eq=False)
class ColumnKernels:
    """Kernels of single columns, centred and scaled over landmarks.

    The kernel of a term is ``s * exp(-r) + (2 - s) * exp(-r**2 / 2)``, where r**2 is
    the squared Euclidean distance between scores plus the number of codes that differ,
    and s is the roughness. As the sum of a rough and a smooth kernel, it can fit both
    kinks and smooth curves. For a single categorical column, centring and scaling turn
    it into the centred and scaled kernel that is 1 for equal and 0 for different
    categories. Kernels have mean zero over the landmarks in both arguments, so
    interactions contain no effects of single columns. Their mean diagonal is 1, which
    makes the weights of columns comparable.
    """

    points: np.ndarray  # (m, n_encoded), the encoded landmarks
    is_score: np.ndarray  # (n_encoded,)
    terms: tuple[tuple[int, ...], ...]
    means: np.ndarray  # (n_terms, m)
    scales: np.ndarray  # (n_terms,)
    roughness: float  # from 0 to 1

    @classmethod
    def of(
        cls,
        points: np.ndarray,
        is_score: np.ndarray,
        terms: Sequence[tuple[int, ...]],
        roughness: float,
    ) -> ColumnKernels:
        """Return the kernels, centred and scaled over the given landmarks."""
        means, scales = np.empty((len(terms), len(points))), np.empty(len(terms))
        for q, term in enumerate(terms):
            own = points[:, term]
            K = _raw(own, own, is_score[list(term)], roughness)
            means[q] = K.mean(axis=0)
            scales[q] = max(np.diag(K).mean() - K.mean(), 1e-9)
        return cls(
            points=points,
            is_score=is_score,
            terms=tuple(terms),
            means=means,
            scales=scales,
            roughness=roughness,
        )

    def tables(self, Z: np.ndarray, q: int, dtype: Any) -> tuple[np.ndarray, Any]:
        """Return a term's kernel at distinct values, and the index of each row's value.

        This saves time, because many columns have only a few distinct values.
        """
        columns = list(self.terms[q])
        values, places = Z[:, columns], _ALL
        if len(columns) == 1 and len(Z) > 1:
            distinct, place_of_row = np.unique(values[:, 0], return_inverse=True)
            if 2 * len(distinct) <= len(Z):
                values, places = distinct[:, None], place_of_row
        points = self.points[:, columns]
        values, points = (v.astype(dtype, copy=False) for v in (values, points))
        K = _raw(values, points, self.is_score[columns], self.roughness)
        K -= self.means[q].astype(dtype, copy=False)
        K -= K.mean(axis=1, keepdims=True)  # the mean of the means cancels
        K /= dtype(self.scales[q])
        return K, places

    def stacked(
        self, Z: np.ndarray, chosen: Sequence[int], dtype: Any = np.float64
    ) -> np.ndarray:
        """Return kernels of terms between rows and landmarks, (n_chosen, n, m)."""
        out = np.empty((len(chosen), len(Z), len(self.points)), dtype)
        for rows in row_blocks(len(Z)):
            for term, q in zip(out, chosen, strict=True):
                table, places = self.tables(Z[rows], q, dtype)
                term[rows] = table[places]
        return out


def _raw(
    A: np.ndarray, B: np.ndarray, is_score: np.ndarray, roughness: float
) -> np.ndarray:
    """Return the kernel between encoded rows, before centring and scaling."""
    if len(is_score) == 1:
        if not is_score[0]:
            return (A == B.T).astype(A.dtype)
        distances = np.abs(A - B.T)
    else:
        squares = np.zeros((len(A), len(B)), A.dtype)
        for a, b, score in zip(A.T, B.T, is_score, strict=True):
            squares += np.subtract.outer(a, b) ** 2 if score else a[:, None] != b
        distances = np.sqrt(squares)
    smooth = np.square(distances)
    smooth *= -0.5
    np.exp(smooth, out=smooth)
    np.negative(distances, out=distances)
    np.exp(distances, out=distances)
    if roughness != 1:
        distances *= A.dtype.type(roughness)
        smooth *= A.dtype.type(2 - roughness)
    return np.add(distances, smooth, out=distances)


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Return slices that divide the rows into blocks."""
    return row_slices(n_rows, _BLOCK)


def anova_sum(
    terms: Iterable[tuple[np.ndarray, Any]],
    order: Order,
    strength: float,
    out: np.ndarray,
) -> np.ndarray:
    """Write the ANOVA kernel of weighted terms to ``out``, and return it.

    For each term, ``terms`` yields kernel values, and the index of each row's values.
    """
    c, squares = out.dtype.type(strength), np.zeros_like(out)
    out[:] = 1 if order == "all" else 0
    tables, indices = [], []
    for term, places in terms:
        if order == "all":
            out *= (1 + c * term)[places]
        elif places is not _ALL:
            tables.append(term)
            indices.append(places)
        else:
            out += term
            squares += np.square(term)
    if tables:  # one product with a sparse matrix adds the rows of all tables
        firsts = np.cumsum([0, *map(len, tables)])
        columns = np.stack(indices, axis=1) + firsts[:-1]
        starts = np.arange(len(columns) + 1) * len(tables)
        entries = np.ones(columns.size, out.dtype), columns.ravel(), starts
        indicators = sparse.csr_array(entries, shape=(len(columns), firsts[-1]))
        table = np.vstack(tables)
        out += indicators @ table
        squares += indicators @ np.square(table)
    if order == "all":
        out -= 1
        out /= c
    if order == 2:
        np.subtract(np.square(out), squares, out=squares)
        squares *= c / 2
        out += squares
    return out


def combined(
    terms: np.ndarray, weights: np.ndarray, order: Order, strength: float
) -> np.ndarray:
    """Return the ANOVA kernel of stored terms, (n_terms, n, m) -> (n, m)."""
    out, weights = np.empty(terms.shape[1:], terms.dtype), weights.astype(terms.dtype)
    for rows in row_blocks(terms.shape[1]):
        some = ((t[rows] * w, _ALL) for t, w in zip(terms, weights, strict=True))
        anova_sum(some, order, strength, out[rows])
    return out


@dataclass(frozen=True, eq=False)
class AnovaKernel:
    """An ANOVA kernel, defined by weights of terms and by their interactions.

    Let k_j be the kernels of the terms, w_j their weights, and c the strength of
    interactions, and let ``e1 = sum_j w_j k_j`` and ``e2 = sum_{i<j} w_i w_j k_i k_j``.
    The kernel of order 1 is e1, that of order 2 is ``e1 + c e2``, and that of order
    "all" is ``(prod_j (1 + c w_j k_j) - 1) / c``.
    """

    columns: ColumnKernels
    weights: np.ndarray  # (n_terms,)
    order: Order
    strength: float

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Return the kernel between encoded rows and the landmarks, block by block."""
        out = np.empty((len(Z), len(self.columns.points)))

        def terms(rows: slice) -> Iterator[tuple[np.ndarray, Any]]:
            for q, weight in enumerate(self.weights):
                table, places = self.columns.tables(Z[rows], q, np.float64)
                table *= weight
                yield table, places

        for rows in row_blocks(len(Z)):
            anova_sum(terms(rows), self.order, self.strength, out[rows])
        return out

    def weighted_terms(self, Z: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
        """Return chosen terms of the kernel times their weights, (n_chosen, n, m)."""
        weights = self.weights[list(chosen)]
        return self.columns.stacked(Z, chosen) * weights[:, None, None]

    def between(self, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return the kernel between two sets of encoded rows, (n, m)."""
        own, out = self.columns, np.empty((len(Z), len(Y)))

        def terms() -> Iterator[tuple[np.ndarray, Any]]:
            for q, weight in enumerate(self.weights):
                columns = list(own.terms[q])
                is_score = own.is_score[columns]
                sides = [rows[:, columns] for rows in (Z, Y, own.points)]
                K = _raw(sides[0], sides[1], is_score, own.roughness)
                means = [
                    _raw(side, sides[2], is_score, own.roughness).mean(axis=1)
                    for side in sides[:2]
                ]
                K -= means[0][:, None] + means[1] - own.means[q].mean()
                yield K * (weight / own.scales[q]), _ALL

        return anova_sum(terms(), self.order, self.strength, out)

    def diagonal(self, Z: np.ndarray) -> np.ndarray:
        """Return the kernel of each encoded row with itself, (n,)."""
        own, out = self.columns, np.empty(len(Z))

        def terms() -> Iterator[tuple[np.ndarray, Any]]:
            for q, weight in enumerate(self.weights):
                columns = list(own.terms[q])
                is_score = own.is_score[columns]
                raw = 2.0 if len(columns) > 1 or is_score[0] else 1.0
                sides = Z[:, columns], own.points[:, columns]
                mean = _raw(*sides, is_score, own.roughness).mean(axis=1)
                centred = raw - 2 * mean + own.means[q].mean()
                yield centred * (weight / own.scales[q]), _ALL

        return anova_sum(terms(), self.order, self.strength, out)


# ------------------------------------------------------------- learning the weights
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
# Leave-one-out errors are increased as if there were _FREEDOM times as many degrees of
# freedom, because the weights are learned from the same rows. Penalties are excluded if
# these degrees of freedom per row exceed _MOST_FREEDOM.
_FREEDOM, _MOST_FREEDOM = 1.2, 0.9
# Weights are learned with the roughness _ROUGH. It is replaced by _SMOOTH if the error
# then falls by this proportion, plus a number that decreases with the square root of
# the effective number of rows, plus another one if weights are learned from some of the
# landmarks, because a rough kernel needs more of them. On two splits of 30 tables, the
# error on new rows changed on eight tables, from 20 % less to 3 % more.
_ROUGH, _SMOOTH = 1.0, 0.1
_GAIN, _GAIN_OF_FEW, _GAIN_OF_POINTS = 0.01, 0.5, 0.03
_LEAST_LEFT = 1e-4  # lower limit on one minus the leverage of a row


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

    error: float  # leave-one-out error divided by the variance
    weights: np.ndarray  # weights of the terms
    order: Order
    strength: float
    root: np.ndarray  # (m, m), lower triangular
    coef: np.ndarray  # (m, k)
    alpha: float  # the penalty
    residual: np.ndarray  # (n, k)


def learn_kernel(
    encoding: Encoding,
    rows: EncodedRows,
    points: np.ndarray,
    order: Order,
    n_learning: int,
    step: Step = no_step,
) -> tuple[LearnedKernel, _Fit]:
    """Return the kernel centred over ``points`` that predicts the targets best.

    The second result is its fit to the rows. The points are landmarks, the first
    ``n_learning`` of which are used to learn weights.
    """
    n_owners, is_score = len(encoding.groups), encoding.is_score
    varies = np.ptp(points, axis=0) > 0
    active = np.flatnonzero([varies[list(term)].any() for term in encoding.terms])
    if len(active) > _MOST_TERMS:
        some = EncodedRows(*(part[:_ROUGH_ROWS] for part in rows))
        terms = [encoding.terms[q] for q in active]
        own = ColumnKernels.of(points[:_ROUGH_POINTS], is_score, terms, _ROUGH)
        _, shares, _ = _rounds(own, some, _ROUGH_ROUNDS, no_step)
        active = np.sort(active[np.argsort(-shares, kind="stable")[:_MOST_TERMS]])
    encoding = replace(
        encoding,
        terms=tuple(encoding.terms[q] for q in active),
        owners=tuple(encoding.owners[q] for q in active),
    )
    own = ColumnKernels.of(points[:n_learning], is_score, encoding.terms, _ROUGH)
    best, shares, search = _rounds(own, rows, _MOST_ROUNDS, step)
    for each in (2, "all") if order == "auto" else (order,):
        for strength in STRENGTHS[each]:
            found = search(best.weights, each, strength)
            same_order = order == "auto" or best.order == each
            best = found if found.error < best.error or not same_order else best
    roughness = own.roughness
    if is_score.any():
        del search  # and the kernels that it holds
        has_all_points = len(points) <= n_learning
        roughness, best = _roughness_of(own, rows, best, has_all_points, step)
    whole = ColumnKernels.of(points, is_score, encoding.terms, roughness)
    kernel = AnovaKernel(whole, best.weights, best.order, best.strength)
    owned = np.bincount(np.array(encoding.owners, np.intp), shares, n_owners)
    return LearnedKernel(encoding, kernel, owned), best


def _rounds(own: ColumnKernels, rows: EncodedRows, n_rounds: int, step: Step):
    """Return the best fit of order 2, the weights of its terms, and a fitting function.

    In each round, the weight of a term becomes roughly proportional to the standard
    deviation of its total effect, which is the sum of all components of the fitted
    function that involve the term.
    """
    n_terms = len(own.terms)
    terms, landmarks = _stacks(own, rows)
    search = partial(_fit_of, step, terms, landmarks, rows)
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


def _stacks(own: ColumnKernels, rows: EncodedRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the kernels of all terms between rows, or landmarks, and landmarks."""
    every = range(len(own.terms))
    first, second = (own.stacked(Z, every, np.float32) for Z in (rows.Z, own.points))
    return first, second


def _roughness_of(
    own: ColumnKernels,
    rows: EncodedRows,
    fit: _Fit,
    has_all_points: bool,
    step: Step,
) -> tuple[float, _Fit]:
    """Return the roughness that predicts the targets better, and the fit with it."""
    smooth = ColumnKernels.of(own.points, own.is_score, own.terms, _SMOOTH)
    terms, landmarks = _stacks(smooth, rows)
    choice = fit.weights, fit.order, fit.strength
    found = _fit_of(step, terms, landmarks, rows, *choice)
    n_effective = rows.weights.sum() ** 2 / np.square(rows.weights).sum()
    gain = _GAIN + _GAIN_OF_FEW / np.sqrt(n_effective)
    if not has_all_points:
        gain += _GAIN_OF_POINTS
    if found.error < (1 - gain) * fit.error:
        return _SMOOTH, found
    return _ROUGH, fit


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


def _fit_of(step, terms, landmarks, rows, weights, order, strength) -> _Fit:
    """Fit kernel ridge regression with the penalty that has the smallest error."""
    step()
    gram = combined(landmarks, weights, order, strength).astype(np.float64)
    root = cholesky_with_jitter(gram)
    K = combined(terms, weights, order, strength)
    half = root.astype(np.float32)
    P = solve_triangular(half, K.T, lower=True, overwrite_b=True, check_finite=False).T
    error, coef, alpha = _best_penalty(P, rows.T, rows.weights)
    scales = np.sqrt(rows.weights)[:, None]  # by which P has been multiplied
    residual = rows.T - P @ coef / np.where(scales > 0, scales, 1)
    return _Fit(
        error=error,
        weights=weights,
        order=order,
        strength=strength,
        root=root,
        coef=coef,
        alpha=alpha,
        residual=residual,
    )


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
) -> tuple[float, np.ndarray, float]:
    """Return the smallest leave-one-out error divided by the variance, and its fit.

    The fit consists of the coefficients and the penalty. P is centred and multiplied by
    the square roots of the weights.
    """
    n, total = weights.sum(), max(float(weights @ np.square(T).sum(axis=1)), 1e-30)
    scales = np.sqrt(weights)[:, None].astype(P.dtype)
    P -= (weights @ P / n).astype(P.dtype)
    P *= scales
    scaled = (T * scales).astype(P.dtype)  # (n, k)
    values, vectors = np.linalg.eigh((P.T @ P).astype(np.float64))
    values = np.maximum(values, 1e-12)
    P = P @ vectors.astype(P.dtype)
    along = (P.T @ scaled).astype(np.float64)  # (m, k)
    inverses = 1 / (values[:, None] + _ALPHAS)  # (m, n_alphas)
    left = 1 - (weights / n)[:, None] - np.square(P) @ inverses.astype(P.dtype)
    np.maximum(left, _LEAST_LEFT, out=left)
    squares = np.zeros(len(_ALPHAS))
    for target, own in zip(scaled.T, along.T, strict=True):
        fitted = P @ (own[:, None] * inverses).astype(P.dtype)  # (n, n_alphas)
        squares += np.square((target[:, None] - fitted) / left).sum(axis=0)
    freedom = values @ inverses
    # as if the degrees of freedom were larger
    larger = np.maximum(n - 1 - _FREEDOM * freedom, 1e-3)
    errors = squares / total * ((n - 1 - freedom) / larger) ** 2
    errors[_FREEDOM * freedom >= _MOST_FREEDOM * n] = np.inf
    best = int(np.argmin(errors))
    coef = vectors @ (along * inverses[:, [best]])
    return float(errors[best]), coef, float(_ALPHAS[best])


# ------------------------------------------------------------------- linear terms
# Generalised cross-validation: penalties, and the least gain for which a block of
# features is used. The factor of the degrees of freedom is the same as for the kernel.
_LINEAR_ALPHAS, _LEAST_LINEAR_GAIN = np.logspace(-2, 4, 25), 0.01
_MOST_LEVELS = 1500  # per column; the most frequent levels have effects


class _Block(NamedTuple):
    """Features that share a prior variance: all numbers, or the levels of a column."""

    source: int | None  # None for numbers
    levels: np.ndarray  # sorted; empty for numbers
    owners: np.ndarray  # (p,), group of columns to which each feature belongs
    means: np.ndarray  # (p,), which are subtracted
    scale: float

    def raw(self, V: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the features before centring and scaling, (n, p)."""
        if self.source is None:
            return scores
        return (V[:, [self.source]] == self.levels).astype(np.float64)


@dataclass(frozen=True, eq=False)
class LinearTerms:
    """Features whose linear functions are added to those of the kernel.

    They are the scores of all numeric columns, and one indicator per level of
    categorical columns. A penalty on the coefficients of the indicators shrinks the
    effects of rare levels towards zero, as in a model with random effects. The scale of
    each block is the square root of its prior variance relative to that of the kernel.
    """

    encoding: Encoding  # of all columns
    blocks: tuple[_Block, ...]

    @classmethod
    def learned(
        cls,
        encoding: Encoding,
        V: np.ndarray,
        Z: np.ndarray,
        residual: np.ndarray,
        weights: np.ndarray,
        alpha: float,
    ) -> tuple[LinearTerms, np.ndarray]:
        """Return the terms that explain residuals of a ridge regression on the kernel.

        Z contains the encoded rows of V, and ``alpha`` is the penalty of the
        regression. The second result contains the standard deviation of the effects of
        each group of columns.
        """
        share = weights / weights.sum()
        deviations, found = np.zeros(len(encoding.groups)), list[_Block]()
        owner_of = {j: g for g, group in enumerate(encoding.groups) for j in group}
        before, penalties = _mean_square(residual, share), []
        scores = Z[:, encoding.is_score]
        for block in _linear_blocks(encoding, V, owner_of):
            raw = block.raw(V, scores)
            means = share @ raw
            is_number = block.source is None
            fitted = _fit_of_block(
                raw - is_number * means, residual, weights, is_number
            )
            if fitted is None:
                continue
            penalty, coef = fitted
            found.append(block._replace(means=means))
            penalties.append(penalty)
            total = (raw - means) @ coef
            variances = share @ np.square(raw - means) * np.square(coef).sum(axis=1)
            if block.source is not None:  # at most one of the features is not zero
                variances = np.append(_mean_square(total, share), 0 * variances[1:])
            np.add.at(deviations, block.owners, np.sqrt(variances))
            residual = residual - total
        # a smaller variance of the noise requires a smaller penalty on the kernel
        alpha *= _mean_square(residual, share) / max(before, 1e-300)
        blocks = (
            block._replace(scale=float(np.sqrt(alpha / penalty)))
            for block, penalty in zip(found, penalties, strict=True)
        )
        return cls(encoding, tuple(blocks)), deviations

    @property
    def owners(self) -> np.ndarray:
        """The group of columns to which each feature belongs, (p,)."""
        parts = [block.owners for block in self.blocks]
        return np.concatenate([np.zeros(0, np.intp), *parts])

    def transform(self, V: np.ndarray) -> np.ndarray:
        """Return the features of rows, (n, p), in float64."""
        V = V.astype(np.float64, copy=False)
        scores = np.zeros((len(V), 0))
        if any(block.source is None for block in self.blocks):
            scores = self.encoding.transform(V, beyond=True)[:, self.encoding.is_score]
        parts = [(b.raw(V, scores) - b.means) * b.scale for b in self.blocks]
        return np.concatenate([np.zeros((len(V), 0)), *parts], axis=1)


def _linear_blocks(
    encoding: Encoding, V: np.ndarray, owner_of: dict[int, int]
) -> list[_Block]:
    """Return a block for each categorical column, and one for all numbers."""
    found, none = list[_Block](), np.zeros(0)
    known = {c.source: c for c in encoding.columns if isinstance(c, Level)}
    numbers = [c.source for c in encoding.columns if isinstance(c, Score)]
    for source in sorted(known.keys() - {*numbers}):
        levels, counts = np.unique(V[:, source], return_counts=True)
        levels, counts = levels[~np.isnan(levels)], counts[~np.isnan(levels)]
        chosen = np.argsort(-counts, kind="stable")[:_MOST_LEVELS]
        levels = np.sort(levels[chosen])
        if len(levels):
            owners = np.full(len(levels), owner_of[source])
            found.append(
                _Block(
                    source=source, levels=levels, owners=owners, means=none, scale=1.0
                )
            )
    if numbers:
        owners = np.array([owner_of[j] for j in numbers], np.intp)
        found.append(
            _Block(source=None, levels=none, owners=owners, means=none, scale=1.0)
        )
    return found


def _fit_of_block(
    Z: np.ndarray, R: np.ndarray, weights: np.ndarray, correlated: bool
) -> tuple[float, np.ndarray] | None:
    """Return the best penalty and coefficients, or None if there is no gain.

    Indicators of levels are not correlated, so their Gram matrix is diagonal.
    """
    # Z (n, p), R (n, k)
    n = weights.sum()
    total = float(weights @ np.square(R).sum(axis=1))
    if not total > 0:
        return None
    cross = Z.T @ (R * weights[:, None])
    if correlated:
        values, vectors = np.linalg.eigh((Z * weights[:, None]).T @ Z)
    else:
        values, vectors = weights @ Z, np.eye(1)
    values = np.maximum(values, 1e-12 * max(values.max(), 1e-12))
    along = vectors.T @ cross if correlated else cross
    shrinkage = values / (values + _LINEAR_ALPHAS[:, None])  # (n_alphas, p)
    explained = (2 * shrinkage - shrinkage**2) @ (np.square(along).sum(1) / values)
    left = np.maximum(n - 1 - _FREEDOM * shrinkage.sum(axis=1), 1e-3)
    errors = n * n * np.maximum(total - explained, 0) / (total * left**2)
    errors[_FREEDOM * shrinkage.sum(axis=1) >= 0.9 * n] = np.inf
    best = int(np.argmin(errors))
    if not errors[best] < 1 - _LEAST_LINEAR_GAIN:
        return None
    coef = along / (values + _LINEAR_ALPHAS[best])[:, None]
    return float(_LINEAR_ALPHAS[best]), vectors @ coef if correlated else coef


def _mean_square(values: np.ndarray, share: np.ndarray) -> float:
    return float(share @ np.square(values).sum(axis=1))
