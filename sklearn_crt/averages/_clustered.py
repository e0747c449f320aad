"""Sums of the exact kernel to a tolerance: far clusters count by their summaries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from .._array import part
from .._compat import cached_property
from .._kernels import LogSum, least_log, log_sum
from .._workers import Workspace, effective_n_threads, in_threads
from ..maps import GaussianRadial, RadialKernel
from ..rows import DenseInputs, Inputs, Rows
from ._exact import ExactEngine, Keys
from ._sums import KernelSums, add_block, log_kernel
from ._targets import LocalLinear, Targets

_LEAST_ROWS = 4000  # from which clusters pay
_MOST_WORK = 0.5  # share of the rows; from there clusters do not pay
_REMAINDER = 0.01  # share of the rows that are in no cluster
_ROWS_A_CLUSTER = 40  # in the sample that the centres are fitted to
_QUERY_ROWS, _KEY_ROWS = 256, 2048  # kernel values computed at a time
_PAIRS = 2**22  # distances from centres at a time
_LEAST, _LARGEST = 1e-15, 1e15  # whose squares single precision can hold
_MANY = 2**15  # rows
_ROUNDING = 0.05  # of logs of the kernel
_N_LEFT_OUT = 2000  # training rows that are answered without themselves
_SHARES = 0.5 * 0.25 ** np.arange(24)
_MARGIN, _STEPS = 10, 3  # times the tolerance, and quarterings of the share below it
_STEPS_OF_FITS = 5  # where few rows are near, a fit follows a far one


@dataclass(frozen=True, eq=False)
class Clusters:
    """Rows sorted by cluster, and last those that are in none.

    Cluster k is ``starts[k]:starts[k + 1]``.
    """

    rows: DenseInputs  # less the origin, times the unit
    y: np.ndarray  # (n,) or (n, n_outputs)
    weights: np.ndarray  # (n,)
    order: np.ndarray  # (n,)
    origin: np.ndarray  # (n_features,)
    unit: float | np.ndarray  # (n_features,)
    starts: np.ndarray  # (n_clusters + 1,)
    centers: np.ndarray  # (n_clusters, n_features)
    radii: np.ndarray  # (n_clusters,)
    sq_radii: np.ndarray  # (n_clusters,), means of squares
    log_weights: np.ndarray  # (n_clusters,)
    means: np.ndarray  # (n_clusters, n_columns), of targets
    n_directions: float  # that the rows of a cluster are spread in
    shares: Any = field(default_factory=dict)  # of summaries in a sum, by sigma

    @classmethod
    def of(cls, rows: Any, frame: Any, kernel: Any, targets: Targets) -> Clusters:
        """Return rows, their targets and weights in about ``2 sqrt(n)`` clusters."""
        labels, n_clusters = _labels(rows[0])
        order = np.argsort(labels.astype(np.min_scalar_type(n_clusters)), kind="stable")
        starts = np.searchsorted(labels[order], np.arange(n_clusters + 1))
        X, y, weights = (part[order] for part in rows)
        measures, spread_out = [], np.zeros((rows[0].shape[1],) * 2)
        every = 1 + len(labels) // _MANY  # clusters tell in how many directions
        for k, (start, stop) in enumerate(pairwise(starts)):
            part = slice(start, stop)
            wide, some = X[part].astype(np.float64), weights[part].astype(np.float64)
            total = some.sum()
            center = some @ wide / total
            distances = kernel.distances(DenseInputs(center[None]), DenseInputs(wide))
            spread = (distances**2 @ some)[0] / total
            encoded = targets.encode(y[part], some, np.float64, DenseInputs(wide))
            mean = encoded.sum(axis=0) / total
            measures.append((center, distances.max(), spread, math.log(total), mean))
            if k % every == 0:
                wide -= center
                spread_out += (wide.T * (some / total)) @ wide
        inputs = DenseInputs(X)
        _ = inputs.sq_norms  # computed once, and kept with the rows
        parts = inputs, y, weights, order, *frame, starts
        squares = max(np.sum(spread_out**2), np.finfo(float).tiny)
        n_directions = max(1.0, np.trace(spread_out) ** 2 / squares)
        found = [*map(np.array, zip(*measures, strict=True)), n_directions]
        return cls(*parts, *found)

    def raw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows, targets and weights as they came."""
        back = np.argsort(self.order)
        rows = self.rows.dense[back]
        rows /= np.asarray(self.unit, dtype=rows.dtype)
        rows += self.origin.astype(rows.dtype)
        return rows, self.y[back], self.weights[back]

    def log_summaries(self, kernel: Any, sigma: float, distances: Any) -> np.ndarray:
        """Return logs of the kernel weights of clusters, as of normally spread rows.

        A kernel that is not Gaussian is replaced by the Gaussian one that touches it
        at the distance where the cluster has its weight.
        """
        # distances (n_queries, n_clusters) -> (n_queries, n_clusters)
        n_features = self.n_directions
        bound = kernel.log_profile(sigma * self._likely_nearest(distances))
        squares, spreads = np.square(sigma * distances), sigma**2 * self.sq_radii
        if isinstance(kernel, GaussianRadial):
            squares *= -0.5
            logs = _blurred(squares, spreads / n_features, n_features)
            return np.minimum(logs, bound) + self.log_weights
        wide = np.ones(1)
        with np.errstate(all="ignore"):  # of kernels that end somewhere
            for _ in range(2):
                at = squares / wide**2 + spreads / wide
                slope = kernel.log_profile(np.sqrt(1.01 * at))
                slope -= kernel.log_profile(np.sqrt(0.99 * at))
                precision = -slope / (0.01 * at)
                wide = 1 + precision * spreads / n_features
            logs = _blurred(-0.5 * precision * squares, wide - 1, n_features)
            logs += kernel.log_profile(np.sqrt(at)) + 0.5 * precision * at
        logs = np.where(np.isfinite(logs), logs, bound)
        return np.minimum(logs, bound) + self.log_weights

    def _likely_nearest(self, distances):
        """Return distances that hardly a row of the clusters falls short of."""
        squares = np.square(distances)
        variances = self.sq_radii / self.n_directions
        likely = np.sqrt(4 * variances * squares + 2 * variances * self.sq_radii)
        likely *= -2 - np.sqrt(2 * np.log(np.diff(self.starts)))
        likely += squares + self.sq_radii
        least = np.maximum(distances - self.radii, 0)
        return np.sqrt(np.maximum(likely, np.square(least)))


