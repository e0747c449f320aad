"""Nadaraya-Watson estimators that choose their bandwidth by cross-validation."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin

from .._compat import StrOptions, available_if, validate_params
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
    sampler : sampler of this package, "exact" or None, default=None
        Sampler whose ``sigma`` and ``n_components`` are chosen; it is cloned. None is
        ``OPRFSampler(n_components=2000)``. ``"exact"`` is the Gaussian kernel itself,
        of which only sigma is chosen.
    sigmas : array-like of float, "scale" or "median", default=None
        Values of ``sigma``; None means ten multiples, from 0.5 to 11.3, of
        ``sigma="scale"`` for all rows. The paper [1]_ uses
        ``numpy.logspace(-2, 2, 10)`` on standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None means that of the sampler. Ignored with ``"exact"``.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None means stratified five-fold. With ``"exact"``
        the accuracies of ``LeaveOneOut()`` take one pass over the pairs of rows.
    scoring : str or callable, default=None
        A scorer; None means the accuracy.
    refit : bool, default=True
        Whether to fit the best candidate on all rows. Without it there is neither
        ``predict`` nor ``best_estimator_``.
    tol : float, default=0.0
        Tolerance of ``"exact"``, as in :class:`NadarayaWatsonClassifier`. All sigmas
        share the clusters of rows.
    bound : {"estimated", "certified"}, default="estimated"
        What ``tol`` promises, as in :class:`NadarayaWatsonClassifier`.
    n_jobs : int, default=None
        Number of threads, each of which scores a fold; None means one, -1 all
        processors.
    random_state : int, RandomState instance or None, default=None
        Seed of a sampler whose own ``random_state`` is None, the same for all
        candidates.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, with one value
        per candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``; without
        ``param_n_components`` for ``"exact"``.
    best_index_ : int
        Index of the best candidate, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``.
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
    cosines, which is computed separately. With ``"exact"`` the distances are computed
    once for all sigmas.

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
    ...     OPRFSampler(random_state=0), sigmas=[0.5, 1, 2], n_components=[50, 200]
    ... ).fit(X, y)
    >>> search.best_params_
    {'n_components': 50, 'sigma': 1}
    """

    best_estimator_: NadarayaWatsonClassifier
    classes_: np.ndarray

    def _make_model(self, sampler, **options):
        return NadarayaWatsonClassifier(sampler, **options)

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
    sampler : sampler of this package, "exact" or None, default=None
        Sampler whose ``sigma`` and ``n_components`` are chosen; it is cloned. None is
        ``OPRFSampler(n_components=2000)``. ``"exact"`` is the Gaussian kernel itself,
        of which only sigma is chosen.
    sigmas : array-like of float, "scale" or "median", default=None
        Values of ``sigma``; None means ten multiples, from 0.5 to 11.3, of
        ``sigma="scale"`` for all rows. The paper [1]_ uses
        ``numpy.logspace(-2, 2, 10)`` on standardised columns.
    n_components : int or list of int, default=None
        Numbers of columns; None means that of the sampler. Ignored with ``"exact"``.
    cv : int, splitter or iterable of (train, test), default=None
        Folds, as in ``GridSearchCV``; None means five-fold. With ``"exact"`` the
        squared and absolute errors (``scoring="neg_mean_squared_error"``) of
        ``LeaveOneOut()`` take one pass over the pairs of rows.
    scoring : str or callable, default=None
        A scorer; None means the coefficient of determination R2.
    refit : bool, default=True
        Whether to fit the best candidate on all rows. Without it there is neither
        ``predict`` nor ``best_estimator_``.
    tol : float, default=0.0
        Tolerance of ``"exact"``, as in :class:`NadarayaWatsonClassifier`. All sigmas
        share the clusters of rows.
    bound : {"estimated", "certified"}, default="estimated"
        What ``tol`` promises, as in :class:`NadarayaWatsonClassifier`.
    n_jobs : int, default=None
        Number of threads, each of which scores a fold; None means one, -1 all
        processors.
    random_state : int, RandomState instance or None, default=None
        Seed of a sampler whose own ``random_state`` is None, the same for all
        candidates.

    Attributes
    ----------
    cv_results_ : dict of ndarray
        ``params``, ``param_n_components``, ``param_sigma``, ``split{k}_test_score``,
        ``mean_test_score``, ``std_test_score`` and ``rank_test_score``, with one value
        per candidate in the order of ``ParameterGrid``, as in ``GridSearchCV``; without
        ``param_n_components`` for ``"exact"``.
    best_index_ : int
        Index of the best candidate, the first among equals.
    best_params_ : dict
        Its ``n_components`` and ``sigma``.
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
    >>> search = NadarayaWatsonRegressorCV("exact", sigmas=[0.5, 2, 8])
    >>> search.fit(x, np.sin(x[:, 0])).best_params_
    {'sigma': 8}
    """

    best_estimator_: NadarayaWatsonRegressor

    def _make_model(self, sampler, **options):
        return NadarayaWatsonRegressor(sampler, **options)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: several outputs."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = True
        return tags


@validate_params(
    {
        "X": ["array-like", "sparse matrix"],
        "y": ["array-like"],
        "loss": [StrOptions({"log_loss", "squared_error"})],
        "sample_weight": ["array-like", None],
    },
    prefer_skip_nested_validation=True,
)
def learn_sigma(
    X: TableLike,
    y: ArrayLike,
    *,
    loss: Literal["log_loss", "squared_error"] = "log_loss",
    sample_weight: ArrayLike | None = None,
) -> np.ndarray:
    r"""Return one multiplier per column, with the least leave-one-out error.

    Columns that say much about y get a large number, irrelevant ones a small number.
    The result is the ``sigma`` of an estimator or a sampler, for the columns as they
    are. ``NadarayaWatsonClassifier("exact", sigma="learned")`` does the same
    internally, and so does ``"prototypes"``, with a common factor of its own.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows; the columns need not be scaled. Up to 1200 rows are used, as a dense copy.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Labels, or numbers for ``loss="squared_error"``.
    loss : {"log_loss", "squared_error"}, default="log_loss"
        Log loss of class probabilities, or squared error of numbers, where outputs are
        divided by their standard deviations.
    sample_weight : array-like of shape (n_samples,), default=None
        Non-negative weights.

    Returns
    -------
    sigma : ndarray of shape (n_features,)
        Positive. It is the same in every call: the rows are sampled with a fixed seed.

    Raises
    ------
    ValueError
        If X, y or a weight is out of range, or if y holds numbers with ``"log_loss"``.

    See Also
    --------
    NadarayaWatsonClassifier : Takes ``sigma="learned"``.

    Notes
    -----
    With :math:`D_{ij} = \sum_l s_l^2 (x_{il} - x_{jl})^2`, sample weights :math:`v_j`
    and :math:`P_{ij} \propto v_j e^{-D_{ij} / 2}` over the other rows j, those equal to
    row i left out, the losses over the sum of the weights are

    .. math:: -\sum_i v_i \log \sum_{j : y_j = y_i} P_{ij}, \qquad
              \sum_i v_i \Big|\sum_j P_{ij} y_j - y_i\Big|^2 ,

    minimised by 40 steps of L-BFGS over :math:`\log s_l`, from the best common s on
    standardised columns; the gradient has a closed form. With labels this is
    neighbourhood components analysis [1]_ with a diagonal matrix. Then one factor for
    all columns is chosen as with ``sigma="auto"``, on up to 10,000 rows. The kernel is
    Gaussian. It takes about two seconds on one processor.

    References
    ----------
    .. [1] J. Goldberger, S. Roweis, G. Hinton, R. Salakhutdinov, "Neighbourhood
       Components Analysis", NeurIPS 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import NadarayaWatsonClassifier, learn_sigma
    >>> X = np.random.default_rng(0).normal(size=(600, 6))
    >>> y = X[:, 0] * X[:, 1] > 0  # the other four columns are noise
    >>> sigma = learn_sigma(X[:400], y[:400])
    >>> bool(sigma[:2].min() > 4 * sigma[2:].max())
    True
    >>> for value in ("auto", sigma):
    ...     model = NadarayaWatsonClassifier("exact", sigma=value)
    ...     print(f"{model.fit(X[:400], y[:400]).score(X[400:], y[400:]):.2f}")
    0.81
    0.95
    """
    if loss == "log_loss":
        model = NadarayaWatsonClassifier("exact", sigma="learned")
    else:
        model = NadarayaWatsonRegressor("exact", sigma="learned")
    return np.asarray(model.fit(X, y, sample_weight).sigma_)
