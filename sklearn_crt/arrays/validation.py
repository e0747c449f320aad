"""Validation of rows, and the library and device of the rows of ``fit``."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from .._compat import (
    array_device,
    check_same_namespace,
    move_to,
)
from .namespaces import (
    Array,
    float_types,
    host_view,
    is_foreign,
    namespace_of,
    on_host,
    to_namespace_of,
    without_gradient,
)

_ROWS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def validate_rows(
    estimator: Any,
    X: Any,
    *,
    reset: bool,
    keep_library: bool = False,
    copy: bool = False,
    **targets: Any,
) -> Any:
    """Return rows validated by scikit-learn, as NumPy arrays or on their device.

    If ``targets`` contains ``y``, the rows and y are returned. An array in main memory
    is converted to a NumPy array unless ``keep_library`` is True.
    """
    refuse_dates_and_masks(X, "X")
    view = X
    if not isinstance(X, np.ndarray) and is_foreign(X):
        X = without_gradient(X)
        view = None if keep_library else host_view(X)
    if view is not None:
        if "y" in targets:
            targets["y"] = to_namespace_of(targets["y"], None)
        options = {**_ROWS, **targets}
        found = validate_data(estimator, view, reset=reset, copy=copy, **options)
        if "y" in targets:
            return plain_sparse(found[0]), found[1]
        return plain_sparse(found)
    dtype = float_types(X)
    if copy:
        X = namespace_of(X).asarray(X, copy=True)
    y = to_namespace_of(targets.pop("y", None), X)
    if y is None and not targets:
        return validate_data(estimator, X, reset=reset, dtype=dtype)
    if not isinstance(y, np.ndarray):
        return validate_data(estimator, X, y, reset=reset, dtype=dtype, **targets)
    rows = validate_data(estimator, X, reset=reset, dtype=dtype)
    check_consistent_length(rows, y)
    return rows, column_or_1d(y, warn=True)


# prefixes of the names of date and time dtypes, in lower case
_NAMES_OF_DATES = "date", "time", "duration", "period"


def refuse_dates_and_masks(table: Any, name: str) -> None:
    """Raise an error if a table contains dates, times or masked values.

    NumPy and scikit-learn ignore the mask of a masked array, so values that it hides
    would be used.
    """
    if isinstance(table, np.ma.MaskedArray) and np.any(np.ma.getmaskarray(table)):
        raise ValueError(
            f"{name} is a masked array with {np.ma.count_masked(table)} masked values. "
            f"Impute them, for instance with SimpleImputer on {name}.filled(np.nan), "
            "or leave out the rows that contain them."
        )
    schema: Any = getattr(table, "schema", None)
    columns: Any = None
    if hasattr(schema, "types"):  # Arrow
        columns, types = schema.names, schema.types
    elif hasattr(table, "columns") and hasattr(table, "dtypes"):
        columns, types = table.columns, table.dtypes
    else:
        types = [getattr(table, "dtype", getattr(table, "type", None))]
    are_dates = [str(kind).lower().startswith(_NAMES_OF_DATES) for kind in types]
    if any(are_dates):
        places = ""
        if columns is not None:
            named = zip(columns, are_dates, strict=True)
            found = ", ".join(repr(column) for column, is_date in named if is_date)
            places = f" in the columns {found}"
        raise TypeError(
            f"{name} contains dates or times{places}, which are not numbers. Convert "
            "them to numbers, such as days since the first date; labels can also be "
            "strings."
        )


def refuse_device(estimator: Any, rows: Any, instead: str) -> None:
    """Raise TypeError if validated rows are on a device."""
    if not on_host(rows):
        kind = f"{type(rows).__module__.split('.')[0]} {type(rows).__name__}"
        raise TypeError(
            f"{type(estimator).__name__} only supports arrays in CPU memory, but X is "
            f"a {kind} on the device {rows.device}. Move X to the CPU{instead}."
        )


def plain_sparse(rows: Any) -> Any:
    """Return CSR rows without duplicate entries, with 32-bit indices if possible.

    Duplicates are summed, because the squares of separate entries would be wrong. Some
    scikit-learn functions require 32-bit indices. The input is not modified, and dense
    rows are returned as they are.
    """
    if not issparse(rows):
        return rows
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    most = np.iinfo(np.int32).max
    is_short = rows.indices.dtype == rows.indptr.dtype == np.int32
    if is_short or max(*rows.shape, rows.nnz) > most:
        return rows
    index = (part.astype(np.int32) for part in (rows.indices, rows.indptr))
    plain = type(rows)((rows.data, *index), shape=rows.shape)
    # set explicitly, because SciPy's check would take as long as a pass over the
    # entries
    plain.has_canonical_format = True
    return plain


def as_kind(X: Any, kind: Any) -> Any:
    """Convert rows to an array or to a sparse type; None leaves them as they are."""
    if kind is np.ndarray:
        return X.toarray() if issparse(X) else X
    return X if kind is None or issparse(X) else kind(X)


def with_data(rows: Any, data: np.ndarray) -> Any:
    """Return a CSR matrix with new entries in the same positions."""
    return type(rows)((data, rows.indices, rows.indptr), shape=rows.shape)


def fit_namespace_of(X: Any) -> Array | None:
    """Return an empty array in the library and device of X, or None for NumPy."""
    if isinstance(X, np.ndarray) or not is_foreign(X):
        return None
    xp, device = namespace_of(X), array_device(X)
    return xp.empty((0,), dtype=float_types(X)[0], device=device)


def check_fit_namespace(estimator: Any, X: Any, method: str) -> None:
    """Raise scikit-learn's error if rows are not on the device used in ``fit``."""
    if estimator._fit_namespace is not None or not isinstance(X, np.ndarray):
        check_same_namespace(X, estimator, attribute="_fit_namespace", method=method)


def to_fit_namespace(estimator: Any, values: np.ndarray) -> Array:
    """Convert a fitted attribute to the library and device of the rows of ``fit``."""
    fitted_on = estimator._fit_namespace
    if fitted_on is None or isinstance(fitted_on, np.ndarray):
        return values
    return move_to(values, xp=namespace_of(fitted_on), device=array_device(fitted_on))


def convert_fit_namespace(estimator: Any, converter: Callable[[Any], Any]) -> Any:
    """Return a copy of an estimator for another library, as scikit-learn requires."""
    other, fitted_on = copy.copy(estimator), estimator._fit_namespace
    other._fit_namespace = converter(np.empty(0) if fitted_on is None else fitted_on)
    return other


def is_lazy(table: Any) -> bool:
    """Return whether rows are a Dask collection, without importing Dask."""
    graph = getattr(table, "__dask_graph__", None)
    return callable(graph) and graph() is not None


def refuse_lazy(estimator: Any, instead: str, *tables: Any) -> None:
    """Raise TypeError for a Dask collection, which might not fit into memory."""
    for table in tables:
        if hasattr(table, "__dask_graph__") and is_lazy(table):
            kind = f"{type(table).__module__.split('.')[0]} {type(table).__name__}"
            raise TypeError(
                f"{type(estimator).__name__} requires data in memory and would load "
                f"all of this {kind}. Call {instead}, which processes it block by "
                "block, or call compute() first if it fits into memory."
            )
