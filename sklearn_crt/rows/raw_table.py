"""Conversion of raw tables with categories, dates and missing values to numbers."""

from __future__ import annotations

import datetime
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_array, check_consistent_length, murmurhash3_32
from sklearn.utils.validation import validate_data

from .._compat import warn
from ..arrays.namespaces import to_host
from ..exceptions import ColumnWarning
from .targets import is_missing, kind_of, plain_targets

NUMBER, CATEGORY, EMPTY = "number", "category", "empty"
# kinds of columns that become numbers of days
DATE, DURATION, TIME = "date", "duration", "time of day"
_SHOWN = {NUMBER: "numbers", DATE: "dates", DURATION: "durations", TIME: "times of day"}
_FEW_ROWS = 10
_LARGEST_WHOLE = 2**53  # all smaller integers are exact in float64
_EPOCH, _DAY = np.datetime64(0, "us"), np.timedelta64(1, "D")
_DURATIONS = datetime.timedelta, np.timedelta64
_DATES = datetime.date, np.datetime64, *_DURATIONS
# Text is read as numbers or dates if at least this share of the cells are. Integers
# need more than _MOST_CODES distinct values, because a few are probably categories.
_NEARLY_ALL, _MOST_CODES = 0.95, 20
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
_LEADING_ZERO = re.compile(r"\s*[-+]?0\d")  # of a postcode, but not of a number
# the beginning of an amount, a measurement or a date, but not of a key such as "id12"
_AMOUNT = re.compile(r"\s*([^\w\s]|[A-Z]{3}\s)?\s*[-+]?\.?\d")
_ISO = "ISO"
# The month and the day are told apart by days after the 12th.
_DATE_FORMATS = _ISO, "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"
# for the warning about unknown categories, at least _LEAST_KNOWN values are needed,
# and at most _MOST_LEVELS categories are recorded
_LEAST_KNOWN, _MOST_LEVELS = 10, 10_000


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
    y = plain_targets(y)
    y = to_host(y) if hasattr(y, "__dlpack__") else y
    y = np.asarray(check_array(y, **options))
    check_consistent_length(X, y)
    V = reader.read(X, fitting=True)
    return V, y, reader.with_categories(V)


def column_positions(
    names: Sequence[Any], columns: Any, parameter: str
) -> tuple[int, ...]:
    """Return the positions of columns that a parameter lists by name or position."""
    found = []
    for column in () if columns is None else list(columns):
        kind = kind_of(type(column))
        # True and 1.0 are equal to 1, but are not meant to be column 1
        same = [j for j, name in enumerate(names) if _same_name(column, name)]
        if same:
            found.append(same[0])
        elif kind == "integer" and 0 <= column < len(names):
            found.append(int(column))
        else:
            raise ValueError(
                f"{parameter} contains {column!r}, which is not a column of X. Pass "
                f"positions from 0 to {len(names) - 1}, or names of columns of a data "
                "frame."
            )
    return tuple(found)


def _same_name(column: Any, name: Any) -> bool:
    """Return whether a listed column has a given name."""
    if kind_of(type(column)) != kind_of(type(name)):
        return False
    same = column == name
    return isinstance(same, (bool, np.bool_)) and bool(same)


def group_positions(names: Sequence[Any], groups: Any) -> list[tuple[int, ...]]:
    """Return the positions of the columns of each group that ``groups`` lists."""
    found = []
    for group in () if groups is None else list(groups):
        single = isinstance(group, str) or not hasattr(group, "__iter__")
        if single or any(_same_name(group, name) for name in names):
            raise ValueError(
                f"groups={groups!r} must be a list of lists of columns, but contains "
                f"{group!r}. For a single group, pass groups=[[...]]."
            )
        found.append(column_positions(names, group, "groups"))
    return found


