"""Weighted points that represent groups of rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse
from sklearn import config_context
from sklearn.utils import check_array, gen_batches
from sklearn.utils.extmath import safe_sparse_dot

from ..arrays.loops import sq_norms
from ..arrays.namespaces import joined
from .frame import Frame
from .inputs import DenseInputs, Inputs, Rows
from .row_sample import distinct_rows

_DISTANCES = 2**16  # number of distances computed at a time, which fit into the cache
# if a step needs more distances, k-means starts on a sample of rows
MOST_DISTANCES = 10**7
_ROWS_PER_CLUSTER = 3  # minimum number of rows per cluster in this sample
_STEPS = 100  # maximum number of steps of k-means
# if k-means starts on a sample, limits on the steps on the sample and on all rows
_STEPS_OF_SAMPLE, _STEPS_OF_ALL = 20, 4
_ALL_DISTANCES = 5 * 10**8  # maximum number of distances in all steps combined
# k-means stops below this squared movement of centres, relative to the variance
_SHIFT = 1e-4
_TIE = 1e-6  # squared distances with a smaller relative difference count as equal
# squared distances are recomputed if they are below this proportion of a squared norm
_CLOSE = 1e-6
# squared rounding error of a centre, relative to the mean squared norm
_ROUNDING = 1e-24
DIGITS = 9  # number of decimals to which proportions are rounded
_ROWS_OF_CELL = 2**9  # maximum number of rows per cell, for fast k-means
_BLOCK = 64  # number of pivots drawn at a time, for efficient matrix products
_SPANNED = 1e-10  # smaller residuals of kernel values count as rounding errors


@dataclass(frozen=True, eq=False)
class Centers:
    """Weighted points that represent groups of rows; ``a + b`` concatenates points.

    Initially, each row is a point. After a reduction, each point is the weighted mean
    of the rows that it represents, and its weight is the sum of their weights.
    """

    points: Rows  # (n_points, n_features)
    weights: np.ndarray  # (n_points,)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of points and number of columns."""
        return self.points.shape

    def __add__(self, other: Centers) -> Centers:
        """Return the concatenated points of both objects."""
        weights = np.concatenate([self.weights, other.weights])
        return Centers(joined([self.points, other.points]), weights)

    def take(self, index: np.ndarray) -> Centers:
        """Return the points with the given indices."""
        return Centers(self.points[index], self.weights[index])

    def distinct(self) -> tuple[Centers, np.ndarray]:
        """Return the distinct points with their total weights, and each point's index.

        Copies of a point would make kernel matrices singular, and clusters empty.
        """
        # -> (n_points,)
        first, places = distinct_rows(self.points)
        weights = np.bincount(places, self.weights).astype(self.weights.dtype)
        return Centers(self.points[first], weights), places

    def reduced(
        self, n_points: int, frame: Frame, *, seed: int, n_steps: int | None = None
    ) -> tuple[Centers, np.ndarray]:
        """Reduce the points by weighted k-means, and return the new index of each.

        If ``n_steps`` is given, k-means takes this many steps from random centres.
        """
        # -> (n_old_points,)
        whole, places = self.distinct()
        if whole.shape[0] <= n_points:
            return whole, places
        rows = whole._inputs(frame)
        if n_steps is None:
            labels = k_means(rows, whole.weights, n_points, seed=seed)
        else:
            rng = np.random.default_rng(seed)
            start = rows.matrix[_draw(whole.weights, n_points, rng)]
            labels = lloyd(rows, whole.weights, start, n_steps=n_steps)
        return whole._grouped(labels), labels[places]

    def pivots(self, n_points: int, frame: Frame, *, seed: int) -> Centers:
        """Return the pivots of a randomly pivoted Cholesky factorisation."""
        whole, _ = self.distinct()
        rows, weights = whole._inputs(frame), whole.weights
        return whole._standing_for_all(
            random_pivots(rows, weights, n_points, seed=seed)
        )

    def drawn(self, n_points: int, *, seed: int) -> Centers:
        """Draw random points with probabilities proportional to their weights."""
        whole, _ = self.distinct()
        if whole.shape[0] <= n_points:
            return whole
        index = _draw(whole.weights, n_points, np.random.default_rng(seed))
        return whole._standing_for_all(np.sort(index))

    def _standing_for_all(self, index: np.ndarray) -> Centers:
        """Return the points with the given indices, with equal weights."""
        share = self.weights.sum() / max(1, index.size)
        return Centers(self.points[index], np.full(index.size, share))

    def _inputs(self, frame: Frame) -> Inputs:
        """Return the points in float64, centred and multiplied by sigma.

        The centre is their own mean, because rounding errors in the centre of the frame
        depend on how rows were batched. In float32, the rounding errors of distances
        would exceed the tolerance for ties.
        """
        points: Any = self.points.astype(np.float64, copy=False)
        if sparse.issparse(points):
            if frame.center is None:
                return frame.rows(points)
            points = points.toarray()
        mean = np.average(points, axis=0, weights=self.weights)
        return Frame(frame.sigma, mean).rows(points)

    def _grouped(self, labels: np.ndarray) -> Centers:
        """Return the weighted mean of each group of points, with the group's weight."""
        weights, points = group_means(self.points, self.weights, labels)
        return Centers(
            points.astype(self.points.dtype), weights.astype(self.weights.dtype)
        )


