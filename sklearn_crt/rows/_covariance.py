"""Mergeable second moments of pairs of columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from sklearn.utils import gen_batches

from .._dispatch import on_host
from ._device import batches_on_device, covariance_on_device
from ._unit_rows import Rows

_CHUNK_BYTES = 2**22  # float64 copies are made of this much at a time


@dataclass(frozen=True, eq=False)
class Covariance:
    """Weighted mean and covariance matrix of the columns; ``a + b`` is that of both.

    In float64, about the mean of each chunk of rows, so a column far from zero loses
    nothing unless the table is sparse. Costs O(n d^2) to read and O(d^2) to keep.

    Attributes
    ----------
    weight : float
        Sum of the sample weights, the number of rows without weights.
    mean : ndarray of shape (n_features,)
        Weighted average of the rows.
    matrix : ndarray of shape (n_features, n_features)
        Weighted average of (x - mean)(x - mean)'.
    """

    weight: float
    mean: np.ndarray
    matrix: np.ndarray

    @classmethod
    def of(cls, X: Rows, sample_weight: np.ndarray | None = None) -> Covariance:
        """Collect the statistics of the rows of a table.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            The rows.
        sample_weight : ndarray of shape (n_rows,), default=None
            Their weights.

        Returns
        -------
        covariance : Covariance
            Of all the rows.
        """
        if not on_host(X):
            batches = batches_on_device(X, sample_weight, X.shape[1])
            return reduce(
                add, (cls(*covariance_on_device(*batch)) for batch in batches)
            )
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        # at least d rows, so that merging costs no more than the products
        n_rows = max(X.shape[1], _CHUNK_BYTES // (8 * X.shape[1]))
        parts = (
            cls._of_rows(X[rows], weights[rows])
            for rows in gen_batches(X.shape[0], n_rows)
        )
        total = next(parts)
        for part in parts:
            total = total + part
        return total

    @classmethod
    def _of_rows(cls, X: Rows, weights: np.ndarray) -> Covariance:
        X = X.astype(np.float64, copy=False)
        weight, d = float(weights.sum()), X.shape[1]
        if weight == 0:
            return cls(0.0, np.zeros(d), np.zeros((d, d)))
        share = weights / weight
        mean = np.asarray(share @ X)
        if not isinstance(X, np.ndarray):
            products = (X.T @ X.multiply(share[:, None])).toarray()
            return cls(weight, mean, products - np.outer(mean, mean))
        centred = (X - mean) * np.sqrt(share)[:, None]
        return cls(weight, mean, centred.T @ centred)

    def __add__(self, other: Covariance) -> Covariance:
        """Return the statistics of both sets of rows together."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        gap = other.mean - self.mean
        between = share * (1 - share) * np.outer(gap, gap)
        within = (1 - share) * self.matrix + share * other.matrix
        return Covariance(weight, self.mean + share * gap, within + between)
