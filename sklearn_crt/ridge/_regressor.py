"""Ridge regression on random features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin

from .._compat import RandomState
from ..life_cycle.intervals import Errors, IntervalsMixin
from ..life_cycle.out_of_fold import FEW_ROWS
from ..life_cycle.supervised import NumbersMixin
from ..rows import Sigma
from ..samplers._kernel_parameter import KernelLike
from ._base import BaseRandomFeatureRidge
from ._feature_moments import apply_to_features
from ._ridge_solution import Solution

if TYPE_CHECKING:
    from ..metric import LearnedMetric

# The limit for kernels that are learned from the targets. Left-out errors, for which
# the kernel is kept, are too small unless there are many rows.
_FEW_ROWS_OF_LEARNED = 1000
_LEAST_NOISE = 1e-16  # relative to the variance of the targets


def _unit_of_variance(solution: Solution) -> np.ndarray:
    """Return the noise variances, or variances of the targets if it is unknown, (k,).

    Models of different folds have different penalties, and the variances of their
    predictions are comparable only in the same unit. The lower limit is for rounding
    errors. It is continuous, because the noise of some folds may be just above it.
    """
    noise = np.maximum(solution.noise, _LEAST_NOISE * solution.spread)
    return np.where(np.isfinite(noise), noise, solution.spread)


class RandomFeatureRidge(
    IntervalsMixin, NumbersMixin, RegressorMixin, BaseRandomFeatureRidge
):
    r"""Ridge regression on random features, with automatic parameter selection.

    This is a fast approximation of kernel ridge regression for large data sets. The
    penalty and the inverse length scale ``sigma`` of the kernel are selected by the
    leave-one-out error, which is computed without refitting. The same leave-one-out
    errors calibrate the prediction intervals and quantiles. By default, predictions are
    limited to the range of the training targets, which prevents extreme extrapolation.

    The coefficients depend on the rows only through two matrices: the Gram matrix of
    the features and the products of features and targets. These are accumulated in one
    pass, so rows can be passed in batches, and are not needed after ``freeze``.

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
        ``sigma="auto"`` and more than 512 rows, it is 256 if the leave-one-out error
        on the rows from which ``sigma`` is selected falls by less than 0.5 % from 128
        to 256 features (with more than 16,384 rows, by less than 0.5 % times 8192
        divided by the number of rows). For a callable, ``"auto"`` is the number of rows
        of the first batch, but at most 1024.
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
    clip : bool, default=True
        Whether predictions, intervals and quantiles are limited to the range of the
        training targets, and predictions with a larger standard deviation than the
        targets are shrunk towards the mean target (see Notes). Set it to False if
        targets outside this range are expected, for instance because of a trend, or if
        predictions must equal ``features @ coef_ + intercept_``.
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
    alpha_ : float or ndarray of shape (n_outputs,)
        The penalty with the lowest error, chosen for each output separately.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        Prediction for a row whose features are all zero.
    loo_errors_ : ndarray of shape (n_sigmas, n_alphas) or \
            (n_sigmas, n_alphas, n_outputs)
        Leave-one-out errors: mean squared errors of rows that are predicted by models
        fitted without them. An error is infinite if it cannot be computed, or if a
        penalty of ``alpha="auto"`` is too small for the variance of the targets or for
        products in single precision (see Notes). With ``sigma="auto"`` and 1024 or more
        features, values of ``sigma`` that are much worse than the best one are
        discarded early; their errors are those of models with 128, 256 or 512 features.
    noise_variance_ : float or ndarray of shape (n_outputs,)
        Estimated variance of the targets around their expectation: :math:`s^2` in the
        Notes. If :math:`s^2` is less than 1e-8 times the variance of the targets, it is
        replaced by the mean of :math:`e_i^2 (1 - h_i)`, provided that this is larger.
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
    RandomFeatureRidgeClassifier : The corresponding classifier.
    sklearn.linear_model.RidgeCV : Ridge regression on features computed in advance.

    Notes
    -----
    Let Z be the centred features and y the centred targets of n rows, and let
    :math:`Z'Z = V \operatorname{diag}(w) V'` be the eigendecomposition of the Gram
    matrix. The coefficients b, the leverage :math:`h_i` of row i, and the error
    :math:`e_i` for this row of a model that is fitted to all other rows are [1]_

    .. math:: b = V (w + \alpha)^{-1} V' Z'y, \qquad
       h_i = \frac1n + z_i' V (w + \alpha)^{-1} V' z_i, \qquad
       e_i = \frac{y_i - z_i'b}{1 - h_i}

    The leave-one-out error is the mean of :math:`e_i^2` over all rows, or over a random
    sample of 4096 rows if there are more (fewer if X has more than 256 columns: about a
    million entries in total, but at least 256 rows). Rows are drawn by their position
    and with probabilities that increase with their weights, so the division into
    batches does not change the sample. Each row is left out with its whole weight, and
    equal rows are not left out. If the sampler has a ``penalty_`` matrix K, the
    penalty is :math:`\alpha\, b'Kb`, and V and w solve the generalised eigenproblem
    :math:`Z'Zv = wKv`. All outputs share one sigma, which minimises the sum of the
    errors, each divided by the variance of the corresponding output.

    With ``alpha="auto"``, the prior standard deviation of the function (the root of the
    prior variance below) is limited to 5 times the standard deviation of the targets.
    With smaller penalties, predictions for rows that are far from all other rows would
    become unreasonably large (``python -m benchmarks.choices ridge_tables`` compares
    errors on twelve tables). Moreover, the leave-one-out errors of sigma and the
    penalty are compared after multiplying them by :math:`1 + 1.5\sqrt{2t} / n`, with
    the degrees of freedom t defined below: by chance, a fit explains a proportion of
    the noise variance with a standard deviation of about :math:`\sqrt{2t} / n`. For
    more than about a thousand rows, the factor hardly matters.

    With more than 16,384 rows and ``sigma="auto"``, if the kernel is a name or a kernel
    object, the Gram matrix is a sum of products in single precision if its rounding
    error is at most a quarter of the penalty that is selected together with ``sigma``.
    This takes about half the time (``python -m benchmarks.costs``). The tests allow for
    a change of R\ :sup:`2` by 1e-5.

    With ``sigma="auto"``, if the kernel is a name or a kernel object, there are further
    candidates with one sigma per column, which is small for columns that hardly affect
    the targets. Let :math:`\sigma_1` be the inverse length scales of a Gaussian process
    that maximise a penalised marginal likelihood ([2]_ section 5.1), found in up to 20
    iterations of L-BFGS on a random sample of 400 rows, drawn like the one above. For
    standardised columns and on a logarithmic scale, let :math:`\sigma_{1/2}` be halfway
    between :math:`\sigma_1` and its mean over the columns. With at least 200 rows per
    column, :math:`\sigma_1` is the only further candidate. With at least 50 rows per
    column, the candidates are :math:`\sigma_{1/2}`, :math:`2 \sigma_{1/2}` and
    :math:`\sigma_1`, and with at least ten only :math:`\sigma_{1/2}`. With fewer rows
    per column, a single column or more than 400 columns, there are none.

    For a row with centred features z, the standard deviation of a new target is

    .. math:: \operatorname{std}^2 = s^2(1 + v), \qquad
       v = \frac1n + z'(Z'Z + \alpha K)^{-1} z, \qquad
       s^2 = \frac{|y - Zb|^2}{n - 1 - t}, \qquad t = \sum_i \frac{w_i}{w_i + \alpha},

    where t is the number of degrees of freedom of the fit. This is the predictive
    standard deviation of Bayesian linear regression with noise variance :math:`s^2` and
    prior variance :math:`s^2 / \alpha`, or equivalently of a Gaussian process with the
    kernel that the features define ([2]_ section 2.1). It assumes that the noise
    variance is the same everywhere, and intervals of two standard deviations on each
    side, for example, also assume normally distributed noise; :meth:`predict_interval`
    assumes neither. The standard deviation does not account for the error of the random
    features (see ``kernel_variance`` of the samplers). Neither the standard deviation
    nor the intervals account for the selection of the penalty and of sigma. If the
    kernel is an :class:`AnovaSampler` whose landmarks are all the training rows, v
    includes the prior variance that the landmarks do not explain, divided by
    :math:`\alpha`.

    With ``clip=True``, the difference between a prediction and the mean target is
    multiplied by :math:`\min(1, s_y / (s \sqrt v))`, where :math:`s_y` is the standard
    deviation of the targets. This affects only predictions whose standard deviation
    :math:`s \sqrt v` exceeds :math:`s_y`, which are rare for rows similar to the
    training rows. The result is limited to the range of the training targets.

    References
    ----------
    .. [1] D. M. Allen, "The Relationship Between Variable Selection and Data
       Augmentation and a Method for Prediction", Technometrics 16 (1974),
       :doi:`10.1080/00401706.1974.10489157`.
    .. [2] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
       Learning", MIT Press 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import RandomFeatureRidge
    >>> x = np.linspace(0, 6, 400)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=400)
    >>> model = RandomFeatureRidge(random_state=0).fit(x, y)
    >>> mean, std = model.predict(x, return_std=True)
    >>> bool(abs(mean - np.sin(x[:, 0])).max() < 0.1)
    True
    >>> bool(0.09 < std.mean() < 0.11)
    True
    >>> low, high = model.predict_interval(x, coverage=0.8).T
    >>> bool(0.75 < np.mean((low <= y) & (y <= high)) < 0.85)
    True
    """

    _parameter_constraints: dict = {
        **BaseRandomFeatureRidge._parameter_constraints,
        "clip": ["boolean"],
    }
    _n_classes = None

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        sigma: Sigma = "auto",
        n_components: int | Literal["auto"] = "auto",
        alpha: float | ArrayLike | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        clip: bool = True,
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
        self.clip = clip

    def _squeezed(self, values):
        return values[0] if self._one_output else values

    @property
    def _few_rows(self) -> int:  # type: ignore[override]
        learns = getattr(self._fit_params["kernel"], "_reads_tables", False)
        return _FEW_ROWS_OF_LEARNED if learns else FEW_ROWS

    @property
    def noise_variance_(self) -> float | np.ndarray:
        """Estimated variance of the targets around their expectation."""
        return self._squeezed(self._value.solution.noise)

    def _mean_and_std(self, rows, return_std):
        value = self._value
        mean, variance = self._moments(value, rows, variance=return_std)
        folds = value.folds
        if folds is not None:
            mean = folds.shrunk(mean)
        if not return_std:
            return mean, None
        if folds is not None:
            unit = _unit_of_variance(value.solution)
            return mean, np.sqrt(unit * (1 + variance)) * folds.root_mean_squares
        return mean, np.sqrt(value.solution.noise * (1 + variance))

    @staticmethod
    def _moments(value, rows, *, variance=True):
        """Return predictions, and their variances relative to the noise."""
        solution = value.solution

        def predictions(Z, part):
            found = solution.variance(Z, part) if variance else None
            if not value.settings.clip:
                mean = solution.predict(Z)
            else:
                limiting = found
                if limiting is None:
                    limiting = solution.variance_where_large(Z, part)
                mean = solution.predict(Z, limiting)
                mean = np.clip(mean, solution.least, solution.most)
            return (mean,) if found is None else (mean, found)

        mean, *rest = apply_to_features(solution.sampler, rows, predictions)
        return mean, rest[0] if rest else None

    def _expected(self, value, rows):
        """Return the same predictions as ``predict``, (n, k)."""
        return self._moments(value, rows, variance=False)[0]

    def _out_of_fold_predictions(self, value, rows):
        mean, variance = self._moments(value, rows)
        return mean, np.sqrt(_unit_of_variance(value.solution) * (1 + variance))

    def _quantiles(self, rows, levels):
        found = self._quantiles_of_folds(rows, levels)
        if found is not None:
            return found
        value = self._value
        mean, variance = self._moments(value, rows)
        solution = value.solution
        assert isinstance(solution.calibration, Errors)  # of a regression
        errors = solution.calibration.quantiles(np.sqrt(1 + variance), levels)
        values = mean[..., None] + errors
        if not value.settings.clip:
            return values
        return np.clip(values, solution.least[:, None], solution.most[:, None])

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: several outputs are supported."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
