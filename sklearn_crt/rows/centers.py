"""Weighted points that stand for groups of rows, so that a table becomes small."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import linalg, sparse
from sklearn.utils import gen_batches
from sklearn.utils.extmath import safe_sparse_dot

from .._array import plain_sparse
from .._kernels import sq_norms
from .frame import Frame
from .inputs import DenseInputs, Inputs, Rows

_DISTANCES = 2**16  # computed at a time, few enough for the cache
_LARGE = 10**7  # distances of one step, above which k-means sees a sample of rows
_ROWS_PER_CLUSTER = 3  # at least, in this sample
_STEPS = 100  # of k-means at most
_STEPS_OF_SAMPLE, _STEPS_OF_ALL = 20, 4  # the same in a large table
_ALL_DISTANCES = 5 * 10**8  # computed by all the steps, which may then be fewer
_SHIFT = 1e-4  # squared, in units of the variance: centres have stopped moving
_TIE = 1e-6  # relative difference of two squared distances that count as equal
_CLOSE = 1e-6  # of a squared norm: squared distances that are computed anew
_ROUNDING = 1e-24  # of the mean squared norm: the square of what rounding moves a mean
_BLOCK = 64  # pivots that are drawn together: enough for products of matrices
_SPANNED = 1e-10  # of a kernel value: what columns leave of it is little but rounding


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

    def distinct(self) -> tuple[Centers, np.ndarray]:
        """Return each distinct point once, sorted by content, and the place of each.

        The weight of a point is that of all its copies. So neither the order of rows
        matters for what is drawn from them, nor whether a row of weight 2 comes twice.
        """
        # -> (n_points,)
        first, places = distinct_rows(self.points)
        weights = np.bincount(places, self.weights).astype(self.weights.dtype)
        return Centers(self.points[first], weights), places

    def reduced(
        self, n_points: int, frame: Frame, *, seed: int
    ) -> tuple[Centers, np.ndarray]:
        """Return fewer points, by weighted k-means, and which each point went to."""
        # -> (n_old_points,)
        whole, places = self.distinct()
        if whole.shape[0] <= n_points:
            return whole, places
        rows = whole._inputs(frame)
        labels = k_means(rows, whole.weights, n_points, seed=seed)
        return whole._grouped(labels), labels[places]

    def in_two_steps(self, n_points: int, frame: Frame, *, seed: int) -> Centers:
        """Return fewer points, by two steps of k-means from random points."""
        whole, _ = self.distinct()
        if whole.shape[0] <= n_points:
            return whole
        rng, rows = np.random.default_rng(seed), whole._inputs(frame)
        start = rows.matrix[_draw(whole.weights, n_points, rng)]
        labels = lloyd(rows, whole.weights, start, n_steps=2)
        return whole._grouped(labels)

    def pivots(self, n_points: int, frame: Frame, *, seed: int) -> Centers:
        """Return some of the points, pivots for the Gaussian kernel of their frame."""
        whole, _ = self.distinct()
        rows, weights = whole._inputs(frame), whole.weights
        return whole._standing_for_all(
            random_pivots(rows, weights, n_points, seed=seed)
        )

    def drawn(self, n_points: int, *, seed: int) -> Centers:
        """Return some of the points, at random in proportion to their weights."""
        whole, _ = self.distinct()
        if whole.shape[0] <= n_points:
            return whole
        index = _draw(whole.weights, n_points, np.random.default_rng(seed))
        return whole._standing_for_all(np.sort(index))

    def _standing_for_all(self, index: np.ndarray) -> Centers:
        """Return some of the points, which share the weight of all."""
        share = self.weights.sum() / max(1, index.size)
        return Centers(self.points[index], np.full(index.size, share))

    def _inputs(self, frame: Frame) -> Inputs:
        """Return the points at unit bandwidth, in float64 and about their mean.

        In float32 the mean of a frame, which depends on batches by its last digit,
        would move rows by more than the differences that count as ties.
        """
        points: Any = self.points.astype(np.float64, copy=False)
        if sparse.issparse(points):
            if frame.center is None:
                return frame.rows(points)
            points = points.toarray()
        mean = np.average(points, axis=0, weights=self.weights)
        return Frame(frame.sigma, mean).rows(points)

    def _grouped(self, labels: np.ndarray) -> Centers:
        """Return the weighted means of groups of points, and their weights."""
        weights, points = group_means(self.points, self.weights, labels)
        return Centers(
            points.astype(self.points.dtype), weights.astype(self.weights.dtype)
        )


def distinct_rows(
    rows: Rows, y: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return where each distinct row stands first, sorted by content, and their places.

    They are sorted by the first column, then by the second and so on, in the same order
    whether they are sparse or dense. With targets, equal rows have equal targets too.
    """
    # y (n_rows,) or (n_rows, n_outputs) -> (n_distinct,), (n_rows,)
    if y is not None:
        _, places = distinct_rows(rows)
        return distinct_rows(np.column_stack([places, y]))
    if sparse.issparse(rows):
        keys = _keys_of_sparse(rows)
    else:
        table = _sortable(rows)
        n_bytes = table.dtype.itemsize * table.shape[1]
        keys = table.view(np.dtype((np.void, n_bytes))).ravel()
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    return first, places


