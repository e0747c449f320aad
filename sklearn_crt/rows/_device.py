"""Statistics of rows that stay on a device; only these come to the host."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.utils import gen_batches

from .._arrays import Array, namespace_of, to_host
from .._compat import array_device
from .._dispatch import float_types

CHUNK_BYTES = 2**27  # of rows in flight: a launch costs what a MiB costs


def batches_on_device(
    X: Array, weights: Array | None, least: int
) -> Iterator[tuple[Array, Array | None]]:
    """Yield rows that take about 128 MiB in float64, and their weights.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows.
    weights : array of shape (n_rows,) or None
        Their weights.
    least : int
        Number of rows that a batch has at least.

    Yields
    ------
    X, weights : array or None
        Some of them.
    """
    n_rows = max(least, CHUNK_BYTES // (8 * X.shape[1]))
    for rows in gen_batches(X.shape[0], n_rows):
        yield X[rows, :], None if weights is None else weights[rows]


def moments_on_device(
    X: Array, weights: Array | None
) -> tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return what :class:`~sklearn_crt.rows.Moments` holds, of some rows.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows.
    weights : array of shape (n_rows,) or None
        Their weights.

    Returns
    -------
    weight : float
        Sum of the weights.
    mean, variance, mean_abs, minimum : ndarray of shape (n_features,), float64
        Of the columns, from sums in the widest type of the device.
    """
    X, share, weight = _shares(X, weights)
    d, xp = X.shape[1], namespace_of(X)
    if weight == 0:
        zero = np.zeros(d)
        return 0.0, zero, zero, zero, np.full(d, np.inf)
    mean = xp.matmul(share, X)
    variance = xp.matmul(share, xp.square(X - mean))
    mean_abs = xp.matmul(share, xp.abs(X))
    counted = xp.where(share[:, None] > 0, X, xp.full_like(X, np.inf))
    vectors = xp.stack([mean, variance, mean_abs, xp.min(counted, axis=0)])
    return weight, *to_host(vectors).astype(np.float64)


def covariance_on_device(
    X: Array, weights: Array | None
) -> tuple[float, np.ndarray, np.ndarray]:
    """Return what ``Covariance`` holds, of some rows.

    Parameters
    ----------
    X : array of shape (n_rows, n_features)
        Rows.
    weights : array of shape (n_rows,) or None
        Their weights.

    Returns
    -------
    weight : float
        Sum of the weights.
    mean : ndarray of shape (n_features,)
        Weighted average of the rows.
    matrix : ndarray of shape (n_features, n_features)
        Weighted average of (x - mean)(x - mean)'.
    """
    X, share, weight = _shares(X, weights)
    d, xp = X.shape[1], namespace_of(X)
    if weight == 0:
        return 0.0, np.zeros(d), np.zeros((d, d))
    mean = xp.matmul(share, X)
    centred = (X - mean) * xp.sqrt(share)[:, None]
    matrix = xp.matmul(xp.matrix_transpose(centred), centred)
    mean, matrix = (to_host(part).astype(np.float64) for part in (mean, matrix))
    return weight, mean, matrix


def _shares(X: Array, weights: Array | None) -> tuple[Array, Array, float]:
    """Return rows in the widest type, shares of the weight, and the weight."""
    xp, wide = namespace_of(X), float_types(X)[0]
    n_rows, X = X.shape[0], xp.astype(X, wide)
    if weights is None:
        share = xp.full((n_rows,), 1 / n_rows, dtype=wide, device=array_device(X))
        return X, share, float(n_rows)
    weights = xp.astype(weights, wide)
    weight = float(xp.sum(weights))
    return X, weights / weight if weight else weights, weight
