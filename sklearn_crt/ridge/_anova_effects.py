"""Predictions of models with an ANOVA kernel, split into effects of columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._compat import _check_feature_names_in, available_if
from ..rows import TableLike

_SHOWN = 5  # number of effects whose names are shown


class Effects(NamedTuple):
    """Effects of columns and of pairs of columns on the predictions."""

    values: np.ndarray  # (n_samples, n_effects) or (n_samples, n_effects, n_outputs)
    names: list[str]
    columns: list[tuple[int, ...]]
    intercept: float | np.ndarray

    @property
    def order(self) -> np.ndarray:
        """Positions of the effects, starting with the largest standard deviation."""
        sizes = self.values.reshape(*self.values.shape[:2], -1).std(axis=0).sum(axis=1)
        return np.argsort(-sizes, kind="stable")

    def __repr__(self) -> str:
        n_rows, n_effects = self.values.shape[:2]
        largest = ", ".join(repr(self.names[e]) for e in self.order[:_SHOWN])
        more = ", ..." if n_effects > _SHOWN else ""
        return f"<Effects: {n_effects} effects on {n_rows} rows, {largest}{more}>"

    def to_frame(self, output: int = 0) -> Any:
        """Return a pandas data frame with a column per effect, the largest ones first.

        With several outputs, the effects are those on the given output.
        """
        import pandas as pd

        values = self.values.reshape(*self.values.shape[:2], -1)[..., output]
        names = [self.names[e] for e in self.order]
        return pd.DataFrame(values[:, self.order], columns=names)


def _has_effects(estimator: Any) -> bool:
    is_fitted = estimator.__sklearn_is_fitted__()
    kernel = estimator._fit_params["kernel"] if is_fitted else estimator.kernel
    if not hasattr(kernel, "_reads_tables"):
        raise AttributeError(
            f"This {type(estimator).__name__} has no effects, because they require an "
            "ANOVA kernel. Pass kernel=AnovaSampler()."
        )
    return True


class EffectsMixin:
    """Mixin with the method ``effects``, which requires an ANOVA kernel."""

    _value: Any
    n_features_in_: int
    _validated: Any
    _expected: Any
    _query: Any

    @available_if(_has_effects)
    def effects(self, X: TableLike) -> Effects:
        """Split the predictions into effects of columns and of pairs of columns.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows whose predictions are explained.

        Returns
        -------
        effects : Effects
            A named tuple. The intercept and the effects sum to the predictions:

            - ``values``: ndarray of shape (n_samples, n_effects), or (n_samples,
              n_effects, n_outputs) with several outputs. Each effect has mean zero over
              the landmarks of the kernel.
            - ``names``: the columns of each effect, such as ``"age"`` and
              ``"age & income"``. The last effect is called ``"remainder"`` if there are
              interactions of more than two columns (``order_="all"``), or if
              predictions are limited to the range of the targets (``clip=True``). In
              the latter case it is zero for most rows.
            - ``columns``: the positions of the columns of each effect, as tuples.
            - ``order``: the positions of the effects, sorted by their standard
              deviations over the rows, starting with the largest.
            - ``to_frame()``: a pandas data frame with one column per effect in this
              order.
            - ``intercept``: float, or ndarray of shape (n_outputs,).

            For classifiers, the intercept and the effects sum to the predicted
            indicators of the classes (with two classes, to their difference), from
            which the class probabilities are computed.
        """
        model, rows = self._query(X, "effects")
        value = model._value
        solution, settings = value.solution, value.settings
        anova = solution.sampler._map_of_matrix
        values, shift = anova.effects(rows, solution.coef)
        intercept = solution.intercept + shift
        groups = anova.learned.encoding.groups
        columns = [
            tuple(j for owner in subset for j in groups[owner])
            for subset in anova.subsets
        ]
        labels = _check_feature_names_in(model)
        names = [" & ".join(labels[j] for j in each) for each in columns]
        if anova.learned.kernel.order == "all" or settings.clip:
            total = model._expected(value, rows)
            rest = total - intercept - values.sum(axis=1)
            values = np.concatenate([values, rest[:, None]], axis=1)
            names, columns = [*names, "remainder"], [*columns, ()]
        if values.shape[2] == 1:
            values, intercept = values[..., 0], float(intercept[0])
        return Effects(values, names, columns, intercept)

    def _effect_at(
        self, place: int, columns: tuple[int, ...], grid: list[np.ndarray], output: int
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return an effect at given values of its columns, and its standard deviation.

        For classifiers, the deviation is None.
        """
        solution = self._value.solution
        anova = solution.sampler._map_of_matrix
        V = np.zeros((grid[0].size, self.n_features_in_))
        for j, values in zip(columns, grid, strict=True):
            V[:, j] = values.ravel()
        features = anova.effect_features(V, anova.subsets[place])
        mean = features @ solution.coef[:, output]
        if solution.similarities is not None:  # classification
            return mean, None
        ratio = solution.variance(features + solution.z_mean) - solution.mean_variance
        noise = np.where(np.isfinite(solution.noise), solution.noise, np.nan)
        return mean, np.sqrt(noise * np.maximum(ratio, 0))[:, output]
