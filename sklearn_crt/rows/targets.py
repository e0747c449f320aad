"""Checks of targets and sample weights, for estimators that take batches."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from .._array import (
    Array,
    float_types,
    namespace_of,
    on_host,
    taken,
    to_host,
    to_namespace_of,
)
from .._compat import _check_sample_weight


def label_codes(estimator: Any, y: Array, first: bool, final: bool) -> Array:
    """Return the index of the class of each label; ``fit`` sets ``classes_``."""
    check_classification_targets(y)
    xp = namespace_of(y)
    if final:
        classes, codes = xp.unique_inverse(y)
        estimator.classes_ = to_host(classes)
        return xp.reshape(codes, y.shape)
    unknown = np.setdiff1d(to_host(xp.unique_values(y)), estimator.classes_)
    if unknown.size:
        raise ValueError(
            f"y has the labels {unknown.tolist()}, which are not among classes="
            f"{estimator.classes_.tolist()} of the first call to partial_fit."
        )
    classes = to_namespace_of(estimator.classes_, y)
    if not on_host(y):
        classes = xp.astype(classes, y.dtype)
    return xp.searchsorted(classes, y)


def number_columns(estimator: Any, y: Array, first: bool, final: bool) -> Array:
    """Return a copy of numbers in the widest type, (n_rows, n_outputs)."""
    y = namespace_of(y).astype(y, float_types(y)[0])
    assert_all_finite(y, input_name="y")  # None became nan just now
    if first:
        estimator._one_output = y.ndim == 1
        estimator._n_outputs = 1 if y.ndim == 1 else y.shape[1]
    y = y if y.ndim > 1 else y[:, None]
    if y.shape[1] != estimator._n_outputs:
        raise ValueError(
            f"y has {y.shape[1]} outputs, but the first batch had "
            f"{estimator._n_outputs}."
        )
    return y


def check_same_classes(one: Any, other: Any) -> None:
    """Raise ValueError where two classifiers do not know the same labels."""
    if not np.array_equal(one.classes_, other.classes_):
        raise ValueError(
            f"merge needs the same classes, got {one.classes_.tolist()} and "
            f"{other.classes_.tolist()}. Give classes= to the first partial_fit."
        )


def check_same_outputs(one: Any, other: Any) -> None:
    """Raise ValueError where two regressors do not have as many outputs."""
    if other._n_outputs != one._n_outputs:
        raise ValueError(
            f"merge needs as many outputs on both sides, got {one._n_outputs} and "
            f"{other._n_outputs}."
        )


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
