"""Which features a feature_map argument stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._arrays import Array, namespace_of
from ..maps import FeatureMap, PortedMap, port, stack_maps

_RELU_FLOOR = 1e-3  # keeps denominators positive


def elu_plus_one(rows: Array) -> Array:
    """Return x + 1 where x > 0 and exp(x) elsewhere.

    Parameters
    ----------
    rows : array
        Any shape.

    Returns
    -------
    features : array
        Positive, of the same shape.
    """
    xp = namespace_of(rows)
    negative = xp.where(rows > 0, xp.zeros_like(rows), rows)
    return xp.where(rows > 0, rows + 1, xp.exp(negative))


def _elu_of_minus(rows):
    return elu_plus_one(-rows)


def _relu(rows):
    xp = namespace_of(rows)
    return xp.where(rows > 0, rows, xp.zeros_like(rows)) + _RELU_FLOOR


_FUNCTIONS = {"elu+1": elu_plus_one, "elu(-)+1": _elu_of_minus, "relu": _relu}
DETERMINISTIC = tuple(_FUNCTIONS)


@dataclass(frozen=True, eq=False)
class DeterministicMap(PortedMap):
    """Positive features without randomness, of the raw rows, one a coordinate.

    They are no estimate of softmax attention, but an attention of their own.

    Parameters
    ----------
    name : {"elu+1", "elu(-)+1", "relu"}
        The function of a coordinate u: elu(u) + 1, elu(-u) + 1 or max(u, 0) + 0.001.
    """

    name: str

    is_positive = True

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        return _FUNCTIONS[self.name](rows), None


def resolve(feature_map: Any, like: Array) -> PortedMap | list[PortedMap]:
    """Return what a ``feature_map`` argument stands for, in the library of an array.

    Parameters
    ----------
    feature_map : fitted sampler, FeatureMap, PortedMap, str, or list of these
        As in :func:`~sklearn_crt.attention.linear_attention`.
    like : array of shape (..., n_rows, n_features)
        Queries or keys.

    Returns
    -------
    ported : PortedMap or list of PortedMap
        A list where the maps of the heads are of several kinds.

    Raises
    ------
    TypeError, ValueError
        If it is none of these, or does not fit the rows.
    """
    if isinstance(feature_map, Sequence) and not isinstance(feature_map, str):
        return _resolve_heads(feature_map, like)
    if isinstance(feature_map, PortedMap):
        return feature_map
    if isinstance(feature_map, str):
        if feature_map not in _FUNCTIONS:
            raise ValueError(
                f"feature_map={feature_map!r} is none of the deterministic maps "
                f"{sorted(_FUNCTIONS)}; random features are given as a fitted sampler, "
                "such as OPRFSampler(kernel='softmax').fit(...)."
            )
        return DeterministicMap(feature_map)
    if hasattr(feature_map, "_make_map"):
        check_is_fitted(feature_map)
        feature_map = feature_map.map_
    if not isinstance(feature_map, FeatureMap):
        raise TypeError(
            "feature_map is a fitted sampler, its map_, one of the names "
            f"{sorted(_FUNCTIONS)}, or a list of these with one a head; got "
            f"{type(feature_map).__name__}."
        )
    return port(_at_scale(feature_map, like.shape[-1]), like)


def _at_scale(feature_map, d):
    """Return the map with the sigma of scaled scores, q.k / sqrt(d)."""
    gaussian = getattr(feature_map, "gaussian", getattr(feature_map, "factor", None))
    if gaussian is None or not gaussian.softmax:
        raise ValueError(
            "feature_map must estimate exp(q.k): with the Gaussian or another kernel a "
            "factor of each key would be missing. Fit a sampler that has "
            "kernel='softmax'."
        )
    if np.ndim(feature_map.frame.sigma) > 0:
        raise ValueError(
            "feature_map has one sigma a column, but the scores of attention are "
            "q.k / sqrt(d). Multiply the columns of q and k, and fit with one sigma."
        )
    n_features = getattr(feature_map, "n_features", d)
    if n_features != d:
        raise ValueError(
            f"feature_map was fitted on {n_features} features, but q and k have {d}."
        )
    return feature_map.rescaled(d**-0.25)


def _resolve_heads(maps, like):
    if like.ndim < 3 or like.shape[-3] != len(maps):
        heads = like.shape[-3] if like.ndim > 2 else "no axis of"
        raise ValueError(
            f"feature_map has {len(maps)} maps, one a head, but q and k have {heads} "
            "heads: give arrays of shape (..., n_heads, n_rows, n_features)."
        )
    ported: list[Any] = [resolve(feature_map, like) for feature_map in maps]
    stacked = stack_maps(ported)
    return ported if stacked is None else stacked
