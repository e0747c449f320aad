"""Training rows sorted by cluster, and how much kernel weight a cluster can have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from sklearn.utils import gen_batches

from .._workers import effective_n_threads, in_threads
from ..maps import GaussianRadial, LaplacianRadial, RadialKernel
from ..rows import DenseInputs, Inputs
from ._sums import Targets

_N_NEAREST = 4  # centres c_j that are tried for a query


@dataclass(frozen=True, eq=False)
class HalfSpaces:
    """Bounds G of all pairs of clusters."""

    least: np.ndarray  # (n_clusters, n_clusters)
    factors: np.ndarray  # (n_clusters, n_clusters)

    @classmethod
    def of(cls, X: np.ndarray, starts: np.ndarray, centers: np.ndarray) -> HalfSpaces:
        """Return the bounds of sorted rows: one product with all the centres."""
        # X (n, n_features), starts (n_clusters + 1,), centers (n_clusters, n_features)
        n_clusters, n_features = centers.shape
        near = centers.astype(np.float32)
        squares = np.einsum("ij,ij->i", centers, centers)
        largest = np.sqrt(np.einsum("ij,ij->i", X, X).max() * squares.max())
        # of the products, of the squares and of the centres in single precision
        rounding = (4 * n_features + 32) * np.finfo(np.float32).eps * largest
        rounding += 8 * np.finfo(np.float32).eps * squares.max()

        def bound(part):
            found = []
            for k in range(n_clusters)[part]:
                least = np.full(n_clusters, np.inf, dtype=np.float32)
                own = 2 * near[k]
                for start in range(starts[k], starts[k + 1], _CHUNK_ROWS):
                    stop = min(start + _CHUNK_ROWS, starts[k + 1])
                    rows = X[start:stop].astype(np.float32, copy=False)
                    gaps = (rows @ own)[:, None] - rows @ (2 * near.T)
                    np.minimum(least, gaps.min(axis=0), out=least)
                found.append(least + (squares - squares[k]))
            return np.array(found)

        blocks = in_threads(bound, n_clusters, effective_n_threads(None, n_clusters))
        least = np.concatenate(blocks).T - rounding
        gaps = squares[:, None] + squares - 2 * centers @ centers.T
        rounding = 1e-12 * squares.max()
        factors = np.zeros_like(gaps)
        apart = gaps > rounding
        factors[apart] = (0.5 - 1e-6) / np.sqrt(gaps[apart] + rounding)
        return cls(_rounded_down(least), factors.astype(np.float32))

    def distances(self, to_centers: np.ndarray) -> np.ndarray:
        """Return least distances that rows of the clusters can have from queries."""
        # to_centers (n_queries, n_clusters) -> (n_queries, n_clusters)
        n_nearest = min(_N_NEAREST, to_centers.shape[1])
        nearest = np.argpartition(to_centers, n_nearest - 1, axis=1)[:, :n_nearest]
        squares = np.square(to_centers)
        best = np.zeros_like(squares)
        for j in nearest.T:
            along = self.least[j] + squares
            along -= np.take_along_axis(squares, j[:, None], axis=1)
            along *= self.factors[j]
            np.maximum(best, along, out=best)
        return best


def _rounded_down(values):
    """Return the values in single precision, none of them larger than it was."""
    single = values.astype(np.float32)
    return np.nextafter(single, np.float32(-np.inf))


_ROWS_A_CLUSTER = 40  # in the sample that the centres are fitted to
_CHUNK_ROWS, BLOCK_ROWS = 512, 2048  # assigned, and summed, at a time


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows sorted by cluster: those of cluster k are ``starts[k]:starts[k + 1]``."""

    rows: DenseInputs
    y: np.ndarray  # (n,) or (n, n_outputs)
    weights: np.ndarray  # (n,)
    starts: np.ndarray  # (n_clusters + 1,)
    centers: np.ndarray  # (n_clusters, n_features)
    radii: np.ndarray  # (n_clusters,)
    sq_radii: np.ndarray  # (n_clusters,)
    log_weights: np.ndarray  # (n_clusters,)
    half_spaces: HalfSpaces | None
    n_built: int
    order: np.ndarray  # (n,)

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        kernel: RadialKernel,
    ) -> Clusters:
        """Return the rows in about twice as many clusters as the root of their number.

        Mini-batch k-means [1]_ of a sample, drawn with a fixed seed, gives the centres,
        and each row goes to the nearest one.
        """
        # X (n, n_features), y (n,) or (n, n_outputs), weights (n,)
        from sklearn.cluster import MiniBatchKMeans  # slow to import, and few need it

        n_rows = X.shape[0]
        n_clusters = min(n_rows, math.ceil(2 * math.sqrt(n_rows)))
        rng = np.random.default_rng(0)
        size = min(n_rows, _ROWS_A_CLUSTER * n_clusters)
        sample = X[rng.choice(n_rows, size, replace=False)].astype(np.float32)
        means = MiniBatchKMeans(
            n_clusters,
            init="random",
            n_init=1,
            batch_size=max(1024, 2 * n_clusters),
            max_iter=4,
            compute_labels=False,
            random_state=0,
        ).fit(sample)
        labels = _nearest(X, means.cluster_centers_)
        parts = X, y, weights, np.arange(n_rows)
        return cls._sorted(parts, labels, kernel, n_rows)

    def appended(
        self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, kernel: RadialKernel
    ) -> Clusters:
        """Return these rows and others, which join the clusters of nearest centre."""
        # X (n_new, n_features), y (n_new,) or (n_new, n_outputs), weights (n_new,)
        labels = np.repeat(np.arange(len(self.centers)), np.diff(self.starts))
        labels = np.concatenate([labels, _nearest(X, self.centers)])
        old = self.rows.matrix, self.y, self.weights, self.order
        new = X, y, weights, self.order.size + np.arange(X.shape[0])
        parts = [np.concatenate(pair) for pair in zip(old, new, strict=True)]
        return self._sorted(parts, labels, kernel, self.n_built)

    @classmethod
    def _sorted(cls, parts, labels, kernel, n_built):
        """Sort the rows by label, and measure the clusters that have some."""
        codes, labels = np.unique(labels, return_inverse=True)
        sort = np.argsort(labels.astype(np.min_scalar_type(codes.size)), kind="stable")
        X, y, weights, order = (part[sort] for part in parts)
        starts = np.searchsorted(labels[sort], np.arange(codes.size + 1))
        found = in_threads(
            lambda part: [
                _measure(X[a:b], weights[a:b], kernel)
                for a, b in zip(starts[:-1][part], starts[1:][part], strict=True)
            ],
            codes.size,
            effective_n_threads(None, codes.size),
        )
        measured = zip(*(values for part in found for values in part), strict=True)
        centers, radii, sq_radii, log_weights = map(np.array, measured)
        rows = DenseInputs(X)
        _ = rows.sq_norms  # computed once, and kept with the rows
        measures = centers, radii, sq_radii, log_weights
        return cls(rows, y, weights, starts, *measures, None, n_built, order)

    def with_half_spaces(self, kernel: RadialKernel) -> Clusters:
        """Return the same with half spaces, where the distance is Euclidean."""
        if self.half_spaces is not None or not _is_euclidean(kernel):
            return self
        spaces = HalfSpaces.of(self.rows.dense, self.starts, self.centers)
        return replace(self, half_spaces=spaces)

    def table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, targets and weights in the order in which they came."""
        back = np.argsort(self.order)
        return self.rows.dense[back], self.y[back], self.weights[back]

    @property
    def sizes(self) -> np.ndarray:
        """Numbers of rows of the clusters."""
        return np.diff(self.starts)

    def blocks(
        self, targets: Targets, dtype: np.dtype, k: int | None = None
    ) -> Iterator[tuple[Inputs, np.ndarray]]:
        """Yield the rows of a cluster, or all, 2048 at a time."""
        # -> (n, n_columns)
        start, stop = self.starts[[0, -1]] if k is None else self.starts[k : k + 2]
        for first in range(start, stop, BLOCK_ROWS):
            part = slice(first, min(first + BLOCK_ROWS, stop))
            rows: Inputs = self.rows.take(part)
            if rows.dtype != dtype:
                rows = DenseInputs(rows.dense.astype(dtype))
            yield rows, targets.encode(self.y[part], self.weights[part], dtype)

    def mean_targets(self, targets: Targets) -> np.ndarray:
        """Return the sums of the encoded targets of each cluster, over its weight."""
        # -> (n_clusters, n_columns)
        sums = []
        for start, stop in pairwise(self.starts):
            rows = slice(start, stop)
            encoded = targets.encode(self.y[rows], self.weights[rows], np.float64)
            sums.append(encoded.sum(axis=0))
        return np.array(sums) / np.exp(self.log_weights)[:, None]

    def distances(self, queries: Inputs, kernel: RadialKernel) -> np.ndarray:
        """Return the distances of queries from the centres, in the kernel's metric."""
        # -> (n_queries, n_clusters)
        wide = DenseInputs(queries.dense.astype(np.float64, copy=False))
        return kernel.distances(wide, DenseInputs(self.centers))


