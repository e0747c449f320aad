"""The life cycle of estimators: ``fit``, ``partial_fit``, ``merge`` and ``freeze``.

What an estimator has learned is one value that never changes. More rows, the rows of
another estimator, or ``freeze`` make a new value, which one assignment publishes. So
a query in another thread sees the estimator as it was before or as it is after, and a
fit that fails leaves the estimator untouched.
"""

from __future__ import annotations

from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable
from dataclasses import fields
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._array import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    refuse_lazy,
)
from ._compat import (
    DOC_LINK,
    CallbackSupportMixin,
    TypedBaseEstimator,
)
from ._state import copied, get_state, set_state
from ._workers import blas_within_processors

T = TypeVar("T")
Step = Callable[[], None]  # is called after each part of the work, for a progress bar


def no_step() -> None:
    """Report no progress."""


class Batch(NamedTuple):
    """Validated rows of positive weight, with their targets and weights."""

    X: Any  # (n_rows, n_features)
    y: Any  # (n_rows,) or (n_rows, n_outputs)
    weights: Any  # (n_rows,)
    n_given: int = 0  # number of rows before those of weight 0 were left out
    dropped: Any = ()  # (n_dropped,), positions of these among the rows given
    class_weight: Any = None  # (n_classes,), factors that the weights contain


class FittedValue(ABC):
    """What an estimator has learned. No method changes it.

    Parts that are computed when a query first needs them are cached properties: these
    are computed apart from the value and then stored by one assignment, so that it does
    no harm if two threads compute the same part at the same time. They are not pickled.
    """

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, and nothing that follows from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]

    @abstractmethod
    def plus(self, batch: Batch, step: Step = no_step) -> Self:
        """Return the value with further rows."""

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """Return the value of the rows of both, or raise ValueError."""

    @abstractmethod
    def frozen(self, step: Step = no_step) -> Self:
        """Return the value without what only the choice of a map needs."""

    def fitted(self, batch: Batch, step: Step = no_step) -> Self:
        """Return what ``fit`` makes of an empty value and all the rows."""
        return self.plus(batch, step).frozen(step)


def computed_once(value: Any, name: Any, compute: Callable[[], T]) -> T:
    """Return what was computed under this name before, or compute and keep it.

    The result belongs to the value for good, so it must follow from the value and the
    name alone.
    """
    found = vars(value).get(name)
    if found is None:
        found = vars(value)[name] = compute()
    return found


