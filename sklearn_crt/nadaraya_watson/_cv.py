"""Nadaraya-Watson estimators that choose their bandwidth by cross-validation."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.metaestimators import available_if

from .._docs import fill_doc
from ..rows import TableLike
from ._classifier import NadarayaWatsonClassifier
from ._regressor import NadarayaWatsonRegressor
from ._search import BaseNadarayaWatsonCV, _has_best


@fill_doc
class NadarayaWatsonClassifierCV(ClassifierMixin, BaseNadarayaWatsonCV):
    r"""Nadaraya-Watson classifier that chooses its sigma and its number of features.

    Scores and choice are those of ``GridSearchCV`` around
    :class:`NadarayaWatsonClassifier`, in a fraction of the time: in each fold the
    frequencies are applied once for all sigmas, and each feature is computed once for
    all numbers of components.

    Parameters
    ----------
    sampler : sampler of this package, "exact" or None, default=None
        Cloned; its ``sigma`` and ``n_components`` are what is chosen. None is
        ``OPRFSampler(n_components=2000)``. ``"exact"`` is the Gaussian kernel itself,
        which has a sigma alone.
    sigmas : array-like of float, "scale" or "median", default=None
        Values of ``sigma``; None is ten multiples, from 0.5 to 11.3, of
        ``sigma="scale"`` for all the rows. The papers [1]_ take
        ``numpy.logspace(-2, 2, 10)`` on standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None is that of the sampler. ``"exact"`` has none and
        ignores it.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None is stratified five-fold. For ``"exact"`` the
        accuracies of ``LeaveOneOut()`` take one pass over the pairs of rows.
    scoring : str or callable, default=None
        A scorer; None is the accuracy.
    refit : bool, default=True
        Whether to fit the best candidate on all the rows. Without it there are no
        ``predict`` and no ``best_estimator_``.
    tol : float, default=0.0
        Of ``"exact"``, as in :class:`NadarayaWatsonClassifier`: answers within a
        tolerance. All sigmas share the clusters of rows.
    bound : {"estimated", "certified"}, default="estimated"
        What ``tol`` promises.
    n_jobs : int, default=None
        Number of threads, each with a fold; None is one, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Seed of a sampler whose own ``random_state`` is None: one for all candidates.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, one value a
        candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``; without
        ``param_n_components`` for ``"exact"``.
    best_index_ : int
        Index of the best candidate there, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``, plain numbers.
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
    NadarayaWatsonRegressorCV : The same search for regression.

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
    prior, without a warning. For ``"exact"`` the distances are computed once for all
    sigmas.

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

    def _make_model(self, sampler, **options):
        return NadarayaWatsonClassifier(sampler, **options)

    @available_if(_has_best)
    def predict_proba(self, X: TableLike) -> np.ndarray:
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
        return self._best(X, "predict_proba").predict_proba(X)

    @available_if(_has_best)
    def decision_function(self, X: TableLike) -> np.ndarray:
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
        return self._best(X, "decision_function").decision_function(X)


@fill_doc
class NadarayaWatsonRegressorCV(RegressorMixin, BaseNadarayaWatsonCV):
    r"""Nadaraya-Watson regressor that chooses its sigma and its number of features.

    Scores and choice are those of ``GridSearchCV`` around
    :class:`NadarayaWatsonRegressor`, in a fraction of the time: in each fold the
    frequencies are applied once for all sigmas, and each feature is computed once for
    all numbers of components.

    Parameters
    ----------
    sampler : sampler of this package, "exact" or None, default=None
        Cloned; its ``sigma`` and ``n_components`` are what is chosen. None is
        ``OPRFSampler(n_components=2000)``. ``"exact"`` is the Gaussian kernel itself,
        which has a sigma alone.
    sigmas : array-like of float, "scale" or "median", default=None
        Values of ``sigma``; None is ten multiples, from 0.5 to 11.3, of
        ``sigma="scale"`` for all the rows. The papers [1]_ take
        ``numpy.logspace(-2, 2, 10)`` on standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None is that of the sampler. ``"exact"`` has none and
        ignores it.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None is five-fold. For ``"exact"`` the squared
        and absolute errors (``scoring="neg_mean_squared_error"``) of ``LeaveOneOut()``
        take one pass over the pairs of rows.
    scoring : str or callable, default=None
        A scorer; None is the coefficient of determination R2.
    refit : bool, default=True
        Whether to fit the best candidate on all the rows. Without it there are no
        ``predict`` and no ``best_estimator_``.
    tol : float, default=0.0
        Of ``"exact"``, as in :class:`NadarayaWatsonRegressor`: answers within a
        tolerance. All sigmas share the clusters of rows.
    bound : {"estimated", "certified"}, default="estimated"
        What ``tol`` promises.
    n_jobs : int, default=None
        Number of threads, each with a fold; None is one, -1 all processors.
    random_state : int, RandomState instance or None, default=None
        Seed of a sampler whose own ``random_state`` is None: one for all candidates.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, one value a
        candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``; without
        ``param_n_components`` for ``"exact"``.
    best_index_ : int
        Index of the best candidate there, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``, plain numbers.
    best_score_ : float
        Its mean score.
    best_estimator_ : NadarayaWatsonRegressor
        Fitted with them on all the rows, if ``refit``.
    n_splits_ : int
        Number of folds.
    n_features_in_ : int
        Number of columns of X.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, where X has string names.

    See Also
    --------
    NadarayaWatsonRegressor : The regressor with given parameters.
    NadarayaWatsonClassifierCV : The same search for classification, with notes.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import NadarayaWatsonRegressorCV
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> search = NadarayaWatsonRegressorCV("exact", sigmas=[0.5, 2, 8])
    >>> search.fit(x, np.sin(x[:, 0])).best_params_
    {'sigma': 8}
    """

    def _make_model(self, sampler, **options):
        return NadarayaWatsonRegressor(sampler, **options)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: several outputs."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = True
        return tags
