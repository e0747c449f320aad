"""Validation of targets and sample weights for all estimators.

Estimators pass y through ``plain_targets`` before scikit-learn validates it. After
that, ``label_codes`` converts labels to integer codes, ``number_columns`` converts
numbers to columns of floats, and ``weighted_rows`` drops the rows of weight 0.
"""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from .._compat import _check_sample_weight
from ..arrays.namespaces import (
    Array,
    float_types,
    is_foreign,
    namespace_of,
    on_host,
    taken,
    to_host,
    to_namespace_of,
)
from ..arrays.validation import refuse_dates_and_masks

_MOST_LABELS = 100  # integers with more distinct values are treated as numbers
# If weights and targets stay within two fifths of the exponent range of their
# floating-point dtype, neither products of two weights nor squares of targets overflow
# or underflow, even when summed over rows. The same holds for squares of targets times
# weights if these products stay within nine tenths of the range.
_RANGE, _RANGE_OF_PRODUCTS = 0.4, 0.9
_DATES = datetime.date, datetime.time, datetime.timedelta
_NUMPY_DATES = np.datetime64, np.timedelta64
_MISSING = "NAType", "NaTType"  # type names of missing values in pandas


# ----------------------------------------------------------------------------- targets
def plain_targets(y: Any) -> Any:
    """Return targets as a NumPy array of booleans, integers, floats or strings.

    Nullable, Arrow-backed and categorical columns and arrays of objects are converted
    to the arrays that NumPy would create from the same values. Under
    ``array_api_dispatch=True``, arrays of other libraries are returned unchanged.
    """
    if y is None or issparse(y) or is_foreign(y):
        return y
    refuse_dates_and_masks(y, "y")
    # the memory layout is fixed, so that the type of y does not affect rounding in
    # products
    values = np.asarray(y, order="C")
    refuse_dates_and_masks(values, "y")  # y may be a list of dates
    return _from_objects(values) if values.dtype.kind == "O" else values


def _from_objects(values: np.ndarray) -> np.ndarray:
    """Convert objects to booleans, integers or floats; strings remain objects."""
    flat = values.ravel().tolist()
    kinds: dict[str, Any] = {}  # maps each kind of value to an example
    for kind, value in {type(value): value for value in flat}.items():
        kinds.setdefault(kind_of(kind), value)
    if "date" in kinds:
        refuse_dates_and_masks(np.empty(0, "M8[D]"), "y")
    if "other" in kinds:
        raise ValueError(
            f"y has values of type {type(kinds['other']).__name__}, such as "
            f"{kinds['other']!r}. Pass labels as strings, integers or booleans, and "
            "numbers as floats or integers."
        )
    if "string" in kinds:
        others = [value for value in flat if not isinstance(value, (str, bytes))]
        given = [value for value in others if not is_missing(value)]
        if given:
            raise ValueError(
                "Mix of label input types (string and number) in y: among them are "
                f"{kinds['string']!r} and {given[0]!r}. Convert all labels to one "
                "type, for instance with y.astype(str)."
            )
        if others:
            raise ValueError(
                "y has missing values (None, NaN or NA) among strings. Drop these "
                "rows, or fill in a label for them."
            )
        return values
    if "missing" in kinds:  # scikit-learn's validation will report that y contains NaN
        flat = [np.nan if is_missing(value) else value for value in flat]
        return np.array(flat, dtype=np.float64).reshape(values.shape)
    if kinds.keys() == {"boolean"}:
        return values.astype(bool)
    if "number" not in kinds:
        try:
            return values.astype(np.int64)
        except OverflowError:
            pass  # Python integers can be arbitrarily large
    return values.astype(np.float64)


def kind_of(kind: type) -> str:
    """Return the kind of target that values of a Python type represent."""
    if kind is type(None) or kind.__name__ in _MISSING:
        return "missing"
    if issubclass(kind, (*_DATES, *_NUMPY_DATES)) or kind.__name__ == "Period":
        return "date"
    if issubclass(kind, (str, bytes)):
        return "string"
    if issubclass(kind, (bool, np.bool_)):
        return "boolean"
    if issubclass(kind, Integral):
        return "integer"
    return "number" if issubclass(kind, (Real, Decimal)) else "other"


def is_missing(value: Any) -> bool:
    """Return whether an object represents a missing value."""
    if value is None or type(value).__name__ in _MISSING:
        return True
    return isinstance(value, float) and value != value


def are_labels(y: np.ndarray) -> bool:
    """Return whether plain targets are labels, for estimators that also take numbers.

    A column of strings, booleans, or at most 100 distinct integers consists of labels.
    """
    # y (n_rows,) or (n_rows, n_outputs)
    if y.ndim > 1 or y.dtype.kind == "f":
        return False
    return y.dtype.kind not in "iu" or np.unique(y).size <= _MOST_LABELS


def as_numbers(y: Array) -> Array:
    """Return targets in the widest floating-point dtype, after checking their range.

    ValueError is raised if squares of the targets would overflow, or if all values of
    an output are so small that their squares would underflow.
    """
    xp = namespace_of(y)
    y = xp.astype(y, float_types(y)[0])
    assert_all_finite(y, input_name="y")  # the conversion may have turned text into nan
    least, most = _limits(xp.finfo(y.dtype), _RANGE)
    outside = _sizes_outside(y, least, most)
    if outside.size:
        raise ValueError(
            f"The largest absolute value of y must be 0 or between {least:.0e} and "
            f"{most:.0e}, so that its square neither overflows nor underflows; got "
            f"{outside[0]:.3g}. Divide y by a number of this magnitude, and multiply "
            "the predictions by the same number."
        )
    return y


