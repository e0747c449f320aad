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
    r"""Ridge regression of class indicators on random features.

    As for :class:`RandomFeatureRidge`, one pass over the rows is enough, these may come
    in batches, and none is kept.

    Parameters
    ----------
    sampler : sampler, transformer or "linear", default=None
        What makes the features: it is cloned and fitted; a ``FrozenEstimator`` around a
        fitted one is used as it is. With ``CentersRBFSampler`` the penalty is that of
        kernel ridge regression at its centres. ``"linear"``: the rows are features
        already. None is ``TrigRBFSampler(random_state=0)`` with one column for each
        row, at least 512 and at most 1024.
    alphas : float, array-like or "auto", default="auto"
        Penalties to choose from. ``"auto"`` are 30 numbers from 1e-7 times the mean
        squared norm of the centred features (for float32 rows at least 5e-7 times the
        largest eigenvalue of their products) to ten times that eigenvalue.
    sigmas : array-like, default=None
        Bandwidths to choose from, numbers, ``"scale"`` and ``"median"``, for samplers
        of this package that estimate a kernel. None is that of the sampler; where this
        is None too, a quarter, a half, one and two times ``"scale"``, and for one or
        two columns four and eight times too.
    fit_intercept : bool, default=True
        Whether there is a constant, which is not penalised.
    class_weight : dict or "balanced", default=None
        Weights of the classes, by label, with which those of their rows are multiplied;
        1 for others. They count no rows, as ``sample_weight`` does. ``"balanced"``, for
        ``fit`` alone, gives all classes the same sum of weights.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    alpha_ : float
        Penalty of least score, one for all classes.
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Scores where all features are zero.
    sigma_ : float or ndarray of shape (n_features,)
        Bandwidth of least score, where the sampler has one.
    gcv_scores_ : ndarray of shape (n_sigmas, n_alphas)
        Generalised cross-validation of the indicators, summed over the classes;
        infinite where effective columns are more than half of the rows.
    sampler_ : sampler, transformer or "linear"
        The fitted sampler, with the best sigma.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

    See Also
    --------
    RandomFeatureRidge : The same for numbers, with the formulas.
    NadarayaWatsonClassifier : Probabilities, as kernel-weighted frequencies.

    Notes
    -----
    Scores are those of :class:`RandomFeatureRidge` with :math:`\gamma = 1`, summed over
    the classes, of penalties with :math:`t` at most half of the rows. The
    targets are 1 for the class of a row and -1 for the others, as in
    :class:`~sklearn.linear_model.RidgeClassifier`, and a row is of the class of largest
    prediction. Least squares know no probabilities: for ``predict_proba`` put the
    estimator into :class:`~sklearn.calibration.CalibratedClassifierCV`.

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
                "class_weight='balanced' needs all rows at once. For batches give a "
                "number for each class: dict(zip(classes, compute_class_weight("
                "'balanced', classes=classes, y=y))), of sklearn.utils.class_weight."
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
        """Return the predicted indicators, 1 for a class and -1 for the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            In the type of X; for two classes one number, positive for the second.
        """
        scores, dtype = self._scores(X, "decision_function")
        scores = scores[:, 0] if scores.shape[1] == 1 else scores
        return to_namespace_of(scores.astype(dtype, copy=False), X)

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the labels of largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels.
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
