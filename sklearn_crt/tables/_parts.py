"""The models that a blend combines, with bounded predictions."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import linalg, sparse
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning

from .._compat import boosting_scores, gains_of_columns
from .._values import Value
from ..arrays.threads import openmp_for_rows
from ..averages import LocalLinearClassifier, LocalLinearRegressor
from ..life_cycle.fitted import frozen_copy
from ..life_cycle.intervals import weighted_quantiles
from ..ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier
from ._anova_sampler import AnovaMap
from ._encoding import Encoding

# Predictions may exceed the range of the targets, and values that of their column, by
# this proportion of the range.
BEYOND = 0.2
_MOST_LOGISTIC = 10_000  # logistic regression is fitted to at most this many rows
_PENALTY = 0.3  # parameter C of logistic regression on features
_MOST_ITERATIONS = 200  # of logistic regression


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
        beyond = BEYOND * (high - low)
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
    map: Any = None  # a metric that is fitted to the rows and the targets
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
            V = _mapped(own, V)
            model = clone(self.model).fit(V, *given)
        # without the rows that are only needed for adding others
        return self._replace(model=frozen_copy(model), map=frozen_copy(own))

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        V, numbers = _mapped(self.map, V), self.targets.n_classes is None
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


def _mapped(metric: Any, V: np.ndarray) -> np.ndarray:
    """Return the rows in a learned metric, or V for None.

    Unlike ``transform``, the result does not depend on ``set_output``.
    """
    return V if metric is None else metric._value.solution.mapped(V)


def logistic_part(targets: TargetRange) -> Part:
    """Return logistic regression, which is not fitted yet."""
    # imported here, because only classifiers need it
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=_PENALTY, max_iter=_MOST_ITERATIONS)
    return Part(targets, model, most_rows=_MOST_LOGISTIC)


# ------------------------------------------------ ridge regression as fitted parts
@dataclass(frozen=True, eq=False)
class AnovaModel(Value):
    """Ridge regression on the features of an ANOVA kernel.

    The products of the landmarks' root with the coefficients replace the root in the
    map. Thus the model needs no matrix with a row and a column for each landmark. The
    first features of the map are then the scores of ridge regression, without the
    linear terms, which are the last features. Between them are the scores of logistic
    regression, if there is one, which needs no second evaluation of the kernel.
    """

    map: AnovaMap
    coef: np.ndarray  # (n_features, k), of ridge regression
    intercept: np.ndarray  # (k,)
    limits: tuple[np.ndarray, np.ndarray]  # of the targets, each (k,)
    link: Any = None  # computes class probabilities from scores; None for regression
    classes_: np.ndarray | None = None  # the codes of the classes

    @classmethod
    def of(cls, anova: AnovaMap, ridge: Any, logistic: Any) -> tuple[Self, Any]:
        """Return the model, and logistic regression (or None) on its features.

        Given are both regressions on the features of ``anova``.
        """
        solution, m = ridge._value.solution, anova.root.shape[1]
        parts = [solution.coef.T] + ([] if logistic is None else [logistic.coef_])
        root = anova.root @ np.vstack([coef[:, :m] for coef in parts]).T
        every, k = root.shape[1], solution.coef.shape[1]
        coef = np.vstack([np.eye(every, k), solution.coef[m:]])
        if logistic is not None:
            logistic = copy.copy(logistic)
            own = np.eye(every)[k:]
            logistic.coef_ = np.hstack([own, logistic.coef_[:, m:]])
            logistic.n_features_in_ = logistic.coef_.shape[1]
        classes = getattr(ridge, "classes_", None)
        model = cls(
            map=replace(anova, root=root, has_all_rows=False),
            coef=coef,
            intercept=solution.intercept,
            limits=(solution.least, solution.most),
            link=None if classes is None else solution.calibration,
            classes_=classes,
        )
        return model, logistic

    def features(self, V: np.ndarray) -> np.ndarray:
        """Return the features of rows in float64, (n, n_features)."""
        return self.map.features(V)

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Return numbers or class probabilities of ridge regression, (n, k)."""
        scores = features @ self.coef + self.intercept
        if self.link is not None:
            return self.link.probabilities(scores)
        return np.clip(scores, *self.limits)

    predict_proba = predict

    def importances(self, n_columns: int) -> np.ndarray:
        """Return the importance of each column; the importances sum to 1."""
        found = np.zeros(n_columns)
        learned = self.map.learned
        for group, share in zip(learned.encoding.groups, learned.shares, strict=True):
            found[list(group)] = share / len(group)
        return found

    def effects(
        self, V: np.ndarray
    ) -> tuple[np.ndarray, list[tuple[int, ...]], np.ndarray]:
        """Return effects on the scores, their columns, and the intercept."""
        # -> (n, n_effects, k), n_effects, (k,)
        values, shift = self.map.effects(V, self.coef)
        return values, self.effect_columns, self.intercept + shift

    @property
    def effect_columns(self) -> list[tuple[int, ...]]:
        """The columns of each effect."""
        groups = self.map.learned.encoding.groups
        return [
            tuple(j for owner in subset for j in groups[owner])
            for subset in self.map.subsets
        ]

    def effect_at(self, place: int, V: np.ndarray, output: int) -> np.ndarray:
        """Return an effect on a score, (n,)."""
        features = self.map.effect_features(V, self.map.subsets[place])
        return features @ self.coef[:, output]


