"""Kernel sums of rows that stay on a device, through a feature map.

Sums of a chunk of rows, one row of numbers a column of the features, come to the host
and are merged there; for queries they go to the device once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._arrays import Array, moved, namespace_of, to_host, transposed
from .._compat import array_device
from .._dispatch import float_types
from ..maps import FeatureMap, chunks_on_device, iter_on_device
from ..rows import Scratch
from ._sums import FeatureSums
from ._targets import Numbers, OneHot


def features_of(
    source: Any, X: Array, *, key: bool
) -> Iterator[tuple[slice, Array | None, Array | None]]:
    """Yield rows and their features, as mantissas and exponents, chunk by chunk.

    Parameters
    ----------
    source : FeatureMap, transformer or None
        None where the rows are features already.
    X : array of shape (n_samples, n_features)
        Raw rows.
    key : bool
        Whether to take the map of the key side.

    Yields
    ------
    rows : slice
        The rows of the chunk.
    mantissa, exponent : array or None
        Beside X.

    Raises
    ------
    TypeError
        If a transformer returns no arrays of the library of X.
    """
    if isinstance(source, FeatureMap):
        yield from iter_on_device(source, X, key=key)
        return
    for rows in chunks_on_device(*X.shape):
        chunk = X[rows, :] if source is None else source.transform(X[rows, :])
        if type(chunk) is not type(X):
            raise TypeError(
                f"{type(source).__name__} returns {type(chunk).__name__} for rows that "
                f"are {type(X).__name__} on {array_device(X)}; take a sampler of "
                "sklearn_crt or a transformer with array API support."
            )
        yield rows, chunk, None


def add_on_device(
    sums: FeatureSums, mantissa: Array | None, exponent: Array | None, targets: Array
) -> None:
    """Add rows to sums: features (n, m) as mantissa and exponent, targets (n, k).

    Parameters
    ----------
    sums : FeatureSums
        Changed.
    mantissa, exponent : array or None
        Features.
    targets : array of shape (n, k)
        In whose type products are taken.
    """
    xp, shift = namespace_of(targets), np.zeros(())
    if mantissa is not None and not (sums.signed.ndim and sums.signed.all()):
        sums.signed = sums.signed | to_host(xp.min(mantissa, axis=0) < 0)
    features = mantissa
    if exponent is not None:
        peak = xp.max(exponent, axis=0)
        features = xp.exp(exponent - _finite(peak))
        features = features if mantissa is None else mantissa * features
        shift = to_host(peak).astype(np.float64)
    product = transposed(xp.astype(features, targets.dtype)) @ targets
    sums._merge(shift, to_host(product).astype(np.float64))


class DeviceSums:
    """Sums for queries on a device.

    Parameters
    ----------
    sums : FeatureSums
        Of the training rows.
    like : array
        Whose library, device and type the exponents have.
    wide : array
        Of the type in which products are taken.
    """

    def __init__(self, sums: FeatureSums, like: Array, wide: Array):
        self.sums = sums.sums
        self._shift = moved(np.atleast_2d(sums.shift), like)
        self._sums = moved(sums.sums, wide)

    def average(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        further: np.ndarray | None = None,
        scratch: Scratch | None = None,
    ) -> tuple[Array, Array]:
        """Return what ``FeatureSums.average`` does, on the device, without scratch."""
        xp = namespace_of(self._sums)
        total = _finite(self._shift) if exponent is None else exponent + self._shift
        log_scale = _finite(xp.max(total, axis=1, keepdims=True))
        weights = xp.exp(total - log_scale)
        if mantissa is not None:
            weights = mantissa * weights
            ones = xp.ones_like(mantissa[:, :1])
            log_scale = log_scale * ones  # one a row
        scores = xp.astype(weights, self._sums.dtype) @ self._sums
        if further is not None:
            more = weights @ moved(further, weights)
            scores = xp.concat([scores, xp.astype(more, scores.dtype)], axis=1)
        return scores, xp.astype(log_scale, scores.dtype)


def sums_on_device(
    sums: FeatureSums, targets: OneHot | Numbers, X: Array
) -> DeviceSums:
    """Return sums for queries on the device of X.

    Parameters
    ----------
    sums : FeatureSums
        Of the training rows.
    targets : OneHot or Numbers
        Numbers far from zero need products in the widest type.
    X : array
        Queries.

    Returns
    -------
    sums : DeviceSums
        With copies.
    """
    dtype = float_types(X)[0] if isinstance(targets, Numbers) else X.dtype
    wide = namespace_of(X).empty((0,), dtype=dtype, device=array_device(X))
    return DeviceSums(sums, X, wide)


def _finite(shift: Array) -> Array:
    """Replace -inf, the shift of a column that holds only zeros, by 0."""
    xp = namespace_of(shift)
    return xp.where(xp.abs(shift) < math.inf, shift, xp.zeros_like(shift))
