"""Reading targets and sample weights, in the same way for all estimators.

Estimators pass y through ``plain_targets`` before scikit-learn validates it. Validated
labels then become codes in ``label_codes``, numbers become columns in
``number_columns``, and ``weighted_rows`` leaves out the rows of weight 0.
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

from .._array import (
    Array,
    float_types,
    is_foreign,
    namespace_of,
    on_host,
    refuse_dates,
    taken,
    to_host,
    to_namespace_of,
)
from .._compat import _check_sample_weight

_MOST_LABELS = 100  # different integers; where there are more, they are numbers
# Products of two weights and squares of targets stay numbers of their type, with room
# for sums over rows, if both keep within two fifths of the range of exponents. So do
# squares of targets times weights, if these products keep within nine tenths of it.
_RANGE, _RANGE_OF_PRODUCTS = 0.4, 0.9
_DATES = datetime.date, datetime.time, datetime.timedelta
_NUMPY_DATES = np.datetime64, np.timedelta64
_MISSING = "NAType", "NaTType"  # names of the types of pandas


# ----------------------------------------------------------------------------- targets
def plain_targets(y: Any) -> Any:
    """Return targets as a NumPy array of booleans, integers, floats or strings.

    Nullable columns, columns of Arrow, categories and arrays of objects become the
    array that NumPy would make of the same values. Arrays of other libraries stay as
    they are under ``array_api_dispatch=True``.
    """
    if y is None or issparse(y) or is_foreign(y):
        return y
    refuse_dates(y, "y")
    values = np.asarray(y, order="C")  # products do not depend on the container
    refuse_dates(values, "y")  # from a list of dates
    return _from_objects(values) if values.dtype.kind == "O" else values


def _from_objects(values: np.ndarray) -> np.ndarray:
    """Return objects as booleans, integers or floats; strings stay objects."""
    flat = values.ravel().tolist()
    kinds: dict[str, Any] = {}  # a value of each kind
    for kind, value in {type(value): value for value in flat}.items():
        kinds.setdefault(_kind_of(kind), value)
    if "date" in kinds:
        refuse_dates(np.empty(0, "M8[D]"), "y")
    if "other" in kinds:
        raise ValueError(
            f"y has values of type {type(kinds['other']).__name__}, such as "
            f"{kinds['other']!r}. Give labels as strings, integers or booleans, and "
            "numbers as floats or integers."
        )
    if "string" in kinds:
        others = [value for value in flat if not isinstance(value, (str, bytes))]
        given = [value for value in others if not _is_missing(value)]
        if given:
            raise ValueError(
                "Mix of label input types (string and number) in y: among them are "
                f"{kinds['string']!r} and {given[0]!r}. Give all labels one type, "
                "y.astype(str) for instance."
            )
        if others:
            raise ValueError(
                "y has missing values (None, NaN or NA) among strings. Drop these "
                "rows, or fill in a label for them."
            )
        return values
    if "missing" in kinds:  # scikit-learn says that y contains NaN
        flat = [np.nan if _is_missing(value) else value for value in flat]
        return np.array(flat, dtype=np.float64).reshape(values.shape)
    if kinds.keys() == {"boolean"}:
        return values.astype(bool)
    if "number" not in kinds:
        try:
            return values.astype(np.int64)
        except OverflowError:
            pass  # integers of Python may be of any size
    return values.astype(np.float64)


def _kind_of(kind: type) -> str:
    """Return which kind of target the values of a Python type are."""
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


def _is_missing(value: Any) -> bool:
    """Return whether an object stands for a missing value."""
    if value is None or type(value).__name__ in _MISSING:
        return True
    return isinstance(value, float) and value != value


def are_labels(y: np.ndarray) -> bool:
    """Return whether plain targets are labels, for estimators that also take numbers.

    Strings, booleans and at most 100 different integers in one column are labels.
    """
    # y (n_rows,) or (n_rows, n_outputs)
    if y.ndim > 1 or y.dtype.kind == "f":
        return False
    return y.dtype.kind not in "iu" or np.unique(y).size <= _MOST_LABELS


def as_numbers(y: Array) -> Array:
    """Return targets in the widest floating type, in which their squares are numbers.

    Raises ValueError if all values of an output are too small, or one is too large.
    """
    xp = namespace_of(y)
    y = xp.astype(y, float_types(y)[0])
    assert_all_finite(y, input_name="y")  # strings may have become nan just now
    least, most = _limits(xp.finfo(y.dtype), _RANGE)
    outside = _outside(_sizes(y), least, most)
    if outside.size:
        raise ValueError(
            f"The largest absolute value of y must be 0 or between {least:.0e} and "
            f"{most:.0e}, so that its square is a number; got {outside[0]:.3g}. Divide "
            "y by a number of its size, and multiply predictions by it."
        )
    return y


def _sizes(y: Array) -> np.ndarray:
    """Return the largest absolute value of each output, on the host in float64."""
    xp = namespace_of(y)
    return to_host(xp.max(xp.abs(y), axis=0)).reshape(-1).astype(np.float64)


def _outside(sizes: np.ndarray, least: float, most: float) -> np.ndarray:
    """Return the sizes out of a range, in which 0 is allowed."""
    return sizes[(sizes > most) | ((sizes > 0) & (sizes < least))]


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


# ----------------------------------------------------------------------------- weights
class WeightedRows(NamedTuple):
    """Rows of positive weight, and which rows were left out because theirs is 0."""

    X: Any  # (n_rows, n_features)
    y: Array  # (n_rows,) or (n_rows, n_outputs)
    weights: Array  # (n_rows,), in the widest floating type
    dropped: np.ndarray  # (n_dropped,), places among all the rows


def weighted_rows(X: Any, y: Array, sample_weight: Any) -> WeightedRows:
    """Return the rows of positive weight, their targets and their weights.

    Without weights each row has weight 1. Weights stay in the units of the user and in
    the widest type, so that models with weights of different sizes merge. What is
    computed in single precision chooses its type by ``type_for_weights``.
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
    """Return a copy of non-negative weights of validated rows, in the widest type."""
    if sample_weight is not None:
        refuse_dates(sample_weight, "sample_weight")
    return _check_sample_weight(
        to_namespace_of(sample_weight, X),
        X,
        dtype=float_types(X)[0],
        ensure_non_negative=True,
        copy=True,
    )


