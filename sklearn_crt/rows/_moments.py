"""Mergeable statistics of the columns of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from .._dispatch import on_host
from ._device import batches_on_device, moments_on_device
from ._scratch import Scratch
from ._unit_rows import Rows

_CHUNK_BYTES = 2**19  # of float64 at a time: few enough for the cache


@dataclass(frozen=True)
class Moments:
    """Weighted count, mean, variance, mean magnitude and minimum of each column.

    All statistics are in float64 and merge exactly up to rounding, in any order.
    Squares are kept about the mean, so a column far from zero loses nothing.

    Attributes
    ----------
    weight : float
        Sum of the sample weights, the number of rows without weights.
    mean, variance, mean_abs : ndarray of shape (n_features,)
        Weighted averages of x, (x - mean)^2 and abs(x).
    minimum : ndarray of shape (n_features,)
        Least values in rows of positive weight, inf without any.
    """

    weight: float
    mean: np.ndarray
    variance: np.ndarray
    mean_abs: np.ndarray
    minimum: np.ndarray

    @classmethod
    def of(cls, X: Rows, sample_weight: np.ndarray | None = None) -> Moments:
        """Collect the statistics of the rows of a table.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            The rows.
        sample_weight : ndarray of shape (n_rows,), default=None
            Their weights.

        Returns
        -------
        moments : Moments
            Of all the rows.
        """
        if not on_host(X):
            batches = batches_on_device(X, sample_weight, X.shape[1])
            return reduce(add, (cls(*moments_on_device(*batch)) for batch in batches))
        n_rows = max(1, _CHUNK_BYTES // (8 * X.shape[1]))
        scratch = Scratch()
        parts = (
            cls._of_rows(
                X[rows], None if sample_weight is None else sample_weight[rows], scratch
            )
            for rows in gen_batches(X.shape[0], n_rows)
        )
        with np.errstate(over="ignore", invalid="ignore"):
            total = reduce(add, parts)
        if not np.isfinite(total.variance).all():
            raise ValueError(
                "Input X contains values whose squares are too large for float64. "
                "Scale the columns."
            )
        return total

    @classmethod
    def _of_rows(cls, X: Rows, weights: np.ndarray | None, scratch: Scratch) -> Moments:
        if isinstance(X, np.ndarray):
            X = scratch.cast(X, np.float64)
        else:
            X = X.astype(np.float64, copy=False)
        if weights is None:
            weights = np.ones(X.shape[0])
        weight = float(weights.sum())
        if weight == 0:
            zero = np.zeros(X.shape[1])
            return cls(0.0, zero, zero, zero, np.full(X.shape[1], np.inf))
        share = weights / weight
        counted = X if np.all(weights) else X[weights > 0]
        if sparse.issparse(X):
            mean, variance = mean_variance_axis(X, axis=0, weights=share)
            minimum, _ = min_max_axis(counted, axis=0)
            return cls(weight, mean, variance, share @ abs(X), minimum)
        mean, minimum = share @ X, counted.min(axis=0)
        room = scratch.array("room", X.shape, np.float64)
        mean_abs = share @ np.abs(X, out=room)
        np.subtract(X, mean, out=room)
        variance = share @ np.square(room, out=room)
        return cls(weight, mean, variance, mean_abs, minimum)

    def __add__(self, other: Moments) -> Moments:
        """Return the statistics of both sets of rows together."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        gap = other.mean - self.mean
        return Moments(
            weight,
            self.mean + share * gap,
            (1 - share) * (self.variance + share * gap**2) + share * other.variance,
            (1 - share) * self.mean_abs + share * other.mean_abs,
            np.minimum(self.minimum, other.minimum),
        )

    @property
    def mean_square(self) -> np.ndarray:
        """Weighted average of x^2, shape (n_features,)."""
        return self.variance + self.mean**2

    @property
    def total_variance(self) -> float:
        """Variance over all the entries of the table, as ``X.var()``."""
        return float(np.mean(self.variance) + np.var(self.mean))
