"""Ridge classification on random features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from .._compat import RandomState, StrOptions
from ..life_cycle.supervised import LabelsMixin, ProbabilitiesMixin
from ..rows import Sigma
from ..samplers._kernel_parameter import KernelLike
from ._base import BaseRandomFeatureRidge
from ._feature_moments import apply_to_features

if TYPE_CHECKING:
    from ..metric import LearnedMetric


class RandomFeatureRidgeClassifier(
    ProbabilitiesMixin, LabelsMixin, ClassifierMixin, BaseRandomFeatureRidge
):
    r"""Ridge classification on random features, with calibrated probabilities.

    This is a fast approximation of kernel ridge classification for large data sets.
    Indicators of the classes are regressed on the features, and a logistic regression
    of the labels on leave-one-out predictions turns the predicted indicators into class
    probabilities. The penalty and the inverse length scale ``sigma`` of the kernel are
    also selected by means of leave-one-out errors, which are computed without
    refitting.

    As with :class:`RandomFeatureRidge`, one pass over the rows suffices, rows can be
    passed in batches, and no training rows are needed after ``freeze``.

    Parameters
    ----------
    kernel : str, kernel, callable or transformer, default="gaussian"
        Kernel or transformer that determines the features.

        - ``"gaussian"``, ``"laplacian"``, ``"matern"``, or a kernel object with its own
          parameters, such as ``Matern(nu=2.5)`` from :mod:`sklearn_crt.kernels`: random
          Fourier features of this kernel, from :class:`TrigRBFSampler`,
          :class:`~sklearn_crt.LaplacianSampler`,
          :class:`~sklearn_crt.MaternSampler` or
          :class:`~sklearn_crt.ExponentialPowerSampler`.
        - A callable: it takes two arrays of shapes (n, d) and (m, d), and returns the
          kernel matrix of shape (n, m). The kernels of
          :mod:`sklearn.gaussian_process.kernels` are of this kind. The features are
          those of :class:`~sklearn.kernel_approximation.Nystroem`.
        - A sampler, or any other transformer. It is cloned and fitted, unless it is
          wrapped in a ``FrozenEstimator``, which is used as it is. With
          :class:`CentersRBFSampler`, the penalised quantity is the squared norm of the
          function in the space of the kernel, as in kernel ridge regression. With
          :class:`AnovaSampler`, X is a raw table: a data frame or an array with
          numbers, categories and missing values.
        - ``"linear"``: the columns of X are already features, as at the end of a
          pipeline.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale by which the rows are multiplied: a number, or one number
        per column; a larger ``sigma`` yields a narrower kernel, and ``length_scale = 1
        / sigma``. ``"scale"`` corresponds to scikit-learn's ``gamma="scale"`` with
        ``gamma = sigma**2 / 2``, and ``"median"`` is the inverse of the median distance
        between rows. ``"auto"`` selects the multiple of ``"scale"`` with the lowest
        leave-one-out error or, for classifiers, log loss among 1/4, 1/2, 1 and 2, and
        also 4 and 8 if X has one or two columns; it keeps a ``sigma`` that was set on a
        sampler. If the kernel is a name or a kernel object, ``"auto"`` may also select
        one number per column (see the Notes of :class:`RandomFeatureRidge`). If the
        kernel is ``"linear"``, a callable, a ``FrozenEstimator`` or a transformer of
        another package, ``sigma`` must be ``"auto"`` and has no effect.
    n_components : int or "auto", default="auto"
        Number of features. With ``"auto"``, it is the number of rows, but at least 1024
        and at most 2048. If there are more than 16,384 rows, it is 1024, because the
        time to fit the model grows with the square of the number of features. With
        ``sigma="auto"`` and more than 512 rows, it is 256 if the log loss on the
        rows from which ``sigma`` is selected falls by less than 0.5 % from 128 to 256
        features (with more than 16,384 rows, by less than 0.5 % times 8192 divided by
        the number of rows). For a callable, ``"auto"`` is the number of rows of the
        first batch, but at most 1024.
        If the kernel is a sampler, ``"auto"`` keeps the ``n_components`` of the
        sampler. If it is ``"linear"``, a ``FrozenEstimator`` or a transformer of
        another package, ``n_components`` must be ``"auto"`` and has no effect.
    alpha : float, array-like or "auto", default="auto"
        Ridge penalty, or a list of penalties from which one is selected by
        leave-one-out errors: the one with the lowest error or, for classifiers, as
        described in the Notes. ``"auto"`` tries 30 penalties, from 1e-7 times the mean
        squared norm of the centred features to ten times the largest eigenvalue of
        their Gram matrix. For float32 rows the smallest penalty is at least 5e-7 times
        that eigenvalue. Penalties that are too small for the variance of the targets or
        indicators are excluded (see Notes).
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalised.
    class_weight : dict or "balanced", default=None
        Dictionary that maps each label to the factor by which the weights of its rows
        are multiplied; classes that are not listed have weight 1. Unlike
        ``sample_weight``, class weights are not interpreted as numbers of rows.
        ``"balanced"`` gives all classes the same total weight, and is not supported by
        ``partial_fit``. With class weights, probabilities refer to a population in
        which the classes have the weighted proportions.
    calibrate : bool, default=True
        Whether probabilities are calibrated (see Notes). If False, they are the
        predicted indicators, limited to the range from 0 to 1 and divided by their sum,
        so that they can be 0 and 1. If all of them are 0, they are replaced by the
        class frequencies.
    metric : LearnedMetric or None, default=None
        A :class:`~sklearn_crt.LearnedMetric` that defines distances between rows. It is
        learned from the training rows and also scales the columns. The metric is
        learned again without each of five folds of the rows, or ten folds if there are
        fewer than 200 rows. Intervals, class probabilities, and a factor that shrinks
        predicted numbers towards the mean target are based on predictions for the rows
        of these folds. Rows cannot be added to a model with a metric.
    random_state : int, RandomState instance or None, default=None
        Seed for the random features. A seed that was set on a sampler is kept. Pass an
        int for reproducible results.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    alpha_ : float
        The selected penalty, which all classes share (see Notes).
    coef_ : ndarray of shape (1, n_components) or (n_classes, n_components)
        Coefficients of the features.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Predicted indicators for a row whose features are all zero.
    loo_errors_ : ndarray of shape (n_sigmas, n_alphas)
        Leave-one-out errors: mean squared errors of the predicted indicators, summed
        over the indicators, with the weights of the regression (see Notes). An error is
        infinite if it cannot be computed, or if a penalty of ``alpha="auto"`` is too
        small for the variance of the indicators. With ``sigma="auto"`` and 1024 or more
        features, values of ``sigma`` that are much worse than the best one are
        discarded early; their errors are those of models with 128, 256 or 512 features.
    kernel_ : sampler, transformer or "linear"
        The fitted transformer that computes the features; its ``repr`` shows ``sigma``.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale that is used. It is not defined if ``kernel_`` has no
        ``sigma_``.
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
    indicators, 1 or -1. The coefficients, the leave-one-out predictions and the lower
    limit on the penalties of ``alpha="auto"`` are computed as in
    :class:`RandomFeatureRidge`. They equal those of
    :class:`~sklearn.linear_model.RidgeClassifier` for two classes, and are half as
    large for more classes.

    For two classes, a second regression gives both classes the same total weight, and
    is used if it lowers the log loss, as it often does if one class is rare. The
    coefficients are then those of ``RidgeClassifier(class_weight="balanced")``, but the
    probabilities still refer to the original weights. To this end, the Gram matrix of
    each class is accumulated separately.

    Let the vector p contain the predicted indicators of a row, and the vector
    :math:`\pi` the class frequencies. The class probabilities are

    .. math:: (1 - \varepsilon) \operatorname{softmax}\left(
       (a I + M)' (p - \pi) + b + \log \pi \right) + \varepsilon \pi, \qquad
       \varepsilon = \frac{1}{n + 1}.

    The slope :math:`a \ge 0`, the biases b and the matrix M (for three or more classes)
    minimise the log loss of the labels for leave-one-out predictions p of up to 4096
    rows, plus small quadratic penalties. For two classes this is the calibration of
    Platt [1]_; for more classes it is multinomial logistic regression, with the
    one-parameter scaling of [2]_ (:math:`M = 0`) as the limit of a large penalty. The
    term with :math:`\varepsilon` corresponds to one additional row whose label is
    unknown, and prevents probabilities of 0 and 1.

    With fewer than 200 rows, the selected parameters depend noticeably on each row, so
    that leave-one-out predictions are too optimistic. The whole fit is then repeated
    without each of ten folds, when probabilities are first needed, and the
    probabilities P become proportional to :math:`\pi_c e^{b_c} (P_c / \pi_c)^a`. The
    slope a, which is positive, and the biases b minimise the log loss of the
    predictions for the folds, plus the penalty :math:`(4 \log(1 + a^2) + |b|^2 / 200) /
    n`, which keeps the probabilities close to the class frequencies if little can be
    learned from the rows.

    The penalty and ``sigma`` are those with the lowest log loss of these probabilities,
    computed with :math:`M = 0`, among all penalties whose leave-one-out error is at
    most 10 % above the lowest error for the same ``sigma``. With ``alpha="auto"``, log
    losses are compared after adding :math:`0.75\sqrt{2t} / n`, with the degrees of
    freedom t, which corresponds to the factor for the errors of
    :class:`RandomFeatureRidge`, unless a class is missing from the rows whose log loss
    is computed: these are at most 4096 rows, or fewer if there are many classes, so
    that the number of rows times the number of classes is about 65,536.

    If each class has at least five rows per column, there are two candidates with one
    ``sigma`` per column: :math:`\sigma_{1/2}` and :math:`\sigma_1`, which the Notes of
    :class:`RandomFeatureRidge` define. They are learned from the same number of rows of
    each class, or from all rows of a class that has fewer rows.

    References
    ----------
    .. [1] J. Platt, "Probabilistic Outputs for Support Vector Machines and Comparisons
       to Regularized Likelihood Methods", Advances in Large Margin Classifiers, MIT
       Press 1999.
    .. [2] C. Guo, G. Pleiss, Y. Sun, K. Q. Weinberger, "On Calibration of Modern Neural
       Networks", ICML 2017, :arxiv:`1706.04599`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn_crt import RandomFeatureRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = RandomFeatureRidgeClassifier(random_state=0).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.94
    True
    >>> model.predict_proba(X[1000:]).shape
    (797, 10)
    """

    _parameter_constraints: dict = {
        **BaseRandomFeatureRidge._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "calibrate": ["boolean"],
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
        calibrate: bool = True,
        metric: LearnedMetric | None = None,
        random_state: RandomState = None,
    ):
        super().__init__(
            kernel,
            sigma=sigma,
            n_components=n_components,
            alpha=alpha,
            fit_intercept=fit_intercept,
            metric=metric,
            random_state=random_state,
        )
        self.class_weight = class_weight
        self.calibrate = calibrate

    @property
    def _n_classes(self):
        return self.classes_.size

    @property
    def _recalibrates_few(self) -> bool:  # type: ignore[override]
        return self._value.settings.calibrates

    def _squeezed(self, values):
        return values

    def _expected(self, value, rows):
        """Return the predicted indicators of the classes, (n, k)."""
        solution = value.solution

        def indicators(Z, _):
            return (solution.predict(Z),)

        return apply_to_features(solution.sampler, rows, indicators)[0]

    def _probabilities(self, rows):
        value = self._value
        found, _ = self._out_of_fold_predictions(value, rows)
        if not value.settings.calibrates:
            return found
        recalibration = self._result_of_folds(value)
        return found if recalibration is None else recalibration(found)

    def _out_of_fold_predictions(self, value, rows):
        solution = value.solution

        def probabilities(Z, _):
            return (solution.calibration.probabilities(solution.predict(Z)),)

        return apply_to_features(solution.sampler, rows, probabilities)[0], None
