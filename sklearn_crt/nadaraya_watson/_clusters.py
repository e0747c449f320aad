"""Training rows sorted by cluster, and what bounds of their kernel sums need."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from sklearn.utils import gen_batches

from ..maps import LaplacianRadial, RadialKernel
from ..rows import UnitRows, effective_n_threads, in_threads
from ._half_spaces import HalfSpaces
from ._targets import Numbers, OneHot

_ROWS_A_CLUSTER = 40  # in the sample that the centres are fitted to
_CHUNK_ROWS, BLOCK_ROWS = 512, 2048  # assigned, and summed, at a time


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows sorted by cluster: those of cluster k are ``starts[k]:starts[k + 1]``.

    Attributes
    ----------
    rows : UnitRows
        All n rows, up to a common factor at unit bandwidth.
    y : ndarray of shape (n,) or (n, n_outputs)
        Their targets.
    weights : ndarray of shape (n,)
        Their weights, positive.
    starts : ndarray of int of shape (n_clusters + 1,)
        Where the clusters begin, and n.
    centers : ndarray of shape (n_clusters, n_features), float64
        Weighted means of the clusters.
    radii : ndarray of shape (n_clusters,)
        Largest distance of a row from its centre, in the metric of the kernel.
    sq_radii : ndarray of shape (n_clusters,)
        Weighted mean of the squared distances.
    log_weights : ndarray of shape (n_clusters,)
        Logs of the sums of the weights.
    half_spaces : HalfSpaces or None
        None where nothing asks for them.
    n_built : int
        Number of rows that the clusters were made of; the others were assigned later.
    order : ndarray of int of shape (n,)
        When each row came: its number among all of them.
    """

    rows: UnitRows
    y: np.ndarray
    weights: np.ndarray
    starts: np.ndarray
    centers: np.ndarray
    radii: np.ndarray
    sq_radii: np.ndarray
    log_weights: np.ndarray
    half_spaces: HalfSpaces | None
    n_built: int
    order: np.ndarray

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

        Parameters
        ----------
        X : ndarray of shape (n, n_features)
            The rows, moved to where their mean is small.
        y : ndarray of shape (n,) or (n, n_outputs)
            Targets.
        weights : ndarray of shape (n,)
            Weights, positive.
        kernel : RadialKernel
            Whose distances count.

        Returns
        -------
        clusters : Clusters
            None of them empty.

        References
        ----------
        .. [1] D. Sculley, "Web-scale k-means clustering", WWW 2010.
        """
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
        """Return these rows and others, which join the clusters of nearest centre.

        Parameters
        ----------
        X : ndarray of shape (n_new, n_features)
            Further rows.
        y : ndarray of shape (n_new,) or (n_new, n_outputs)
            Their targets.
        weights : ndarray of shape (n_new,)
            Their weights.
        kernel : RadialKernel
            Whose distances count.

        Returns
        -------
        clusters : Clusters
            A new value.
        """
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
        rows = UnitRows(X)
        _ = rows.sq_norms  # computed once, and kept with the rows
        measures = centers, radii, sq_radii, log_weights
        return cls(rows, y, weights, starts, *measures, None, n_built, order)

    def with_half_spaces(self, kernel: RadialKernel) -> Clusters:
        """Return the same with half spaces, where the distance is Euclidean.

        Parameters
        ----------
        kernel : RadialKernel
            Whose distances count.

        Returns
        -------
        clusters : Clusters
            These, where they have them already or cannot.
        """
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
        self, targets: OneHot | Numbers, dtype: np.dtype, k: int | None = None
    ) -> Iterator[tuple[UnitRows, np.ndarray]]:
        """Yield the rows of a cluster, or all, 2048 at a time.

        Parameters
        ----------
        targets : OneHot or Numbers
            What encodes the targets.
        dtype : dtype
            Of the rows to come.
        k : int, default=None
            Number of the cluster; None for all rows.

        Yields
        ------
        rows : UnitRows
            Some rows.
        encoded : ndarray of shape (n, n_columns)
            Their targets.
        """
        start, stop = self.starts[[0, -1]] if k is None else self.starts[k : k + 2]
        for first in range(start, stop, BLOCK_ROWS):
            part = slice(first, min(first + BLOCK_ROWS, stop))
            rows = self.rows.take(part)
            if rows.dtype != dtype:
                rows = UnitRows(rows.dense.astype(dtype))
            yield rows, targets.encode(self.y[part], self.weights[part], dtype)

    def mean_targets(self, targets: OneHot | Numbers) -> np.ndarray:
        """Return the sums of the encoded targets of each cluster, over its weight.

        Parameters
        ----------
        targets : OneHot or Numbers
            What encodes them.

        Returns
        -------
        means : ndarray of shape (n_clusters, n_columns), float64
            Their parts of the weights alone are 1.
        """
        sums = []
        for start, stop in pairwise(self.starts):
            rows = slice(start, stop)
            encoded = targets.encode(self.y[rows], self.weights[rows], np.float64)
            sums.append(encoded.sum(axis=0))
        return np.array(sums) / np.exp(self.log_weights)[:, None]

    def distances(self, queries: UnitRows, kernel: RadialKernel) -> np.ndarray:
        """Return the distances of queries from the centres, in the kernel's metric.

        Parameters
        ----------
        queries : UnitRows
            As the rows are.
        kernel : RadialKernel
            Whose distances count.

        Returns
        -------
        distances : ndarray of shape (n_queries, n_clusters), float64
            In double precision also for rows in single.
        """
        wide = UnitRows(queries.dense.astype(np.float64, copy=False))
        return kernel.distances(wide, UnitRows(self.centers))


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
    distances = kernel.distances(UnitRows(center[None, :]), UnitRows(X))[0]
    spread = weights @ distances**2 / total
    return center, distances.max(), spread, math.log(total)
