"""Sums over rows of features times targets, in log space, and their standard errors."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays.loops import LogSum, Workspace, in_type, log_sum, weights_from_logs
from ..arrays.namespaces import (
    Array,
    asarray_like,
    clipped,
    constant,
    namespace_of,
    to_host,
    transposed,
)
from ..maps import FeatureMap, FrequencyMap

N_GROUPS = 16  # number of groups of frequencies in the jackknife
N_ERRORS = 2.0  # denominators below this many standard errors are unreliable
_FEWEST_BLOCKS = 8  # with fewer blocks, jackknife groups may split blocks


class FeatureSums(NamedTuple):
    """Sums over training rows j of features times targets, ``sum_j F[j, m] T[j, k]``.

    Features are given as ``mantissa * exp(exponent)``. For each feature m the sums are
    divided by ``exp`` of the largest exponent seen, so that they neither overflow nor
    vanish. The features of queries are multiplied by these scales (see ``scaled``).
    In contrast, separate scales for training rows could not be recovered from the sums.
    """

    total: Any = None  # a LogSum, None before the first rows
    signed: bool = False  # whether any feature value was negative

    @property
    def sums(self) -> Array:
        """The sums divided by their scales, (n_components, k)."""
        return self.total.values

    def with_rows(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        targets: Array,
        workspace: Workspace | None = None,
    ) -> FeatureSums:
        """Return the sums after adding rows: features (n, m), targets (n, k).

        If a workspace is given, the exponents may be overwritten.
        """
        signed = self.signed
        if mantissa is not None and not signed:
            signed = bool(namespace_of(mantissa).min(mantissa) < 0)
        if exponent is None:
            features = in_type(transposed(mantissa), targets.dtype, workspace)
            found = LogSum(features @ targets, 0.0)
        else:
            found = log_sum(
                transposed(exponent),
                targets,
                None if mantissa is None else transposed(mantissa),
                overwrite=workspace is not None,
                workspace=workspace,
            )
        sums, scale = map(to_host, found)
        scale = np.atleast_2d(np.asarray(scale, np.float64))
        total = LogSum(np.asarray(sums, np.float64), scale)
        return self.plus(FeatureSums(total, signed))

    def plus(self, other: FeatureSums) -> FeatureSums:
        """Return the sums over both sets of rows."""
        signed = self.signed or other.signed
        if self.total is None or other.total is None:
            return FeatureSums(self.total or other.total, signed)
        return FeatureSums(self.total.plus(other.total), signed)

    def to(self, like: Array, dtype: Any) -> FeatureSums:
        """Convert the sums to the library of an array and to a data type."""
        sums, log_scale = self.total
        values = asarray_like(sums, namespace_of(like).astype(like, dtype))
        return FeatureSums(LogSum(values, asarray_like(log_scale, like)), self.signed)

    def scaled(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        workspace: Workspace | None = None,
    ) -> tuple[Array, Array]:
        """Multiply features of queries by the scales of the sums.

        The scaled features and one log scale per query are returned. The log scale has
        been subtracted from the exponents of the query.
        """
        # -> (n_rows, n_components), (n_rows, 1)
        shift = transposed(self.total.log_scale)
        if exponent is None:
            if shift.shape[-1] == 1:  # without exponents, there is only one scale
                return mantissa, asarray_like(shift, mantissa)
            return weights_from_logs(asarray_like(shift, mantissa), mantissa)
        total, shift = exponent, asarray_like(shift, exponent)
        if workspace is not None and exponent.shape[-1] >= shift.shape[-1]:
            total += shift
        else:
            total = exponent + shift
        return weights_from_logs(total, mantissa, overwrite=workspace is not None)

    def average(
        self,
        mantissa: Array | None,
        exponent: Array | None,
        further: np.ndarray | None = None,
        workspace: Workspace | None = None,
    ) -> tuple[Array, Array]:
        """Return the products of query features with the sums, and their log scales.

        Products with the additional columns ``further`` are appended.
        """
        # -> (n_rows, k), (n_rows, 1)
        weights, log_scale = self.scaled(mantissa, exponent, workspace)
        scores = in_type(weights, self.sums.dtype, workspace) @ self.sums
        if further is not None:
            xp, more = namespace_of(scores), weights @ asarray_like(further, weights)
            scores = xp.concat([scores, xp.astype(more, scores.dtype)], axis=1)
        return scores, log_scale


# ------------------------------------------------------------------ standard errors
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
