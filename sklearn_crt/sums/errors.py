"""Standard errors of sums over features, from groups of features."""

from __future__ import annotations

import numpy as np

from ..arrays.namespaces import (
    Array,
    asarray_like,
    clipped,
    constant,
    namespace_of,
)
from ..maps import FeatureMap, FrequencyMap

N_GROUPS = 16  # number of groups of frequencies in the jackknife
N_ERRORS = 2.0  # denominators below this many standard errors are unreliable
_FEWEST_BLOCKS = 8  # with fewer blocks, jackknife groups may split blocks


def group_columns(index: np.ndarray | None, n_components: int) -> np.ndarray:
    """Return the jackknife group of each feature, given the index of its frequency."""
    columns = np.arange(n_components) if index is None else index
    return columns % N_GROUPS


def group_shares(index: np.ndarray | None, n_components: int) -> np.ndarray:
    """Return the proportion of the frequencies in each group, (16,)."""
    frequencies = np.arange(n_components) if index is None else np.unique(index)
    sizes = np.bincount(frequencies % N_GROUPS, minlength=N_GROUPS)
    return sizes / frequencies.size


def jackknife_variance(
    parts: Array, expected: Array, n_groups: int, axis: int
) -> Array:
    """Return the squared standard error of a sum, given each group's contribution.

    The error is infinite if there is only one group.
    """
    gaps = parts - expected
    squares = namespace_of(gaps).sum(gaps * gaps, axis=axis)
    return squares * (n_groups / (n_groups - 1)) if n_groups > 1 else squares + np.inf


def split_sums(sums: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return one column per group: the sums of its features, and zeros elsewhere."""
    # sums, groups (n_components,) -> (n_components, 16)
    parts = np.zeros((sums.size, N_GROUPS), dtype=sums.dtype)
    parts[np.arange(sums.size), groups] = sums
    return parts


def standard_error(parts: Array, shares: np.ndarray) -> Array:
    """Return standard errors of denominators, given ``parts`` of shape (n_rows, 16)."""
    xp, n_groups = namespace_of(parts), int(np.count_nonzero(shares))
    if n_groups < 2:
        return constant((parts.shape[0],), np.inf, parts)
    total = xp.sum(parts, axis=1, keepdims=True)
    expected = total * asarray_like(shares, parts)
    return xp.sqrt(jackknife_variance(parts, expected, n_groups, 1))


def effective_number(terms: np.ndarray) -> np.ndarray:
    """Return the effective number of terms of each sum, or 0 for a non-positive sum."""
    # terms (n_rows, n_components) -> (n_rows,)
    total, squares = terms.sum(axis=1), np.sum(np.square(terms), axis=1)
    return np.where(total > 0, total**2 / np.where(squares > 0, squares, 1), 0.0)


def group_blocks(feature_map: FeatureMap) -> list[np.ndarray]:
    """Return the features in each group, which consists of whole blocks if possible."""
    index = feature_map.frequency_index()
    groups = group_columns(index, feature_map.n_components)
    if index is not None and isinstance(feature_map, FrequencyMap):
        m, d = feature_map.n_frequencies, feature_map.n_features
        sizes = feature_map.coupling.block_sizes(m, d)
        if sizes.size >= _FEWEST_BLOCKS:
            blocks = np.repeat(np.arange(sizes.size), sizes)
            groups = blocks[index] % N_GROUPS
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]


def where_cancels(cancels: Array, error: Array) -> Array:
    """Return the errors of rows in which terms may cancel, and 0 for other rows."""
    xp = namespace_of(error)
    return xp.where(cancels, error, xp.zeros_like(error))


def find_cancelling(mantissa: Array | None, signed: bool) -> Array | None:
    """Return a mask of rows for which terms may cancel, or None if there are none."""
    if mantissa is None:
        return None
    xp = namespace_of(mantissa)
    if signed:
        return xp.ones_like(mantissa[:, 0]) > 0
    cancels = xp.min(mantissa, axis=1) < 0
    return cancels if xp.any(cancels) else None


def trust(denominators: Array, errors: Array) -> Array:
    """Return weights of kernel averages, which are below 1 for unreliable averages."""
    xp, least = namespace_of(denominators), N_ERRORS * errors
    nothing = xp.zeros_like(least)
    sure = xp.where((least == 0) & (denominators > 0), nothing + 1, nothing)
    divisor = xp.where(least > 0, least, nothing + 1)
    share = xp.where(least > 0, denominators / divisor, sure)
    return clipped(share, 0.0, 1.0) ** 2
