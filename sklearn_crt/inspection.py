"""Intervals of pipelines, displays of intervals, and the calibration error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import (
    check_array,
    check_consistent_length,
    check_scalar,
    column_or_1d,
)
from sklearn.utils.validation import check_is_fitted

from .life_cycle.intervals import check_coverage
from .rows import TableLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "CoverageDisplay",
    "PredictionIntervalDisplay",
    "expected_calibration_error",
    "predict_interval",
]
__dir__ = __all__.copy  # so that dir() shows only public names

_N_VALUES = 200  # number of values of the column for which targets are predicted
_N_GROUPS = 10  # number of groups of rows, formed by similarity to the training data


def predict_interval(
    estimator: Any, X: TableLike, *, coverage: float = 0.9
) -> np.ndarray:
    """Predict intervals with a fitted estimator, pipeline or search.

    Pipelines and searches of scikit-learn have no method ``predict_interval``. This
    function applies the steps of a pipeline before the last one to the rows, and calls
    the method of the last step, or that of the best estimator of a search.

    Parameters
    ----------
    estimator : estimator
        Fitted estimator with the method ``predict_interval``, or a fitted pipeline or
        search that contains it.
    X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
        Rows for which predictions are made, of the same kind as in ``fit``.
    coverage : float, default=0.9
        Proportion of new targets that the intervals should contain, between 0 and 1.

    Returns
    -------
    bounds : ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
        Lower and upper bounds of the intervals.

    Raises
    ------
    TypeError
        If the estimator has no prediction intervals.

    See Also
    --------
    CoverageDisplay : Plot of the coverage for test rows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from sklearn_crt import RandomFeatureRidge
    >>> from sklearn_crt.inspection import predict_interval
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = X[:, 0] + np.random.default_rng(1).normal(size=300)
    >>> model = make_pipeline(StandardScaler(), RandomFeatureRidge(random_state=0))
    >>> predict_interval(model.fit(X, y), X, coverage=0.8).shape
    (300, 2)
    """
    model, rows = _resolved(estimator, X)
    if not hasattr(type(model), "predict_interval"):
        raise TypeError(
            f"{model!r} has no method predict_interval. Regressors of sklearn_crt, "
            "such as RandomFeatureRidge and LocalLinearRegressor, have this method; a "
            "pipeline must end with one of them."
        )
    return model.predict_interval(rows, coverage)


def expected_calibration_error(
    y_true: ArrayLike,
    probabilities: ArrayLike,
    *,
    n_bins: int = 15,
    labels: ArrayLike | None = None,
) -> float:
    r"""Return the expected calibration error of class probabilities.

    A classifier is calibrated if a proportion p of the rows that it classifies with the
    confidence p is classified correctly. The error is the mean deviation from this,
    weighted by the number of rows. Lower is better, and 0 is the best value.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Class labels.
    probabilities : array-like of shape (n_samples, n_classes)
        Class probabilities, as returned by ``predict_proba``.
    n_bins : int, default=15
        Number of bins of equal width into which the confidences are divided.
    labels : array-like of shape (n_classes,), default=None
        Labels of the columns, such as ``classes_`` of a classifier. None means the
        distinct labels in ``y_true``, in ascending order.

    Returns
    -------
    error : float
        Number between 0 and 1.

    Raises
    ------
    ValueError
        If there are not as many columns as labels, if ``y_true`` contains another
        label, or if the probabilities of a row do not add up to 1.

    See Also
    --------
    sklearn.calibration.CalibrationDisplay : Reliability curve of a binary classifier.
    CoverageDisplay : Plot of the coverage of prediction intervals.

    Notes
    -----
    The confidence of a row is the largest of its class probabilities. For the rows of
    bin b, let :math:`a_b` be the proportion that is classified correctly and
    :math:`c_b` the mean confidence. With :math:`n_b` of n rows in the bin, the error is
    :math:`\sum_b (n_b / n) |a_b - c_b|` [1]_. Because each :math:`a_b` is random, even
    a calibrated classifier has a small positive error.

    References
    ----------
    .. [1] M. P. Naeini, G. Cooper, M. Hauskrecht, "Obtaining Well Calibrated
       Probabilities Using Bayesian Binning", AAAI 2015,
       `doi:10.1609/aaai.v29i1.9602 <https://doi.org/10.1609/aaai.v29i1.9602>`_.

    Examples
    --------
    Two rows are classified with confidence 0.9, one of them correctly, and two with
    confidence 0.6, both correctly:

    >>> from sklearn_crt.inspection import expected_calibration_error
    >>> probabilities = [[0.9, 0.1], [0.9, 0.1], [0.6, 0.4], [0.4, 0.6]]
    >>> round(expected_calibration_error([0, 1, 0, 1], probabilities), 3)
    0.4
    """
    shares: np.ndarray = check_array(probabilities, dtype=np.float64)
    y: np.ndarray = column_or_1d(y_true)
    check_consistent_length(y, shares)
    check_scalar(n_bins, "n_bins", Integral, min_val=1)
    classes = np.unique(y) if labels is None else np.asarray(column_or_1d(labels))
    if len(classes) != shares.shape[1]:
        raise ValueError(
            f"probabilities has {shares.shape[1]} columns, but there are "
            f"{len(classes)} labels. Pass the labels of the columns, such as "
            "labels=classifier.classes_."
        )
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise ValueError(
            f"y_true contains {unknown[0]}, which is not in labels={classes.tolist()}."
        )
    if np.any(shares < 0) or not np.allclose(shares.sum(axis=1), 1, atol=1e-3):
        raise ValueError(
            "The probabilities of each row must be non-negative and add up to 1, as "
            "those of predict_proba do."
        )
    confidence = shares.max(axis=1)
    hits = classes[shares.argmax(axis=1)] == y
    bins = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    gaps = np.bincount(bins, hits - confidence, n_bins)
    return float(np.abs(gaps).sum() / len(y))


def _resolved(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the last estimator in pipelines and searches, and the rows it predicts."""
    while True:
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif hasattr(estimator, "refit"):  # a search over parameters
            check_is_fitted(estimator, "best_estimator_")
            estimator = estimator.best_estimator_
        elif isinstance(estimator, Pipeline):
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator[-1]
        else:
            return estimator, X