def type_for_weights(weights: Array, dtype: Any) -> Any:
    """Return the type for sums of these weights: dtype, or the widest if too narrow."""
    wide = float_types(weights)[0]
    if dtype == wide:
        return dtype
    xp = namespace_of(weights)
    least, most = _limits(xp.finfo(dtype), _RANGE)
    return dtype if least < float(xp.max(xp.abs(weights))) < most else wide


def _limits(limits: Any, share: float) -> tuple[float, float]:
    """Return the least and the largest number of a share of the range of exponents."""
    return float(limits.smallest_normal) ** share, float(limits.max) ** share


def _check_range(y: Array, weights: Array) -> None:
    """Raise ValueError where sums of weights, or of targets, could leave their type."""
    xp = namespace_of(weights)
    limits = xp.finfo(weights.dtype)
    least, most = _limits(limits, _RANGE)
    outside = (weights > most) | ((weights > 0) & (weights < least))
    if xp.any(outside):
        raise ValueError(
            f"Sample weights must be 0 or between {least:.0e} and {most:.0e}, so that "
            f"their sums are numbers; got {float(weights[outside][0]):.3g}. Divide "
            "them all by the largest, and set to 0 those that are too small to matter."
        )
    if y.dtype not in float_types(y):  # labels
        return
    largest = float(xp.max(weights))
    least, most = (
        math.sqrt(end) / math.sqrt(largest)
        for end in _limits(limits, _RANGE_OF_PRODUCTS)
    )
    sizes = _outside(_sizes(y), least, most)
    if sizes.size:
        raise ValueError(
            f"With sample weights up to {largest:.3g} the largest absolute value of y "
            f"must be 0 or between {least:.0e} and {most:.0e}, so that squares of y "
            f"times weights are numbers; got {sizes[0]:.3g}. Divide the weights, or y, "
            "by a number of their size."
        )
