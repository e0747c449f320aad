"""Local linear regression and classification: a weighted linear fit per query."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._compat import Interval, StrOptions
from ..arrays.namespaces import constant, joined, namespace_of, to_host
from ..life_cycle.out_of_fold import METRIC_CONSTRAINTS, OutOfFoldErrors
from ..rows import Sigma, TableLike
from ..samplers._kernel_parameter import (
    ROW_KERNEL_CONSTRAINTS,
    SIGMA_CONSTRAINTS,
    RowKernelLike,
    is_auto,
)
from ._base import BaseNadarayaWatson
from ._classifier import NadarayaWatsonClassifier
from ._fitted_averages import RowAverages
from ._local_fits import LocalLinear, Slopes
from ._prototypes import Prototypes
from ._regressor import NadarayaWatsonRegressor

if TYPE_CHECKING:
    from ..metric import LearnedMetric

_ALPHA_CONSTRAINTS = [
    StrOptions({"auto"}),
    Interval(Real, 0, None, closed="both"),
    "array-like",
]

# largest fraction of the total kernel weight that a prediction may ignore to save time
_REMAINDER = 1e-3


class LocalLinearMixin(BaseNadarayaWatson):
    """Base class of local linear estimators."""

    _value: RowAverages
    alpha: float | ArrayLike | Literal["auto"]
    _parameter_constraints: dict = {
        "kernel": [*ROW_KERNEL_CONSTRAINTS, Prototypes],
        "sigma": SIGMA_CONSTRAINTS,
        "metric": METRIC_CONSTRAINTS,
        "alpha": _ALPHA_CONSTRAINTS,
    }

    def _encoder(self):
        plain = super()._encoder()  # the encoding that the Nadaraya-Watson class uses
        if is_auto(self.alpha):
            return LocalLinear(plain, _REMAINDER)
        alphas = np.atleast_1d(np.asarray(self.alpha, dtype=np.float64))
        if alphas.ndim != 1 or not alphas.size or not np.all(alphas >= 0):
            raise ValueError(
                f"alpha={self.alpha!r} must be 'auto', a number >= 0, or a list of "
                "such numbers."
            )
        # in descending order, because the largest penalty is preferred in a tie
        ordered = tuple(np.sort(alphas)[::-1].tolist())
        return LocalLinear(plain, _REMAINDER, ordered)

    @property
    def alpha_(self) -> float:
        """The penalty in use; infinity stands for the kernel average."""
        return getattr(self._value.solution.targets, "alphas", (np.inf,))[0]

    def slopes(self, X: TableLike) -> np.ndarray:
        r"""Return the slopes of the local linear fits.

        They estimate the gradient of the regression function, that is, the partial
        effect of each feature.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows at which slopes are computed.

        Returns
        -------
        slopes : ndarray of shape (n_samples, n_features, n_outputs)
            Change of each output, or of the probability of each class, per unit of each
            feature. The slopes are zero if the kernel average was chosen (``alpha_`` is
            infinite); pass a finite number for ``alpha`` to obtain slopes in this case.

        Notes
        -----
        These are the coefficients of the linear function that is fitted at the row,
        with the kernel weights held fixed. The derivative of ``predict`` differs from
        them, because the weights change with the row as well.
        """
        model, rows = self._query(X, "slopes")
        value, n_features = model._value, rows.shape[1]
        keys = value.solution
        targets = keys.targets
        if isinstance(targets, LocalLinear):
            keys = keys.with_targets(targets.solved_for(Slopes))
            values = joined([sums.scores for _, sums in self._kernel_sums(keys, rows)])
        else:
            size = rows.shape[0], n_features * targets.n_averages
            values = constant(size, 0.0, rows)
        shape = values.shape[0], n_features, targets.n_averages
        found = namespace_of(values).reshape(values, shape)
        if value.metric is not None:
            found = value.metric._slopes_before(to_host(found), model._rows_as_given)
            if isinstance(value.folds, OutOfFoldErrors) and value.folds.shrinkage:
                found = found * value.folds.shrinkage.slope
        return self._cast(found, X)


class LocalLinearRegressor(LocalLinearMixin, NadarayaWatsonRegressor):
    r"""Local linear regression (LOESS) with kernel weights.

    For each row to be predicted, a linear function is fitted to the training rows, with
    weights that decrease with the distance from this row. The prediction is the value
    of the linear function. The weighted mean that :class:`NadarayaWatsonRegressor`
    predicts is biased at the boundary of the data and wherever the density of the rows
    changes in the direction of the gradient of the regression function. Local linear
    regression removes this bias: if the targets are a linear function of the features,
    predictions are exact for every kernel and every ``sigma``, except very far from the
    training rows.

    Parameters
    ----------
    kernel : str, kernel, callable or Prototypes, default="gaussian"
        Kernel that determines the weights of the training rows: ``"gaussian"``,
        ``"laplacian"``, ``"matern"``, a kernel object with its own parameters, such as
        ``Matern(nu=2.5)`` from :mod:`sklearn_crt.kernels`, or a callable, as in
        :class:`NadarayaWatsonRegressor`. :class:`Prototypes` stores, for each
        prototype, the second moments of the rows that it represents instead of the rows
        themselves, so the data can be processed in one pass or in batches, and models
        can be merged.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale by which the rows are multiplied: a number, or one number
        per column; a larger ``sigma`` yields a narrower kernel, and ``length_scale = 1
        / sigma``. ``"scale"`` corresponds to scikit-learn's ``gamma="scale"`` with
        ``gamma = sigma**2 / 2``, and ``"median"`` is the inverse of the median distance
        between rows. ``"auto"`` selects the multiple of ``"scale"`` that yields the
        lowest leave-one-out error in combination with the selected ``alpha``.
    alpha : float, array-like or "auto", default="auto"
        Ridge penalty on the slopes, relative to the mean local variance of the
        features: 0 means no penalty, and infinity yields the kernel average. If several
        penalties are given, the one with the lowest leave-one-out error is selected.
        With few rows, the largest penalty is used unless the gain is more than a
        fraction of its standard error: a half with up to 80 rows, and 40 / n with n
        rows. ``"auto"`` compares infinity, the powers of ten from 10 to 0.0001, and 0.
    clip : bool, default=False
        Whether to clip predictions to the range of the training targets. Linear fits
        may exceed this range when they extrapolate beyond the training rows.
    metric : LearnedMetric or None, default=None
        A :class:`~sklearn_crt.LearnedMetric` that defines distances between rows. It is
        learned from the training rows and also scales the columns. The metric is
        learned again without each of five folds of the rows, or ten folds if there are
        fewer than 200 rows. Intervals, class probabilities, and a factor that shrinks
        predicted numbers towards the mean target are based on predictions for the rows
        of these folds. Rows cannot be added to a model with a metric.

    Attributes
    ----------
    alpha_ : float
        The ridge penalty in use; infinity stands for the kernel average.
    kernel_ : kernel or Prototypes
        The kernel in use. If it is ``Prototypes``, it has the attribute
        ``prototypes_``.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.
    y_mean_ : ndarray of shape (n_outputs,)
        Weighted mean of each target. It is the prediction for rows whose kernel weights
        are all zero.

    See Also
    --------
    LocalLinearClassifier : The corresponding classifier.
    LearnedMetric : Distances that reflect how the targets vary.
    NadarayaWatsonRegressor : Kernel averages in place of linear fits.

    Notes
    -----
    Let :math:`w_j` be the kernel weights of the training rows :math:`x_j`, normalised
    to sum to one, and let m and t be the weighted means of the rows and of the targets
    :math:`y_j`. The prediction for a row x is

    .. math::
        \hat y(x) = t + B^\top (x - m), \quad B = (G + \lambda I)^{-1} c,

    .. math::
        G = \sum_j w_j (x_j - m)(x_j - m)^\top, \quad
        c = \sum_j w_j (x_j - m)(y_j - t)^\top,

    where :math:`\alpha` is the parameter ``alpha``, d the number of features and
    :math:`\lambda = \alpha\, \mathrm{tr}(G) / d + 10^{-7} / \sigma^2` ([1]_, and [2]_
    section 6.3). With ``alpha=0``, :math:`\lambda` is just larger than the rounding
    errors. If ``sigma`` has one value per feature, the formulas apply to the features
    multiplied by these values, with :math:`\sigma = 1`. All sums use float64.

    Far from the training rows, nearly all the weight belongs to a few rows that are
    close to each other, and the extrapolation would magnify the noise in their targets.
    The length :math:`\sqrt{(x - m)^\top (G + \lambda I)^{-1} (x - m)}` of the
    difference :math:`x - m`, in local standard deviations, is therefore limited to 20
    by shortening longer differences. If ``sigma`` or ``alpha`` was selected, the limit
    is :math:`3 / (1 - R^2)`, but at least 5, because the noise that would be magnified
    is known. Hardly any row from the distribution of the training rows reaches it. Here
    :math:`R^2` is the leave-one-out coefficient of determination; for
    several outputs, the values of :math:`1 - R^2` are added up.

    With more than 1000 training rows, those whose kernel value is at most a thousandth
    of the mean over all training rows are left out, except for the nearest 3 %. If most
    rows are used, a prediction takes about :math:`d^2/2` times as long as a kernel
    average. With more than 40 features, the
    linear functions therefore vary only along the 24 leading principal directions of
    the training rows, multiplied by ``sigma``; the kernel weights still use all
    features. After a :class:`LearnedMetric` in a pipeline, these are the directions
    along which the targets vary most.

    References
    ----------
    .. [1] W. S. Cleveland, S. J. Devlin, "Locally Weighted Regression", Journal of the
       American Statistical Association 83 (1988),
       :doi:`10.1080/01621459.1988.10478639`.
    .. [2] T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical
       Learning", 2nd edition, Springer 2009, section 6.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import LocalLinearRegressor
    >>> x = np.linspace(0, 3, 100)[:, None]
    >>> model = LocalLinearRegressor().fit(x, np.sin(x[:, 0]))
    >>> np.round(model.predict([[1.0], [3.1]]), 2)
    array([0.84, 0.05])

    The derivative of the sine is the cosine:

    >>> np.round([model.slopes([[1.0]])[0, 0, 0], np.cos(1.0)], 2)
    array([0.54, 0.54])
    """

    _parameter_constraints = {
        **LocalLinearMixin._parameter_constraints,
        "clip": ["boolean"],
    }

    def __init__(
        self,
        kernel: RowKernelLike | Prototypes = "gaussian",
        *,
        sigma: Sigma = "auto",
        alpha: float | ArrayLike | Literal["auto"] = "auto",
        clip: bool = False,
        metric: LearnedMetric | None = None,
    ):
        super().__init__(kernel, sigma=sigma, metric=metric)
        self.alpha = alpha
        self.clip = clip

    def _decode(self, value, rows, totals=None):
        predictions = super()._decode(value, rows, totals)
        return value.seen.clipped(predictions) if self.clip else predictions


class LocalLinearClassifier(LocalLinearMixin, NadarayaWatsonClassifier):
    r"""Class probabilities from local linear regression with kernel weights.

    Each class is encoded as a column of zeros and ones, and
    :class:`LocalLinearRegressor` is applied to these columns. Negative values are
    replaced by 0, the values of each row are divided by their sum, and the result is
    calibrated as described for :class:`NadarayaWatsonClassifier`; with fewer than 200
    training rows, they are then recalibrated by predictions for ten folds, which are
    made when they are first needed. Near a boundary
    between classes the linear fits follow the gradient of the probabilities, whereas
    kernel averages are biased towards the side with more rows.

    Parameters
    ----------
    kernel : str, kernel, callable or Prototypes, default="gaussian"
        Kernel that determines the weights of the training rows: ``"gaussian"``,
        ``"laplacian"``, ``"matern"``, a kernel object with its own parameters, such as
        ``Matern(nu=2.5)`` from :mod:`sklearn_crt.kernels`, or a callable, as in
        :class:`NadarayaWatsonRegressor`. :class:`Prototypes` stores, for each
        prototype, the second moments of the rows that it represents instead of the rows
        themselves, so the data can be processed in one pass or in batches, and models
        can be merged.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale by which the rows are multiplied: a number, or one number
        per column; a larger ``sigma`` yields a narrower kernel, and ``length_scale = 1
        / sigma``. ``"scale"`` corresponds to scikit-learn's ``gamma="scale"`` with
        ``gamma = sigma**2 / 2``, and ``"median"`` is the inverse of the median distance
        between rows. ``"auto"`` selects the multiple of ``"scale"`` that yields the
        lowest leave-one-out error in combination with the selected ``alpha``.
    alpha : float, array-like or "auto", default="auto"
        Ridge penalty on the slopes, relative to the mean local variance of the
        features: 0 means no penalty, and infinity yields the kernel average. If several
        penalties are given, the one with the lowest leave-one-out error is selected.
        With few rows, the largest penalty is used unless the gain is more than a
        fraction of its standard error: a half with up to 80 rows, and 40 / n with n
        rows. ``"auto"`` compares infinity, the powers of ten from 10 to 0.0001, and 0.
    class_weight : dict or "balanced", default=None
        Dictionary that maps each label to the factor by which the weights of its rows
        are multiplied; classes that are not listed have weight 1. ``"balanced"`` gives
        all classes the same total weight; it is supported only by ``fit``.
    calibrate : bool, default=True
        Whether probabilities are calibrated. If False, they are the values of the
        linear fits, which can be outside of [0, 1].
    metric : LearnedMetric or None, default=None
        A :class:`~sklearn_crt.LearnedMetric` that defines distances between rows. It is
        learned from the training rows and also scales the columns. The metric is
        learned again without each of five folds of the rows, or ten folds if there are
        fewer than 200 rows. Intervals, class probabilities, and a factor that shrinks
        predicted numbers towards the mean target are based on predictions for the rows
        of these folds. Rows cannot be added to a model with a metric.

    Attributes
    ----------
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class in the sum of the sample weights. It replaces the class
        frequencies for rows whose kernel weights are all zero.
    alpha_ : float
        The ridge penalty in use; infinity stands for the kernel average.
    kernel_ : kernel or Prototypes
        The kernel in use. If it is ``Prototypes``, it has the attribute
        ``prototypes_``.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    LocalLinearRegressor : The same method for numerical targets, with its formulas.
    LearnedMetric : Distances that reflect how the classes differ.
    NadarayaWatsonClassifier : Weighted class frequencies in place of linear fits.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import LocalLinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalLinearClassifier().fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.97
    """

    _parameter_constraints = {
        **LocalLinearMixin._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "calibrate": ["boolean"],
    }

    def __init__(
        self,
        kernel: RowKernelLike | Prototypes = "gaussian",
        *,
        sigma: Sigma = "auto",
        alpha: float | ArrayLike | Literal["auto"] = "auto",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        calibrate: bool = True,
        metric: LearnedMetric | None = None,
    ):
        super().__init__(
            kernel,
            sigma=sigma,
            class_weight=class_weight,
            calibrate=calibrate,
            metric=metric,
        )
        self.alpha = alpha

    @property
    def _recalibrates_few(self) -> bool:  # type: ignore[override]
        return self.calibrate