class LifeCycle(CallbackSupportMixin, TypedBaseEstimator, metaclass=ABCMeta):
    """An estimator or a sampler with one fitted value.

    A subclass reads rows (``_read``) and makes an empty value from its parameters
    (``_empty_value``). Its public ``fit`` and ``partial_fit``, which have docstrings
    and signatures of their own, call ``_fit_value`` and ``_extend_value``.
    """

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    _value: Any  # a FittedValue, absent before the first fit
    _fit_namespace: Any = None  # library and device of the rows of fit, None for NumPy
    _unit_of_work = "rows"  # the name of a subtask of ``fit`` in callbacks
    __sklearn_array_api_convert__ = convert_fit_namespace
    __getstate__, __setstate__, __copy__ = get_state, set_state, copied

    # -------------------------------------------------------------------- hooks
    @abstractmethod
    def _read(self, X: Any, *rest: Any, first: bool, final: bool) -> Batch:
        """Return validated rows; note columns and labels if they are the ``first``.

        ``final`` is True if no further batch will come, as in ``fit``.
        """

    @abstractmethod
    def _empty_value(self, batch: Batch) -> Any:
        """Return the value of no rows, for the parameters and rows like these."""

    def _batch_of_rows(self, X: Any, weights: Any) -> Any:
        """Return validated rows as ``_read`` does, for an estimator without targets."""
        return Batch(X, None, weights)

    def _check_same_model(self, other: Any) -> None:
        """Raise ValueError if the parameters or labels of another model differ."""

    def _warn_after_fit(self, batch: Batch) -> None:
        """Warn if the fitted model is doubtful for the rows it was fitted on."""
        self._warn_of_sums()

    def _warn_of_sums(self) -> None:
        """Warn if the fitted value alone shows that the model is doubtful."""

    # ------------------------------------------------------------------ fitting
    def _become(self, model: Self) -> Self:
        """Take over the state of a fitted copy, by one assignment."""
        self.__dict__ = model.__dict__
        return self

    def _fit_value(self, X: Any, *rest: Any) -> Self:
        """Fit to these rows alone; the other arguments go to ``_read``."""
        context = self._init_callback_context(max_subtasks=None)
        y = rest[0] if rest else None
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def step() -> None:
            part = context.subcontext(task_name=self._unit_of_work)
            part.call_on_fit_task_begin(estimator=self)
            part.call_on_fit_task_end(estimator=self)

        model = without_value(self)  # a copy: a fit that fails changes nothing
        batch = model._read(X, *rest, first=True, final=True)
        call = blas_within_processors(batch.X.shape[0])
        model._value = call(model._empty_value(batch).fitted, batch, step)
        model._warn_after_fit(batch)
        self._become(model)
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _extend_value(self, X: Any, *rest: Any) -> Self:
        """Add rows to those that were seen; the other arguments go to ``_read``."""
        model = copied(self)
        first = not model.__sklearn_is_fitted__()
        batch = model._read(X, *rest, first=first, final=False)
        before = model._empty_value(batch) if first else model._value
        model._value = blas_within_processors(batch.X.shape[0])(before.plus, batch)
        return self._become(model)

    def _note_namespace(self, X: Any, *tables: Any, first: bool) -> None:
        """Check where the rows are; note it if they are the first."""
        name = type(self).__name__
        instead = f"sklearn_crt.dask.fit({name}(...), X)"
        if tables and tables[0] is not None:
            instead = f"sklearn_crt.dask.fit({name}(...), X, y)"
        refuse_lazy(self, instead, X, *tables)
        if first:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")

    def merge(self, other: Self) -> Self:
        """Add the training rows of another fitted estimator.

        Models of parts of the data, fitted in different processes for instance, become
        the model of all rows, up to rounding and in any order.

        Parameters
        ----------
        other : estimator of the same class and parameters
            Fitted on other rows with the same columns. It does not change.

        Returns
        -------
        self : object
            This estimator, with the rows of both.

        Raises
        ------
        ValueError
            If the classes, parameters, columns or labels differ, if one of two samplers
            is frozen, or if the two models use maps that were fitted on different data.
            In that case fit one sampler first, and give
            ``FrozenEstimator(sampler)`` to both estimators; or use a sampler that reads
            no data (a number for ``sigma``, ``center=False`` and an integer
            ``random_state``).
        """
        check_is_fitted(self)
        if type(other) is not type(self):
            raise ValueError(
                f"merge needs another {type(self).__name__}, got {other!r}."
            )
        check_is_fitted(other)
        check_same_columns(self, other)
        self._check_same_model(other)
        self._value = self._value + other._value
        return self

    def freeze(self) -> Self:
        """Fix the map and forget the training rows kept so far.

        As long as batches arrive by ``partial_fit``, an estimator keeps some of the
        rows, because the choice of its map, of ``sigma`` or of a metric depends on all
        of them. Call this method after the last batch, before the model is stored or
        sent: pickles then hold no training row. ``fit`` does it where no row is needed
        later.

        Some models consist of rows all the same: exact kernels use all training rows,
        and only ``sigma`` is fixed then; ``Prototypes`` and ``CentersRBFSampler`` keep
        means, some of a single row. A ``FrozenEstimator`` is used as it is: freeze the
        sampler before it is wrapped.

        Returns
        -------
        self : object
            This estimator. Kernel averages, ridge regression and learned metrics can
            still be extended, with the map that they have; ``partial_fit`` and
            ``merge`` of a frozen sampler raise ValueError until the next ``fit``.
        """
        check_is_fitted(self)
        self._value = self._value.frozen()
        return self

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there is a fitted value."""
        return "_value" in vars(self)


def value_of(estimator: Any) -> Any:
    """Return the fitted value of an estimator."""
    check_is_fitted(estimator)
    return estimator._value


def columns_of(estimator: Any) -> dict[str, Any]:
    """Return what an estimator has noted of its rows beside its value."""
    params = estimator.get_params(deep=False)
    noted = {name for name in vars(estimator) if name not in params}
    return {name: vars(estimator)[name] for name in noted - {"_value"}}


def with_value(estimator: Any, value: Any, noted: dict[str, Any] | None = None) -> Any:
    """Return a copy of an estimator with a fitted value that was made elsewhere."""
    model = copied(estimator)
    vars(model).update(noted or {}, _value=value)
    return model


def without_value(estimator: Any) -> Any:
    """Return a copy of an estimator that is not fitted."""
    model = copied(estimator)
    vars(model).pop("_value", None)
    return model


def with_rows(estimator: Any, X: Any, weights: Any) -> Any:
    """Return a copy of a sampler that has seen further rows, which are validated."""
    batch = estimator._batch_of_rows(X, weights)
    value, noted = vars(estimator).get("_value"), None
    if value is None:
        check_params(estimator)
        value = estimator._empty_value(batch)
        noted = {"n_features_in_": X.shape[1], "_fit_namespace": fit_namespace_of(X)}
    return with_value(estimator, value.plus(batch), noted)


def frozen_copy(estimator: Any) -> Any:
    """Return a frozen copy of a fitted estimator."""
    return with_value(estimator, estimator._value.frozen())


def finished(estimator: Any, value: Any, noted: dict[str, Any]) -> Any:
    """Return an estimator with a value that was made elsewhere, and warn as ``fit``."""
    model = with_value(estimator, value, noted)
    model._warn_of_sums()
    return model


def check_params(estimator: Any) -> None:
    """Raise scikit-learn's error if a parameter is out of range."""
    estimator._validate_params()


