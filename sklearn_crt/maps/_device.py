"""Features of rows that stay on a device, in large chunks."""

from __future__ import annotations

from collections.abc import Iterator

from .._arrays import Array, namespace_of
from .._compat import array_device, is_writeable_array
from ._base import FeatureMap
from ._ported import PortedMap, port

CHUNK_BYTES = 2**27  # of features: a launch costs what a MiB costs
_ITEM_BYTES = 8

Chunk = tuple[slice, Array | None, Array | None]


def chunks_on_device(n_rows: int, width: int) -> list[slice]:
    """Return slices of rows whose arrays take about 128 MiB each.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    width : int
        Numbers a row.

    Returns
    -------
    chunks : list of slice
        At least one.
    """
    size = max(1, CHUNK_BYTES // (_ITEM_BYTES * max(1, width)))
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


def ported(feature_map: FeatureMap, like: Array) -> PortedMap:
    """Return a map where the rows are, copied there once.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    like : array
        Rows.

    Returns
    -------
    ported : PortedMap
        With tables in the type of the rows.

    Raises
    ------
    TypeError
        If the map has no form for other libraries.
    """
    place = namespace_of(like).__name__, str(array_device(like)), str(like.dtype)
    known = feature_map.__dict__.setdefault("_ported", {})
    if place not in known:
        known[place] = port(feature_map, like)
    return known[place]


def iter_on_device(
    feature_map: FeatureMap, X: Array, *, key: bool = False
) -> Iterator[Chunk]:
    """Yield the log features of rows on a device, chunk by chunk.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X : array of shape (n_samples, n_features)
        Raw rows.
    key : bool, default=False
        Whether to take the map of the key side.

    Yields
    ------
    rows : slice
        The rows of the chunk.
    mantissa, exponent : array or None
        As ``FeatureMap.log_features`` returns them, in the library of X.
    """
    moved = ported(feature_map, X)
    for rows in chunks_on_device(X.shape[0], feature_map.n_components):
        yield rows, *moved.log_features(X[rows, :], key=key)


def features_on_device(
    feature_map: FeatureMap, X: Array, *, key: bool = False
) -> tuple[Array, int, bool]:
    """Return the features of rows on a device.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X : array of shape (n_samples, n_features)
        Raw rows.
    key : bool, default=False
        Whether to take the map of the key side.

    Returns
    -------
    features : array of shape (n_samples, n_components)
        Beside X.
    n_zero : int
        Number of rows whose features are all zero.
    overflows : bool
        Whether a feature is infinite.
    """
    xp, parts, peaks = namespace_of(X), [], []
    shape = X.shape[0], feature_map.n_components
    chunks = chunks_on_device(*shape)
    whole = None
    if len(chunks) > 1 and is_writeable_array(X):
        whole = xp.empty(shape, dtype=X.dtype, device=array_device(X))
    for rows, mantissa, exponent in iter_on_device(feature_map, X, key=key):
        part = _features(mantissa, exponent)
        if exponent is not None:
            size = part if mantissa is None else xp.abs(part)
            peaks.append(xp.max(size, axis=1))
        if whole is None:
            parts.append(part)
        else:
            whole[rows, :] = part
    if whole is None:
        whole = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    if not peaks:
        return whole, 0, False
    peak = xp.concat(peaks, axis=0)  # the host waits here, once
    zero, infinite = xp.sum(xp.astype(peak == 0, xp.int32)), xp.any(xp.isinf(peak))
    return whole, int(zero), bool(infinite)


def _features(mantissa: Array | None, exponent: Array | None) -> Array:
    if exponent is None:
        return mantissa
    xp = namespace_of(exponent)
    if mantissa is None:
        return xp.exp(exponent)
    features = mantissa * xp.exp(exponent)
    if exponent.shape[-1] == 1:
        return features
    # zero times infinity is zero
    return xp.where(mantissa == 0, xp.zeros_like(features), features)
