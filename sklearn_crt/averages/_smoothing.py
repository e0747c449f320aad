"""Smoothing of class frequencies, which turns them into calibrated probabilities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._array import Array, asarray_like, at_least, namespace_of
from .._fitted import computed_once
from ..rows.sample import DistinctSample
from ._exact import ExactAverages, RowAverages
from ._row_weights import all_rows, effective_sizes
from ._sigma import number_of_distinct_rows

# Amounts and exponents to choose from. The bounds matter in a learned metric, in which
# leave-one-out probabilities are too good, because the metric has seen all labels.
_AMOUNTS, _EXPONENTS = np.geomspace(0.05, 10, 9), np.linspace(0.6, 1.5, 10)
_MOST_ROWS, _LEAST_ROWS = 1000, 200  # training rows that are left out
_MOST_PRODUCTS = 2**33  # of kernel values and targets, fewer if there are many rows


class Smoothing(NamedTuple):
    """Additive smoothing and temperature scaling of class frequencies.

    With the effective number n of training rows behind the frequencies p of K classes,
    the probabilities are proportional to ((n p + amount / K) / (n + amount))^exponent.
    The order of the classes stays the same, and no probability is 0 or 1.
    """

    amount: float = 1.0  # total weight of the rows that are added, equal for each class
    exponent: float = 1.0
    rows_per_weight: float = 1.0  # so that only ratios of sample weights matter

    @classmethod
    def of(cls, value: RowAverages) -> Smoothing:
        """Return the smoothing with the lowest leave-one-out log loss."""
        return computed_once(value, "smoothing", lambda: cls._best(value))

    @classmethod
    def _best(cls, value: Any) -> Smoothing:
        keys, sigma = value.keys, value.sigma
        X, y, weights = all_rows(keys)
        if not isinstance(value, ExactAverages):
            # without the rows there are no leave-one-out frequencies
            return cls(rows_per_weight=max(1.0, len(y) / weights.sum()))
        n_columns = keys.targets.n_averages + keys.targets.n_products(X.shape[1])
        n_rows = int(_MOST_PRODUCTS // (len(y) * n_columns))
        n_rows = min(max(n_rows, _LEAST_ROWS), _MOST_ROWS)
        few = DistinctSample.of([(X, y, weights)], n_rows)
        scale = number_of_distinct_rows(few) / weights.sum()
        parts = [sums.scores for _, sums in keys.sums(few.X, sigma, left_out=True)]
        scores = np.maximum(np.concatenate(parts)[:, : keys.targets.n_averages], 0)
        total = scores.sum(axis=1, keepdims=True)
        shares = scores / np.where(total > 0, total, 1)
        shares = np.where(total > 0, shares, value.seen.shares)
        sizes = effective_sizes(keys, few.X, sigma, left_out=True)
        own = np.arange(len(few.y)), few.y

        def loss(smoothing: Smoothing) -> float:
            found = smoothing.probabilities(shares, sizes)
            return -float(few.weights @ np.log(found[own]))

        return min((cls(a, t, scale) for a in _AMOUNTS for t in _EXPONENTS), key=loss)

    def probabilities(self, shares: Array, sizes: np.ndarray) -> Array:
        """Return probabilities from frequencies and effective numbers of rows."""
        # (n_rows, n_classes), (n_rows,) -> (n_rows, n_classes)
        xp, n_classes = namespace_of(shares), shares.shape[1]
        if n_classes == 1:
            return shares
        n_rows = asarray_like(self.rows_per_weight * sizes[:, None], shares)
        found = n_rows * at_least(shares, 0.0) + self.amount / n_classes
        found = (found / xp.max(found, axis=1, keepdims=True)) ** self.exponent
        return found / xp.sum(found, axis=1, keepdims=True)
