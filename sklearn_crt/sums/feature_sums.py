"""Sums over rows of features times targets, in log space."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..arrays.loops import LogSum, in_type, log_sum, weights_from_logs
from ..arrays.namespaces import (
    Array,
    asarray_like,
    like_table,
    namespace_of,
    to_host,
    transposed,
)
from ..arrays.workspace import Workspace


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
