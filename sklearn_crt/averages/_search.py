"""Choice of the bandwidth and the number of features by cross-validation."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable
from itertools import product
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._array import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    on_host,
    refuse_lazy,
    to_host,
    to_namespace_of,
    validate_rows,
)
from .._compat import (
    DOC_LINK,
    CallbackSupportMixin,
    StrOptions,
    TypedBaseEstimator,
    _check_sample_weight,
    _fit_context,
    available_if,
    warn,
)
from ..rows import Statistics, TableLike, resolve_sigma
from ._folds import Candidate, score_fold

_PATH = 2.0 ** np.arange(-1, 4, 0.5)  # of sigma="scale": the default path


def _has_best(search):
    """Return whether there is a best estimator to predict with, or say why not."""
    if not search.refit:
        raise AttributeError(
            "With refit=False there is no best estimator to predict with; fit one with "
            "best_params_, or take refit=True."
        )
    return True


class BaseNadarayaWatsonCV(CallbackSupportMixin, TypedBaseEstimator, metaclass=ABCMeta):
    """Search over sigma and the number of features. A subclass names the estimator."""

    _doc_link_module, _doc_link_template, _doc_link_url_param_generator = DOC_LINK
    cv_results_: dict[str, Any]
    best_index_: int
    best_params_: dict[str, Any]
    best_score_: float
    best_estimator_: Any
    n_splits_: int
    _parameter_constraints: dict = {
        "kernel": "no_validation",  # the estimator says more
        "sigmas": ["array-like", None],
        "n_components": [Integral, "array-like", None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
    }
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    # of ``fit`` itself: groups go to the splitter, see get_metadata_routing
    __metadata_request__fit = {"groups": UNUSED}

    def __init__(
        self,
        kernel: BaseEstimator | str | None = None,
        *,
        sigmas: Iterable[float | str] | None = None,
        n_components: int | Iterable[int] | None = None,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
        n_jobs: int | None = None,
    ):
        self.kernel = kernel
        self.sigmas = sigmas
        self.n_components = n_components
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs

    def __sklearn_array_api_convert__(self, converter):
        """Return a copy for rows of another library, as scikit-learn asks for it."""
        other = convert_fit_namespace(self, converter)
        if hasattr(other, "best_estimator_"):
            best = other.best_estimator_
            other.best_estimator_ = best.__sklearn_array_api_convert__(converter)
        return other

    @abstractmethod
    def _make_model(self, kernel):
        """Return the unfitted estimator."""

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Score all candidates on all folds, and fit the best one.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels, or numbers; the regressor takes several outputs.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows, in the fits and in the scores.
        groups : array-like of shape (n_samples,), default=None
            Groups of rows for ``cv`` to keep together (``GroupKFold``).

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        best = "sklearn_crt.dask.fit(best_estimator_, X, y)"
        instead = f"it on a sample of the rows, then {best}"
        refuse_lazy(self, instead, X, y, sample_weight)
        model = self._model()
        self._fit_namespace = fit_namespace_of(X)
        rows, targets = validate_rows(self, X, reset=True, y=y, **model._y_checks)
        model._check_targets(targets, first=True, final=True)  # raises where it must
        weights = _check_sample_weight(
            to_namespace_of(sample_weight, rows),
            rows,
            dtype=rows.dtype,
            ensure_non_negative=True,
        )
        candidates = self._candidates(model.kernel, rows, weights)
        splits = self._splits(rows, targets, weights, groups)
        context = self._init_callback_context(max_subtasks=len(splits))
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        folds = parallel(
            delayed(score_fold)(
                clone(model), rows, targets, weights, split, candidates, self.scoring
            )
            for split in splits
        )
        table = []
        for scores in folds:  # of a progress bar: one fold is scored
            part = context.subcontext(task_name="fold")
            part.call_on_fit_task_begin(estimator=self)
            table.append(scores)
            part.call_on_fit_task_end(estimator=self)
        # contiguous: as in GridSearchCV, equal scores have equal means to the last bit
        self._publish(np.ascontiguousarray(np.transpose(table)), candidates)
        if self.refit:
            best = candidates[self.best_index_].of(model)
            self.best_estimator_ = best.fit(X, y, sample_weight)
        if is_classifier(self):
            self.classes_ = np.unique(to_host(targets))
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _model(self):
        """Return the estimator of all candidates, its kernel with a seed."""
        model = self._make_model(self.kernel)
        model._validate_params()
        kernel = clone(model._row_kernel or self.kernel, safe=False)
        if hasattr(kernel, "_parameter_constraints"):
            kernel._validate_params()
        params = kernel.get_params() if isinstance(kernel, BaseEstimator) else {}
        if "random_state" in params and params["random_state"] is None:
            seed = check_random_state(None).randint(2**31 - 1)  # one draw for them all
            kernel.set_params(random_state=seed)
        return self._make_model(kernel)

    def _candidates(self, kernel, X, weights):
        """Return the points of the grid: over the parameters that the kernel has."""
        params = kernel.get_params() if isinstance(kernel, BaseEstimator) else {}
        sizes, sigmas = self._sizes(), self._sigmas()
        if "n_components" not in params:
            sizes = [None]
        elif sizes is None:
            sizes = [params["n_components"]]
        if "sigma" not in params:
            sigmas = [None]
        elif sigmas is None:
            moments = Statistics((0,)).read(X, None, weights)
            sigmas = (resolve_sigma("scale", moments) * _PATH).tolist()
        return [Candidate(*point) for point in product(sizes, sigmas)]

    def _sigmas(self):
        if self.sigmas is None:
            return None
        sigmas = list(self.sigmas)
        if not (sigmas and all(map(_is_sigma, sigmas))):
            raise ValueError(
                f"sigmas={self.sigmas!r} must hold positive finite numbers, 'scale', "
                "'median' or, for kernels of rows, 'auto'. For one sigma per column "
                "use GridSearchCV."
            )
        return [s if isinstance(s, str | int) else float(s) for s in sigmas]

    def _sizes(self):
        sizes: Any = self.n_components
        if sizes is None:
            return None
        sizes = [sizes] if isinstance(sizes, Integral) else list(sizes)
        if not sizes or not all(isinstance(m, Integral) and int(m) >= 1 for m in sizes):
            raise ValueError(
                f"n_components={self.n_components!r} must be a whole number >= 1, or "
                "a list of such numbers."
            )
        return [int(size) for size in sizes]

    def _splits(self, X, y, weights, groups):
        if not on_host(X):  # folds are made of labels and weights
            X, y, weights = np.zeros((X.shape[0], 1)), to_host(y), to_host(weights)
        cv = check_cv(self.cv, y, classifier=is_classifier(self))
        splits = list(cv.split(X, y, to_namespace_of(groups, None)))
        if not splits:
            raise ValueError(
                f"cv={self.cv!r} gives no fold; pass a number of folds, a splitter or "
                "a non-empty list of pairs (train, test)."
            )
        for k, split in enumerate(splits):
            if not all(np.any(weights[part] > 0) for part in split):
                raise ValueError(
                    f"In fold {k} all training rows or all test rows have weight 0; "
                    "leave such rows out, or give folds in cv."
                )
        return splits

    def _publish(self, table, candidates):
        """Set the attributes of the search from scores (n_candidates, n_splits)."""
        params = [candidate.params for candidate in candidates]
        results: dict[str, Any] = {
            f"param_{name}": np.ma.array([point[name] for point in params])
            for name in params[0]
        }
        results["params"] = params
        for k, scores in enumerate(table.T):
            results[f"split{k}_test_score"] = scores
        mean = table.mean(axis=1)
        if np.isnan(table).all():
            raise ValueError(
                "No candidate has a score on any fold: all of them failed, and the "
                "warnings before this say why."
            )
        if np.isnan(mean).any():
            warn(
                f"{int(np.isnan(mean).sum())} of {mean.size} candidates have no score "
                "on some fold, and so no mean score; they rank last.",
                UserWarning,
            )
        results["mean_test_score"], results["std_test_score"] = mean, table.std(axis=1)
        ranks = rankdata(-np.nan_to_num(mean, nan=-np.inf), method="min")
        results["rank_test_score"] = ranks.astype(np.int32)
        self.cv_results_, self.n_splits_ = results, table.shape[1]
        self.best_index_ = int(np.argmin(ranks))
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])

    @available_if(_has_best)
    def predict(self, X: TableLike) -> np.ndarray:
        """Return the predictions of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Labels of the largest score, or averages of the targets.
        """
        return self._best(X, "predict").predict(X)

    def _best(self, X, method):
        check_is_fitted(self, "cv_results_")
        check_fit_namespace(self, X, method)
        return self.best_estimator_

    def get_metadata_routing(self) -> MetadataRouter:
        """Return how metadata are routed: ``groups`` to the splitter.

        Returns
        -------
        routing : MetadataRouter
            The router of scikit-learn.
        """
        mapping = MethodMapping().add(caller="fit", callee="split")
        router = MetadataRouter(owner=self).add_self_request(self)
        return router.add(splitter=check_cv(self.cv), method_mapping=mapping)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn, sparse input as the kernel has it."""
        tags, part = super().__sklearn_tags__(), get_tags(self._make_model(self.kernel))
        tags.input_tags.sparse = part.input_tags.sparse
        tags.array_api_support = part.array_api_support
        return tags


def _is_sigma(value):
    """Return whether a value of sigma can be part of a path."""
    if isinstance(value, str):
        return value in ("scale", "median", "auto")
    return isinstance(value, Real) and 0 < float(value) < np.inf
