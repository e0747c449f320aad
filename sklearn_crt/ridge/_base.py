"""What ridge regression and classification share: validation, fitting, merging."""

from __future__ import annotations

import copy
from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from .._array import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    refuse_device,
    refuse_lazy,
    validate_rows,
)
from .._compat import (
    DOC_LINK,
    CallbackSupportMixin,
    HasMethods,
    Interval,
    StrOptions,
    TypedBaseEstimator,
    _fit_context,
    warn,
)
from .._state import STATE_METHODS, aside, check_mergeable, check_names, same
from ..rows import TableLike, plain_targets, weighted_rows
from ._engine import RidgeEngine, Settings, WideEnough, multiples_of


class BaseRandomFeatureRidge(
    CallbackSupportMixin, TypedBaseEstimator, metaclass=ABCMeta
):
    """Ridge regression on features. A subclass encodes and decodes the targets."""

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    _engine: RidgeEngine
    _y_checks: dict
    _row_kernel = None  # the model keeps no rows
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    __sklearn_array_api_convert__ = convert_fit_namespace
    __getstate__, __setstate__, __copy__ = STATE_METHODS
    _parameter_constraints: dict = {
        "sampler": [StrOptions({"linear"}), HasMethods(["fit", "transform"]), None],
        "alphas": [
            StrOptions({"auto"}),
            Interval(Real, 0, None, closed="left"),
            "array-like",
        ],
        "sigmas": ["array-like", None],
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        sampler: BaseEstimator | Literal["linear"] | None = None,
        *,
        alphas: float | ArrayLike | Literal["auto"] = "auto",
        sigmas: Iterable[float | str] | None = None,
        fit_intercept: bool = True,
    ):
        self.sampler = sampler
        self.alphas = alphas
        self.sigmas = sigmas
        self.fit_intercept = fit_intercept

    # ------------------------------------------------------------------ fitting
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the map, add up the products of features, choose sigma and the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features where ``sampler="linear"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers, of several outputs if there are such; or labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights: a row of weight 2 is two rows, so their sum counts as
            the number of rows.

        Returns
        -------
        self : object
            The fitted estimator, which holds no training row.

        Raises
        ------
        TypeError
            If X is an array on a device under ``array_api_dispatch=True``.
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        context = self._init_callback_context(max_subtasks=None)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        with aside(self) as made:
            made.__dict__.pop("_engine", None)
            made._add(X, y, sample_weight, final=True, context=context)
            made._warn_of_sums()
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def merge(self, other: Self) -> Self:
        """Add the training rows of another fitted estimator.

        Both must use the same map and the same sigmas: give both
        ``FrozenEstimator(sampler)`` with the same fitted sampler, or a sampler that
        reads no data (a number for ``sigma``, ``center=False``, an integer
        ``random_state``). Merging in any order then equals fitting on all rows
        together, up to rounding. With several sigmas merge before one is chosen, which
        ``fit`` and ``freeze`` do, and ``partial_fit`` does not as long as the map is
        not fixed or comes in a ``FrozenEstimator``.

        Parameters
        ----------
        other : estimator of the same class and parameters
            Fitted on other rows with the same columns.

        Returns
        -------
        self : object
            This estimator; ``other`` does not change.

        Raises
        ------
        ValueError
            If the two do not fit together.
        """
        check_mergeable(self, other)
        for name in ("alphas", "fit_intercept", "class_weight"):
            pair = [getattr(e._engine.settings, name) for e in (self, other)]
            if not same(*pair):
                raise ValueError(
                    f"merge needs the same parameters on both sides, but {name} is "
                    f"{pair[0]!r} in one and {pair[1]!r} in the other."
                )
        self._check_mergeable(other)
        engine = self._engine.copy()
        engine.merge(other._engine)
        self._engine = engine
        return self

    def freeze(self) -> Self:
        """Fix the map and sigma for good, and forget the training rows kept so far.

        Call this after the last batch of ``partial_fit``, before the model is stored or
        sent: a pickle then holds no training row. ``fit`` does it by itself. Further
        batches are added to the sums of the fixed map.

        Returns
        -------
        self : object
            The estimator.
        """
        check_is_fitted(self)
        engine = self._engine.copy()
        engine.freeze()
        self._engine = engine
        return self

    def _add(self, X, y, sample_weight, final, context=None):
        """Add rows to the engine."""
        instead = "sklearn_crt.dask.fit(estimator, X, y)"
        refuse_lazy(self, instead, X, y, sample_weight)
        first = getattr(self, "_engine", None) is None
        if first:
            self._fit_namespace = fit_namespace_of(X)
        else:
            check_fit_namespace(self, X, "partial_fit")
        # a copy is kept: the caller may write the next batch to the same array
        y = plain_targets(y)
        X, y = self._validate(X, reset=first, copy=not final, y=y, **self._y_checks)
        if isinstance(self.sampler, FrozenEstimator):
            check_names(self, self.sampler)
        y = self._check_targets(y, first, final)
        X, y, weights, _ = weighted_rows(X, y, sample_weight)
        class_weight = self._weights_of_classes(y, weights, final)
        if class_weight is not None:
            X, y, weights, _ = weighted_rows(X, y, weights * class_weight[y])

        def step():  # of a progress bar: one batch of rows is summed
            if context is not None:
                part = context.subcontext(task_name="rows")
                part.call_on_fit_task_begin(estimator=self)
                part.call_on_fit_task_end(estimator=self)

        if first:
            engine = RidgeEngine(self._transformer, self._settings(class_weight))
        else:
            engine = self._engine.copy()
        engine.add(X, y, weights, final=final, step=step)
        if final:
            engine.solutions  # noqa: B018 (computed now, not by the first query)
        self._engine = engine

    @property
    def _transformer(self) -> Any:
        """The transformer that makes the features, None where rows are features."""
        if self.sampler is None:
            return WideEnough(random_state=0)
        return None if isinstance(self.sampler, str) else self.sampler

    def _settings(self, class_weight):
        """Return what the parameters say."""
        sigmas, alphas = self.sigmas, self.alphas
        if sigmas is not None:
            sigmas = tuple(sigmas)
            sampler = self._transformer
            inner = getattr(sampler, "estimator", sampler)
            if not hasattr(inner, "with_sigma"):
                raise ValueError(
                    f"sigmas={self.sigmas!r} is for samplers of sklearn_crt that "
                    f"estimate a kernel, and sampler={self.sampler!r} is none. Choose "
                    "its parameters with GridSearchCV."
                )
            if not sigmas or not all(map(_is_sigma, sigmas)):
                raise ValueError(
                    f"sigmas={self.sigmas!r} must hold positive finite numbers, "
                    "'scale' or 'median'."
                )
        if not isinstance(alphas, str):
            alphas = np.atleast_1d(np.asarray(alphas, dtype=np.float64))
            if (
                alphas.ndim != 1
                or not alphas.size
                or not np.all((alphas >= 0) & np.isfinite(alphas))
            ):
                raise ValueError(
                    f"alphas={self.alphas!r} must be 'auto', a number >= 0, or a list "
                    "of such numbers."
                )
        by_default = self.sampler is None and sigmas is None
        return Settings(
            multiples_of(self.n_features_in_) if by_default else sigmas,
            by_default,
            alphas,
            self.fit_intercept,
            self._n_classes,
            class_weight,
        )

    def _validate(self, X, *, reset, **options):
        """Return rows, and targets, as tables of NumPy or SciPy."""
        found = validate_rows(self, X, reset=reset, **options)
        refuse_device(self, found[0] if "y" in options else found, "")
        return found

    def _warn_of_sums(self):
        """Say where weights that are no numbers of rows leave no degree of freedom."""
        weight = self._engine.solution.n_rows
        if weight < 1:
            warn(
                f"Sample weights count rows, and here they sum to {weight:.2g}, so "
                "there is no measure of the noise and the largest penalty is taken. "
                "Multiply them by the number of rows over their sum.",
                UserWarning,
            )

    def _with_features_of(self, sampler):
        """Return a copy with a fitted sampler, for its sigmas, or the rows if None."""
        other = copy.copy(self)
        if sampler is None:
            other.sampler, other.sigmas = "linear", None
            return other
        if self.sampler is None and self.sigmas is None:
            multiples = multiples_of(sampler.n_features_in_)
            other.sigmas = [sampler.sigma_ * multiple for multiple in multiples]
        fixed = isinstance(sampler, FrozenEstimator)
        other.sampler = sampler if fixed else FrozenEstimator(sampler)
        return other

    # ------------------------------------------------------------------ answers
    def _answers(self, X, method, function):
        """Return what a function of the solution and features gives for rows."""
        check_is_fitted(self)
        check_fit_namespace(self, X, method)
        refuse_lazy(self, f"sklearn_crt.dask.map_rows(estimator.{method}, X)", X)
        solution = self._engine.solution
        rows = self._validate(X, reset=False)
        found = self._engine.answers(rows, lambda Z: function(solution, Z))
        return found, rows.dtype

    def score_path(self) -> dict[str, np.ndarray]:
        """Return the scores of all sigmas and penalties as columns of a table.

        Returns
        -------
        table : dict of ndarray of shape (n_sigmas * n_alphas,)
            For ``pandas.DataFrame``: ``sigma`` (nan where the sampler has no single
            one), ``alpha``, ``gcv`` (the mean over the outputs), ``effective_columns``
            (the trace of the matrix that takes targets to fits). Where there were more
            than 128 rows per column, those of other sigmas than the best are from a
            part of the rows.
        """
        check_is_fitted(self)
        columns: dict[str, list] = {}
        for row in self._engine.table:
            sigma = row["sigma"]
            single = sigma is not None and np.ndim(sigma) == 0
            values = {**row, "gcv": row["gcv"].mean(axis=1)}
            values["sigma"] = np.full(row["alpha"].shape, sigma if single else np.nan)
            for name, column in values.items():
                columns.setdefault(name, []).append(column)
        return {name: np.concatenate(parts) for name, parts in columns.items()}

    # --------------------------------------------------------------- attributes
    @property
    def sampler_(self) -> Any:
        """The fitted sampler with the best sigma, or "linear"."""
        sampler = self._engine.fitted_sampler
        return "linear" if sampler is None else sampler

    @property
    def sigma_(self) -> float | np.ndarray:
        """The sigma in use, where the sampler has one."""
        return self.sampler_.sigma_

    @property
    def alpha_(self) -> float | np.ndarray:
        """The penalty in use."""
        solution = self._engine.solution
        alpha = solution.alpha
        return float(alpha[0]) if solution.scores.shape[1] == 1 else alpha

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features."""
        return self._squeezed(self._engine.solution.coef.T)

    @property
    def intercept_(self) -> float | np.ndarray:
        """Value where all features are zero."""
        return self._squeezed(self._engine.solution.intercept)

    @property
    def gcv_scores_(self) -> np.ndarray:
        """Generalised cross-validation of each sigma and penalty."""
        scores = np.array([row["gcv"] for row in self._engine.table])
        return scores[..., 0] if scores.shape[-1] == 1 else scores

    def __sklearn_is_fitted__(self):
        """Return whether there are training rows."""
        return getattr(self, "_engine", None) is not None

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn."""
        tags = super().__sklearn_tags__()
        transformer = None if isinstance(self.sampler, str) else self.sampler
        sparse = transformer is None or get_tags(transformer).input_tags.sparse
        tags.input_tags.sparse = sparse
        return tags

    # -------------------------------------------------------------------- hooks
    @property
    @abstractmethod
    def _n_classes(self) -> int | None:
        """Number of classes, None for numbers."""

    @abstractmethod
    def _check_targets(self, y, first, final):
        """Return y as the array that the engine takes."""

    def _weights_of_classes(self, y, weights, final):
        """Return the weights of the classes, None where all are 1."""
        return None

    @abstractmethod
    def _check_mergeable(self, other):
        """Raise where the targets of another estimator are not of the same kind."""

    @abstractmethod
    def _squeezed(self, values):
        """Return an array with an axis of outputs first as attributes have it."""


def _is_sigma(sigma: Any) -> bool:
    if isinstance(sigma, str):
        return sigma in ("scale", "median")
    return isinstance(sigma, Real) and 0 < float(sigma) < np.inf
