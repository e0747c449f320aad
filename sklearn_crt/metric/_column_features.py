"""Features of single columns (scores and hat functions), and their learned map."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from .._compat import cached_property
from .._values import Value
from ..arrays.namespaces import row_chunks
from ..arrays.validation import as_kind
from ..life_cycle.intervals import weighted_quantiles
from ..rows import Rows
from ..rows.statistics import varying_columns

_LIMIT = 4.0  # bound of softly clipped scores, in standard deviations
_KNOTS = np.linspace(0, 1, 6)  # quantile levels of the knots of the hat functions
# smaller standard deviations of features, whose values are about 1, are rounding errors
_CONSTANT_FEATURE = 1e-7
_CLOSEST = 1e-10  # values closer than this, in standard deviations, count as equal


@dataclass(frozen=True, eq=False)
class ColumnFeatures(Value):
    """Functions of single columns, standardised over the training rows.

    The score of a standardised value z is z / sqrt(1 + (z / 4)^2), so outliers do not
    dominate distances. If there are knots, hat functions are added, each of which is
    one at its own knot, zero at all other knots, and linear in between. Beyond the
    outermost knots they are extrapolated linearly and softly clipped, so rows outside
    the range of the training rows are far from them. Constant columns have no features.
    """

    kept: np.ndarray  # positions of the columns that are not constant
    center: np.ndarray  # (n_kept,)
    deviation: np.ndarray  # (n_kept,)
    knots: tuple[np.ndarray, ...]  # one array per column; empty without hat functions
    means: np.ndarray  # (n_features,)
    scales: np.ndarray  # (n_features,), standard deviations

    @classmethod
    def of(
        cls, X: np.ndarray, weights: np.ndarray, *, hats: bool, eps: float = 0.0
    ) -> ColumnFeatures:
        """Return the features fitted to weighted training rows.

        ``eps`` is the machine epsilon of the dtype in which the rows were given.
        """
        share = weights / weights.sum()
        kept, center, deviation = varying_columns(X, weights, eps)
        knots = []
        for j, width in zip(kept, deviation, strict=True) if hats else ():
            found = np.unique(weighted_quantiles(share[None], X[:, j], _KNOTS))
            # A hat function between nearly equal values would be a step.
            gaps = np.diff(found, prepend=-np.inf)
            knots.append(found[gaps > _CLOSEST * width])
        none = np.zeros(0)
        first = cls(
            kept=kept,
            center=center,
            deviation=deviation,
            knots=tuple(knots),
            means=none,
            scales=none,
        )
        raw = first._raw(X)
        means = share @ raw
        scales = np.sqrt(share @ (raw - means) ** 2)
        scales[scales <= _CONSTANT_FEATURE] = 1.0
        return replace(first, means=means, scales=scales)

    @property
    def has_hats(self) -> bool:
        """Whether any column has hat functions, which binary columns do not need."""
        return any(len(knots) > 2 for knots in self.knots)

    @cached_property
    def _hats(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the columns that have hat functions, their knots, and which have one.

        The knots of a column are padded with infinity if there are fewer than six. The
        last finite knot of a column has no hat function.
        """
        # -> (n_columns,), (n_columns, n_knots), (n_columns, n_knots)
        some = [j for j, knots in enumerate(self.knots) if len(knots) > 2]
        knots = np.full((len(some), _KNOTS.size), np.inf)
        for row, j in zip(knots, some, strict=True):
            row[: self.knots[j].size] = self.knots[j]
        exists = np.isfinite(knots)
        exists[:, :-1] &= exists[:, 1:]
        exists[:, -1] = False
        return self.kept[some], knots, exists

    def standardised(self, X: np.ndarray) -> np.ndarray:
        """Return the standard scores of the columns that are not constant."""
        center, deviation = (a.astype(X.dtype) for a in (self.center, self.deviation))
        return (X[:, self.kept] - center) / deviation

    def _raw(self, X: np.ndarray) -> np.ndarray:
        scores = softly_clipped(self.standardised(X))
        columns, knots, exists = self._hats
        left, share, _ = _between_knots(X[:, columns], knots)
        hats = np.zeros((*left.shape, knots.shape[1]), X.dtype)
        np.put_along_axis(hats, left[..., None], 1 - share[..., None], axis=2)
        np.put_along_axis(hats, left[..., None] + 1, share[..., None], axis=2)
        return np.hstack([scores, hats[:, exists]])

    def __call__(self, X: np.ndarray) -> np.ndarray:
        """Return the standardised features of rows, in the data type of the rows."""
        raw = self._raw(X)
        return (raw - self.means.astype(X.dtype)) / self.scales.astype(X.dtype)

    def slopes(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the derivatives of the features, and the column of each feature."""
        # -> (n_rows, n_features), (n_features,)
        found = [(1 + (self.standardised(X) / _LIMIT) ** 2) ** -1.5 / self.deviation]
        columns, knots, exists = self._hats
        left, _, slope = _between_knots(X[:, columns], knots)
        rises = np.zeros((*left.shape, knots.shape[1]))
        np.put_along_axis(rises, left[..., None], -slope[..., None], axis=2)
        np.put_along_axis(rises, left[..., None] + 1, slope[..., None], axis=2)
        found.append(rises[:, exists])
        of_hats = np.repeat(columns, exists.sum(axis=1))
        return np.hstack(found) / self.scales, np.concatenate([self.kept, of_hats])


def _between_knots(
    x: np.ndarray, knots: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the left knot of each value, its position in the interval, and the slope.

    The position grows linearly from 0 at the left knot to 1 at the next knot, and is
    extrapolated and softly clipped beyond the outer knots. The slope is its derivative.
    """
    # (n_rows, n_columns), (n_columns, n_knots) -> three arrays (n_rows, n_columns)
    left = np.zeros(x.shape, int)
    # At a knot, use the slope to the right of it, regardless of rounding errors.
    nearly = _CLOSEST * (knots[:, 1] - knots[:, 0])
    for knot, following in pairwise(knots[:, 1:].T):
        left += (x >= knot - nearly) & np.isfinite(following)
    of_column = np.arange(len(knots))
    first = knots[of_column, left]
    width = knots[of_column, left + 1] - first
    share = (x - first) / width
    inside = np.clip(share, 0.0, 1.0)
    beyond = share - inside
    factor = _LIMIT / np.hypot(_LIMIT, beyond)  # factor**3 is the derivative
    return left, inside + factor * beyond, factor**3 / width


@dataclass(frozen=True, eq=False)
class Metric:
    """A learned map, and the properties of it that users can inspect."""

    method: str
    scores: dict[str, float]
    features: ColumnFeatures
    components: np.ndarray  # (n_components, n_features)
    slopes: np.ndarray  # (n_components, n_columns), mean derivatives of the output
    metric: np.ndarray  # (n_columns, n_columns), mean products of derivatives
    deviation: np.ndarray  # (n_columns,), zero for constant columns

    def mapped(self, X: Rows) -> np.ndarray:
        """Return the products of features and components, computed block by block."""
        # -> (n_rows, n_components)
        out = np.empty((X.shape[0], len(self.components)), X.dtype)
        for rows in row_chunks(X, self.components.shape[1]):
            some = as_kind(X[rows], np.ndarray)
            out[rows] = self.features(some) @ self.components.T.astype(X.dtype)
        return out


def softly_clipped(scores: np.ndarray) -> np.ndarray:
    """Return z / sqrt(1 + (z / 4)^2) for standard scores z.

    This function moves outliers closer to other rows, but preserves their order.
    """
    return scores * (_LIMIT / np.hypot(_LIMIT, scores))
