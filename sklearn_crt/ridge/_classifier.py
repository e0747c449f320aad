"""Ridge classification on random features."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight

from .._array import to_namespace_of
from .._compat import StrOptions
from .._supervised import LabelsMixin
from ..rows import TableLike
from ._base import BaseRandomFeatureRidge


class RandomFeatureRidgeClassifier(
    LabelsMixin, ClassifierMixin, BaseRandomFeatureRidge
):
    r"""Ridge classification on random features that chooses its penalty and ``sigma``.

    A fast approximation of a kernel ridge classifier for many rows: indicators of the
    classes are regressed on the features. As with :class:`RandomFeatureRidge`, one pass
    over the rows suffices, rows can be passed in batches, and the fitted model stores
    no training row.

    Parameters
    ----------
    sampler : sampler, transformer or "linear", default=None
        The transformer that computes the features. It is cloned and fitted, unless it
        is a ``FrozenEstimator`` around a fitted transformer, which is used as it is.
        With ``CentersRBFSampler`` the penalty is that of kernel ridge regression at its
        centres. ``"linear"`` uses the columns of X as features. None uses
        ``TrigRBFSampler(random_state=0)`` with as many columns as there are rows, but
        at least 512 and at most 1024.
    alphas : float, array-like or "auto", default="auto"
        Ridge penalties to choose from. ``"auto"`` tries 30 penalties, from 1e-7 times
        the mean squared norm of the centred features (for float32 rows at least 5e-7
        times the largest eigenvalue of their Gram matrix) to ten times that eigenvalue.
    sigmas : array-like, default=None
        Inverse length scales to choose from: numbers, ``"scale"`` or ``"median"``. Only
        samplers of this package that estimate a kernel support this. None uses the
        ``sigma`` of the sampler. If the sampler is None too, a quarter, a half, one and
        two times ``"scale"`` are tried, and also four and eight times ``"scale"`` if X
        has one or two columns.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict or "balanced", default=None
        Weights of the classes, by label, by which the weights of their rows are
        multiplied; classes that are not listed have weight 1. Unlike ``sample_weight``,
        they do not change the number of rows that the scores assume. ``"balanced"``
        gives all classes the same total weight; only ``fit`` supports it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    alpha_ : float
        The penalty with the lowest score, which all classes share.
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Decision values for a row whose features are all zero.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale with the lowest score, if the sampler has a ``sigma``.
    gcv_scores_ : ndarray of shape (n_sigmas, n_alphas)
        Generalised cross-validation scores of the indicators, summed over the classes;
        infinite if the effective number of columns exceeds half the number of rows.
    sampler_ : sampler, transformer or "linear"
        The fitted sampler, with the sigma that was chosen.
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
    The targets are 1 for the class of a row and -1 for the other classes, as in
    :class:`~sklearn.linear_model.RidgeClassifier`, and the predicted class is the one
    with the largest decision value. The scores are those of
    :class:`RandomFeatureRidge` with :math:`\gamma = 1`, summed over the classes; only
    penalties for which the effective number of columns :math:`t` is at most half the
    number of rows are considered. Least squares does not estimate probabilities: if you
    need ``predict_proba``, wrap the classifier in
    :class:`~sklearn.calibration.CalibratedClassifierCV`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_crt import RandomFeatureRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomFeatureRidgeClassifier().fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.95
    True
    """

    _parameter_constraints: dict = {
        **BaseRandomFeatureRidge._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        sampler: BaseEstimator | Literal["linear"] | None = None,
        *,
        alphas: float | ArrayLike | Literal["auto"] = "auto",
        sigmas: Iterable[float | str] | None = None,
        fit_intercept: bool = True,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
    ):
        super().__init__(
            sampler, alphas=alphas, sigmas=sigmas, fit_intercept=fit_intercept
        )
        self.class_weight = class_weight

    def _weights_of_classes(self, y, weights, final):
        if self.class_weight is None:
            return None
        if not isinstance(self.class_weight, str):
            options = {"classes": self.classes_, "y": self.classes_[y]}
            return compute_class_weight(self.class_weight, **options)
        if not final:
            raise ValueError(
                "class_weight='balanced' needs all rows at once. With batches, pass a "
                "weight for each class: dict(zip(classes, compute_class_weight("
                "'balanced', classes=classes, y=y))), with compute_class_weight from "
                "sklearn.utils.class_weight."
            )
        sums = np.bincount(y, weights, self.classes_.size)
        known = sums > 0
        return weights.sum() / known.sum() / np.where(known, sums, 1)

    @property
    def _n_classes(self):
        return self.classes_.size

    def _squeezed(self, values):
        return values

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the decision values: predicted indicators, 1 for a class, -1 if not.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            Decision values in the floating type of X. With two classes there is one
            value per row, which is positive for the second class.
        """
        scores, dtype = self._scores(X, "decision_function")
        scores = scores[:, 0] if scores.shape[1] == 1 else scores
        return to_namespace_of(scores.astype(dtype, copy=False), X)

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the labels with the largest decision value.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

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
