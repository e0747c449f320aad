"""Weights of rows: checked, and without the rows that weigh nothing."""

from __future__ import annotations

from typing import Any

from .._array import Array, namespace_of, taken, to_host, to_namespace_of
from .._compat import _check_sample_weight


def weighted_rows(X: Any, y: Array, sample_weight: Any) -> tuple[Any, Array, Array]:
    """Return rows of positive weight, their targets, and the weights: 1 if None."""
    weights = _check_sample_weight(
        to_namespace_of(sample_weight, X),
        X,
        dtype=X.dtype,
        ensure_non_negative=True,
        copy=True,
    )
    _check_size(weights)
    xp = namespace_of(weights)
    if not xp.any(weights > 0):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    if not xp.all(weights > 0):
        keep = to_host(xp.nonzero(weights)[0])
        X, y, weights = (taken(array, keep) for array in (X, y, weights))
    return X, y, weights


def _check_size(weights: Array) -> None:
    """Raise ValueError where products and sums of weights could leave their type."""
    xp, limits = namespace_of(weights), namespace_of(weights).finfo(weights.dtype)
    least, most = float(limits.smallest_normal) ** 0.4, float(limits.max) ** 0.4
    outside = (weights > most) | ((weights > 0) & (weights < least))
    if xp.any(outside):
        raise ValueError(
            f"Sample weights must be 0 or between {least:.0e} and {most:.0e}, so that "
            f"their sums are numbers; got {float(weights[outside][0]):.3g}. Divide "
            "them all by a number of their size."
        )
