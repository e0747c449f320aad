r"""Kernel sums through a feature map, and how far they are from the kernel's.

One small matrix, the sums of features times targets, stands for the training rows.

A kernel average is a numerator over a denominator :math:`S = \sum_m F_m Z_m`, with the
features :math:`F_m` of a query and the sums :math:`Z_m` of those of the training rows.
The parts of S from groups of columns tell its error, as NadarayaWatsonClassifier says
(the grouped jackknife: B. Efron, R. Tibshirani, "An Introduction to the Bootstrap",
1993, chapter 11). Features of third-party transformers may not be exchangeable, so
their error is

.. math:: s = \frac{1}{\sqrt D} \sum_m |F_m Z_m| + \sqrt\epsilon\, |F| \sqrt{W Q}

with W the sum of the weights of the training rows, Q that of the weights times the
squared norms of their features and :math:`\epsilon` the rounding error of the type: the
first term is what D terms of random signs add up to, the second is where Z itself is
rounding. The error of an average :math:`P_c` follows from the residuals
:math:`\sum_{m \in g} F_m (Z_{mc} - P_c Z_m)` of the groups, which are whole blocks of
the coupling where there are at least eight: frequencies of a block are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from .._array import (
    Array,
    asarray_like,
    clipped,
    constant,
    like_table,
    namespace_of,
    on_host,
    part,
    sq_norms,
)
from .._fitted import Batch, Step, no_step
from .._map_sums import MapSums, third_party_features
from .._workers import Workspace
from ..maps import FeatureMap, FrequencyMap
from ..rows import Rows, type_for_weights
from ._sums import Averages, FeatureSums, KernelSums
from ._targets import Targets

N_GROUPS = 16  # of frequencies, whose parts of a sum tell its error
N_ERRORS = 2.0  # standard errors that a denominator has to reach
N_EFFECTIVE = 16  # columns, below which an error is not to be trusted
_FEWEST_BLOCKS = 8
_ALIKE = 0.6  # mean inner product over mean squared norm, from which averages are flat
_SHARE_AT_ONE = 0.9  # of the rows, from which norms are those of features


# ------------------------------------------------------------------- the jackknife
def group_columns(index: np.ndarray | None, n_components: int) -> np.ndarray:
    """Return the group of each column, from the index of its frequency."""
    columns = np.arange(n_components) if index is None else index
    return columns % N_GROUPS


def group_shares(index: np.ndarray | None, n_components: int) -> np.ndarray:
    """Return the share of the frequencies that each group has, (16,)."""
    frequencies = np.arange(n_components) if index is None else np.unique(index)
    sizes = np.bincount(frequencies % N_GROUPS, minlength=N_GROUPS)
    return sizes / frequencies.size


def jackknife_variance(
    parts: Array, expected: Array, n_groups: int, axis: int
) -> Array:
    """Return the squared standard error of a sum of the parts of groups.

    Where there is a single group it is infinite.
    """
    gaps = parts - expected
    squares = namespace_of(gaps).sum(gaps * gaps, axis=axis)
    return squares * (n_groups / (n_groups - 1)) if n_groups > 1 else squares + np.inf


def split_sums(sums: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return sums of the features with a column for each group, zero elsewhere."""
    # sums, groups (n_components,) -> (n_components, 16)
    parts = np.zeros((sums.size, N_GROUPS), dtype=sums.dtype)
    parts[np.arange(sums.size), groups] = sums
    return parts


def standard_error(parts: Array, shares: np.ndarray) -> Array:
    """Return the standard error of denominators from their parts, (n_rows, 16)."""
    xp, n_groups = namespace_of(parts), int(np.count_nonzero(shares))
    if n_groups < 2:
        return constant((parts.shape[0],), np.inf, parts)
    total = xp.sum(parts, axis=1, keepdims=True)
    expected = total * asarray_like(shares, parts)
    return xp.sqrt(jackknife_variance(parts, expected, n_groups, 1))


class ApproximationError(NamedTuple):
    """Errors of averages that come from the random columns of a map.

    Attributes
    ----------
    std : ndarray of shape (n_samples,) or (n_samples, n_columns)
        Standard errors of the averages, one column per class or output; infinite where
        a denominator is not positive, and where all columns are in one group.
    n_effective : ndarray of shape (n_samples,)
        Effective number of columns behind each average; below 16 ``std`` is too small.
    """

    std: np.ndarray
    n_effective: np.ndarray


def approximation_error(
    weights: np.ndarray, sums: FeatureSums, groups: list[np.ndarray], targets: Targets
) -> ApproximationError:
    """Return the standard errors of the averages of queries."""
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
    """Return the effective number of terms of sums, 0 where a sum is not positive."""
    # terms (n_rows, n_components) -> (n_rows,)
    total, squares = terms.sum(axis=1), np.sum(np.square(terms), axis=1)
    return np.where(total > 0, total**2 / np.where(squares > 0, squares, 1), 0.0)


