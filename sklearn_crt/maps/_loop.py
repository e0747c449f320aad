"""Log features of a table, chunk by chunk: of one map, or along a path of sigmas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.utils import gen_batches

from ..rows import Frame, Rows, Scratch, UnitRows, row_chunks, width_of
from ._base import FeatureMap, LogFeatures

_LARGE = 2**25 - 2**16  # bytes: the C library learns from arrays below 2**25
_PAIRS = 2**18  # whose variances are taken at once: larger arrays cost more to make


def iter_log_features(
    feature_map: FeatureMap,
    X: Rows,
    *,
    key: bool = False,
    scratch: Scratch | None = None,
) -> Iterator[tuple[slice, np.ndarray | None, np.ndarray | None]]:
    """Yield the log features of the rows of a table, chunk by chunk.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Raw rows, float32 or float64.
    key : bool, default=False
        Whether to take the map of the key side.
    scratch : Scratch, default=None
        Memory for the features of a chunk, which are gone with the next one; where it
        is None each chunk has its own.

    Yields
    ------
    rows : slice
        The rows of the chunk.
    mantissa, exponent : ndarray or None
        As ``FeatureMap.log_features`` returns them.
    """
    feature_map = feature_map.to(X.dtype)
    for rows in _chunks(feature_map, X):
        part = feature_map.frame.rows(X[rows], scratch)
        out = _room(scratch, part, feature_map)
        yield rows, *feature_map.log_features(part, key=key, out=out)


def iter_path(
    path: Sequence[FeatureMap], X: Rows, *, key: bool = False
) -> Iterator[tuple[slice, Iterator[LogFeatures]]]:
    """Yield the log features of several maps, chunk by chunk.

    Maps that share their frequencies and their centre, and differ in one number sigma,
    share the product with the frequencies.

    Parameters
    ----------
    path : list of FeatureMap
        As many columns each, such as samplers' ``with_sigma`` make them.
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Raw rows, float32 or float64.
    key : bool, default=False
        Whether to take the map of the key side.

    Yields
    ------
    rows : slice
        The rows of the chunk.
    features : iterator
        Mantissa and exponent for each map of the path.
    """
    path = [member.to(X.dtype) for member in path]
    for rows in _chunks(path[0], X):
        yield rows, _path_features(path, X[rows], key)


def variance_in_blocks(feature_map: FeatureMap, X: UnitRows, Y: UnitRows) -> np.ndarray:
    """Return the variance of all pairs, from blocks of pairs that fit the cache.

    Parameters
    ----------
    feature_map : FeatureMap
        The map.
    X, Y : UnitRows
        Rows of the two sides, in float64; may be one object.

    Returns
    -------
    variance : ndarray of shape (n_X, n_Y)
        Of all pairs.
    """
    n_rows, n_keys = X.shape[0], Y.shape[0]
    step = max(1, feature_map.block_factor * _PAIRS // n_keys)
    if step >= n_rows:
        return feature_map.variance(X, Y)
    _keep_freed_memory()
    variance = np.empty((n_rows, n_keys))
    for rows in gen_batches(n_rows, step):
        block = X.take(rows)
        variance[rows] = feature_map.variance(block, Y)
        if Y is X:  # of rows and themselves, whose distances are exactly 0
            variance[rows, rows] = feature_map.variance(block, block)
    return variance


def _keep_freed_memory() -> None:
    """Let the C library keep what the arrays of a block free for those of the next.

    On Linux it does so for arrays as large as one that was freed before; the first
    call took twice as long where each array was new memory of the system.
    """
    np.empty(_LARGE, np.int8)  # not written to, so it takes no memory


def _path_features(
    path: Sequence[FeatureMap], X: Rows, key: bool
) -> Iterator[LogFeatures]:
    units = {}  # rows at sigma = 1, about each centre
    for member in path:
        frame = member.frame
        if np.ndim(frame.sigma) > 0:
            rows = frame.rows(X)
        else:
            center = frame.center
            place = None if center is None else center.tobytes()
            if place not in units:
                units[place] = Frame(1.0, center).rows(X)
            rows = units[place].scaled(frame.sigma)  # type: ignore[arg-type]  # a number
        yield member.log_features(rows, key=key)


def _room(
    scratch: Scratch | None, rows: UnitRows, feature_map: FeatureMap
) -> np.ndarray | None:
    if scratch is None:
        return None
    shape = rows.shape[0], feature_map.n_components
    return scratch.array("features", shape, rows.dtype)


def _chunks(feature_map: FeatureMap, X: Rows) -> Iterator[slice]:
    width = width_of(X, feature_map.n_components)
    return row_chunks(X.shape[0], width, X.dtype.itemsize)
