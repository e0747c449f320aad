"""Draws of estimates of a hybrid, from many draws of each of its parts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._blocks import block_estimates, cuts_into_blocks


def composed_estimates(
    fitted: Any, X: np.ndarray, Y: np.ndarray | None = None, *, n_blocks: int = 20_000
) -> np.ndarray | None:
    """Return independent estimates of a hybrid, from many draws of each of its maps.

    Parameters
    ----------
    fitted : HybridSampler
        Fitted on these rows.
    X, Y : ndarray of shape (n_X, n_features), (n_Y, n_features)
        Rows of the two sides; Y is X if None.
    n_blocks : int, default=20000
        Number of estimates.

    Returns
    -------
    estimates : ndarray of shape (n_blocks, n_X, n_Y), or None
        None where a map cannot be cut into blocks of its width.
    """
    whole, parts = fitted.map_, _parts(fitted)
    spare = [] if parts.spare is None else [parts.spare]
    if not all(map(_is_simple, [*parts.bases, *parts.coefficients, *spare])):
        return None
    sides = whole.frame.pair(X, Y)
    queries, keys = (side.matrix for side in sides)

    def draw(part: Any, seed: int) -> np.ndarray:
        return _part_estimates(part, queries, keys, n_blocks, seed)

    n_bases, n_lambdas = len(parts.bases), len(parts.coefficients)
    seeds = [0] * n_bases if whole.shared else range(n_bases)
    kernels = list(map(draw, parts.bases, seeds))
    lambdas = list(map(draw, parts.coefficients, range(10, 10 + n_lambdas)))
    lambdas = [a + part for a, part in zip(whole.constants, lambdas, strict=True)]
    lambdas = [*lambdas, np.asarray(1 - sum(lambdas))]
    estimates = sum(lam * k for lam, k in zip(lambdas, kernels, strict=True))
    if spare:
        weight = whole.spare_weight
        estimates = (1 - weight) * estimates + weight * draw(spare[0], 20)
    return estimates * np.exp(whole.factor.log_pair_factor(*sides))


def _parts(fitted: Any) -> Any:
    """Return the fitted samplers behind the map of a sampler."""
    return fitted._recipe._fit_parts(fitted._statistics)


def _has_blocks(part: Any) -> bool:
    return hasattr(part, "blocks_")


def _is_simple(part: Any) -> bool:
    """Whether blocks of frequencies make estimates as a map, or its parts, do."""
    if _has_blocks(part):
        return all(map(_is_simple, _parts(part).samplers))
    cut = hasattr(part, "frequency_index") and cuts_into_blocks(part)
    return cut and part.n_components % part.columns_per_frequency == 0


def _part_estimates(
    part: Any, X: np.ndarray, Y: np.ndarray, n_blocks: int, seed: int
) -> np.ndarray:
    """Return independent estimates of a fitted map, or of the map of each block."""
    if not _has_blocks(part):
        options = {"n_blocks": n_blocks, "random_state": seed}
        block = part.map_.n_frequencies
        return block_estimates(part, X, Y, block=block, **options)[0]
    samplers = {
        block.columns.start: sampler
        for block, sampler in zip(part.blocks_, _parts(part).samplers, strict=True)
    }
    estimates = np.empty((n_blocks, X.shape[0], Y.shape[0]))
    for block, i, j in part.map_.members(*map(part.map_.frame.rows, (X, Y))):
        sampler = samplers[block.columns.start]
        some = _part_estimates(sampler, X[i], Y[j], n_blocks, seed)
        estimates[:, i[:, None], j] = some
    return estimates
