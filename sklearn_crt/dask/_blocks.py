"""Blocks of rows of a collection of Dask, with the targets and weights beside them."""

from __future__ import annotations

import math
from typing import Any

import dask
import dask.array as da
import numpy as np

from .._lazy import is_lazy

_SECTION = 2**40  # rows: more than a block has


def is_frame(table: Any) -> bool:
    """Return whether a collection consists of DataFrames or Series."""
    return hasattr(table, "map_partitions") and hasattr(table, "divisions")


class Blocks:
    """Blocks of rows of a table, with what belongs to them.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        The rows. Blocks of columns are joined.
    y, sample_weight : dask collection, array-like or None
        Cut as X is.

    Raises
    ------
    TypeError
        If X is no collection of Dask.
    ValueError
        If the parts of X and y cannot be brought together.
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None):
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
        frames = all(map(is_frame, tables.values()))
        self._parts = None if frames else _delayed(tables)

    def starts(self, n_blocks: int) -> list[int]:
        """Return the number of rows before each block.

        Parameters
        ----------
        n_blocks : int
            Number of blocks: for the columns of a file that are asked for Dask may
            join some.

        Returns
        -------
        starts : list of int
            Where the lengths are not known, numbers that leave room for them.
        """
        if self._sizes is None or any(map(math.isnan, self._sizes)):
            return [i * _SECTION for i in range(n_blocks)]
        return np.cumsum([0, *self._sizes[:-1]]).tolist()

    def select(self, *names: str) -> list[Any]:
        """Return some of the tables, block by block.

        Parameters
        ----------
        *names : {"X", "y", "sample_weight"}
            Which of them.

        Returns
        -------
        blocks : list
            Each computes to a tuple with one block of each table, None where there is
            no such table.
        """
        if self._parts is not None:
            missing = [None] * len(self._parts["X"])
            return list(zip(*(self._parts.get(name, missing) for name in names)))
        # one expression: columns that nothing asks for are not read from a file
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
    """Return a collection of Dask whose blocks hold whole rows, or raise TypeError."""
    if not is_lazy(X):
        raise TypeError(
            f"sklearn_crt.dask takes Dask arrays and DataFrames, got {type(X)}. For a "
            "table in memory call the method of the estimator itself, or make one of "
            "it: dask.array.from_array(X)."
        )
    if is_frame(X):
        return X
    if getattr(X, "ndim", None) != 2:
        raise ValueError(
            "X must have two axes, rows and columns, but is "
            f"{type(X).__name__} with {getattr(X, 'ndim', 'no')} of them."
        )
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _beside(X, sizes, table, name):
    """Return a table in blocks of the rows of X."""
    if not is_lazy(table):
        if sizes is None or any(map(math.isnan, sizes)):
            raise ValueError(
                f"{name} is in memory, and the blocks of X have unknown lengths: give "
                f"{name} as a collection of Dask, or call X.compute_chunk_sizes()."
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
    """Return the blocks of each table, arrays among them optimised together.

    So what they share, as with targets that follow from the rows, is computed once.
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
        f"X has {n_blocks} blocks and {name} {n_others}, of unknown lengths: take both "
        "from one DataFrame, or call compute_chunk_sizes() on both."
    )