# penalties of which cross-validation selects the one of the linear part, for numbers
_PENALTIES = np.logspace(-2, 5, 15)
# the values of the parameter C of logistic regression for labels
_INVERSE_PENALTIES = 0.01, 0.1, 0.3, 1.0, 3.0, 10.0, 100.0, 1000.0
_MOST_LINEAR = 200_000  # the linear part is fitted to at most this many rows
# standard errors by which limits have to reduce the errors of the linear part
_CLEARLY = 2.0


@dataclass(frozen=True, eq=False)
class LinearModel(Value):
    """Ridge regression on numbers and on indicators of all categories.

    The penalty shrinks the effects of rare categories towards zero.
    """

    encoding: Encoding
    coef: np.ndarray  # (n_columns,)
    intercept: float
    means: np.ndarray  # (n_columns,)
    sizes: np.ndarray  # (n_columns,), standard deviations of the effects
    limits: tuple[float, float]  # of the predictions

    @classmethod
    def of(
        cls,
        encoding: Encoding,
        rows: TableRows,
        folds: Sequence[tuple[Any, Any]],
        targets: TargetRange,
    ) -> tuple[Self, np.ndarray]:
        """Return the model, and bounded predictions for the test rows of each fold.

        The penalty minimises the errors of these predictions. They are limited to the
        range of the training targets, at either end, if this clearly reduces the
        errors, as it does if the targets cannot be smaller than zero.
        """
        limits: list[float] = [targets.low, targets.high]
        if len(rows.y) == 1:
            return cls.with_penalty(encoding, rows, 1.0, limits), rows.y[:, None]
        Z, of_folds, ends = encoding.linear(rows.V), [], []
        for train, test in folds:
            some = train[:_MOST_LINEAR]
            ridge = _ridge(Z[some], rows.some(some), _PENALTIES)
            of_folds.append(ridge.predict(Z[test]))
            ends.append(np.tile(_range(rows.y[train]), (len(test), 1)))
        found = np.clip(np.concatenate(of_folds), targets.low, targets.high)
        tested = rows.some(np.concatenate([test for _, test in folds]))
        errors = tested.weights @ np.square(found - tested.y[:, None])
        best = int(np.argmin(errors))
        found = found[:, best]
        for side, limit in enumerate(np.concatenate(ends).T):
            limited = (np.maximum, np.minimum)[side](found, limit)
            gains = (found - tested.y) ** 2 - (limited - tested.y) ** 2
            gains *= tested.weights
            if gains.sum() > _CLEARLY * np.sqrt(gains @ gains):
                found, limits[side] = limited, _range(rows.y)[side]
        model = cls.with_penalty(encoding, rows, _PENALTIES[best], limits)
        return model, found[:, None]

    @classmethod
    def with_penalty(
        cls,
        encoding: Encoding,
        rows: TableRows,
        penalty: float,
        limits: Sequence[float],
    ) -> Self:
        """Return the model with a given penalty and limits of its predictions."""
        rows = rows.some(slice(_MOST_LINEAR))
        Z = encoding.linear(rows.V)
        ridge = _ridge(Z, rows, np.array([penalty]))
        return cls(
            encoding=encoding,
            coef=ridge.coef_.ravel(),
            intercept=float(np.ravel(ridge.intercept_)[0]),
            means=rows.weights @ Z / rows.weights.sum(),
            sizes=_sizes_of_effects(np.atleast_2d(ridge.coef_), Z, rows.weights),
            limits=(limits[0], limits[1]),
        )

    def effects(self, V: np.ndarray) -> tuple[np.ndarray, float]:
        """Return effects of the table's columns, with mean zero, and the intercept."""
        # -> (n, n_columns of the table), ()
        places = np.arange(len(self.coef)), self.encoding.one_hot_sources
        shape = len(self.coef), V.shape[1]
        by_source = sparse.csr_array((self.coef, places), shape=shape)
        found = self.encoding.linear(V) @ by_source
        found = found.toarray() if sparse.issparse(found) else found
        found = found - self.means @ by_source
        return found, float(self.intercept + self.means @ self.coef)

    def importances(self, n_columns: int) -> np.ndarray:
        """Return the size of the effects of each column of the table, (n_columns,)."""
        return np.bincount(self.encoding.one_hot_sources, self.sizes, n_columns)

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions within the limits, (n,)."""
        return np.clip(
            self.encoding.linear(V) @ self.coef + self.intercept, *self.limits
        )


def _range(y: np.ndarray) -> tuple[float, float]:
    """Return the smallest and the largest target."""
    return float(y.min()), float(y.max())


def _sizes_of_effects(coef: np.ndarray, Z: Any, weights: np.ndarray) -> np.ndarray:
    """Return absolute coefficients times standard deviations of columns, (n_columns,).

    ``coef`` has shape (n_outputs, n_columns); the sizes are added over the outputs.
    """
    share = weights / weights.sum()
    variances = share @ (Z * Z) - (share @ Z) ** 2  # by element, also if Z is sparse
    return np.abs(coef).sum(axis=0) * np.sqrt(np.maximum(variances, 0))


def _ridge(Z: Any, rows: TableRows, penalties: np.ndarray) -> Any:
    """Return ridge regressions with each of the penalties, as outputs of one model."""
    from sklearn.linear_model import Ridge  # here, because the import takes time

    targets = np.repeat(rows.y[:, None], len(penalties), axis=1)
    # the solver of sparse columns is iterative
    model = Ridge(alpha=penalties, tol=1e-6, max_iter=500)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(Z, targets, rows.weights)


class LinearClassifier(BaseEstimator):
    """Logistic regression on numbers and on indicators of all categories."""

    def __init__(self, encoding: Encoding, C: float = 1.0):
        self.encoding = encoding
        self.C = C

    def fit(self, V: np.ndarray, y: np.ndarray, sample_weight: np.ndarray) -> Self:
        """Fit the model to rows and codes of classes."""
        # imported here, because only classifiers need them
        from sklearn.dummy import DummyClassifier
        from sklearn.linear_model import LogisticRegression

        self.encoding_ = self.encoding.with_all_levels(V)
        Z = self.encoding_.linear(V, clipped=True)
        model = LogisticRegression(C=self.C, max_iter=_MOST_ITERATIONS)
        model = model if np.ptp(y) > 0 else DummyClassifier(strategy="prior")
        self.model_ = model.fit(Z, y, sample_weight)
        coef = getattr(model, "coef_", np.zeros((1, Z.shape[1])))  # 0 for one class
        self.sizes_ = _sizes_of_effects(coef, Z, sample_weight)
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The codes of the classes in the rows."""
        return self.model_.classes_

    def predict_proba(self, V: np.ndarray) -> np.ndarray:
        """Return class probabilities, (n, n_classes)."""
        return self.model_.predict_proba(self.encoding_.linear(V, clipped=True))

    def importances(self, n_columns: int) -> np.ndarray:
        """Return the size of the effects of each column of the table, (n_columns,)."""
        return np.bincount(self.encoding_.one_hot_sources, self.sizes_, n_columns)


