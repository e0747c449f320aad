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
    r"""Ridge regression on random features, with its penalty, sigma and errors.

    All follows from the products of features and targets, which are added up over the
    rows. So one pass is enough, rows may come in batches, and none is kept.

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

    Attributes
    ----------
    alpha_ : float or ndarray of shape (n_outputs,)
        Penalty of least score; each output has its own.
    coef_ : ndarray of shape (n_components,) or (n_outputs, n_components)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (n_outputs,)
        Value where all features are zero.
    sigma_ : float or ndarray of shape (n_features,)
        Bandwidth of least score, where the sampler has one.
    gcv_scores_ : ndarray of shape (n_sigmas, n_alphas) or \
            (n_sigmas, n_alphas, n_outputs)
        Generalised cross-validation, an estimate of the mean squared error on new rows;
        infinite where hardly a degree of freedom is left, or a penalty of ``"auto"`` is
        too small for the spread of the targets (Notes).
    noise_variance_ : float or ndarray of shape (n_outputs,)
        Estimate of the variance of targets about their expectation.
    sampler_ : sampler, transformer or "linear"
        The fitted sampler, with the best sigma.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

    See Also
    --------
    RandomFeatureRidgeClassifier : The same for labels.
    sklearn.linear_model.RidgeCV : For rows that are in memory, with leave-one-out.

    Notes
    -----
    With centred features Z and targets y of n rows, and
    :math:`Z'Z = V \operatorname{diag}(w) V'`,

    .. math:: b = V (w + \alpha)^{-1} V' Z'y, \qquad
       \mathrm{GCV}(\alpha) = \frac{n\,|y - Zb|^2}{(n - 1 - \gamma t)^2}, \qquad
       t = \sum_i \frac{w_i}{w_i + \alpha}

    [1]_, with :math:`\gamma = 1.2` against penalties that are too small where a few
    rows lie far from the others, or columns are as many as rows ([2]_ takes 1.4;
    ``python -m benchmarks.choices ridge`` compares them). With ``alphas="auto"`` the
    prior standard deviation of the function, that below, is at most 30 times that of
    the targets: a smaller penalty gives rows far from the others absurd answers. All
    outputs have one sigma, that of the least sum of scores over variances. Where the
    sampler has a ``penalty_`` matrix K, the penalty is :math:`\alpha\, b'Kb` and
    :math:`Z'Zv = wKv`. The standard deviation of a new target at features z (about
    their mean) is

    .. math:: \operatorname{std}^2 = s^2\left(1 + \frac1n
       + z'(Z'Z + \alpha K)^{-1} z\right), \qquad s^2 = \frac{|y - Zb|^2}{n - 1 - t},

    that of Bayesian linear regression with noise :math:`s^2` and prior variance
    :math:`s^2 / \alpha`, which is a Gaussian process with the kernel of the features
    ([3]_ section 2.1). It takes the noise to be the same everywhere, and it leaves out
    the error of the features themselves (``kernel_variance`` of a sampler) and the
    choice of penalty and sigma.

    The sums have float64 entries, D (D + 1) / 2 of them for D columns and each sigma
    that is still to be chosen from. sigma is chosen when the map is fixed; where there
    are more than 128 rows per column, by every n-th row.

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
    >>> model = RandomFeatureRidge().fit(x, y)
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
        """Estimate of the variance of targets about their expectation."""
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
        """Return expected targets, and standard deviations of new targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        return_std : bool, default=False
            Whether to return the standard deviations too, at a cost of D (D + 1)
            per row for D columns.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Expected targets, in float64 also for float32 rows.
        std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations of targets of new rows, noise included; infinite where
            the training rows leave no degree of freedom to know the noise by. Only with
            ``return_std=True``.
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
        """Return the tags of scikit-learn: several outputs."""
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
