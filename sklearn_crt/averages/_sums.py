"""Kernel values between pairs of rows, and kernel sums over the training rows."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from .._array import Array, asarray_like, like_table, namespace_of, to_host, transposed
from .._fitted import Batch, FittedValue
from .._kernel_parameter import RowKernel
from .._kernels import LogSum, in_type, log_sum, weights_from_logs
from .._workers import Workspace
from ..maps import Gaussian, RadialKernel
from ..rows import Inputs, Rows
from ._targets import Targets


class KernelSums(NamedTuple):
    """Kernel sums for a block of queries, and standard errors of their total weights.

    The sums are ``scores * exp(log_scale)``. The error is None if terms cannot cancel.
    """

    scores: Array  # (n_rows, k)
    log_scale: Array  # (n_rows, 1)
    error: Array | None = None  # (n_rows,)


@dataclass(frozen=True, eq=False, kw_only=True)
class Averages(FittedValue):
    """Base class of fitted kernel averages.

    Subclasses store training rows, prototypes, or sums of features times targets.
    """

    targets: Targets
    seen: Any = None  # statistics of the targets of all rows
    is_frozen: bool = False

    def having_seen(self, batch: Batch, before: Any) -> Self:
        """Return a copy whose target statistics include another batch."""
        new = self.targets.statistics_of(batch.y, batch.weights)
        return replace(self, seen=new if before is None else before + new)

    @property
    @abstractmethod
    def kernel_in_use(self) -> Any:
        """The attribute ``kernel_`` of the estimator."""

    @property
    @abstractmethod
    def sigma(self) -> Any:
        """The attribute ``sigma_`` of the estimator."""

    @abstractmethod
    def blocks_of_sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield slices of the queries and their kernel sums."""


class FeatureSums(NamedTuple):
    """Sums over training rows j of features times targets, ``sum_j F[j, m] T[j, k]``.

    Features are given as ``mantissa * exp(exponent)``. For each feature m the sums are
    divided by ``exp`` of the largest exponent seen, so that they neither overflow nor
    vanish. The features of queries are multiplied by these scales (see ``scaled``).
    Separate scales for the training rows, in contrast, could not be recovered from the
    sums.
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
