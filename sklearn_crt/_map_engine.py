"""Sums of features over batches of rows, with labels or numbers as targets.

Sums stay valid only while the map stays still. So an engine keeps the first rows until
the map is fixed: any order of batches then gives the same result.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import has_fit_parameter

from ._array import Array, on_host, part, to_namespace_of
from ._compat import _check_partial_fit_first_call, _fit_context, array_device
from ._state import aside, same
from ._workers import row_chunks
from .maps import FeatureMap
from .rows import (
    Rows,
    TableLike,
    check_same_classes,
    check_same_outputs,
    label_codes,
    number_columns,
)

_PENDING_ENTRIES = 2**22  # entries of X that partial_fit keeps before it fixes a map
Table = tuple[Rows, np.ndarray, np.ndarray]  # rows, targets, weights


class MapEngine(ABC):
    """Sums of features, kept by a subclass, and the map that makes the features."""

    parameter = "kernel"  # of the estimator, that gives the sampler

    def __init__(self, sampler: Any):
        self.frozen = sampler is None or isinstance(sampler, FrozenEstimator)
        self.sampler = sampler if self.frozen else clone(sampler)
        # what makes the features: a map, a fitted transformer, or None
        self.source = map_of(sampler) if self.frozen else None
        self._pending: tuple[Table, ...] = ()

    # ------------------------------------------------------------------- hooks
    @property
    @abstractmethod
    def _empty(self) -> bool:
        """Whether there are no sums."""

    @abstractmethod
    def _forget(self) -> None:
        """Drop the sums, which are those of another map."""

    @abstractmethod
    def _take(self, tables: tuple[Table, ...], step: Callable[[], None]) -> None:
        """Add rows to the sums; ``step`` is called after each chunk of them."""

    @abstractmethod
    def _merge_sums(self, other: Any) -> None:
        """Add the sums of another engine with the same map."""

    # --------------------------------------------------------------------- rows
    def copy(self) -> Self:
        """Return an engine that further rows may be added to, apart from this one."""
        return copy.copy(self)

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
            self._take(((X, y, weights),), step)
            return
        self._fit_sampler(X, weights)
        self._pending += ((X, y, weights),)
        self._forget()
        if final or self.frozen or self._n_pending > _PENDING_ENTRIES:
            self.freeze(step)

    @property
    def _n_pending(self):
        return sum(X.shape[0] * X.shape[1] for X, *_ in self._pending)

    def freeze(self, step: Callable[[], None] = lambda: None) -> None:
        """Fix the map for good, and forget the rows kept until now."""
        if self._empty:
            self._absorb(step)
        self._pending, self.frozen = (), True
        if isinstance(self.source, FeatureMap) and hasattr(self.sampler, "freeze"):
            self.sampler = copy.copy(self.sampler).freeze()

    def without_map(self) -> Self:
        """Return the sums of a fixed map alone: what blocks of rows exchange."""
        other = self.copy()
        other.sampler = other.source = None
        return other

    def with_map(self, sampler: Any) -> Self:
        """Return these sums with the fitted sampler whose map they are of."""
        other = self.copy()
        other.sampler, other.source = sampler, map_of(sampler)
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
        self.source = map_of(self.sampler)

    def _absorb(self, step=lambda: None):
        self._take(self._pending, step)

    def check_columns(self, X: Any) -> None:
        """Raise scikit-learn's error where a sampler was fitted on other columns."""
        expected = getattr(self.sampler, "n_features_in_", X.shape[1])
        if expected != X.shape[1]:
            name = type(getattr(self.sampler, "estimator", self.sampler)).__name__
            raise ValueError(
                f"X has {X.shape[1]} features, but {name} is expecting {expected} "
                "features as input."
            )

    def merge(self, other: Self) -> None:
        """Add the rows behind another engine."""
        if not other.frozen:
            for rows in other._pending:
                self.add(*rows)
            return
        if self.frozen:
            self._check_same_map(other)
        else:  # take over the map that is fixed already
            self._forget()
            self._take_over(other)
            self.freeze()
        self._merge_sums(other)

    def _take_over(self, other):
        """Take the map of another engine, which is fixed already."""
        self.sampler, self.source = other.sampler, other.source

    def _check_same_map(self, other):
        if not same(self.source, other.source):
            raise ValueError(
                "merge needs the same fitted sampler on both sides, but these two "
                "were fitted on other data or with another seed. Fit one sampler, and "
                f"give {self.parameter}=FrozenEstimator(sampler) to both estimators."
            )


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


class LabelsMixin:
    """Batches of rows with labels."""

    classes_: np.ndarray
    _y_checks: dict = {}
    _check_targets = label_codes
    _check_mergeable = check_same_classes

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of training rows.

        Up to about 4 million entries of X, batches in any order equal ``fit`` on all of
        them. Beyond that, or after ``freeze()``, the map is fixed, the rows are
        forgotten, and memory stays constant.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The estimator.
        """
        classes = to_namespace_of(classes, None)
        with aside(self) as made:
            _check_partial_fit_first_call(made, classes)
            made._add(X, y, sample_weight, final=False)  # type: ignore[attr-defined]
        return self


class NumbersMixin:
    """Batches of rows with numbers."""

    _one_output: bool
    _y_checks: dict = {"multi_output": True, "y_numeric": True}
    _check_targets = number_columns
    _check_mergeable = check_same_outputs

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of training rows.

        Up to about 4 million entries of X, batches in any order equal ``fit`` on all of
        them. Beyond that, or after ``freeze()``, the map is fixed, the rows are
        forgotten, and memory stays constant.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The estimator.
        """
        with aside(self) as made:
            made._add(X, y, sample_weight, final=False)  # type: ignore[attr-defined]
        return self
