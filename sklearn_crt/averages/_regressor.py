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
from ._features import trust
from ._quantiles import QuantilesMixin
from ._targets import RegressionTargets


class NadarayaWatsonRegressor(
    QuantilesMixin, NumbersMixin, RegressorMixin, BaseNadarayaWatson
):
    r"""Kernel-weighted averages of the training targets.

    Parameters
    ----------
    kernel : kernel, transformer or str, default=None
        Where the weights come from. None is ``ExactKernel()``, the Gaussian kernel of
        all the training rows, with the bandwidth of least leave-one-out error;
        ``"gaussian"``, ``"laplacian"`` and ``"matern"`` are the exact kernels of these
        names. :class:`Prototypes` answers from a few points; a sampler, or any
        transformer, from the sums of its features: it is cloned and fitted, unless it
        is in a ``FrozenEstimator``. ``"linear"`` is the inner product of rows that are
        features already, as in the last step of a Pipeline.

    Attributes
    ----------
    y_mean_ : ndarray of shape (n_outputs,)
        Weighted mean of each target, predicted where all kernel weights vanish.
    kernel_ : kernel, transformer or "linear"
        The fitted kernel: with ``sigma_`` for rows and prototypes, and ``prototypes_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    NadarayaWatsonClassifier : Class probabilities.
    ExactKernel, Prototypes : Kernels of rows, with their parameters.
    OPRFSampler : The sampler to start with: positive and of least variance.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` of weight :math:`w_j` [1]_ [2]_,

    .. math:: \hat y(x) = \frac{\sum_j w_j K(x, x_j) y_j}{\sum_j w_j K(x, x_j)} .

    See :class:`NadarayaWatsonClassifier` for how features replace the kernel, and for
    the standard error s of a denominator S with maps that can be negative. Averages of
    such maps are clipped to the range of the training targets. A row is *unreliable*
    where :math:`S < 2s`: its average has the weight :math:`(\max(S, 0) / 2s)^2`, and
    ``y_mean_`` the rest. One warning says how many rows are unreliable. With positive
    maps and exact kernels no row is.

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
        """Return the averages of the targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Averages in the range of the training targets, in float64 also for float32
            rows: targets may need their digits. Where a row is unreliable it is
            ``y_mean_``, in part or altogether.
        """
        value = self._check_rows(X, "predict")
        return self._squeezed(self._decode(value, X))

    def _squeezed(self, values):
        return values[:, 0] if self._one_output else values

    def _decode(self, value, X):
        """Return the predictions for rows, (n_rows, n_outputs)."""
        blocks, n_unreliable = [], 0
        for _, (scores, _, error) in self._blocks_of_sums(value, X):
            xp, mean = namespace_of(scores), asarray_like(value.seen.mean, scores)
            weights = scores[:, -1]
            empty = ~(weights > 0)
            divisors = xp.where(empty, xp.ones_like(weights), weights)
            block = scores[:, :-1] / divisors[:, None]
            block = xp.where(empty[:, None], mean, block)
            if error is not None:  # averages with negative weights may leave the range
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
        # in the widest type, as targets may need their digits
        return to_namespace_of(joined(blocks), X)

    def __sklearn_tags__(self):
        """Return the tags of scikit-learn: several outputs."""
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # averages of few rows
        tags.target_tags.multi_output = True
        return tags