def _sortable(values: np.ndarray) -> np.ndarray:
    """Return floats as integers whose bytes are in the order of the numbers."""
    bits = np.add(values, 0.0, dtype=np.float64, order="C").view(np.int64)  # no -0.0
    return (bits ^ ((bits >> 63) | np.int64(-(2**63)))).astype(">i8")


def _keys_of_sparse(rows: sparse.csr_array) -> np.ndarray:
    """Return the places of sparse rows among the distinct ones, sorted by content."""
    # -> (n_rows,)
    rows = plain_sparse(rows).copy()
    rows.eliminate_zeros()
    # a row goes on with a negative number, with zeros alone, or with a positive number:
    # the earlier that is, the smaller or the larger is the row
    zeros, index = 2**56, rows.indices.astype(np.int64)
    heads = np.where(rows.data < 0, index, 2 * zeros - index).astype(">i8")
    entries = np.stack([heads, _sortable(rows.data)], axis=1).astype(">i8").tobytes()
    bounds, end = 16 * rows.indptr.astype(np.int64), zeros.to_bytes(8, "big")
    contents = [entries[start:stop] + end for start, stop in pairwise(bounds.tolist())]
    places = {content: k for k, content in enumerate(sorted(set(contents)))}
    return np.array([places[content] for content in contents])


