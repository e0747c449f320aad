"""The exact estimator to a tolerance: training rows in clusters, far ones skipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._kernels import LogSum, least_log, log_sum
from .._workers import (
    Workspace,
    effective_n_threads,
    in_threads,
    one_blas_thread,
)
from ..maps import RadialKernel
from ..rows import DenseInputs, Inputs, Rows, Sigma
from ._clusters import BLOCK_ROWS, Clusters, least_distances, log_bound, log_cloud
from ._exact import ExactEngine
from ._sums import (
    Kernel,
    KernelSums,
    RegressionTargets,
    Targets,
    add_block,
    log_kernel,
    log_path,
)

QUERY_ROWS = 256  # kernel values computed at a time


class QuerySums:
    """Sums of kernel weights times targets, of queries that evaluate some clusters."""

    def __init__(self, n_queries: int, n_columns: int):
        log_scale = np.full((n_queries, 1), least_log(np.empty(0)))
        self.total = LogSum(np.zeros((n_queries, n_columns)), log_scale)

    def add(
        self,
        index: np.ndarray,
        logs: np.ndarray,
        targets: np.ndarray,
        workspace: Workspace,
    ) -> None:
        """Add for some queries: logs (n, n_keys), overwritten; targets (n_keys, k)."""
        before = LogSum(*(part[index] for part in self.total))
        for whole, part in zip(
            self.total, add_block(before, logs, targets, workspace), strict=True
        ):
            whole[index] = part

    def log_weights(self, targets: Targets) -> np.ndarray:
        """Return logs of the kernel weights so far, (n_queries, 1)."""
        values, log_scale = self.total
        with np.errstate(divide="ignore"):
            return np.log(targets.weight(values))[:, None] + log_scale


def visit(
    sums: QuerySums,
    kernel: RadialKernel,
    sigma: float,
    queries: Inputs,
    clusters: Clusters,
    which: np.ndarray,
    targets: Targets,
    own: np.ndarray | None = None,
) -> None:
    """Add the rows of clusters to the sums of the queries that visit them."""
    # which (n_queries, n_clusters), own (n_queries,)
    workspace = Workspace()
    by_cluster = np.ascontiguousarray(which.T)
    for k in np.flatnonzero(by_cluster.any(axis=1)).tolist():
        visitors = np.flatnonzero(by_cluster[k])
        blocks = list(clusters.blocks(targets, queries.dtype, k))
        for first in range(0, visitors.size, QUERY_ROWS):  # gen_batches takes longer
            index = visitors[first : first + QUERY_ROWS]
            rows = queries.take(index)
            start = clusters.starts[k]
            for keys, encoded in blocks:
                logs = log_kernel(kernel, rows, keys, workspace, sigma)
                if own is not None:
                    leave_out(logs, own[index] - start)
                    start += len(encoded)
                sums.add(index, logs, encoded, workspace)


def leave_out(logs: np.ndarray, own: np.ndarray) -> None:
    """Make the logs of pairs (i, own[i]) minus infinity, where there is such a key."""
    inside = np.flatnonzero((own >= 0) & (own < logs.shape[1]))
    logs[inside, own[inside]] = -np.inf


def enough(mass: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return which entries to take so that the others add up to less than allowed."""
    # mass (n_queries, n_clusters), allowed (n_queries, 1) -> (n_queries, n_clusters)
    ordered = np.sort(mass, axis=1)
    left_out = np.count_nonzero(np.cumsum(ordered, axis=1) <= allowed, axis=1)
    last = np.take_along_axis(ordered, np.maximum(left_out - 1, 0)[:, None], axis=1)
    return mass > np.where(left_out[:, None] > 0, last, -1.0)


_MOST_WORK = 0.5  # share of the cost of all rows; from there visits do not pay
_PROBES = 64  # queries that are looked at before many
_BLOCK = 3e4  # kernel values that take as long as the calls for a block of them


class Rule(NamedTuple):
    """What may be left to clouds."""

    share: float
    most: float


