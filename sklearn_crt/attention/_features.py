"""Validation of inputs, resolution of ``feature_map`` arguments, and log features."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..arrays.loops import LogSum, log_sum, nan_where_not_finite
from ..arrays.namespaces import Array, constant, namespace_of, transposed
from ..frequencies import Affine, Frequencies
from ..maps import FeatureMap
from ..maps.base import like_tuple
from ..rows import Frame, Inputs

_RELU_FLOOR = 1e-3  # keeps denominators positive


def _elu_plus_one(rows):
    """Return the logs of x + 1 where x > 0 and of exp(x) elsewhere."""
    # in log space, because products of these features may underflow in float32
    xp = namespace_of(rows)
    positive = xp.where(rows > 0, rows, xp.zeros_like(rows))
    return None, xp.where(rows > 0, xp.log1p(positive), rows)


def _relu(rows):
    xp = namespace_of(rows)
    return xp.where(rows > 0, rows, xp.zeros_like(rows)) + _RELU_FLOOR, None


_FUNCTIONS = {
    "elu+1": _elu_plus_one,
    "elu(-)+1": lambda rows: _elu_plus_one(-rows),
    "relu": _relu,
}
DETERMINISTIC = tuple(_FUNCTIONS)


class DeterministicMap:
    """Deterministic positive features, each a function of one column of the rows."""

    is_positive = True
    n_components = 0  # stands for the number of columns of the rows
    frame = Frame()

    def __init__(self, name: str):
        self.name = name

    def log_features(self, rows: Inputs, *, key: bool = False) -> tuple[Any, Any]:
        """Return the features as mantissa and exponent."""
        return _FUNCTIONS[self.name](rows.dense)

    def frequency_index(self) -> None:
        """Return None, because there are no frequencies."""


Map = FeatureMap | DeterministicMap


class Features(NamedTuple):
    """Features of rows, represented as mantissa * exp(exponent)."""

    mantissa: Array | None  # (..., n_rows, n_components)
    exponent: Array  # (..., n_rows, n_components) or (..., n_rows, 1)

    @classmethod
    def of(
        cls,
        feature_map: Map,
        rows: Array,
        *,
        key: bool = False,
        bias: Array | None = None,
    ) -> Features:
        """Compute the features of rows, multiplied by exp(bias) if a bias is given."""
        lost = nan_where_not_finite(rows)
        unit = feature_map.frame.rows(rows if lost is None else rows + lost)
        mantissa, exponent = feature_map.log_features(unit, key=key)
        if exponent is None:
            exponent = constant((1,) * (rows.ndim - 2) + (rows.shape[-2], 1), 0.0, rows)
        # exponents with several columns depend on the rows, so they are already NaN
        if lost is not None and exponent.shape[-1] == 1:
            exponent = exponent + lost
        return cls(mantissa, exponent if bias is None else exponent + bias)

    def map(self, function: Callable[[Array], Array]) -> Features:
        """Return the features with a function applied to both arrays."""
        mantissa = None if self.mantissa is None else function(self.mantissa)
        return Features(mantissa, function(self.exponent))

    def sum_over_rows(self, values: Array) -> LogSum:
        """Return the sums over keys of features times values, (..., m, k)."""
        turned = self.map(transposed)
        return log_sum(turned.exponent, values, turned.mantissa)

    def times(self, sums: LogSum) -> LogSum:
        """Return the products of these query features with sums over keys."""
        shift = transposed(sums.log_scale)
        return log_sum(self.exponent + shift, sums.values, self.mantissa)


def resolve(feature_map: Any, like: Array) -> Any:
    """Return the map for a ``feature_map`` argument and for rows like a given array.

    A list of one map per head becomes a single map with a leading axis for the heads if
    all maps have the same kind and size.
    """
    if isinstance(feature_map, Sequence) and not isinstance(feature_map, str):
        return _resolve_heads(feature_map, like)
    if isinstance(feature_map, DeterministicMap):
        return feature_map
    if isinstance(feature_map, str):
        if feature_map not in _FUNCTIONS:
            raise ValueError(
                f"feature_map={feature_map!r} must be one of the deterministic maps "
                f"{sorted(_FUNCTIONS)} or a fitted sampler, such as "
                "OPRFSampler(kernel='softmax').fit(...)."
            )
        return DeterministicMap(feature_map)
    if hasattr(feature_map, "_make_map"):
        check_is_fitted(feature_map)
        feature_map = feature_map.map_
    if not isinstance(feature_map, FeatureMap):
        raise TypeError(
            "feature_map must be a fitted sampler, its map_, one of the names "
            f"{sorted(_FUNCTIONS)}, or a list with one of these for each head, got "
            f"{type(feature_map).__name__}."
        )
    if vars(feature_map).get("is_resolved"):
        return feature_map
    scaled = _at_scale(feature_map, like.shape[-1]).to(like)
    resolved = copy.copy(scaled)
    frame, tables = scaled.frame.to(like), scaled.tables
    resolved.__dict__.update(frame=frame, tables=tables, is_resolved=True)
    return resolved


def _at_scale(feature_map, d):
    """Return the map with the sigma that corresponds to scores q.k / sqrt(d)."""
    gaussian = getattr(feature_map, "gaussian", getattr(feature_map, "factor", None))
    if gaussian is None or not gaussian.softmax:
        raise ValueError(
            "feature_map must estimate exp(q.k), but this map estimates another "
            "kernel, which weights the keys differently. Fit a sampler with "
            "kernel='softmax'."
        )
    if np.ndim(feature_map.frame.sigma) > 0:
        raise ValueError(
            "feature_map has one sigma per column, but attention requires a single "
            "number. Multiply the columns of q and k by these numbers, and fit the "
            "sampler with one sigma."
        )
    n_features = getattr(feature_map, "n_features", d)
    if n_features != d:
        raise ValueError(
            f"feature_map was fitted on {n_features} features, but q and k have {d}."
        )
    return feature_map.rescaled(d**-0.25)


def _resolve_heads(maps: Sequence[Any], like: Array) -> Any:
    if like.ndim < 3 or like.shape[-3] != len(maps):
        heads = like.shape[-3] if like.ndim > 2 else "no axis of"
        raise ValueError(
            f"feature_map has {len(maps)} maps, one for each head, but q and k have "
            f"{heads} heads. Pass arrays of shape (..., n_heads, n_rows, n_features)."
        )
    resolved = [resolve(feature_map, like) for feature_map in maps]
    try:
        return stack_heads(resolved, like)
    except ValueError:  # the maps differ in kind or size
        return resolved


def stack_heads(maps: Sequence[Any], like: Array) -> Any:
    """Combine the maps of heads into one with a leading axis, or raise ValueError."""
    if isinstance(maps[0], DeterministicMap):
        if len({getattr(feature_map, "name", None) for feature_map in maps}) > 1:
            raise ValueError("maps of different kinds")
        return maps[0]

    def stacked(_, *values):
        if isinstance(values[0], float):
            arrays = [constant((1, 1), value, like) for value in values]
        else:  # centres within composed maps may be vectors
            arrays = [value if value.ndim > 1 else value[None, :] for value in values]
        if len({array.shape for array in arrays}) > 1:
            raise ValueError("maps of different sizes")
        return namespace_of(like).stack(arrays)

    return map_arrays(stacked, *maps)


def map_arrays(
    function: Callable[..., Any], *trees: Any, path: tuple[str, ...] = ()
) -> Any:
    """Apply a function to corresponding arrays of trees with the same structure.

    The function is called with the path of a leaf and the arrays at this leaf, or with
    the scales of affine forms if the scales differ. ValueError is raised if the trees
    differ in anything other than the values of their arrays and scales.
    """
    first = trees[0]
    if any(type(tree) is not type(first) for tree in trees):
        raise ValueError("maps of different kinds")
    if hasattr(first, "shape") and not isinstance(first, Inputs):
        return function("__".join(path), *trees)
    if isinstance(first, tuple):
        if len({len(tree) for tree in trees}) > 1:
            raise ValueError("maps of different lengths")
        nodes = enumerate(zip(*trees, strict=True))
        return like_tuple(
            first,
            [map_arrays(function, *node, path=(*path, str(i))) for i, node in nodes],
        )
    names = next((n for kind, n in _NODES if isinstance(first, kind)), None)
    if names == ("weights",) and "weights" not in vars(first):
        raise ValueError("frequencies that are not stored as a matrix")
    if names is None:
        if all(tree == first for tree in trees):
            return first
        if path[-1:] != ("scale",):
            raise ValueError("maps with different parameters")
        return function("__".join(path), *trees)  # scales of affine forms, one per head
    rebuilt = copy.copy(first)
    for name in names:
        values = (getattr(tree, name) for tree in trees)
        rebuilt.__dict__[name] = map_arrays(function, *values, path=(*path, name))
    for name in ("stacked", "_moved"):  # remove outdated caches
        rebuilt.__dict__.pop(name, None)
    return rebuilt


_NODES: list[tuple[type, tuple[str, ...]]] = [
    (FeatureMap, ("frame", "tables")),
    (Frame, ("sigma", "center")),
    (Affine, ("frequencies", "scale", "offsets")),
    (Frequencies, ("weights",)),
]


# ------------------------------------------------------------------------- checks
def check_rows(rows: Array, name: str) -> None:
    """Raise an error unless an array contains float32 or float64 rows."""
    # rows (..., n_rows, n_columns)
    namespace_of(rows)
    kind = str(rows.dtype)
    if "float32" not in kind and "float64" not in kind:
        raise TypeError(f"{name} must be float32 or float64, got {rows.dtype}.")
    if rows.ndim < 2 or 0 in rows.shape:
        raise ValueError(
            f"{name} must have shape (..., n_rows, n_columns), without empty axes; "
            f"got {tuple(rows.shape)}."
        )


def check_values(k: Array, v: Array) -> None:
    """Raise an error if the values do not match the keys."""
    # k (..., n_keys, d), v (..., n_keys, e)
    check_rows(v, "v")
    if v.dtype != k.dtype:
        raise TypeError(
            f"k and v must have the same dtype, got {k.dtype} and {v.dtype}."
        )
    if v.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"k and v must have equal numbers of rows, got {k.shape[-2]} and "
            f"{v.shape[-2]}."
        )


def check_attention_inputs(q: Array, k: Array, v: Array, causal: bool) -> None:
    """Raise an error if queries, keys and values do not match."""
    # q (..., n_queries, d), k (..., n_keys, d), v (..., n_keys, e)
    namespace_of(q, k, v)
    check_rows(q, "q")
    check_rows(k, "k")
    check_values(k, v)
    if q.dtype != k.dtype:
        raise TypeError(
            f"q and k must have the same dtype, got {q.dtype} and {k.dtype}."
        )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"q and k must have equal numbers of columns, got {q.shape[-1]} and "
            f"{k.shape[-1]}."
        )
    if causal and q.shape[-2] != k.shape[-2]:
        raise ValueError(
            "causal=True requires equal numbers of queries and keys, got "
            f"{q.shape[-2]} and {k.shape[-2]}. To continue after earlier tokens, use "
            "LinearAttentionState."
        )
