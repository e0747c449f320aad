"""Choice of the bandwidth and the number of features by cross-validation."""

from __future__ import annotations

from itertools import product
from numbers import Integral, Real

import numpy as np
from scipy.stats import rankdata
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.metrics import get_scorer_names
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from .._compat import StrOptions, _check_sample_weight, _fit_context
from .._docs import fill_doc
from ._classifier import NadarayaWatsonClassifier
from ._fold import score_fold


@fill_doc
class NadarayaWatsonClassifierCV(ClassifierMixin, BaseEstimator):
    r"""Nadaraya-Watson classifier that chooses its sigma and its number of features.

    Scores and choice are those of ``GridSearchCV`` around
    :class:`NadarayaWatsonClassifier`, in a fraction of the time: in each fold the
    frequencies are applied once for all sigmas, and each feature is computed once for
    all numbers of components.

    Parameters
    ----------
    sampler : sampler of this package
        Cloned; its ``sigma`` and ``n_components`` are what is chosen.
    sigmas : array-like of float, "scale" or "median", default=None
        Values of ``sigma``; None is ``numpy.logspace(-2, 2, 10)``, the grid of the
        papers [1]_, meant for standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None is that of the sampler.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None is stratified five-fold.
    scoring : str or callable, default=None
        A scorer; None is the accuracy.
    refit : bool, default=True
        Whether to fit the best candidate on all the rows.
    n_jobs : int, default=None
        Number of threads, each with a fold; None is one, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Seed of a sampler whose own ``random_state`` is None: one for all candidates.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, one value a
        candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``.
    best_index_ : int
        Index of the best candidate there, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``.
    best_score_ : float
        Its mean score.
    best_estimator_ : NadarayaWatsonClassifier
        Fitted with them on all the rows, if ``refit``.
    n_splits_ : int
        Number of folds.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where X has string names.

    See Also
    --------
    NadarayaWatsonClassifier : The classifier with given parameters.

    Notes
    -----
    With :math:`x = \sigma (X - c)` a feature reads the rows through
    :math:`w \cdot x = \sigma\, w \cdot (X - c)` and :math:`|x|^2` only, so a fold needs
    one product with the frequencies; the parameters of a sampler (``A_``) follow from
    the moments of the columns. Where the law of the frequencies depends on these
    parameters they are drawn again for each sigma. The features of fewer components
    are the first of those of more, except an odd number of sines and cosines, which is
    computed apart.

    "Equal" is up to rounding: a row whose two largest class scores agree to the last
    digits may change sides. A fold that misses the positive scores of a row counts its
    prior, without a warning.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifierCV, OPRFSampler
    >>> X, y = load_iris(return_X_y=True)
    >>> search = NadarayaWatsonClassifierCV(
    ...     OPRFSampler(random_state=0), sigmas=[0.5, 1, 2], n_components=[50, 200]
    ... ).fit(X, y)
    >>> search.best_params_
    {'n_components': 50, 'sigma': 1}
    """

    _parameter_constraints: dict = {
        "sampler": "no_validation",  # fit says more
        "sigmas": ["array-like", None],
        "n_components": [Integral, "array-like", None],
        "cv": ["cv_object"],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "refit": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        sampler=None,
        *,
        sigmas=None,
        n_components=None,
        cv=None,
        scoring=None,
        refit=True,
        n_jobs=None,
        random_state=None,
    ):
        self.sampler = sampler
        self.sigmas = sigmas
        self.n_components = n_components
        self.cv = cv
        self.scoring = scoring
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X, y, sample_weight=None):
        """Score all candidates on all folds, and fit the best.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, in the fits and in the scores, as in the
            ``GridSearchCV`` of today's scikit-learn.

        Returns
        -------
        self : object
            The fitted estimator.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        sampler, sizes, sigmas = self._candidates()
        options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        rows, labels = validate_data(self, X, y, **options)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        weights = _check_sample_weight(
            sample_weight, rows, dtype=rows.dtype, ensure_non_negative=True
        )
        splits = list(check_cv(self.cv, labels, classifier=True).split(rows, labels))
        for k, split in enumerate(splits):
            if not all(np.any(weights[part] > 0) for part in split):
                raise ValueError(
                    f"In fold {k} all training rows or all test rows have weight 0; "
                    "leave such rows out, or give folds in cv."
                )
        grid = sizes, sigmas, self.classes_, self.scoring
        table = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(score_fold)(clone(sampler), rows, codes, weights, split, *grid)
            for split in splits
        )
        # contiguous: as in GridSearchCV, equal scores have equal means to the last bit
        self._publish(np.ascontiguousarray(np.transpose(table)), sizes, sigmas)
        if self.refit:
            sampler = clone(sampler).set_params(**self.best_params_)
            self.best_estimator_ = NadarayaWatsonClassifier(sampler)
            self.best_estimator_.fit(X, y, sample_weight)
        return self

    def _candidates(self):
        """Return the sampler with a seed, and the two axes of the grid."""
        if not hasattr(self.sampler, "iter_path"):
            raise ValueError(
                f"sampler={self.sampler!r} has no path over sigma. Pass a sampler of "
                "sklearn_crt, as in NadarayaWatsonClassifierCV(OPRFSampler()); for "
                "'exact' and for other transformers use GridSearchCV around "
                "NadarayaWatsonClassifier."
            )
        sampler = clone(self.sampler)
        if sampler.random_state is None:
            seed = check_random_state(self.random_state).randint(2**31 - 1)
            sampler.set_params(random_state=seed)
        sizes, sigmas = self.n_components, self.sigmas
        if sizes is None or isinstance(sizes, Integral):
            sizes = [sampler.n_components if sizes is None else sizes]
        sizes = list(sizes)
        if not sizes or not all(isinstance(m, Integral) and m >= 1 for m in sizes):
            raise ValueError(
                f"n_components={self.n_components!r} must be a whole number >= 1, or "
                "a list of such numbers."
            )
        sigmas = list(np.logspace(-2, 2, 10) if sigmas is None else sigmas)
        if not sigmas or not all(map(_is_sigma, sigmas)):
            raise ValueError(
                f"sigmas={self.sigmas!r} must hold positive finite numbers, 'scale' "
                "or 'median'. For one sigma a column use GridSearchCV."
            )
        return sampler, sizes, sigmas

    def _publish(self, table, sizes, sigmas):
        """Set the attributes of the search from scores (n_candidates, n_splits)."""
        params = [
            {"n_components": size, "sigma": sigma}
            for size, sigma in product(sizes, sigmas)
        ]
        results = {
            f"param_{name}": np.ma.array([candidate[name] for candidate in params])
            for name in ("n_components", "sigma")
        }
        results["params"] = params
        for k, scores in enumerate(table.T):
            results[f"split{k}_test_score"] = scores
        mean = table.mean(axis=1)
        results["mean_test_score"], results["std_test_score"] = mean, table.std(axis=1)
        ranks = rankdata(-np.nan_to_num(mean, nan=-np.inf), method="min")
        results["rank_test_score"] = ranks.astype(np.int32)
        self.cv_results_, self.n_splits_ = results, table.shape[1]
        self.best_index_ = int(np.argmin(ranks))
        self.best_params_ = params[self.best_index_]
        self.best_score_ = float(mean[self.best_index_])

    def predict(self, X):
        """Return the labels of largest score, of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels.
        """
        return self._best().predict(X)

    def predict_proba(self, X):
        """Return the probabilities of the classes, of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        """
        return self._best().predict_proba(X)

    def decision_function(self, X):
        """Return the class scores, of the best estimator.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            As in :class:`NadarayaWatsonClassifier`.
        """
        return self._best().decision_function(X)

    def _best(self):
        check_is_fitted(self, "cv_results_")
        if not self.refit:
            raise AttributeError(
                "With refit=False there is no best estimator to predict with; fit "
                "NadarayaWatsonClassifier with best_params_, or take refit=True."
            )
        return self.best_estimator_

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn, sparse input as the sampler has it."""
        tags = super().__sklearn_tags__()
        if self.sampler is not None:
            tags.input_tags.sparse = get_tags(self.sampler).input_tags.sparse
        return tags


def _is_sigma(value):
    """Return whether a value of sigma can be part of a path."""
    if isinstance(value, str):
        return value in ("scale", "median")
    return isinstance(value, Real) and 0 < value < np.inf
