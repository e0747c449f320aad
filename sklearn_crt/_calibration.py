"""The distribution of leave-one-out errors, which calibrates prediction intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._quantiles import Distribution, weighted_quantiles

# Rows whose predictions are about equally certain form a group with its own
# distribution of errors, of at least _ROWS_PER_GROUP rows if there are several groups.
_MOST_GROUPS, _ROWS_PER_GROUP = 5, 200


class LeftOut(NamedTuple):
    """Predictions of rows by models that were fitted without them.

    They are nan if no prediction can be computed without the row.
    """

    predictions: np.ndarray  # (n, k)
    targets: np.ndarray  # (n, k)
    variances: np.ndarray  # (n, k), relative to that of the noise
    weights: np.ndarray  # (n,)


@dataclass(frozen=True, eq=False)
class Errors:
    """The distribution of prediction errors relative to their standard deviations."""

    ratios: np.ndarray  # (n, k), nan where the error is unknown
    # (n, k), standard deviations of the errors, relative to that of the noise
    deviations: np.ndarray
    weights: np.ndarray  # (n,)
    most_groups: int = _MOST_GROUPS  # by deviations, with a distribution each

    @classmethod
    def of(cls, rows: LeftOut, limits: tuple[np.ndarray, np.ndarray] | None) -> Errors:
        """Return the distribution, for predictions that are clipped to some limits."""
        predictions = rows.predictions
        if limits is not None:
            predictions = np.clip(predictions, *limits)
        deviations = np.sqrt(1 + rows.variances)
        ratios = (rows.targets - predictions) / deviations
        return cls(ratios, np.where(np.isnan(ratios), np.inf, deviations), rows.weights)

    def quantiles(self, deviations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the errors of new rows, (n_queries, k, n_levels).

        ``deviations`` are the standard deviations of the predictions of the new rows,
        relative to that of the noise, (n_queries, k). A quantile is exceeded, towards
        its tail, by the error of one further row with the nominal probability at most.
        """
        unknown = np.isnan(self.ratios)
        found = []
        for level in levels:
            side = 1.0 if level >= 0.5 else -1.0
            # errors that are unknown widen the distribution
            ratios = np.where(unknown, np.inf, side * self.ratios)
            level = max(level, 1 - level)
            options = {"for_new_row": level > 0.5}
            found.append(side * self._quantile(ratios, deviations, level, **options))
        return np.stack(found, axis=-1)

    def scores(self, deviations: np.ndarray) -> np.ndarray:
        """Return the share of rows with at least these deviations, (n_queries,)."""
        columns = zip(self.deviations.T, deviations.T, strict=True)
        found = [
            Distribution.of(-own, self.weights).shares_below(-queries)
            for own, queries in columns
        ]
        return np.min(found, axis=0)

    def margins(self, deviations: np.ndarray, coverage: float) -> np.ndarray:
        """Return half the widths of intervals with a given coverage, (n_queries, k)."""
        ratios = np.abs(self.ratios)
        ratios[np.isnan(ratios)] = np.inf
        return self._quantile(ratios, deviations, coverage, for_new_row=True)

    def _quantile(
        self,
        ratios: np.ndarray,
        deviations: np.ndarray,
        level: float,
        *,
        for_new_row: bool = False,
    ) -> np.ndarray:
        """Return a quantile of ratios, times the deviations of rows, (n_queries, k).

        If ``for_new_row`` is True, the ratio of one further row exceeds the quantile
        with a probability of at most 1 - level.
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
                if for_new_row:
                    n_rows = max(len(weights), weights.sum())
                    wanted = min(1.0, level * (1 + 1 / n_rows))
                levels = np.array([wanted])
                quantile = weighted_quantiles(weights[None], values[mine], levels)
                table[group] = quantile.item()
            found[:, k] = table[np.searchsorted(edges, queries)] * queries
        return found


def _edges_of_groups(deviations: np.ndarray, most_groups: int) -> np.ndarray:
    """Return the numbers that divide deviations into groups, none of which is empty."""
    n_groups = int(np.clip(len(deviations) // _ROWS_PER_GROUP, 1, most_groups))
    places = len(deviations) * np.arange(1, n_groups) // n_groups
    edges = np.unique(np.sort(deviations)[places])
    return edges[edges < deviations.max()]
