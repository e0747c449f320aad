"""How a map of maps calls its parts: their raw rows are its rows at unit bandwidth."""

from __future__ import annotations

import numpy as np

from ..rows import UnitRows
from ._base import FeatureMap, LogFeatures


def raw(rows: UnitRows) -> UnitRows:
    """Return rows at unit bandwidth as the raw rows of the parts of a map.

    Parameters
    ----------
    rows : UnitRows
        Of the map.

    Returns
    -------
    rows : UnitRows
        The same rows, which had no centre.
    """
    return UnitRows(rows.matrix, scratch=rows.scratch)


def raw_pair(X: UnitRows, Y: UnitRows) -> tuple[UnitRows, UnitRows]:
    """Return two sets of rows as raw ones, one object where they are one.

    Parameters
    ----------
    X, Y : UnitRows
        Of the map.

    Returns
    -------
    queries, keys : UnitRows
        For the parts.
    """
    queries = raw(X)
    return queries, queries if Y is X else raw(Y)


def on_rows(part: FeatureMap, method: str, X: UnitRows, Y: UnitRows) -> np.ndarray:
    """Call a method of a part on pairs of its raw rows.

    Parameters
    ----------
    part : FeatureMap
        The part.
    method : {"kernel", "variance", "estimate"}
        Its method.
    X, Y : UnitRows
        Raw rows of the part.

    Returns
    -------
    values : ndarray of shape (n_X, n_Y)
        Of all pairs.
    """
    queries = part.frame.inside(X)
    keys = queries if Y is X else part.frame.inside(Y)
    return getattr(part, method)(queries, keys)


def log_features_of(part: FeatureMap, rows: UnitRows, key: bool) -> LogFeatures:
    """Return mantissa and exponent of a part for its raw rows.

    Parameters
    ----------
    part : FeatureMap
        The part.
    rows : UnitRows
        Its raw rows.
    key : bool
        Whether to take the map of the key side.

    Returns
    -------
    mantissa, exponent : ndarray or None
        As ``FeatureMap.log_features``.
    """
    return part.log_features(part.frame.inside(rows), key=key)


def write_features(
    part: FeatureMap,
    rows: UnitRows,
    out: np.ndarray,
    key: bool,
    log_factor: np.ndarray | None,
) -> None:
    """Write the features of a part times a factor for each row.

    Parameters
    ----------
    part : FeatureMap
        The part.
    rows : UnitRows
        Of the frame of the part.
    out : ndarray of shape (n_rows, n_components)
        Overwritten.
    key : bool
        Whether to take the map of the key side.
    log_factor : ndarray of shape (n_rows, 1) or None
        Logs of the factors; None for ones.
    """
    if log_factor is None:
        part.features(rows, out, key=key)
        return
    mantissa, exponent = part.log_features(rows, key=key, out=out)
    exponent = log_factor if exponent is None else exponent + log_factor
    if mantissa is None:
        np.exp(exponent, out=out)
    else:
        np.multiply(mantissa, np.exp(exponent), out=out)
