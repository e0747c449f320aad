"""Kernel sums over all the training rows, on a device."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from .._arrays import Array, namespace_of, taken, to_host, transposed
from ..maps import GaussianRadial, LaplacianRadial, MaternRadial, port_frame
from ..rows import Frame
from ._sums import KernelSums
from ._targets import Numbers, OneHot

_QUERY_ROWS, _KEY_ROWS = 2**11, 2**13  # whose pairs take 128 MiB in float64
_PAIR_ROWS = 2**6  # queries whose differences to all keys are taken at a time


def exact_on_device(
    kernel: Any,
    frame: Frame,
    parts: tuple[tuple[Array, Array, Array], ...],
    targets: OneHot | Numbers,
    X: Array,
) -> Iterator[tuple[slice, KernelSums]]:
    """Yield rows and their kernel sums, in which nothing cancels.

    Parameters
    ----------
    kernel : RadialKernel or callable
        A callable takes and returns arrays of the library of X.
    frame : Frame
        Of all rows.
    parts : tuple of (rows, targets, weights)
        Training rows, beside X.
    targets : OneHot or Numbers
        What averages are taken of.
    X : array of shape (n_samples, n_features)
        Queries.

    Yields
    ------
    rows : slice
        Some of the queries.
    sums : KernelSums
        Theirs.

    Raises
    ------
    TypeError
        If the kernel has no form for other libraries.
    """
    xp, moved = namespace_of(X), port_frame(frame, X)
    keys = []
    for rows, y, weights in parts:
        encoded = targets.encode(y, weights, X.dtype)
        rows = moved.rows(xp.astype(rows, X.dtype))[0]
        for block in gen_batches(rows.shape[0], _KEY_ROWS):
            keys.append((rows[block, :], encoded[block, :]))
    for part in gen_batches(X.shape[0], _QUERY_ROWS):
        queries = moved.rows(X[part, :])[0]
        scores: Array = 0.0
        log_scale: Array = None
        for block, encoded in keys:
            logs = log_kernel(kernel, queries, block)
            peak = xp.max(logs, axis=1, keepdims=True)
            total = peak if log_scale is None else xp.maximum(peak, log_scale)
            shift = _finite(total)
            sums = xp.exp(logs - shift)
            sums = xp.astype(sums, encoded.dtype) @ encoded
            if log_scale is not None:
                before = xp.astype(xp.exp(log_scale - shift), sums.dtype)
                sums = sums + scores * before
            scores, log_scale = sums, total
        yield part, KernelSums(scores, _finite(log_scale))


def _finite(logs: Array) -> Array:
    """Replace -inf, the log of no kernel at all, by 0."""
    xp = namespace_of(logs)
    return xp.where(xp.abs(logs) < math.inf, logs, xp.zeros_like(logs))


def log_kernel(kernel: Any, queries: Array, keys: Array) -> Array:
    """Return the log of a kernel of all pairs.

    Parameters
    ----------
    kernel : RadialKernel or callable
        The kernel.
    queries, keys : array of shape (n, n_features) and (m, n_features)
        Rows at unit bandwidth.

    Returns
    -------
    logs : array of shape (n, m)
        Beside the rows.

    Raises
    ------
    TypeError
        If the kernel has no form for other libraries.
    """
    xp = namespace_of(queries)
    nu = getattr(kernel, "nu", None)
    if isinstance(kernel, GaussianRadial) or nu == math.inf:
        return -0.5 * sq_distances(queries, keys)
    if isinstance(kernel, LaplacianRadial) or nu == 0.5:
        return -xp.sqrt(sq_distances(queries, keys))
    if isinstance(kernel, MaternRadial):
        if not float(kernel.nu + 0.5).is_integer() or kernel.nu > 25:
            raise TypeError(
                f"The Matern kernel with nu={kernel.nu} needs a Bessel function, which "
                "other array libraries have not; take nu = 0.5, 1.5, ..., 24.5 or "
                "infinity, or give rows in the memory of the host."
            )
        t = math.sqrt(2 * kernel.nu) * xp.sqrt(sq_distances(queries, keys))
        return _log_matern(t, kernel.nu)
    return xp.log(kernel(queries, keys))


def _log_matern(t: Array, nu: float) -> Array:
    """Return the log for half-integer nu, by the recurrence of the Bessel functions.

    It is log(g) - t for g = 1 + b, where b, the sum of the powers of t, keeps the
    digits that 1 would take away.
    """
    previous, rest = 0.0 * t, t  # less 1 each
    order = 1.5
    while order < nu:
        step = t * t * (1 + previous) / (4 * order * (order - 1))
        previous, rest = rest, rest + step
        order += 1
    return namespace_of(t).log1p(rest) - t


def sq_distances(queries: Array, keys: Array) -> Array:
    """Return the squared distances of all pairs.

    Those of close pairs are taken from the differences of the rows: of ``|x|^2 + |y|^2
    - 2 x.y`` half of the digits would be lost there.

    Parameters
    ----------
    queries, keys : array of shape (n, n_features) and (m, n_features)
        Rows.

    Returns
    -------
    squares : array of shape (n, m)
        Not negative.
    """
    xp = namespace_of(queries)
    own, other = (xp.sum(r * r, axis=1, keepdims=True) for r in (queries, keys))
    squares = own + transposed(other) - 2 * (queries @ transposed(keys))
    share = math.sqrt(float(xp.finfo(queries.dtype).eps))
    close = xp.any(squares < share * (own + xp.max(other)), axis=1)
    mend = np.flatnonzero(to_host(close))  # rows with a close pair
    if mend.size == 0:
        return squares
    blocks = []
    for i in range(0, mend.size, _PAIR_ROWS):
        rows = taken(queries, mend[i : i + _PAIR_ROWS])
        gaps = rows[:, None, :] - keys[None, :, :]
        blocks.append(xp.sum(gaps * gaps, axis=2))
    rest = np.setdiff1d(np.arange(queries.shape[0]), mend)
    order = np.argsort(np.concatenate([rest, mend]))
    return taken(xp.concat([taken(squares, rest), *blocks]), order)
