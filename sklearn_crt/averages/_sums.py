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

from ..arrays.namespaces import (
    Array,
    at_least,
    namespace_of,
)
from ..arrays.workspace import Workspace
from ..life_cycle.fitted import Batch, LearnedValue
from ..maps import Gaussian, RadialKernel
from ..rows import Inputs
from ..samplers._kernel_parameter import RowKernel
from ..sums.errors import (
    N_GROUPS,
    effective_number,
    jackknife_variance,
    standard_error,
    where_cancels,
)
from ..sums.feature_sums import FeatureSums
from ._targets import Targets

N_EFFECTIVE = 16  # with fewer effective features, errors are underestimated


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
