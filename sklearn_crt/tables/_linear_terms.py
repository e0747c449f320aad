"""Linear terms of an ANOVA kernel: slopes of numbers, and effects of rare levels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._encoding import Encoding, Level, Score

# Generalised cross-validation: penalties, and the factor of degrees of freedom. A block
# of features is used if it lowers the error by _LEAST_GAIN.
_ALPHAS = np.logspace(-2, 4, 25)
_FREEDOM, _LEAST_GAIN = 1.2, 0.01
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
        least_count: int,
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
        for block in _candidates(encoding, V, owner_of, least_count):
            raw = block.raw(V, scores)
            means = share @ raw
            is_number = block.source is None
            fitted = _fitted(raw - is_number * means, residual, weights, is_number)
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
            scores = self.encoding.transform(V)[:, self.encoding.is_score]
        parts = [(b.raw(V, scores) - b.means) * b.scale for b in self.blocks]
        return np.concatenate([np.zeros((len(V), 0)), *parts], axis=1)


def _candidates(
    encoding: Encoding, V: np.ndarray, owner_of: dict[int, int], least_count: int
) -> list[_Block]:
    """Return a block for each categorical column, and one for all numbers."""
    found, none = list[_Block](), np.zeros(0)
    known = {c.source: c for c in encoding.columns if isinstance(c, Level)}
    numbers = [c.source for c in encoding.columns if isinstance(c, Score)]
    for source in sorted(known.keys() - {*numbers}):
        levels, counts = np.unique(V[:, source], return_counts=True)
        keep = ~np.isnan(levels) & (counts >= least_count)
        levels, counts = levels[keep], counts[keep]
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


def _fitted(
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
    shrinkage = values / (values + _ALPHAS[:, None])  # (n_alphas, p)
    explained = (2 * shrinkage - shrinkage**2) @ (np.square(along).sum(1) / values)
    left = np.maximum(n - 1 - _FREEDOM * shrinkage.sum(axis=1), 1e-3)
    errors = n * n * np.maximum(total - explained, 0) / (total * left**2)
    errors[_FREEDOM * shrinkage.sum(axis=1) >= 0.9 * n] = np.inf
    best = int(np.argmin(errors))
    if not errors[best] < 1 - _LEAST_GAIN:
        return None
    coef = along / (values + _ALPHAS[best])[:, None]
    return float(_ALPHAS[best]), vectors @ coef if correlated else coef


def _mean_square(values: np.ndarray, share: np.ndarray) -> float:
    return float(share @ np.square(values).sum(axis=1))
