"""Plots of the effects of columns on predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from ..rows import TableLike
from ..rows.raw_table import CATEGORY, codes_of, each_column
from ..rows.targets import is_missing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GRID, _GRID_OF_PAIRS, _MOST_LEVELS = 100, 30, 12


class _Axis(NamedTuple):
    """The values of a column at which an effect is evaluated."""

    name: str
    values: np.ndarray  # as the reader returns them
    labels: list[str] | None  # category names; None for numbers


class _Panel(NamedTuple):
    """An effect, evaluated on a grid of values of one or two columns.

    Without columns, it is the remainder, evaluated at the rows.
    """

    name: str
    axes: list[_Axis]
    effect: np.ndarray  # (n,) or (n, m)
    deviation: np.ndarray | None  # (n,), None if unknown


class EffectsDisplay:
    """Plots of the largest effects of columns on the predictions of a model.

    Use :meth:`from_estimator` to create a display. By default, each of the largest
    effects of the model is drawn in its own panel: as a curve with a band of two
    standard deviations on each side for a numeric column, as points with error bars for
    a categorical column, and as a heat map for a pair of columns. If the remainder
    varies more than each of the effects, a histogram shows its values. For a single
    row, bars show the effects that add up to its prediction.

    Parameters
    ----------
    panels : list
        Effects that are drawn as curves, points, heat maps and histograms.
    bars : list of tuple of str and float
        Names and values of the effects on the prediction for a single row.
    title : str
        Title of the figure, which includes the value to which the effects are added.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes
        The axes with the panels or the bars.
    figure_ : matplotlib Figure
        The figure that contains the axes.

    See Also
    --------
    sklearn_crt.AnovaSampler : The kernel whose effects are drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import AnovaSampler, RandomFeatureRidge
    >>> from sklearn_crt.tables import EffectsDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, size=(300, 2))
    >>> y = np.sin(2 * X[:, 0]) + X[:, 1]
    >>> model = RandomFeatureRidge(AnovaSampler(random_state=0)).fit(X, y)
    >>> display = EffectsDisplay.from_estimator(model, X, n_effects=2)
    >>> [ax.get_title() for ax in display.axes_]
    ['x1', 'x0']
    """

    def __init__(self, *, panels: list, bars: list[tuple[str, float]], title: str):
        self.panels = panels
        self.bars = bars
        self.title = title

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: TableLike,
        *,
        n_effects: int = 6,
        row: Any = None,
        output: int = 0,
        ax: Axes | None = None,
    ) -> Self:
        """Plot the largest effects on the predictions for some rows.

        Parameters
        ----------
        estimator : RandomFeatureRidge, RandomFeatureRidgeClassifier, TableRegressor \
or TableClassifier
            A fitted model; the kernel of a ridge model must be an ``AnovaSampler``.
            Bands and error bars are drawn for ``RandomFeatureRidge`` only.
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows. Effects are ordered by their standard deviation over these rows, and
            are drawn over the range of values that the columns have in these rows.
        n_effects : int, default=6
            Number of effects to draw, starting with the largest.
        row : int or label, default=None
            Position of a row of X whose prediction is explained, or a label of the
            index of a pandas data frame. An integer is a label if the index has it, and
            a position otherwise. If None, the effects of the model are drawn.
        output : int, default=0
            Position of the output or, for classifiers with three or more classes, of
            the class in ``classes_``.
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one per panel. If None, new axes are created.

        Returns
        -------
        display : EffectsDisplay
            The plotted display.
        """
        effects = estimator.effects(X)
        values = effects.values.reshape(*effects.values.shape[:2], -1)[..., output]
        intercept = np.ravel(effects.intercept)[output]
        if row is not None:
            row = _position_of(row, X)
            chosen = np.argsort(-np.abs(values[row]), kind="stable")[:n_effects]
            cells = [next(iter(column[row : row + 1])) for column in each_column(X)]
            bars = [
                (
                    " & ".join(
                        f"{_name(estimator, X, j)} = {_shown(cells[j])}"
                        for j in effects.columns[e]
                    )
                    or effects.names[e],
                    float(values[row, e]),
                )
                for e in chosen
            ]
            total = float(values[row].sum() + intercept)
            title = f"prediction {total:.4g}, intercept {intercept:.4g}"
            return cls(panels=[], bars=bars, title=title).plot(ax=ax)
        panels: list[_Panel] = []
        order = np.argsort(-values.std(axis=0), kind="stable")
        for e in order:
            columns = effects.columns[e]
            if not columns and e == order[0]:
                panels.append(_Panel(effects.names[e], [], values[:, e], None))
            if len(columns) in (1, 2) and len(panels) < n_effects:
                axes = [_axis(estimator, X, j, len(columns)) for j in columns]
                shape = [len(axis.values) for axis in axes]
                grid = np.meshgrid(*(axis.values for axis in axes), indexing="ij")
                at = int(e), columns, grid, output
                mean, deviation = estimator._effect_at(*at)
                mean = mean.reshape(shape)
                panels.append(_Panel(effects.names[e], axes, mean, deviation))
        title = f"effects, to be added to {intercept:.4g}"
        return cls(panels=panels, bars=[], title=title).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the effects.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            Axes to draw on, one per panel. If None, new axes are created.

        Returns
        -------
        display : EffectsDisplay
            This display.
        """
        n_panels = max(len(self.panels), 1)
        if ax is None:
            import matplotlib.pyplot as plt

            n_columns = min(3, n_panels)
            n_rows = -(-n_panels // n_columns)
            size = (4 * n_columns, 3 * n_rows)
            figure, grid = plt.subplots(
                n_rows, n_columns, figsize=size, layout="constrained", squeeze=False
            )
            figure.suptitle(self.title)
            for spare in grid.ravel()[n_panels:]:
                spare.remove()
            ax = grid.ravel()[:n_panels]
        self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object)).ravel()
        self.figure_ = self.axes_[0].figure
        if len(self.axes_) < n_panels:
            raise ValueError(
                f"ax has {len(self.axes_)} axes, but there are {n_panels} panels. Pass "
                "one for each, or set n_effects."
            )
        if self.bars:
            names, values = zip(*self.bars[::-1], strict=True)
            self.axes_[0].barh(names, values)
            self.axes_[0].axvline(0, color="black", linewidth=0.8)
            self.axes_[0].set(xlabel="effect", ylabel="columns")
        for panel, axes in zip(self.panels, self.axes_, strict=False):
            _draw_panel(panel, axes)
        return self