def _is_euclidean(kernel):
    """Return whether the kernel is one of the Euclidean distance."""
    if isinstance(kernel, LaplacianRadial):
        return kernel.norm == "l2"
    return type(kernel).distances is RadialKernel.distances


def _nearest(X, centers):
    """Return the number of the nearest centre of each row, in single precision."""
    centers = np.asarray(centers, dtype=np.float32)
    halves = 0.5 * np.einsum("ij,ij->i", centers, centers)

    def assign(part):
        rows, labels = X[part], []
        for chunk in gen_batches(rows.shape[0], _CHUNK_ROWS):
            scores = rows[chunk].astype(np.float32, copy=False) @ centers.T
            scores -= halves
            labels.append(scores.argmax(axis=1))
        return np.concatenate(labels)

    n_rows = X.shape[0]
    return np.concatenate(in_threads(assign, n_rows, effective_n_threads(None, n_rows)))


def _measure(X, weights, kernel):
    """Return centre, radius, mean squared distance and log weight of a cluster."""
    X, weights = X.astype(np.float64, copy=False), weights.astype(np.float64)
    total = weights.sum()
    center = weights @ X / total
    distances = kernel.distances(DenseInputs(center[None, :]), DenseInputs(X))[0]
    spread = weights @ distances**2 / total
    return center, distances.max(), spread, math.log(total)


