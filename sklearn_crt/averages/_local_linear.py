"""Local linear averages: a weighted linear fit at each query."""

from __future__ import annotations

from numbers import Real
from typing import Literal

import numpy as np

from .._array import (
    constant,
    joined,
    namespace_of,
    validate_rows,
)
from .._compat import Interval, StrOptions
from .._state import same
from ..rows import TableLike
from ._base import BaseNadarayaWatson
from ._classifier import NadarayaWatsonClassifier
from ._exact import KERNEL_NAMES, ExactKernel, RowAverages
from ._prototypes import Prototypes
from ._regressor import NadarayaWatsonRegressor
from ._targets import LocalLinear, Slopes

_MOST_COLUMNS = 40  # which have 860 moments
RowKernelLike = (
    ExactKernel | Prototypes | Literal["gaussian", "laplacian", "matern"] | None
)


class LocalLinearMixin(BaseNadarayaWatson):
    """What local fits to labels and to numbers share: the penalty and the slopes."""

    _value: RowAverages
    ridge: float | Literal["auto"]
    _parameter_constraints: dict = {
        "kernel": [StrOptions(set(KERNEL_NAMES)), ExactKernel, Prototypes, None],
        "ridge": [StrOptions({"auto"}), Interval(Real, 0, None, closed="both")],
    }

    def _encoder(self):
        if self.n_features_in_ > _MOST_COLUMNS:
            raise ValueError(
                f"X has {self.n_features_in_} features, and local linear averages take "
                f"at most {_MOST_COLUMNS}: put LearnedMetric(n_components=20) or "
                "PCA(n_components=20) in front."
            )
        plain = super()._encoder()  # of the other base
        return LocalLinear(plain, self.ridge)

    def _check_same_model(self, other):
        super()._check_same_model(other)
        if not same(self.ridge, other.ridge):
            raise ValueError(
                f"merge needs the same ridge on both sides, got {self.ridge!r} and "
                f"{other.ridge!r}."
            )

    @property
    def ridge_(self) -> float:
        """The ridge, infinite where the plain average was chosen."""
        return float(getattr(self._value.chosen_targets, "ridge", np.inf))

    def slopes(self, X: TableLike) -> np.ndarray:
        r"""Return the slopes of the linear fits, the partial effects of the columns.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        slopes : ndarray of shape (n_samples, n_features, n_outputs)
            Change of each output, or of the probability of each class, per unit of each
            column: the fit's estimate of the gradient at the row. Zero where the plain
            average was chosen (``ridge_`` is infinite); give a number for ``ridge`` to
            see slopes there.

        Notes
        -----
        These are the slopes of the plane that is fitted at the row with its weights
        held fixed. The derivative of ``predict`` has a second part, from weights that
        change with the row.
        """
        value = self._check_rows(X, "slopes")
        targets, n_features = value.chosen_targets, self.n_features_in_
        if isinstance(targets, LocalLinear):
            value = value.with_targets(Slopes(targets.plain, targets.ridge))
            sums = [sums.scores for _, sums in self._blocks_of_sums(value, X)]
            values = joined(sums)
        else:
            rows = validate_rows(self, X, reset=False)
            size = rows.shape[0], n_features * targets.n_averages
            values = constant(size, 0.0, rows)
        shape = values.shape[0], n_features, targets.n_averages
        return self._cast(namespace_of(values).reshape(values, shape), X)


