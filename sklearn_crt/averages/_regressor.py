"""Nadaraya-Watson regression."""

from __future__ import annotations

import numpy as np
from sklearn.base import RegressorMixin

from .._array import (
    asarray_like,
    joined,
    namespace_of,
    to_fit_namespace,
    to_namespace_of,
)
from .._supervised import NumbersMixin
from ..rows import TableLike
from ._base import BaseNadarayaWatson
from ._jackknife import trust
from ._quantiles import QuantilesMixin
from ._targets import RegressionTargets


class NadarayaWatsonRegressor(
    QuantilesMixin, NumbersMixin, RegressorMixin, BaseNadarayaWatson
):
    r"""Nadaraya-Watson regression: averages of the targets weighted by a kernel.

    The prediction for a row is the weighted mean of the training targets, in which the
    closest training rows have the largest weights. This is a smooth version of
    nearest-neighbour regression.

    Attributes
    ----------
    y_mean_ : ndarray of shape (n_outputs,)
        Weighted mean of each target. It is the prediction for rows whose kernel weights
        are all zero.

    See Also
    --------
    NadarayaWatsonClassifier : The corresponding classifier.
    Prototypes : A small number of weighted points instead of the training rows.
    sklearn_crt.kernels : Kernels with parameters of their own.
    OPRFSampler : The recommended sampler: positive features with minimum variance.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` with sample weights :math:`w_j`, the
    prediction for a row x is [1]_ [2]_

    .. math:: \hat y(x) = \frac{\sum_j w_j K(x, x_j) y_j}{\sum_j w_j K(x, x_j)} .

    :class:`NadarayaWatsonClassifier` explains how features replace the kernel, and how
    the standard error s of the denominator S is estimated for features that can be
    negative. Predictions from such features are clipped to the range of the training
    targets. The estimate for a row is *unreliable* if :math:`S < 2s`. The prediction is
    then a weighted mean of ``y_mean_`` and the kernel average, whose weight is
    :math:`(\max(S, 0) / 2s)^2`. A single warning reports the number of unreliable
    predictions. With positive features or an exact kernel, a prediction is unreliable
    only if all kernel weights of the row vanish.

    ``sigma="auto"`` minimises the mean squared leave-one-out error relative to the
    variance of each output. With an exact kernel, multiples of ``"scale"`` from 1/2 to
    32 are compared on up to 1000 training rows, first in octaves (factors of two), then
    in quarters of an octave around the best one. With a sampler, multiples from 1/4 to
    16 are compared on up to 2000 rows, in octaves and then in half octaves, and each
    row is predicted from the sums of features after subtracting its own contribution.
    ``"scale"`` is kept unless the error of another multiple is lower by more than one
    standard error. In both cases, all copies of a row are left out together.

    References
    ----------
    .. [1] E. A. Nadaraya, "On Estimating Regression", Theory of Probability & Its
       Applications 9 (1964), :doi:`10.1137/1109020`.
    .. [2] Geoffrey S. Watson, "Smooth Regression Analysis", Sankhya A 26 (1964).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> model = NadarayaWatsonRegressor().fit(x[::2], np.sin(x[::2, 0]))
    >>> bool(model.score(x[1::2], np.sin(x[1::2, 0])) > 0.99)
    True
    >>> sampler = OPRFSampler(sigma=4.0, n_components=512, random_state=0)
    >>> model = NadarayaWatsonRegressor(sampler).fit(x, np.sin(x[:, 0]))
    >>> bool(model.score(x, np.sin(x[:, 0])) > 0.9)
    True
    """

    def _encoder(self):
        return RegressionTargets(self._n_outputs)

    @property
    def y_mean_(self) -> np.ndarray:
        """Weighted mean of each output."""
        return to_fit_namespace(self, self._value.seen.mean)

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict the kernel-weighted averages of the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions, which lie in the range of the training targets. They are
            float64 even if X is float32, because targets may need the higher precision.
            For rows where the error of random features is too large, ``y_mean_`` partly
            or entirely replaces the prediction (see the Notes of the class).
        """
        value = self._check_rows(X, "predict")
        return self._squeezed(self._decode(value, X))

    def _squeezed(self, values):
        return values[:, 0] if self._one_output else values

    def _decode(self, value, X):
        """Return the predictions as an array of shape (n_rows, n_outputs)."""
        blocks, n_unreliable = [], 0
        for _, (scores, _, error) in self._blocks_of_sums(value, X):
            xp, mean = namespace_of(scores), asarray_like(value.seen.mean, scores)
            weights = scores[:, -1]
            empty = ~(weights > 0)
            divisors = xp.where(empty, xp.ones_like(weights), weights)
            block = scores[:, :-1] / divisors[:, None]
            block = xp.where(empty[:, None], mean, block)
            # if some weights are negative, averages may exceed the range of the targets
            if error is not None:
                block = xp.where((error > 0)[:, None], value.seen.clipped(block), block)
                share = trust(weights, error)[:, None]
                block = block + (1 - share) * (mean - block)
                empty = share[:, 0] < 1
            blocks.append(block)
            n_unreliable += int(xp.count_nonzero(empty))
        self._warn_unreliable(
            n_unreliable,
            "the mean of the targets is predicted there, in part or altogether",
        )
        # in the widest dtype, because large targets may require its precision
        return to_namespace_of(joined(blocks), X)

    def __sklearn_tags__(self):
        """Return the estimator tags of scikit-learn, which allow several outputs."""
        tags = super().__sklearn_tags__()
        # scikit-learn's checks use too few rows for kernel averages to score well
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = True
        return tags