def _blurred(logs, spread, n_features):
    """Return the log of averages of the Gaussian kernel over normally spread rows."""
    # logs (n_queries, n_clusters), spread (n_clusters,) or (n_queries, n_clusters)
    logs /= 1 + spread
    logs -= 0.5 * n_features * np.log1p(spread)
    return logs


def _labels(X):
    """Return the cluster of each row, and their number, which stands for no cluster.

    Rows that are much farther from their centre than others are in none: a query near
    one of them is far from the cluster, too.
    """
    from sklearn.cluster import MiniBatchKMeans  # slow to import, and few need it

    n_rows = X.shape[0]
    n_clusters = math.ceil(2 * math.sqrt(n_rows))
    size = min(n_rows, _ROWS_A_CLUSTER * n_clusters)
    sample = np.random.default_rng(0).choice(n_rows, size, replace=False)
    options = {"init": "random", "n_init": 1, "max_iter": 4, "compute_labels": False}
    options |= {"batch_size": max(1024, 2 * n_clusters), "random_state": 0}
    means = MiniBatchKMeans(n_clusters, **options).fit(X[sample].astype(np.float32))
    centers = means.cluster_centers_.astype(np.float32)
    halves = 0.5 * np.einsum("ij,ij->i", centers, centers)
    nearest, squares = np.empty(n_rows, dtype=np.intp), np.empty(n_rows)
    for chunk in gen_batches(n_rows, _QUERY_ROWS):
        rows = X[chunk].astype(np.float32, copy=False)
        nearest[chunk] = (rows @ centers.T - halves).argmax(axis=1)
        squares[chunk] = np.square(rows - centers[nearest[chunk]]).sum(axis=1)
    codes, labels, sizes = np.unique(nearest, return_inverse=True, return_counts=True)
    usual = np.maximum(np.bincount(labels, squares) / sizes, np.finfo(np.float32).tiny)
    squares /= usual[labels]
    labels[squares > np.quantile(squares, 1 - _REMAINDER)] = codes.size
    return labels, codes.size


