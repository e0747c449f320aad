"""Kernel sums through a feature map: one small matrix stands for the training rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .._array import on_host, part
from .._map_engine import MapEngine, third_party_features
from .._workers import Workspace
from ..maps import FeatureMap
from ..rows import Rows
from ._errors import (
    ApproximationError,
    Norms,
    SignedSums,
    approximation_error,
    effective_number,
    error_of_signs,
    find_cancelling,
    group_blocks,
    where_cancels,
)
from ._sums import FeatureSums, KernelSums
from ._targets import Targets


class FeatureEngine(MapEngine):
    """Sums of features times targets, and the map that makes the features."""

    quiet = False  # whether warnings are left to others

    def __init__(self, sampler: Any, targets: Targets):
        super().__init__(sampler)
        self.targets = targets
        self._sums, self._norms = FeatureSums(), Norms()

    def copy(self) -> FeatureEngine:
        """Return an engine that further rows may be added to, apart from this one."""
        other = super().copy()
        other._sums = copy.copy(self._sums)
        return other

    @property
    def _empty(self):
        return self._sums.empty

    def _forget(self):
        self._sums, self._norms = FeatureSums(), Norms()

    def _take(self, tables, step):
        for X, y, weights in tables:
            self._accumulate(X, y, weights, step)

    def _accumulate(self, X, y, weights, step):
        workspace, dtype = Workspace(), self.targets.product_type(X)
        for rows, mantissa, exponent in self._features(X, True, workspace):
            targets = self.targets.encode(part(y, rows), weights[rows], dtype)
            self._sums.add(mantissa, exponent, targets, workspace)
            if not isinstance(self.source, FeatureMap):
                self._norms += Norms.of(mantissa, weights[rows])
            step()

    def _features(self, X, key, workspace):
        self.check_columns(X)
        if isinstance(self.source, FeatureMap):
            self.source.frame.check(X)
            return self.source.iter_log_features(X, key=key, workspace=workspace)
        return third_party_features(self.source, X)

    def sums(self, X: Rows) -> Iterator[tuple[slice, KernelSums]]:
        """Yield rows and their kernel sums, with errors where terms cancel."""
        if self._pending and self._sums.empty:
            self._absorb()
        weights, signed = self.targets.weight(self._sums.sums), None
        sums = self._sums.to(X, self.targets.product_type(X))
        workspace = Workspace()
        for rows, mantissa, exponent in self._features(X, False, workspace):
            if on_host(X) and not isinstance(self.source, FeatureMap):
                _check_size(mantissa, sums.sums)
            cancels = find_cancelling(mantissa, self._sums.signed)
            if cancels is None:
                found = sums.average(mantissa, exponent, None, workspace)
                yield rows, KernelSums(*found)
            elif isinstance(self.source, FeatureMap):
                if signed is None:
                    signed = SignedSums(self.source.frequency_index(), sums, weights)
                yield rows, signed.average(mantissa, exponent, cancels, workspace)
            else:
                error = error_of_signs(mantissa, weights, self._norms)
                error = where_cancels(cancels, error)
                scores, log_scale = sums.average(mantissa, exponent)
                yield rows, KernelSums(scores, log_scale, error)

    def errors(self, X: Rows) -> Iterator[ApproximationError]:
        """Yield the errors of the averages of chunks of rows."""
        if self._pending and self._sums.empty:
            self._absorb()
        groups = group_blocks(self.source)  # type: ignore[arg-type]  # a map, as checked
        workspace = Workspace()
        for _, mantissa, exponent in self._features(X, False, workspace):
            weights, _ = self._sums.scaled(mantissa, exponent, workspace)
            yield approximation_error(weights, self._sums, groups, self.targets)

    def effective_columns(self, X: Rows) -> np.ndarray:
        """Return how many columns carry the averages of rows, infinity if unknown."""
        # -> (n_rows,)
        if not isinstance(self.source, FeatureMap) or not on_host(X):
            return np.full(X.shape[0], np.inf)
        found, workspace = [], Workspace()
        weight_sums = self.targets.weight(self._sums.sums)
        for _, mantissa, exponent in self._features(X, False, workspace):
            weights, _ = self._sums.scaled(mantissa, exponent, workspace)
            found.append(effective_number(weights * weight_sums))
        return np.concatenate(found)

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return self._sums.sums.shape[0]

    def why_no_features(self) -> str | None:
        """Return why the rows are hardly features of a kernel, or None."""
        return self._norms.why_no_features(self.targets.weight(self._sums.sums))

    def _merge_sums(self, other):
        self._sums.merge(other._sums)
        self._norms += other._norms


def _check_size(features, sums):
    """Raise ValueError where the products of features with sums could overflow."""
    largest = [float(np.abs(array).max(initial=0)) for array in (features, sums)]
    most = float(np.finfo(np.result_type(features, sums)).max)
    if not math.prod(largest) * features.shape[1] < most:
        raise ValueError(
            f"Features up to {largest[0]:.1e} are too large for the kernel sums of "
            "these training rows. Scale them."
        )
