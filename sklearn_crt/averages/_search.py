"""Choice of the bandwidth and the number of features by cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.exceptions import FitFailedWarning
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import ParameterGrid, check_cv
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metadata_routing import UNUSED, MetadataRouter, MethodMapping
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted

from .._array import (
    check_fit_namespace,
    convert_fit_namespace,
    fit_namespace_of,
    float_types,
    namespace_of,
    on_host,
    refuse_lazy,
    taken,
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
from .._kernels import LogSum
from .._workers import blas_within_processors
from ..maps import iter_path
from ..rows import Rows, Statistics, TableLike, resolve_sigma
from ._base import BaseNadarayaWatson
from ._exact import ExactKernel
from ._features import FeatureEngine
from ._sums import FeatureSums

_PATH = 2.0 ** np.arange(-1, 4, 0.5)  # of sigma="scale": the default path


def _has_best(search):
    """Return whether there is a best estimator to predict with, or say why not."""
    if not search.refit:
        raise AttributeError(
            "With refit=False there is no best estimator to predict with; fit one with "
            "best_params_, or take refit=True."
        )
    return True


class BaseNadarayaWatsonCV(CallbackSupportMixin, TypedBaseEstimator):
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
    _model: type[BaseNadarayaWatson]  # the estimator without search
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
        model = self._model(self.kernel)
        model._validate_params()
        model.kernel = kernel = clone(model._row_kernel or self.kernel, safe=False)
        if hasattr(kernel, "_parameter_constraints"):
            kernel._validate_params()
        params: dict = getattr(kernel, "get_params", dict)()  # names have none
        if params.get("random_state", 0) is None:  # one draw for all candidates
            seed = check_random_state(None).randint(2**31 - 1)
            kernel.set_params(random_state=seed)
        self._fit_namespace = fit_namespace_of(X)
        rows, targets = validate_rows(self, X, reset=True, y=y, **model._y_checks)
        model._check_targets(targets, first=True, final=True)  # raises where it must
        weights = _check_sample_weight(
            to_namespace_of(sample_weight, rows),
            rows,
            dtype=rows.dtype,
            ensure_non_negative=True,
        )
        candidates = self._candidates(params, rows, weights)
        splits = self._splits(rows, targets, weights, groups)
        context = self._init_callback_context(max_subtasks=len(splits))
        context.call_on_fit_task_begin(estimator=self, X=X, y=y)
        parallel = Parallel(n_jobs=self.n_jobs, prefer="threads", return_as="generator")
        call, data = blas_within_processors(rows.shape[0]), (rows, targets, weights)
        scorer = check_scoring(model, self.scoring)
        folds = parallel(
            delayed(call)(score_fold, clone(model), *data, split, candidates, scorer)
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
            best = _with_params(model, self.best_params_)
            self.best_estimator_ = best.fit(X, y, sample_weight)
        if is_classifier(self):
            self.classes_ = np.unique(to_host(targets))
        context.call_on_fit_task_end(estimator=self, X=X, y=y)
        return self

    def _candidates(self, params, X, weights):
        """Return the points of the grid: over the parameters that the kernel has."""
        sizes: Any = self.n_components
        if sizes is not None:
            sizes = [sizes] if isinstance(sizes, Integral) else list(sizes)
            if not (
                sizes and all(isinstance(m, Integral) and int(m) >= 1 for m in sizes)
            ):
                raise ValueError(
                    f"n_components={self.n_components!r} must be a whole number >= 1, "
                    "or a list of such numbers."
                )
            sizes = [int(size) for size in sizes]
        sigmas: Any = self.sigmas
        if sigmas is not None:
            sigmas = list(sigmas)
            if not (sigmas and all(map(_is_sigma, sigmas))):
                raise ValueError(
                    f"sigmas={self.sigmas!r} must hold positive finite numbers, "
                    "'scale', 'median' or, for kernels of rows, 'auto'. For one sigma "
                    "a column use GridSearchCV."
                )
            sigmas = [s if isinstance(s, str | int) else float(s) for s in sigmas]
        elif "sigma" in params:
            moments = Statistics((0,)).read(X, None, weights)
            sigmas = (resolve_sigma("scale", moments) * _PATH).tolist()
        grid = {"n_components": sizes or [params.get("n_components")], "sigma": sigmas}
        return list(ParameterGrid({k: v for k, v in grid.items() if k in params}))

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
        results: dict[str, Any] = {
            f"param_{name}": np.ma.array([params[name] for params in candidates])
            for name in candidates[0]
        }
        results["params"] = candidates
        for k, scores in enumerate(table.T):
            results[f"split{k}_test_score"] = scores
        mean = table.mean(axis=1)
        if np.isnan(table).all():
            raise ValueError(
                "No candidate has a score on any fold: all of them failed, and the "
                "warnings before this say why."
            )
        if n_lost := int(np.isnan(mean).sum()):
            warn(
                f"{n_lost} of {mean.size} candidates have no score on some fold, and "
                "so no mean score; they rank last.",
                UserWarning,
            )
        results["mean_test_score"], results["std_test_score"] = mean, table.std(axis=1)
        ranks = rankdata(-np.nan_to_num(mean, nan=-np.inf), method="min")
        results["rank_test_score"] = ranks.astype(np.int32)
        self.cv_results_, self.n_splits_ = results, table.shape[1]
        self.best_index_ = int(np.argmin(ranks))
        self.best_params_ = candidates[self.best_index_]
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
        tags, part = super().__sklearn_tags__(), get_tags(self._model(self.kernel))
        tags.input_tags.sparse = part.input_tags.sparse
        tags.array_api_support = part.array_api_support
        return tags


def _is_sigma(value):
    """Return whether a value of sigma can be part of a path."""
    if isinstance(value, str):
        return value in ("scale", "median", "auto")
    return isinstance(value, Real) and 0 < float(value) < np.inf


def _with_params(model, params):
    """Return an estimator, not fitted, whose kernel has these parameters."""
    model = clone(model)
    if params:  # else the kernel may be a name
        model.kernel.set_params(**params)
    return model


def score_fold(
    model: Any,
    X: Rows,
    y: np.ndarray,
    weights: np.ndarray,
    split: tuple,
    candidates: list[dict[str, Any]],
    scorer: Callable[..., float],
) -> list[float]:
    """Return the scores of all candidates on one fold.

    They are nan where it cannot be fitted, as in scikit-learn: the other folds go on.
    """
    # X (n_samples, n_features), y (n_samples,) or (n_samples, n_outputs), weights
    # (n_samples,)
    train, (X, y, weights) = (
        [taken(values, np.arange(X.shape[0])[part]) for values in (X, y, weights)]
        for part in split
    )
    xp, options, table = namespace_of(weights), {}, {}
    if not xp.all(weights == 1):
        options["sample_weight"] = xp.astype(weights, float_types(weights)[0])
    try:
        for params, fitted in _fit_candidates(model, train, X, candidates):
            fitted._engine.quiet = True  # warnings of each candidate would be many
            try:
                score = float(scorer(fitted, X, y, **options))
            except Exception as error:
                warn(f"Scoring failed, and this score is nan: {error!r}", UserWarning)
                score = np.nan
            table[tuple(params.values())] = score
    except Exception as error:
        warn(
            f"Fitting a fold failed, and its scores are nan: {error!r}",
            FitFailedWarning,
        )
        table.clear()
    return [table.get(tuple(params.values()), np.nan) for params in candidates]


def _fit_candidates(model, train, X, candidates) -> Iterator[tuple[dict, Any]]:
    """Yield the candidates, and estimators fitted to the rows of training."""
    exact = isinstance(model.kernel, ExactKernel)
    if not on_host(X) or not (exact or hasattr(model.kernel, "with_sigma")):
        for params in candidates:
            fitted = _with_params(model, params)
            fitted._add(*train, final=True)
            yield params, fitted
        return
    some = np.flatnonzero(train[-1] > 0)
    rows, y, weights = (taken(values, some) for values in train)
    # fitted, but for the kernel sums: these are made for all candidates together
    y = model._check_targets(y, first=True, final=True)
    model._seen = model._statistics_of(y, weights)
    model.n_features_in_ = rows.shape[1]
    engines = _exact_engines if exact else _feature_engines
    for params, engine in engines(model, (rows, y, weights), X, candidates):
        model.kernel = clone(model.kernel).set_params(**params)
        model._made_of, model._engine = model._row_kernel, engine
        yield params, model


def _exact_engines(model, train, X, candidates) -> Iterator[tuple[dict, Any]]:
    """Yield engines that know their sums: the distances are taken once for all."""
    sigmas = [params["sigma"] for params in candidates]
    first = "median" if "median" in sigmas else sigmas[0]  # which keeps a sample
    engine = clone(model.kernel).set_params(sigma=first)._make_engine(model._encoder())
    engine.add(*train)
    numbers = [engine.resolve(sigma) for sigma in sigmas]
    batches, path = zip(*engine.path_sums(X, numbers), strict=True)
    for params, number, sums in zip(candidates, numbers, zip(*path), strict=True):
        known = engine.copy()
        known._sigma, known._choice = number, None
        known.sums = lambda X, sums=sums: zip(batches, sums, strict=True)
        yield params, known


def _feature_engines(model, train, X, candidates) -> Iterator[tuple[dict, Any]]:
    """Yield engines whose sums are of features that are computed once.

    One product with the frequencies is for all sigmas, and the features of the largest
    size hold those of the others.
    """
    rows, y, weights = train
    encoder, kernel = model._encoder(), clone(model.kernel)
    dtype = encoder.product_type(rows)
    sizes, sigmas = (
        list(dict.fromkeys(params[name] for params in candidates))
        for name in ("n_components", "sigma")
    )
    kernel.set_params(sigma="median" if "median" in sigmas else sigmas[0])
    while sizes:  # once, and again for each odd number of sines and cosines
        samplers = {
            size: clone(kernel)
            .set_params(n_components=size)
            .fit(rows, sample_weight=weights)
            for size in sizes
        }
        path = [samplers[max(sizes)].with_sigma(sigma).map_ for sigma in sigmas]
        sums = [FeatureSums() for _ in path]
        for some, features in iter_path(path, rows, key=True):
            targets = encoder.encode(y[some], weights[some], dtype)
            for k, (mantissa, exponent) in enumerate(features):
                sums[k] = sums[k].with_rows(mantissa, exponent, targets)
        for size, sampler in samplers.items():
            columns = [member.prefix(size) for member in path]
            if any(found is None for found in columns):
                continue
            sizes.remove(size)
            for sigma, total, found in zip(sigmas, sums, columns, strict=True):
                engine = FeatureEngine(None, encoder)
                engine = engine.with_map(sampler.with_sigma(sigma))
                engine._sums = _take(total, found)
                yield {"n_components": size, "sigma": sigma}, engine


def _take(sums, columns):
    """Return the sums of some columns of the features."""
    signed, (values, log_scale) = sums.signed, sums.total
    log_scale = log_scale if len(log_scale) == 1 else log_scale[columns]
    signed = signed[columns] if signed.ndim else signed
    return FeatureSums(LogSum(values[columns], log_scale), signed)
