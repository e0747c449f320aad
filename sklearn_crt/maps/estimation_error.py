"""Errors of kernel estimates: their variances, and their typical relative size."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from ..frequencies import Antithetic, Coupling, Independent
from ..rows import Inputs
from .base import FeatureMap, like_tuple
from .radial_kernels import GaussianKernel

# number of pairs of rows whose variances are computed at once, to fit into the cache
_PAIRS = 2**18


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
