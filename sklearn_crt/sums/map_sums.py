"""Feature statistics, accumulated for kernel averages and ridge regression.

Accumulated sums are valid only for the feature map that computed the features, and the
map of a sampler may depend on all training rows. The first rows are therefore kept
until the map is fixed. As long as they are kept, the result is the same for one batch
and for many.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, cast

import numpy as np
from scipy import sparse
from sklearn.base import TransformerMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from .._compat import array_device
from .._values import same
from ..arrays.namespaces import Array, on_host, row_chunks
from ..arrays.validation import fit_namespace_of
from ..life_cycle.fitted import (
    KEPT_ENTRIES,
    Batch,
    LearnedValue,
    LifeCycle,
    S,
    Step,
    frozen_copy,
    no_step,
    with_value,
)
from ..maps import FeatureMap
from ..rows import Rows
from ..samplers import BaseFeatureSampler

# what computes the features: a sampler, or a transformer of scikit-learn's interface
Transformer: TypeAlias = BaseFeatureSampler | TransformerMixin

# a function that takes ``draw(batches, n_before=0)``, and applies it to all rows
Drawn = Callable[[Callable[..., Any]], Any]


@dataclass(frozen=True, eq=False, kw_only=True)
class MapSums(LearnedValue[S]):
    """A feature map, and the accumulated sums of its features once the map is fixed.

    Until the map is fixed, the rows themselves are kept. The features are computed by
    ``sampler``. It is a sampler or transformer that is fitted as soon as there are
    rows, or None if the rows are used as features. The solution has a ``sampler``, too.
    """

    sampler: Transformer | None
    is_fixed: bool
    kept: tuple[Batch, ...] = ()  # rows whose features are summed once the map is fixed

    @staticmethod
    def start(sampler: Transformer | None) -> dict[str, Any]:
        """Return the fields of a value without rows, for a sampler or transformer."""
        is_fixed = sampler is None or isinstance(sampler, FrozenEstimator)
        return {
            "sampler": sampler if is_fixed else clone(sampler),
            "is_fixed": is_fixed,
        }

    # ------------------------------------------------------------------- hooks
    @abstractmethod
    def _with_sums_of(self, batches: tuple[Batch, ...], step: Step = no_step) -> Self:
        """Return a copy whose sums include the features of additional batches."""

    @abstractmethod
    def _with_sums_from(self, other: Self) -> Self:
        """Return a copy whose sums include those of another value with the same map."""

    @abstractmethod
    def with_best_sigma_of(self, drawn: Drawn, n_rows: int = 0) -> Self:
        """Return a copy with the sigma that is best on samples of all ``n_rows`` rows.

        ``drawn`` takes a function that draws a sample from consecutive batches, given
        the number of rows before the first of them, and returns the sample of all rows.
        """

    # -------------------------------------------------------------- life cycle
    def plus(self, batch: Batch, step: Step = no_step) -> Self:
        n_columns = batch.X.shape[1]
        expected = getattr(self.sampler, "n_features_in_", n_columns)
        if expected != n_columns:
            name = type(getattr(self.sampler, "estimator", self.sampler)).__name__
            raise ValueError(
                f"X has {n_columns} features, but {name} is expecting {expected} "
                "features as input."
            )
        if self.is_fixed:
            return replace(self._with_sums_of((batch,), step), known=None)
        sampler, is_fixed = _fitted_with(self.sampler, batch)
        kept = (*self.kept, batch)
        value = replace(self, sampler=sampler, kept=kept, known=None)
        n_entries = sum(each.X.shape[0] * each.X.shape[1] for each in kept)
        return value.fixed(step) if is_fixed or n_entries > KEPT_ENTRIES else value

    def read(self, batch: Batch, n_before: int = 0) -> Self:
        # workers send back the sums of features, but not the feature map
        return super().read(batch, n_before).without_map()

    def fixed(self, step: Step = no_step) -> Self:
        """Return a copy whose map is fixed and which stores no rows."""
        value = self.summed(step)
        return replace(value, sampler=frozen_copy(value.sampler), is_fixed=True)

    def summed(self, step: Step = no_step) -> Self:
        """Return a copy whose sums include the features of the kept rows."""
        if not self.kept:
            return self
        batches, n_rows = self.kept, sum(batch.X.shape[0] for batch in self.kept)
        value = replace(self, kept=())
        value = value.with_best_sigma_of(lambda draw: draw(batches), n_rows)
        return value._with_sums_of(batches, step)

    def fitted(self, batch: Batch, step: Step = no_step) -> Self:
        value = super().fitted(batch, step)
        found: Any = value.known  # of any type that has a sampler
        sampler = found.sampler
        learned = sampler._value if isinstance(sampler, LifeCycle) else None
        if not isinstance(learned, LearnedValue) or learned.known is not None:
            return value
        # so that a model that is loaded from a file need not learn its map again
        sampler = with_value(sampler, replace(learned, known=learned.solution))
        return replace(value, known=replace(found, sampler=sampler))

    def frozen(self) -> Self:
        value, found = super().frozen(), cast(Any, self.solution)
        known = replace(found, sampler=frozen_copy(found.sampler))
        return replace(value, known=known)

    def _without_rows(self) -> Self:
        return replace(self, kept=(), sampler=None)

    def __add__(self, other: Self) -> Self:
        if self.is_fixed and other.is_fixed:
            self._check_same_map(other)
            return replace(self._with_sums_from(other), known=None)
        # add kept rows to the value with a fixed map, or to this one if there is none
        value, rows = (other, self.kept) if other.is_fixed else (self, other.kept)
        for batch in rows:
            value = value.plus(batch)
        return value

    def _check_same_map(self, other: Self) -> None:
        if not same(map_of(self.sampler), map_of(other.sampler)):
            raise ValueError(
                "merge requires the same fitted sampler in both estimators, but these "
                "two were fitted on different data or with different seeds. Fit one "
                "sampler, and pass kernel=FrozenEstimator(sampler) to both estimators, "
                "or use a sampler that does not depend on the rows, with a number for "
                "sigma, center=False and an integer for random_state."
            )

    def without_map(self) -> Self:
        """Return a copy without the sampler, so that less data is transferred."""
        return replace(self, sampler=None)

    def with_map_of(self, other: Self) -> Self:
        """Return a copy with the sampler of another value."""
        return replace(self, sampler=other.sampler)


def _fitted_with(sampler: Transformer, batch: Batch) -> tuple[Transformer, bool]:
    """Return a copy that is also fitted to a batch, and whether its map is fixed."""
    if isinstance(sampler, LifeCycle):
        own = sampler._batch_of_rows(*batch[:3])
        if "_value" in vars(sampler):
            return with_value(sampler, sampler._value.plus(own)), False
        sampler._validate_params()
        value, X = sampler._empty_value(own).plus(own), batch.X
        noted = {"n_features_in_": X.shape[1], "_fit_namespace": fit_namespace_of(X)}
        sampler = with_value(sampler, value, noted)
        sampler._note_params()
        return sampler, False
    sampler = copy.deepcopy(sampler)  # a deep copy, because fitting may change any part
    in_batches = hasattr(sampler, "partial_fit")
    # a transformer without partial_fit is only fitted to the first batch
    fit = sampler.partial_fit if in_batches else sampler.fit
    if has_fit_parameter(sampler, "sample_weight"):
        fit(batch.X, sample_weight=batch.weights)
    else:
        fit(batch.X)
    return sampler, not in_batches


def third_party_features(
    source: TransformerMixin | None, X: Rows
) -> Iterator[tuple[slice, Array, None]]:
    """Yield slices of rows, and the features that a transformer computes from them.

    If the transformer is None, the rows themselves are the features.
    """
    for rows in row_chunks(X, X.shape[1]):
        chunk = X[rows, ...]
        features: Any = chunk if source is None else source.transform(chunk)
        if sparse.issparse(features):
            features = features.toarray()
        if on_host(X):
            features = np.asarray(features)
        elif type(features) is not type(X):
            raise TypeError(
                f"{type(source).__name__} returns an object of type "
                f"{type(features).__name__} for rows of type {type(X).__name__} on the "
                f"device {array_device(X)}; use a sampler of sklearn_crt or a "
                "transformer with array API support."
            )
        yield rows, features, None


def map_of(sampler: Transformer | None) -> Any:
    """Return the feature map of a sampler of this package, or the transformer itself.

    An estimator converts a table to a numerical matrix before it computes features.
    Samplers that accept tables therefore provide the map that starts from this matrix.
    """
    feature_map = getattr(sampler, "map_", None)
    if isinstance(feature_map, FeatureMap):
        return feature_map
    return getattr(sampler, "_map_of_matrix", sampler)
