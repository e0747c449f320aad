"""Conversion of raw tables with categories, dates and missing values to numbers."""

from __future__ import annotations

import datetime
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array, check_consistent_length, murmurhash3_32
from sklearn.utils.validation import validate_data

from ..arrays.namespaces import to_host
from .targets import is_missing, kind_of, plain_targets

NUMBER, CATEGORY, EMPTY = "number", "category", "empty"
_FEW_ROWS = 10
_LARGEST_WHOLE = 2**53  # all smaller integers are exact in float64
_EPOCH, _DAY = np.datetime64(0, "us"), np.timedelta64(1, "D")
_DURATIONS = datetime.timedelta, np.timedelta64


def is_data_frame(X: Any) -> bool:
    """Return whether a table is a data frame."""
    return hasattr(X, "columns") and hasattr(X, "dtypes") and len(X.shape) == 2


def validated_table(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return a data frame or an array of any dtype, after scikit-learn's checks.

    Missing values are allowed. If ``reset`` is True, the number and names of columns
    are recorded; otherwise they are compared with the recorded ones.
    """
    if hasattr(X, "collect_schema") and not hasattr(X, "shape"):
        raise TypeError(f"X is a lazy {type(X).__name__}. Pass X.collect().")
    if is_data_frame(X):
        (name, count), *_ = [*Counter(X.columns).most_common(1), (None, 1)]
        if count > 1:
            raise ValueError(
                f"Columns of X must have different names, but {name!r} occurs {count} "
                "times. Rename them, or pass X.to_numpy()."
            )
        validate_data(estimator, X, reset=reset, skip_check_array=True)
        # an error if there are no rows or no columns
        check_array(np.broadcast_to(True, X.shape), dtype=None, estimator=estimator)
        return X
    if isinstance(X, (list, tuple)):  # the values of a row may have several types
        X = np.array(X, dtype=object)
    elif isinstance(X, np.ma.MaskedArray):
        X = _missing_where_masked(X)
    elif hasattr(X, "__dlpack__"):
        X = to_host(X)
    options = {"dtype": None, "ensure_all_finite": "allow-nan"}
    return validate_data(estimator, X, reset=reset, **options)


def _missing_where_masked(X: Any) -> np.ndarray:
    """Return an array that has missing values where a masked array is masked."""
    if not np.ma.getmaskarray(X).any():
        return X.data
    if X.dtype.kind in "biu":
        X = X.astype(np.float64)
    elif X.dtype.kind not in "fmM":
        X = X.astype(object)
    missing = np.array("NaT", X.dtype) if X.dtype.kind in "mM" else np.nan
    return X.filled(missing)


def read_table_and_targets(
    estimator: Any,
    X: Any,
    y: Any,
    reader: TableReader | None,
    categories: Any,
    *,
    reset: bool,
) -> tuple[np.ndarray, np.ndarray, TableReader]:
    """Return the matrix of a raw table, the targets, and the reader of the table.

    If no reader is given, one is created for tables with the same columns.
    """
    X = validated_table(estimator, X, reset=reset)
    if reader is None:
        reader = TableReader.of(X, categories)
    elif not (reset or isinstance(getattr(estimator, "kernel", 0), FrozenEstimator)):
        reader.check_empty(X)
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but "
            "the target y is None."
        )
    options = {"ensure_2d": False, "dtype": None, "input_name": "y"}
    y = np.asarray(check_array(plain_targets(y), **options))
    check_consistent_length(X, y)
    return reader.read(X), y, reader


def column_positions(
    names: Sequence[Any], columns: Any, parameter: str
) -> tuple[int, ...]:
    """Return the positions of columns that a parameter lists by name or position."""
    found = []
    for column in columns:
        if isinstance(column, str) and column in names:
            found.append(names.index(column))
        elif kind_of(type(column)) == "integer" and 0 <= column < len(names):
            found.append(int(column))
        else:
            raise ValueError(
                f"{parameter} contains {column!r}, which is not a column of X. Pass "
                f"positions from 0 to {len(names) - 1}, or names of columns of a data "
                "frame."
            )
    return tuple(found)


@dataclass(frozen=True)
class TableReader:
    """Converts raw tables to matrices of floats, in which NaN marks a missing value.

    Dates become days since 1970, and categories become hashes of their text, which are
    the same in all batches and processes.
    """

    kinds: tuple[str, ...]  # one per column
    names: tuple[Any, ...]  # column names for error messages

    @classmethod
    def of(cls, X: Any, categories: Any = None) -> TableReader:
        """Return a reader for tables with the same columns as a validated table."""
        columns = list(each_column(X))
        names = tuple(X.columns) if is_data_frame(X) else tuple(range(X.shape[1]))
        pairs = zip(columns, names, strict=True)
        kinds = [_kind_of_each(column, name) for column, name in pairs]
        for j in column_positions(names, categories or (), "categories"):
            kinds[j] = CATEGORY
        return cls(tuple(kinds), names)

    def __add__(self, other: TableReader) -> TableReader:
        """Combine the readers of two tables with the same columns."""
        rank = (EMPTY, NUMBER, CATEGORY).index
        pairs = zip(self.kinds, other.kinds, strict=True)
        return TableReader(tuple(max(pair, key=rank) for pair in pairs), self.names)

    def read(self, X: Any) -> np.ndarray:
        """Convert a validated table to a matrix."""
        plain = "bf" if CATEGORY in self.kinds else "biuf"
        if not is_data_frame(X) and X.dtype.kind in plain:
            keep = X.dtype == np.float32 and CATEGORY not in self.kinds
            matrix = np.array(X, np.float32 if keep else np.float64, order="C")
            matrix[:, np.array(self.kinds) == EMPTY] = np.nan
            return matrix
        columns, few = each_column(X), hasattr(X, "iloc") and len(X) < _FEW_ROWS
        # one conversion is faster than one per column, but would change dates
        if few and {getattr(t, "kind", "") for t in X.dtypes} <= set("biufO"):
            columns = iter(X.to_numpy(dtype=object).T)
        matrix = np.empty(X.shape)
        for j, column in enumerate(columns):
            matrix[:, j] = self.read_column(column, j)
        if np.isinf(matrix).any():
            name = self.names[int(np.isinf(matrix).any(axis=0).argmax())]
            raise ValueError(
                f"Input X contains infinity or a value too large in column {name!r}. "
                "Replace it by a missing value or by a large number."
            )
        return matrix

    def check_empty(self, X: Any) -> None:
        """Raise ValueError if a column has values that had none in the first batch."""
        for kind, name, column in zip(self.kinds, self.names, each_column(X)):
            if kind == EMPTY and not np.isnan(codes_of(column)).all():
                raise ValueError(
                    f"Column {name!r} of X contained only missing values in the first "
                    "batch, so its type is unknown. Convert it to float or category in "
                    "that batch."
                )

    def read_column(self, column: Any, j: int) -> np.ndarray:
        """Convert the column at a given position to numbers."""
        if self.kinds[j] == EMPTY:
            return np.full(len(column), np.nan)
        if self.kinds[j] == CATEGORY:
            return codes_of(column)
        return _numbers(column, self.names[j])


def each_column(X: Any) -> Iterator[Any]:
    """Yield the columns of a table: arrays, or Series of extension types."""
    if hasattr(X, "iloc"):
        # names may occur twice, so columns are not selected by name
        for _, column in X.items():
            plain = isinstance(column.dtype, np.dtype)
            yield column.to_numpy() if plain else column
    elif hasattr(X, "get_columns"):  # polars
        yield from (column.to_numpy() for column in X.get_columns())
    elif is_data_frame(X):
        yield from (np.asarray(X[name]) for name in X.columns)
    else:
        yield from X.T


def _kind_of_each(column: Any, name: Any) -> str:
    """Return the kind of a column: numbers (or dates), categories, or empty."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: column {name!r} of X. Pass its real and its "
            "imaginary part as two columns."
        )
    if kind in "biufmM":
        return NUMBER
    if str(column.dtype) == "category":
        return CATEGORY
    values = np.asarray(column, dtype=object).tolist()
    kinds = {
        kind_of(each)
        for each in set(map(type, values))
        if any(type(value) is each and not is_missing(value) for value in values)
    }
    if kind != "O" or kinds & {"string", "other"}:
        return CATEGORY
    return NUMBER if kinds else EMPTY


