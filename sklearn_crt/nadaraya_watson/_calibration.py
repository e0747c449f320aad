"""How much of the estimated weight may be left to clouds: measured on training rows."""

from __future__ import annotations

import numpy as np

from ..maps import RadialKernel
from ..rows import Scratch
from ._clusters import Clusters
from ._log_sums import leave_out, log_radial
from ._targets import Numbers, OneHot
from ._tolerance import Near, first_cluster, with_clouds
from ._visits import QuerySums, enough

_N_QUERIES = 256  # training rows that are answered exactly
_N_SHARES = 16  # shares tol, tol / 2, tol / 4, ... that are tried


def calibrated_share(
    kernel: RadialKernel,
    sigma: float,
    clusters: Clusters,
    means: np.ndarray,
    targets: OneHot | Numbers,
    tol: float,
) -> float | None:
    """Return the largest estimated share whose answers are within a tolerance.

    Up to 256 training rows, drawn with a fixed seed, are answered exactly and for
    each share, without themselves.

    Parameters
    ----------
    kernel : RadialKernel
        At unit bandwidth.
    sigma : float
        Multiplier of the distances.
    clusters : Clusters
        The training rows.
    means : ndarray of shape (n_clusters, n_columns)
        Mean targets of the clusters, for a weight of 1.
    targets : OneHot or Numbers
        What encodes the targets.
    tol : float
        The tolerance.

    Returns
    -------
    share : float or None
        At most tol: the mean error plus two standard errors is at most half of the
        tolerance, and the error of 95 % of the rows at most the tolerance. None where
        no share that was tried, down to tol / 32768, does it.
    """
    n_rows = clusters.rows.shape[0]
    size = min(n_rows, _N_QUERIES)
    own = np.sort(np.random.default_rng(0).choice(n_rows, size, replace=False))
    queries = clusters.rows.take(own)
    near = Near(kernel, clusters, queries, targets)
    logs = near.clouds(sigma)
    shares = tol * 0.5 ** np.arange(_N_SHARES)
    first, levels = first_cluster(logs), None
    scratch = Scratch()
    sums = [QuerySums(size, means.shape[1]) for _ in range(_N_SHARES + 2)]

    def add(which, level_of):
        for k in np.flatnonzero(which.any(axis=0)).tolist():
            start, rows = clusters.starts[k], np.flatnonzero(which[:, k])
            for keys, encoded in clusters.blocks(targets, queries.dtype, k):
                block = log_radial(kernel, sigma, queries.take(rows), keys, scratch)
                leave_out(block, own[rows] - start)
                start += len(encoded)
                found = level_of[rows, k]
                for level in np.unique(found):
                    some = found == level
                    sums[level].add(rows[some], block[some], encoded, scratch)

    add(first, np.zeros(logs.shape, dtype=int))
    mass, found = near._relative(logs, sums[0], first)
    total = found + mass.sum(axis=1, keepdims=True)
    levels = np.full(logs.shape, _N_SHARES + 1)
    for level, share in reversed(list(enumerate(shares, start=1))):
        levels[enough(mass, share * total)] = level
    add(~first, levels)
    levels[first] = 0
    return _largest(sums, logs, levels, means, shares, _Gap(clusters, targets), tol)


def _largest(sums, logs, levels, means, shares, gap, tol):
    """Return the largest share whose answers are near the exact ones."""
    answers, so_far = [], sums[0]
    for level in range(len(sums)):
        if level > 0:
            so_far = _plus(so_far, sums[level])
        rest = np.where(levels > level, logs, -np.inf)
        answers.append(with_clouds(so_far, rest, means).scores)
    for level, share in enumerate(shares, start=1):
        errors = gap(answers[level], answers[-1])
        standard_error = errors.std() / np.sqrt(errors.size)
        likely = errors.mean() + 2 * standard_error
        if likely <= tol / 2 and np.quantile(errors, 0.95) <= tol:
            return float(share)
    return None


def _plus(a, b):
    """Return two sums as one."""
    total = QuerySums(*a.scores.shape)
    total.log_scale = np.maximum(a.log_scale, b.log_scale)
    shift = np.where(np.isfinite(total.log_scale), total.log_scale, 0)
    total.scores = sum(part.scores * np.exp(part.log_scale - shift) for part in (a, b))
    return total


class _Gap:
    """How far answers are apart: in total variation, or in ranges of the targets."""

    def __init__(self, clusters, targets):
        self._targets, self._range = targets, None
        if isinstance(targets, Numbers):
            spread = np.ptp(clusters.y, axis=0)
            self._range = np.where(spread > 0, spread, 1.0)

    def __call__(self, found, exact):
        """Return one number a row; 0 where the exact answer has no weight."""
        answers = []
        for sums in (found, exact):
            weights = self._targets.weight(sums)[:, None]
            answers.append(sums / np.where(weights > 0, weights, 1))
        gaps = np.abs(answers[0] - answers[1])
        if self._range is None:
            return 0.5 * gaps.sum(axis=1)
        return (gaps[:, :-1] / self._range).max(axis=1)
