"""Nadaraya-Watson classification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin

from .._compat import StrOptions
from ..arrays.namespaces import (
    asarray_like,
    joined,
    namespace_of,
    taken,
    to_host,
    to_namespace_of,
)
from ..arrays.validation import to_fit_namespace
from ..life_cycle.supervised import LabelsMixin, LogProbabilitiesMixin
from ..rows import Sigma, TableLike
from ..samplers._kernel_parameter import KernelLike
from ..sums.feature_sums import trust
from ._base import BaseNadarayaWatson
from ._class_probabilities import Smoothing, class_shares, normalised, probabilities
from ._fitted_averages import RowAverages
from ._target_columns import OneHot

if TYPE_CHECKING:
    from ..metric import LearnedMetric


class NadarayaWatsonClassifier(
    LabelsMixin, LogProbabilitiesMixin, ClassifierMixin, BaseNadarayaWatson
):
    r"""Nadaraya-Watson classification: class frequencies weighted by a kernel.

    The frequency of a class is the fraction of the total kernel weight that its
    training rows account for; the rows closest to the query have the largest weights.
    This is a smooth version of nearest-neighbour classification. If the model keeps the
    training rows, the frequencies are calibrated by leave-one-out predictions, so no
    probability is 0 or 1.

    Parameters
    ----------
    kernel : str, kernel, callable or transformer, default="gaussian"
        Kernel that determines the weights of the training rows.

        - ``"gaussian"``, ``"laplacian"``, ``"matern"``, or a kernel object with its own
          parameters, such as ``Matern(nu=2.5)`` from :mod:`sklearn_crt.kernels`: the
          exact kernel between the row to be predicted and all training rows.
        - A callable: it takes two arrays of shapes (n, d) and (m, d), whose rows are
          already multiplied by ``sigma``, and returns a non-negative matrix of shape
          (n, m). The kernels of :mod:`sklearn.gaussian_process.kernels` are of this
          kind.
        - :class:`Prototypes`: the exact kernel between the row to be predicted and a
          small number of weighted points, which replace the training rows.
        - A sampler, such as :class:`OPRFSampler`, or any other transformer: the inner
          products of its features replace the kernel, so only sums over the training
          rows are needed. The transformer is cloned and fitted, unless it is wrapped in
          a ``FrozenEstimator``.
        - ``"linear"``: the inner product of the rows, which must already be features,
          as in the last step of a pipeline.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale by which the rows are multiplied: a number, or one number
        per column; a larger ``sigma`` yields a narrower kernel, and ``length_scale = 1
        / sigma``. ``"scale"`` corresponds to scikit-learn's ``gamma="scale"`` with
        ``gamma = sigma**2 / 2``, and ``"median"`` is the inverse of the median distance
        between rows. ``"auto"`` selects the multiple of ``"scale"`` with the lowest
        leave-one-out error of the predictions (see Notes). If the kernel is a sampler,
        these predictions are made with its features, and ``"auto"`` keeps a ``sigma``
        that was set on the sampler. If the kernel is ``"linear"`` or a transformer of
        another package, ``sigma`` must be ``"auto"`` and has no effect.
    class_weight : dict or "balanced", default=None
        Dictionary that maps each label to the factor by which the weights of its rows
        are multiplied; classes that are not listed have weight 1. ``"balanced"`` gives
        all classes the same total weight; it is supported only by ``fit``.
    calibrate : bool, default=True
        Whether probabilities are calibrated (see Notes). If False, they are the shares
        of the classes in the kernel sums, :math:`p_c(x)`, as in the sources. With
        features that can be negative, these shares can be outside of [0, 1].
    metric : LearnedMetric or None, default=None
        A :class:`~sklearn_crt.LearnedMetric` that defines distances between rows. It is
        learned from the training rows and also scales the columns. The metric is
        learned again without each of five folds of the rows, or ten folds if there are
        fewer than 200 rows. Intervals, class probabilities, and a factor that shrinks
        predicted numbers towards the mean target are based on predictions for the rows
        of these folds. Rows cannot be added to a model with a metric.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    class_count_ : ndarray of shape (n_classes,)
        Total weight of the training rows of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in the total weight of the training rows. It replaces the
        class frequencies for rows whose kernel weights are all zero.
    kernel_ : kernel, Prototypes, transformer or "linear"
        The kernel that is used: a kernel object, ``Prototypes`` with the attribute
        ``prototypes_``, or the fitted transformer.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale that is used. It is not defined if ``kernel`` is
        ``"linear"`` or a transformer without ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    NadarayaWatsonRegressor : The same weighted averages for numerical targets.
    Prototypes : A small number of weighted points instead of the training rows.
    sklearn_crt.kernels : Kernels with parameters of their own.
    OPRFSampler : Sampler of positive features with one fitted parameter.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` with sample weights :math:`w_j`, the
    prediction for a row x is [1]_ [2]_

    .. math:: p_c(x) = \frac{\sum_j w_j K(x, x_j) [y_j = c]}
                            {\sum_j w_j K(x, x_j)} .

    With an exact kernel, ``predict_proba`` combines additive smoothing, which keeps
    frequencies that are based on few rows away from 0 and 1, with temperature scaling
    [4]_. Let n be the effective number of training rows on which the frequencies of the
    K classes are based (:meth:`effective_sample_size`, after dividing the sample
    weights by a typical one, :math:`\sum_j w_j^2 / \sum_j w_j`). The probabilities are

    .. math:: P(c \mid x) \propto
       \left(\frac{n\, p_c(x) + a / K}{n + a}\right)^t .

    A frequency with :math:`n\,p_c(x)<10^{-5}a/K` counts as zero. The values of a,
    between 0.05 and 10, and t, between 0.6 and 4, minimise the leave-one-out log loss
    on up to 1000 training rows, to which two rows with random labels are added, plus c
    times the divergence of the mean probabilities from the class shares, where c is the
    number of these rows divided by 70, but at most 10. The random labels keep
    probabilities away from 0 even if hardly any training row is misclassified, and the
    divergence makes the expected number of rows of rare classes right. Both values are
    chosen when ``predict_proba`` is called for the first time. Neither a nor t changes
    the order of the classes, so ``predict`` does not need them. With
    :class:`Prototypes`, both a and t are 1, because no training row can be left out.

    With features instead of an exact kernel, the frequencies are calibrated if
    ``sigma`` is selected: the probabilities are proportional to :math:`s_c e^{b_c}
    (p_c(x) / s_c)^a` with the class shares :math:`s_c`. The slope a, which is positive,
    and the biases b minimise the log loss of the leave-one-out frequencies with which
    ``sigma`` is selected, plus the penalty :math:`(4 \log(1 + a^2) + |b|^2 / 200) / n`
    for n rows. If ``sigma`` is a number, the frequencies are not calibrated.

    If the kernel is approximated by D features, :math:`K(x, y) \approx f(x) \cdot
    g(y)`, the sums over j reduce to one vector per class. Fitting n rows then costs
    O(n D), and the model stores D numbers per class ([3]_, section 5.2). Positive
    features are accumulated as logarithms: the largest exponent of each feature is
    factored out and cancels in the ratio, so the sums neither overflow nor underflow.

    With features that can be negative, such as random Fourier features, the kernel sum
    of a class, which is called its score, can have either sign. ``predict`` returns the
    class with the largest score, as in [3]_; in ``predict_proba`` negative scores are
    replaced by 0. The prediction for a row is *unreliable* if the sum S of the scores
    is less than twice its standard error s. To estimate s, the m random frequencies of
    the features are divided into G = 16 groups. If group g has :math:`n_g` frequencies
    and contributes :math:`S_g` to the sum,

    .. math:: s^2 = \frac{G}{G-1} \sum_g \left(S_g - \frac{n_g}{m} S\right)^2

    For third-party transformers, :math:`s = D^{-1/2} \sum_m |F_m Z_m|` with the
    features F of the row and their sums Z over the training rows. Unreliable
    probabilities are averaged with ``class_prior_``, whose weight is :math:`1 -
    (\max(S, 0) / 2s)^2`, or less if this is necessary for the class with the largest
    score to remain the most probable one. If no class has a positive score, all methods
    use ``class_prior_``. A single warning reports the number of unreliable predictions.
    With positive features or an exact kernel, a prediction is unreliable only if all
    kernel weights of the row vanish.

    ``sigma="auto"`` minimises the leave-one-out error. With an exact kernel, this is
    the error rate plus half of the log loss, where a = 0.3, t = 1 and n is Kish's
    effective number of rows [5]_. Multiples of ``"scale"`` from 1/2 to 32 are compared
    on up to 1000 training rows, first in octaves (factors of two), then in quarters of
    an octave around the best one. With a sampler, multiples from 1/4 to 16 are compared
    on up to 2000 rows, in octaves and then in half octaves; each row is predicted from
    the sums of features after subtracting its own contribution, and the log loss is
    that of the calibrated probabilities. In both cases, a row is left out with its
    whole weight, and rows that are equal to it are not.

    References
    ----------
    .. [1] E. A. Nadaraya, "On Estimating Regression", Theory of Probability & Its
       Applications 9 (1964), :doi:`10.1137/1109020`.
    .. [2] Geoffrey S. Watson, "Smooth Regression Analysis", Sankhya A 26 (1964).
    .. [3] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.
    .. [4] C. Guo, G. Pleiss, Y. Sun, K. Weinberger, "On Calibration of Modern Neural
       Networks", ICML 2017, :arxiv:`1706.04599`.
    .. [5] Leslie Kish, "Survey Sampling", Wiley 1965.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NadarayaWatsonClassifier().fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.96

    With the random features of a sampler, the size of the model and the time per
    prediction do not depend on the number of training rows:

    >>> sampler = OPRFSampler(sigma=0.5, n_components=500, random_state=0)
    >>> model = NadarayaWatsonClassifier(sampler).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.95
    """

    _parameter_constraints: dict = {
        **BaseNadarayaWatson._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "calibrate": ["boolean"],
    }

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        sigma: Sigma = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        calibrate: bool = True,
        metric: LearnedMetric | None = None,
    ):
        self.kernel = kernel
        self.sigma = sigma
        self.class_weight = class_weight
        self.calibrate = calibrate
        self.metric = metric

    def _encoder(self):
        return OneHot(self.classes_.size)

    @property
    def class_count_(self) -> np.ndarray:
        """Sum of the sample weights of each class."""
        return to_fit_namespace(self, self._value.seen.sums)

    @property
    def class_prior_(self) -> np.ndarray:
        """Proportion of each class, weighted by the sample weights."""
        return to_fit_namespace(self, self._value.seen.shares)

    def _decode(self, value, rows, function, instead, **options):
        """Apply a function to the class scores of all rows, block by block.

        It is called as ``function(scores, prior, weight, totals)``, where ``weight`` is
        the weight of the scores in an average with the class prior, and None stands for
        1. The function ``class_shares`` is applied to all scores, without an average.
        ``options`` are those of ``KernelRows.sums``.
        """
        blocks, n_unreliable = [], 0
        sums = self._kernel_sums(value.solution, rows, **options)
        for _, (scores, _, error, totals) in sums:
            xp = namespace_of(scores)
            prior = asarray_like(value.seen.shares, scores)
            if function is class_shares:
                found, known = class_shares(scores, prior)
                blocks.append(found)
                n_unreliable += int(xp.count_nonzero(~known))
                continue
            empty = ~xp.any(scores > 0, axis=1)
            weight, unreliable = None, empty
            if error is not None:
                weight = trust(xp.sum(scores, axis=1), error)[:, None]
                unreliable = empty | (weight[:, 0] < 1)
            scores = xp.where(empty[:, None], prior, scores)
            blocks.append(function(scores, prior, weight, totals))
            n_unreliable += int(xp.count_nonzero(unreliable))
        if n_unreliable:
            self._warn_unreliable(n_unreliable, instead)
        return joined(blocks)

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the label with the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels. A row without a positive score is assigned to the most
            frequent class.
        """
        model, rows = self._query(X, "predict")
        found = model._recalibrated(rows)
        if found is not None:
            return to_namespace_of(model.classes_[found.argmax(axis=1)], X)
        instead = (
            "the class with the largest score is predicted, or the most frequent class "
            "if no score is positive"
        )
        codes = model._decode(
            model._value,
            rows,
            lambda scores, *_: namespace_of(scores).argmax(scores, axis=1),
            instead,
        )
        # labels that are strings stay NumPy arrays
        classes = to_namespace_of(model.classes_, codes)
        return to_namespace_of(taken(classes, codes), X)

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Predict the class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Probabilities of the classes, in the order of ``classes_``. They sum to one
            in each row. With an exact kernel or ``Prototypes``, none of them is 0 or 1.
            For rows where the error of random features is too large, ``class_prior_``
            partly or entirely replaces the probabilities (see the Notes of the class).
        """
        model, rows = self._query(X, "predict_proba")
        found = model._recalibrated(rows)
        if found is None:
            instead = (
                "for them, the class prior partly or entirely replaces the prediction"
            )
            found = model._probabilities(model._value, rows, probabilities, instead)
        return self._cast(found, X)

    def _recalibrated(self, rows):
        """Return probabilities as a NumPy array, or None if they are not recalibrated.

        The recalibration is based on predictions out of fold or of left-out rows.
        """
        value = self._value
        if not self.calibrate:
            return None
        recalibration = self._result_of_folds(value)
        recalibration = recalibration or getattr(value.solution, "calibration", None)
        if recalibration is None:
            return None
        found, _ = self._out_of_fold_predictions(value, rows)
        return recalibration(found)

    def _out_of_fold_predictions(self, value, rows):
        instead = "for them, the class prior partly or entirely replaces the prediction"
        found = self._smoothed_probabilities(value, rows, probabilities, instead)
        return to_host(found).astype(np.float64), None

    def _probabilities(self, value, rows, function, instead):
        """Return probabilities; if not calibrated, the class shares of kernel sums."""
        if self.calibrate:
            return self._smoothed_probabilities(value, rows, function, instead)
        instead = "the class prior is predicted for them"
        return self._decode(value, rows, class_shares, instead)

    def _smoothed_probabilities(self, value, rows, function, instead):
        """Return smoothed probabilities or, for features, results of ``function``."""
        if not isinstance(value, RowAverages):
            return self._decode(
                value, rows, lambda *scores: function(*scores[:3]), instead
            )
        smoothing = Smoothing.of(value)

        def smoothed(scores, prior, weight, totals):
            shares = probabilities(scores, prior, weight)
            return smoothing.probabilities(shares, totals.sizes)

        return self._decode(value, rows, smoothed, instead, measured=True)

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return normalised class scores; the predicted class has the largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            The class probabilities or, with features, the kernel sums of the classes
            divided by the total of the positive kernel sums. Unlike probabilities,
            these scores can be negative. With two classes there is one number per row,
            as usual in scikit-learn: the score of the second class minus that of the
            first.
        """
        model, rows = self._query(X, "decision_function")
        instead = "the class prior partly or entirely replaces their scores"
        scores = model._recalibrated(rows)
        if scores is None:
            scores = model._probabilities(model._value, rows, normalised, instead)
        if model.classes_.size == 2:
            scores = scores[:, 1] - scores[:, 0]
        return self._cast(scores, X)
