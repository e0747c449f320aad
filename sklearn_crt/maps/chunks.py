"""Compute features and variances in chunks."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from .._compat import array_device, is_writeable_array
from ..arrays.namespaces import joined, namespace_of, on_host, row_chunks
from ..arrays.threads import effective_n_threads, in_threads
from ..arrays.workspace import kept_workspace
from ..frequencies import Antithetic, Coupling, Independent
from ..rows import Inputs
from .base import FeatureMap, like_tuple
from .radial_kernels import GaussianKernel

# number of pairs of rows whose variances are computed at once, to fit into the cache
_PAIRS = 2**18


def transform(
    feature_map: FeatureMap, X: Any, *, key: bool = False, n_jobs: int | None = None
) -> tuple[Any, int, bool]:
    """Return features, the number of zero rows, and whether any feature overflowed."""
    feature_map = feature_map.to(X)
    if not on_host(X):
        return _transform_elsewhere(feature_map, X, key)
    out = np.empty((X.shape[0], feature_map.n_components), dtype=X.dtype)

    def fill(rows: slice) -> tuple[int, bool]:
        return _fill(feature_map, X[rows], out[rows], key)

    n_threads = effective_n_threads(n_jobs, *out.shape)
    n_zero, overflows = zip(*in_threads(fill, len(out), n_threads), strict=True)
    return out, sum(n_zero), any(overflows)


def _fill(
    feature_map: FeatureMap, X: Any, out: np.ndarray, key: bool
) -> tuple[int, bool]:
    """Write features to ``out``; return the last two results of ``transform``."""
    n_zero, overflows = 0, []
    counted = np.errstate(over="call", call=lambda *_: overflows.append(1))
    with counted, kept_workspace() as workspace:
        for rows in row_chunks(X, out.shape[1], in_place=True):
            chunk = out[rows]
            workspace.lend("features", chunk)
            unit = feature_map.frame.rows(X[rows], workspace)
            features = feature_map.features(unit, key=key)
            if features is not chunk:
                chunk[:] = features
            if not chunk[:, 0].all():
                suspects = chunk[chunk[:, 0] == 0]
                n_zero += int(np.sum(~suspects.any(axis=1)))
    return n_zero, bool(overflows)


def _transform_elsewhere(
    feature_map: FeatureMap, X: Any, key: bool
) -> tuple[Any, int, bool]:
    """Return the results of ``transform`` for rows on a device, in large chunks."""
    xp, parts, n_zero, overflow = namespace_of(X), [], 0, False
    shape = X.shape[0], feature_map.n_components
    chunks = list(row_chunks(X, shape[1]))
    whole = None
    if len(chunks) > 1 and is_writeable_array(X):
        whole = xp.empty(shape, dtype=X.dtype, device=array_device(X))
    peaks = []
    for rows in chunks:
        unit = feature_map.frame.rows(X[rows, ...])
        features = feature_map.features(unit, key=key)
        peaks.append(xp.max(xp.abs(features), axis=1))
        if whole is None:
            parts.append(features)
        else:
            whole[rows, :] = features
    peak = joined(peaks)  # this waits for the device, but only once
    n_zero = int(xp.count_nonzero(peak == 0))
    overflow = bool(xp.any(xp.isinf(peak)))
    return joined(parts) if whole is None else whole, n_zero, overflow


def relative_error(feature_map: FeatureMap, X: Inputs, Y: Inputs) -> float:
    """Return the median standard deviation of estimates, relative to the kernel.

    The variance is computed as if the frequencies were independent, which is fast. The
    result is divided by the root mean square of the kernel over the pairs.
    """
    plain = _uncoupled(feature_map)
    with np.errstate(all="ignore"):
        squares = np.mean(plain.kernel(X, Y) ** 2)
        return float(np.sqrt(np.median(plain.variance(X, Y)) / squares))


def _uncoupled(value: Any) -> Any:
    """Return a map, or a field of it, without its coupling and its softmax factors."""
    if isinstance(value, Coupling):
        return Antithetic(Independent()) if value.opposite else Independent()
    if isinstance(value, GaussianKernel):
        return GaussianKernel()
    if isinstance(value, tuple):
        return like_tuple(value, list(map(_uncoupled, value)))
    if isinstance(value, FeatureMap):
        names = [field.name for field in fields(value)]
        return replace(value, **{n: _uncoupled(getattr(value, n)) for n in names})
    return value


def variance_in_blocks(feature_map: FeatureMap, X: Inputs, Y: Inputs) -> np.ndarray:
    """Return the variances of all pairs, computed in blocks that fit into the cache."""
    n_rows, n_keys = X.shape[0], Y.shape[0]
    step = max(1, feature_map.block_factor * _PAIRS // n_keys)
    if step >= n_rows:
        return feature_map.variance(X, Y)
    variance = np.empty((n_rows, n_keys))
    for rows in gen_batches(n_rows, step):
        block = X.take(rows)
        variance[rows] = feature_map.variance(block, Y)
        if Y is X:  # on the diagonal, the distance must be exactly 0
            variance[rows, rows] = feature_map.variance(block, block)
    return variance
