"""Features of rows, and what is computed from them, chunk by chunk in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..arrays.loops import Workspace, exp_features
from ..arrays.threads import blas_within_processors, effective_n_threads, in_threads
from ..maps import FeatureMap
from ..rows import Rows
from ..sums.map_sums import check_n_columns, map_of, third_party_features


def width_of(path: Sequence[Any]) -> int | None:
    """Return the number of features, or None if unknown until they are computed."""
    source = map_of(path[0])
    return source.n_components if isinstance(source, FeatureMap) else None


def by_threads(function: Any, path: Sequence[Any], X: Rows) -> list[Any]:
    """Return a function's results for consecutive parts of the rows, using threads."""
    width = width_of(path)
    if path[0] is not None and width is None:
        # transformers of other packages manage their own threads
        return [blas_within_processors(X.shape[0])(function, slice(None))]
    n_threads = effective_n_threads(None, X.shape[0], width or X.shape[1])
    return in_threads(function, X.shape[0], n_threads)


def chunks_of(
    path: Sequence[Any], X: Rows
) -> Iterator[tuple[slice, Iterator[np.ndarray]]]:
    """Yield chunks of rows, and the features that each sampler computes from them."""
    sources = [map_of(member) for member in path]
    if not isinstance(sources[0], FeatureMap):
        for rows, features, _ in third_party_features(sources[0], X):
            yield rows, iter((features,))
        return
    for source in sources:
        source.frame.check(X)
    with np.errstate(over="ignore"):  # the callers check for infinite values
        paths = [s.iter_log_features(X, workspace=Workspace()) for s in sources]
        for chunk in zip(*paths, strict=True):
            yield chunk[0][0], (exp_features(*features) for _, *features in chunk)


def features_of(path: Sequence[Any], X: Rows) -> list[np.ndarray]:
    """Return the features that each sampler computes from all rows."""
    blocks: list[list[np.ndarray]] = [[] for _ in path]
    for _, features in chunks_of(path, X):
        for found, Z in zip(blocks, features, strict=True):
            found.append(Z.copy())  # the next chunk overwrites Z
    return [np.concatenate(found) for found in blocks]


def apply_to_features(
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