@dataclass(frozen=True)
class TableReader:
    """Converts raw tables to matrices of floats, in which NaN marks a missing value.

    Dates become days since 1970, times of day become proportions of a day, and
    categories become hashes of their text, which are the same in all batches and
    processes.
    """

    kinds: tuple[str, ...]  # one per column
    names: tuple[Any, ...]  # column names for error messages
    # per column: the format of text that is read as dates, "" for numbers, else None
    formats: tuple[str | None, ...] = ()
    # per column: the codes of categories seen in ``fit``; None if not recorded
    levels: tuple[np.ndarray | None, ...] = field(default=(), compare=False)
    # per column of categories: whether they are dates or durations; None if unknown
    dated: tuple[bool | None, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, X: Any, categories: Any = None) -> TableReader:
        """Return a reader for tables with the same columns as a validated table."""
        columns = list(each_column(X))
        names = tuple(X.columns) if is_data_frame(X) else tuple(range(X.shape[1]))
        kinds, formats = [], list[str | None]()
        dated = list[bool | None]()
        chosen = column_positions(names, categories, "categories")
        for j, (column, name) in enumerate(zip(columns, names, strict=True)):
            kind, form = _kind_of_each(column, name), None
            if j in chosen:
                kind = CATEGORY
            elif kind == CATEGORY and _is_text(column):
                kind, form = _kind_of_text(column, name)
            kinds.append(kind)
            formats.append(form)
            dated.append(_has_dates(column) if kind == CATEGORY else None)
        levels = [np.zeros(0) if kind == CATEGORY else None for kind in kinds]
        return cls(
            kinds=tuple(kinds),
            names=names,
            formats=tuple(formats),
            levels=tuple(levels),
            dated=tuple(dated),
        )

    def __add__(self, other: TableReader) -> TableReader:
        """Combine the readers of two tables with the same columns."""
        rank = {EMPTY: 0, CATEGORY: 2}
        kinds, formats = [], []
        mine, others = self._each(), other._each()
        for name, pair in zip(self.names, zip(mine, others, strict=True), strict=True):
            first, second = sorted(pair, key=lambda each: rank.get(each[0], 1))
            if rank.get(first[0], 1) == 1 == rank.get(second[0], 1):
                _refuse_other_kind(first[0], second[0], name)
            kinds.append(second[0])
            formats.append(second[1])
        return TableReader(tuple(kinds), self.names, tuple(formats))

    def _each(self) -> list[tuple[str, str | None]]:
        """Return the kind and the format of each column."""
        formats = self.formats or (None,) * len(self.kinds)
        return list(zip(self.kinds, formats, strict=True))

    def with_categories(self, V: np.ndarray) -> TableReader:
        """Return a copy that has also seen the categories in a matrix.

        They are not recorded for fewer than ten rows, nor if most of them occur only
        once, as in a column of keys.
        """
        levels: list[np.ndarray | None] = [*self.levels]
        for j, known in enumerate(self.levels):
            if known is not None:
                values = V[~np.isnan(V[:, j]), j]
                known = np.union1d(known, values)
                many = len(known) > min(_MOST_LEVELS, max(len(values) / 2, _MOST_CODES))
                levels[j] = None if many or len(V) < _LEAST_KNOWN else known
        return replace(self, levels=tuple(levels))

    def read(self, X: Any, *, fitting: bool = False) -> np.ndarray:
        """Convert a validated table to a matrix.

        Unless ``fitting``, a warning is issued if most categories of a column are new.
        """
        plain = "bf" if CATEGORY in self.kinds else "biuf"
        numeric = {NUMBER, EMPTY, CATEGORY}.issuperset(self.kinds)
        if not is_data_frame(X) and X.dtype.kind in plain and numeric:
            keep = X.dtype == np.float32 and CATEGORY not in self.kinds
            matrix = np.array(X, np.float32 if keep else np.float64, order="C")
            matrix[:, np.array(self.kinds) == EMPTY] = np.nan
        else:
            matrix = self._read_columns(X)
        if np.isinf(matrix).any():
            name = self.names[int(np.isinf(matrix).any(axis=0).argmax())]
            raise ValueError(
                f"Column {name!r} of X contains infinity or a value that is too large "
                "for float64. Replace it with a missing value or a finite number."
            )
        # the models inside of a blend read the matrix of codes again
        given = is_data_frame(X) or X.dtype.kind not in "bf"
        if given and not fitting and len(matrix) >= _LEAST_KNOWN:
            self._warn_of_unknown(matrix)
        return matrix

    def _read_columns(self, X: Any) -> np.ndarray:
        """Convert the columns of a validated table one by one."""
        columns, few = each_column(X), hasattr(X, "iloc") and len(X) < _FEW_ROWS
        # one conversion is faster than one per column, but would change dates
        if few and {getattr(t, "kind", "") for t in X.dtypes} <= set("biufO"):
            columns = iter(X.to_numpy(dtype=object).T)
        matrix = np.empty(X.shape)
        for j, column in enumerate(columns):
            matrix[:, j] = self.read_column(column, j)
        return matrix

    def _warn_of_unknown(self, matrix: np.ndarray) -> None:
        """Warn if more than half of the values of a column are new categories."""
        for levels, name, values in zip(
            self.levels, self.names, matrix.T, strict=False
        ):
            if levels is None or not len(levels):
                continue
            known = values[~np.isnan(values)]
            n_new = np.count_nonzero(~np.isin(known, levels))
            if len(known) >= _LEAST_KNOWN and 2 * n_new > len(known):
                warn(
                    f"{n_new} of {len(known)} values in column {name!r} of X are "
                    "categories that were not in the training data. Check that they "
                    "are written in the same way.",
                    ColumnWarning,
                )

    def check_empty(self, X: Any) -> None:
        """Raise ValueError if a column has values now, but none in the first batch."""
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
        kind, name = self.kinds[j], self.names[j]
        if kind == CATEGORY:
            dated = self.dated[j] if self.dated else None
            if dated is not None and _has_dates(column) not in {dated, None}:
                before, now = ("dates", "not dates")[:: 1 if dated else -1]
                raise TypeError(
                    f"The categories in column {name!r} of X were {before} when the "
                    f"model was fitted, but are {now} in this table. Convert them to "
                    "the same type."
                )
            return codes_of(column)
        return _numbers(column, name, kind, self.formats[j] if self.formats else None)


