"""Gradient boosting of decision trees, as one of the blended models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator

from .._compat import boosting_scores, gains_of_columns
from ..arrays.threads import openmp_for_rows
from ..life_cycle.intervals import weighted_quantiles

# histogram boosting has at most 255 categories, one of which represents all others
_MOST_LEVELS, _LEAST_COUNT = 254, 10
_MOST_BINS = 255  # of a column of numbers
# numbers of iterations: at first, and at most
_AT_FIRST, _MOST = 100, 300
# A tree is fitted for each class in each iteration. With many classes, the number of
# trees limits the number of iterations, and the learning rate is larger.
_MOST_TREES, _LEAST_ITERATIONS = 500, 20
_RATE, _MOST_RATE = 0.1, 0.3
_LARGEST_LEAF = 20  # minimum number of rows per leaf, with 400 rows or more


class Trees(BaseEstimator):
    """Histogram gradient boosting for rows that a table reader has converted.

    Columns are converted to codes once, for fitting and for predicting: numbers to the
    bins of their quantiles, and frequent categories to their positions. All other
    categories have the same code, and missing values remain missing.
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
        self._edges = [_bin_edges(V[:, j], sample_weight) for j in self._numbers]
        usual, _ = self.sizes
        options: dict[str, Any] = {
            "max_iter": self.n_iterations or usual,
            "learning_rate": min(_RATE * _AT_FIRST / usual, _MOST_RATE),
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
        codes = self._codes(V)
        equal = np.ptp(sample_weight) <= 1e-12 * sample_weight.max()
        with openmp_for_rows(len(V)):
            self._model.fit(codes, y, None if equal else sample_weight)
        return self

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of iterations to try in turn, until one is large enough."""
        n_trees = 1 if (self.n_classes or 1) == 2 else self.n_classes or 1
        most = max(_LEAST_ITERATIONS, _MOST_TREES // n_trees)
        return min(_AT_FIRST, most), min(_MOST, most)

    def staged(self, V: np.ndarray) -> Iterator[np.ndarray]:
        """Yield the predictions after each iteration, (n, 1) or (n, n_classes)."""
        with openmp_for_rows(len(V)):
            for scores in boosting_scores(self._model, self._codes(V), staged=True):
                yield self._predictions(scores)

    @property
    def classes_(self) -> np.ndarray:
        """The codes of the classes."""
        return self._model.classes_

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predicted numbers, (n, 1), or probabilities of ``classes_``."""
        if self.n_classes is not None and len(self.classes_) == 1:
            return np.ones((len(V), 1))
        with openmp_for_rows(len(V)):
            (scores,) = boosting_scores(self._model, self._codes(V))
        return self._predictions(scores)

    predict_proba = predict

    def _predictions(self, scores: np.ndarray) -> np.ndarray:
        """Return numbers or probabilities, given the sums over all trees, (n, k)."""
        if self.n_classes is None:
            return self._scale * scores + self._shift
        if scores.shape[1] == 1:
            second = expit(scores)
            return np.concatenate([1 - second, second], axis=1)
        return softmax(scores, axis=1)

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

    def _codes(self, V: np.ndarray) -> np.ndarray:
        """Return codes of categories, followed by those of numbers, (n, k).

        Boosting treats codes that it has not seen as missing values.
        """
        of_categories = zip(self._levels, self.categories, strict=True)
        of_numbers = zip(self._edges, self._numbers, strict=True)
        found = [_codes(levels, V[:, j]) for levels, j in of_categories]
        for edges, j in of_numbers:
            bins = np.searchsorted(edges, V[:, j])
            found.append(np.where(np.isnan(V[:, j]), np.nan, bins))
        return np.column_stack(found) if found else np.zeros((len(V), 1))


def _bin_edges(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the upper ends of all bins but the last one, for at most 255 bins.

    Boosting would find similar bins itself, but if rows have weights, this would take
    several times as long as all iterations together.
    """
    known = ~np.isnan(values)
    values, weights = values[known].astype(np.float64), weights[known]
    distinct = np.unique(values)
    if len(distinct) <= _MOST_BINS:
        with np.errstate(over="ignore"):
            return distinct[:-1] / 2 + distinct[1:] / 2
    levels = np.arange(1, _MOST_BINS) / _MOST_BINS
    return np.unique(weighted_quantiles(weights[None], values, levels))


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