@dataclass(frozen=True, eq=False)
class ClusteredSums:
    """Kernel sums of queries over clusters of rows, for one sigma.

    ``own`` are the numbers of rows that are left out of the sums of the queries, with
    all that equal them in their cluster.
    """

    kernel: Any
    sigma: float
    clusters: Clusters
    targets: Targets
    queries: Inputs
    own: np.ndarray | None = None  # (n_queries,)
    workspace: Workspace = field(default_factory=Workspace)

    def solved(self, share: float | None) -> tuple[LogSum, float]:
        """Return the sums whose ratios are the answers, and the part as below."""
        (values, log_scale), work = self.answers(share)
        at = self.queries, self.sigma, self.clusters.unit
        return LogSum(self.targets.solve(values, *at), log_scale), work

    def answers(self, share: float | None) -> tuple[LogSum, float]:
        """Return the sums, and the part of the rows in clusters that were summed.

        Summaries stand for the others, and weigh at most that share of what was summed;
        None sums all rows at once.
        """
        starts, n_rows = self.clusters.starts, self.clusters.rows.shape[0]
        n_queries, means = self.queries.shape[0], self._means
        scale = np.full((n_queries, 1), least_log(np.empty(0)))
        total = LogSum(np.zeros((n_queries, means.shape[1])), scale)
        everyone = np.arange(n_queries)
        _ = self.queries.sq_norms  # computed once, and kept with the rows
        if share is None:
            self._add(total, everyone, 0, n_rows)
            return total, 1.0
        self._add(total, everyone, starts[-1], n_rows)
        logs, top, ranks, masses, is_near = self._summaries
        shares = share * is_near  # other queries sum all rows
        n_left = np.count_nonzero(masses < shares * masses[:, -1:], axis=1)
        evaluated = ranks >= n_left[:, None]
        self._evaluate(total, evaluated)
        # as a share of what was found, no longer of what was expected
        with np.errstate(divide="ignore"):
            found = np.log(self.targets.weight(total.values))[:, None]
        found += total.log_scale - top
        allowed = shares * np.exp(np.minimum(found, 700))
        n_left = np.count_nonzero(masses < allowed, axis=1)
        more = (ranks >= n_left[:, None]) & ~evaluated
        self._evaluate(total, more)
        evaluated |= more
        rest = log_sum(np.where(evaluated, -np.inf, logs), means)
        return total.plus(rest), (evaluated @ np.diff(starts)).mean() / n_rows

    @property
    def _means(self):
        """Means of the targets of clusters, of which fits have more columns."""
        one = slice(1)
        parts = self.clusters.y[one], self.clusters.weights[one], np.float64
        encoded = self.targets.encode(*parts, self.clusters.rows.take(one))
        return self.clusters.means[:, : encoded.shape[1]]

    @cached_property
    def _summaries(self):
        """Logs of the weights of clusters, their largest, ranks, and cumulated weights.

        The lightest cluster is the first. Then, whether queries are as near as rows.
        """
        wide = DenseInputs(self.queries.dense.astype(np.float64, copy=False))
        centers = DenseInputs(self.clusters.centers)
        distances = self.kernel.distances(wide, centers)
        logs = self.clusters.log_summaries(self.kernel, self.sigma, distances)
        top = logs.max(axis=1, keepdims=True)
        top[top == -np.inf] = 0
        weights = np.exp(logs - top)
        order = np.argsort(weights, axis=1)
        masses = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
        is_near = distances.min(axis=1, keepdims=True) <= self.clusters.radii.max()
        return logs, top, np.argsort(order, axis=1), masses, is_near

    def _evaluate(self, total, evaluated):
        """Add the rows of clusters to the sums of the queries that need them."""
        # evaluated (n_queries, n_clusters)
        by_cluster = np.ascontiguousarray(evaluated.T)
        for k in np.flatnonzero(by_cluster.any(axis=1)).tolist():
            ends = self.clusters.starts[k : k + 2]
            self._add(total, np.flatnonzero(by_cluster[k]), *ends)

    def _add(self, total, index, start, stop):
        """Add some of the rows to the sums of some queries."""
        firsts = range(0, index.size, _QUERY_ROWS)
        batches = [index[first : first + _QUERY_ROWS] for first in firsts]
        parts = [(batch, self.queries.take(batch)) for batch in batches]
        table, dtype = self.clusters, self.queries.dtype
        for first in range(start, stop, _KEY_ROWS):
            part = slice(first, min(first + _KEY_ROWS, stop))
            keys: Inputs = table.rows.take(part)
            if keys.dtype != dtype:
                keys = DenseInputs(keys.dense.astype(dtype))
            own = table.y[part], table.weights[part]
            encoded = self.targets.encode(*own, dtype, keys)
            for batch, rows in parts:
                rest = self.workspace, self.sigma
                logs = log_kernel(self.kernel, rows, keys, *rest)
                if self.own is not None:
                    own = self.own[batch]
                    for i in np.flatnonzero((own >= start) & (own < stop)):
                        logs[i, (keys.dense == rows.dense[i]).all(axis=1)] = -np.inf
                before = LogSum(*(sums[batch] for sums in total))
                after = add_block(before, logs, encoded, self.workspace)
                for sums, changed in zip(total, after, strict=True):
                    sums[batch] = changed


