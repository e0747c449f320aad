"""The life cycle of supervised estimators, and values learned from a sample."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator
from sklearn.utils.class_weight import compute_class_weight

from .._compat import _check_partial_fit_first_call, _fit_context, warn
from .._values import check_same_params
from ..arrays.namespaces import (
    asarray_like,
    is_foreign,
    namespace_of,
    taken,
    to_host,
    to_namespace_of,
)
from ..arrays.validation import check_fit_namespace, validate_rows
from ..rows import (
    TableLike,
    check_same_classes,
    check_same_outputs,
    label_codes,
    number_columns,
    plain_targets,
    read_weights,
    weighted_rows,
)
from ..rows.raw_table import TableReader, validated_table
from ..rows.row_sample import RowSample, distinct_rows
from .fitted import (
    KEPT_ENTRIES,
    Batch,
    LearnedValue,
    LifeCycle,
    S,
    Step,
    check_names,
    copied,
    no_step,
)
from .out_of_fold import OutOfFoldMixin, check_metric, group_numbers

# Rows seem to be repeated on purpose if they are at least this proportion of all rows,
# and if the values of a column are distinct in at least this proportion of the others.
_REPEATED, _DISTINCT = 0.1, 0.5
_LEAST_CHECKED = 20  # tables with fewer rows are not checked
_N_COMPARED = 1000  # number of rows from which the column is chosen


class TargetsLifeCycle(LifeCycle):
    """Base class of estimators that are fitted to targets."""

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the estimator to the training data.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows. ``TableRegressor``, ``TableClassifier`` and
            ``AnovaSampler`` read raw tables: columns may contain numbers, booleans,
            dates, strings or categories, and missing values, but X must not be sparse.
            All other estimators require numbers, which must already be features if
            ``kernel="linear"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets: numbers for regressors, labels for classifiers, and either numbers
            or labels for transformers. Numbers may have several outputs, except in
            ``TableRegressor``.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; None means that all rows have weight 1. A row of
            weight w counts as w rows, and rows with weight 0 are ignored. Estimators
            for raw tables divide the weights by their mean.

        Returns
        -------
        self : object
            The fitted estimator. Until :meth:`freeze` is called, it keeps the training
            rows, a sample of them, or accumulated statistics, so that more rows can be
            added.

        Raises
        ------
        TypeError
            If X or y has a type that the estimator does not support, for instance dates
            (except in raw tables) or, for some estimators, arrays on a device.
        ValueError
            If a parameter, X, y or a weight is invalid.
        """
        return self._fit_value(X, y, sample_weight)