def group_blocks(feature_map: FeatureMap) -> list[np.ndarray]:
    """Return the columns of each group: of whole blocks where there are enough."""
    index = feature_map.frequency_index()
    groups = group_columns(index, feature_map.n_components)
    if index is not None and isinstance(feature_map, FrequencyMap):
        m, d = feature_map.n_frequencies, feature_map.n_features
        sizes = feature_map.coupling.block_sizes(m, d)
        if sizes.size >= _FEWEST_BLOCKS:
            blocks = np.repeat(np.arange(sizes.size), sizes)
            groups = blocks[index] % N_GROUPS
    return [np.flatnonzero(groups == group) for group in np.unique(groups)]


# --------------------------------------------------------------- features of signs
def with_error(
    values: Array, log_scale: Array, cancels: Array, shares: np.ndarray
) -> KernelSums:
    """Return kernel sums with errors, from scores and parts side by side."""
    scores, parts = values[:, :-N_GROUPS], values[:, -N_GROUPS:]
    error = standard_error(parts, shares)
    return KernelSums(scores, log_scale, where_cancels(cancels, error))


def where_cancels(cancels: Array, error: Array) -> Array:
    """Return errors of the rows in which terms cancel, 0 for the others."""
    xp = namespace_of(error)
    return xp.where(cancels, error, xp.zeros_like(error))


def find_cancelling(mantissa: Array | None, signed: bool) -> Array | None:
    """Return for which rows terms of kernel sums may cancel; None for none."""
    if mantissa is None:
        return None
    xp = namespace_of(mantissa)
    if signed:
        return xp.ones_like(mantissa[:, 0]) > 0
    cancels = xp.min(mantissa, axis=1) < 0
    return cancels if xp.any(cancels) else None


def error_of_signs(features: Array, sums: np.ndarray, norms: Norms) -> Array:
    """Return the error of denominators whose columns need not be exchangeable."""
    xp = namespace_of(features)
    sizes = asarray_like(np.abs(sums), features)
    signs = xp.abs(features) @ sizes / math.sqrt(sums.size)
    eps = float(xp.finfo(features.dtype).eps)
    rounding = math.sqrt(eps * norms.weight * norms.squares)
    return signs + rounding * xp.sqrt(sq_norms(features)[:, 0])


def trust(denominators: Array, errors: Array) -> Array:
    """Return the weight of the averages of rows, less than 1 where unreliable."""
    xp, least = namespace_of(denominators), N_ERRORS * errors
    nothing = xp.zeros_like(least)
    sure = xp.where((least == 0) & (denominators > 0), nothing + 1, nothing)
    divisor = xp.where(least > 0, least, nothing + 1)
    share = xp.where(least > 0, denominators / divisor, sure)
    return clipped(share, 0.0, 1.0) ** 2


# ------------------------------------------------------------- rows given as features
@dataclass(frozen=True)
class Norms:
    """Weighted sums over rows of features; ``a + b`` is that of both sets of rows."""

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    at_one: float = 0.0

    @classmethod
    def of(cls, features: Array, weights: Array) -> Norms:
        """Return the sums of some rows of features, (n_rows, n_components)."""
        xp, squares = namespace_of(features), sq_norms(features)[:, 0]
        squares = xp.astype(squares, weights.dtype)
        at_one = xp.astype((squares > 0.5) & (squares < 2), weights.dtype)
        sums = xp.sum(weights), weights @ squares, weights @ at_one
        return cls(features.shape[0], *map(float, sums))

    def __add__(self, other: Norms) -> Norms:
        return Norms(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.squares + other.squares,
            self.at_one + other.at_one,
        )

    def why_no_features(self, sums: np.ndarray) -> str | None:
        """Return why the rows are hardly features of a kernel, or None.

        The mean inner product of all pairs over the mean squared norm is at least 1
        over the number of rows for a kernel that is nowhere negative. Near 1 all pairs
        are alike: raw rows far from zero, or a very small sigma, where the norms of
        features are at 1 and those of raw rows are not.
        """
        # sums (n_components,)
        if self.squares <= 0:
            return None
        likeness = float(sums @ sums) / (self.weight * self.squares)
        if likeness < 0.1 / self.n_rows:
            return "the sum of their inner products is about zero"
        if likeness > _ALIKE and self.at_one < _SHARE_AT_ONE * self.weight:
            return f"their inner products are {likeness:.0%} alike"
        return None


