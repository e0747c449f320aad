"""Ridge classification on random features."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from .._array import to_namespace_of
from .._compat import RandomState, StrOptions
from .._kernel_parameter import KernelLike
from .._supervised import LabelsMixin
from ..rows import Sigma, TableLike
from ._base import BaseRandomFeatureRidge


class RandomFeatureRidgeClassifier(
    LabelsMixin, ClassifierMixin, BaseRandomFeatureRidge
):
    r"""Ridge classification on random features that selects its penalty and ``sigma``.

    A fast approximation of a kernel ridge classifier for many rows: indicators of the
    classes are regressed on the features. As with :class:`RandomFeatureRidge`, one pass
    over the rows suffices, rows can be passed in batches, and a model needs no training
    row after ``freeze``.

    Parameters
    ----------
    kernel : str, kernel, callable or transformer, default="gaussian"
        What computes the features.

        - ``"gaussian"``, ``"laplacian"``, ``"matern"``, or a kernel value with its own
          parameters, such as ``Matern(nu=2.5)`` from :mod:`sklearn_crt.kernels`: random
          Fourier features of this kernel, from :class:`TrigRBFSampler`,
          :class:`LaplacianSampler`, :class:`MaternSampler` or
          :class:`ExponentialPowerSampler`.
        - A callable: it takes two arrays of shapes (n, d) and (m, d), and returns the
          kernel matrix of shape (n, m). The kernels of
          :mod:`sklearn.gaussian_process.kernels` are of this kind. The features are
          those of :class:`~sklearn.kernel_approximation.Nystroem`.
        - A sampler, or any other transformer. It is cloned and fitted, unless it is
          wrapped in a ``FrozenEstimator``, which is used as it is. With
          :class:`CentersRBFSampler` the penalty is that of kernel ridge regression at
          its centres.
        - ``"linear"``: the columns of X are features already, for the last step of a
          pipeline.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale by which the rows are multiplied: a number, or one number
        per column; a larger ``sigma`` is a narrower kernel, and ``length_scale = 1 /
        sigma``. ``"scale"`` equals scikit-learn's ``gamma="scale"`` with ``gamma =
        sigma**2 / 2``, and ``"median"`` is one over the median distance of the rows.
        ``"auto"`` compares a quarter, a half, one and two times ``"scale"``, and also
        four and eight times ``"scale"`` if X has one or two columns, and selects the
        one with the lowest generalised cross-validation score; it keeps a ``sigma``
        that was set on a sampler. If the kernel is ``"linear"``, a callable, a
        ``FrozenEstimator`` or a transformer of another package, ``sigma`` must be
        ``"auto"`` and has no effect.
    n_components : int or "auto", default="auto"
        Number of features. ``"auto"`` is the number of rows, but at least 512 and at
        most 1024. For a callable it is at most the number of rows of the first batch.
        If the kernel is a sampler, ``"auto"`` keeps the ``n_components`` of the
        sampler. If it is ``"linear"``, a ``FrozenEstimator`` or a transformer of
        another package, ``n_components`` must be ``"auto"`` and has no effect.
    alpha : float, array-like or "auto", default="auto"
        Ridge penalty, or the penalties to choose from. ``"auto"`` tries 30 penalties,
        from 1e-7 times the mean squared norm of the centred features (for float32 rows
        at least 5e-7 times the largest eigenvalue of their Gram matrix) to ten times
        that eigenvalue.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict or "balanced", default=None
        Weights of the classes, by label, by which the weights of their rows are
        multiplied; classes that are not listed have weight 1. Unlike ``sample_weight``,
        they do not change the number of rows that the scores assume. ``"balanced"``
        gives all classes the same total weight; only ``fit`` supports it.
    random_state : int, RandomState instance or None, default=None
        Seed of the random features. A seed that was set on a sampler is kept. Pass an
        integer for results that can be repeated.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    kernel_ : sampler, transformer or "linear"
        The fitted transformer that computes the features, whose representation shows
        the selected ``sigma``.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale in use. It does not exist if ``kernel_`` has no
        ``sigma_``.
    alpha_ : float
        The penalty with the lowest score, which all classes share.
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Scores for a row whose features are all zero.
    gcv_scores_ : ndarray of shape (n_sigmas, n_alphas)
        Generalised cross-validation scores, summed over the targets (see Notes);
        infinite if the degrees of freedom of the fit exceed half the number of rows.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    RandomFeatureRidge : The corresponding regressor, with the formulas.
    NadarayaWatsonClassifier : Class probabilities as kernel-weighted frequencies.

    Notes
    -----
    The targets are the indicators of the classes: 1 for the class of a row and 0 for
    the other classes. For two classes the only target is the difference of the two
    indicators, 1 or -1. The predicted class is the one with the largest score, as for
    :class:`~sklearn.linear_model.RidgeClassifier`, whose decision values for more than
    two classes are twice these scores minus 1. The generalised cross-validation scores
    are those of :class:`RandomFeatureRidge` with :math:`\gamma = 1`, summed over the
    targets; only penalties for which the degrees of freedom :math:`t` are at most half
    the number of rows are considered. Least squares does not estimate probabilities: if
    you need ``predict_proba``, wrap the classifier in
    :class:`~sklearn.calibration.CalibratedClassifierCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_crt import RandomFeatureRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomFeatureRidgeClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _parameter_constraints: dict = {
        **BaseRandomFeatureRidge._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        sigma: Sigma = "auto",
        n_components: int | Literal["auto"] = "auto",
        alpha: float | ArrayLike | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        random_state: RandomState = None,
    ):
        super().__init__(
            kernel,
            sigma=sigma,
            n_components=n_components,
            alpha=alpha,
            fit_intercept=fit_intercept,
            random_state=random_state,
        )
        self.class_weight = class_weight

    @property
    def _n_classes(self):
        return self.classes_.size

    def _squeezed(self, values):
        return values

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the class scores, the largest of which is that of the predicted class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            Predictions of the indicators of the classes, which are 1 for the class of a
            row and 0 for the others, in the floating type of X. With an intercept they
            sum to one in each row, but single scores can be negative or exceed one.
            With two classes there is one number per row, as usual in scikit-learn: the
            score of the second class minus that of the first.
        """
        scores, dtype = self._scores(X, "decision_function")
        scores = scores[:, 0] if scores.shape[1] == 1 else scores
        return to_namespace_of(scores.astype(dtype, copy=False), X)

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the labels with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.
        """
        scores, _ = self._scores(X, "predict")
        if self.classes_.size > 2:
            codes = np.argmax(scores, axis=1)
        else:
            codes = (scores[:, 0] > 0) & (self.classes_.size > 1)
        return to_namespace_of(self.classes_[codes.astype(np.intp)], X)

    def _scores(self, X, method):
        def predictions(solution, Z):
            return (solution.predict(Z),)

        (scores,), dtype = self._predictions(X, method, predictions)
        return scores, dtype