def _position_of(row: Any, X: Any) -> int:
    """Return the position of a row that is given by its position or label."""
    index: Any = getattr(X, "index", None)
    if hasattr(X, "iloc") and row in index:
        found = index.get_indexer_for([row])
        if len(found) > 1:
            raise ValueError(
                f"row={row!r} is the label of {len(found)} rows of X. Pass a table "
                "whose index has unique labels, or X.reset_index(drop=True)."
            )
        return int(found[0])
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if not isinstance(row, (int, np.integer)) or not -n_rows <= row < n_rows:
        raise ValueError(
            f"row={row!r} must be a position from 0 to {n_rows - 1}, or a label of the "
            "index of X."
        )
    return int(row) % n_rows


def _name(estimator: Any, X: Any, j: int) -> str:
    """Return the name of a column for plots."""
    return str(estimator._reader.names[j]) if hasattr(X, "columns") else f"x{j}"


def _shown(value: Any) -> str:
    """Return a cell of a table as text."""
    if is_missing(value):
        return "missing"
    number = isinstance(value, (float, np.floating))
    return f"{value:.4g}" if number else str(value)


def _draw_panel(panel: _Panel, ax: Any) -> None:
    """Draw the effect of one or two columns."""
    ax.set_title(panel.name)
    if not panel.axes:
        ax.hist(panel.effect, bins=30)
        ax.set(xlabel="effect", ylabel="number of rows")
        return
    ax.set_xlabel(panel.axes[-1].name)
    if len(panel.axes) == 2:
        first, second = panel.axes
        most = float(np.abs(panel.effect).max()) or 1.0
        places = [
            axis.values if axis.labels is None else np.arange(len(axis.values))
            for axis in (second, first)
        ]
        options = {"cmap": "RdBu_r", "vmin": -most, "vmax": most, "shading": "nearest"}
        mesh = ax.pcolormesh(*places, panel.effect, **options)
        ax.figure.colorbar(mesh, ax=ax, label="effect")
        ax.set_ylabel(first.name)
        _label(ax.yaxis, first)
    else:
        (axis,) = panel.axes
        band = None if panel.deviation is None else 2 * panel.deviation
        if axis.labels is None:
            ax.plot(axis.values, panel.effect)
            if band is not None:
                ends = panel.effect - band, panel.effect + band
                ax.fill_between(axis.values, *ends, alpha=0.3)
        else:
            ax.errorbar(np.arange(len(axis.values)), panel.effect, band, fmt="o")
        ax.set_ylabel("effect")
    _label(ax.xaxis, panel.axes[-1])


def _label(axis_of_plot: Any, axis: _Axis) -> None:
    """Label an axis with the categories of a column."""
    if axis.labels is not None:
        axis_of_plot.set_ticks(np.arange(len(axis.labels)), axis.labels)


def _axis(estimator: Any, X: Any, j: int, n_columns: int) -> _Axis:
    """Return the values of a table's column at which effects are evaluated."""
    reader = estimator._reader
    column = next(c for place, c in enumerate(each_column(X)) if place == j)
    name = _name(estimator, X, j)
    if reader.kinds[j] == CATEGORY:
        codes, texts = codes_of(column), np.asarray(column, dtype=object)
        found, first, counts = np.unique(codes, return_index=True, return_counts=True)
        chosen = np.sort(np.argsort(-counts, kind="stable")[:_MOST_LEVELS])
        labels = [
            "missing" if np.isnan(found[each]) else str(texts[first[each]])
            for each in chosen
        ]
        return _Axis(name, found[chosen], labels)
    numbers = reader.read_column(column, j)
    distinct = np.unique(numbers[~np.isnan(numbers)])
    n_points = _GRID if n_columns == 1 else _GRID_OF_PAIRS
    if len(distinct) > n_points:
        low, high = np.quantile(numbers[~np.isnan(numbers)], [0.01, 0.99])
        distinct = np.linspace(low, high, n_points)
    return _Axis(name, distinct if len(distinct) else np.zeros(1), None)
