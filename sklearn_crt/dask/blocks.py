"""Lazy blocks of the rows of Dask collections, and sums over them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any, NamedTuple

import dask
import dask.array as da
import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from ..arrays.threads import blas_for_fit
from ..arrays.validation import is_lazy
from ..rows import plain_targets

_BRANCHES = 8  # number of parts that a single task adds up


def is_frame(table: Any) -> bool:
    """Return whether a collection is a Dask DataFrame or Series."""
    return hasattr(table, "map_partitions") and hasattr(table, "divisions")


def check_lazy(X: Any) -> None:
    """Raise TypeError if a table is not a collection of Dask."""
    if not is_lazy(X):
        raise TypeError(
            f"sklearn_crt.dask requires Dask arrays or DataFrames, got {type(X)}. For "
            "data in memory, call the method of the estimator itself, or convert the "
            "data with dask.array.from_array(X)."
        )


def artificial_rows(X: Any) -> Any:
    """Return two rows in memory, with the columns and types of a collection."""
    return X._meta_nonempty if is_frame(X) else np.ones((2, *X.shape[1:]), X.dtype)


class Block(NamedTuple):
    """A block of rows in memory."""

    X: Any  # (n_rows, n_features)
    y: Any  # (n_rows,) or (n_rows, n_outputs), or None
    sample_weight: np.ndarray | None  # (n_rows,)
    total_weight: np.ndarray | None  # (n_rows,), including class weights

    @classmethod
    def of(cls, *tables: Any, names: list[str], class_weight: Any) -> Block:
        """Return the block of collections with the given names."""
        given = dict(zip(names, tables, strict=True))
        y, weights = plain_targets(given.get("y")), given.get("sample_weight")
        total = weights = None if weights is None else np.asarray(weights)
        if isinstance(class_weight, dict):
            total = compute_sample_weight(class_weight, y)
            total = total if weights is None else total * weights
        return cls(given["X"], y, weights, total)

    @property
    def n_rows(self) -> int:
        """Number of rows with positive weight."""
        weights = self.total_weight
        return self.X.shape[0] if weights is None else int(np.count_nonzero(weights))


def row_blocks(
    X: Any, y: Any, sample_weight: Any, class_weight: Any
) -> list[tuple[int, Any]]:
    """Return lazy blocks with rows, and the number of rows before each of them.

    Only rows with positive weight count. Counting takes an additional pass if there are
    weights, or if the lengths of the blocks are unknown.
    """
    check_lazy(X)
    given = {"X": X, "y": y, "sample_weight": sample_weight}
    given = {name: table for name, table in given.items() if table is not None}
    options = {"names": list(given), "class_weight": class_weight}
    # In a single expression, so that targets that are computed from the rows share
    # their work, and because Dask may join the parts of a file differently for each.
    if is_frame(X):
        for name, table in given.items():
            if not is_frame(table) or table.npartitions != X.npartitions:
                raise ValueError(
                    f"X is a Dask DataFrame of {X.npartitions} partitions, but {name} "
                    "is not. Take both from one DataFrame, or pass arrays, such as "
                    "X.to_dask_array(lengths=True)."
                )
        options |= {"enforce_metadata": False, "align_dataframes": False}
        _, *others = given.values()
        lazily = X.map_partitions(Block.of, *others, meta=(None, object), **options)
    else:
        pairs: list[Any] = []
        for number, table in enumerate(given.values()):
            table = table.to_dask_array() if is_frame(table) else da.asarray(table)
            pairs += [table, (0, number + 1)[: table.ndim]]
        options |= {"dtype": object, "meta": np.empty(0, object)}
        lazily = da.blockwise(Block.of, (0,), *pairs, concatenate=True, **options)
    blocks = lazily.to_delayed()
    has_weights = sample_weight is not None or class_weight is not None
    sizes = [math.nan] if has_weights or is_frame(X) else lazily.chunks[0]
    if any(map(math.isnan, sizes)):
        sizes = dask.compute(*(block.n_rows for block in blocks))
    starts = np.cumsum([0, *sizes[:-1]]).tolist()
    triples = zip(starts, blocks, sizes, strict=True)
    found = [(start, block) for start, block, size in triples if size]
    if not found:
        raise ValueError(
            "Found array with 0 sample(s): blocks are empty, or weights are zero."
        )
    return found


def total(
    blocks: list[tuple[int, Any]],
    function: Callable[..., Any],
    *shared: Any,
    add: Callable[[Any, Any], Any],
) -> Any:
    """Return the lazy sum of ``function(*shared, n_before, block)`` over the blocks.

    Parts are added in a tree of fixed order, so that rounding does not depend on which
    worker is the fastest.
    """
    call, merge = (dask.delayed(each, pure=False) for each in (_of_block, reduce))
    # sent to each worker once
    once = dask.delayed((function, shared), pure=False, traverse=False)
    parts = [call(once, *block) for block in blocks]
    while len(parts) > 1:
        groups = range(0, len(parts), _BRANCHES)
        parts = [merge(add, parts[i : i + _BRANCHES]) for i in groups]
    return parts[0]


def _of_block(task, n_before, block):
    function, shared = task
    return blas_for_fit(block.n_rows)(function, *shared, n_before, block)
