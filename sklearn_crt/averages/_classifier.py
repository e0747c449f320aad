"""Nadaraya-Watson classification."""

from __future__ import annotations

import math

import numpy as np
from sklearn.base import ClassifierMixin

from .._array import (
    asarray_like,
    at_least,
    clipped,
    joined,
    namespace_of,
    taken,
    to_fit_namespace,
    to_namespace_of,
)
from .._supervised import LabelsMixin
from ..rows import TableLike
from ._base import BaseNadarayaWatson
from ._features import trust
from ._targets import OneHot


class NadarayaWatsonClassifier(LabelsMixin, ClassifierMixin, BaseNadarayaWatson):
    r"""Class probabilities as kernel-weighted frequencies of the training labels.

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
    classes_ : ndarray of shape (n_classes,)
        The labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class, predicted where all kernel weights vanish.
    kernel_ : kernel, transformer or "linear"
        The fitted kernel: with ``sigma_`` for rows and prototypes, and ``prototypes_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    NadarayaWatsonRegressor : The same average, of numbers.
    ExactKernel, Prototypes : Kernels of rows, with their parameters.
    OPRFSampler : The sampler to start with: positive and of least variance.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` of weight :math:`w_j` [1]_ [2]_,

    .. math:: P(c \mid x) = \frac{\sum_j w_j K(x, x_j) [y_j = c]}
                                 {\sum_j w_j K(x, x_j)} .

    With features :math:`K(x, y) \approx f(x) \cdot g(y)` the sums over j are one
    vector per class, so fitting n rows costs O(n D), and the model holds D numbers per
    class ([3]_ section 5.2). Features are kept as logarithms: the largest exponent of
    each column is factored out, and cancels in the ratio, so nothing over- or
    underflows.

    Maps that can be negative (sines and cosines) give scores of either sign.
    ``predict`` takes the largest, as [3]_ does; for probabilities, negative scores
    count as 0. A row is *unreliable* where the sum S of its scores is below two
    standard errors s. With the frequencies in G = 16 groups, where group g has
    :math:`n_g` of the m frequencies and contributes :math:`S_g`,

    .. math:: s^2 = \frac{G}{G-1} \sum_g \left(S_g - \frac{n_g}{m} S\right)^2

    (for third-party transformers :math:`s = D^{-1/2} \sum_m |F_m Z_m|`, with the
    features F and their sums Z). The probabilities of such a row are mixed with
    ``class_prior_``, which has the weight :math:`1 - (\max(S, 0) / 2s)^2`, or less
    where the class of largest score would not stay first. Where no class has a positive
    score all methods return ``class_prior_``. One warning says how many rows are
    unreliable. With positive maps and exact kernels no row is.

    References
    ----------
    .. [1] E. A. Nadaraya, "On Estimating Regression", Theory of Probability & Its
       Applications 9 (1964), :doi:`10.1137/1109020`.
    .. [2] Geoffrey S. Watson, "Smooth Regression Analysis", Sankhya A 26 (1964).
    .. [3] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NadarayaWatsonClassifier().fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.96

    Features of a sampler cost the same however many rows there are:

    >>> sampler = OPRFSampler(sigma=0.5, n_components=500, random_state=0)
    >>> model = NadarayaWatsonClassifier(sampler).fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.95
    """

    def _encoder(self):
        return OneHot(self.classes_.size)

    @property
    def class_count_(self) -> np.ndarray:
        """Sum of the sample weights of each class."""
        return to_fit_namespace(self, self._value.seen.sums)

    @property
    def class_prior_(self) -> np.ndarray:
        """Share of each class."""
        return to_fit_namespace(self, self._value.seen.shares)

    def _decode(self, value, X, function, instead):
        """Return function(scores, log_scale, prior, weight) of all rows, in blocks.

        The weight is that of the average of a row beside the prior, None for 1.
        """
        blocks, n_unreliable = [], 0
        for _, (scores, log_scale, error) in self._blocks_of_sums(value, X):
            xp = namespace_of(scores)
            prior = asarray_like(value.seen.shares, scores)
            empty = ~xp.any(scores > 0, axis=1)
            weight, unreliable = None, empty
            if error is not None:
                weight = trust(xp.sum(scores, axis=1), error)[:, None]
                unreliable = empty | (weight[:, 0] < 1)
            scores = xp.where(empty[:, None], prior, scores)
            log_scale = xp.where(empty[:, None], xp.zeros_like(log_scale), log_scale)
            blocks.append(function(scores, log_scale, prior, weight))
            n_unreliable += int(xp.count_nonzero(unreliable))
        self._warn_unreliable(n_unreliable, instead)
        return joined(blocks)

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the labels of largest score.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels; the most frequent class where no score is positive.
        """
        value = self._check_rows(X, "predict")
        instead = "the largest score counts, and the class prior where none is positive"
        codes = self._decode(
            value,
            X,
            lambda scores, *_: namespace_of(scores).argmax(scores, axis=1),
            instead,
        )
        classes = to_namespace_of(self.classes_, codes)  # strings stay on the host
        return to_namespace_of(taken(classes, codes), X)

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Rows sum to one, with columns in the order of ``classes_``. Where a row is
            unreliable it is ``class_prior_``, in part or altogether.
        """
        value = self._check_rows(X, "predict_proba")
        instead = "the class prior is predicted there, in part or altogether"
        return self._cast(self._decode(value, X, _mix, instead), X)

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the class scores, ``sum_j w_j K(x, x_j) [y_j = c]``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            Not normalised; a row too small or too large for the type is scaled into
            its range, and a row without a positive score holds ``class_prior_``. With
            two classes there is one number per row, as elsewhere in scikit-learn: the
            difference of the probabilities.
        """
        value = self._check_rows(X, "decision_function")
        limit = 0.95 * math.log(np.finfo(self._float_type(X)).max)

        def decision(scores, log_scale, prior, weight):
            xp = namespace_of(scores)
            if self.classes_.size == 2:
                shares = _mix(scores, log_scale, prior, weight)
                return shares[:, 1] - shares[:, 0]
            peak = xp.max(xp.abs(scores), axis=1, keepdims=True)
            inside = clipped(log_scale + xp.log(peak), -limit, limit)
            return scores / peak * xp.exp(inside)

        instead = "scores are as they come, and the class prior where none is positive"
        return self._cast(self._decode(value, X, decision, instead), X)


def _mix(scores, _, prior, weight):
    """Return the shares of the scores, mixed with the prior by weight and 1 - weight.

    The weight is at least what leaves the class first that ``predict`` returns.
    """
    xp = namespace_of(scores)
    positive = at_least(scores, 0.0)
    shares = positive / xp.sum(positive, axis=1, keepdims=True)
    if weight is None:
        return shares
    first = xp.argmax(scores, axis=1)
    lead = xp.max(shares, axis=1, keepdims=True) - shares
    behind = at_least(prior - xp.take(prior, first)[:, None], 0.0)
    least = behind / at_least(lead + behind, 1e-30)  # no more than 0 / 0 is 0
    least = xp.max(least, axis=1, keepdims=True)
    weight = at_least(weight, least + 1e-3 * (1 - least))  # no tie
    return weight * shares + (1 - weight) * prior