def validated_centers(centers: Any, n_centers: int, n_features: int) -> Rows:
    """Return a validated copy of the user's centres, (n_centers, n_features)."""
    with config_context(array_api_dispatch=False):
        points = check_array(
            centers,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            copy=True,
            input_name="centers",
        )
    if points.shape != (n_centers, n_features):
        raise ValueError(
            f"centers has shape {points.shape}, but n_components={n_centers} and X "
            f"has {n_features} features: pass an array of shape ({n_centers}, "
            f"{n_features})."
        )
    return points


def allocate(weights: ArrayLike, n_points: int) -> np.ndarray:
    """Distribute points among groups in proportion to their weights.

    Fractions are rounded by the largest-remainder method.
    """
    # weights (n_groups,) -> (n_groups,)
    weights = np.asarray(weights, dtype=np.float64)
    # Rounding to a fixed number of decimals makes remainders that should be equal
    # exactly equal, regardless of the order in which weights were summed.
    quota = np.round(n_points * weights / weights.sum(), DIGITS)
    counts = np.maximum(np.floor(quota).astype(int), weights > 0)
    missing = n_points - counts.sum()
    if missing > 0:
        counts[np.argsort(counts - quota, kind="stable")[:missing]] += 1
    while counts.sum() > n_points and counts.max() > 1:
        counts[np.argmax(np.where(counts > 1, counts - quota, -np.inf))] -= 1
    return counts


def split_groups(
    rows: Rows, sigma: float | np.ndarray, groups: np.ndarray
) -> np.ndarray:
    """Split groups of dense rows into halves until no part has too many rows.

    Each split is at the median of the column with the largest variance.
    """
    # groups (n_rows,) -> (n_rows,)
    if sparse.issparse(rows):
        return groups
    labels, n_cells = np.empty(len(groups), dtype=int), 0
    parts = [np.flatnonzero(groups == group) for group in np.unique(groups)]
    while parts:
        own = parts.pop()
        if own.size <= _ROWS_OF_CELL:
            labels[own] = n_cells
            n_cells += 1
            continue
        column = np.var(rows[own] * sigma, axis=0).argmax()
        order = own[np.argsort(rows[own, column], kind="stable")]
        parts += np.array_split(order, 2)
    return labels