def _result(estimator: Any, method: str, X: Any, *options: Any) -> np.ndarray:
    """Call a method of an estimator, or of the last step of a pipeline or search."""
    model, rows = _resolved(estimator, X)
    return np.asarray(getattr(model, method)(rows, *options))


def axes_or_new(ax: Any) -> Any:
    """Return the given axes, or the axes of a new figure if they are None."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax


@dataclass(eq=False, repr=False, kw_only=True)
class PredictionIntervalDisplay:
    """Plot of predictions and prediction intervals as a function of one column.

    Use :meth:`from_estimator` to create a display.

    Parameters
    ----------
    values : ndarray of shape (n_values,)
        Values of the column.
    predictions : ndarray of shape (n_values,)
        Predictions for these values.
    intervals : ndarray of shape (n_intervals, n_values, 2)
        Lower and upper bounds of the intervals.
    coverages : sequence of float
        Requested coverage of each interval.
    feature_name : str, default=None
        Name of the column, used as the label of the axis.
    rows : tuple of two ndarray of shape (n_samples,), default=None
        Values of the column and targets for some rows, which are plotted as points.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    bands_ : list of matplotlib collections
        One band per requested coverage, from the widest to the narrowest.
    line_ : matplotlib Line2D
        The line of the predictions.

    See Also
    --------
    CoverageDisplay : Plot of the observed against the requested coverage.
    """

    values: np.ndarray
    predictions: np.ndarray
    intervals: np.ndarray
    coverages: Sequence[float]
    feature_name: str | None = None
    rows: tuple[np.ndarray, np.ndarray] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike | None = None,
        *,
        feature: int | str = 0,
        coverages: Sequence[float] = (0.5, 0.9),
        ax: Axes | None = None,
    ) -> Self:
        """Plot predictions and prediction intervals as a function of one column.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_interval`` and one output, or a pipeline
            that ends in such a regressor.
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Rows from which the values of the columns are determined: the selected
            column varies from its minimum to its maximum, and the other columns are set
            to their medians.
        y : array-like of shape (n_samples,), default=None
            Targets of the rows. If given, the rows are plotted as points.
        feature : int or str, default=0
            Position of the column, or its name in a DataFrame.
        coverages : sequence of float, default=(0.5, 0.9)
            Requested coverages, between 0 and 1.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display, with the attributes ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If ``feature`` is not a column of X, if a coverage is not between 0 and 1,
            or if X and y have different lengths.
        AttributeError
            If the estimator has no prediction intervals.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import LocalLinearRegressor
        >>> from sklearn_crt.inspection import PredictionIntervalDisplay
        >>> x = np.random.default_rng(0).uniform(size=(300, 1))
        >>> model = LocalLinearRegressor().fit(x, np.sin(6 * x[:, 0]))
        >>> display = PredictionIntervalDisplay.from_estimator(model, x)
        >>> display.ax_.get_xlabel()
        'x0'
        """
        coverages = sorted(map(check_coverage, coverages))
        names = list(X.columns) if hasattr(X, "iloc") else None  # a pandas DataFrame
        rows = check_array(X)
        if isinstance(feature, str):
            if names is None or feature not in names:
                raise ValueError(
                    f"feature={feature!r} is not a column of X. Pass the position of a "
                    "column, or a DataFrame with a column of this name."
                )
            feature = names.index(feature)
        check_scalar(feature, "feature", Integral, min_val=0, max_val=rows.shape[1] - 1)
        own = rows[:, feature]
        grid: Any = np.tile(np.median(rows, axis=0), (_N_VALUES, 1))
        grid[:, feature] = np.linspace(own.min(), own.max(), _N_VALUES)
        values = grid[:, feature]
        if names is not None:
            grid = type(X)(grid, columns=names)
        if y is not None:
            check_consistent_length(X, y)
        display = cls(
            values=values,
            predictions=np.asarray(estimator.predict(grid)),
            intervals=np.stack(
                [_result(estimator, "predict_interval", grid, c) for c in coverages]
            ),
            coverages=coverages,
            feature_name=f"x{feature}" if names is None else str(names[feature]),
            rows=None if y is None else (own, np.asarray(y)),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot the predictions and the intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display itself.
        """
        self.ax_ = ax = axes_or_new(ax)
        self.figure_ = ax.figure
        order = np.argsort(self.coverages)[::-1]  # narrow bands are drawn last, on top
        self.bands_ = [
            ax.fill_between(
                self.values,
                *self.intervals[k].T,
                color="C0",
                alpha=0.25,
                linewidth=0,
                label=f"{self.coverages[k]:.0%} interval",
            )
            for k in order
        ]
        lines = ax.plot(self.values, self.predictions, "C0", label="prediction")
        self.line_: Any = lines[0]
        if self.rows is not None:
            ax.scatter(*self.rows, s=6, color="0.4", zorder=1, label="rows")
        ax.set(xlabel=self.feature_name, ylabel="target")
        ax.legend()
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class CoverageDisplay:
    """Plot of the observed against the requested coverage of prediction intervals.

    Use :meth:`from_estimator` to create a display. One line shows the coverage over all
    rows. Each of the other lines shows the coverage for one decile of
    ``score_samples``, from the rows that are least similar to the training data to the
    rows that are most similar. If the intervals are calibrated, all lines follow the
    diagonal, apart from random variation.

    Parameters
    ----------
    requested : ndarray of shape (n_coverages,)
        Requested coverages.
    observed : ndarray of shape (n_coverages,)
        Proportion of the targets inside the intervals, for each requested coverage.
    by_similarity : ndarray of shape (n_groups, n_coverages)
        Proportion of the targets inside the intervals for each decile of the rows, in
        ascending order of ``score_samples``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the plot.
    figure_ : matplotlib Figure
        The figure that contains the axes.
    lines_ : list of matplotlib Line2D
        The lines of the deciles, followed by the line of all rows.

    See Also
    --------
    PredictionIntervalDisplay : Plot of the intervals as a function of one column.
    sklearn.calibration.CalibrationDisplay : Calibration curve of class probabilities.
    """

    requested: np.ndarray
    observed: np.ndarray
    by_similarity: np.ndarray

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        coverages: Sequence[float] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
        ax: Axes | None = None,
    ) -> Self:
        """Plot the coverage of prediction intervals on test data.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_interval``, ``score_samples`` and one
            output, or a pipeline that ends in such a regressor.
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Test data, which must not contain training rows.
        y : array-like of shape (n_samples,)
            Targets of the test data.
        coverages : sequence of float, default=(0.1, 0.2, ..., 0.9)
            Requested coverages, between 0 and 1.
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        display : CoverageDisplay
            The display, with the attributes ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If a coverage is not between 0 and 1, or if X and y have different lengths.
        AttributeError
            If the estimator has no prediction intervals or no ``score_samples``.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import LocalLinearRegressor
        >>> from sklearn_crt.inspection import CoverageDisplay
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=(2000, 1))
        >>> y = np.sin(6 * x[:, 0]) + 0.1 * rng.normal(size=2000)
        >>> model = LocalLinearRegressor().fit(x[::2], y[::2])
        >>> display = CoverageDisplay.from_estimator(model, x[1::2], y[1::2])
        >>> bool(abs(display.observed - display.requested).max() < 0.06)
        True
        """
        requested = np.array(sorted(map(check_coverage, coverages)))
        check_consistent_length(X, y)
        targets = np.asarray(y)
        ends = [_result(estimator, "predict_interval", X, c) for c in requested]
        inside = np.stack([(e[:, 0] <= targets) & (targets <= e[:, 1]) for e in ends])
        order = np.argsort(_result(estimator, "score_samples", X), kind="stable")
        groups = np.array_split(order, min(_N_GROUPS, len(order)))
        display = cls(
            requested=requested,
            observed=inside.mean(axis=1),
            by_similarity=np.stack([inside[:, own].mean(axis=1) for own in groups]),
        )
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Plot the coverage.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. If None, a new figure is created.

        Returns
        -------
        display : CoverageDisplay
            The display itself.
        """
        import matplotlib.pyplot as plt

        self.ax_ = ax = axes_or_new(ax)
        self.figure_ = ax.figure
        ax.plot([0, 1], [0, 1], "k:", linewidth=1)
        n_groups = len(self.by_similarity)
        colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, n_groups))
        labels = {0: "least similar rows", n_groups - 1: "most similar rows"}
        self.lines_ = [
            ax.plot(self.requested, own, color=color, linewidth=1, label=labels.get(k))[
                0
            ]
            for k, (own, color) in enumerate(
                zip(self.by_similarity, colors, strict=True)
            )
        ]
        self.lines_ += ax.plot(self.requested, self.observed, "ko-", label="all rows")
        ax.set(xlabel="requested coverage", ylabel="proportion of targets inside")
        ax.legend()
        return self