def each_column(X: Any) -> Iterator[Any]:
    """Yield the columns of a table: arrays, or Series of extension types."""
    if hasattr(X, "iloc"):
        # names may occur twice, so columns are not selected by name
        for _, column in X.items():
            dtype = column.dtype
            if isinstance(dtype, np.dtype):
                yield column.to_numpy()
            elif getattr(dtype, "kind", "O") in "mM":  # for instance, with a time zone
                yield _plain_dates(column)
            else:
                yield column
    elif hasattr(X, "get_columns"):  # polars
        yield from (column.to_numpy() for column in X.get_columns())
    elif is_data_frame(X):
        yield from (np.asarray(X[name]) for name in X.columns)
    else:
        yield from X.T


def _plain_dates(column: Any) -> Any:
    """Return dates or durations of an extension type as an array, in UTC."""
    with suppress(TypeError, ValueError, NotImplementedError):
        return column.to_numpy(dtype=f"{column.dtype.kind}8[us]")
    return column


def _kind_of_each(column: Any, name: Any) -> str:
    """Return the kind of a column."""
    kind = getattr(column.dtype, "kind", "O")
    if kind == "c":
        raise ValueError(
            f"Complex data not supported: column {name!r} of X. Pass its real and its "
            "imaginary part as two columns."
        )
    if kind in "biuf":
        return NUMBER
    if kind in "mM":
        return DURATION if kind == "m" else DATE
    if str(column.dtype) == "category":
        return CATEGORY
    values = np.asarray(column, dtype=object).tolist()
    kinds = {
        _kind_of_values(each)
        for each in set(map(type, values))
        if any(type(value) is each and not is_missing(value) for value in values)
    }
    if kind != "O" or kinds & {"string", "other"}:
        return CATEGORY
    dates = kinds & {DATE, DURATION, TIME}
    if dates and len(kinds) > 1:
        raise ValueError(
            f"Column {name!r} of X contains dates or times of different types: "
            f"{' and '.join(sorted(kinds))}. Convert them to one type."
        )
    return dates.pop() if dates else NUMBER if kinds else EMPTY


def _kind_of_values(kind: type) -> str:
    """Return the kind of a column with values of a Python type."""
    if issubclass(kind, datetime.time):
        return TIME
    if issubclass(kind, _DURATIONS):
        return DURATION
    found = kind_of(kind)
    return NUMBER if found in {"boolean", "integer", "number"} else found


def _is_text(column: Any) -> bool:
    """Return whether a column has strings, and otherwise only numbers."""
    if str(column.dtype) == "category":
        return False
    kinds = {*map(kind_of, {*map(type, np.asarray(column, dtype=object).tolist())})}
    return "string" in kinds and kinds <= {"string", "missing", "number", "integer"}


def _kind_of_text(column: Any, name: Any) -> tuple[str, str | None]:
    """Return the kind of a column of text, and the format of numbers or dates.

    A warning is issued if the text is read as numbers or dates.
    """
    values = [v for v in np.asarray(column, dtype=object).tolist() if not is_missing(v)]
    counts = Counter(values)
    n_numbers = sum(n for v, n in counts.items() if _as_number(v) is not None)
    kind, form, n_read = CATEGORY, None, n_numbers
    if n_numbers >= _NEARLY_ALL * len(values):
        numbers = [v for v in counts if _as_number(v) is not None]
        whole = all(float(v).is_integer() for v in numbers)
        if len(numbers) > _MOST_CODES or not whole:
            kind, form = NUMBER, ""
    elif any(mark in str(values[0]) for mark in "-/.:"):
        least = _NEARLY_ALL * len(values)
        reads = {
            each: sum(n for v, n in counts.items() if _as_date(v, each) is not None)
            for each in _DATE_FORMATS
        }
        best = max(reads, key=lambda each: reads[each])
        american, other = reads["%m/%d/%Y"], reads["%d/%m/%Y"]
        if reads[best] >= least and (
            best not in _DATE_FORMATS[3:] or american != other
        ):
            kind, form, n_read = DATE, best, reads[best]
    if form is not None:
        _warn_of_text(values, kind, form, n_read, name)
    elif len(values) > _MOST_CODES and len(counts) > len(values) / 2:
        _warn_of_other_text(counts, name)
    return kind, form