def read_rows(estimator: Any, X: Any, *rest: Any) -> tuple[Any, Any]:
    """Return an unfitted copy that has noted the columns of rows, and these rows."""
    model = without_value(estimator)
    return model, model._read(X, *rest, first=True, final=False)


def empty_value(estimator: Any, batch: Any = None) -> Any:
    """Return the value of no rows, for the parameters of an estimator that read some.

    A sampler needs to have read none.
    """
    return estimator._empty_value(batch)


def transformer_of(estimator: Any) -> Any:
    """Return what makes the features of averages and ridge regression, None if nothing.

    Raises TypeError for an estimator that keeps rows instead of sums of features.
    """
    if estimator._keeps_rows:
        raise TypeError(
            f"{estimator!r} keeps training rows, and blocks exchange none. Give a "
            "sampler, such as OPRFSampler(), or fit the estimator to a sample of the "
            "rows in memory."
        )
    return estimator._transformer


def check_same_columns(one: Any, other: Any) -> None:
    """Raise ValueError if two fitted estimators have not seen the same columns."""
    pair = one, other
    counts = [estimator.n_features_in_ for estimator in pair]
    if counts[0] != counts[1]:
        raise ValueError(
            f"merge needs the same columns on both sides, but one has {counts[0]} "
            f"features and the other {counts[1]}."
        )
    names = _names_of_columns(*pair)
    if names and not np.array_equal(names[0], names[1]):
        raise ValueError(
            "merge needs the same feature names in the same order, got "
            f"{names[0].tolist()} and {names[1].tolist()}."
        )


def check_names(estimator: Any, sampler: Any) -> None:
    """Raise ValueError if rows do not have the column names that a sampler has seen."""
    names = _names_of_columns(estimator, sampler)
    if names and not np.array_equal(names[0], names[1]):
        raise ValueError(
            "The feature names should match those that were passed during fit of the "
            f"sampler, {names[1].tolist()}, in this order; got {names[0].tolist()}."
        )


def _names_of_columns(*pair: Any) -> list[np.ndarray]:
    """Return the column names that two estimators have seen, if both have seen some."""
    names = [getattr(one, "feature_names_in_", None) for one in pair]
    return names if all(each is not None for each in names) else []  # type: ignore[return-value]
