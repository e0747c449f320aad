"""The life cycle of supervised estimators: classifiers and regressors."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator

from ._array import to_namespace_of, validate_rows
from ._compat import _check_partial_fit_first_call, _fit_context
from ._fitted import Batch, LifeCycle, check_names
from ._state import copied
from .rows import (
    TableLike,
    check_same_classes,
    check_same_outputs,
    label_codes,
    number_columns,
    plain_targets,
    weighted_rows,
)


class SupervisedLifeCycle(LifeCycle):
    """A classifier or regressor that can learn in batches."""

    _y_checks: dict  # options for scikit-learn's validation of y
    _check_targets: Any  # returns y as the array that the fitted value expects
    _check_same_targets: Any  # raises ValueError if the targets of another model differ
    _keeps_rows = False  # whether ``fit`` keeps the rows, so that it has to copy them
    _transformer: Any  # computes the features, None if the rows are features

    def _keeps_library(self, X: Any) -> bool:
        """Return whether arrays of other libraries are kept rather than converted."""
        return False

    def _read(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, final: bool
    ) -> Batch:
        """Return validated rows with positive weights, with targets and weights."""
        self._note_namespace(X, y, sample_weight, first=first)
        # copy, because the caller may write the next batch to the same array
        options = {"copy": not final or self._keeps_rows, "y": plain_targets(y)}
        options |= self._y_checks
        options["keep_library"] = self._keeps_library(X)
        X, y = validate_rows(self, X, reset=first, **options)
        transformer = self._transformer
        if isinstance(transformer, FrozenEstimator):
            check_names(self, transformer)
        y = to_namespace_of(self._check_targets(y, first, final), X)
        n_given = X.shape[0]
        X, y, weights, dropped = weighted_rows(X, y, sample_weight)
        return Batch(X, y, weights, n_given, dropped)

    def _check_same_model(self, other: Any) -> None:
        self._check_same_targets(other)


class LabelsMixin:
    """The method ``partial_fit`` of classifiers."""

    classes_: np.ndarray
    _y_checks: dict = {}
    _check_targets = label_codes
    _check_same_targets = check_same_classes
    _become: Any

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of training rows.

        Up to about 4 million entries of X in total, the result equals ``fit`` on all
        rows together, whatever the order of the batches. Beyond that, or after
        ``freeze()``, the feature map is fixed, the rows are discarded, and memory use
        stays constant.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur in any batch; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The estimator.
        """
        model: Any = copied(self)
        _check_partial_fit_first_call(model, to_namespace_of(classes, None))
        return self._become(model._extend_value(X, y, sample_weight))


class NumbersMixin:
    """The method ``partial_fit`` of regressors."""

    _one_output: bool
    _y_checks: dict = {"multi_output": True, "y_numeric": True}
    _check_targets = number_columns
    _check_same_targets = check_same_outputs
    _extend_value: Any

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of training rows.

        Up to about 4 million entries of X in total, the result equals ``fit`` on all
        rows together, whatever the order of the batches. Beyond that, or after
        ``freeze()``, the feature map is fixed, the rows are discarded, and memory use
        stays constant.

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
        return self._extend_value(X, y, sample_weight)
