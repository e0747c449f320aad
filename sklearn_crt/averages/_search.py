"""Choice of the bandwidth and the number of features by cross-validation."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import LeaveOneOut, check_cv
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
    ARRAY_API,
    DOC_LINK,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    TypedBaseEstimator,
    _check_sample_weight,
    _fit_context,
    available_if,
    warn,
)
from .._types import RandomState
from .._workers import blas_within_processors
from ..rows import Rows, Statistics, TableLike, resolve_sigma
from ..samplers import BaseFeatureSampler, OPRFSampler
from ._fold import score_fold

_ERRORS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "neg_mean_squared_error": np.square,
    "neg_mean_absolute_error": np.abs,
    "neg_root_mean_squared_error": np.abs,  # of one row
}


def scores_each(model: Any, cv: Any, scoring: Any) -> bool:
    """Return whether ``score_each`` has the scores of a search."""
    if not (isinstance(cv, LeaveOneOut) and isinstance(model.sampler, str)):
        return False
    if is_classifier(model):
        return scoring in (None, "accuracy")
    return isinstance(scoring, str) and scoring in _ERRORS


def score_each(
    model: Any,
    X: Rows,
    y: np.ndarray,
    weights: np.ndarray,
    sigmas: Sequence[float | str],
    scoring: Any,
) -> np.ndarray:
    """Return the scores of all folds of one row, for each sigma."""
    # X (n_samples, n_features), y (n_samples,) or (n_samples, n_outputs), weights
    # (n_samples,) -> (n_samples, n_sigmas)
    targets = model._check_targets(y, first=True, final=True)
    model._add_targets(targets, weights, first=True)
    engine = model.set_params(sigma=sigmas[0])._make_engine()
    engine.add(X, targets, weights)
    scores = np.empty((weights.size, len(sigmas)))
    with blas_within_processors(weights.size):
        for rows, path in engine.left_out(sigmas):
            for k, sums in enumerate(path):
                found = sums.scores  # of which some is above 0: logs of nearest rows
                if is_classifier(model):
                    scores[rows, k] = np.argmax(found, axis=1) == targets[rows]
                else:
                    means = found[:, :-1] / found[:, -1:]
                    errors = _ERRORS[str(scoring)](means - targets[rows])
                    scores[rows, k] = -errors.mean(axis=1)
    return scores


_N_COMPONENTS = 2000  # of the default sampler
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
        "sampler": "no_validation",  # fit says more
        "sigmas": ["array-like", None],
        "n_components": [Integral, "array-like", None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "tol": [Interval(Real, 0, 1, closed="left")],
        "bound": [StrOptions({"estimated", "certified"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }
    _fit_namespace: Any = None  # tells where the rows of fit were, None for NumPy
    # of ``fit`` itself: groups go to the splitter, see get_metadata_routing
    __metadata_request__fit = {"groups": UNUSED}

    def __init__(
        self,
        sampler: BaseFeatureSampler | Literal["exact"] | None = None,
        *,
        sigmas: Iterable[float | str] | None = None,
        n_components: int | Iterable[int] | None = None,
        cv: Any = None,
        scoring: str | Callable[..., float] | None = None,
        refit: bool = True,
        tol: float = 0.0,
        bound: Literal["estimated", "certified"] = "estimated",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sampler = sampler
        self.sigmas = sigmas
        self.n_components = n_components
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.tol = tol
        self.bound = bound
        self.n_jobs = n_jobs
        self.random_state = random_state

    def __sklearn_array_api_convert__(self, converter):
        """Return a copy for rows of another library, as scikit-learn asks for it."""
        other = convert_fit_namespace(self, converter)
        if hasattr(other, "best_estimator_"):
            best = other.best_estimator_
            other.best_estimator_ = best.__sklearn_array_api_convert__(converter)
        return other

    @abstractmethod
    def _make_model(self, sampler, **options):
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
        model, sizes, sigmas = self._candidates()
        self._fit_namespace = fit_namespace_of(X)
        rows, targets = validate_rows(self, X, reset=True, y=y, **model._y_checks)
        model._check_targets(targets, first=True, final=True)  # raises where it must
        weights = _check_sample_weight(
            to_namespace_of(sample_weight, rows),
            rows,
            dtype=rows.dtype,
            ensure_non_negative=True,
        )
        if sigmas is None:
            moments = Statistics((0,)).read(rows, None, weights)
            sigmas = (resolve_sigma("scale", moments) * _PATH).tolist()
        at_once = on_host(rows) and self._scores_at_once(model, sigmas, weights)
        splits = None if at_once else self._splits(rows, targets, weights, groups)
        n_subtasks = 0 if splits is None else len(splits)
        context = self._init_callback_context(max_subtasks=n_subtasks)
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        data = clone(model), rows, targets, weights
        if splits is None:
            table = score_each(*data, sigmas, self.scoring)
        else:
            table = self._score_folds(context, data, splits, sizes, sigmas)
        # contiguous: as in GridSearchCV, equal scores have equal means to the last bit
        self._publish(np.ascontiguousarray(np.transpose(table)), sizes, sigmas)
        if self.refit:
            self.best_estimator_ = self._best_model(model).fit(X, y, sample_weight)
        if is_classifier(self):
            self.classes_ = np.unique(to_host(targets))
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _scores_at_once(self, model, sigmas, weights):
        """Return whether all folds are scored in one pass: leave-one-out."""
        numbers = not any(isinstance(sigma, str) for sigma in sigmas)
        # folds say what is wrong with a row of weight 0, or with a single row
        enough = weights.size > 1 and bool(np.all(weights > 0))
        return numbers and enough and scores_each(model, self.cv, self.scoring)

    def _score_folds(self, context, data, splits, sizes, sigmas):
        """Return the scores of all candidates on each fold."""
        model, *rows = data
        rest = sizes, sigmas, self.scoring
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        folds = parallel(
            delayed(score_fold)(clone(model), *rows, split, *rest) for split in splits
        )
        table = []
        for scores in folds:  # of a progress bar: one fold is scored
            part = context.subcontext(task_name="fold")
            part.call_on_fit_task_begin(estimator=self)
            table.append(scores)
            part.call_on_fit_task_end(estimator=self)
        return table

    def _candidates(self):
        """Return the estimator, its sampler with a seed, and the axes of the grid."""
        sampler, sizes = self.sampler, [None]
        exact = isinstance(sampler, str) and sampler == "exact"
        if sampler is None:
            sampler = OPRFSampler(n_components=_N_COMPONENTS)
        if not exact and not hasattr(sampler, "with_sigma"):
            raise ValueError(
                f"sampler={self.sampler!r} has no path over sigma. Pass a sampler of "
                f"sklearn_crt, as in {type(self).__name__}(OPRFSampler()), or 'exact'; "
                "for other transformers use GridSearchCV around "
                f"{type(self._make_model(None)).__name__}."
            )
        if not exact and self.tol > 0:
            raise ValueError(
                f"tol={self.tol!r} belongs to sampler='exact' and has no effect with "
                f"sampler={self.sampler!r}; leave it out."
            )
        if not exact:
            sampler = clone(sampler)
            if sampler.random_state is None:
                seed = check_random_state(self.random_state).randint(2**31 - 1)
                sampler.set_params(random_state=seed)
            sizes = self._sizes(sampler)
        sigmas = None if self.sigmas is None else list(self.sigmas)
        if sigmas is not None and not (sigmas and all(map(_is_sigma, sigmas))):
            raise ValueError(
                f"sigmas={self.sigmas!r} must hold positive finite numbers, 'scale' "
                "or 'median'. For one sigma a column use GridSearchCV."
            )
        if sigmas is not None:
            sigmas = [s if isinstance(s, str | int) else float(s) for s in sigmas]
        options = {"tol": self.tol, "bound": self.bound} if exact else {}
        return self._make_model(sampler, **options), sizes, sigmas

    def _sizes(self, sampler):
        sizes: Any = self.n_components
        if sizes is None or isinstance(sizes, Integral):
            sizes = [sampler.n_components if sizes is None else sizes]
        sizes = list(sizes)
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

    def _publish(self, table, sizes, sigmas):
        """Set the attributes of the search from scores (n_candidates, n_splits)."""
        names = ("sigma",) if sizes == [None] else ("n_components", "sigma")
        params = [
            dict(zip(("n_components", "sigma"), candidate, strict=True))
            for candidate in product(sizes, sigmas)
        ]
        params = [{name: candidate[name] for name in names} for candidate in params]
        results: dict[str, Any] = {
            f"param_{name}": np.ma.array([candidate[name] for candidate in params])
            for name in names
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

    def _best_model(self, model):
        if isinstance(model.sampler, str):
            return clone(model).set_params(**self.best_params_)
        return self._make_model(clone(model.sampler).set_params(**self.best_params_))

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
        """Return the tags of scikit-learn, sparse input as the sampler has it."""
        tags = super().__sklearn_tags__()
        known = self.sampler is None or isinstance(self.sampler, str)
        part: Any = None if known else get_tags(self.sampler)
        tags.input_tags.sparse = known or part.input_tags.sparse
        on_devices = self.tol == 0 if known else part.array_api_support
        tags.array_api_support = ARRAY_API and on_devices
        return tags


def _is_sigma(value):
    """Return whether a value of sigma can be part of a path."""
    if isinstance(value, str):
        return value in ("scale", "median")
    return isinstance(value, Real) and 0 < float(value) < np.inf