class LocalLinearRegressor(LocalLinearMixin, NadarayaWatsonRegressor):
    r"""Kernel-weighted linear fits to the training targets (LOESS).

    At each query a plane is fitted to the training rows, with weights that fall with
    the distance. Where :class:`NadarayaWatsonRegressor` takes their average, which is
    drawn to the middle of the data at an edge and on a slope, this takes the value of
    the plane: linear targets are found exactly, with any kernel and bandwidth.

    Parameters
    ----------
    kernel : ExactKernel, Prototypes or str, default=None
        Where the weights come from; None is ``ExactKernel()``, and names are its
        kernels. :class:`Prototypes` keeps sums of squares and products for each
        point in place of rows: one pass, batches, ``merge``.
    ridge : float or "auto", default="auto"
        Penalty of the slopes, as a share of the mean local variance of the columns: 0
        for none, infinity for the plain average. ``"auto"`` is the one of these two and
        the powers of ten from 0.0001 to 10 with the least leave-one-out error, chosen
        together with ``sigma="auto"`` of the kernel; the plain average where none errs
        less by more than one standard error.
    clip : bool, default=False
        Whether to keep predictions in the range of the training targets. Planes may
        leave it, most of all outside the training rows.

    Attributes
    ----------
    ridge_ : float
        The penalty, infinite where the plain average was chosen.
    y_mean_ : ndarray of shape (n_outputs,)
        Weighted mean of each target, predicted where all kernel weights vanish.
    kernel_ : ExactKernel or Prototypes
        The fitted kernel, with ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    LocalLinearClassifier : The same for labels.
    LearnedMetric : Directions in which the targets change: put it in front.
    NadarayaWatsonRegressor : Weighted averages.

    Notes
    -----
    With weights :math:`w_j` of sum one, m and t the weighted means of the rows
    :math:`x_j` and the targets :math:`y_j`,

    .. math::
        \hat y(x) = t + B^\top (x - m), \quad B = (G + \lambda I)^{-1} c,

    .. math::
        G = \sum_j w_j (x_j - m)(x_j - m)^\top, \quad
        c = \sum_j w_j (x_j - m)(y_j - t)^\top,

    with :math:`\lambda = \rho\, \mathrm{tr}(G) / d + 10^{-7} / \sigma^2` for the ridge
    :math:`\rho` ([1]_, and [2]_ section 6.3); with a ridge of 0, :math:`\lambda` is
    above rounding error only. The columns count as multiplied by sigma. All sums are in
    float64. A query costs d^2 / 2 times the time of an average, so d is at most 40.

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

    The slope of the sine is its cosine:

    >>> np.round([model.slopes([[1.0]])[0, 0, 0], np.cos(1.0)], 2)
    array([0.54, 0.54])
    """

    _parameter_constraints = {
        **LocalLinearMixin._parameter_constraints,
        "clip": ["boolean"],
    }

    def __init__(
        self,
        kernel: RowKernelLike = None,
        *,
        ridge: float | Literal["auto"] = "auto",
        clip: bool = False,
    ):
        self.kernel = kernel
        self.ridge = ridge
        self.clip = clip

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the values of the fits at the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            In float64 also for float32 rows: targets may need their digits.
        """
        return super().predict(X)

    def _decode(self, value, X):
        predictions = super()._decode(value, X)
        return value.seen.clipped(predictions) if self.clip else predictions


class LocalLinearClassifier(LocalLinearMixin, NadarayaWatsonClassifier):
    r"""Class probabilities from kernel-weighted linear fits to the training labels.

    Each class is a column of zeros and ones, to which :class:`LocalLinearRegressor`
    fits a plane at each query; negative values count as 0, and the others are divided
    by their sum. Near a boundary between classes this follows the slope of the
    probabilities, where averages are drawn to the side with more rows.

    Parameters
    ----------
    kernel : ExactKernel, Prototypes or str, default=None
        Where the weights come from; None is ``ExactKernel()``, and names are its
        kernels. :class:`Prototypes` keeps sums of squares and products for each
        point in place of rows: one pass, batches, ``merge``.
    ridge : float or "auto", default="auto"
        Penalty of the slopes, as a share of the mean local variance of the columns: 0
        for none, infinity for the plain average. ``"auto"`` is the one of these two and
        the powers of ten from 0.0001 to 10 with the least leave-one-out error, chosen
        together with ``sigma="auto"`` of the kernel; the plain average where none errs
        less by more than one standard error.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class.
    class_prior_ : ndarray of shape (n_classes,)
        Share of each class, predicted where all kernel weights vanish.
    ridge_ : float
        The penalty, infinite where the plain average was chosen.
    kernel_ : ExactKernel or Prototypes
        The fitted kernel, with ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    LocalLinearRegressor : The formulas, and the same for numbers.
    LearnedMetric : Directions in which the classes differ: put it in front.
    NadarayaWatsonClassifier : Weighted frequencies.

    References
    ----------
    .. [1] T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical
       Learning", 2nd edition, Springer 2009, section 6.3.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn_crt import LocalLinearClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalLinearClassifier().fit(X[::2], y[::2])
    >>> round(model.score(X[1::2], y[1::2]), 2)
    0.96
    """

    _parameter_constraints = LocalLinearMixin._parameter_constraints

    def __init__(
        self, kernel: RowKernelLike = None, *, ridge: float | Literal["auto"] = "auto"
    ):
        self.kernel = kernel
        self.ridge = ridge

    def decision_function(self, X: TableLike) -> np.ndarray:
        """Return the class scores: values of the fits, times sums of the weights.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes) or (n_samples,)
            Of either sign; scaled into the range of the type. With two classes there is
            one number per row: the difference of the probabilities.
        """
        return super().decision_function(X)
