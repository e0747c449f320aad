"""Distributions of weighted values, and the levels of quantiles."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_scalar

# so that values with almost no weight are not the quantile of level 0
_LEAST_LEVEL = 1e-13
# relative rounding error by which cumulative weights may miss a level
_ROUNDING = 1e-12


def weighted_quantiles(
    shares: np.ndarray, values: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return weighted quantiles of the values, for each row of weights.

    A quantile is the smallest value such that values up to and including it have at
    least the proportion ``level`` of the weight, as in ``numpy.quantile`` with
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
    """The distribution of a number over training rows."""

    values: np.ndarray  # (n_rows,), in ascending order
    shares: np.ndarray  # (n_rows + 1,), of the weight of the first rows

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> Self:
        order = np.argsort(values, kind="stable")
        sums = np.append(0.0, np.cumsum(weights[order]))
        return cls(values[order], sums / sums[-1])

    def shares_below(self, values: np.ndarray) -> np.ndarray:
        """Return the proportion of the rows with at most these values."""
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
