"""What is computed from the features of new rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from ..rows import Rows
from ..sums.map_sums import check_n_columns
from ._feature_chunks import by_threads, chunks_of
from ._ridge_solution import Solution


def unexplained(solution: Solution, rows: Rows) -> np.ndarray | float:
    """Return the prior variance that the landmarks do not explain, or 0.

    If all training rows are landmarks, their leave-one-out errors include this
    variance, which is not negligible for targets that are fitted nearly exactly.
    """
    sampler, alpha = solution.sampler, solution.alpha
    own: Any = getattr(sampler, "_map_of_matrix", None)
    is_frozen = isinstance(sampler, FrozenEstimator)
    if is_frozen or not (getattr(own, "has_all_rows", False) and np.all(alpha > 0)):
        return 0.0
    return own.unexplained(rows)[:, None] / alpha


def variances(solution: Solution, Z: np.ndarray, rows: Rows) -> np.ndarray:
    """Return the variances of the predictions for rows with features Z, (n, k).

    They are relative to the noise variance, and do not include the noise.
    """
    return solution.variance(Z) + unexplained(solution, rows)


def results(
    sampler: Any,
    X: Rows,
    function: Callable[[np.ndarray, Rows], tuple[np.ndarray, ...]],
) -> list[np.ndarray]:
    """Return the arrays that a function computes from features (float64) and rows."""
    path = (sampler,)
    check_n_columns(sampler, X)

    def of_part(part: slice) -> list[tuple[np.ndarray, ...]]:
        found, own = [], X[part]
        for rows, (Z,) in chunks_of(path, own):
            if not np.isfinite(Z).all():
                raise ValueError(
                    f"Features of some rows are too large for {Z.dtype}. Scale the "
                    "columns, or use float64."
                )
            wide = Z.astype(np.float64, copy=False)
            found.append(function(wide, own[rows]))
        return found

    blocks = [block for part in by_threads(of_part, path, X) for block in part]
    return [np.concatenate(each) for each in zip(*blocks, strict=True)]