def _numbers(column: Any, name: Any) -> np.ndarray:
    """Return the numbers of a column, with dates as days and missing values as NaN."""
    values = np.asarray(column)
    if values.dtype.kind in "mM":
        return _days(values)
    if values.dtype.kind in "biuf":
        return values.astype(np.float64)
    missing = np.array([is_missing(value) for value in values.tolist()], bool)
    numbers, known = np.full(len(values), np.nan), values[~missing].tolist()
    if any(kind_of(each) == "date" for each in set(map(type, known))):
        numbers[~missing] = _days(_as_dates(known, name))
        return numbers
    try:
        numbers[~missing] = np.array(known, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"Column {name!r} of X contained numbers when the model was fitted, but "
            f"now contains other values ({error}). Convert them to numbers or to "
            "missing values, or list the column in categories=."
        ) from error
    return numbers


def _as_dates(values: list[Any], name: Any) -> np.ndarray:
    """Convert a list of objects to an array of dates or of durations."""
    durations = {isinstance(value, _DURATIONS) for value in values}
    try:
        if len(durations) > 1:
            raise TypeError("dates and durations")
        with warnings.catch_warnings():
            # NumPy warns about dropped time zones, but converts to UTC first
            warnings.simplefilter("ignore")
            return np.array(values, dtype="m8[us]" if True in durations else "M8[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} of X contains dates or times of different types "
            f"({error}). Convert it to dates, or list it in categories=."
        ) from error