def group_means(
    rows: Rows, weights: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights of groups 0, 1, ... of rows, and the means of the rows."""
    # labels (n_rows,) -> (n_groups,), (n_groups, n_features)
    totals = np.bincount(labels, weights)
    parts = weights / totals[labels], (labels, np.arange(len(labels)))
    means = sparse.csr_matrix(parts) @ rows.astype(np.float64, copy=False)
    return totals, means.toarray() if sparse.issparse(means) else means


def k_means(
    rows: Inputs, weights: np.ndarray, n_clusters: int, *, seed: int
) -> np.ndarray:
    """Return clusters of distinct rows by weighted k-means, without empty ones.

    From k-means++, and in a large table on a sample of the rows, to the means of which
    all are assigned. Equal distances are decided by the order of the clusters, which
    follows from the rows: rounding would decide otherwise in a table of integers.
    """
    # weights (n_rows,) -> (n_rows,)
    rng, n_rows = np.random.default_rng(seed), rows.shape[0]
    if n_rows * n_clusters <= _LARGE:
        centers = _spread(rows, weights, n_clusters, rng)
        return lloyd(rows, weights, centers, n_steps=_STEPS)
    n_sampled = max(_LARGE // n_clusters, _ROWS_PER_CLUSTER * n_clusters)
    sample = np.sort(rng.permutation(n_rows)[:n_sampled])
    some, own = rows.take(sample), weights[sample]
    centers = _spread(some, own, n_clusters, rng)
    labels = lloyd(some, own, centers, n_steps=_STEPS_OF_SAMPLE)
    _, means = group_means(some.matrix, own, labels)
    return lloyd(rows, weights, means, n_steps=_STEPS_OF_ALL)


def _draw(weights: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Return some of the rows, drawn in proportion to their weights."""
    share = weights / weights.sum(dtype=np.float64)
    return rng.choice(weights.size, size, replace=False, p=share / share.sum())


def _spread(
    rows: Inputs, weights: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> Rows:
    """Return rows to begin k-means with, by greedy k-means++.

    Each is the best of a few rows that are drawn in proportion to the squared distances
    from those before; the first of equally good ones is taken.
    """
    # weights (n_rows,) -> (at most n_clusters, n_features)
    n_trials = 2 + int(np.log(n_clusters))
    matrix, norms = rows.matrix, rows.sq_norms[:, 0]
    found, nearest = [], np.full(len(norms), np.inf)
    trials = _draw(weights, 1, rng)
    while True:
        squares = safe_sparse_dot(-2 * matrix[trials], matrix.T, dense_output=True)
        squares += norms
        squares += norms[trials, None]
        squares[np.arange(len(trials)), trials] = 0
        np.clip(squares, 0, nearest, out=squares)
        sums = squares @ weights
        best = int((sums <= sums.min() * (1 + _TIE)).argmax())
        found.append(trials[best])
        nearest = squares[best]
        cumulated = np.cumsum(weights * nearest, dtype=np.float64)
        # nothing is left where distances are too small for a square
        if len(found) == n_clusters or not cumulated[-1] > 0:
            return matrix[found]
        drawn = rng.random(n_trials) * cumulated[-1]
        trials = np.searchsorted(cumulated, drawn, side="right")


def lloyd(
    rows: Inputs, weights: np.ndarray, centers: Any, *, n_steps: int
) -> np.ndarray:
    """Return clusters of rows by k-means from these centres, without empty ones."""
    # weights (n_rows,), centers (n_clusters, n_features) -> (n_rows,)
    share = weights / weights.sum(dtype=np.float64)
    labels = np.full(share.size, -1)
    mean_square = float(share @ rows.sq_norms[:, 0])
    n_clusters, n_features = centers.shape
    means: Any = centers.toarray() if sparse.issparse(centers) else centers
    n_distances = labels.size * n_clusters
    for _ in range(max(1, min(n_steps, _ALL_DISTANCES // n_distances))):
        before = labels
        labels, squares = _nearest(rows, means, _ROUNDING * mean_square)
        are_filled = _fill_empty_clusters(labels, share * squares, n_clusters)
        if np.array_equal(labels, before) or not are_filled:
            break
        old, (_, means) = means, group_means(rows.matrix, weights, labels)
        if np.sum((means - old) ** 2) * n_features <= _SHIFT * mean_square:
            break
    return np.unique(labels, return_inverse=True)[1]


def _nearest(
    rows: Inputs, centers: np.ndarray, rounding: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nearest centre of each row, the first of several, and its distance.

    The distance is squared.
    """
    # -> (n_rows,), (n_rows,)
    matrix, norms = rows.matrix, rows.sq_norms[:, 0]
    labels, least = np.empty(len(norms), dtype=int), np.empty(len(norms))
    lengths, twice = sq_norms(centers)[:, 0], np.asfortranarray(-2 * centers).T
    size = max(1, _DISTANCES // len(centers))
    for block in gen_batches(len(norms), size):  # all but |x|^2, which does not matter
        scores = safe_sparse_dot(matrix[block], twice, dense_output=True)
        scores += lengths
        smallest = scores.min(axis=1)
        least[block] = smallest + norms[block]
        smallest += _TIE * least[block] + rounding
        labels[block] = (scores <= smallest[:, None]).argmax(axis=1)
    # of short distances products leave no digits
    close, means = np.flatnonzero(least < _CLOSE * norms), DenseInputs(centers)
    for start in range(0, close.size, size):
        few = close[start : start + size]
        squares = rows.take(few).sq_distances(means)
        least[few] = squares.min(axis=1)
        most = least[few] * (1 + _TIE) + rounding
        labels[few] = (squares <= most[:, None]).argmax(axis=1)
    return labels, least


def _fill_empty_clusters(labels: np.ndarray, costs: np.ndarray, n: int) -> bool:
    """Move the rows of greatest cost, one each, into clusters without rows.

    Return whether there are such rows for all of them: there are none at a centre.
    """
    # labels (n_rows,), overwritten, costs (n_rows,)
    counts = np.bincount(labels, minlength=n)
    for empty in np.flatnonzero(counts == 0):
        allowed = np.where(counts[labels] > 1, costs, 0)
        if allowed.max() == 0:
            return False
        row = int((allowed >= allowed.max() * (1 - _TIE)).argmax())
        counts[labels[row]] -= 1
        labels[row], counts[empty] = empty, 1
        costs[row] = 0
    return True


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
