"""Base class of the ridge regressor and classifier: validation, fitting, merging."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import get_tags

from .._array import (
    check_fit_namespace,
    refuse_device,
    refuse_lazy,
    validate_rows,
)
from .._compat import (
    HasMethods,
    Interval,
    StrOptions,
    _fit_context,
    warn,
)
from .._fitted import Batch, value_of
from .._state import same
from .._supervised import SupervisedLifeCycle
from ..rows import TableLike, weighted_rows
from ._sums import DefaultSampler, RidgeSums, Settings, multiples_of


class BaseRandomFeatureRidge(SupervisedLifeCycle):
    """Ridge regression on features; subclasses encode and decode the targets."""

    _value: RidgeSums
    _row_kernel = None  # because the model stores no rows
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
        """Fit the feature map and the coefficients; choose sigma and the penalty.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows, or features if ``sampler="linear"``.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Numbers, in one or several outputs, for regression; labels, of shape
            (n_samples,), for classification.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights. A row of weight 2 counts as two rows, so the sum of
            the weights takes the place of the number of rows.

        Returns
        -------
        self : object
            The fitted estimator, which stores no training row.

        Raises
        ------
        TypeError
            If X is an array on a device under ``array_api_dispatch=True``.
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        return self._fit_value(X, y, sample_weight)

    def _read(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, final: bool
    ) -> Batch:
        batch = super()._read(X, y, sample_weight, first=first, final=final)
        refuse_device(self, batch.X, "")
        X, y, weights = batch[:3]
        class_weight = self._weights_of_classes(y, weights, final)
        if class_weight is not None:
            rows = weighted_rows(X, y, weights * class_weight[y])
            X, y, weights = rows[:3]
            batch = Batch(X, y, weights, class_weight=class_weight)
        return batch

    def _empty_value(self, batch: Any) -> RidgeSums:
        settings = self._settings(batch.class_weight)
        start = RidgeSums.start(self._transformer)
        return RidgeSums(settings=settings, sigmas=settings.sigmas, **start)

    def _check_same_model(self, other: Any) -> None:
        for name in ("alphas", "fit_intercept", "class_weight"):
            pair = [getattr(e._value.settings, name) for e in (self, other)]
            if not same(*pair):
                raise ValueError(
                    f"merge needs the same parameters on both sides, but {name} is "
                    f"{pair[0]!r} in one and {pair[1]!r} in the other."
                )
        super()._check_same_model(other)

    @property
    def _transformer(self) -> Any:
        """The transformer that computes the features; None if rows are features."""
        if self.sampler is None:
            return DefaultSampler(random_state=0)
        return None if isinstance(self.sampler, str) else self.sampler

    def _settings(self, class_weight):
        """Return the validated parameters."""
        sigmas, alphas = self.sigmas, self.alphas
        if sigmas is not None:
            sigmas = tuple(sigmas)
            sampler = self._transformer
            inner = getattr(sampler, "estimator", sampler)
            if not hasattr(inner, "with_sigma"):
                raise ValueError(
                    f"sigmas={self.sigmas!r} needs a sampler of sklearn_crt that "
                    f"estimates a kernel, but sampler={self.sampler!r} is not one. "
                    "Choose its parameters with GridSearchCV."
                )
            if not sigmas or not all(map(_is_sigma, sigmas)):
                raise ValueError(
                    f"sigmas={self.sigmas!r} must contain positive finite numbers, "
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

    def _warn_of_sums(self):
        """Warn if the sum of the weights leaves no degrees of freedom."""
        weight = self._value.solution.n_rows
        if weight < 1:
            warn(
                f"Sample weights count rows, and here they sum to {weight:.2g}, so "
                "the noise cannot be estimated and the largest penalty is used. "
                "Multiply the weights by the number of rows divided by their sum.",
                UserWarning,
            )

    # -------------------------------------------------------------- predictions
    def _predictions(self, X, method, function):
        """Return the values of a function of the solution and the features of rows."""
        value = value_of(self)
        check_fit_namespace(self, X, method)
        refuse_lazy(self, f"sklearn_crt.dask.map_rows(estimator.{method}, X)", X)
        rows = validate_rows(self, X, reset=False)
        refuse_device(self, rows, "")
        solution = value.solution
        found = value.predictions(rows, lambda Z: function(solution, Z))
        return found, rows.dtype

    def score_path(self) -> dict[str, np.ndarray]:
        """Return the scores of all candidate sigmas and penalties as a table.

        Returns
        -------
        table : dict of ndarray of shape (n_sigmas * n_alphas,)
            Columns that can be passed to ``pandas.DataFrame``: ``sigma`` (nan if the
            sampler does not have a single number), ``alpha``, ``gcv`` (the mean over
            the outputs) and ``effective_columns`` (the trace of the hat matrix, which
            maps the targets to the fitted values). If there were more than 128 rows per
            column, only the best sigma was evaluated on all rows and the others on a
            subset.
        """
        columns: dict[str, list] = {}
        for row in value_of(self).table:
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
        """The fitted sampler with the sigma that was chosen, or "linear"."""
        sampler = self._value.fitted_sampler
        return "linear" if sampler is None else sampler

    @property
    def sigma_(self) -> float | np.ndarray:
        """The inverse length scale that was chosen, if the sampler has a ``sigma``."""
        return self.sampler_.sigma_

    @property
    def alpha_(self) -> float | np.ndarray:
        """The penalty that was chosen."""
        solution = self._value.solution
        alpha = solution.alpha
        return float(alpha[0]) if solution.scores.shape[1] == 1 else alpha

    @property
    def coef_(self) -> np.ndarray:
        """Coefficients of the features."""
        return self._squeezed(self._value.solution.coef.T)

    @property
    def intercept_(self) -> float | np.ndarray:
        """Prediction for a row whose features are all zero."""
        return self._squeezed(self._value.solution.intercept)

    @property
    def gcv_scores_(self) -> np.ndarray:
        """Generalised cross-validation scores of each sigma and penalty."""
        scores = np.array([row["gcv"] for row in self._value.table])
        return scores[..., 0] if scores.shape[-1] == 1 else scores

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: sparse input if the sampler supports it."""
        tags = super().__sklearn_tags__()
        transformer = None if isinstance(self.sampler, str) else self.sampler
        sparse = transformer is None or get_tags(transformer).input_tags.sparse
        tags.input_tags.sparse = sparse
        return tags

    # -------------------------------------------------------------------- hooks
    @property
    @abstractmethod
    def _n_classes(self) -> int | None:
        """Number of classes; None for regression."""

    def _weights_of_classes(self, y, weights, final):
        """Return the weights of the classes, or None if all of them are 1."""
        return None

    @abstractmethod
    def _squeezed(self, values):
        """Return an array whose first axis is outputs in the shape of attributes."""


def _is_sigma(sigma: Any) -> bool:
    if isinstance(sigma, str):
        return sigma in ("scale", "median")
    return isinstance(sigma, Real) and 0 < float(sigma) < np.inf