def _warn_of_text(
    values: Sequence[Any], kind: str, form: str, n_read: int, name: Any
) -> None:
    """Warn that text is read as numbers or dates, and about cells that are not."""
    other = next((v for v in values if _of_text(v, form) is None), None)
    rest = len(values) - n_read
    message = f"Column {name!r} of X contains text that is read as {_SHOWN[kind]}"
    if rest:
        message += f", except for {rest} of {len(values)} cells, such as {other!r}, "
        message += "which are treated as missing values"
    message += ". Convert the column to numbers or dates, or to the type category."
    warn(message, ColumnWarning)


def _warn_of_other_text(counts: Counter[Any], name: Any) -> None:
    """Warn of numbers with other characters if at least half of them differ."""
    n_numbers = sum(n for v, n in counts.items() if _AMOUNT.match(str(v)))
    if n_numbers < _NEARLY_ALL * counts.total():
        return
    warn(
        f"Column {name!r} of X contains {len(counts)} different texts in "
        f"{counts.total()} cells, such as {next(iter(counts))!r}. They are treated as "
        "categories, most of which do not occur in new rows. If they are numbers or "
        "dates, convert the column, for instance with pandas.to_numeric after removing "
        "units, currency symbols and thousands separators. Otherwise, use the type "
        "category, or drop the column if it only identifies the rows.",
        ColumnWarning,
    )


def _as_number(value: Any) -> float | None:
    """Return the number that a text contains, or None."""
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str) and not _NUMBER.fullmatch(value):
        return None
    if isinstance(value, str) and _LEADING_ZERO.match(value):
        return None
    return float(value)


def _as_date(value: Any, form: str) -> datetime.datetime | None:
    """Return the date that a text contains in a given format, or None."""
    try:
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        value = value.strip()
        if form != _ISO:
            return datetime.datetime.strptime(value, form)
        found = datetime.datetime.fromisoformat(value)
        if found.tzinfo is not None:
            found = found.astimezone(datetime.UTC).replace(tzinfo=None)
        return found
    except (ValueError, AttributeError, OverflowError):
        return None


def _of_text(value: Any, form: str) -> float | None:
    """Return a number, or a date in days since 1970, that a text contains."""
    if not form:
        return _as_number(value)
    found = _as_date(value, form)
    return None if found is None else (np.datetime64(found, "us") - _EPOCH) / _DAY


def _has_dates(column: Any) -> bool | None:
    """Return whether a column has dates or durations, or None without values."""
    kind = getattr(column.dtype, "kind", "O")
    if kind in "mM":
        return None if np.isnat(column).all() else True
    if kind in "biuf":
        return None if np.isnan(np.asarray(column, np.float64)).all() else False
    if str(column.dtype) == "category":
        column = column.cat.categories if hasattr(column, "cat") else column.categories
        return getattr(column.dtype, "kind", "O") in "mM" if len(column) else None
    kinds = {*map(type, np.asarray(column, dtype=object).tolist())}
    found = {kind_of(kind) for kind in kinds} - {"missing"}
    if not found - {"number"}:  # NaN is a float
        return None
    return "date" in found and not any(issubclass(k, datetime.time) for k in kinds)


def _refuse_other_kind(before: str, now: str, name: Any) -> None:
    """Raise TypeError if dates, durations, times or numbers replace each other."""
    if before != now:
        raise TypeError(
            f"Column {name!r} of X contained {_SHOWN[before]} when the model was "
            f"fitted, but now contains {_SHOWN[now]}. Convert them to the type of the "
            "training data."
        )