def _sizes_outside(y: Array, least: float, most: float) -> np.ndarray:
    """Return the largest absolute values of outputs that are outside a range, or 0."""
    xp = namespace_of(y)
    sizes = to_host(xp.max(xp.abs(y), axis=0)).reshape(-1).astype(np.float64)
    return sizes[(sizes > most) | ((sizes > 0) & (sizes < least))]


def label_codes(estimator: Any, y: Array, first: bool, final: bool) -> Array:
    """Return the index of the class of each label, and set ``classes_`` in ``fit``."""
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
    """Return the targets (n_rows, n_outputs) in the widest floating-point dtype."""
    y = as_numbers(y)
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
    """Raise ValueError if two classifiers have different classes."""
    if not np.array_equal(one.classes_, other.classes_):
        raise ValueError(
            f"merge requires the same classes, got {one.classes_.tolist()} and "
            f"{other.classes_.tolist()}. Pass classes= to the first partial_fit."
        )


def check_same_outputs(one: Any, other: Any) -> None:
    """Raise ValueError if two regressors have different numbers of outputs."""
    if other._n_outputs != one._n_outputs:
        raise ValueError(
            f"merge requires the same number of outputs, got {one._n_outputs} and "
            f"{other._n_outputs}."
        )


# ----------------------------------------------------------------------------- weights
class WeightedRows(NamedTuple):
    """Rows with positive weights, and the positions of rows with weight 0."""

    X: Any  # (n_rows, n_features)
    y: Array  # (n_rows,) or (n_rows, n_outputs)
    weights: Array  # (n_rows,), in the widest floating-point dtype
    dropped: np.ndarray  # (n_dropped,), positions of dropped rows among all rows


def weighted_rows(X: Any, y: Array, sample_weight: Any) -> WeightedRows:
    """Return the rows with positive weights, their targets and their weights.

    Without ``sample_weight``, each row has weight 1. Weights have the widest
    floating-point dtype and are not rescaled, so that models fitted with weights of
    very different sizes can be merged. For single-precision rows, ``type_for_weights``
    chooses the dtype.
    """
    weights = read_weights(X, sample_weight)
    if sample_weight is None:
        return WeightedRows(X, y, weights, np.empty(0, np.intp))
    xp = namespace_of(weights)
    positive = weights > 0
    if not xp.any(positive):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    _check_range(y, weights)
    dropped = np.empty(0, np.intp)
    if not xp.all(positive):
        keep = to_host(xp.nonzero(positive)[0])
        dropped = np.delete(np.arange(X.shape[0]), keep)
        X, y, weights = (taken(array, keep) for array in (X, y, weights))
    return WeightedRows(X, y, weights, dropped)


def read_weights(X: Any, sample_weight: Any) -> Array:
    """Return a validated copy of the weights, in the widest floating-point dtype."""
    if sample_weight is not None:
        refuse_dates_and_masks(sample_weight, "sample_weight")
    return _check_sample_weight(
        to_namespace_of(sample_weight, X),
        X,
        dtype=float_types(X)[0],
        ensure_non_negative=True,
        copy=True,
    )


def type_for_weights(weights: Array, dtype: Any) -> Any:
    """Return dtype or, if sums of weights would exceed its range, the widest dtype."""
    wide = float_types(weights)[0]
    if dtype == wide:
        return dtype
    xp = namespace_of(weights)
    least, most = _limits(xp.finfo(dtype), _RANGE)
    return dtype if least < float(xp.max(xp.abs(weights))) < most else wide


def _limits(limits: Any, share: float) -> tuple[float, float]:
    """Return the smallest and largest number within a share of the exponent range."""
    return float(limits.smallest_normal) ** share, float(limits.max) ** share


def _check_range(y: Array, weights: Array) -> None:
    """Raise ValueError if sums of weights or targets could overflow or underflow."""
    xp = namespace_of(weights)
    limits = xp.finfo(weights.dtype)
    least, most = _limits(limits, _RANGE)
    outside = (weights > most) | ((weights > 0) & (weights < least))
    if xp.any(outside):
        raise ValueError(
            f"Sample weights must be 0 or between {least:.0e} and {most:.0e}, so that "
            "sums over rows neither overflow nor underflow; got "
            f"{float(weights[outside][0]):.3g}. Divide all weights by the largest one, "
            "and replace weights that are too small to matter by 0."
        )
    if y.dtype not in float_types(y):  # labels
        return
    largest = float(xp.max(weights))
    least, most = (
        math.sqrt(end) / math.sqrt(largest)
        for end in _limits(limits, _RANGE_OF_PRODUCTS)
    )
    sizes = _sizes_outside(y, least, most)
    if sizes.size:
        raise ValueError(
            f"With sample weights up to {largest:.3g}, the largest absolute value of y "
            f"must be 0 or between {least:.0e} and {most:.0e}, so that the products of "
            "weights and squares of y neither overflow nor underflow; got "
            f"{sizes[0]:.3g}. Rescale y or the weights."
        )
