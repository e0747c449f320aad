r"""Kernel sums over the training rows, and standard errors of their ratios.

A kernel average is a ratio with the denominator :math:`S = \sum_m F_m Z_m`, where
:math:`F_m` are the features of a query and :math:`Z_m` their sums over the training
rows. Its standard error is estimated from the contributions of groups of features to S
by the grouped jackknife (B. Efron, R. Tibshirani, "An Introduction to the Bootstrap",
1993, chapter 11), using the formula in the docstring of NadarayaWatsonClassifier. The
error of an average :math:`P_c` is estimated in the same way from the residuals
:math:`\sum_{m \in g} F_m (Z_{mc} - P_c Z_m)` of the groups g. If the coupling has at
least eight blocks, each group consists of whole blocks, because frequencies within a
block are dependent.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._array import (
    Array,
    asarray_like,
    at_least,
    clipped,
    constant,
    like_table,
    namespace_of,
    to_host,
    transposed,
)
from .._fitted import Batch, LearnedValue
from .._kernel_parameter import RowKernel
from .._kernels import LogSum, in_type, log_sum, weights_from_logs
from .._workers import Workspace
from ..maps import FeatureMap, FrequencyMap, Gaussian, RadialKernel
from ..rows import Inputs
from ._targets import Targets

N_GROUPS = 16  # number of groups of frequencies in the jackknife
N_ERRORS = 2.0  # denominators below this many standard errors are unreliable
N_EFFECTIVE = 16  # with fewer effective features, errors are underestimated
_FEWEST_BLOCKS = 8  # with fewer blocks, jackknife groups may split blocks


class KernelSums(NamedTuple):
    """Kernel sums for a block of queries, and standard errors of their total weights.

    The sums are ``scores * exp(log_scale)``. The error is None if terms cannot cancel.
    """

    scores: Array  # (n_rows, k)
    log_scale: Array  # (n_rows, 1)
    error: Array | None = None  # (n_rows,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Averages(LearnedValue):
    """Base class of fitted kernel averages.

    Subclasses store training rows, prototypes, or sums of features times targets. The
    method ``sums`` of the solution yields slices of the queries and their kernel sums,
    as ``KernelSums``; its attribute ``sigma`` is the inverse length scale.
    """

    targets: Targets
    seen: Any = None  # statistics of the targets of all rows

    def having_seen(self, batch: Batch, before: Any) -> Self:
        """Return a copy whose target statistics include another batch."""
        new = self.targets.statistics_of(batch.y, batch.weights)
        return replace(self, seen=new if before is None else before + new)

    @property
    @abstractmethod
    def kernel_in_use(self) -> Any:
        """The attribute ``kernel_`` of the estimator."""


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

    def to(self, X: Any, dtype: Any) -> FeatureSums:
        """Convert the sums to the array library of X and to a data type."""
        sums, log_scale = self.total
        like = like_table(X)
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


# -------------------------------------------------- kernels between pairs of rows
def log_kernel(
    kernel: RowKernel,
    queries: Inputs,
    keys: Inputs,
    workspace: Workspace | None = None,
) -> Array:
    """Return the log kernel between queries and stored rows, (n_queries, n_keys).

    If a workspace is given, the next call overwrites the result.
    """
    if isinstance(kernel, Gaussian):
        buffer = None
        if workspace is not None:
            shape = queries.shape[0], keys.shape[0]
            buffer = workspace.buffer("logs", shape, queries.dtype)
        squares = queries.sq_distances(keys, buffer)
        squares *= -0.5
        return squares
    if isinstance(kernel, RadialKernel):
        return kernel.log_profile(kernel.distances(queries, keys))
    values = kernel(queries.matrix, keys.matrix)
    shape, xp = (queries.shape[0], keys.shape[0]), namespace_of(values)
    if values.shape != shape:
        raise ValueError(
            f"kernel returned an array of shape {values.shape}, not {shape}, but one "
            "value for each pair of rows is required."
        )
    if not xp.all(xp.isfinite(values) & (values >= 0)):
        raise ValueError(
            "kernel returned values that are negative or not finite, but the weights "
            "of an average must be 0 or more."
        )
    with np.errstate(divide="ignore"):
        return xp.log(values)


# ---------------------------------------------------------------- standard errors
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


class ApproximationError(NamedTuple):
    """Standard errors of kernel averages due to random features.

    Attributes
    ----------
    std : ndarray of shape (n_samples,) or (n_samples, n_columns)
        Standard errors of the averages, with one column per class or output. They are
        infinite if a denominator is not positive, or if all features are in a single
        group.
    n_effective : ndarray of shape (n_samples,)
        Effective number of features that determine each average. If it is below 16,
        ``std`` is underestimated.
    """

    std: np.ndarray
    n_effective: np.ndarray


def approximation_error(
    weights: np.ndarray, sums: FeatureSums, groups: list[np.ndarray], targets: Targets
) -> ApproximationError:
    """Return the standard errors of kernel averages for queries."""
    # weights (n_rows, n_components)
    weights = weights.astype(np.float64)
    terms = weights * targets.weight(sums.sums)
    total = terms.sum(axis=1)
    n_averages, n_groups = targets.n_averages, len(groups)
    parts = np.stack([weights[:, g] @ sums.sums[g] for g in groups])
    with np.errstate(divide="ignore", invalid="ignore"):
        averages = parts.sum(axis=0)[:, :n_averages] / total[:, None]
        own = np.stack([targets.weight(part) for part in parts])
        expected = averages * own[:, :, None]
        squares = jackknife_variance(parts[:, :, :n_averages], expected, n_groups, 0)
        std = np.where(total[:, None] > 0, np.sqrt(squares) / total[:, None], np.inf)
    return ApproximationError(std, effective_number(terms))


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


# ------------------------------------------------------ features that may be negative
def with_error(
    values: Array, log_scale: Array, cancels: Array, shares: np.ndarray
) -> KernelSums:
    """Return kernel sums with their errors.

    ``values`` holds the scores, followed by the contributions of the groups.
    """
    scores, parts = values[:, :-N_GROUPS], values[:, -N_GROUPS:]
    error = standard_error(parts, shares)
    return KernelSums(scores, log_scale, where_cancels(cancels, error))


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


def normalised(scores, prior, weight):
    """Return scores divided by the sum of the positive scores.

    ``weight`` is the weight of the scores in an average with the class prior. It is
    increased if necessary, so that the class that ``predict`` returns has the largest
    score.
    """
    xp = namespace_of(scores)
    total = xp.sum(at_least(scores, 0.0), axis=1, keepdims=True)
    shares = scores / total
    if weight is None:
        return shares
    first = xp.argmax(scores, axis=1)
    lead = xp.max(shares, axis=1, keepdims=True) - shares
    behind = at_least(prior - xp.take(prior, first)[:, None], 0.0)
    # the lower bound of the divisor turns 0 / 0 into 0
    least = behind / at_least(lead + behind, 1e-30)
    least = xp.max(least, axis=1, keepdims=True)
    weight = at_least(weight, least + 1e-3 * (1 - least))  # so that no tie remains
    return weight * shares + (1 - weight) * prior


def probabilities(scores, prior, weight):
    """Return normalised scores after replacing negative scores by 0."""
    return normalised(at_least(scores, 0.0), prior, weight)
