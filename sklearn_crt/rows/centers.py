"""Weighted means of groups of rows: a table made small, and mergeable."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.exceptions import ConvergenceWarning

from .._array import plain_sparse
from .frame import Frame
from .inputs import Inputs, Rows

_MOST_ENTRIES = np.iinfo(np.int32).max  # of a sparse table for k-means
_MANY = 2 * 10**7  # distances of an iteration, from which batches of rows are taken
_BLOCK = 64  # pivots that are drawn together: enough for products of matrices
_SPANNED = 1e-10  # of a kernel value of one that columns leave: little but rounding


@dataclass(frozen=True, eq=False)
class Centers:
    """Points that stand for groups of rows; ``a + b`` is both sets of points.

    A group is at first one row. Sums of weights and means stay exact.
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

    def in_one_pass(self, n_points: int, frame: Frame, *, seed: int) -> Centers:
        """Return fewer points, by a few steps of k-means from random points."""
        if self.shape[0] <= n_points:
            return self
        found = self._cluster(n_points, frame, seed, one_pass=True)
        _, labels = np.unique(found, return_inverse=True)
        return self._grouped(labels)

    def pivots(self, n_points: int, frame: Frame, *, seed: int) -> Centers:
        """Return some of the points, pivots for the Gaussian kernel of their frame."""
        rows = frame.rows(self.points.astype(np.float64, copy=False))
        index = random_pivots(rows, self.weights, n_points, seed=seed)
        return self._standing_for_all(index)

    def drawn(self, n_points: int, *, seed: int) -> Centers:
        """Return some of the points, at random in proportion to their weights."""
        if self.shape[0] <= n_points:
            return self
        shares = self.weights / self.weights.sum()
        rng = np.random.default_rng(seed)
        index = rng.choice(self.shape[0], n_points, replace=False, p=shares)
        return self._standing_for_all(np.sort(index))

    def _standing_for_all(self, index: np.ndarray) -> Centers:
        """Return some of the points, which share the weight of all."""
        share = self.weights.sum() / max(1, index.size)
        return Centers(self.points[index], np.full(index.size, share))

    def _cluster(
        self, n_points: int, frame: Frame, seed: int, *, one_pass: bool = False
    ) -> np.ndarray:
        from sklearn.cluster import KMeans, MiniBatchKMeans  # slow to import

        rows = frame.rows(self.points).matrix
        if sparse.issparse(rows):
            rows = _short(rows)
        options: dict[str, Any] = {"n_init": 1, "random_state": seed}
        if one_pass:
            options |= {"init": "random", "max_iter": 1, "batch_size": 1024}
            model = MiniBatchKMeans(n_points, reassignment_ratio=0, **options)
        elif rows.shape[0] * n_points > _MANY:
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


def random_pivots(
    rows: Inputs, weights: np.ndarray, n_points: int, *, seed: int
) -> np.ndarray:
    """Return rows by a randomly pivoted Cholesky factorisation of their kernel.

    A row is drawn in proportion to its weight and to what the columns of those before
    leave of its kernel value with itself: a block at once, each of which stays with the
    probability that the others of the block leave it. Fewer where nothing is left.
    """
    # weights (n_rows,) -> (at most n_points,)
    rng, n_rows = np.random.default_rng(seed), rows.shape[0]
    factor = np.empty((min(n_points, n_rows), n_rows))  # its rows are columns of L
    left, found = np.ones(n_rows), np.empty(0, dtype=int)
    while found.size < len(factor) and left.any():
        shares, before = weights * left, factor[: found.size]
        block = rng.choice(n_rows, _BLOCK, p=shares / shares.sum())
        columns = rows.take(block).sq_distances(rows)
        columns *= -0.5
        np.exp(columns, out=columns)
        columns -= before[:, block].T @ before
        least = np.maximum(rng.random(_BLOCK) * left[block], _SPANNED / 2)
        kept = _accepted(columns[:, block], least)[: len(factor) - found.size]
        if not kept:
            continue
        triangle = linalg.cholesky(columns[kept][:, block[kept]], lower=True)
        new = linalg.solve_triangular(triangle, columns[kept], lower=True)
        factor[found.size : found.size + len(kept)] = new
        found = np.append(found, block[kept])
        left -= np.einsum("ij,ij->j", new, new)
        left[found] = 0
        left[left < _SPANNED] = 0
    return found


def _accepted(residual: np.ndarray, least: np.ndarray) -> list[int]:
    """Return which of a block have more left than their least, each after the last."""
    # residual (n_block, n_block), least (n_block,)
    residual, kept = residual.copy(), []
    for i, threshold in enumerate(least):
        if residual[i, i] > threshold:
            kept.append(i)
            column = residual[:, i] / residual[i, i]
            residual -= np.outer(column, residual[i].copy())
    return kept


def _short(rows: sparse.csr_array) -> sparse.csr_array:
    """Return a sparse table with the 32-bit indices that k-means takes."""
    if rows.nnz > _MOST_ENTRIES:
        raise ValueError(
            f"X has {rows.nnz} stored entries, and k-means takes sparse rows of at "
            f"most {_MOST_ENTRIES} (32-bit indices). Give fewer rows, or a dense array."
        )
    return plain_sparse(rows)
