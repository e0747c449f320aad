"""Kernel sums through a feature map: one small matrix stands for the training rows."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from .._array import Array, on_host, part
from .._compat import array_device
from .._state import same
from .._workers import Workspace, row_chunks
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

_PENDING_ENTRIES = 2**22  # entries of X that partial_fit keeps before it fixes a map


class FeatureEngine:
    """Sums of features times targets, and the map that makes the features.

    Sums stay valid only while the map stays still. ``partial_fit`` keeps the first
    rows (up to 2**22 entries), so the map is fitted on all of them and any order of
    batches gives the same result; then it is frozen and the rows are forgotten.
    """

    quiet = False  # whether warnings are left to others

    def __init__(self, sampler: Any, targets: Targets):
        self.targets = targets
        self.frozen = sampler is None or isinstance(sampler, FrozenEstimator)
        self.sampler = sampler if self.frozen else clone(sampler)
        # what makes the features: a map, a fitted transformer, or None
        self.source = _source(sampler) if self.frozen else None
        self._sums = FeatureSums()
        self._pending: tuple[tuple[Rows, np.ndarray, np.ndarray], ...] = ()
        self._norms = Norms()

    def copy(self) -> FeatureEngine:
        """Return an engine that further rows may be added to, apart from this one."""
        other = copy.copy(self)
        other._sums = copy.copy(self._sums)
        return other

    def add(
        self,
        X: Rows,
        y: np.ndarray,
        weights: np.ndarray,
        *,
        final: bool = False,
        step: Callable[[], None] = lambda: None,
    ) -> None:
        """Add rows of positive weight; ``final`` fixes the map.

        ``step`` is called after each chunk of rows.
        """
        if self.frozen:
            self._accumulate(X, y, weights, step)
            return
        self._fit_sampler(X, weights)
        self._pending += ((X, y, weights),)
        self._sums = FeatureSums()  # those of the map before
        self._norms = Norms()
        n_pending = sum(rows.shape[0] * rows.shape[1] for rows, *_ in self._pending)
        if final or n_pending > _PENDING_ENTRIES or self.frozen:
            self.freeze(step)

    def freeze(self, step: Callable[[], None] = lambda: None) -> None:
        """Fix the map for good, and forget the rows kept until now."""
        if self._sums.empty:
            self._absorb(step)
        self._pending, self.frozen = (), True
        if isinstance(self.source, FeatureMap) and hasattr(self.sampler, "freeze"):
            self.sampler = copy.copy(self.sampler).freeze()

    def without_map(self) -> FeatureEngine:
        """Return the sums of a fixed map alone: what blocks of rows exchange."""
        other = self.copy()
        other.sampler = other.source = None
        return other

    def with_map(self, sampler: Any) -> FeatureEngine:
        """Return these sums with the fitted sampler whose map they are of."""
        other = self.copy()
        other.sampler, other.source = sampler, _source(sampler)
        return other

    def _fit_sampler(self, X, weights):
        if hasattr(self.sampler, "partial_fit"):
            if isinstance(self.source, FeatureMap):  # fitting sets attributes alone
                self.sampler = copy.copy(self.sampler)
            elif self.source is not None:  # else it is a clone that nobody has yet
                self.sampler = copy.deepcopy(self.sampler)
            fit = self.sampler.partial_fit
        else:  # a map that learns in one go is fixed by the first batch
            fit, self.frozen = self.sampler.fit, True
        if has_fit_parameter(self.sampler, "sample_weight"):
            fit(X, sample_weight=weights)
        else:
            fit(X)
        self.source = _source(self.sampler)

    def _absorb(self, step=lambda: None):
        for rows in self._pending:
            self._accumulate(*rows, step)

    def _accumulate(self, X, y, weights, step):
        workspace, dtype = Workspace(), self.targets.product_type(X)
        for rows, mantissa, exponent in self._features(X, True, workspace):
            targets = self.targets.encode(part(y, rows), weights[rows], dtype)
            self._sums.add(mantissa, exponent, targets, workspace)
            if not isinstance(self.source, FeatureMap):
                self._norms += Norms.of(mantissa, weights[rows])
            step()

    def _features(self, X, key, workspace):
        if self.sampler is not None:
            _check_columns(self.sampler, X)
        if isinstance(self.source, FeatureMap):
            self.source.frame.check(X)
            return self.source.iter_log_features(X, key=key, workspace=workspace)
        return _third_party_features(self.source, X)

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

    def merge(self, other: FeatureEngine) -> None:
        """Add the rows behind another engine."""
        if not other.frozen:
            for rows in other._pending:
                self.add(*rows)
            return
        if self.frozen:
            self._check_same_map(other)
        else:  # take over the map that is fixed already
            self.sampler, self.source = other.sampler, other.source
            self._sums = FeatureSums()
            self.freeze()
        self._sums.merge(other._sums)
        self._norms += other._norms

    def _check_same_map(self, other):
        if not same(self.source, other.source):
            raise ValueError(
                "merge needs the same fitted sampler on both sides, but these two "
                "were fitted on other data or with another seed. Fit one sampler, "
                "and give kernel=FrozenEstimator(sampler) to both estimators."
            )


def _third_party_features(
    source: Any, X: Any
) -> Iterator[tuple[slice, Array | None, Array | None]]:
    """Yield rows and the features that a transformer, or None, makes of them."""
    for rows in row_chunks(X, X.shape[1]):
        chunk = part(X, rows)
        features = chunk if source is None else source.transform(chunk)
        if sparse.issparse(features):
            features = features.toarray()
        if on_host(X):
            features = np.asarray(features)
        elif type(features) is not type(X):
            raise TypeError(
                f"{type(source).__name__} returns {type(features).__name__} for rows "
                f"that are {type(X).__name__} on {array_device(X)}; take a sampler of "
                "sklearn_crt or a transformer with array API support."
            )
        yield rows, features, None


def _source(sampler):
    """Return the map of a fitted sampler of this package, else the transformer."""
    feature_map = getattr(sampler, "map_", None)
    return feature_map if isinstance(feature_map, FeatureMap) else sampler


def _check_columns(sampler, X):
    """Raise scikit-learn's error where a sampler was fitted on other columns."""
    expected = getattr(sampler, "n_features_in_", X.shape[1])
    if expected != X.shape[1]:
        name = type(getattr(sampler, "estimator", sampler)).__name__
        raise ValueError(
            f"X has {X.shape[1]} features, but {name} is expecting {expected} "
            "features as input."
        )


def _check_size(features, sums):
    """Raise ValueError where the products of features with sums could overflow."""
    largest = [float(np.abs(array).max(initial=0)) for array in (features, sums)]
    most = float(np.finfo(np.result_type(features, sums)).max)
    if not math.prod(largest) * features.shape[1] < most:
        raise ValueError(
            f"Features up to {largest[0]:.1e} are too large for the kernel sums of "
            "these training rows. Scale them."
        )
