"""The life cycle of estimators: ``fit``, ``partial_fit``, ``merge`` and ``freeze``.

Everything that an estimator has learned is stored in one immutable value. Adding rows,
merging another estimator and freezing create a new value, which replaces the old one in
a single assignment. A prediction in another thread therefore uses either the old or the
new value, never a mixture of both, and a fit that fails leaves the estimator unchanged.
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning, NotFittedError

from .._compat import (
    DOC_LINK,
    CallbackSupportMixin,
    TypedBaseEstimator,
    cached_property,
)
from .._values import Value, same
from ..arrays.namespaces import joined
from ..arrays.threads import blas_for_fit
from ..arrays.validation import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    refuse_lazy,
    validate_rows,
)
from .other_names import (
    OTHER_KERNELS,
    SIGMA_OF,
    refuse_other_kernels,
    refuse_other_parameters,
)

if TYPE_CHECKING:
    from ..metric import LearnedMetric

# maximum number of entries of X that are kept before the map is fixed
KEPT_ENTRIES = 2**22
_VERSION = "_sklearn_crt_version"  # its name in the state of a pickled estimator
T = TypeVar("T")
S = TypeVar("S")  # the type of the solution of a fitted value
Step = Callable[[], None]  # called after each part of the work, for progress bars


def no_step() -> None:
    """Report no progress."""


class Batch(NamedTuple):
    """Validated rows with positive weights, together with their targets and weights."""

    X: Any  # (n_rows, n_features)
    y: Any  # (n_rows,) or (n_rows, n_outputs)
    weights: Any  # (n_rows,)
    n_given: int = 0  # number of rows, including those of weight 0 that were dropped
    dropped: Any = ()  # (n_dropped,), indices of the dropped rows among the given rows
    class_weight: Any = None  # (n_classes,), class weights that ``weights`` includes
    groups: Any = None  # (n_rows,), numbers of the groups of dependent rows


def joined_batches(batches: Sequence[Any]) -> Batch:
    """Return the rows, targets and weights of all batches as one batch."""
    parts = zip(*(batch[:3] for batch in batches), strict=True)
    X, y, weights = (joined(list(part)) for part in parts)
    return Batch(X, y, weights)


class FittedValue(Value, ABC):
    """Everything that an estimator has learned, as an immutable object.

    Parts that are only needed by some predictions are cached properties. Each part is
    completed before it is stored in a single assignment, so two threads may safely
    compute the same part at the same time. Cached parts are not pickled.
    """

    # True after data that is only needed for adding rows has been discarded
    is_frozen = False
    metric: LearnedMetric | None = None  # fitted; it transforms the rows first
    owner: ClassVar[str] = "estimator"  # how error messages refer to the estimator

    @abstractmethod
    def plus(self, batch: Batch, step: Step = no_step) -> Self:
        """Return a copy to which a batch of rows has been added."""

    @abstractmethod
    def __add__(self, other: Self) -> Self:
        """Return a single value that includes the rows of both values.

        ValueError is raised if the values belong to different models.
        """

    @abstractmethod
    def frozen(self) -> Self:
        """Return a copy that makes the same predictions but accepts no more rows."""

    def frozen_fold(self) -> Self:
        """Return a frozen copy that is kept for intervals, as the model of a fold."""
        return self.frozen()

    def fitted(self, batch: Batch, step: Step = no_step) -> Self:
        """Return the value that ``fit`` computes from a batch of all rows.

        This method is called on a value without rows.
        """
        return self.plus(batch, step)

    def check_can_grow(self, method: str) -> None:
        """Raise ValueError if the value is frozen and accepts no more rows."""
        if self.is_frozen:
            raise ValueError(
                f"{method} cannot change this {self.owner}, which is frozen: freeze() "
                "has discarded the rows and statistics that are required. Call "
                "freeze() later, or call fit again."
            )


@dataclass(frozen=True, eq=False, kw_only=True)
class LearnedValue(FittedValue, Generic[S]):
    """A fitted value with a solution, which is learned from all rows for the queries.

    ``fit`` learns the solution at once, and ``freeze`` keeps it. After ``partial_fit``
    and ``merge`` it is learned when it is first needed.
    """

    known: S | None = None  # the solution, if ``fitted`` or ``frozen`` has learned it
    n_before: int = 0  # position of the first row, if other values precede this one
    is_frozen: bool = False
    metric: LearnedMetric | None = None
    folds: Any = None  # ``OutOfFoldErrors`` or a ``Recalibration``
    folds_of_few: Any = None  # the same for few rows, if frozen or loaded

    def read(self, batch: Batch, n_before: int = 0) -> Self:
        """Return a value with one of many blocks of rows, whose values are then added.

        ``n_before`` is the number of rows in the preceding blocks.
        """
        return replace(self, n_before=n_before).plus(batch)

    @abstractmethod
    def _learn(self, step: Step = no_step) -> S:
        """Learn the solution."""

    def check_can_grow(self, method: str) -> None:
        """Raise ValueError if the value accepts no more rows."""
        super().check_can_grow(method)
        if self.needs_all_rows:
            raise ValueError(
                f"{method} cannot add rows to an {self.owner} that was fitted with "
                "metric or groups, because its out-of-fold predictions need all rows "
                "at once. Call fit with all rows."
            )

    @property
    def needs_all_rows(self) -> bool:
        """Whether rows cannot be added, because of a metric or groups."""
        return self.folds is not None

    def training_rows(self) -> Batch | None:
        """Return all training rows, or None if they are not kept."""
        return None

    @abstractmethod
    def _without_rows(self) -> Self:
        """Return a copy without what is only needed for adding rows."""

    @property
    def is_learned(self) -> bool:
        """Whether the solution is there, so that reading it takes no time."""
        return self.known is not None or "solution" in vars(self)

    @cached_property
    def solution(self) -> S:
        """What queries use, learned from all rows so far."""
        return self._learn() if self.known is None else self.known

    def fitted(self, batch: Batch, step: Step = no_step) -> Self:
        value = self.plus(batch, step)
        known = value._learn(step) if value.known is None else value.known
        return replace(value, known=known)

    def frozen(self) -> Self:
        return replace(self._without_rows(), known=self.solution, is_frozen=True)


def computed_once(value: Any, name: Any, compute: Callable[[], T]) -> T:
    """Return the cached result with this name; compute and cache it if necessary.

    The result is cached for as long as the value exists, so it must depend only on the
    value and on the name.
    """
    found = vars(value).get(name)
    if found is None:
        found = vars(value)[name] = compute()
    return found


class _NoValue:
    """Placeholder for the fitted value before ``fit``; reading it raises an error."""

    def __get__(self, estimator: Any, owner: type) -> Any:
        """Raise NotFittedError, even if a property such as ``sigma_`` reads it."""
        if estimator is None:
            return self
        raise NotFittedError(
            f"This {owner.__name__} instance is not fitted yet. Call 'fit' with "
            "appropriate arguments before using this estimator."
        )


def copied(estimator: Any) -> Any:
    """Return a shallow copy of an estimator, with the same attributes."""
    other = object.__new__(type(estimator))
    vars(other).update(vars(estimator))
    return other


class LifeCycle(CallbackSupportMixin, TypedBaseEstimator, ABC):
    """Base class of estimators and samplers that store one fitted value.

    A subclass validates rows in ``_read``, and creates an empty value from its
    parameters in ``_empty_value``. It defines the public methods ``fit`` and
    ``partial_fit`` with docstrings and signatures; these methods call ``_fit_value``
    and ``_extend_value``.
    """

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    _value: Any = _NoValue()  # a FittedValue after the first fit
    _fit_namespace: Any = None  # library and device of the rows of fit, None for NumPy
    _fit_params: Any  # the parameters used in ``fit``, see ``_note_params``
    _rows_as_given: Any  # the validated rows of a query, before they are transformed
    # whether arrays of libraries other than NumPy are accepted
    _takes_other_arrays = False
    _unit_of_work = "rows"  # name of the subtasks of ``fit`` in callbacks
    __sklearn_array_api_convert__ = convert_fit_namespace
    __copy__ = copied

    def __new__(cls, *args: Any, **params: Any) -> Self:
        """Return a new estimator; a parameter such as ``gamma`` is explained first."""
        if not SIGMA_OF.keys().isdisjoint(params):
            refuse_other_parameters(cls, params)
        return super().__new__(cls)

    def __init__(self) -> None:
        """Create an estimator without parameters; others replace this method."""

    # -------------------------------------------------------------------- hooks
    @abstractmethod
    def _read(self, X: Any, *rest: Any, first: bool, final: bool) -> Batch:
        """Return a batch of validated rows.

        If it is the ``first`` batch, the columns and labels are recorded. ``final`` is
        True if no more batches will follow, as in ``fit``.
        """

    @abstractmethod
    def _empty_value(self, batch: Batch) -> Any:
        """Return a value without rows, given the parameters and a batch."""

    def _value_for(self, batch: Batch, step: Step = no_step) -> Any:
        """Return the value that ``fit`` computes from a batch of all rows."""
        return self._empty_value(batch).fitted(batch, step)

    def _batch_of_rows(self, X: Any, y: Any, weights: Any) -> Any:
        """Return a batch of validated rows for a sampler; most samplers ignore y."""
        return Batch(X, y, weights)

    def _check_same_model(self, other: Any) -> None:
        """Raise ValueError if the parameters or labels of another model differ."""

    def _warn_after_fit(self, batch: Batch) -> None:
        """Warn if the fitted model is unreliable, given the rows it was fitted on."""

    # ------------------------------------------------------------------ fitting
    def _fit_value(self, X: Any, *rest: Any) -> Self:
        """Fit to these rows only; ``rest`` contains further arguments of ``_read``."""
        context = self._init_callback_context(max_subtasks=None)
        y = rest[0] if rest else None
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)

        def step() -> None:
            part = context.subcontext(task_name=self._unit_of_work)
            part.call_on_fit_task_begin(estimator=self)
            part.call_on_fit_task_end(estimator=self)

        model = copied(self)  # so that a fit that fails changes nothing
        vars(model).pop("_value", None)
        batch = model._read(X, *rest, first=True, final=True)
        model._note_params()
        call = blas_for_fit(batch.X.shape[0])
        model._value = call(model._value_for, batch, step)
        model._warn_after_fit(batch)
        self.__dict__ = model.__dict__  # atomic: threads use the old or the new model
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _extend_value(self, X: Any, *rest: Any) -> Self:
        """Add rows to the model; ``rest`` contains further arguments of ``_read``."""
        model = copied(self)
        first = not model.__sklearn_is_fitted__()
        if first:
            model._note_params()
        else:
            self._check_same_params()
        batch = model._read(X, *rest, first=first, final=False)
        before = model._empty_value(batch) if first else model._value
        before.check_can_grow("partial_fit")
        model._value = blas_for_fit(batch.X.shape[0])(before.plus, batch)
        self.__dict__ = model.__dict__
        return self

    def _note_params(self) -> None:
        """Record the parameters, with copies of nested estimators, which may change.

        The parameters of nested estimators are also recorded, under names such as
        ``kernel__sigma``. All other values are recorded without a copy, so that two
        random states are considered equal only if they are the same object.
        """
        self._fit_params = {
            name: clone(value, safe=False)
            if isinstance(value, (list, tuple)) or hasattr(value, "get_params")
            else value
            for name, value in self.get_params().items()
        }

    def _check_same_params(self) -> None:
        """Raise ValueError if a parameter has been changed since the fit."""
        before, now = self._fit_params, self.get_params()
        for name in sorted(now):  # a nested estimator comes before its parameters
            old, new = before.get(name), now[name]
            if name.rpartition("__")[2] == "n_jobs" or _is_same_param(old, new):
                continue
            raise ValueError(
                "partial_fit adds rows to a model that was fitted with "
                f"{name}={old!r}, but {name} is now {new!r}. Call fit to start again "
                f"with the new value, or set_params({name}={old!r}) to continue with "
                "the old one."
            )

    def _note_namespace(self, X: Any, *tables: Any, first: bool) -> None:
        """Check the library and device of the rows; record them on the first call."""
        name = type(self).__name__
        instead = f"sklearn_crt.dask.fit({name}(...), X)"
        if tables and tables[0] is not None:
            instead = f"sklearn_crt.dask.fit({name}(...), X, y)"
        refuse_lazy(self, instead, X, *tables)
        if first:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")

    # ------------------------------------------------------------------ queries
    def _query(self, X: Any, method: str) -> tuple[Self, Any]:
        """Return a copy of the fitted estimator and the validated rows for a method.

        Every query starts here. Other threads may fit the estimator at any time, and
        replace its value, its labels and the description of its columns. The shallow
        copy keeps those that belong to one fit, so a query reads only from the copy. If
        the fitted value has a metric, the rows are returned in this metric.
        """
        model = copied(self)
        metric = model._value.metric  # NotFittedError is raised here
        refuse_lazy(model, f"sklearn_crt.dask.map_rows(estimator.{method}, X)", X)
        check_fit_namespace(model, X, method)
        rows = model._rows_as_given = model._validated_queries(X)
        return model, rows if metric is None else metric._mapped(rows)

    def _validated_queries(self, X: Any) -> Any:
        """Return the rows of a query, as ``fit`` reads them."""
        return validate_rows(self, X, reset=False)

    def merge(self, other: Self) -> Self:
        """Add the training rows of another fitted estimator.

        Use this method to combine models that were fitted to different parts of the
        data, for instance in different processes. Up to rounding, the merged model is
        the same as a model fitted to the rows of this estimator, followed by those of
        the other one. Only random samples can differ: from parts that are too large to
        be stored, other rows may be drawn than from all rows together.

        Parameters
        ----------
        other : estimator of the same class and parameters
            An estimator fitted on other rows with the same columns. It is not modified.

        Returns
        -------
        self : object
            This estimator, now fitted to the training rows of both estimators.

        Raises
        ------
        ValueError
            If the two estimators differ in type, parameters, columns or labels, if one
            of them is frozen, or if the two models use feature maps that were fitted on
            different data. In the last case, fit one sampler first and pass
            ``FrozenEstimator(sampler)`` to both estimators, or use a sampler that does
            not depend on the data (with a number for ``sigma``, ``center=False`` and an
            integer ``random_state``).
        """
        if type(other) is not type(self):
            raise ValueError(
                f"merge requires another {type(self).__name__}, got {other!r}."
            )
        values = self._value, other._value
        check_same_columns(self, other)
        self._check_same_model(other)
        for value in values:
            value.check_can_grow("merge")
        self._value = values[0] + values[1]
        return self

    def freeze(self) -> Self:
        """Discard all data that is only needed for adding more rows.

        Predictions and features do not change, but the model needs much less memory,
        and its pickle is much smaller. Call this method after the last batch, before
        you store or send the model. Until then, an estimator keeps statistics of the
        training rows and, as long as X has no more than about 4 million entries, the
        rows themselves. It needs the rows because further batches may change its
        feature map, ``sigma`` or metric.

        Models that need few statistics, or all training rows, hardly shrink. With 1000
        rows and 10 columns, a pickle becomes about 85 % smaller for ``LearnedMetric``
        and for kernel averages of features, 20 % for ``RandomFeatureRidge``, 6 % for
        ``OPRFSampler``, 2 % for models of raw tables, and no smaller for exact kernels.

        Some frozen models still contain training rows. Exact kernels need all of them
        for predictions. ``Prototypes`` and ``CentersRBFSampler`` keep means of groups
        of rows, and a group may consist of a single row. A ``FrozenEstimator`` is not
        changed, so freeze a sampler before you wrap it.

        Returns
        -------
        self : object
            This estimator. Its methods ``partial_fit`` and ``merge`` raise ValueError
            until the next ``fit``.
        """
        self._value = self._frozen_value()
        return self

    def _frozen_value(self) -> Any:
        """Return the fitted value without what is only needed for adding rows."""
        return self._value.frozen()

    def __dir__(self) -> list[str]:
        """Return the available attributes that need not be learned first.

        After ``partial_fit`` and ``merge``, reading such an attribute learns it, which
        can take as long as ``fit``. A display of the estimator shows what is listed.
        """
        kind, value = type(self), vars(self).get("_value")
        names = list(object.__dir__(self))
        if not getattr(value, "is_learned", True):
            names = [name for name in names if not _is_learned_property(kind, name)]
        return [name for name in names if hasattr(self, name)]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickling, together with the version of the package."""
        return {**super().__getstate__(), _VERSION: _package_version()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the state, and warn if another version of the package stored it."""
        state = dict(state)
        stored_by, current = state.pop(_VERSION, "unknown"), _package_version()
        if stored_by != current:
            warnings.warn(
                InconsistentVersionWarning(
                    estimator_name=type(self).__name__,
                    current_sklearn_version=f"{current} of sklearn_crt",
                    original_sklearn_version=f"{stored_by} of sklearn_crt",
                ),
                stacklevel=2,
            )
        super().__setstate__(state)

    def set_params(self, **params: Any) -> Self:
        """Set the parameters of this estimator.

        Parameters
        ----------
        **params : dict
            Values by name; ``NAME__KEY`` sets the parameter KEY of an estimator that is
            the parameter NAME.

        Returns
        -------
        self : object
            This estimator.

        Raises
        ------
        TypeError, ValueError
            If there is no parameter with a given name.
        """
        refuse_other_parameters(type(self), params)
        return super().set_params(**params)

    def _validate_params(self) -> None:
        kernel = getattr(self, "kernel", None)
        if isinstance(kernel, str) and kernel in OTHER_KERNELS:
            refuse_other_kernels(self)
        super()._validate_params()

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether the estimator is fitted."""
        return "_value" in vars(self)

    def __sklearn_tags__(self) -> Any:
        """Return the tags, which declare sparse input and the preserved dtypes."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.array_api_support = self._takes_other_arrays
        if tags.transformer_tags is not None:
            tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def solution_for_names(transformer: Any) -> Any:
    """Return the solution if it has been learned, for the names of output columns.

    A display asks for these names, so they must not start the learning.
    """
    value = transformer._value
    if not value.is_learned:
        raise NotFittedError(
            f"The number of output columns of this {type(transformer).__name__} is "
            "determined when it first transforms rows after partial_fit or merge. Call "
            "transform first."
        )
    return value.solution


def _is_learned_property(kind: type, name: str) -> bool:
    """Return whether a name is a property of this package, which may have to learn."""
    owner = next((cls for cls in kind.__mro__ if name in vars(cls)), object)
    package = __name__.partition(".")[0]
    return isinstance(vars(owner).get(name), property) and owner.__module__.startswith(
        f"{package}."
    )


def _package_version() -> str:
    """Return the version of the package."""
    return sys.modules[__name__.partition(".")[0]].__version__


def _is_same_param(old: Any, new: Any) -> bool:
    """Return whether a parameter is unchanged; nested parameters are not compared."""
    if hasattr(new, "get_params") and not isinstance(new, type):
        return type(old) is type(new)
    return same(old, new)


def with_value(estimator: Any, value: Any, noted: dict[str, Any] | None = None) -> Any:
    """Return a copy of an estimator with a fitted value that was computed elsewhere."""
    model = copied(estimator)
    vars(model).update(noted or {}, _value=value)
    return model


def without_value(estimator: Any) -> Any:
    """Return an unfitted copy of an estimator."""
    model = copied(estimator)
    vars(model).pop("_value", None)
    return model


def frozen_copy(estimator: Any) -> Any:
    """Return a frozen copy of a fitted estimator, or what is not from this package."""
    if not isinstance(estimator, LifeCycle):  # for instance a FrozenEstimator, or None
        return estimator
    return with_value(estimator, estimator._value.frozen())


def read_rows(estimator: Any, X: Any, *rest: Any) -> tuple[Any, Any]:
    """Return an unfitted copy that has recorded the columns, and the validated rows."""
    model = without_value(estimator)
    model._note_params()
    return model, model._read(X, *rest, first=True, final=False)


def check_same_columns(one: Any, other: Any) -> None:
    """Raise ValueError if two estimators were not fitted on the same columns."""
    pair = one, other
    counts = [estimator.n_features_in_ for estimator in pair]
    if counts[0] != counts[1]:
        raise ValueError(
            "merge requires the same columns in both estimators, but one was fitted "
            f"with {counts[0]} features and the other with {counts[1]}."
        )
    names = _names_of_columns(*pair)
    if names and not np.array_equal(names[0], names[1]):
        raise ValueError(
            "merge requires the same feature names in the same order, got "
            f"{names[0].tolist()} and {names[1].tolist()}."
        )


def check_names(estimator: Any, sampler: Any) -> None:
    """Raise ValueError if column names differ from those of a fitted sampler."""
    names = _names_of_columns(estimator, sampler)
    if names and not np.array_equal(names[0], names[1]):
        raise ValueError(
            "The feature names should match those that were passed during fit of the "
            f"sampler, {names[1].tolist()}, in this order; got {names[0].tolist()}."
        )


def _names_of_columns(*pair: Any) -> list[np.ndarray]:
    """Return the column names of two estimators, or an empty list if one has none."""
    names = [getattr(one, "feature_names_in_", None) for one in pair]
    return names if all(each is not None for each in names) else []  # type: ignore[return-value]
