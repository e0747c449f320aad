"""Weighted quantiles, and the error distributions that calibrate intervals."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_scalar

# smallest level; at level 0, a value with almost no weight could become the quantile
_LEAST_LEVEL = 1e-13
# relative tolerance for comparing cumulative weights with a level
_ROUNDING = 1e-12
# Rows whose predictions have similar standard deviations form a group with its own
# error distribution. If there are several groups, each has at least _ROWS_PER_GROUP
# rows.
_MOST_GROUPS, _ROWS_PER_GROUP = 5, 200


def weighted_quantiles(
    shares: np.ndarray, values: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return weighted quantiles of the values for each row of weights.

    The quantile is the smallest of the values at which the cumulative weight reaches
    the proportion ``level`` of the total weight, as in ``numpy.quantile`` with
    ``method="inverted_cdf"``.
    """
    # shares (n_queries, n), values (n,), levels (l,) -> (n_queries, l)
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(shares[:, order], axis=1)
    found = np.empty((len(sums), len(levels)))
    for i, level in enumerate(levels):
        least = max(level * (1 - _ROUNDING), _LEAST_LEVEL)
        places = np.count_nonzero(sums < least * sums[:, -1:], axis=1)
        found[:, i] = values[order[np.minimum(places, len(order) - 1)]]
    return found


class Distribution(NamedTuple):
    """The weighted distribution of a quantity over the training rows."""

    values: np.ndarray  # (n_rows,), in ascending order
    shares: np.ndarray  # (n_rows + 1,), cumulative weights

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> Self:
        order = np.argsort(values, kind="stable")
        sums = np.append(0.0, np.cumsum(weights[order]))
        return cls(values[order], sums / sums[-1])

    def shares_below(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted proportion of rows at or below each given value."""
        return self.shares[np.searchsorted(self.values, values, side="right")]


def check_levels(quantiles: ArrayLike) -> np.ndarray:
    """Return the levels of quantiles as an array, after checking their range."""
    levels: Any = check_array(np.atleast_1d(quantiles), ensure_2d=False, dtype=float)
    if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(
            "quantiles must be a number or a list of numbers between 0 and 1, got "
            f"{quantiles!r}."
        )
    return levels


def check_coverage(coverage: float) -> float:
    """Return the coverage of an interval after checking its range."""
    ends = {"min_val": 0, "max_val": 1, "include_boundaries": "neither"}
    return float(check_scalar(coverage, "coverage", Real, **ends))


def levels_of_interval(coverage: float) -> np.ndarray:
    """Return the levels of the quantiles that bound a central interval."""
    return 0.5 + np.array([-0.5, 0.5]) * check_coverage(coverage)


class LeftOut(NamedTuple):
    """Predictions for training rows by models that were fitted without them.

    A prediction is nan if it cannot be computed without the row.
    """

    predictions: np.ndarray  # (n, k)
    targets: np.ndarray  # (n, k)
    variances: np.ndarray  # (n, k), in units of the noise variance
    weights: np.ndarray  # (n,)


@dataclass(frozen=True, eq=False)
class Errors:
    """The distribution of prediction errors, divided by their standard deviations."""

    ratios: np.ndarray  # (n, k), nan where the error is unknown
    # (n, k), standard deviations of the errors, divided by that of the noise
    deviations: np.ndarray
    weights: np.ndarray  # (n,)
    most_groups: int = _MOST_GROUPS  # each group has its own distribution of errors

    @classmethod
    def of(cls, rows: LeftOut, limits: tuple[np.ndarray, np.ndarray] | None) -> Errors:
        """Return the error distribution for predictions that are clipped to limits."""
        predictions = rows.predictions
        if limits is not None:
            predictions = np.clip(predictions, *limits)
        deviations = np.sqrt(1 + rows.variances)
        ratios = (rows.targets - predictions) / deviations
        return cls(ratios, np.where(np.isnan(ratios), np.inf, deviations), rows.weights)

    def quantiles(self, deviations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the errors of new rows, (n_queries, k, n_levels).

        ``deviations`` are the standard deviations of the errors of new rows, divided by
        that of the noise, (n_queries, k). For an upper quantile, the probability that
        the error of a new row is larger is at most 1 - level. For a lower quantile, the
        probability that it is smaller is at most the level.
        """
        unknown = np.isnan(self.ratios)
        found = []
        for level in levels:
            side = 1.0 if level >= 0.5 else -1.0
            # unknown errors count as infinite, so they widen the intervals
            ratios = np.where(unknown, np.inf, side * self.ratios)
            level = max(level, 1 - level)
            found.append(side * self._quantile(ratios, deviations, level))
        return np.stack(found, axis=-1)

    @property
    def root_mean_squares(self) -> np.ndarray:
        """Root mean squares of the ratios, (k,); nan where an error is unknown."""
        return np.sqrt(self.weights @ self.ratios**2 / self.weights.sum())

    def scores(self, deviations: np.ndarray) -> np.ndarray:
        """Return the proportion of training rows with deviations at least as large."""
        columns = zip(self.deviations.T, deviations.T, strict=True)
        found = [
            Distribution.of(-own, self.weights).shares_below(-queries)
            for own, queries in columns
        ]
        return np.min(found, axis=0)

    def _quantile(
        self, ratios: np.ndarray, deviations: np.ndarray, level: float
    ) -> np.ndarray:
        """Return a quantile of the ratios times the deviations of rows, (n_queries, k).

        For levels above 0.5, the probability that the ratio of a new row exceeds the
        quantile is at most 1 - level.
        """
        found = np.empty(deviations.shape)
        columns = zip(self.deviations.T, ratios.T, deviations.T, strict=True)
        for k, (own, values, queries) in enumerate(columns):
            edges = _edges_of_groups(own, self.most_groups)
            groups = np.searchsorted(edges, own)
            table = np.empty(len(edges) + 1)
            for group in range(len(table)):
                mine = groups == group
                weights, wanted = self.weights[mine], level
                if level > 0.5:
                    n_rows = max(len(weights), weights.sum())
                    wanted = min(1.0, level * (1 + 1 / n_rows))
                levels = np.array([wanted])
                quantile = weighted_quantiles(weights[None], values[mine], levels)
                table[group] = quantile.item()
            found[:, k] = table[np.searchsorted(edges, queries)] * queries
        return found


def _edges_of_groups(deviations: np.ndarray, most_groups: int) -> np.ndarray:
    """Return the edges that divide deviations into non-empty groups."""
    n_groups = int(np.clip(len(deviations) // _ROWS_PER_GROUP, 1, most_groups))
    places = len(deviations) * np.arange(1, n_groups) // n_groups
    edges = np.unique(np.sort(deviations)[places])
    return edges[edges < deviations.max()]
