"""The models that a blend combines, with bounded predictions."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..averages import LocalLinearClassifier, LocalLinearRegressor
from ..life_cycle.fitted import LifeCycle, frozen_copy
from ..ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier

# predictions may exceed the range of the targets by this proportion of the range
_BEYOND = 0.2
_MOST_LOGISTIC = 10_000  # logistic regression is fitted to at most this many rows
_PENALTY = 0.3  # parameter C of logistic regression


class RidgeClassifierOfBlend(RandomFeatureRidgeClassifier):
    """Ridge classification for which a blend makes the out-of-fold predictions."""

    _recalibrates_few = False


class LocalLinearClassifierOfBlend(LocalLinearClassifier):
    """Local linear classification for which a blend makes these predictions."""

    _recalibrates_few = False


RIDGE = RandomFeatureRidge, RidgeClassifierOfBlend
LOCAL = LocalLinearRegressor, LocalLinearClassifierOfBlend


class TargetRange(NamedTuple):
    """The kind of prediction: numbers within a range, or class probabilities."""

    n_classes: int | None  # None for regression
    mean: np.ndarray  # (1,) mean of the targets, or (n_classes,) shares of the classes
    low: float = 0.0
    high: float = 1.0
    # Probabilities are mixed with the shares of the classes, with this weight.
    mixed: float = 0.0

    @classmethod
    def of(cls, y: np.ndarray, weights: np.ndarray, n_classes: int | None) -> Self:
        """Return the range for given targets, numbers or codes of classes.

        Predictions may exceed the range of numbers by a fifth. Probabilities are mixed
        with the shares of the classes as if these were observed in another row. Hence
        the log loss of a wrong prediction is finite, and totals hardly change.
        """
        share = weights / weights.sum()
        if n_classes is not None:
            shares = np.bincount(y, share, n_classes)
            return cls(n_classes, shares, mixed=1 / (len(y) + 1))
        low, high = float(y.min()), float(y.max())
        beyond = _BEYOND * (high - low)
        return cls(None, np.array([share @ y]), low - beyond, high + beyond)

    def bounded(self, found: np.ndarray) -> np.ndarray:
        """Return predictions within the range, (n, 1) or (n, n_classes)."""
        if self.n_classes is None:
            return np.clip(found.reshape(len(found), 1), self.low, self.high)
        return (1 - self.mixed) * found + self.mixed * self.mean

    def losses(self, found: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the squared error or the log loss of each row."""
        if self.n_classes is None:
            return (found[:, 0] - y) ** 2
        return -np.log(found[np.arange(len(y)), y])


class TableRows(NamedTuple):
    """Rows in a random order."""

    V: np.ndarray  # (n, d), as the reader returns them
    y: np.ndarray  # (n,), numbers or codes of classes
    weights: np.ndarray  # (n,), with mean 1
    groups: np.ndarray | None = None  # (n,), numbers of groups of dependent rows

    @classmethod
    def of(
        cls,
        V: np.ndarray,
        y: np.ndarray,
        weights: np.ndarray,
        factors: np.ndarray | None,
        seed: int,
        groups: np.ndarray | None = None,
    ) -> Self:
        """Return the rows with positive weight in a random order.

        The weight of each row is multiplied by the factor of its class.
        """
        weights = weights if factors is None else weights * factors[y]
        order = np.random.default_rng(seed).permutation(len(y))
        order = order[weights[order] > 0]
        weights = weights[order]
        if groups is not None:
            groups = np.unique(groups[order], return_inverse=True)[1]
        return cls(V[order], y[order], weights / weights.mean(), groups)

    def some(self, chosen: Any) -> TableRows:
        """Return the chosen rows."""
        groups = None if self.groups is None else self.groups[chosen]
        return TableRows(self.V[chosen], self.y[chosen], self.weights[chosen], groups)


class Part(NamedTuple):
    """One of the blended models, with bounded predictions and an optional map."""

    targets: TargetRange
    model: Any
    map: Any = None  # a transformer that is fitted to the rows and the targets
    most_rows: int | None = None

    def fitted(self, rows: TableRows) -> Part:
        """Return a copy that is fitted to the first ``most_rows`` rows."""
        rows = rows.some(slice(self.most_rows))
        V, given = rows.V, (rows.y, rows.weights)
        with warnings.catch_warnings():
            # of folds in which some classes have no rows
            warnings.filterwarnings("ignore", "The number of unique classes")
            warnings.simplefilter("ignore", ConvergenceWarning)
            # the model for tables warns once
            warnings.filterwarnings("ignore", ".* are copies of other rows")
            own = None if self.map is None else clone(self.map).fit(V, *given)
            V = features_of(own, V)
            model = clone(self.model).fit(V, *given)
        # without the rows that are only needed for adding others
        model, own = (
            frozen_copy(each) if isinstance(each, LifeCycle) else each
            for each in (model, own)
        )
        return self._replace(model=model, map=own)

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        V, numbers = features_of(self.map, V), self.targets.n_classes is None
        return self.bounded(
            self.model.predict(V) if numbers else self.model.predict_proba(V)
        )

    def bounded(self, found: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k), given those of the fitted model."""
        if self.targets.n_classes is None:
            return self.targets.bounded(found.astype(np.float64))
        # some classes may have no rows in a fold
        every = np.zeros((len(found), self.targets.n_classes))
        every[:, self.model.classes_] = found
        return self.targets.bounded(every)


def part_of(targets: TargetRange, kinds: Any, *args: Any, **options: Any) -> Part:
    """Return a part with the regressor or the classifier, as the targets require."""
    regressor, classifier = kinds
    kind = regressor if targets.n_classes is None else classifier
    return Part(targets, kind(*args, **options))


def features_of(transformer: Any, V: np.ndarray) -> np.ndarray:
    """Return the array that a transformer of this package computes, or V for None.

    Unlike ``transform``, the result does not depend on ``set_output``.
    """
    if transformer is None:
        return V
    return getattr(transformer, "estimator", transformer)._features(V)


def logistic_part(targets: TargetRange) -> Part:
    """Return logistic regression, which is not fitted yet."""
    # imported here, because only classifiers need it
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_PENALTY, max_iter=200)
    return Part(targets, model, most_rows=_MOST_LOGISTIC)
