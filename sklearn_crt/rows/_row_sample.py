"""A random sample of the rows of a table that may come in batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import euclidean_distances

from .._arrays import taken, to_host
from .._dispatch import on_host
from ._unit_rows import Rows


@dataclass(frozen=True, eq=False)
class RowSample:
    """Uniform random sample of some of the rows of positive weight.

    Each row gets a random priority and the smallest stay. So two samples merge,
    ``a + b``, and the sample of rows that come in batches is that of the rows together.

    Attributes
    ----------
    rows : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The rows in the sample, as they came.
    priorities : ndarray of shape (n_rows,)
        Their priorities in [0, 1).
    weights : ndarray of shape (n_rows,)
        Their sample weights.
    n_seen : int
        Number of rows that it was drawn from.
    size : int, default=1000
        Largest number of rows that are kept.
    """

    rows: Rows
    priorities: np.ndarray
    weights: np.ndarray
    n_seen: int
    size: int = 1000

    @classmethod
    def of(
        cls,
        X: Rows,
        sample_weight: np.ndarray | None,
        rng: np.random.Generator,
        n_before: int = 0,
        size: int = 1000,
    ) -> RowSample:
        """Draw from the rows of a table.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            The rows.
        sample_weight : ndarray of shape (n_rows,) or None
            Rows of weight 0 are left out.
        rng : numpy.random.Generator
            The stream of the priorities, from its beginning.
        n_before : int, default=0
            Number of rows that had their priorities from this stream before.
        size : int, default=1000
            Largest number of rows that are kept.

        Returns
        -------
        sample : RowSample
            Of these rows.
        """
        rng.bit_generator.advance(n_before)  # type: ignore[attr-defined]  # PCG64 can
        n_rows: int = X.shape[0]
        weights = np.ones(n_rows) if sample_weight is None else to_host(sample_weight)
        whole = cls(X, rng.random(n_rows), weights, n_rows, size)
        return whole._smallest(np.flatnonzero(weights))

    def _smallest(self, candidates: np.ndarray) -> RowSample:
        """Keep the candidate rows of smallest priority, in their order."""
        order = np.argsort(self.priorities[candidates])[: self.size]
        keep = np.sort(candidates[order])
        priorities, weights = self.priorities[keep], self.weights[keep]
        rows = taken(self.rows, keep)
        rows = rows if on_host(rows) else to_host(rows)
        return RowSample(rows, priorities, weights, self.n_seen, self.size)

    def __add__(self, other: RowSample) -> RowSample:
        """Return the sample of both sets of rows."""
        pair = self, other
        if any(sparse.issparse(part.rows) for part in pair):
            rows = sparse.vstack([part.rows for part in pair]).tocsr()
        else:
            rows = np.vstack([part.rows for part in pair])
        priorities = np.concatenate([part.priorities for part in pair])
        weights = np.concatenate([part.weights for part in pair])
        n_seen = self.n_seen + other.n_seen
        whole = RowSample(rows, priorities, weights, n_seen, self.size)
        return whole._smallest(np.arange(rows.shape[0]))

    def median_distance(self) -> float:
        """Return the weighted median distance of pairs of distinct rows.

        Returns
        -------
        distance : float
            Positive; 1 where there is no such pair.
        """
        rows, weights = self.rows.astype(np.float64), self.weights
        pairs = np.triu_indices(rows.shape[0], 1)
        if sparse.issparse(rows):
            distances = euclidean_distances(rows)[pairs]
        else:
            distances = pdist(rows)
        # equal rows of a sparse table are apart by rounding
        distinct = distances > 1e-7 * distances.max(initial=0)
        pair_weights = np.where(distinct, (weights[:, None] * weights)[pairs], 0)
        order = np.argsort(distances)
        cumulated = np.cumsum(pair_weights[order])
        if cumulated.size == 0 or cumulated[-1] == 0:
            return 1.0
        middle = np.searchsorted(cumulated, 0.5 * cumulated[-1])
        return float(distances[order[middle]])

    def distinct(self) -> tuple[Rows, np.ndarray]:
        """Return the distinct rows and their weights, in an order of their own.

        So what is fitted to them does not depend on the order of the rows of a table,
        and a weight of two is a row that comes twice.

        Returns
        -------
        rows : {ndarray, sparse matrix} of shape (n_distinct, n_features)
            One row of zeros where the sample is empty.
        weights : ndarray of shape (n_distinct,)
            Sums of the weights of equal rows.
        """
        rows, weights = self.rows, self.weights
        if rows.shape[0] == 0:  # all the weights are zero
            return np.zeros((1, rows.shape[1]), rows.dtype), np.ones(1)
        direction = np.random.default_rng(0).standard_normal(rows.shape[1])
        order = np.argsort(rows @ direction, kind="stable")
        rows, weights = rows[order], weights[order]
        changes = rows[1:] != rows[:-1]
        first = np.append(True, np.asarray(changes.sum(axis=1)).ravel() > 0)
        return rows[first], np.add.reduceat(weights, np.flatnonzero(first))