_STEP, _N_TANGENTS = 0.01, 2  # relative, of the slope; and how often it is taken


def least_distances(clusters: Clusters, distances: np.ndarray) -> np.ndarray:
    """Return the least distances that rows of the clusters can have from queries."""
    # distances (n_queries, n_clusters) -> (n_queries, n_clusters)
    least = np.maximum(distances - clusters.radii * (1 + 1e-9), 0)
    if clusters.half_spaces is not None:
        np.maximum(least, clusters.half_spaces.distances(distances), out=least)
    return least * (1 - 1e-9)


def log_bound(
    kernel: RadialKernel, sigma: float, least: np.ndarray, log_weights: np.ndarray
) -> np.ndarray:
    """Return logs of what the kernel weights of clusters cannot exceed."""
    # least (n_queries, n_clusters), log_weights (n_clusters,) -> (n_queries,
    # n_clusters)
    return kernel.log_profile(sigma * least) + log_weights


def blurred(logs: np.ndarray, spread: np.ndarray, n_features: int) -> np.ndarray:
    """Return the log of averages of the Gaussian kernel over Gaussian clouds."""
    # logs (n_rows, n_keys), spread (n_keys,) -> (n_rows, n_keys)
    logs /= 1 + spread
    logs -= 0.5 * n_features * np.log1p(spread)
    return logs


def log_cloud(
    kernel: RadialKernel, sigma: float, distances: np.ndarray, clusters: Clusters
) -> np.ndarray:
    """Return logs of the kernel weights that clusters would have as normal clouds."""
    # distances (n_queries, n_clusters) -> (n_queries, n_clusters)
    n_features = clusters.centers.shape[1]
    near = _likely_nearest(distances, clusters)
    bound = log_bound(kernel, sigma, near, clusters.log_weights)
    squares = np.square(sigma * distances)
    spreads = sigma**2 * clusters.sq_radii
    if isinstance(kernel, GaussianRadial):
        squares *= -0.5
        log_mass = blurred(squares, spreads / n_features, n_features)
        log_mass += clusters.log_weights
        return np.minimum(log_mass, bound, out=log_mass)
    wide = np.ones(1)
    with np.errstate(all="ignore"):  # of kernels that end somewhere
        for _ in range(_N_TANGENTS):
            at = squares / wide**2 + spreads / wide
            slope = kernel.log_profile(np.sqrt((1 + _STEP) * at))
            slope -= kernel.log_profile(np.sqrt((1 - _STEP) * at))
            precision = -slope / (_STEP * at)
            wide = 1 + precision * spreads / n_features
        log_mass = blurred(-0.5 * precision * squares, wide - 1, n_features)
        log_mass += kernel.log_profile(np.sqrt(at)) + 0.5 * precision * at
        log_mass += clusters.log_weights
    return np.where(np.isfinite(log_mass), np.minimum(log_mass, bound), bound)


def _likely_nearest(distances, clusters):
    """Return distances that hardly a row of the clusters falls short of."""
    variances = clusters.sq_radii / clusters.centers.shape[1]
    z = 1 + np.sqrt(2 * np.log(clusters.sizes))
    squares = np.square(distances)
    likely = np.sqrt(4 * variances * squares + 2 * variances * clusters.sq_radii)
    likely *= -z
    likely += squares + clusters.sq_radii
    least = np.maximum(distances - clusters.radii, 0)
    return np.sqrt(np.maximum(likely, np.square(least)))