class SupervisedLifeCycle(OutOfFoldMixin, TargetsLifeCycle):
    """Base class of classifiers and regressors that can learn in batches."""

    _y_checks: dict  # options for scikit-learn's validation of y
    _check_targets: Any  # function that converts y to the array used for fitting
    _check_same_targets: Any  # raises ValueError if another model has different targets
    _validated: Any = validate_rows  # also returns y if y is among the options
    _keeps_rows = False  # whether ``fit`` keeps the rows, and therefore copies them
    kernel: Any
    _class_factors: Any  # of ``LabelsMixin``
    _transformer: Any  # computes the features; None if the rows are the features

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the estimator to the training data.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows. All values must be numbers; if ``kernel="linear"``, the
            columns must be features of a kernel.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets: numbers, in one or several outputs, for regressors, and labels, of
            shape (n_samples,), for classifiers.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; None means that all rows have weight 1. A row of
            weight w counts as w rows, and rows with weight 0 are ignored.
        groups : array-like of shape (n_samples,), default=None
            Labels of groups of dependent rows, for instance of the patient whose visits
            the rows describe. Intervals and probabilities then refer to rows of new
            groups: they are based on predictions by models that are fitted without all
            rows of the same group (and up to ten folds of groups). None means that the
            rows are independent.

        Returns
        -------
        self : object
            The fitted estimator. Until :meth:`freeze` is called, it keeps the training
            rows, a sample of them, or accumulated statistics, so that more rows can be
            added.

        Raises
        ------
        TypeError
            If X or y has a type that the estimator does not support, for instance dates
            or, for some estimators, arrays on a device.
        ValueError
            If a parameter, X, y, a weight or a group is invalid.
        """
        return self._fit_value(X, y, sample_weight, groups)

    def _keeps_library(self, X: Any) -> bool:
        """Return whether X, of another library, is kept rather than converted."""
        return False

    def _read(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any = None,
        *,
        first: bool,
        final: bool,
    ) -> Batch:
        """Return a batch of validated rows with positive weights."""
        self._note_namespace(X, y, sample_weight, first=first)
        if self.metric is not None:
            check_metric(self, final)
        # Rows are copied if they are kept, because the caller may write the next batch
        # to the same array. With many rows, ``fit`` keeps only sums.
        few = math.prod(getattr(X, "shape", ())) <= KEPT_ENTRIES
        copy = not final or few or self._keeps_rows
        options = {"copy": copy, "y": plain_targets(y)}
        options |= self._y_checks
        options["keep_library"] = is_foreign(X) and self._keeps_library(X)
        X, y = self._validated(X, reset=first, **options)
        if isinstance(self.kernel, FrozenEstimator):
            check_names(self, self.kernel)
        y = to_namespace_of(self._check_targets(y, first, final), X)
        n_given = X.shape[0]
        factors = None
        if getattr(self, "class_weight", None) is not None:
            factors = self._class_factors(X, y, sample_weight, final)
            own = asarray_like(factors, read_weights(X, sample_weight))
            sample_weight = read_weights(X, sample_weight) * taken(own, y)
        X, y, weights, dropped = weighted_rows(X, y, sample_weight)
        numbers = None if groups is None else group_numbers(groups, n_given, dropped)
        return Batch(
            X=X,
            y=y,
            weights=weights,
            n_given=n_given,
            dropped=dropped,
            class_weight=factors,
            groups=numbers,
        )

    def _value_for(self, batch: Batch, step: Step = no_step) -> Any:
        if self.metric is None and batch.groups is None:
            return self._empty_value(batch).fitted(batch, step)
        return self._value_with_folds(batch, step)

    def _check_same_model(self, other: Any) -> None:
        self._check_same_targets(other)
        if isinstance(getattr(self, "class_weight", None), str):  # "balanced"
            raise ValueError(
                "merge cannot balance the classes of all rows, because the weights of "
                "class_weight='balanced' depend on the rows of each part. Pass the "
                "same weight for each class to both estimators."
            )


def warn_of_repeated_rows(X: Any, y: Any, name: str) -> None:
    """Warn if many rows repeat another row together with its target.

    In a table of categories or counts, equal rows are independent observations. If most
    values of a column are distinct, equal rows are almost certainly copies.
    Models that predict each row from the others then seem too accurate. ``name`` is the
    name of the estimator. Sparse matrices and other libraries are not checked.
    """
    # X (n_rows, n_features), y (n_rows,) or (n_rows, n_outputs)
    if not isinstance(X, np.ndarray) or not isinstance(y, np.ndarray):
        return
    n_rows = len(X)
    if n_rows < _LEAST_CHECKED:
        return
    few = X[:: max(1, n_rows // _N_COMPARED)]
    column = X[:, np.argmax([np.unique(values).size for values in few.T])]
    _, places, counts = np.unique(column, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(counts[places] > 1)
    if len(shared) < _REPEATED * n_rows or counts.size < 2:
        return
    # Copies share any value. The most frequent one, such as zero or a missing value,
    # may also be shared by independent rows.
    rare = shared[places[shared] != np.argmax(counts)]
    n_repeated, n_rare = (
        len(rows) - len(distinct_rows(X[rows], y[rows])[0]) for rows in (shared, rare)
    )
    if n_rare < _REPEATED * n_rows:
        return
    if counts.size < _DISTINCT * (n_rows - n_repeated):
        return
    warn(
        f"{n_repeated} of {n_rows} rows are copies of other rows with the same target. "
        f"{name} selects its parameters by predicting each row from the others, so the "
        "copies make it seem too accurate. Remove them; to give rows more weight, use "
        "class_weight or sample_weight.",
        UserWarning,
    )


def balanced_factors(
    codes: np.ndarray, weights: np.ndarray, n_classes: int
) -> np.ndarray:
    """Return class weights with which all classes have the same total weight."""
    # codes and weights (n,) -> (n_classes,)
    sums = np.bincount(codes, weights, n_classes)
    known = sums > 0
    return sums.sum() / known.sum() / np.where(known, sums, 1)


class LabelsMixin:
    """The ``partial_fit`` method and the class weights of classifiers."""

    classes_: np.ndarray
    class_weight: Any = None
    _y_checks: dict = {}
    _check_targets = label_codes
    _check_same_targets = check_same_classes

    def _class_factors(self, X: Any, y: Any, sample_weight: Any, final: bool) -> Any:
        """Return the class weights, given the codes of the labels."""
        class_weight: Any = self.class_weight
        y, n_classes = to_host(y), self.classes_.size
        if not isinstance(class_weight, str):
            options = {"classes": self.classes_, "y": self.classes_[y]}
            return compute_class_weight(class_weight, **options)
        if not final:
            raise ValueError(
                "class_weight='balanced' needs all rows at once. With batches, pass a "
                "weight for each class: dict(zip(classes, compute_class_weight("
                "'balanced', classes=classes, y=y))), with compute_class_weight from "
                "sklearn.utils.class_weight."
            )
        return balanced_factors(y, to_host(read_weights(X, sample_weight)), n_classes)

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of training rows.

        The rows are added to those of earlier calls to ``fit`` and ``partial_fit``. As
        long as all batches together have no more than about 4 million entries, the
        model is the same as after ``fit`` on all rows in the same order. Models with an
        exact kernel keep all rows. Beyond that size, all other models discard the rows,
        their feature map stays fixed, and memory use stays constant.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows of the batch, of the same kind as in ``fit``.
        y : array-like of shape (n_samples,)
            Labels of the rows.
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur in any batch; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.

        Returns
        -------
        self : object
            The updated estimator.

        Raises
        ------
        ValueError
            If the estimator is frozen, if a parameter has changed since the first
            batch, or if X, y or a weight has an invalid value.
        """
        model: Any = copied(self)
        _check_partial_fit_first_call(model, to_namespace_of(classes, None))
        self.__dict__ = model._extend_value(X, y, sample_weight).__dict__
        return self


