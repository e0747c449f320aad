"""Sums of features over rows: what averages on features and ridge regression keep.

Sums are valid only for the map whose features were summed, and the map of a sampler may
depend on all rows. The first rows are therefore kept until the map is fixed, so that
batches in any order give the same result.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from ._array import Array, on_host, part, row_chunks
from ._compat import array_device, cached_property
from ._fitted import (
    Batch,
    FittedValue,
    LifeCycle,
    Step,
    frozen_copy,
    no_step,
    with_rows,
)
from ._state import same
from .maps import FeatureMap

_KEPT_ENTRIES = 2**22  # entries of X that partial_fit keeps before it fixes a map


@dataclass(frozen=True, eq=False, kw_only=True)
class MapSums(FittedValue):
    """A map, and sums of its features once it is fixed; rows before that.

    ``sampler`` makes the features: a fitted sampler or transformer, None where rows are
    features already, or one that is not fitted if there are no rows yet.
    """

    sampler: Any
    is_fixed: bool
    kept: tuple[Batch, ...] = ()  # rows that the map still depends on
    parameter = "kernel"  # of the estimator, that gives the sampler

    @staticmethod
    def start(sampler: Any) -> dict[str, Any]:
        """Return the fields of no rows, for a parameter of the estimator."""
        is_fixed = sampler is None or isinstance(sampler, FrozenEstimator)
        return {
            "sampler": sampler if is_fixed else clone(sampler),
            "is_fixed": is_fixed,
        }

    # ------------------------------------------------------------------- hooks
    @abstractmethod
    def _with_sums_of(self, batches: tuple[Batch, ...], step: Step = no_step) -> Self:
        """Return the value with the features of further rows in its sums."""

    @abstractmethod
    def _with_sums_from(self, other: Self) -> Self:
        """Return the value with the sums of another one with the same map."""

    # -------------------------------------------------------------- life cycle
    def plus(self, batch: Batch, step: Step = no_step) -> Self:
        if self.is_fixed:
            return self._with_sums_of((batch,), step)
        sampler, is_fixed = _fitted_to(self.sampler, batch)
        value = replace(self, sampler=sampler, kept=(*self.kept, batch))
        n_entries = sum(each.X.shape[0] * each.X.shape[1] for each in value.kept)
        if is_fixed or n_entries > _KEPT_ENTRIES:
            return value.frozen(step)
        return value

    def frozen(self, step: Step = no_step) -> Self:
        total, sampler = self.summed(step), self.sampler
        if isinstance(self.source, FeatureMap) and isinstance(sampler, LifeCycle):
            sampler = frozen_copy(sampler)  # not that of a FrozenEstimator of the user
        return replace(total, sampler=sampler, is_fixed=True, kept=())

    def summed(self, step: Step = no_step) -> Self:
        """Return the value with the features of the kept rows in its sums."""
        if not self.kept:
            return self
        known = vars(self).get("total")
        return known or replace(self._with_sums_of_kept(step), kept=())

    def _with_sums_of_kept(self, step: Step) -> Self:
        return self._with_sums_of(self.kept, step)

    @cached_property
    def total(self) -> Self:
        """The value with the features of all rows in its sums, for queries."""
        return self.summed()

    def __add__(self, other: Self) -> Self:
        if self.is_fixed and other.is_fixed:
            self._check_same_map(other)
            return self._with_sums_from(other)
        # rows that are still kept are added to the other side, whose map may be fixed
        value, rows = (other, self.kept) if other.is_fixed else (self, other.kept)
        for batch in rows:
            value = value.plus(batch)
        return value

    def _check_same_map(self, other: Self) -> None:
        if not same(self.source, other.source):
            raise ValueError(
                "merge needs the same fitted sampler on both sides, but these two "
                "were fitted on other data or with another seed. Fit one sampler, and "
                f"give {self.parameter}=FrozenEstimator(sampler) to both estimators."
            )

    # --------------------------------------------------------------------- map
    @cached_property
    def source(self) -> Any:
        """What makes the features: a map, a fitted transformer, or None."""
        return map_of(self.sampler)

    def with_fixed(self, sampler: Any) -> Self:
        """Return the value of no rows with a sampler that was fitted elsewhere."""
        return replace(self, sampler=sampler, is_fixed=True)

    def without_map(self) -> Self:
        """Return the sums of a fixed map alone, which blocks of rows exchange."""
        return replace(self, sampler=None)

    def with_map_of(self, sampler: Any) -> Self:
        """Return these sums with the fitted sampler whose map they belong to."""
        return replace(self, sampler=sampler)

    def check_columns(self, X: Any) -> None:
        """Raise scikit-learn's error if a sampler was fitted on other columns."""
        expected = getattr(self.sampler, "n_features_in_", X.shape[1])
        if expected != X.shape[1]:
            name = type(getattr(self.sampler, "estimator", self.sampler)).__name__
            raise ValueError(
                f"X has {X.shape[1]} features, but {name} is expecting {expected} "
                "features as input."
            )


def _fitted_to(sampler: Any, batch: Batch) -> tuple[Any, bool]:
    """Return a sampler that has seen further rows, and whether its map is now fixed."""
    if isinstance(sampler, LifeCycle):
        return with_rows(sampler, batch.X, batch.weights), False
    sampler = copy.deepcopy(sampler)  # which fitting may change anywhere
    in_batches = hasattr(sampler, "partial_fit")
    # a transformer that learns from all rows at once is fixed by the first batch
    fit = sampler.partial_fit if in_batches else sampler.fit
    if has_fit_parameter(sampler, "sample_weight"):
        fit(batch.X, sample_weight=batch.weights)
    else:
        fit(batch.X)
    return sampler, not in_batches


def third_party_features(source: Any, X: Any) -> Iterator[tuple[slice, Array, None]]:
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


def map_of(sampler: Any) -> Any:
    """Return the map of a fitted sampler of this package, else the transformer."""
    feature_map = getattr(sampler, "map_", None)
    return feature_map if isinstance(feature_map, FeatureMap) else sampler
