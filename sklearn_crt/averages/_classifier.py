"""Nadaraya-Watson classification."""

from __future__ import annotations

import math
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from .._array import (
    asarray_like,
    at_least,
    clipped,
    joined,
    namespace_of,
    on_host,
    to_fit_namespace,
    to_host,
    to_namespace_of,
)
from .._compat import _check_partial_fit_first_call, _fit_context
from .._state import aside
from ..rows import TableLike
from ._base import BaseNadarayaWatson
from ._errors import trust
from ._sums import ClassCounts, OneHot


class NadarayaWatsonClassifier(ClassifierMixin, BaseNadarayaWatson):
    r"""Class probabilities as kernel-weighted frequencies of the training labels.

    Parameters
    ----------
    sampler : None, "exact", "prototypes" or transformer, default=None
        None: X already holds features whose inner products are the kernel, as in the
        last step of a Pipeline. A transformer is cloned, fitted and applied in log
        space, so nothing over- or underflows; a ``FrozenEstimator`` around a fitted one
        is used as it is. ``"exact"`` is the kernel itself, at a cost of n_train *
        n_query. ``"prototypes"`` is the kernel on a few weighted points, the k-means
        centres of the rows of each class (or of similar targets): several times as
        accurate as random features of the same memory.
    kernel : {"gaussian", "laplacian", "matern"} or callable, default="gaussian"
        Kernel of ``"exact"`` and ``"prototypes"``. A callable takes rows of shapes (n,
        d) and (m, d), already multiplied by sigma, and returns the kernel (n, m). An
        object with a method ``log_profile(r)``, the logarithm of a kernel that falls
        with the distance r, works too
        (``sklearn_crt.extend.ExponentialPowerRadial(1.2)``); ``tol`` needs this method.
    sigma : float, {"auto", "learned", "scale", "median"} or array-like, default="auto"
        Inverse length scale of ``"exact"`` and ``"prototypes"``, as in the samplers.
        ``"auto"`` is the multiple of ``"scale"``, from 1/2 (1/8 for prototypes) to 45,
        with the least leave-one-out squared error on up to 500 rows (2000 for
        prototypes): averages need a narrower kernel than linear models. ``"learned"``
        fits one number per column, see :func:`~sklearn_crt.learn_sigma`.
    nu : float, default=1.5
        Smoothness of ``kernel="matern"``.
    tol : float, default=0.0
        Tolerance of ``sampler="exact"``, in [0, 1): in total variation for
        probabilities, as a share of the range of the targets for regression. From 4000
        dense rows on, the rows are sorted into about 2 sqrt(n) clusters, and clusters
        of little weight are skipped, which is at least 10 times faster on 10^6
        clustered rows. Where too little can be skipped the sum is exact.
    bound : {"estimated", "certified"}, default="estimated"
        What ``tol`` promises. With ``"estimated"`` the mean error is at most tol / 2
        and 95 % of the errors are at most tol for queries like the training rows,
        judged by leaving 256 of those out; single queries may err more. With
        ``"certified"`` no query errs by more than ``tol`` (up to rounding), but fewer
        clusters are skipped.
    n_prototypes : int, default=128
        Number of points of ``sampler="prototypes"``, shared among the classes with at
        least one each. With as many points as rows the estimator is the exact one.
    clouds : bool, default=False
        Whether each prototype is a Gaussian as wide as the spread of its rows (Gaussian
        kernel only), which gives closer probabilities where the kernel is wide.
    random_state : int, RandomState instance or None, default=None
        Seed of a sampler whose own ``random_state`` is None, of k-means, and of the
        rows sampled for ``sigma="median"``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class, predicted where all kernel weights vanish.
    sampler_ : transformer, "exact", "prototypes" or None
        The fitted sampler.
    sigma_ : float or ndarray of shape (n_features,)
        The multiplier in use, of ``"exact"`` and ``"prototypes"``.
    prototypes_ : Centers
        Points and weights, of ``"prototypes"``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

    See Also
    --------
    NadarayaWatsonRegressor : The same average, of numbers.
    OPRFSampler : The sampler to start with: positive and of least variance.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` of weight :math:`w_j` [1]_ [2]_,

    .. math:: P(c \mid x) = \frac{\sum_j w_j K(x, x_j) [y_j = c]}
                                 {\sum_j w_j K(x, x_j)} .

    With features :math:`K(x, y) \approx f(x) \cdot g(y)` the sums over j are one
    vector per class, so fitting n rows costs O(n D), and the model holds D numbers per
    class ([3]_ section 5.2). Features are kept as logarithms: the largest exponent of
    each column is factored out, and cancels in the ratio.

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
    .. [2] G. S. Watson, "Smooth Regression Analysis", Sankhya A 26 (1964).
    .. [3] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler
    >>> X, y = load_iris(return_X_y=True)
    >>> sampler = OPRFSampler(sigma=2.0, n_components=500, random_state=0)
    >>> round(NadarayaWatsonClassifier(sampler).fit(X, y).score(X, y), 2)
    0.95
    >>> exact = NadarayaWatsonClassifier("exact", sigma=2.0).fit(X, y)
    >>> round(exact.score(X, y), 2)
    0.97

    Raw rows, which are no features, need a sampler or ``"exact"``; ``fit`` says so:

    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     model = NadarayaWatsonClassifier().fit(X, y)
    >>> print(str(caught[0].message).split(",")[0])
    The rows look like no features of a kernel
    """

    classes_: np.ndarray
    _class_counts: ClassCounts
    _y_checks: dict = {}

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(
        self,
        X: TableLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Add a batch of training rows.

        Up to about 4 million entries of X the sampler is fitted on all rows so far, and
        any order of batches equals ``fit`` on all of them. Beyond that, or after
        ``freeze()``, the map is fixed, the rows are forgotten, and memory stays
        constant.

        With ``"prototypes"`` the rows are then replaced by eight times as many points
        as there are to be prototypes, which absorb later rows. ``"exact"`` keeps all
        rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            More rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will occur; required in the first call.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        self : object
            The estimator.
        """
        classes = to_namespace_of(classes, None)
        with aside(self) as made:
            _check_partial_fit_first_call(made, classes)
            made._add(X, y, sample_weight, final=False)
        return self

    def _check_targets(self, y, first, final):
        check_classification_targets(y)
        xp = namespace_of(y)
        if final:
            classes, codes = xp.unique_inverse(y)
            self.classes_ = to_host(classes)
            return xp.reshape(codes, y.shape)
        self._check_known(to_host(xp.unique_values(y)))
        classes = to_namespace_of(self.classes_, y)
        if not on_host(y):
            classes = xp.astype(classes, y.dtype)
        return xp.searchsorted(classes, y)

    def _check_known(self, y):
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(
                f"y has the labels {unknown.tolist()}, which are not among "
                f"classes={self.classes_.tolist()} of the first call to partial_fit."
            )

    def _encoder(self):
        return OneHot(self.classes_.size)

    def _add_targets(self, codes, weights, first):
        counts = ClassCounts.of(codes, weights, self.classes_.size)
        self._class_counts = counts if first else self._class_counts + counts

    @property
    def class_count_(self) -> np.ndarray:
        """Sum of the sample weights of each class."""
        return to_fit_namespace(self, self._class_counts.sums)

    @property
    def class_prior_(self) -> np.ndarray:
        """Share of each class."""
        return to_fit_namespace(self, self._class_counts.shares)

    def _check_mergeable(self, other):
        if not np.array_equal(self.classes_, other.classes_):
            raise ValueError(
                f"merge needs the same classes, got {self.classes_.tolist()} and "
                f"{other.classes_.tolist()}. Give classes= to the first partial_fit."
            )

    def _merge_targets(self, other):
        self._class_counts = self._class_counts + other._class_counts

    def _decode(self, X, function, instead):
        """Return function(scores, log_scale, weight) of all rows, block after block.

        Scores are over exp(log_scale); where none is positive the prior stands. The
        weight is that of the average of a row beside the prior, None for 1.
        """
        blocks, n_unreliable = [], 0
        for _, (scores, log_scale, error) in self._score_blocks(X):
            xp, prior = (
                namespace_of(scores),
                asarray_like(self._class_counts.shares, scores),
            )
            empty = ~xp.any(scores > 0, axis=1)
            weight, unreliable = None, empty
            if error is not None:
                weight = trust(xp.sum(scores, axis=1), error)[:, None]
                unreliable = empty | (weight[:, 0] < 1)
            scores = xp.where(empty[:, None], prior, scores)
            log_scale = xp.where(empty[:, None], xp.zeros_like(log_scale), log_scale)
            blocks.append(function(scores, log_scale, weight))
            n_unreliable += int(xp.count_nonzero(unreliable))
        self._warn_unreliable(n_unreliable, instead)
        return joined(blocks)

    def _best_codes(self, scores):
        """Return the codes of largest score, of the prior where none is positive."""
        empty = ~np.any(scores > 0, axis=1)
        best = np.argmax(scores, axis=1)
        best[empty] = np.argmax(self._class_counts.shares)
        return best

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
        self._check_rows(X, "predict")
        instead = "the largest score counts, and the class prior where none is positive"
        codes = self._decode(X, _first, instead)
        if on_host(codes):
            return to_namespace_of(self.classes_[codes], X)
        classes = to_namespace_of(self.classes_, codes)
        if on_host(classes):  # strings
            return classes[to_host(codes)]
        return namespace_of(codes).take(classes, codes)

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
        self._check_rows(X, "predict_proba")

        def mixed(scores, _, weight):
            return _mix(scores, weight, asarray_like(self._class_counts.shares, scores))

        instead = "the class prior is predicted there, in part or altogether"
        return self._cast(self._decode(X, mixed, instead), X)

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
        self._check_rows(X, "decision_function")
        limit = 0.95 * math.log(np.finfo(self._float_type(X)).max)

        def decision(scores, log_scale, weight):
            xp = namespace_of(scores)
            if self.classes_.size == 2:
                prior = asarray_like(self._class_counts.shares, scores)
                shares = _mix(scores, weight, prior)
                return shares[:, 1] - shares[:, 0]
            peak = xp.max(xp.abs(scores), axis=1, keepdims=True)
            inside = clipped(log_scale + xp.log(peak), -limit, limit)
            return scores / peak * xp.exp(inside)

        instead = "scores are as they come, and the class prior where none is positive"
        return self._cast(self._decode(X, decision, instead), X)


def _first(scores, *_):
    """Return the codes of largest score."""
    return namespace_of(scores).argmax(scores, axis=1)


def _mix(scores, weight, prior):
    """Return the shares of the scores, mixed with the prior by weight and 1 - weight.

    Negative scores count as 0. The weight is raised to the least that leaves the class
    of largest score first: this is the one that ``predict`` returns.
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
