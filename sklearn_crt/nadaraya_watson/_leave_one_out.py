"""A bandwidth for kernel averages: the one of least leave-one-out error."""

from __future__ import annotations

import numpy as np
from sklearn.utils import gen_batches

from ..rows import UnitRows
from ._log_sums import Kernel, LogSum, log_path
from ._targets import Numbers, OneHot

_MULTIPLES = 2.0 ** np.arange(-1, 6, 0.5)
_N_QUERIES, _N_KEYS = 500, 10_000  # rows that are predicted, and averaged over
_QUERY_ROWS, _KEY_ROWS = 250, 2048  # kernel values computed at a time


def sample(n_rows: int) -> np.ndarray:
    """Return which rows to average over, those to predict first.

    Parameters
    ----------
    n_rows : int
        Number of rows there are.

    Returns
    -------
    index : ndarray of int
        At most 10,000, drawn with a fixed seed.
    """
    return np.random.default_rng(0).permutation(n_rows)[:_N_KEYS]


def best_multiple(
    kernel: Kernel,
    rows: UnitRows,
    encoded: np.ndarray,
    targets: OneHot | Numbers,
    n_rows: int,
) -> float:
    r"""Return the factor of the rows whose kernel averages err least on other rows.

    The first 500 rows are predicted from the others with the kernel at 14 multiples of
    the bandwidth, 1/2 to 45. Rows at distance 0 are left out with a row, so weights
    count as repeated rows and a table that repeats its rows is not learned by heart.
    The error is

    .. math:: \sum_i w_i \sum_k (\hat t_{ik} - t_{ik})^2 / v_k

    with t the targets (one column a class, or an output) and v their variances: the
    Brier score of labels, the squared error of numbers. Of n rows with d columns, where
    only m are averaged over, the factor is that of m times (n / m)^(1 / (d + 4)), the
    rate at which the best bandwidth shrinks (Scott's rule [1]_).

    Parameters
    ----------
    kernel : RadialKernel or callable
        At unit bandwidth.
    rows : UnitRows
        Those of ``sample``, at a first guess of the bandwidth.
    encoded : ndarray of shape (m, k)
        Their weighted targets.
    targets : OneHot or Numbers
        What encoded them.
    n_rows : int
        Number n of rows that they were drawn from.

    Returns
    -------
    factor : float
        By which to multiply sigma; 1 where no factor is better than the mean.

    References
    ----------
    .. [1] D. W. Scott, "Multivariate Density Estimation", Wiley 1992, section 6.3.
    """
    n_keys, n_features = rows.shape
    encoded = encoded.astype(np.float64)
    blocks = [
        (rows.take(block), encoded[block]) for block in gen_batches(n_keys, _KEY_ROWS)
    ]
    mean, spread = _moments(encoded, targets)
    errors = np.zeros(_MULTIPLES.size)
    for batch in gen_batches(min(n_keys, _N_QUERIES), _QUERY_ROWS):
        part = rows.take(batch)
        truth, weights = _ratio(encoded[batch], targets, mean)
        for k, sums in enumerate(_sums_without_own(kernel, part, blocks)):
            found, _ = _ratio(sums, targets, mean)
            errors[k] += weights @ ((found - truth) ** 2 @ (1 / spread))
    factor = float(_MULTIPLES[np.argmin(errors)])
    return factor * (n_rows / n_keys) ** (1 / (n_features + 4))


def _sums_without_own(kernel, queries, blocks):
    """Return the kernel sums of rows at each multiple, without rows at distance 0."""
    totals = [LogSum() for _ in _MULTIPLES]
    for keys, targets in blocks:
        own = queries.sq_distances(keys) == 0
        path = log_path(kernel, queries, keys, _MULTIPLES)
        for total, logs in zip(totals, path, strict=True):
            logs[own] = -np.inf
            total.add(logs, targets)
    return [total.value[0] for total in totals]


def _ratio(sums, targets, mean):
    """Return sums of targets over those of the weights, and these."""
    weights = targets.weight(sums)
    n_columns = mean.size
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = sums[:, :n_columns] / weights[:, None]
    return np.where(weights[:, None] > 0, ratio, mean), weights


def _moments(encoded, targets):
    """Return the weighted means and variances of the targets, 1 for a constant one."""
    n_columns = encoded.shape[1] - isinstance(targets, Numbers)
    weights = targets.weight(encoded)
    values = encoded[:, :n_columns] / weights[:, None]
    share = weights / weights.sum()
    mean = share @ values
    spread = share @ (values - mean) ** 2
    return mean, np.where(spread > 0, spread, 1.0)
