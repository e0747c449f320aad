"""Kernel sums of queries over some clusters each: which ones, and their rows."""

from __future__ import annotations

import numpy as np

from ..maps import RadialKernel
from ..rows import Scratch, UnitRows
from ._clusters import Clusters
from ._log_sums import leave_out, log_radial
from ._targets import Numbers, OneHot

QUERY_ROWS = 256  # kernel values computed at a time


class QuerySums:
    """Sums of exp(logs) times targets, over exp(log_scale), one scale a query.

    Parameters
    ----------
    n_queries, n_columns : int
        Numbers of queries and of columns of the targets.

    Attributes
    ----------
    scores : ndarray of shape (n_queries, n_columns), float64
        The sums.
    log_scale : ndarray of shape (n_queries, 1)
        Minus infinity before there are any.
    """

    def __init__(self, n_queries: int, n_columns: int):
        self.scores = np.zeros((n_queries, n_columns))
        self.log_scale = np.full((n_queries, 1), -np.inf)

    def add(
        self, index: np.ndarray, logs: np.ndarray, targets: np.ndarray, scratch: Scratch
    ) -> None:
        """Add for some queries: logs (n, n_keys), overwritten; targets (n_keys, k)."""
        before = self.log_scale[index]
        after = np.maximum(before, logs.max(axis=1, keepdims=True))
        shift = np.where(np.isfinite(after), after, 0)
        logs -= shift.astype(logs.dtype)
        np.exp(logs, out=logs)
        scores = self.scores[index]
        scores *= np.exp(before - shift)
        scores += scratch.cast(logs, targets.dtype) @ targets
        self.scores[index] = scores
        self.log_scale[index] = after

    def log_weights(self, targets: OneHot | Numbers) -> np.ndarray:
        """Return logs of the kernel weights so far, (n_queries, 1)."""
        with np.errstate(divide="ignore"):
            return np.log(targets.weight(self.scores))[:, None] + self.log_scale


def visit(
    sums: QuerySums,
    kernel: RadialKernel,
    sigma: float,
    queries: UnitRows,
    clusters: Clusters,
    which: np.ndarray,
    targets: OneHot | Numbers,
    own: np.ndarray | None = None,
) -> None:
    """Add the rows of clusters to the sums of the queries that visit them.

    Parameters
    ----------
    sums : QuerySums
        Of the queries; changed.
    kernel : RadialKernel
        At unit bandwidth.
    sigma : float
        Multiplier of the distances.
    queries : UnitRows
        n rows.
    clusters : Clusters
        What is visited.
    which : ndarray of bool of shape (n_queries, n_clusters)
        Who visits what.
    targets : OneHot or Numbers
        What encodes the targets of the rows.
    own : ndarray of int of shape (n_queries,), default=None
        Numbers of rows that are left out, one a query.
    """
    scratch = Scratch()
    by_cluster = np.ascontiguousarray(which.T)
    for k in np.flatnonzero(by_cluster.any(axis=1)).tolist():
        visitors = np.flatnonzero(by_cluster[k])
        blocks = list(clusters.blocks(targets, queries.dtype, k))
        for first in range(0, visitors.size, QUERY_ROWS):  # gen_batches takes longer
            index = visitors[first : first + QUERY_ROWS]
            rows = queries.take(index)
            start = clusters.starts[k]
            for keys, encoded in blocks:
                logs = log_radial(kernel, sigma, rows, keys, scratch)
                if own is not None:
                    leave_out(logs, own[index] - start)
                    start += len(encoded)
                sums.add(index, logs, encoded, scratch)


def enough(mass: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Return which entries to take so that the others add up to less than allowed.

    Parameters
    ----------
    mass : ndarray of shape (n_queries, n_clusters)
        Not negative.
    allowed : ndarray of shape (n_queries, 1)
        How much may be left out.

    Returns
    -------
    which : ndarray of bool of shape (n_queries, n_clusters)
        The largest entries.
    """
    ordered = np.sort(mass, axis=1)
    left_out = np.count_nonzero(np.cumsum(ordered, axis=1) <= allowed, axis=1)
    last = np.take_along_axis(ordered, np.maximum(left_out - 1, 0)[:, None], axis=1)
    return mass > np.where(left_out[:, None] > 0, last, -1.0)
