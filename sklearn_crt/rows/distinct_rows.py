"""The distinct rows of a table."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy import sparse

from ..arrays.validation import plain_sparse
from .inputs import Rows


def distinct_rows(
    rows: Rows, y: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each group of equal rows, and the group of each row.

    Groups have the order of their first rows. If targets are given, rows count as equal
    only if their targets are equal, too.
    """
    # y (n_rows,) or (n_rows, n_outputs) -> (n_distinct,), (n_rows,)
    if y is not None:
        _, places = distinct_rows(rows)
        return distinct_rows(np.column_stack([places, y]))
    if sparse.issparse(rows):
        table = plain_sparse(rows).copy()
        table.eliminate_zeros()
        table.sort_indices()
        bounds = [*pairwise(table.indptr.tolist())]
        parts = table.indices, table.data
        contents = [b"".join(part[i:j].tobytes() for part in parts) for i, j in bounds]
        groups = {content: k for k, content in enumerate(dict.fromkeys(contents))}
        keys = np.array([groups[content] for content in contents])
    else:
        table = np.add(rows, 0.0, dtype=np.float64, order="C")  # no -0.0
        keys = table.view(np.dtype((np.void, 8 * table.shape[1]))).ravel()
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return first[order], ranks[places]
