"""Displays of prediction intervals and of their coverage, which need matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_consistent_length, check_scalar

from ._quantiles import check_coverage

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["CoverageDisplay", "PredictionIntervalDisplay"]


_N_VALUES = 200  # values of the column at which predictions are made
_N_GROUPS = 10  # groups of rows by similarity


def __dir__() -> list[str]:
    return __all__


def _result(estimator: Any, method: str, X: Any, *options: Any) -> np.ndarray:
    """Return the result of a method of an estimator, or of the last of its steps."""
    if hasattr(estimator, "steps"):
        X = estimator[:-1].transform(X) if len(estimator.steps) > 1 else X
        estimator = estimator[-1]
    return np.asarray(getattr(estimator, method)(X, *options))


def _axes(ax: Any) -> Any:
    """Return the given axes, or those of a new figure."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(layout="constrained")
    return ax


@dataclass(eq=False, repr=False, kw_only=True)
class PredictionIntervalDisplay:
    """Predictions and prediction intervals along one column.

    Create it with :meth:`from_estimator`.

    Parameters
    ----------
    values : ndarray of shape (n_values,)
        Values of the column.
    predictions : ndarray of shape (n_values,)
        Predictions at these values.
    intervals : ndarray of shape (n_intervals, n_values, 2)
        Lower and upper ends of the intervals.
    coverages : sequence of float
        Requested coverage of each interval.
    feature_name : str, default=None
        Name of the column, which labels the axis.
    rows : tuple of two ndarray of shape (n_samples,), default=None
        Values of the column and targets of rows, drawn as points.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the bands.
    figure_ : matplotlib Figure
        The figure of these axes.
    bands_ : list of matplotlib collections
        One band per interval.
    line_ : matplotlib Line2D
        The line of the predictions.

    See Also
    --------
    CoverageDisplay : Whether the intervals contain as many targets as requested.
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
        """Draw predictions and intervals while one column varies.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_interval`` and one output, or a pipeline
            that ends in one.
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Rows. The column varies between its extremes in these rows, and the other
            columns have their medians.
        y : array-like of shape (n_samples,), default=None
            Targets of the rows, which are drawn as points if given.
        feature : int or str, default=0
            Position of the column, or its name in a DataFrame.
        coverages : sequence of float, default=(0.5, 0.9)
            Requested coverages, between 0 and 1.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones if None.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display, with the attributes ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If ``feature`` is not a column of X, a coverage is not between 0 and 1, or X
            and y have different lengths.
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
        names = list(X.columns) if hasattr(X, "iloc") else None  # of pandas
        rows = check_array(X)
        if isinstance(feature, str):
            if names is None or feature not in names:
                raise ValueError(
                    f"feature={feature!r} is no column of X. Pass the position of a "
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
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones if None.

        Returns
        -------
        display : PredictionIntervalDisplay
            The display itself.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        order = np.argsort(self.coverages)[::-1]  # wide bands are below narrow ones
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
    """Empirical coverage of prediction intervals against the requested coverage.

    Create it with :meth:`from_estimator`. One line is that of all rows. The others are
    those of the deciles of ``score_samples``, from the rows that are least similar to
    the training data to those that are most similar. For calibrated intervals all lines
    follow the diagonal, apart from random variation.

    Parameters
    ----------
    requested : ndarray of shape (n_coverages,)
        Requested coverages.
    observed : ndarray of shape (n_coverages,)
        Proportion of the targets inside the intervals.
    by_similarity : ndarray of shape (n_groups, n_coverages)
        The same for deciles of the rows, in ascending order of ``score_samples``.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes with the lines.
    figure_ : matplotlib Figure
        The figure of these axes.
    lines_ : list of matplotlib Line2D
        The lines of the groups, and that of all rows as the last one.

    See Also
    --------
    PredictionIntervalDisplay : The intervals along one column.
    sklearn.calibration.CalibrationDisplay : The same for class probabilities.
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
        """Compare the coverage of intervals on test rows with the requested one.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor with ``predict_interval``, ``score_samples`` and one
            output, or a pipeline that ends in one.
        X : {array-like, DataFrame} of shape (n_samples, n_features)
            Rows that the estimator was not fitted to.
        y : array-like of shape (n_samples,)
            Their targets.
        coverages : sequence of float, default=(0.1, 0.2, ..., 0.9)
            Requested coverages, between 0 and 1.
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones if None.

        Returns
        -------
        display : CoverageDisplay
            The display, with the attributes ``ax_`` and ``figure_``.

        Raises
        ------
        ValueError
            If a coverage is not between 0 and 1, or X and y have different lengths.
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
        """Draw the display.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; new ones if None.

        Returns
        -------
        display : CoverageDisplay
            The display itself.
        """
        import matplotlib.pyplot as plt

        self.ax_ = ax = _axes(ax)
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