class LogProbabilitiesMixin:
    """Mixin of classifiers, which adds the logarithms of the probabilities."""

    predict_proba: Any

    def predict_log_proba(self, X: TableLike) -> np.ndarray:
        """Predict the logarithms of the class probabilities.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            Natural logarithms of the class probabilities, in the order of ``classes_``.
            The logarithm of a probability of 0 is minus infinity.
        """
        check_fit_namespace(self, X, "predict_log_proba")
        found = self.predict_proba(X)
        with np.errstate(divide="ignore"):
            return namespace_of(found).log(found)


class ProbabilitiesMixin(LogProbabilitiesMixin):
    """Mixin of classifiers that predict the class with the largest probability."""

    classes_: np.ndarray

    _query: Any

    @abstractmethod
    def _probabilities(self, rows: Any) -> np.ndarray:
        """Return class probabilities of validated rows in high precision."""

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Return class probabilities, none of which is 0 or 1.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Probabilities of the classes in the order of ``classes_``, in the
            floating-point dtype of X. They sum to one in each row. With
            ``class_weight``, they refer to a population in which the classes have the
            weighted proportions; with ``"balanced"``, all proportions are equal.
        """
        model, rows = self._query(X, "predict_proba")
        found = model._probabilities(rows)
        return to_namespace_of(found.astype(rows.dtype, copy=False), X)

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the class scores; the predicted class has the largest score.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            The class probabilities, in the floating-point dtype of X. With two classes
            there is one number per row, as usual in scikit-learn: the probability of
            the second class minus that of the first.
        """
        model, rows = self._query(X, "decision_function")
        scores = model._probabilities(rows)
        if model.classes_.size <= 2:
            scores = scores[:, -1] - scores[:, 0]
        return to_namespace_of(scores.astype(rows.dtype, copy=False), X)

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the most probable labels.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.
        """
        model, rows = self._query(X, "predict")
        found = model._probabilities(rows)
        return to_namespace_of(model.classes_[np.argmax(found, axis=1)], X)


class BatchesMixin:
    """The ``partial_fit`` method of regressors and transformers."""

    _extend_value: Any

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Add a batch of training rows.

        The rows are added to those of earlier calls to ``fit`` and ``partial_fit``. The
        result is the same as after ``fit`` on all rows in the same order, except for
        very large data: if all batches together have more than about 4 million entries,
        regressors without an exact kernel discard the rows. Beyond that size, their
        feature map stays fixed, and memory use stays constant.

        Transformers learn from a sample of all rows when the result is first needed.
        Later batches may contain new labels and new categories. In ``AnovaSampler``,
        the first batch determines whether the targets are labels, and which columns are
        numeric. In ``LearnedMetric``, integers are labels if all batches together have
        at most 100 distinct values.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows of the batch, of the same kind as in ``fit``. ``AnovaSampler``
            requires a data frame or a dense array.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets of the rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows.

        Returns
        -------
        self : object
            The updated estimator.

        Raises
        ------
        ValueError
            If the estimator is frozen, if a parameter has changed since the first
            batch, if X or y does not match the earlier batches, or if X, y or a weight
            has an invalid value.
        """
        return self._extend_value(X, y, sample_weight)


