"""Weighted means of groups of rows: a table made small, and mergeable."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from .._array import plain_sparse
from .frame import Frame
from .inputs import Rows

_MOST_ENTRIES = np.iinfo(np.int32).max  # of a sparse table for k-means
_MANY = 2 * 10**7  # distances of an iteration, from which batches of rows are taken


@dataclass(frozen=True, eq=False)
class Centers:
    """Points that stand for groups of rows; ``a + b`` is both sets of points.

    A group is at first one row. ``reduced`` makes few large groups of many small ones
    by k-means: sums of weights and means are exact.
    """

    points: Rows  # (n_points, n_features)
    weights: np.ndarray  # (n_points,)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of points and columns."""
        return self.points.shape

    def __add__(self, other: Centers) -> Centers:
        """Return all the points of both, those of the first before the others."""
        pair = self, other
        if any(sparse.issparse(part.points) for part in pair):
            kind = next(type(p.points) for p in pair if sparse.issparse(p.points))
            points = kind(sparse.vstack([kind(part.points) for part in pair]))
        else:
            points = np.vstack([part.points for part in pair])
        weights = np.concatenate([part.weights for part in pair])
        return Centers(points, weights)

    def take(self, index: np.ndarray) -> Centers:
        """Return some of the points."""
        return Centers(self.points[index], self.weights[index])

    def reduced(
        self, n_points: int, frame: Frame, *, seed: int
    ) -> tuple[Centers, np.ndarray]:
        """Return fewer points, by weighted k-means, and which each point went to."""
        # -> (n_old_points,)
        if self.shape[0] <= n_points:
            return self, np.arange(self.shape[0])
        found = self._cluster(n_points, frame, seed)
        _, labels = np.unique(found, return_inverse=True)  # without empty ones
        return self._grouped(labels), labels

    def _cluster(self, n_points: int, frame: Frame, seed: int) -> np.ndarray:
        from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to import

        rows = frame.rows(self.points).matrix
        if sparse.issparse(rows):
            rows = _short(rows)
        options = {"n_init": 1, "random_state": seed}
        if rows.shape[0] * n_points > _MANY:
            model = MiniBatchKMeans(n_points, batch_size=4096, **options)
        else:
            model = KMeans(n_points, max_iter=100, **options)
        with warnings.catch_warnings():  # fewer distinct rows than points
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(rows, sample_weight=self.weights).labels_

    def _grouped(self, labels: np.ndarray) -> Centers:
        """Return the groups of these labels."""
        dtype, n_old = self.points.dtype, self.shape[0]
        weights = np.bincount(labels, self.weights)
        share = self.weights / weights[labels]
        mean = sparse.csr_matrix((share, (labels, np.arange(n_old))))

        points = mean @ self.points.astype(np.float64)
        if sparse.issparse(points):
            points = points.toarray()
        return Centers(points.astype(dtype), weights.astype(self.weights.dtype))


def _short(rows: sparse.csr_array) -> sparse.csr_array:
    """Return a sparse table with the 32-bit indices that k-means takes."""
    if rows.nnz > _MOST_ENTRIES:
        raise ValueError(
            f"X has {rows.nnz} stored entries, and k-means takes sparse rows of at "
            f"most {_MOST_ENTRIES} (32-bit indices). Give fewer rows, or a dense array."
        )
    return plain_sparse(rows)