# ---------------------------------------------------------------- the fitted value
@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureAverages(MapSums, Averages):
    """Sums of features times targets, and the map that makes the features."""

    sums: FeatureSums = field(default_factory=FeatureSums)
    norms: Norms = field(default_factory=Norms)

    def plus(self, batch: Batch, step: Step = no_step) -> FeatureAverages:
        return super().plus(batch, step).having_seen(batch, self.seen)

    def _with_sums_of(
        self, batches: tuple[Batch, ...], step: Step = no_step
    ) -> FeatureAverages:
        sums, norms = self.sums, self.norms
        for batch in batches:
            workspace = Workspace()
            product_type = self.targets.product_type(batch.X)
            dtype = type_for_weights(batch.weights, product_type)
            for rows, mantissa, exponent in self._features(batch.X, True, workspace):
                weights = batch.weights[rows]
                targets = self.targets.encode(part(batch.y, rows), weights, dtype)
                sums = sums.with_rows(mantissa, exponent, targets, workspace)
                if not isinstance(self.source, FeatureMap):
                    norms += Norms.of(mantissa, weights)
                step()
        return replace(self, sums=sums, norms=norms)

    def _with_sums_from(self, other: Self) -> FeatureAverages:
        return replace(
            self,
            sums=self.sums.plus(other.sums),
            norms=self.norms + other.norms,
            seen=self.seen + other.seen,
        )

    def _features(self, X, key, workspace):
        self.check_columns(X)
        if isinstance(self.source, FeatureMap):
            self.source.frame.check(X)
            return self.source.iter_log_features(X, key=key, workspace=workspace)
        return third_party_features(self.source, X)

    def blocks_of_sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield slices of the queries and their kernel sums.

        The sums have standard errors where features of both signs may cancel.
        """
        total = self.total.sums
        weights, groups = self.targets.weight(total.sums), None
        with np.errstate(over="ignore"):  # if it is infinite, a wider type is needed
            size = asarray_like(np.abs(total.sums).max(), like_table(X))
        dtype = type_for_weights(size, self.targets.product_type(X))
        sums = total.to(X, dtype)
        workspace = Workspace()
        for rows, mantissa, exponent in self._features(X, False, workspace):
            if on_host(X) and not isinstance(self.source, FeatureMap):
                _check_size(mantissa, sums.sums)
            cancels = find_cancelling(mantissa, total.signed)
            if cancels is None:
                found = sums.average(mantissa, exponent, None, workspace)
                yield rows, KernelSums(*found)
            elif isinstance(self.source, FeatureMap):
                if groups is None:
                    index = self.source.frequency_index()
                    groups = split_sums(weights, group_columns(index, weights.size))
                    shares = group_shares(index, weights.size)
                found = sums.average(mantissa, exponent, groups, workspace)
                yield rows, with_error(*found, cancels, shares)
            else:
                error = error_of_signs(mantissa, weights, self.total.norms)
                error = where_cancels(cancels, error)
                scores, log_scale = sums.average(mantissa, exponent)
                yield rows, KernelSums(scores, log_scale, error)

    def errors(self, X: Rows) -> Iterator[ApproximationError]:
        """Yield the standard errors of the averages of chunks of the queries."""
        sums = self.total.sums
        groups = group_blocks(self.source)
        workspace = Workspace()
        for _, mantissa, exponent in self._features(X, False, workspace):
            weights, _ = sums.scaled(mantissa, exponent, workspace)
            yield approximation_error(weights, sums, groups, self.targets)

    def effective_columns(self, X: Rows) -> np.ndarray:
        """Return the effective number of columns in the averages of queries.

        It is infinite where the columns are not repeated estimates of a kernel.
        """
        # -> (n_rows,)
        if not isinstance(self.source, FeatureMap) or not on_host(X):
            return np.full(X.shape[0], np.inf)
        found, workspace = [], Workspace()
        sums = self.total.sums
        weight_sums = self.targets.weight(sums.sums)
        for _, mantissa, exponent in self._features(X, False, workspace):
            weights, _ = sums.scaled(mantissa, exponent, workspace)
            found.append(effective_number(weights * weight_sums))
        return np.concatenate(found)

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return self.total.sums.sums.shape[0]

    def why_no_features(self) -> str | None:
        """Return why the rows are hardly features of a kernel, or None."""
        total = self.total
        return total.norms.why_no_features(self.targets.weight(total.sums.sums))


def _check_size(features, sums):
    """Raise ValueError where the products of features with sums could overflow."""
    largest = [float(np.abs(array).max(initial=0)) for array in (features, sums)]
    most = float(np.finfo(np.result_type(features, sums)).max)
    if not math.prod(largest) * features.shape[1] < most:
        raise ValueError(
            f"Features up to {largest[0]:.1e} are too large for the kernel sums of "
            "these training rows. Scale them."
        )
