"""Gradient boosting of decision trees, as one of the blended models."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._compat import gains_of_columns
from ..arrays.threads import openmp_for_rows

# histogram boosting has at most 255 categories, one of which represents all others
_MOST_LEVELS, _LEAST_COUNT = 254, 10
# numbers of iterations: at first, and at most
_AT_FIRST, _MOST = 100, 300
# A tree is fitted for each class in each iteration. With many classes, the number of
# trees limits the number of iterations, and the learning rate is larger.
_MOST_TREES, _LEAST_ITERATIONS = 500, 20
_RATE, _MOST_RATE = 0.1, 0.3
_LARGEST_LEAF = 20  # minimum number of rows per leaf, with 400 rows or more


class Trees(BaseEstimator):
    """Histogram gradient boosting for rows that a table reader has converted.

    Frequent categories are passed on as categories, and all others form one category.
    Missing values remain missing.
    """

    def __init__(
        self,
        categories: tuple[int, ...],
        n_classes: int | None,
        n_iterations: int | None = None,
        random_state: int = 0,
    ):
        self.categories = categories
        self.n_classes = n_classes  # None for regression
        self.n_iterations = n_iterations
        self.random_state = random_state

    def fit(self, V: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> Self:
        """Fit to numbers, or to codes of classes."""
        # imported here, because the import takes long
        from sklearn.ensemble import (
            HistGradientBoostingClassifier,
            HistGradientBoostingRegressor,
        )

        known = np.flatnonzero(~np.isnan(V).all(axis=0))
        self._numbers = np.setdiff1d(known, self.categories)
        self._n_columns = V.shape[1]
        self._levels = [_frequent_levels(V[:, j]) for j in self.categories]
        most = self._most_iterations(_AT_FIRST)
        options: dict[str, Any] = {
            "max_iter": self.n_iterations or most,
            "learning_rate": min(_RATE * _AT_FIRST / most, _MOST_RATE),
            "min_samples_leaf": min(max(len(V) // 20, 5), _LARGEST_LEAF),
            "categorical_features": [*range(len(self.categories))] or None,
            "early_stopping": False,
            "random_state": self.random_state,
        }
        self._shift, self._scale = 0.0, 1.0
        if self.n_classes is None:
            share = sample_weight / sample_weight.sum()
            self._shift = float(share @ y)
            self._scale = float(np.sqrt(share @ (y - self._shift) ** 2)) or 1.0
            y = (y - self._shift) / self._scale
            self._model = HistGradientBoostingRegressor(**options)
        else:
            self._model = HistGradientBoostingClassifier(**options)
        with openmp_for_rows(len(V)):
            self._model.fit(self._columns(V), y, sample_weight)
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of iterations to try, each if the one before is too small."""
        return self._most_iterations(_AT_FIRST), self._most_iterations(_MOST)

    def with_size(self, n_iterations: int) -> Trees:
        """Return an unfitted copy with a number of iterations."""
        return clone(self).set_params(n_iterations=n_iterations)

    def _most_iterations(self, most: int) -> int:
        """Return the largest number of iterations, at most the given one."""
        n_trees = 1 if (self.n_classes or 1) == 2 else self.n_classes or 1
        return min(most, max(_LEAST_ITERATIONS, _MOST_TREES // n_trees))

    def staged(self, V: np.ndarray) -> list[np.ndarray]:
        """Return the predictions after each iteration, (n,) or (n, n_classes)."""
        with openmp_for_rows(len(V)):
            if self.n_classes is not None:
                return [*self._model.staged_predict_proba(self._columns(V))]
            stages = self._model.staged_predict(self._columns(V))
            return [self._scale * stage + self._shift for stage in stages]

    @property
    def classes_(self) -> np.ndarray:
        """The codes of the classes."""
        return self._model.classes_

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predicted numbers, (n,)."""
        with openmp_for_rows(len(V)):
            return self._scale * self._model.predict(self._columns(V)) + self._shift

    def predict_proba(self, V: np.ndarray) -> np.ndarray:
        """Return probabilities of ``classes_``, (n, n_classes)."""
        if len(self.classes_) == 1:
            return np.ones((len(V), 1))
        with openmp_for_rows(len(V)):
            return self._model.predict_proba(self._columns(V))

    @property
    def importances(self) -> np.ndarray:
        """The importance of each column, (n_columns,); the importances sum to 1.

        They are square roots of the reduction of the loss, so that they are comparable
        to the standard deviations of effects.
        """
        order = np.append(np.array(self.categories, np.intp), self._numbers)
        found = np.zeros(self._n_columns)
        if len(order):
            found[order] = np.sqrt(gains_of_columns(self._model, len(order)))
        return found / (found.sum() or 1.0)

    def _columns(self, V: np.ndarray) -> np.ndarray:
        """Return codes of categories, followed by numbers."""
        chosen = zip(self._levels, self.categories, strict=True)
        codes = [_codes(levels, V[:, j]) for levels, j in chosen]
        found = np.column_stack([*codes, V[:, self._numbers]])
        return found if found.shape[1] else np.zeros((len(V), 1))


def _frequent_levels(values: np.ndarray) -> np.ndarray:
    """Return the most frequent categories in increasing order."""
    levels, counts = np.unique(values[~np.isnan(values)], return_counts=True)
    levels, counts = (each[counts >= _LEAST_COUNT] for each in (levels, counts))
    return np.sort(levels[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]])


def _codes(levels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Return the position of each value in ``levels``, or their number for others."""
    if not len(levels):
        return np.where(np.isnan(values), np.nan, 0.0)
    places = np.minimum(np.searchsorted(levels, values), len(levels) - 1)
    codes = np.where(levels[places] == values, places, len(levels)).astype(np.float64)
    codes[np.isnan(values)] = np.nan
    return codes
