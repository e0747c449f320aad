"""Nadaraya-Watson estimators that choose their bandwidth by cross-validation."""

from __future__ import annotations

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin

from .._compat import available_if
from ..rows import TableLike
from ._classifier import NadarayaWatsonClassifier
from ._regressor import NadarayaWatsonRegressor
from ._search import BaseNadarayaWatsonCV, _has_best


class NadarayaWatsonClassifierCV(ClassifierMixin, BaseNadarayaWatsonCV):
    r"""Nadaraya-Watson classifier that chooses its sigma and its number of features.

    The scores and the choice are those of ``GridSearchCV`` around
    :class:`NadarayaWatsonClassifier`, in a fraction of the time: in each fold the
    frequencies are applied once for all sigmas, and each feature is computed once for
    all numbers of components.

    Parameters
    ----------
    kernel : kernel, transformer or str, default=None
        Kernel whose ``sigma`` and ``n_components`` are chosen, where it has them; it is
        cloned. None is ``ExactKernel()``, names as for the estimator without search.
    sigmas : array-like of float, "scale", "median" or "auto", default=None
        Values of ``sigma``; None means ten multiples, from 0.5 to 11.3, of
        ``sigma="scale"`` for all rows. The paper [1]_ uses
        ``numpy.logspace(-2, 2, 10)`` on standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None means that of the kernel.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None means stratified five-fold.
    scoring : str or callable, default=None
        A scorer; None means the accuracy.
    refit : bool, default=True
        Whether to fit the best candidate on all rows. Without it there is neither
        ``predict`` nor ``best_estimator_``.
    n_jobs : int, default=None
        Number of threads, each of which scores a fold; None means one, -1 all
        processors.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, with one value
        per candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``; without
        what the kernel does not have.
    best_index_ : int
        Index of the best candidate, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``, as far as the kernel has them.
    best_score_ : float
        Its mean score.
    best_estimator_ : NadarayaWatsonClassifier
        The best candidate fitted on all rows, if ``refit``.
    n_splits_ : int
        Number of folds.
    classes_ : ndarray of shape (n_classes,)
        The labels.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

    See Also
    --------
    NadarayaWatsonClassifier : The classifier with given parameters.
    NadarayaWatsonRegressorCV : The same search for regression.

    Notes
    -----
    With :math:`x = \sigma (X - c)` a feature reads the rows through
    :math:`w \cdot x = \sigma\, w \cdot (X - c)` and :math:`|x|^2` only, so a fold needs
    one product with the frequencies; the parameters of a sampler (``A_``) follow from
    the moments of the columns. Where the distribution of the frequencies depends on
    these parameters they are drawn again for each sigma. The features of fewer
    components are the first of those of more, except for an odd number of sines and
    cosines, which is computed separately. With ``ExactKernel`` the distances are
    computed once for all sigmas; kernels of other kinds are fitted for each candidate.

    Scores equal those of ``GridSearchCV`` up to rounding: a row whose two largest class
    scores agree to the last digits may get the other label. Rows without a positive
    score get the class prior of the fold, without a warning.

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
    ...     OPRFSampler(random_state=0), sigmas=[0.2, 0.4, 0.6], n_components=[100, 400]
    ... ).fit(X, y)
    >>> search.best_params_
    {'n_components': 400, 'sigma': 0.6}
    """

    best_estimator_: NadarayaWatsonClassifier
    classes_: np.ndarray

    def _make_model(self, kernel):
        return NadarayaWatsonClassifier(kernel)

    @available_if(_has_best)
    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Return the class probabilities of the best estimator.

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
        """Return the class scores of the best estimator.

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


class NadarayaWatsonRegressorCV(RegressorMixin, BaseNadarayaWatsonCV):
    r"""Nadaraya-Watson regressor that chooses its sigma and its number of features.

    The scores and the choice are those of ``GridSearchCV`` around
    :class:`NadarayaWatsonRegressor`, in a fraction of the time: in each fold the
    frequencies are applied once for all sigmas, and each feature is computed once for
    all numbers of components.

    Parameters
    ----------
    kernel : kernel, transformer or str, default=None
        Kernel whose ``sigma`` and ``n_components`` are chosen, where it has them; it is
        cloned. None is ``ExactKernel()``, names as for the estimator without search.
    sigmas : array-like of float, "scale", "median" or "auto", default=None
        Values of ``sigma``; None means ten multiples, from 0.5 to 11.3, of
        ``sigma="scale"`` for all rows. The paper [1]_ uses
        ``numpy.logspace(-2, 2, 10)`` on standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None means that of the kernel.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None means five-fold.
    scoring : str or callable, default=None
        A scorer; None means the coefficient of determination R2.
    refit : bool, default=True
        Whether to fit the best candidate on all rows. Without it there is neither
        ``predict`` nor ``best_estimator_``.
    n_jobs : int, default=None
        Number of threads, each of which scores a fold; None means one, -1 all
        processors.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, with one value
        per candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``; without
        what the kernel does not have.
    best_index_ : int
        Index of the best candidate, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``, as far as the kernel has them.
    best_score_ : float
        Its mean score.
    best_estimator_ : NadarayaWatsonRegressor
        The best candidate fitted on all rows, if ``refit``.
    n_splits_ : int
        Number of folds.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

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
    >>> search = NadarayaWatsonRegressorCV(sigmas=[0.5, 2, 8])
    >>> search.fit(x, np.sin(x[:, 0])).best_params_
    {'sigma': 8}
    """

    best_estimator_: NadarayaWatsonRegressor

    def _make_model(self, kernel):
        return NadarayaWatsonRegressor(kernel)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: several outputs."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = True
        return tags