def _gaps(found, exact, y, targets):
    """Return how far answers are apart: total variation, or share of the range of y."""
    some = targets.weight(exact) > 0  # else there is no answer to be wrong about
    found, exact = (
        sums / np.where(some, targets.weight(sums), 1)[:, None]
        for sums in (found, exact)
    )
    gaps = np.abs(found - exact) * some[:, None]
    if targets.are_labels:
        return 0.5 * gaps.sum(axis=1)
    spread = np.ptp(y, axis=0)
    return (gaps[:, :-1] / np.where(spread > 0, spread, 1)).max(axis=1)


class ClusteredEngine(ExactEngine):
    """The exact estimator, to a tolerance; sparse and few rows are all summed."""

    _held: tuple[Clusters | None, tuple] = (None, ())  # and rows that came later

    def __init__(self, tol: float, *parts: Any):
        super().__init__(*parts)
        self._tol = tol

    @property
    def _parts(self):  # rows that are not sorted yet
        return self._held[1]

    @_parts.setter
    def _parts(self, parts):
        self._held = self._held[0], parts  # one value: threads see both or neither

    def _all_parts(self):
        clusters, parts = self._held
        return parts if clusters is None else (clusters.raw(), *parts)

    def _prepare(self, X):
        self._answers(part(X, slice(1)), [_multiplier(self.sigma)])

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        found = self._answers(X, [_multiplier(self.sigma)])
        if found is None:
            return ExactEngine.sums(self._plain(), X)
        return ((rows, sums) for rows, (sums,) in found)

    def path_sums(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        found = None if np.ndim(self.sigma) else self._answers(X, sigmas)
        if found is None:
            return ExactEngine.path_sums(self._plain(), X, sigmas)
        return found

    @property
    def keys(self) -> Keys:
        return self._plain()._keys(self.chosen_targets)

    def _plain(self):
        """Return an engine with all the rows as they came."""
        plain = self.copy()
        plain._held = None, self._all_parts()
        return plain

    def _sorted(self):
        """Return the rows in clusters; None where they stay as they came."""
        clusters, parts = self._held
        unit = self.sigma if np.ndim(self.sigma) else 1.0
        if clusters is not None and not parts and np.array_equal(unit, clusters.unit):
            return clusters
        parts = self._all_parts()
        self._held = None, parts
        tables = list(zip(*parts, strict=True))
        is_table = all(isinstance(X, np.ndarray) for X in tables[0])
        if not is_table or not isinstance(self._kernel, RadialKernel):
            return None
        X, y, weights = (t[0] if len(t) == 1 else np.concatenate(t) for t in tables)
        frame = self._statistics.query.mean, unit
        if X.shape[0] < _LEAST_ROWS:
            return None
        moved = _moved(X, *frame)
        if not _LEAST < np.abs(moved).max() < _LARGEST:
            return None
        rows = moved, y, weights
        clusters = Clusters.of(rows, frame, self._kernel, self.chosen_targets)
        self._held = clusters, ()
        return clusters

    def _share(self, clusters, sigma):
        """Return the largest safe share of summaries; None where it does not pay.

        No answer at a training row left out may be off by more than the tolerance, nor
        by more than ten times as much with 64 times the share: where a single near row
        decides, errors grow from nothing to 1 at once.
        """
        if sigma in clusters.shares:
            return clusters.shares[sigma]
        safe, n_steps = None, 0
        size = min(clusters.y.shape[0] // 2, _N_LEFT_OUT)
        own = np.random.default_rng(0).choice(len(clusters.y), size, replace=False)
        targets = self.chosen_targets
        n_needed = _STEPS_OF_FITS if isinstance(targets, LocalLinear) else _STEPS
        parts = clusters, targets, clusters.rows.take(own), own
        near = ClusteredSums(self._kernel, sigma, *parts)
        exact, _ = near.solved(0.0)
        for share in _SHARES.tolist():
            found, work = near.solved(share)
            if work > _MOST_WORK:
                break
            worst = _gaps(found.values, exact.values, clusters.y, targets).max()
            if worst <= self._tol and n_steps >= n_needed:
                safe = share
                break
            n_steps += n_steps > 0 or worst <= _MARGIN * self._tol
        return clusters.shares.setdefault(sigma, safe)

    def _answers(self, X, sigmas):
        """Return slices of rows with kernel sums for each sigma; None for plain ones.

        Rows are multiplied by sigma after their differences are squared here, before
        it where all are summed, and their type has to bear both.
        """
        clusters = self._sorted()
        if clusters is None or not isinstance(X, np.ndarray):
            return None
        queries = DenseInputs(_moved(X, clusters.origin, clusters.unit))
        if not np.abs(queries.dense).max(initial=0) < _LARGEST:
            return None
        size, largest = (
            math.sqrt(rows.sq_norms.max(initial=0)) for rows in (queries, clusters.rows)
        )
        most = math.sqrt(_ROUNDING / np.finfo(queries.dtype).eps)
        sizes = np.outer([1, largest], sigmas)
        fits = np.all((sizes > _LEAST) & (sizes < _LARGEST))
        if not fits or size * max(sigmas) > most:
            return None
        shares = [self._share(clusters, sigma) for sigma in sigmas]
        return self._batches(clusters, queries, list(zip(sigmas, shares, strict=True)))

    def _batches(self, clusters, queries, shares):
        """Yield slices of queries, and their kernel sums for each sigma."""

        def answer(part):
            some = queries.take(np.arange(rows.start, rows.stop)[part])
            parts = clusters, self.chosen_targets, some
            nears = [(ClusteredSums(self._kernel, s, *parts), r) for s, r in shares]
            return [near.solved(share)[0] for near, share in nears]

        size = max(_QUERY_ROWS, _PAIRS // len(clusters.means))
        for rows in gen_batches(queries.shape[0], size):
            n_rows = rows.stop - rows.start
            parts = in_threads(answer, n_rows, effective_n_threads(None, n_rows))
            path = [tuple(map(np.concatenate, zip(*found))) for found in zip(*parts)]
            yield rows, [KernelSums(*found) for found in path]


def _moved(X, origin, unit):
    """Return raw rows less the origin, times the unit, in their own type."""
    return (X - origin.astype(X.dtype)) * np.asarray(unit, dtype=X.dtype)


def _multiplier(sigma):
    """Return what distances of the rows in clusters are multiplied by."""
    return 1.0 if np.ndim(sigma) else float(sigma)
