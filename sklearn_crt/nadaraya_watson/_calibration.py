"""How much of the estimated weight may be left to clouds: measured on training rows."""

from __future__ import annotations

import numpy as np

from ..maps import RadialKernel
from ..rows import Scratch
from ._clusters import Clusters
from ._log_sums import leave_out, log_radial
from ._targets import Numbers, OneHot
from ._tolerance import Near, Rule, with_clouds
from ._visits import QuerySums, enough

_N_QUERIES = 256  # training rows that are answered exactly
_MOST = 1.0  # ratio of clouds to the rows visited, of any query
_N_SHARES = 16  # shares tol, tol / 2, tol / 4, ... that are tried


def calibrated_rule(
    kernel: RadialKernel,
    sigma: float,
    clusters: Clusters,
    means: np.ndarray,
    targets: OneHot | Numbers,
    tol: float,
) -> Rule | None:
    """Return the largest share of clouds whose answers are within a tolerance.

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
    rule : Rule or None
        A share of at most tol: the mean error plus two standard errors is at most
        half of the tolerance, and the error of 95 % of the rows at most the tolerance.
        None where no share that was tried, down to tol / 32768, does it. ``most`` is
        the largest ratio of clouds to rows visited that was met, but not above 1.
    """
    n_rows = clusters.rows.shape[0]
    size = min(n_rows, _N_QUERIES)
    own = np.sort(np.random.default_rng(0).choice(n_rows, size, replace=False))
    queries = clusters.rows.take(own)
    near = Near(kernel, clusters, queries, targets)
    logs = near.clouds(sigma)
    shares = tol * 0.5 ** np.arange(_N_SHARES)
    scratch = Scratch()
    sums = [QuerySums(size, means.shape[1]) for _ in range(_N_SHARES + 1)]
    mass, _ = near.relative(logs, None, False)
    whole = mass.sum(axis=1, keepdims=True)
    levels = np.full(logs.shape, _N_SHARES)  # of the share from which it is visited
    for level, share in reversed(list(enumerate(shares))):
        levels[enough(mass, share * whole)] = level
    for k, start in enumerate(clusters.starts[:-1].tolist()):
        for keys, encoded in clusters.blocks(targets, queries.dtype, k):
            block = log_radial(kernel, sigma, queries, keys, scratch)
            leave_out(block, own - start)
            start += len(encoded)
            for level in np.unique(levels[:, k]):
                some = np.flatnonzero(levels[:, k] == level)
                sums[level].add(some, block[some], encoded, scratch)
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
            return Rule(float(share), min(float(most), _MOST))
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
