"""Similarity of rows to the training rows, expressed as a quantile."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..life_cycle.fitted import computed_once
from ..life_cycle.intervals import Distribution, weighted_quantiles
from ..rows import Rows
from ..rows.sample import DistinctSample
from ._keys import Keys
from ._prototypes import Prototypes
from ._row_weights import all_rows, kernel_of_model, log_totals, stores_rows
from ._sigma import N_KEYS

N_LEFT_OUT = 2000  # number of training rows, each of which is compared with all others
_N_NEIGHBORS = 5
# Rows with scores below _LEAST_SCORE count as unlike the training rows. Distances are
# measured in units of the quantile, at level _USUAL_DISTANCES, of the distances of
# training rows from their neighbours.
_LEAST_SCORE, _USUAL_DISTANCES = 0.05, 0.99
# Distances are limited, because they can be huge in nearly constant columns.
_MOST_UNITS = 5.0
# Differences up to these limits, between log weights and between distances in standard
# deviations, may be rounding errors of float32, so such values count as equal.
_TIES = 3e-4, 3e-6


class ComparedRows(NamedTuple):
    """Similarities of rows to the training rows, and distances from them."""

    scores: np.ndarray  # (n_rows,), from 0 to 1
    distances: np.ndarray  # (n_rows,), 0 unless scores are low


@dataclass(frozen=True, eq=False)
class Similarity:
    """The similarity of rows to the training rows, expressed as a quantile.

    A row is ranked among the training rows by its total kernel weight, in which columns
    count as much as in predictions, and by its mean distance from neighbours, in which
    all columns count equally. The similarity is the lower of the two quantiles.
    """

    few: DistinctSample  # a sample of the training rows
    keys: Keys
    scaler: Any  # a StandardScaler
    neighbors: Any  # NearestNeighbors of the standardised rows
    logs: Distribution
    closeness: Distribution
    unit: float  # unit of the distances
    both: Any = None  # the Distribution of the lower of the two quantiles
    # ComparedRows of the sample's first rows, each compared with all other rows
    left_out: Any = None

    @classmethod
    def of(cls, value: Any) -> Similarity:
        """Return a comparison with the training rows of fitted averages."""
        return computed_once(value, "similarity", lambda: cls._computed(value))

    @classmethod
    def _computed(cls, value: Any) -> Similarity:
        # imported here, because the modules load slowly
        from sklearn.neighbors import NearestNeighbors
        from sklearn.preprocessing import StandardScaler

        keys = value.solution
        few = DistinctSample.of([all_rows(keys)], N_KEYS)
        first = slice(N_LEFT_OUT)
        X, weights = few.X[first, ...], few.weights[first]
        scaler = StandardScaler(with_mean=False).fit(few.X, sample_weight=few.weights)
        n_neighbors = min(_N_NEIGHBORS + 1, few.X.shape[0])
        neighbors = NearestNeighbors(n_neighbors=n_neighbors)
        neighbors.fit(scaler.transform(few.X))
        closest, _ = neighbors.kneighbors(scaler.transform(X))
        # the closest row is the row itself
        distances = closest[:, 1:].sum(axis=1) / max(n_neighbors - 1, 1)
        level = np.array([_USUAL_DISTANCES])
        unit = weighted_quantiles(weights[None], distances, level).item()
        neighbors.set_params(n_neighbors=max(n_neighbors - 1, 1))
        logs = log_totals(keys, X, left_out=True)
        of_logs = Distribution.of(logs, weights)
        of_closeness = Distribution.of(-distances, weights)
        found = cls(few, keys, scaler, neighbors, of_logs, of_closeness, unit)
        both = Distribution.of(found._least_share(logs, distances), weights)
        found = replace(found, both=both)
        return replace(found, left_out=found._compared(logs, distances))

    def compared(self, X: Rows) -> ComparedRows:
        """Compare rows with all training rows."""
        closest, _ = self.neighbors.kneighbors(self.scaler.transform(X))
        logs = log_totals(self.keys, X)
        return self._compared(logs, closest.mean(axis=1))

    def _compared(self, logs: np.ndarray, distances: np.ndarray) -> ComparedRows:
        least = self._least_share(logs, distances)
        scores = self.both.shares_below(least + _TIES[1])
        ratios = distances / self.unit if self.unit > 0 else distances
        ratios = np.clip(ratios, 1, _MOST_UNITS)
        low = np.maximum(1 - scores / _LEAST_SCORE, 0)
        return ComparedRows(scores, low**3 * ratios)

    def _least_share(self, logs: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return the lower of the two quantiles among the training rows."""
        closeness = self.closeness.shares_below(_TIES[1] - distances)
        return np.minimum(self.logs.shares_below(logs + _TIES[0]), closeness)


def keeps_all_rows(model: Any) -> bool:
    """Return True if all training rows are stored; otherwise raise AttributeError."""
    if isinstance(kernel_of_model(model), Prototypes):
        raise AttributeError(
            "Prototypes are means of training rows, none of which can be left out; use "
            f"the exact kernel, {type(model).__name__}(), to keep the rows."
        )
    return stores_rows(model)
