"""Row blocks of Dask collections: sums over blocks, and methods applied to them."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from ..arrays.validation import is_lazy
from ..rows import plain_targets

_SECTION = 2**40  # more rows than any block has
_BRANCHES = 8  # number of parts that a single task adds up


def is_frame(table: Any) -> bool:
    """Return whether a collection is a Dask DataFrame or Series."""
    return hasattr(table, "map_partitions") and hasattr(table, "divisions")


@dataclass(frozen=True)
class Layout:
    """The columns that blocks must have, and transformers to apply to them first."""

    columns: dict[str, Any]  # column names of each table, or their number
    ahead: Sequence[Any] = ()  # fitted transformers

    def read(self, number: int, **tables: Any) -> Any:
        """Return the transformed rows of a block, after checking its columns."""
        for name, table in tables.items():
            if table is not None:
                check_columns(table, name, self.columns[name], number)
        X = tables["X"]
        for transformer in self.ahead if X.shape[0] else ():
            X = transformer.transform(X)
        return X


def declared_columns(table: Any) -> Any:
    """Return the names of the columns that a collection declares, or their number."""
    if getattr(table, "ndim", 1) < 2:
        return None
    return list(table.columns) if is_frame(table) else int(table.shape[1])


def check_columns(block: Any, name: str, expected: Any, number: int) -> None:
    """Raise ValueError if the columns of a block differ from the declared columns."""
    if expected is None:
        return
    if isinstance(expected, int):
        n_columns = block.shape[1] if block.ndim > 1 else 0
        if n_columns == expected:
            return
        found, declared = f"shape {tuple(block.shape)}", f"{expected} columns"
        mend = "Give all blocks as many columns as the array declares."
    else:
        columns = list(block.columns) if hasattr(block, "columns") else []
        if columns == expected:
            return
        found, declared = f"the columns {columns}", f"{expected}, in this order"
        mend = (
            f"Give all partitions the same columns: {name}.map_partitions(lambda part: "
            f"part[list({name}.columns)])."
        )
    raise ValueError(
        f"Block {number} of {name} has {found}, but {name} declares {declared}. {mend}"
    )


class Blocks:
    """Blocks of rows, with their targets and weights."""

    def __init__(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        ahead: Sequence[Any] = (),
    ):
        X = as_rows(X)
        sizes = None if is_frame(X) else X.chunks[0]
        tables: dict[str, Any] = {"X": X}
        for name, table in (("y", y), ("sample_weight", sample_weight)):
            if table is not None:
                tables[name] = _beside(X, sizes, table, name)
        n_blocks = _n_blocks(X)
        for name, table in tables.items():
            if _n_blocks(table) != n_blocks:
                raise _unlike(n_blocks, name, _n_blocks(table))
        self._tables, self._sizes = tables, sizes
        columns = {name: declared_columns(table) for name, table in tables.items()}
        layout = Layout(columns, tuple(ahead))
        self.layout = dask.delayed(layout, pure=False, traverse=False)
        frames = all(map(is_frame, tables.values()))
        self._parts = None if frames else _delayed(tables)

    def starts(self, n_blocks: int) -> list[Any]:
        """Return the number of rows before each block, or a bound if it is unknown.

        Rows without weight do not count. If there are weights, the numbers are lazy.
        """
        if "sample_weight" in self._tables:
            count, starts = dask.delayed(_n_with_weight, pure=False), [0]
            for table in self.select("sample_weight")[:-1]:
                starts.append(count(starts[-1], table))
            return starts
        if self._sizes is None or any(map(math.isnan, self._sizes)):
            return [i * _SECTION for i in range(n_blocks)]
        return np.cumsum([0, *self._sizes[:-1]]).tolist()

    def select(self, *names: str) -> list[Any]:
        """Return the blocks of the collections with the given names."""
        if self._parts is not None:
            missing = [None] * len(self._parts["X"])
            return list(zip(*(self._parts.get(name, missing) for name in names)))
        # in a single expression, Dask reads only those columns of a file that are used
        present = [self._tables[name] for name in names if name in self._tables]
        found = [name in self._tables for name in names]
        together = present[0].map_partitions(
            _together,
            *present[1:],
            found=found,
            meta=(None, object),
            enforce_metadata=False,
            align_dataframes=False,
        )
        return list(together.to_delayed())


def as_rows(X: Any) -> Any:
    """Check that a collection is lazy, and return it with all columns in each block.

    If the columns of an array are split into several blocks, they are joined.
    """
    if not is_lazy(X):
        raise TypeError(
            f"sklearn_crt.dask takes Dask arrays and DataFrames, got {type(X)}. For a "
            "table in memory call the method of the estimator itself, or convert the "
            "table with dask.array.from_array(X)."
        )
    if is_frame(X) and getattr(X, "ndim", None) == 2:
        return X
    if getattr(X, "ndim", None) != 2:
        raise ValueError(
            "X must have two axes, rows and columns, but is "
            f"{type(X).__name__} with {getattr(X, 'ndim', 'no')} of them."
        )
    if math.isnan(X.shape[1]):
        raise ValueError(
            "X has an unknown number of columns: call X.compute_chunk_sizes() first."
        )
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _n_with_weight(n_before, table):
    return n_before + np.count_nonzero(np.asarray(table[0]))


def _beside(X, sizes, table, name):
    """Return a collection, split into the same row blocks as X if possible."""
    if not is_lazy(table):
        if sizes is None or any(map(math.isnan, sizes)):
            raise ValueError(
                f"{name} is in memory, and the blocks of X have unknown lengths. Pass "
                f"{name} as a Dask collection, or call X.compute_chunk_sizes()."
            )
        table = np.asarray(table)
        chunks = (sizes, *((n,) for n in table.shape[1:]))
        return da.from_array(table, chunks=chunks)
    if is_frame(table):
        if is_frame(X):
            return table
        table = table.to_dask_array()
    if table.ndim == 2:
        table = table.rechunk({1: -1})
    known = sizes is not None and not any(map(math.isnan, sizes + table.chunks[0]))
    if known and table.shape[0] != sum(sizes):
        raise ValueError(f"X has {sum(sizes)} rows, but {name} has {table.shape[0]}.")
    return table.rechunk({0: sizes}) if known else table


def _n_blocks(table):
    return table.npartitions if is_frame(table) else table.numblocks[0]


def _together(*parts, found):
    rest = iter(parts)
    return tuple(next(rest) if there else None for there in found)


def _delayed(tables):
    """Return the blocks of each table as delayed objects.

    Arrays are optimised together, so that shared work is done only once, for instance
    if targets are computed from the rows.
    """
    arrays = {name: table for name, table in tables.items() if not is_frame(table)}
    arrays = dict(zip(arrays, dask.optimize(*arrays.values()), strict=True))
    parts = {}
    for name, table in tables.items():
        if name in arrays:
            blocks = arrays[name].to_delayed(optimize_graph=False)
            parts[name] = list(np.ravel(blocks))
        else:
            parts[name] = list(table.to_delayed())
        if len(parts[name]) != len(parts["X"]):
            raise _unlike(len(parts["X"]), name, len(parts[name]))
    return parts


def _unlike(n_blocks, name, n_others):
    return ValueError(
        f"X has {n_blocks} blocks and {name} {n_others}, of unknown lengths. Take both "
        "from one DataFrame, or call compute_chunk_sizes() on both."
    )


def tree_sum(add: Callable[[Any, Any], Any], parts: Sequence[Any]) -> Any:
    """Return the lazy sum of parts, each of which may be None."""
    merge = dask.delayed(_add_all, pure=False)
    while len(parts) > 1:
        groups = range(0, len(parts), _BRANCHES)
        parts = [merge(add, list(parts[i : i + _BRANCHES])) for i in groups]
    return parts[0]


def _add_all(add, parts):
    total = None
    for part in parts:
        if total is None:
            total = part
        elif part is not None:
            total = add(total, part)
    return total


@dataclass(frozen=True)
class FittedPart:
    """The value fitted to some blocks, and attributes that describe their rows."""

    value: Any
    noted: dict[str, Any]

    def __add__(self, other: FittedPart) -> FittedPart:
        """Return the value fitted to the blocks of both parts."""
        return FittedPart(self.value + other.value, self.noted)


class Block(NamedTuple):
    """The rows of a block, with their targets and weights."""

    X: Any
    y: Any
    weights: Any
    number: int
    # number of rows with weight in the preceding blocks, or an upper bound
    n_before: int


def sum_over_blocks(
    blocks: Blocks,
    function: Callable[..., Any],
    *shared: Any,
    names: Sequence[str] = ("X", "y", "sample_weight"),
) -> Any:
    """Return the lazy sum of ``function(*shared, block)`` over the blocks.

    Blocks without rows are skipped. ``names`` lists the collections to read.
    """
    call = dask.delayed(_of_block, pure=False)
    once = [dask.delayed(value, pure=False, traverse=False) for value in shared]
    tables = blocks.select(*names)
    pairs = zip(blocks.starts(len(tables)), tables, strict=True)
    parts = [
        call(function, once, blocks.layout, names, number, *pair)
        for number, pair in enumerate(pairs)
    ]
    return tree_sum(operator.add, parts)


def _of_block(function, shared, layout, names, number, n_before, table):
    given = dict(zip(names, table, strict=True))
    y, weights = given.get("y"), given.get("sample_weight")
    X = layout.read(number, X=given["X"], y=y)
    weights = None if weights is None else np.asarray(weights)
    if X.shape[0] == 0 or (weights is not None and not weights.any()):
        return None
    return function(*shared, Block(X, plain_targets(y), weights, number, n_before))


def map_rows(method: Any, X: Any) -> Any:
    """Apply a method of a fitted estimator to the rows of a Dask collection, lazily.

    Use it to compute features or predictions for tables that do not fit into memory.

    Parameters
    ----------
    method : callable
        Method that takes rows and returns one row or one number per input row, such as
        ``sampler.transform`` or ``model.predict_proba``. Its estimator is sent to each
        worker once.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Input rows. Columns that are split into several blocks are joined. Nothing is
        computed by this call.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, ...)
        Lazy array of the results, with the correct shape and dtype, in the same blocks
        of rows as X. If the lengths of the blocks are known, blocks whose results would
        exceed Dask's ``array.chunk-size`` (128 MiB) are split first.

    Raises
    ------
    TypeError
        If X is in memory, or if the method returns several arrays.
    ValueError
        If the columns of a block differ from those that X declares; this is checked
        when the block is computed.

    See Also
    --------
    fit : Fit an estimator to Dask collections.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt import dask as crt_dask
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(1000, 2))
    >>> sampler = crt_dask.fit(OPRFSampler(n_components=64, random_state=0), X)
    >>> Z = crt_dask.map_rows(sampler.transform, X)
    >>> Z.shape, Z.chunksize, Z.dtype
    ((10000, 64), (1000, 64), dtype('float64'))
    >>> Z[:3].compute().shape
    (3, 64)
    """
    X = as_rows(X)
    probe = _probe(method, X)
    owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
    if owner is None:
        owner, name = method, "__call__"
    owner = dask.delayed(owner, pure=False, traverse=False)
    empty, columns = probe[:0], declared_columns(X)
    if is_frame(X):
        call = dask.delayed(_call, pure=False)
        shape = (math.nan, *empty.shape[1:])
        parts = [
            da.from_delayed(
                call(part, owner, name, empty, columns, number), shape, meta=empty
            )
            for number, part in enumerate(X.to_delayed())
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)
    X = _split(X, empty)
    return da.map_blocks(
        _call,
        X,
        owner,
        name,
        empty,
        columns,
        meta=empty,
        dtype=empty.dtype,
        drop_axis=[1] if empty.ndim == 1 else None,
        new_axis=[2] if empty.ndim == 3 else None,  # additional axis of slopes
        chunks=(X.chunks[0], *((n,) for n in empty.shape[1:])),
    )


def _probe(method, X):
    """Return a method's result for two artificial rows with the dtypes of X."""
    if is_frame(X):
        rows = X._meta_nonempty
    else:
        rows = np.ones((2, X.shape[1]), X.dtype)
    with warnings.catch_warnings():
        # warnings about artificial rows would be misleading
        warnings.simplefilter("ignore")
        found = method(rows)
    if isinstance(found, tuple):
        raise TypeError(
            f"map_rows takes methods that return one array, and {method.__name__} "
            f"returns {len(found)}. Select one of them: lambda rows: "
            f"estimator.{method.__name__}(rows)[0]."
        )
    return np.asarray(found)


def _split(X, empty):
    """Split X such that results of blocks do not exceed Dask's maximum chunk size."""
    most = parse_bytes(dask.config.get("array.chunk-size", "128MiB"))
    width = math.prod(empty.shape[1:]) * empty.dtype.itemsize
    size = max(1, most // max(width, 1))
    sizes = X.chunks[0]
    if any(map(math.isnan, sizes)) or max(sizes, default=0) <= size:
        return X
    chunks = []
    for n in sizes:
        n_parts = max(1, math.ceil(n / size))
        chunks += [n // n_parts + (i < n % n_parts) for i in range(n_parts)]
    return X.rechunk({0: tuple(chunks)})


def _call(X, owner, name, empty, columns, number=None, block_info=None):
    if block_info:
        number = block_info[0]["chunk-location"][0]
    check_columns(X, "X", columns, number)
    if X.shape[0] == 0:
        return empty
    return np.asarray(getattr(owner, name)(X))