def _days(values: np.ndarray) -> np.ndarray:
    """Return dates as days since 1970, and durations as days."""
    since = values if values.dtype.kind == "m" else values.astype("M8[us]") - _EPOCH
    return since / _DAY


def codes_of(column: Any) -> np.ndarray:
    """Return the code of each category in a column, and NaN for missing values."""
    values = np.asarray(column)
    kind = values.dtype.kind
    if kind in "biuf":
        codes = values.astype(np.float64)
        if kind in "bf" or not np.any(np.abs(codes) > _LARGEST_WHOLE):
            return codes
    if kind in "mM":  # nanoseconds would be converted to integers
        values = values.astype(f"{kind}8[us]")
    values = values.astype(object).tolist()
    known: dict[Any, float] = {}
    codes = np.empty(len(values))
    for i, value in enumerate(values):
        try:
            code = known.get(value)
        except TypeError:  # not hashable
            value = str(value)
            code = known.get(value)
        if code is None:
            code = known[value] = _code(value)
        codes[i] = code
    return codes


def _code(value: Any) -> float:
    """Return the code of a category, which is the number itself or a hash."""
    # types of dates differ in text and precision; times of day and periods keep text
    if isinstance(value, (datetime.date, np.datetime64, *_DURATIONS)):
        with suppress(ValueError):  # months have no length in microseconds
            value = _as_dates([value], None).tolist()[0]
    if is_missing(value):
        return np.nan
    kind = kind_of(type(value))
    # different integers beyond this limit can be equal as floats
    exact = kind != "integer" or abs(value) <= _LARGEST_WHOLE
    if exact and kind in ("boolean", "integer", "number"):
        return float(value)
    high, low = (murmurhash3_32(str(value), seed, positive=True) for seed in (0, 1))
    return float(high * 2**20 + low % 2**20)  # float64 represents 52 bits exactly
