"""A warning about rows that were repeated on purpose, for instance by oversampling."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._compat import warn
from ..rows.distinct_rows import distinct_rows

_MANY = 0.1  # proportion of rows that repeat another row
_DISTINCT = 0.5  # proportion of distinct values in a column
_FEWEST = 20  # tables with fewer rows are not checked
_SAMPLED = 1000  # number of rows from which the column is chosen


def warn_of_repeated_rows(X: Any, y: Any, name: str) -> None:
    """Warn if many rows repeat another row together with its target.

    In a table of categories or counts, equal rows are independent observations. If most
    values of a column are distinct, rows are equal only if they have been repeated.
    Models that predict each row from the others then seem too accurate. ``name`` is the
    name of the estimator. Sparse matrices and other libraries are not checked.
    """
    # X (n_rows, n_features), y (n_rows,) or (n_rows, n_outputs)
    if not isinstance(X, np.ndarray) or not isinstance(y, np.ndarray):
        return
    n_rows = len(X)
    if n_rows < _FEWEST:
        return
    few = X[:: max(1, n_rows // _SAMPLED)]
    column = X[:, np.argmax([np.unique(values).size for values in few.T])]
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[places] > 1)
    if len(shared) < _MANY * n_rows or counts.size < 2:
        return
    first, _ = distinct_rows(X[shared], y[shared])
    n_repeated = len(shared) - len(first)
    if n_repeated < _MANY * n_rows:
        return
    if counts.size < _DISTINCT * (n_rows - n_repeated):
        return
    warn(
        f"{n_repeated} of {n_rows} rows repeat another row together with its target. "
        f"{name} chooses its parameters by predicting each row from all others, so it "
        "would judge itself too well. Fit it to the rows without repetitions; to give "
        "some of them more weight, use class_weight or sample_weight.",
        UserWarning,
    )
