"""Ridge regression on random features."""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from sklearn.base import RegressorMixin

from .._array import to_namespace_of
from .._supervised import NumbersMixin
from ..rows import TableLike
from ._base import BaseRandomFeatureRidge


class RandomFeatureRidge(NumbersMixin, RegressorMixin, BaseRandomFeatureRidge):
    r"""Ridge regression on random features that selects its penalty and ``sigma``.

    A fast approximation of kernel ridge regression for many rows. The penalty and the
    inverse length scale ``sigma`` of the kernel are selected by generalised
    cross-validation, and ``predict`` can return the standard deviation of each
    prediction. The model depends on the rows only through the Gram matrix of the
    features and their products with the targets. These are accumulated in one pass, so
    rows can be passed in batches, and a model needs no training row after ``freeze``.

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
    random_state : int, RandomState instance or None, default=None
        Seed of the random features. A seed that was set on a sampler is kept. Pass an
        integer for results that can be repeated.

    Attributes
    ----------
    kernel_ : sampler, transformer or "linear"
        The fitted transformer that computes the features, whose representation shows
        the selected ``sigma``.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale in use. It does not exist if ``kernel_`` has no
        ``sigma_``.
    alpha_ : float or ndarray of shape (n_outputs,)
        The penalty with the lowest score, chosen for each output separately.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        Prediction for a row whose features are all zero.
    gcv_scores_ : ndarray of shape (n_sigmas, n_alphas) or \
            (n_sigmas, n_alphas, n_outputs)
        Generalised cross-validation scores, which estimate the mean squared error on
        new rows. A score is infinite if almost no degrees of freedom are left, or if a
        penalty of ``alpha="auto"`` is too small for the variance of the targets (see
        Notes).
    noise_variance_ : float or ndarray of shape (n_outputs,)
        Estimate of the variance of the targets about their expectation.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    RandomFeatureRidgeClassifier : The corresponding classifier.
    sklearn.linear_model.RidgeCV : Ridge regression on rows in memory that chooses its
        penalty by the leave-one-out error.

    Notes
    -----
    Let Z be the centred features and y the centred targets of n rows, and let
    :math:`Z'Z = V \operatorname{diag}(w) V'` be the eigendecomposition of the Gram
    matrix. The coefficients b and the generalised cross-validation score are

    .. math:: b = V (w + \alpha)^{-1} V' Z'y, \qquad
       \mathrm{GCV}(\alpha) = \frac{n\,|y - Zb|^2}{(n - 1 - \gamma t)^2}, \qquad
       t = \sum_i \frac{w_i}{w_i + \alpha}

    [1]_, where t is the number of degrees of freedom of the fit. The factor
    :math:`\gamma = 1.2` prevents penalties that are too small, which the plain score
    (:math:`\gamma = 1`) prefers if a few rows lie far from the others, or if there are
    about as many columns as rows ([2]_ uses 1.4; ``python -m benchmarks.choices ridge``
    compares them). With ``alpha="auto"`` the prior standard deviation of the function,
    which is defined by the prior variance below, is limited to 30 times the standard
    deviation of the targets: with smaller penalties, predictions for rows far from the
    others become unreasonably large. All outputs share one sigma, which minimises the
    sum over the outputs of their scores divided by their variances. If the sampler has
    a ``penalty_`` matrix K, the penalty is :math:`\alpha\, b'Kb`, and V and w solve the
    generalised eigenproblem :math:`Z'Zv = wKv`.

    For a row with features z, measured from their mean, the standard deviation of a new
    target is

    .. math:: \operatorname{std}^2 = s^2\left(1 + \frac1n
       + z'(Z'Z + \alpha K)^{-1} z\right), \qquad s^2 = \frac{|y - Zb|^2}{n - 1 - t}.

    This is the predictive standard deviation of Bayesian linear regression with noise
    variance :math:`s^2` and prior variance :math:`s^2 / \alpha`, or equivalently of a
    Gaussian process with the kernel that the features define ([3]_ section 2.1). It
    assumes that the noise variance is the same everywhere. It accounts neither for the
    error of the random features (``kernel_variance`` of a sampler) nor for the choice
    of the penalty and of sigma.

    If the sample weights are 1 or more on average, n is their sum, as if rows were
    repeated. If their mean is smaller, they are divided by it, so n is the number of
    rows with positive weight, and the selection does not depend on the unit of the
    weights.

    The accumulated statistics have :math:`D^2` float64 entries for D columns and for
    each candidate ``sigma``. The rows are kept as long as X has at most about 4 million
    entries, because the feature map and ``sigma`` change if further rows arrive. Beyond
    that ``sigma`` is selected and only the statistics are kept; with more than 128 rows
    per column, only every n-th row is used for this selection. ``freeze`` discards the
    rows and the statistics. What remains are the coefficients, the feature map, the
    scores, and a triangular matrix of D (D + 1) / 2 entries for the standard
    deviations.

    References
    ----------
    .. [1] G. H. Golub, M. Heath, G. Wahba, "Generalized Cross-Validation as a Method
       for Choosing a Good Ridge Parameter", Technometrics 21 (1979),
       :doi:`10.1080/00401706.1979.10489751`.
    .. [2] Y.-J. Kim, C. Gu, "Smoothing Spline Gaussian Regression: More Scalable
       Computation via Efficient Approximation", JRSS B 66 (2004),
       :doi:`10.1046/j.1369-7412.2003.05316.x`.
    .. [3] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
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
    """

    _n_classes = None

    def _squeezed(self, values):
        return values[0] if self._one_output else values

    @property
    def noise_variance_(self) -> float | np.ndarray:
        """Estimate of the variance of the targets about their expectation."""
        return self._squeezed(self._value.solution.noise)

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        """Return predictions, and optionally their standard deviations.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations as well, which costs D (D + 1)
            operations per row for D columns.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions (expected targets), in float64 even for float32 rows.
        std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations of new targets, including the noise. They are infinite
            if the training rows leave no degrees of freedom to estimate the noise. Only
            returned with ``return_std=True``.
        """

        def predictions(solution, Z):
            mean = solution.predict(Z)
            if not return_std:
                return (mean,)
            return mean, np.sqrt(solution.variance(Z))

        found, _ = self._predictions(X, "predict", predictions)
        parts = (values[:, 0] if self._one_output else values for values in found)
        results = tuple(to_namespace_of(part, X) for part in parts)
        return results if return_std else results[0]

    def __sklearn_tags__(self):
        """Return scikit-learn's tags: several outputs are supported."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