class Near:
    """Queries beside the clusters: distances, taken once for all sigmas."""

    def __init__(
        self,
        kernel: RadialKernel,
        clusters: Clusters,
        queries: Inputs,
        targets: Targets,
        own: np.ndarray | None = None,
    ):
        self._own, self._block = own, _BLOCK
        self._kernel, self._clusters = kernel, clusters
        self._queries, self._targets = queries, targets
        _ = queries.sq_norms  # computed once, and kept with the rows

    @cached_property
    def _distances(self):
        return self._clusters.distances(self._queries, self._kernel)

    def clouds(self, sigma: float) -> np.ndarray:
        """Return logs of the estimated weights of the clusters, for a sigma."""
        return log_cloud(self._kernel, sigma, self._distances, self._clusters)

    def answers(
        self,
        sigmas: Sequence[float],
        rules: Sequence[Rule | None],
        means: np.ndarray,
        tol: float,
    ) -> list[KernelSums]:
        """Return the kernel sums of the queries, one for each sigma."""
        # means (n_clusters, n_columns)
        with one_blas_thread():
            found: list[Any] = [
                None
                if self._is_hopeless(sigma, rule, tol)
                else self._answer(sigma, means, rule, tol)
                for sigma, rule in zip(sigmas, rules, strict=True)
            ]
        rest = [k for k, sums in enumerate(found) if sums is None]
        exact = self._exact([sigmas[k] for k in rest]) if rest else []
        for k, sums in zip(rest, exact, strict=True):
            found[k] = sums
        return found

    def _exact(self, sigmas):
        """Return the kernel sums over all rows."""
        parts, workspace = [], Workspace()
        blocks = list(self._clusters.blocks(self._targets, self._queries.dtype))
        for batch in gen_batches(self._queries.shape[0], QUERY_ROWS):
            rows = self._queries.take(batch)
            totals: list[Any] = [None for _ in sigmas]
            start = 0
            for keys, targets in blocks:
                path = log_path(self._kernel, rows, keys, sigmas)
                if len(sigmas) == 1:  # needs no roots of squares
                    one = log_kernel(self._kernel, rows, keys, workspace, sigmas[0])
                    path = iter([one])
                for k, logs in enumerate(path):
                    if self._own is not None:
                        leave_out(logs, self._own[batch] - start)
                    totals[k] = add_block(totals[k], logs, targets, workspace)
                start += len(targets)
            parts.append(totals)
        return [KernelSums(*map(np.concatenate, zip(*p))) for p in zip(*parts)]

    def _is_hopeless(self, sigma, rule, tol):
        """Return whether some of many queries would all rather sum all rows."""
        n_queries = self._queries.shape[0]
        if n_queries < 4 * _PROBES:
            return False
        some = np.arange(0, n_queries, n_queries // _PROBES)
        parts = self._kernel, self._clusters, self._queries.take(some), self._targets
        few = Near(*parts)
        few._block = 0.0  # many queries share the calls
        return few._plan(sigma, rule, tol) is None

    def _plan(self, sigma, rule, tol):
        """Return what is visited first, estimates and bounds; None where it is dear."""
        logs = bounds = self.clouds(sigma)
        mass, _ = self.relative(logs, None, False)
        whole = mass.sum(axis=1, keepdims=True)
        share, most = rule or _certain(tol)
        which = enough(mass, share * whole)
        if self._own is not None:
            starts = self._clusters.starts
            home = np.searchsorted(starts, self._own, side="right") - 1
            which[np.arange(len(which)), home] = True
        if self._is_dear(which):
            return None
        if rule is None:
            bounds, top = self._bounds(sigma), logs.max(axis=1, keepdims=True)
            top[top == -np.inf] = 0
            likely = np.exp(np.clip(bounds - top, -700, 600))
            likely[which] = 0
            if self._is_dear(which | enough(likely, most * whole)):
                return None
        return which, logs, bounds

    def _answer(self, sigma, means, rule, tol):
        """Return kernel sums, or None where it costs less to sum all rows."""
        plan = self._plan(sigma, rule, tol)
        if plan is None:
            return None
        which, logs, bounds = plan
        sums = QuerySums(len(logs), means.shape[1])
        self._visit(sums, sigma, which)
        # the rest beside what was found, no longer beside what was hoped for
        _, most = rule or _certain(tol)
        if most < np.inf:
            mass, found = self.relative(bounds, sums, which)
            more = enough(mass, most * found)
            self._visit(sums, sigma, more)
            which |= more
        np.minimum(logs, bounds, out=logs)
        logs[which] = -np.inf
        return with_clouds(sums, logs, means)

    def _bounds(self, sigma):
        least = least_distances(self._clusters, self._distances)
        log_weights = self._clusters.log_weights
        return log_bound(self._kernel, sigma, least, log_weights)

    def _visit(self, sums, sigma, which):
        rest = self._kernel, sigma, self._queries, self._clusters
        visit(sums, *rest, which, self._targets, self._own)

    def relative(self, logs, sums, visited):
        """Return weights of clusters not visited, and of all visited, on one scale.

        That of the latter, where there is one: nothing beside it underflows.
        """
        found = np.full((len(logs), 1), -np.inf)
        if sums is not None:
            found = sums.log_weights(self._targets)
        none = found == -np.inf
        scale = np.where(none, logs.max(axis=1, keepdims=True), found)
        scale[scale == -np.inf] = 0
        mass = np.exp(np.clip(logs - scale, -700, 600))
        mass[visited | (logs == -np.inf)] = 0
        return mass, np.where(none, 0.0, 1.0)

    def _is_dear(self, which):
        """Return whether to visit these clusters costs more than half of all rows."""
        sizes = self._clusters.sizes.astype(np.float64)
        blocks = np.ceil(which.sum(axis=0) / QUERY_ROWS) @ np.ceil(sizes / BLOCK_ROWS)
        cost = (which @ sizes).sum() + self._block * blocks
        n_queries, n_rows = len(which), sizes.sum()
        all_blocks = np.ceil(n_queries / QUERY_ROWS) * np.ceil(n_rows / BLOCK_ROWS)
        return cost > _MOST_WORK * (n_queries * n_rows + self._block * all_blocks)


def _certain(tol):
    """Return the rule by which answers are certified."""
    return Rule(tol, tol / (1 - tol) * (1 - 1e-6))


def with_clouds(sums: QuerySums, logs: np.ndarray, means: np.ndarray) -> KernelSums:
    """Return the sums with clouds added."""
    # logs (n_queries, n_clusters), means (n_clusters, n_columns)
    total = sums.total.plus(log_sum(logs, means))
    return KernelSums(*total)


_N_QUERIES = 256  # training rows that are answered exactly
_MOST_SKIPPED = 1.0  # ratio of clouds to the rows visited, of any query
_N_SHARES = 16  # shares tol, tol / 2, tol / 4, ... that are tried


def calibrated_rule(
    kernel: RadialKernel,
    sigma: float,
    clusters: Clusters,
    means: np.ndarray,
    targets: Targets,
    tol: float,
) -> Rule | None:
    """Return the largest share of clouds whose answers are within a tolerance.

    Up to 256 training rows, drawn with a fixed seed, are answered exactly and for
    each share, without themselves.
    """
    # means (n_clusters, n_columns)
    n_rows = clusters.rows.shape[0]
    size = min(n_rows, _N_QUERIES)
    own = np.sort(np.random.default_rng(0).choice(n_rows, size, replace=False))
    queries = clusters.rows.take(own)
    near = Near(kernel, clusters, queries, targets)
    logs = near.clouds(sigma)
    shares = tol * 0.5 ** np.arange(_N_SHARES)
    workspace = Workspace()
    sums = [QuerySums(size, means.shape[1]) for _ in range(_N_SHARES + 1)]
    mass, _ = near.relative(logs, None, False)
    whole = mass.sum(axis=1, keepdims=True)
    levels = np.full(logs.shape, _N_SHARES)  # of the share from which it is visited
    for level, share in reversed(list(enumerate(shares))):
        levels[enough(mass, share * whole)] = level
    for k, start in enumerate(clusters.starts[:-1].tolist()):
        for keys, encoded in clusters.blocks(targets, queries.dtype, k):
            block = log_kernel(kernel, queries, keys, workspace, sigma)
            leave_out(block, own - start)
            start += len(encoded)
            for level in np.unique(levels[:, k]):
                some = np.flatnonzero(levels[:, k] == level)
                sums[level].add(some, block[some], encoded, workspace)
    answers, so_far = [], sums[0]
    for level in range(len(sums)):
        if level > 0:
            so_far = _plus(so_far, sums[level])
        rest = np.where(levels > level, logs, -np.inf)
        answers.append((with_clouds(so_far, rest, means).scores, so_far, rest))
    gap, (exact, *_) = _Gap(clusters, targets), answers[-1]
    for share, (found, visited, rest) in zip(shares, answers[:-1], strict=True):
        errors = gap(found, exact)
        standard_error = errors.std() / np.sqrt(errors.size)
        likely = errors.mean() + 2 * standard_error
        if likely <= tol / 2 and np.quantile(errors, 0.95) <= tol:
            mass, weight = near.relative(rest, visited, False)
            most = mass.sum(axis=1)[weight[:, 0] > 0].max(initial=share)
            return Rule(float(share), min(float(most), _MOST_SKIPPED))
    return None


def _plus(a, b):
    """Return two sums as one."""
    both = QuerySums(0, 0)
    both.total = a.total.plus(b.total)
    return both


class _Gap:
    """How far answers are apart: in total variation, or in ranges of the targets."""

    def __init__(self, clusters, targets):
        self._targets, self._range = targets, None
        if isinstance(targets, RegressionTargets):
            spread = np.ptp(clusters.y, axis=0)
            self._range = np.where(spread > 0, spread, 1.0)

    def __call__(self, found, exact):
        """Return one number for each row; 0 where the exact answer has no weight."""
        answers = []
        for sums in (found, exact):
            weights = self._targets.weight(sums)[:, None]
            answers.append(sums / np.where(weights > 0, weights, 1))
        gaps = np.abs(answers[0] - answers[1])
        if self._range is None:
            return 0.5 * gaps.sum(axis=1)
        return (gaps[:, :-1] / self._range).max(axis=1)


_LEAST_ROWS = 4000  # from which clusters pay
_LARGEST = 1e15  # whose squares single precision can hold
_GROWTH = 2  # times as many rows, and the clusters are made anew
_DISTANCES = 2**22  # of queries from centres, at a time
_LEAST_QUERIES = 256


@dataclass(frozen=True, eq=False)
class Sorted:
    """Rows in clusters, and what follows from them."""

    clusters: Clusters
    origin: np.ndarray  # (n_features,)
    unit: float | np.ndarray  # (n_features,)
    means: np.ndarray  # (n_clusters, n_columns)
    rules: dict[float, Rule | None] = field(default_factory=dict)

    def raw(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows as they came, their targets and their weights."""
        rows, y, weights = self.clusters.table()
        rows /= np.asarray(self.unit, dtype=rows.dtype)
        rows += self.origin.astype(rows.dtype)
        return rows, y, weights


class ClusteredEngine(ExactEngine):
    """The exact estimator, to a tolerance.

    Dense rows from 4000 on are kept sorted by cluster; fewer of them, and sparse ones,
    are summed as without a tolerance.
    """

    _held: tuple[Any, tuple] = (None, ())  # Sorted or None, and rows that came later

    def __init__(
        self,
        kernel: Kernel,
        sigma: Sigma,
        seed: tuple[int, ...],
        targets: Targets,
        tol: float,
    ):
        self._radial = kernel
        super().__init__(self._radial, sigma, seed, targets)
        self._tol, self._certified = tol, False

    @property
    def _parts(self):  # rows that are not sorted yet
        return self._held[1]

    @_parts.setter
    def _parts(self, parts):
        self._held = self._held[0], parts  # one value: threads see both or neither

    def _all_parts(self):
        state, parts = self._held
        return parts if state is None else (state.raw(), *parts)

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        final: bool = False,
        step: Callable[[], None] | None = None,
    ) -> None:
        """Keep rows of positive weight; ``final`` sorts them at once."""
        super().add(X, y, weights, final=final, step=step)
        if final and self._sort() is not None:
            self._prepared([_multiplier(self.sigma)])

    def _sort(self):
        """Return the rows in clusters; None where they stay as they came."""
        state, parts = self._held
        if not parts:
            return state
        unit = self.sigma if np.ndim(self.sigma) else 1.0
        if state is not None and not np.array_equal(unit, state.unit):  # learned anew
            state, parts = None, self._all_parts()
        n_old = 0 if state is None else state.clusters.rows.shape[0]
        n_rows = n_old + sum(X.shape[0] for X, *_ in parts)
        if n_rows < _LEAST_ROWS or any(sparse.issparse(X) for X, *_ in parts):
            self._held = None, self._all_parts()
            return None
        origin = self._statistics.query.mean if state is None else state.origin
        blocks = [(_moved(X, origin, unit), y, w) for X, y, w in parts]
        if not all(np.abs(X).max() < _LARGEST for X, *_ in blocks):
            self._held = None, self._all_parts()
            return None
        old = None if state is None else state.clusters
        if old is not None and n_rows > _GROWTH * old.n_built:
            blocks, old = [old.table(), *blocks], None
        X, y, weights = (
            block[0] if len(block) == 1 else np.concatenate(block)
            for block in zip(*blocks, strict=True)
        )
        if old is None:
            clusters = Clusters.of(X, y, weights, self._radial)
        else:
            clusters = old.appended(X, y, weights, self._radial)
        means = clusters.mean_targets(self.targets)
        self._held = Sorted(clusters, origin, unit, means), ()
        return self._held[0]

    def _prepared(self, sigmas):
        """Return the rows in clusters, and a rule for each sigma: None to certify."""
        state, parts = self._held
        rules = dict(state.rules)
        for sigma in sigmas:
            if not self._certified and sigma not in rules:
                rest = state.clusters, state.means, self.targets, self._tol
                rules[sigma] = calibrated_rule(self._radial, sigma, *rest)
        found = [rules.get(sigma) for sigma in sigmas]
        clusters = state.clusters
        if None in found:
            clusters = clusters.with_half_spaces(self._radial)
        state = replace(state, clusters=clusters, rules=rules)
        self._held = state, parts
        return state, found

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield rows and their kernel sums, in which nothing cancels."""
        if self._sort() is None:
            yield from super().sums(X)
            return
        for rows, (sums,) in self._answers(X, [_multiplier(self.sigma)]):
            yield rows, sums

    def path_sums(
        self, X: Rows, sigmas: Sequence[float]
    ) -> Iterator[tuple[slice, list[KernelSums]]]:
        """Yield rows, and their kernel sums for other numbers sigma.

        All of them share the clusters and the distances from the centres.
        """
        if self._sort() is None:
            yield from super().path_sums(X, sigmas)
        else:
            yield from self._answers(X, [float(sigma) for sigma in sigmas])

    def _answers(self, X, sigmas):
        state = self._held[0]
        size = max(_LEAST_QUERIES, _DISTANCES // len(state.means))
        for rows in gen_batches(X.shape[0], size):
            queries = DenseInputs(_moved(X[rows], state.origin, state.unit))
            for part, path in self._near(queries, sigmas):
                yield slice(rows.start + part.start, rows.start + part.stop), path

    def _near(self, all_queries, sigmas, left_out=False):
        """Yield slices of queries and their path of kernel sums."""
        state, rules = self._prepared(sigmas)

        def answer(part):
            own = np.arange(rows.start, rows.stop)[part] if left_out else None
            taken = queries.take(part)
            near = Near(self._radial, state.clusters, taken, self.targets, own)
            return near.answers(sigmas, rules, state.means, self._tol)

        size = max(_LEAST_QUERIES, _DISTANCES // len(state.means))
        for rows in gen_batches(all_queries.shape[0], size):
            queries, n_rows = all_queries.take(rows), rows.stop - rows.start
            parts = in_threads(answer, n_rows, effective_n_threads(None, n_rows))
            yield rows, [_stacked(sums) for sums in zip(*parts, strict=True)]


def _moved(X, origin, unit):
    """Return raw rows less the origin, times the unit, in their own type."""
    if sparse.issparse(X):
        X = X.toarray()
    rows = X - origin.astype(X.dtype)
    rows *= np.asarray(unit, dtype=X.dtype)
    return rows


def _multiplier(sigma):
    """Return what distances of the rows in clusters are multiplied by."""
    return 1.0 if np.ndim(sigma) else float(sigma)


def _stacked(parts):
    """Return the sums of several sets of queries, one below the other."""
    scores, log_scales, _ = zip(*parts, strict=True)
    return KernelSums(np.concatenate(scores), np.concatenate(log_scales))