def group_means(
    rows: Rows, weights: np.ndarray, labels: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the total weight and the weighted mean of each group of rows."""
    # labels (n_rows,) -> (n_groups,), (n_groups, n_features)
    totals = np.bincount(labels, weights)
    parts = weights / totals[labels], (labels, np.arange(len(labels)))
    means = sparse.csr_matrix(parts) @ rows.astype(np.float64, copy=False)
    return totals, means.toarray() if sparse.issparse(means) else means


def k_means(
    rows: Inputs, weights: np.ndarray, n_clusters: int, *, seed: int
) -> np.ndarray:
    """Assign distinct rows to clusters by weighted k-means.

    The initial centres are found by k-means++. If there are many rows, most steps use
    only a sample of them. A row that is equally far from several centres, up to a
    tolerance, is assigned to the first of them. Such ties are common for integers; if
    they were broken by rounding errors, the result would depend on the order of the
    rows and on the processor.
    """
    # weights (n_rows,) -> (n_rows,)
    rng, n_rows = np.random.default_rng(seed), rows.shape[0]
    if n_rows * n_clusters <= MOST_DISTANCES:
        centers = _initial_centers(rows, weights, n_clusters, rng)
        return lloyd(rows, weights, centers, n_steps=_STEPS)
    n_sampled = max(MOST_DISTANCES // n_clusters, _ROWS_PER_CLUSTER * n_clusters)
    sample = np.sort(rng.permutation(n_rows)[:n_sampled])
    some, own = rows.take(sample), weights[sample]
    centers = _initial_centers(some, own, n_clusters, rng)
    labels = lloyd(some, own, centers, n_steps=_STEPS_OF_SAMPLE)
    _, means = group_means(some.matrix, own, labels)
    return lloyd(rows, weights, means, n_steps=_STEPS_OF_ALL)


def _draw(weights: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draw distinct row indices with probabilities proportional to weights."""
    share = weights / weights.sum(dtype=np.float64)
    return rng.choice(weights.size, size, replace=False, p=share / share.sum())


def _initial_centers(
    rows: Inputs, weights: np.ndarray, n_clusters: int, rng: np.random.Generator
) -> Rows:
    """Return initial centres of k-means by greedy k-means++.

    Each centre is the best of a few rows, which are drawn with probabilities
    proportional to their weights times squared distances from the nearest previous
    centre. In a tie, the first of these rows is chosen.
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
        # the sum is zero if all remaining squared distances underflow
        if len(found) == n_clusters or not cumulated[-1] > 0:
            return matrix[found]
        drawn = rng.random(n_trials) * cumulated[-1]
        trials = np.searchsorted(cumulated, drawn, side="right")


def lloyd(
    rows: Inputs, weights: np.ndarray, centers: Any, *, n_steps: int
) -> np.ndarray:
    """Run k-means from given centres, and return the cluster of each row."""
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
    """Return the nearest centre of each row and its squared distance.

    In a tie, the first of the nearest centres is returned.
    """
    # -> (n_rows,), (n_rows,)
    matrix, norms = rows.matrix, rows.sq_norms[:, 0]
    labels, least = np.empty(len(norms), dtype=int), np.empty(len(norms))
    lengths, twice = sq_norms(centers)[:, 0], np.asfortranarray(-2 * centers).T
    size = max(1, _DISTANCES // len(centers))
    for block in gen_batches(len(norms), size):  # the scores are |x - c|^2 - |x|^2
        scores = safe_sparse_dot(matrix[block], twice, dense_output=True)
        scores += lengths
        smallest = scores.min(axis=1)
        least[block] = smallest + norms[block]
        smallest += _TIE * least[block] + rounding
        labels[block] = (scores <= smallest[:, None]).argmax(axis=1)
    # distances are recomputed if they suffer from cancellation, because norms are large
    close, means = np.flatnonzero(least < _CLOSE * norms), DenseInputs(centers)
    for start in range(0, close.size, size):
        few = close[start : start + size]
        squares = rows.take(few).sq_distances(means)
        least[few] = squares.min(axis=1)
        most = least[few] * (1 + _TIE) + rounding
        labels[few] = (squares <= most[:, None]).argmax(axis=1)
    return labels, least


def _fill_empty_clusters(labels: np.ndarray, costs: np.ndarray, n: int) -> bool:
    """Fill each empty cluster with the row that has the largest cost, in place.

    Return whether this was possible without moving rows at distance 0 from a centre.
    """
    # labels (n_rows,), costs (n_rows,): weights times squared distances
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
    """Return pivots of a randomly pivoted Cholesky factorisation of the kernel matrix.

    The probability of drawing a row x is proportional to its weight times its residual,
    the part of k(x, x) that the previous pivots do not explain. Rows are drawn in
    blocks. Each row is then accepted with a probability that depends on its residual,
    given the rows accepted before it in the block. If fewer pivots than requested
    explain the matrix completely, only these are returned.
    """
    # weights (n_rows,) -> (at most n_points,)
    rng, n_rows = np.random.default_rng(seed), rows.shape[0]
    factor = np.empty((min(n_points, n_rows), n_rows))  # transpose of the factor
    residual, found = np.ones(n_rows), np.empty(0, dtype=int)
    while found.size < len(factor) and residual.any():
        shares, before = weights * residual, factor[: found.size]
        block = rng.choice(n_rows, _BLOCK, p=shares / shares.sum())
        columns = rows.take(block).sq_distances(rows)
        columns *= -0.5
        np.exp(columns, out=columns)
        columns -= before[:, block].T @ before
        least = np.maximum(rng.random(_BLOCK) * residual[block], _SPANNED / 2)
        kept = _accepted(columns[:, block], least)[: len(factor) - found.size]
        if not kept:
            continue
        triangle = linalg.cholesky(columns[kept][:, block[kept]], lower=True)
        new = linalg.solve_triangular(triangle, columns[kept], lower=True)
        factor[found.size : found.size + len(kept)] = new
        found = np.append(found, block[kept])
        residual -= np.einsum("ij,ij->j", new, new)
        residual[found] = 0
        residual[residual < _SPANNED] = 0
    return found


def _accepted(residual: np.ndarray, least: np.ndarray) -> list[int]:
    """Return the rows in a block whose residuals stay above their thresholds."""
    # residual (n_block, n_block), least (n_block,)
    residual, kept = residual.copy(), []
    for i, threshold in enumerate(least):
        if residual[i, i] > threshold:
            kept.append(i)
            column = residual[:, i] / residual[i, i]
            residual -= np.outer(column, residual[i].copy())
    return kept
