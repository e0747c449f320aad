"""Lazy blocks of the rows of Dask collections."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import dask
import dask.array as da
import numpy as np

from ..arrays.validation import is_lazy
from ..rows import plain_targets

_BRANCHES = 8  # number of parts that a single task adds up


def is_frame(table: Any) -> bool:
    """Return whether a collection is a Dask DataFrame or Series."""
    return hasattr(table, "map_partitions") and hasattr(table, "divisions")


def as_rows(X: Any) -> Any:
    """Check that a collection is lazy, and return it with all columns in each block."""
    if not is_lazy(X):
        raise TypeError(
            f"sklearn_crt.dask requires Dask arrays or DataFrames, got {type(X)}. For "
            "data in memory, call the method of the estimator itself, or convert the "
            "data with dask.array.from_array(X)."
        )
    if getattr(X, "ndim", None) != 2:
        raise ValueError(
            f"X must have two dimensions, rows and columns, got a {type(X).__name__} "
            f"with ndim={getattr(X, 'ndim', None)}."
        )
    if is_frame(X) or X.numblocks[1] == 1:
        return X
    if math.isnan(X.shape[1]):
        raise ValueError(
            "X has an unknown number of columns. Call X.compute_chunk_sizes() first."
        )
    return X.rechunk({1: -1})


def declared_columns(table: Any) -> Any:
    """Return the names of the columns that a collection declares, or their number."""
    if getattr(table, "ndim", 1) < 2:
        return None
    return list(table.columns) if is_frame(table) else int(table.shape[1])


def check_columns(block: Any, name: str, declared: Any, number: int) -> None:
    """Raise ValueError if the columns of a block differ from the declared columns."""
    if declared is None:
        return
    if isinstance(declared, list):
        found: Any = list(getattr(block, "columns", []))
    else:
        found = block.shape[1] if block.ndim > 1 else 0
    if found != declared:
        texts = [
            f"the columns {each}" if isinstance(each, list) else f"{each} columns"
            for each in (found, declared)
        ]
        raise ValueError(
            f"Block {number} of {name} has {texts[0]}, but {name} declares {texts[1]}. "
            "Give all blocks the same columns in the same order, for instance with "
            f"{name}.map_partitions(lambda part: part[list({name}.columns)])."
        )


@dataclass(frozen=True)
class Blocks:
    """The blocks of a table with its targets and weights, and their positions."""

    tables: list[Any]  # lazy tuples (X, y, sample_weight), None for what is not given
    starts: list[int]  # number of rows with positive weight in the preceding blocks

    @classmethod
    def of(cls, X: Any, y: Any = None, sample_weight: Any = None) -> Blocks:
        """Return the blocks of collections, whose columns are checked when computed.

        Rows are counted by an additional pass if there are weights, or if the lengths
        of the blocks are unknown.
        """
        X = as_rows(X)
        given = {"X": X, "y": y, "sample_weight": sample_weight}
        given = {
            name: _in_blocks_of(X, table, name)
            for name, table in given.items()
            if table is not None
        }
        declared = {name: declared_columns(table) for name, table in given.items()}
        checked = dask.delayed(_checked, pure=False)
        parts = enumerate(_joined(given))
        tables = [checked(part, declared, number) for number, part in parts]
        if "sample_weight" in given or _has_unknown_lengths(X):
            count = dask.delayed(_n_with_weight, pure=False)
            sizes = dask.compute(*map(count, tables))
        else:
            sizes = X.chunks[0]
        return cls(tables, np.cumsum([0, *sizes[:-1]]).tolist())

    def transformed(self, transformer: Any) -> Blocks:
        """Return the blocks after a fitted transformer has been applied to the rows."""
        call = dask.delayed(_transformed, pure=False)
        once = dask.delayed(transformer, pure=False, traverse=False)
        return replace(self, tables=[call(once, table) for table in self.tables])

    def total(
        self, function: Callable[..., Any], *shared: Any, add: Callable[..., Any]
    ) -> Any:
        """Return the lazy sum of ``function(*shared, n_before, X, y, weights)``.

        Parts are added in a tree of fixed order. Blocks without rows with positive
        weight are skipped; the sum is None if there are no others.
        """
        call = dask.delayed(_of_block, pure=False)
        once = dask.delayed((function, shared), pure=False, traverse=False)
        pairs = zip(self.starts, self.tables, strict=True)
        parts: Sequence[Any] = [call(once, *pair) for pair in pairs]
        merge = dask.delayed(_sum, pure=False)
        while len(parts) > 1:
            groups = range(0, len(parts), _BRANCHES)
            parts = [merge(add, list(parts[i : i + _BRANCHES])) for i in groups]
        return parts[0]


def _in_blocks_of(X: Any, table: Any, name: str) -> Any:
    """Return a collection, split into the same row blocks as X if possible."""
    if table is X:
        return X
    unknown = _has_unknown_lengths(X)
    if not is_lazy(table):
        if unknown:
            raise ValueError(
                f"{name} is in memory, and the blocks of X have unknown lengths. Pass "
                f"{name} as a Dask collection, or call X.compute_chunk_sizes()."
            )
        table = da.from_array(np.asarray(table), chunks=-1)
    elif is_frame(table) and not is_frame(X):
        table = table.to_dask_array()
    if is_frame(table):
        return table
    if table.ndim == 2:
        table = table.rechunk({1: -1})
    if unknown or _has_unknown_lengths(table):
        return table
    if table.shape[0] != X.shape[0]:
        raise ValueError(f"X has {X.shape[0]} rows, but {name} has {table.shape[0]}.")
    return table.rechunk({0: X.chunks[0]})


def _has_unknown_lengths(table: Any) -> bool:
    return is_frame(table) or any(map(math.isnan, table.chunks[0]))


def _joined(given: dict[str, Any]) -> list[Any]:
    """Return a dictionary of the parts of all collections for each block, lazily.

    Collections are optimised together, so that shared work is done only once, for
    instance if targets are computed from the rows.
    """
    names = list(given)
    if all(map(is_frame, given.values())):
        # in a single expression, because Dask may join the parts of a file differently
        # for each expression
        _check_counts({name: table.npartitions for name, table in given.items()})
        first, *others = given.values()
        together = first.map_partitions(
            _named,
            *others,
            names=names,
            meta=(None, object),
            enforce_metadata=False,
            align_dataframes=False,
        )
        return list(together.to_delayed())
    arrays = {name: table for name, table in given.items() if not is_frame(table)}
    arrays = dict(zip(arrays, dask.optimize(*arrays.values()), strict=True))
    parts = {}
    for name, table in given.items():
        if name in arrays:
            blocks = arrays[name].to_delayed(optimize_graph=False)
            parts[name] = list(np.ravel(blocks))
        else:
            parts[name] = list(table.to_delayed())
    _check_counts({name: len(blocks) for name, blocks in parts.items()})
    return [dict(zip(names, block, strict=True)) for block in zip(*parts.values())]


def _check_counts(counts: dict[str, int]) -> None:
    for name, count in counts.items():
        if count != counts["X"]:
            raise ValueError(
                f"X has {counts['X']} blocks and {name} {count}, of unknown lengths. "
                "Take both from one DataFrame, or call compute_chunk_sizes() on both."
            )


# ------------------------------------------------------------ computed by the workers
def _named(*parts, names):
    return dict(zip(names, parts, strict=True))


def _checked(part, declared, number):
    for name, table in part.items():
        check_columns(table, name, declared[name], number)
    weights = part.get("sample_weight")
    weights = None if weights is None else np.asarray(weights)
    return part["X"], plain_targets(part.get("y")), weights


def _n_with_weight(table):
    X, _, weights = table
    return X.shape[0] if weights is None else np.count_nonzero(weights)


def _transformed(transformer, table):
    X, *rest = table
    return (transformer.transform(X) if X.shape[0] else X, *rest)


def _of_block(task, n_before, table):
    function, shared = task
    X, _, weights = table
    if X.shape[0] == 0 or (weights is not None and not weights.any()):
        return None
    return function(*shared, n_before, *table)


def _sum(add, parts):
    total = None
    for part in parts:
        if total is None:
            total = part
        elif part is not None:
            total = add(total, part)
    return total