class NumbersMixin(BatchesMixin):
    """Mixin of regressors, with the validation of their targets."""

    _one_output: bool
    _y_checks: dict = {"multi_output": True, "y_numeric": True}
    _check_targets = number_columns
    _check_same_targets = check_same_outputs


class TableLifeCycle(TargetsLifeCycle):
    """Base class of estimators that read raw tables and are fitted to targets."""

    _reader: TableReader

    def _validated_queries(self, X: Any) -> np.ndarray:
        """Return the matrix of numbers and codes for a user's table."""
        return self._reader.read(validated_table(self, X, reset=False))

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags, which allow raw tables."""
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.sparse = False
        inputs.allow_nan = inputs.string = inputs.categorical = True
        return tags


@dataclass(frozen=True, eq=False)
class SampleValue(LearnedValue[S]):
    """A sample of the rows, from which the solution is learned.

    The result is the same whether the rows are passed at once or in batches.
    """

    choices: Any  # named tuple of the parameters, the seed and the kinds of columns
    # usually a RowSample; None before the first rows and after freezing
    sample: Any = None
    most_rows: ClassVar[int] = 2**12  # of the sample
    most_entries: ClassVar[int] = 2**62  # of the sample, but it has two rows or more

    def plus(self, batch: Batch, step: Step = no_step) -> Self:
        X, y, weights = map(to_host, batch[:3])
        if self.sample is not None:
            sample = self.sample.with_rows(X, y, weights)
        else:
            sample = RowSample.of(
                X,
                y,
                weights,
                seed=self.choices.seed,
                size=max(2, min(self.most_rows, self.most_entries // X.shape[1])),
                n_before=self.n_before,
            )
        return replace(self, sample=sample, known=None)

    def __add__(self, other: Self) -> Self:
        if self.sample is None:
            return other
        check_same_params(self.choices._asdict(), other.choices._asdict())
        return replace(self, sample=self.sample + other.sample, known=None)

    def _without_rows(self) -> Self:
        return replace(self, sample=None)
