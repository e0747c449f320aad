r"""Answers within a tolerance: the near clusters exactly, the others as clouds.

A query visits the clusters (``_clusters``) of largest estimated weight
(``_cluster_mass``), until the rest is a share :math:`\epsilon` of the whole: their rows
are summed exactly, and the others stand as clouds with the mean targets of their rows.

With the weight S of the rows visited and a bound U of all others, both the exact answer
and this one are the average over the rows visited, mixed with other averages whose
share is at most :math:`U / (S + U)`. So they are no farther apart than that: in total
variation, or in units of the range of the targets. ``"certified"`` visits further
clusters until :math:`U / (S + U) \le` tol with the certified bound.

``"estimated"`` takes for U what the clouds say, and the largest :math:`\epsilon` for
which 256 of the training rows, left out of their own averages, come out well
(``_calibration``). A query for which clouds would stand for more, beside the rows
visited, than for any of these rows is not like them and visits more. Where no
:math:`\epsilon` does, at bandwidths for which a nearest row decides, it is
``"certified"`` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import gen_batches

from ..maps import RadialKernel
from ..rows import Scratch, UnitRows, one_blas_thread
from ._cluster_mass import least_distances, log_bound, log_cloud
from ._clusters import BLOCK_ROWS, Clusters
from ._log_sums import LogSum, leave_out, log_path, log_radial
from ._sums import KernelSums
from ._targets import Numbers, OneHot
from ._visits import QUERY_ROWS, QuerySums, enough, visit

_MOST = 0.5  # share of the cost of all rows; from there visits do not pay
_PROBES = 64  # queries that are looked at before many
_BLOCK = 3e4  # kernel values that take as long as the calls for a block of them


class Rule(NamedTuple):
    """What may be left to clouds.

    Attributes
    ----------
    share : float
        Of the weight of all clusters, as clouds.
    most : float
        Times the weight of the rows visited.
    """

    share: float
    most: float


class Near:
    """Queries beside the clusters: distances, taken once for all sigmas.

    Parameters
    ----------
    kernel : RadialKernel
        At unit bandwidth.
    clusters : Clusters
        The training rows.
    queries : UnitRows
        As the rows are.
    targets : OneHot or Numbers
        What encodes the targets.
    own : ndarray of int of shape (n_queries,), default=None
        Numbers of rows that are left out, one a query.
    """

    def __init__(
        self,
        kernel: RadialKernel,
        clusters: Clusters,
        queries: UnitRows,
        targets: OneHot | Numbers,
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
        """Return the kernel sums of the queries, one for each sigma.

        Parameters
        ----------
        sigmas : sequence of float
            Multipliers of the distances.
        rules : sequence of Rule or None
            What may be left to clouds; None for what is to be certified.
        means : ndarray of shape (n_clusters, n_columns)
            Targets of the clusters, for a weight of 1.
        tol : float
            Certified share.

        Returns
        -------
        sums : list of KernelSums
            Exact where most of the rows would be visited.
        """
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
        parts, scratch = [], Scratch()
        blocks = list(self._clusters.blocks(self._targets, self._queries.dtype))
        for batch in gen_batches(self._queries.shape[0], QUERY_ROWS):
            rows, totals = self._queries.take(batch), [LogSum() for _ in sigmas]
            start = 0
            for keys, targets in blocks:
                path = log_path(self._kernel, rows, keys, sigmas)
                if len(sigmas) == 1:  # needs no roots of squares
                    rest = self._kernel, sigmas[0], rows, keys, scratch
                    path = iter([log_radial(*rest)])
                for total, logs in zip(totals, path, strict=True):
                    if self._own is not None:
                        leave_out(logs, self._own[batch] - start)
                    total.add(logs, targets, scratch)
                start += len(targets)
            parts.append([total.value for total in totals])
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
        return cost > _MOST * (n_queries * n_rows + self._block * all_blocks)


def _certain(tol):
    """Return the rule by which answers are certified."""
    return Rule(tol, tol / (1 - tol) * (1 - 1e-6))


def with_clouds(sums: QuerySums, logs: np.ndarray, means: np.ndarray) -> KernelSums:
    """Return the sums with clouds added.

    Parameters
    ----------
    sums : QuerySums
        Of the queries.
    logs : ndarray of shape (n_queries, n_clusters)
        Of the weights of the clouds; minus infinity for none.
    means : ndarray of shape (n_clusters, n_columns)
        Their targets, for a weight of 1.

    Returns
    -------
    sums : KernelSums
        Of both.
    """
    log_scale = np.maximum(sums.log_scale, logs.max(axis=1, keepdims=True))
    log_scale[~np.isfinite(log_scale)] = 0
    scores = sums.scores * np.exp(sums.log_scale - log_scale)
    scores += np.exp(logs - log_scale) @ means
    return KernelSums(scores, log_scale)