def _numbers(column: Any, name: Any, kind: str, form: str | None) -> np.ndarray:
    """Return the numbers of a column, with dates as days and missing values as NaN."""
    values = np.asarray(column)
    if values.dtype.kind in "mM":
        now = DURATION if values.dtype.kind == "m" else DATE
        if not np.isnat(values).all():
            _refuse_other_kind(kind, now, name)
        return _days(values)
    if values.dtype.kind in "biuf":
        values = values.astype(np.float64)
        if kind != NUMBER and not np.isnan(values).all():
            _refuse_other_kind(kind, NUMBER, name)
        return values
    missing = np.array([is_missing(value) for value in values.tolist()], bool)
    numbers, known = np.full(len(values), np.nan), values[~missing].tolist()
    kinds = {_kind_of_values(each) for each in set(map(type, known))}
    texts = "string" in kinds and kinds <= {"string", NUMBER}
    if texts and (form is not None or kind == DATE):
        form = _ISO if form is None else form
        read = {value: _of_text(value, form) for value in {*known}}
        other = [value for value in known if read[value] is None]
        numbers[~missing] = [np.nan if (v := read[k]) is None else v for k in known]
        if other and (form != "" and len(other) == len(known)):
            raise ValueError(
                f"Column {name!r} of X contained {_SHOWN[kind]} when the model was "
                f"fitted, but now contains other text, such as {other[0]!r}."
            )
        return numbers
    for now in kinds & {DATE, DURATION, TIME, NUMBER}:
        _refuse_other_kind(kind, now, name)
    if kind == TIME:
        numbers[~missing] = [_share_of_day(value) for value in known]
        return numbers
    if kind in {DATE, DURATION}:
        numbers[~missing] = _days(_as_dates(known, name))
        return numbers
    try:
        numbers[~missing] = np.array(known, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"Column {name!r} of X contained numbers when the model was fitted, but "
            f"now contains other values ({error}). Convert them to numbers or to "
            "missing values, or fit the model to a column of categories."
        ) from error
    return numbers


def _share_of_day(time: datetime.time) -> float:
    """Return the proportion of the day that has passed."""
    seconds = 3600 * time.hour + 60 * time.minute + time.second
    return (seconds + time.microsecond / 1e6) / 86400


def _as_dates(values: list[Any], name: Any) -> np.ndarray:
    """Convert a list of objects to an array of dates or of durations."""
    durations = any(isinstance(value, _DURATIONS) for value in values)
    # the start of a period of pandas
    values = [getattr(value, "start_time", value) for value in values]
    try:
        with warnings.catch_warnings():
            # NumPy warns about dropped time zones, but converts to UTC first
            warnings.simplefilter("ignore")
            return np.array(values, dtype="m8[us]" if durations else "M8[us]")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Column {name!r} of X contains dates or times of different types "
            f"({error}). Convert them to dates."
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
    if kind in "mM":
        return _codes_of_dates(values)
    values = values.astype(object).tolist()
    if any(issubclass(each, _DATES) for each in {*map(type, values)}):
        found = [None if is_missing(value) else value for value in values]
        if all(value is None or isinstance(value, _DATES) for value in found):
            with suppress(ValueError):  # months have no length in microseconds
                return _codes_of_dates(_as_dates(found, None))
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
    if isinstance(value, _DATES) and not is_missing(value):
        with suppress(ValueError):  # months have no length in microseconds
            return float(_codes_of_dates(_as_dates([value], None))[0])
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    if isinstance(value, str):
        value = _same_value(value)
    if is_missing(value):
        return np.nan
    kind = kind_of(type(value))
    # different integers beyond this limit can be equal as floats
    exact = kind != "integer" or abs(value) <= _LARGEST_WHOLE
    if exact and kind in ("boolean", "integer", "number"):
        return float(value)
    return _hash(str(value))


def _codes_of_dates(values: np.ndarray) -> np.ndarray:
    """Return hashes of dates or durations, which do not depend on their precision."""
    unit = f"{values.dtype.kind}8[us]"
    # the finaliser of SplitMix64, which is invertible before bits are dropped
    codes = values.astype(unit).view(np.int64).astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        codes = (codes ^ (codes >> np.uint64(shift))) * np.uint64(factor)
    found = (codes >> np.uint64(12)).astype(np.float64)
    found[np.isnat(values)] = np.nan
    return found


def _hash(text: str) -> float:
    """Return a hash with 52 bits, which float64 represents exactly."""
    high, low = (murmurhash3_32(text, seed, positive=True) for seed in (0, 1))
    return float(high * 2**20 + low % 2**20)


def _same_value(text: str) -> Any:
    """Return the number or boolean that a text represents exactly, or the text.

    Hence categories are equal if their values are, whether or not they are text.
    """
    if text in {"True", "False"}:
        return text == "True"
    if _NUMBER.fullmatch(text):
        number = float(text)
        if text in {repr(number), str(int(number)) if number.is_integer() else ""}:
            return number if abs(number) <= _LARGEST_WHOLE else text
    return text
