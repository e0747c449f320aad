r"""Kernel averages computed from features, and standard errors of these averages.

The training rows are summarised by one small matrix, the sums of features times
targets. A kernel average is a ratio with the denominator :math:`S = \sum_m F_m Z_m`,
where :math:`F_m` are the features of a query and :math:`Z_m` their sums over the
training rows. The grouped jackknife (B. Efron, R. Tibshirani, "An Introduction to the
Bootstrap", 1993, chapter 11) estimates the standard error of S from the contributions
of groups of features to S, with the formula in the docstring of
NadarayaWatsonClassifier. The error of an average :math:`P_c` is estimated in the same
way from the residuals :math:`\sum_{m \in g} F_m (Z_{mc} - P_c Z_m)` of the groups g. If
the coupling has at least eight blocks, each group consists of whole blocks, because
frequencies within a block are dependent.

The features of third-party transformers need not be exchangeable. For them, the
standard error of S is estimated by

.. math:: s = \frac{1}{\sqrt D} \sum_m |F_m Z_m| + \sqrt\epsilon\, |F| \sqrt{W Q}

where F are the D features of a query, Z are their sums over the training rows, W is the
sum of the sample weights, Q is the weighted sum of the squared norms of the features of
the training rows, and :math:`\epsilon` is the rounding error of the data type. The
first term is the typical size of a sum of D terms with random signs; the second term
bounds the error if Z itself consists of rounding errors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import TransformerMixin

from .._compat import cached_property
from .._values import Value
from ..arrays.loops import Workspace
from ..arrays.namespaces import (
    Array,
    asarray_like,
    like_table,
    namespace_of,
    on_host,
    sq_norms,
)
from ..life_cycle.fitted import Batch, Step, no_step
from ..life_cycle.out_of_fold import Recalibration
from ..maps import FeatureMap
from ..rows import Rows, type_for_weights
from ..rows.statistics import added
from ..samplers import BaseFeatureSampler
from ..sums.feature_sums import (
    N_GROUPS,
    FeatureSums,
    effective_number,
    find_cancelling,
    group_blocks,
    group_columns,
    group_shares,
    jackknife_variance,
    split_sums,
    standard_error,
    where_cancels,
)
from ..sums.map_sums import (
    Drawn,
    MapSums,
    Transformer,
    map_of,
    third_party_features,
)
from ._fitted_averages import Averages
from ._kernel_rows import KernelSums
from ._sigma_choice import Comparison, SampledRows, best_multiple_of_sampler
from ._target_columns import Targets

# averages hardly vary if mean inner product / mean squared norm exceeds this ratio
_ALIKE = 0.6
N_EFFECTIVE = 16  # with fewer effective features, errors are underestimated
_SHARE_AT_ONE = 0.9  # if this proportion has norms close to 1, rows may be features


# ----------------------------------------------------- rows that already are features
@dataclass(frozen=True)
class Norms:
    """Weighted sums of squared norms of rows; ``a + b`` combines two sets of rows."""

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    at_one: float = 0.0

    @classmethod
    def of(cls, features: Array, weights: Array) -> Norms:
        """Return the sums for features of shape (n_rows, n_components)."""
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
        """Return why the rows are unlikely to be features of a kernel, or None.

        The criterion is the mean inner product over all pairs of rows divided by the
        mean squared norm. For a non-negative kernel this ratio is at least the inverse
        of the number of rows. A ratio close to 1 means that all inner products are
        almost equal: either the rows are raw data far from zero, or they are features
        with a very small sigma. Only in the second case are norms close to 1.
        """
        # sums (n_components,)
        if self.squares <= 0:
            return None
        likeness = float(sums @ sums) / (self.weight * self.squares)
        if likeness < 0.1 / self.n_rows:
            return "the sum of the inner products of all pairs is about zero"
        if likeness > _ALIKE and self.at_one < _SHARE_AT_ONE * self.weight:
            return f"the mean inner product is {likeness:.0%} of the mean squared norm"
        return None


def error_of_signs(features: Array, sums: np.ndarray, norms: Norms) -> Array:
    """Return standard errors of denominators for third-party features."""
    xp = namespace_of(features)
    sizes = asarray_like(np.abs(sums), features)
    signs = xp.abs(features) @ sizes / math.sqrt(sums.size)
    eps = float(xp.finfo(features.dtype).eps)
    rounding = math.sqrt(eps * norms.weight * norms.squares)
    return signs + rounding * xp.sqrt(sq_norms(features)[:, 0])


# ---------------------------------------------------------------- the fitted value
@dataclass(frozen=True, eq=False, kw_only=True)
class FeatureAverages(MapSums["KernelFeatures"], Averages["KernelFeatures"]):
    """Fitted sums of features times targets, and the map that computes the features."""

    # whether sigma is selected by leave-one-out error before the map is fixed
    selects_sigma: bool = False
    # scores of the features and of the exact kernel, and the calibration of class
    # probabilities, if sigma has been selected
    comparison: Comparison | None = None
    calibration: Recalibration | None = None
    sums: FeatureSums = field(default_factory=FeatureSums)
    norms: Norms = field(default_factory=Norms)

    def plus(self, batch: Batch, step: Step = no_step) -> FeatureAverages:
        new = self.targets.statistics_of(batch.y, batch.weights)
        return replace(super().plus(batch, step), seen=added(self.seen, new))

    def with_best_sigma_of(self, drawn: Drawn, n_rows: int = 0) -> FeatureAverages:
        if not self.selects_sigma:
            return self
        sampler = self.sampler
        assert isinstance(sampler, BaseFeatureSampler)
        rows = drawn(partial(SampledRows.of, targets=self.targets))
        found = best_multiple_of_sampler(sampler, rows, self.targets)
        multiple, comparison, calibration = found
        return replace(
            self,
            sampler=sampler.with_sigma(sampler.sigma_ * multiple),
            selects_sigma=False,
            comparison=comparison,
            calibration=calibration,
        )

    def _with_sums_of(
        self, batches: tuple[Batch, ...], step: Step = no_step
    ) -> FeatureAverages:
        sums, norms, source = self.sums, self.norms, map_of(self.sampler)
        for batch in batches:
            workspace = Workspace()
            product_type = self.targets.product_type(batch.X)
            dtype = type_for_weights(batch.weights, product_type)
            chunks = log_features_of(source, batch.X, True, workspace)
            for rows, mantissa, exponent in chunks:
                weights = batch.weights[rows]
                targets = self.targets.encode(batch.y[rows, ...], weights, dtype)
                sums = sums.with_rows(mantissa, exponent, targets, workspace)
                if not isinstance(source, FeatureMap):
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

    def _learn(self, step: Step = no_step) -> KernelFeatures:
        total = self.summed(step)
        return KernelFeatures(
            sampler=total.sampler,
            targets=self.targets,
            total=total.sums,
            norms=total.norms,
            comparison=total.comparison,
            calibration=total.calibration,
        )

    def _without_rows(self) -> FeatureAverages:
        # the solution has the sums
        return replace(super()._without_rows(), sums=FeatureSums(), norms=Norms())

    @property
    def kernel_in_use(self) -> Transformer | str:
        """The attribute ``kernel_`` of the estimator: the sampler, or ``"linear"``."""
        sampler = self.solution.sampler
        return "linear" if sampler is None else sampler


@dataclass(frozen=True, eq=False)
class KernelFeatures(Value):
    """The sums of the features of all training rows, from which averages are computed.

    It is the counterpart of ``KernelRows``, which holds the rows themselves.
    """

    sampler: Transformer | None  # None if the rows are the features
    targets: Targets
    total: FeatureSums
    norms: Norms
    comparison: Comparison | None = None
    calibration: Recalibration | None = None

    @cached_property
    def source(self) -> FeatureMap | TransformerMixin | None:
        """The feature map or fitted transformer that computes the features, or None."""
        return map_of(self.sampler)

    @property
    def sigma(self) -> float | np.ndarray:
        """The inverse length scale of the sampler."""
        sampler: Any = self.sampler  # others than samplers have no sigma
        return sampler.sigma_

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield slices of the queries and their kernel sums.

        Standard errors are included if terms of opposite sign may cancel.
        """
        total, groups = self.total, None
        weights = self.targets.weight(total.sums)
        like = like_table(X)
        with np.errstate(over="ignore"):  # a wider dtype is used if this overflows
            size = asarray_like(np.abs(total.sums).max(), like)
        dtype = type_for_weights(size, self.targets.product_type(like))
        sums = total.to(like, dtype)
        workspace = Workspace()
        chunks = log_features_of(self.source, X, False, workspace)
        for rows, mantissa, exponent in chunks:
            if not isinstance(self.source, FeatureMap) and on_host(X):
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
                error = error_of_signs(mantissa, weights, self.norms)
                error = where_cancels(cancels, error)
                scores, log_scale = sums.average(mantissa, exponent)
                yield rows, KernelSums(scores, log_scale, error)

    def errors(self, X: Rows) -> Iterator[ApproximationError]:
        """Yield the standard errors of the averages for chunks of the queries."""
        assert isinstance(self.source, FeatureMap)
        groups = group_blocks(self.source)
        workspace = Workspace()
        for _, mantissa, exponent in log_features_of(self.source, X, False, workspace):
            weights, _ = self.total.scaled(mantissa, exponent, workspace)
            yield approximation_error(weights, self.total, groups, self.targets)

    def effective_features(self, X: Rows) -> np.ndarray:
        """Return the effective number of features behind the average at each query.

        The number is infinite if individual features are not estimates of a kernel.
        """
        # -> (n_rows,)
        if not isinstance(self.source, FeatureMap) or not on_host(X):
            return np.full(X.shape[0], np.inf)
        found, workspace = [], Workspace()
        weight_sums = self.targets.weight(self.total.sums)
        for _, mantissa, exponent in log_features_of(self.source, X, False, workspace):
            weights, _ = self.total.scaled(mantissa, exponent, workspace)
            found.append(effective_number(weights * weight_sums))
        return np.concatenate(found)

    @property
    def n_components(self) -> int:
        """Number of features that the map returns."""
        return self.total.sums.shape[0]

    def why_no_features(self) -> str | None:
        """Return why the rows are unlikely to be features of a kernel, or None."""
        return self.norms.why_no_features(self.targets.weight(self.total.sums))


def log_features_of(source, X, key, workspace):
    """Yield chunks of rows and their features."""
    if isinstance(source, FeatureMap):
        source.frame.check(X)
        return source.iter_log_features(X, key=key, workspace=workspace)
    return third_party_features(source, X)


def _check_size(features, sums):
    """Raise ValueError if the products of features and sums could overflow."""
    largest = [float(np.abs(array).max(initial=0)) for array in (features, sums)]
    most = float(np.finfo(np.result_type(features, sums)).max)
    if not math.prod(largest) * features.shape[1] < most:
        raise ValueError(
            f"Features up to {largest[0]:.1e} are too large for the kernel sums of "
            "these training rows, because their products could overflow. Rescale "
            "the features."
        )


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


def with_error(
    values: Array, log_scale: Array, cancels: Array, shares: np.ndarray
) -> KernelSums:
    """Return kernel sums with their errors.

    ``values`` holds the scores, followed by the contributions of the groups.
    """
    scores, parts = values[:, :-N_GROUPS], values[:, -N_GROUPS:]
    error = standard_error(parts, shares)
    return KernelSums(scores, log_scale, where_cancels(cancels, error))