def linear_classifiers(
    targets: TargetRange, encoding: Encoding, V: np.ndarray
) -> list[Part]:
    """Return unfitted linear parts for labels, which differ in their penalties.

    If there are many categories, each of them may have few rows, so the models are
    fitted to more rows.
    """
    is_sparse = encoding.with_all_levels(V).has_sparse_columns
    most_rows = _MOST_LINEAR if is_sparse else _MOST_LOGISTIC
    return [
        Part(targets, LinearClassifier(encoding, C), most_rows=most_rows)
        for C in _INVERSE_PENALTIES
    ]


def ridge_without_folds(
    ridge: Any, Z: np.ndarray, rows: TableRows, pairs: Sequence[tuple[Any, Any]]
) -> np.ndarray:
    """Return predictions for the test rows of each fold, by fits to its other rows.

    ``ridge`` is fitted to features Z of all rows. Its penalty and its link, which are
    based on leave-one-out predictions, are the same in all folds. The moments of the
    rows of a fold are subtracted from those of all rows, so that a fold takes a
    fraction of the time of a fit.
    """
    settings, solution = ridge._value.settings, ridge._value.solution
    y, weights, link = rows.y, rows.weights, None
    if settings.n_classes is not None:
        y, link = np.searchsorted(ridge.classes_, y), solution.calibration
        if solution.is_balanced:
            shares = np.bincount(y, weights, settings.n_classes) / weights.sum()
            weights = weights / (shares * np.count_nonzero(shares))[y]
    T = settings.targets(y).reshape(len(y), -1)
    F, m, found = np.hstack([Z, np.ones((len(Z), 1)), T]), Z.shape[1], []
    total = (F * weights[:, None]).T @ F
    for train, test in pairs:
        out = np.ones(len(Z), bool)
        out[train] = False
        sums = total - (F[out] * weights[out, None]).T @ F[out]
        mean = sums[m] / sums[m, m]
        sums = sums - np.outer(sums[m], mean)
        gram = sums[:m, :m] + solution.alpha[0] * np.eye(m)
        cross = sums[:m, m + 1 :]
        try:
            coef = linalg.solve(gram, cross, assume_a="pos", check_finite=False)
        except linalg.LinAlgError:  # nearly singular
            coef = linalg.lstsq(gram, cross, check_finite=False)[0]
        scores = (Z[test] - mean[:m]) @ coef + mean[m + 1 :]
        if link is not None:
            found.append(link.probabilities(scores))
        else:
            found.append(np.clip(scores, solution.least, solution.most))
    return np.concatenate(found)


# ------------------------------------------------------------------- boosted trees
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
