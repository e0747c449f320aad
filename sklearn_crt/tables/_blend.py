"""Blends of models for raw tables, with weights from cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from ..averages import NadarayaWatsonRegressor
from ..life_cycle.fitted import Batch, Step, frozen_copy, no_step
from ..life_cycle.out_of_fold import (
    FEW_ROWS,
    Recalibration,
    Shrinkage,
    fold_numbers,
)
from ..life_cycle.supervised import SampleValue, balanced_factors
from ..metric import LearnedMetric
from ..rows.raw_table import CATEGORY
from ._anova_kernel import row_blocks
from ._anova_sampler import AnovaMap, AnovaSampler
from ._encoding import Encoding, Score
from ._error_scale import ScaledErrors
from ._extrapolation import Trend
from ._parts import (
    BEYOND,
    LOCAL,
    RIDGE,
    AnovaModel,
    LinearModel,
    Part,
    TableRows,
    TargetRange,
    Trees,
    linear_classifiers,
    logistic_part,
    part_of,
    ridge_without_folds,
)

# With more rows, there is a single set of test rows, features of the ANOVA kernel are
# not stored, and models of limited numbers of rows are not fitted again to all rows.
_MANY = 16_000
# Local linear regression is fitted to at most this many rows. Its predictions compare
# each row with all of them, so the limit is lower if many predictions are likely.
_MOST_LOCAL, _MOST_LOCAL_OF_MANY = 10_000, 5_000
_FIRST_TESTED = 1000  # number of rows that decide whether a part is continued
_SIMILAR_ENTRIES = 2**18  # maximum number of entries of the rows for similarities
_FEW = 600  # with fewer rows, each fold learns its own kernel and metric
# With fewer rows than _LEAST_ROWS, only the ANOVA part is used, and with fewer than
# _LEAST_OF_ALL, only the parts of _OF_FEW, because weights of more parts vary too much.
_LEAST_ROWS, _LEAST_OF_ALL = 20, 40
_OF_FEW = "ANOVA", "logistic", "linear"
_LEAST_SHARE = 0.05  # minimum importance in similarities, relative to the mean
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# The penalty on the power a of geometric means is _OF_POWER log(a)^2, in units of rows.
_OF_POWER = 8.0
# The local linear part, which is slow and rarely improves class probabilities, is kept
# only if its weight on the first fold is at least this: for numbers, and for labels.
_LEAST_AT_FIRST, _LEAST_OF_CLASSES_AT_FIRST = 0.1, 0.25
# If other parts leave a larger share of the variance unexplained, its metric is learned
# from fewer rows, so that more rows remain to estimate its weight.
_MOST_UNEXPLAINED = 0.5
# the same minimum weight for trees, and for the linear part of classifiers
_LEAST_OF_TREES_AT_FIRST = _LEAST_OF_LINEAR_AT_FIRST = 0.05
_LATE = 0.9  # share of the iterations after which more of them are tried
# the parts of regressors and of classifiers; with few rows, the first one is used
PARTS_OF_NUMBERS = "ANOVA", "linear", "local linear", "trees"
PARTS_OF_LABELS = "ANOVA", "logistic", "linear", "local linear", "trees"
# blending weights and error scales are computed from predictions for at most this many
MOST_TESTED = 4_000
# With few rows, there are at least this number of folds, because models that are fitted
# to much fewer rows have larger errors: the number of folds for fewer rows than given.
# With fewer than _FEW rows, a fold takes longer.
_LEAST_FOLDS = {200: 10, _FEW: 4, 1500: 8}


class Folds(NamedTuple):
    """Training and test rows of each fold."""

    pairs: list[tuple[np.ndarray, np.ndarray]]
    parallel: Parallel

    @classmethod
    def of(
        cls, rows: TableRows, n_folds: int, n_jobs: int | None, *, stratified: bool
    ) -> Folds:
        """Return folds, stratified for labels; the rows must be in random order.

        The number of test rows is limited, and all other rows are training rows. Rows
        of a group are in the same fold. With many rows, there is a single fold.
        """
        n_rows = len(rows.y)
        least = [n for most, n in _LEAST_FOLDS.items() if n_rows < most]
        n_folds = max(n_folds, *least[:1], 1)
        every = np.arange(n_rows)
        order = np.argsort(rows.y, kind="stable") if stratified else every
        of_fold = np.empty(n_rows, np.intp)
        of_fold[order] = every % n_folds
        n_pairs = min(n_folds, n_rows)
        if rows.groups is not None:
            of_fold = fold_numbers(n_rows, None, rows.groups)
            n_pairs = int(of_fold.max()) + 1
        n_pairs = 1 if n_rows > _MANY else n_pairs
        most, pairs = max(1, MOST_TESTED // n_pairs), []
        for fold in range(n_pairs):
            test = np.flatnonzero(of_fold == fold)[:most]
            out = of_fold == fold if rows.groups is not None else np.isin(every, test)
            pairs.append((np.flatnonzero(~out), test))
        return cls(pairs, Parallel(n_jobs=n_jobs))

    @property
    def tested(self) -> np.ndarray:
        """The test rows of all folds."""
        return np.concatenate([test for _, test in self.pairs])

    def predictions(self, parts: Sequence[Part], rows: TableRows) -> np.ndarray:
        """Return predictions for all test rows, given one part per fold."""
        found = self.parallel(
            delayed(_without_fold)(part, rows, *pair)
            for part, pair in zip(parts, self.pairs, strict=True)
        )
        return np.concatenate(found)


def _without_fold(
    part: Part, rows: TableRows, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return predictions for the test rows of a fold."""
    return part.fitted(rows.some(train)).predict(rows.V[test])


def _stages_without_fold(
    part: Part, rows: TableRows, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return predictions of each iteration of boosting for the test rows of a fold."""
    # -> (n_iterations, n, k)
    fitted = part.fitted(rows.some(train))
    stages = fitted.model.staged(rows.V[test])
    return np.stack([fitted.bounded(each) for each in stages])


def _anova_without_fold(
    sampler: AnovaSampler,
    parts: dict[str, Part],
    rows: TableRows,
    columns: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> dict[str, np.ndarray]:
    """Return predictions for a fold's test rows, with a kernel of its other rows.

    ``columns`` are the encoded columns of all rows.
    """
    P = _map_for(sampler, rows.some(train)).features(rows.V)
    inputs = {"ANOVA": P, "logistic": np.hstack([P, columns])}
    return {
        name: _without_fold(part, rows._replace(V=inputs[name]), train, test)
        for name, part in parts.items()
    }


def _map_for(sampler: AnovaSampler, rows: TableRows) -> AnovaMap:
    """Return the feature map of a copy of the sampler that is fitted to the rows."""
    fitted = clone(sampler).fit(rows.V, rows.y, sample_weight=rows.weights)
    return fitted._value.solution


def blend_weights(
    found: Sequence[np.ndarray] | np.ndarray, rows: TableRows, targets: TargetRange
) -> np.ndarray:
    """Return weights that sum to 1 and minimise the loss of the weighted average."""
    share, k = rows.weights / rows.weights.sum(), len(found)
    if targets.n_classes is not None:
        own = np.stack([p[np.arange(len(rows.y)), rows.y] for p in found], axis=1)
        weights = np.full(k, 1 / k)
        for _ in range(300):  # expectation maximisation for mixture weights
            weights = weights * (share @ (own / (own @ weights)[:, None]))
        return weights / weights.sum()
    from scipy.optimize import nnls

    # The last row asks for weights that sum to 1. The solution has a smaller sum, but
    # the same proportions as the weights of the problem with this constraint.
    errors = np.stack([p[:, 0] for p in found], axis=1) - rows.y[:, None]
    errors *= np.sqrt(share)[:, None]
    errors /= max(np.linalg.norm(errors), 1e-150)
    weights, _ = nnls(np.vstack([errors, np.ones(k)]), np.append(0 * share, 1))
    return weights / weights.sum()


def _logs(probabilities: np.ndarray) -> np.ndarray:
    """Return logarithms, which are finite also for classes of weight 0."""
    return np.log(np.maximum(probabilities, 1e-300))


def geometric_weights(found: np.ndarray, rows: TableRows) -> tuple[np.ndarray, float]:
    """Return weights that sum to 1, and the power of a geometric mean of probabilities.

    They minimise the log loss of the normalised power of the weighted geometric mean,
    with a penalty on the logarithm of the power, since few rows say little about it.
    """
    share, each = rows.weights / rows.weights.sum(), np.arange(len(rows.y))
    logs = _logs(found)

    def loss(factors: np.ndarray) -> tuple[float, np.ndarray]:
        log = log_softmax(np.tensordot(factors, logs, 1), axis=1)
        gaps = np.exp(log)
        gaps[each, rows.y] -= 1
        gradient = np.einsum("n,nc,knc->k", share, gaps, logs)
        power = max(float(factors.sum()), 1e-9)
        penalty = _OF_POWER * np.log(power) / len(rows.y)
        value = penalty * np.log(power) - float(share @ log[each, rows.y])
        return value, gradient + 2 * penalty / power

    start, bounds = np.full(len(logs), 1 / len(logs)), [(0, None)] * len(logs)
    factors = minimize(loss, start, jac=True, bounds=bounds, method="L-BFGS-B").x
    power = float(factors.sum())
    factors = np.where(factors < _LEAST_WEIGHT * power, 0, factors)
    return factors / (factors.sum() or 1.0), power


def similar_rows(
    rows: TableRows, sources: np.ndarray, shares: np.ndarray
) -> NadarayaWatsonRegressor:
    """Return a kernel average in which columns are scaled by their importance.

    ``sources`` contains the table column from which each encoded column was computed,
    and ``shares`` the importance of each table column. The number of rows is limited.
    """
    rows = rows.some(slice(max(1, _SIMILAR_ENTRIES // max(1, rows.V.shape[1]))))
    Z, share = rows.V, rows.weights / rows.weights.sum()
    spread = np.bincount(sources, share @ (Z - share @ Z) ** 2, len(shares))
    # unimportant columns also contribute, so that unusual values in them are detected
    sizes = np.maximum(shares, _LEAST_SHARE / len(shares))
    sigma = np.sqrt(2 * sizes / np.where(spread > 0, spread, 1))[sources]
    averages = NadarayaWatsonRegressor(sigma=sigma)
    Z = Z.astype(np.float32)
    targets = np.zeros(len(Z), np.float32)  # they are not needed
    with warnings.catch_warnings():  # the model for tables warns once
        warnings.filterwarnings("ignore", ".* are copies of other rows")
        return frozen_copy(averages.fit(Z, targets, sample_weight=rows.weights))


class Blend(NamedTuple):
    """The fitted parts and their weights."""

    targets: TargetRange
    encoding: Encoding
    # those with positive weights, and "ANOVA" if "logistic" has its features
    parts: dict[str, Part]
    weights: dict[str, float] = {}
    # whether logarithms of probabilities are averaged, and the factor of their mean
    power: float | None = None
    losses: dict[str, float] = {}
    errors: ScaledErrors | None = None  # None for labels, and for a single row
    similar: NadarayaWatsonRegressor | None = None
    # with groups, of predictions for rows of new groups; of probabilities for few rows
    correction: Shrinkage | Recalibration | None = None
    trend: Trend | None = None  # of numbers, outside the range of the columns
    # (2, d): values of the table's columns outside of these limits count as the limits
    limits: np.ndarray | None = None

    @property
    def anova(self) -> AnovaModel:
        """The ridge model with the ANOVA kernel."""
        return self.parts["ANOVA"].model

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions, (n, k), computed in blocks of rows."""
        if self.trend is not None:
            inside = self._replace(trend=None).predict(self.trend.inside(V))
            return inside + self.trend.beyond(V)[0][:, None]
        V, total = self._inside(V), np.zeros((len(V), self.targets.n_classes or 1))
        for rows in row_blocks(len(V)):
            for name, found in self._predictions(V[rows]):
                part = found if self.power is None else _logs(found)
                total[rows] += self.weights[name] * part
        if self.power is not None:
            total = softmax(self.power * total, axis=1)
        return total if self.correction is None else self.correction(total)

    def _predictions(self, V: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the predictions of each part that is used, (n, k)."""
        used = [name for name, weight in self.weights.items() if weight]
        if {"ANOVA", "logistic"} & {*used}:
            features = self.anova.features(V)
        if {"logistic", "local linear"} & {*used}:
            columns = self.encoding.one_hot(V)
        for name in used:
            Z = V
            if name == "ANOVA":
                Z = features
            elif name == "logistic":
                Z = np.hstack([features, columns])
            elif name == "local linear":
                Z = columns
            yield name, self.parts[name].predict(Z)

    def with_errors(
        self, V: np.ndarray, function: Callable[[ScaledErrors, np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions for rows, (n,), and a function of errors and rows.

        The function is called with blocks of rows, which consist of the prediction and
        the encoded columns. Its values are proportional to the scale of the errors,
        which grows outside of the range of the columns with the error of the slope.
        """
        assert self.errors is not None
        if self.trend is not None:
            inside, (change, more) = self.trend.inside(V), self.trend.beyond(V)
            usual = self._replace(trend=None)
            centre, gaps = usual.with_errors(inside, function)
            _, scale = usual.with_errors(inside, ScaledErrors.deviations)
            ratio = np.hypot(1, more / np.maximum(scale, 1e-300))
            return centre + change, gaps * ratio.reshape(-1, *[1] * (gaps.ndim - 1))
        V = self._inside(V)
        mean = self.predict(V)
        found = [
            function(self.errors, np.hstack([mean[b], self.encoding.one_hot(V[b])]))
            for b in row_blocks(len(V))
        ]
        return mean[:, 0], np.concatenate(found)

    def effects(
        self, V: np.ndarray
    ) -> tuple[np.ndarray, list[tuple[int, ...]], np.ndarray]:
        """Return effects of columns and pairs, their columns, and the intercept.

        They are those of the ANOVA part and of the linear part, multiplied by their
        weights, and the lines outside the range of the columns.
        """
        # -> (n, n_effects, k), n_effects, (k,)
        intercept, columns = self.targets.mean, list[tuple[int, ...]]()
        intercept = np.diff(intercept) if len(intercept) == 2 else intercept
        values = np.zeros((len(V), 0, len(intercept)))
        if weight := self.weights.get("ANOVA", 0.0):
            values, columns, own = self.anova.effects(self._inside(V))
            values, intercept = weight * values, intercept + weight * (own - intercept)
        linear, level = self._linear_effects(V)
        places = {each: place for place, each in enumerate(columns)}
        for j in self._linear_columns(V.shape[1]):
            if (j,) in places:
                values[:, places[j,], 0] += linear[:, j]
            else:
                columns.append((j,))
                values = np.concatenate([values, linear[:, [j], None]], axis=1)
        return values, columns, intercept + level

    def effect_at(
        self, columns: tuple[int, ...], V: np.ndarray, output: int
    ) -> np.ndarray:
        """Return the effect of the given columns, (n,)."""
        total, weight = np.zeros(len(V)), self.weights.get("ANOVA", 0.0)
        own = self.anova.effect_columns if weight else []
        if columns in own:
            place, inside = own.index(columns), self._inside(V)
            total += weight * self.anova.effect_at(place, inside, output)
        if len(columns) == 1:
            total += self._linear_effects(V)[0][:, columns[0]]
        return total

    def _inside(self, V: np.ndarray) -> np.ndarray:
        """Return rows that are moved to the ends of lines and to the limits."""
        V = V if self.trend is None else self.trend.inside(V)
        if self.limits is None:
            return V
        with np.errstate(over="ignore"):  # of float32
            return np.clip(V, *self.limits.astype(V.dtype))

    def _linear_columns(self, n_columns: int) -> list[int]:
        """Return the columns of the table with a linear effect or a line."""
        used = set[int]() if self.trend is None else {*self.trend.sources.tolist()}
        if self.weights.get("linear") and self.targets.n_classes is None:
            sizes = self.parts["linear"].model.importances(n_columns)
            used |= {*np.flatnonzero(sizes).tolist()}
        return sorted(used)

    def _linear_effects(self, V: np.ndarray) -> tuple[np.ndarray, float]:
        """Return the effects of columns in the linear part and along lines.

        The second result is what the linear part adds to the intercept.
        """
        # -> (n, n_columns), ()
        found = np.zeros(V.shape) if self.trend is None else self.trend.effects(V)
        weight = self.weights.get("linear", 0.0)
        if not weight or self.targets.n_classes is not None:
            return found, 0.0
        own, intercept = self.parts["linear"].model.effects(self._inside(V))
        return found + weight * own, weight * (intercept - self.targets.mean.item())

    def importances(self, n_columns: int) -> np.ndarray:
        """Return the weighted mean of the importances of columns in the used parts."""
        # -> (n_columns,)
        total = np.zeros(n_columns)
        for name, weight in self.weights.items():
            if weight and name == "local linear":
                sources = self.encoding.one_hot_sources
                found = self.parts[name].map
                found = getattr(found, "estimator", found).feature_importances_
                total += weight * np.bincount(sources, found, n_columns)
            elif weight and name == "linear":
                found = self.parts[name].model.importances(n_columns)
                total += weight * found / (found.sum() or 1.0)
            elif weight and name == "trees":
                total += weight * self.parts[name].model.importances
            elif weight:  # logistic regression has the features of the same kernel
                total += weight * self.anova.importances(n_columns)
        return total


def _limits_of_columns(encoding: Encoding, V: np.ndarray) -> np.ndarray:
    """Return limits of numeric columns, (2, d), which are infinite for all others.

    Local linear fits and linear models would otherwise continue slopes that only noise
    has determined, for instance of a number that increases from row to row.
    """
    limits = np.repeat([[-np.inf], [np.inf]], V.shape[1], axis=1)
    coded = {j for j, _ in encoding.special}  # codes are kept
    for column in encoding.columns:
        j = column.source
        values = V[:, j][~np.isnan(V[:, j])].astype(np.float64)
        if isinstance(column, Score) and j not in coded and len(values):
            low, high = values.min(), values.max()
            with np.errstate(over="ignore"):  # of huge values
                beyond = BEYOND * (high - low)
                limits[:, j] = low - beyond, high + beyond
    return limits


class BlendChoices(NamedTuple):
    """The parameters, the seed and the kinds of columns at the time of ``fit``."""

    n_folds: int
    n_jobs: int | None
    seed: int
    kinds: tuple[str, ...]
    n_classes: int | None
    # "balanced", or the factor of each class; None if all of them are 1
    class_weight: str | tuple[float, ...] | None
    parts: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class BlendValue(SampleValue):
    """All rows, and the blend."""

    groups: np.ndarray | None = None  # (n_rows,), numbers of groups of dependent rows
    most_rows: ClassVar[int] = 2**62

    def plus(self, batch: Batch, step: Step = no_step) -> BlendValue:
        return replace(super().plus(batch, step), groups=batch.groups)

    def _without_rows(self) -> BlendValue:
        return replace(super()._without_rows(), groups=None)

    @property
    def needs_all_rows(self) -> bool:
        """Whether rows cannot be added, because there are groups."""
        return self.groups is not None

    def _learn(self, step: Step = no_step) -> Blend:
        sample, choices = self.sample, self.choices
        factors, n_classes = choices.class_weight, choices.n_classes
        if factors == "balanced":
            factors = balanced_factors(sample.y, sample.weights, n_classes)
        elif factors is not None:
            factors = np.array(factors)
        given = sample.X, sample.y, sample.weights
        rows = TableRows.of(*given, factors, choices.seed, self.groups)
        targets = TargetRange.of(rows.y, rows.weights, n_classes)
        encoding = Encoding.of(rows.V, rows.weights, choices.kinds, ())
        limits = _limits_of_columns(encoding, rows.V)
        blend = Blend(targets, encoding, {}, limits=limits)
        step()
        options = {"stratified": n_classes is not None}
        folds = Folds.of(rows, choices.n_folds, choices.n_jobs, **options)
        learner = _Learner(blend, rows, folds, choices, step)
        if len(rows.y) >= _LEAST_ROWS and all(
            np.ptp(rows.y[train]) > 0 for train, _ in folds.pairs
        ):
            blend = learner.with_all_parts()
        else:
            blend = learner.with_one_part()
        shares = blend.importances(rows.V.shape[1])
        similar = similar_rows(learner.encoded, encoding.one_hot_sources, shares)
        if n_classes is None and "linear" in choices.parts:
            # numeric columns, and all further columns
            k, Z = np.count_nonzero(encoding.is_score), learner.encoded.V
            of_columns = Z[:, :k], Z[:, k:], encoding.one_hot_sources[:k]
            trend = Trend.of(rows.V, rows.y, rows.weights, *of_columns)
            blend = blend._replace(trend=trend)
        return blend._replace(similar=similar)


class _Learner:
    """Learns the weights of the parts from their predictions for left-out folds."""

    def __init__(
        self,
        blend: Blend,
        rows: TableRows,
        folds: Folds,
        choices: BlendChoices,
        step: Step,
    ):
        self.blend, self.rows, self.folds, self.step = blend, rows, folds, step
        self.targets, self.names = blend.targets, choices.parts
        if len(rows.y) < _LEAST_OF_ALL:
            known = tuple(name for name in self.names if name in _OF_FEW)
            self.names = known or self.names[:1]
        self.encoded = rows._replace(V=blend.encoding.one_hot(rows.V))
        self.are_few = len(rows.y) < _FEW  # all parts of each fold learn anew
        self.are_many = len(rows.y) > _MANY  # there is a single set of test rows
        numbers = self.targets.n_classes is None
        metric = LearnedMetric(
            method="evidence",
            columns="auto" if numbers else "linear",
            random_state=choices.seed,
        )
        local = part_of(self.targets, LOCAL)
        most = _MOST_LOCAL_OF_MANY if self.are_many else _MOST_LOCAL
        self.local = local._replace(map=metric, most_rows=most)
        kinds, n_classes = choices.kinds, self.targets.n_classes
        categories = [j for j, kind in enumerate(kinds) if kind == CATEGORY]
        self.sampler = AnovaSampler(categories=categories, random_state=choices.seed)
        trees = Trees(tuple(categories), n_classes, random_state=choices.seed)
        self.trees = Part(self.targets, trees)
        self.ridge = part_of(self.targets, RIDGE, "linear")
        # the parts that have the features of the ANOVA kernel
        self.parts_of_anova = {"ANOVA": self.ridge} if "ANOVA" in self.names else {}
        if "logistic" in self.names:
            self.parts_of_anova["logistic"] = logistic_part(self.targets)
        self.found: dict[str, np.ndarray] = {}  # predictions for the test rows
        # the parts that need not be fitted again to all rows
        self.fitted: dict[str, Part] = {}
        # number of test rows from which the metric was not learned, None for all
        self.n_unseen: int | None = None

    def with_one_part(self) -> Blend:
        """Return a blend of a single part, for few rows."""
        name, rows = self.names[0], self.rows
        part, inputs = self.trees, rows
        if name in {"ANOVA", "logistic"}:
            name, self.parts_of_anova = "ANOVA", {"ANOVA": self.ridge}
            anova = _map_for(self.sampler, rows)
            ridge = self.ridge.fitted(rows._replace(V=anova.features(rows.V)))
            parts = self._parts_with(anova, ridge, None)
        else:
            if name == "local linear":
                part, inputs = self.local, self.encoded
            if name == "linear":
                parts = self._linear_part()
            else:
                parts = {name: part.fitted(inputs)}
        blend = self.blend._replace(parts=parts, weights={name: 1.0})
        if len(rows.y) == 1:
            return blend
        vary = all(np.ptp(rows.y[train]) > 0 for train, _ in self.folds.pairs)
        if self.targets.n_classes is not None and not vary:
            return blend
        if name == "ANOVA":
            found = self._found_by_few()[name]
        elif name == "linear":
            found = self.found[name]
        else:
            same = [part] * len(self.folds.pairs)
            found = self.folds.predictions(same, inputs)
        tested = self.encoded.some(self.folds.tested)
        if self.targets.n_classes is None:  # for the distribution of errors
            return _with_errors(blend, found, tested)
        if len(rows.y) >= FEW_ROWS:
            return blend
        return blend._replace(correction=Recalibration.of(found, tested))

    def with_all_parts(self) -> Blend:
        """Return the weighted average of all parts."""
        names, parts = self.names, dict[str, Part]()
        of_anova = self._anova_parts() if self.parts_of_anova else None
        self.step()
        if "linear" in names:
            parts |= self._linear_part()
        trees = self._trees_part() if "trees" in names else None
        self.step()
        local = self._local_part() if "local linear" in names else None
        self.step()
        tested = self.encoded.some(self.folds.tested)
        blend = _with_weights(self.blend, self.found, tested, self.n_unseen)
        weights = dict.fromkeys(names, 0.0) | blend.weights
        if of_anova is not None and any(map(weights.get, self.parts_of_anova)):
            anova, ridge, P = of_anova
            logistic = None
            if weights.get("logistic"):
                logistic = self.fitted.get("logistic")
                if logistic is None:
                    columns = self.rows._replace(V=np.hstack([P, self.encoded.V]))
                    logistic = self.parts_of_anova["logistic"].fitted(columns)
            parts |= self._parts_with(anova, ridge, logistic)
        if not weights.get("linear"):
            parts.pop("linear", None)
        if local is not None and weights["local linear"]:
            known = self.fitted.get("local linear")
            parts["local linear"] = known or local.fitted(self.encoded)
        if trees is not None and weights["trees"]:
            parts["trees"] = trees.fitted(self.rows)
        return blend._replace(parts=parts, weights=weights)

    # --------------------------------------------------------------- ANOVA kernel
    def _parts_with(
        self, anova: AnovaMap, ridge: Part, logistic: Part | None
    ) -> dict[str, Part]:
        """Return the fitted parts that share the features of the ANOVA kernel."""
        given = None if logistic is None else logistic.model
        model, given = AnovaModel.of(anova, ridge.model, given)
        parts = {"ANOVA": Part(self.targets, model)}
        if given is not None:
            parts["logistic"] = Part(self.targets, given)
        return parts

    def _found_by_few(self) -> dict[str, np.ndarray]:
        """Return predictions with a kernel that is learned anew in each fold."""
        given = self.sampler, self.parts_of_anova, self.rows, self.encoded.V
        found = self.folds.parallel(
            delayed(_anova_without_fold)(*given, *pair) for pair in self.folds.pairs
        )
        return {
            name: np.concatenate([each[name] for each in found]) for name in found[0]
        }

    def _anova_parts(self) -> tuple[AnovaMap, Part, Any]:
        """Return the map, ridge regression and features, after adding predictions."""
        if self.are_many:
            return *self._anova_parts_of_many(), None
        rows, folds = self.rows, self.folds
        anova = _map_for(self.sampler, rows)
        P = anova.features(rows.V)
        ridge = self.ridge.fitted(rows._replace(V=P))
        if self.are_few:
            self.found |= self._found_by_few()
            return anova, ridge, P
        if "ANOVA" in self.parts_of_anova:
            found = ridge_without_folds(ridge.model, P, rows, folds.pairs)
            self.found["ANOVA"] = ridge.bounded(found)
        if "logistic" in self.parts_of_anova:
            columns = rows._replace(V=np.hstack([P, self.encoded.V]))
            part = self.parts_of_anova["logistic"]
            same = [part] * len(folds.pairs)
            self.found["logistic"] = folds.predictions(same, columns)
        return anova, ridge, P

    def _anova_parts_of_many(self) -> tuple[AnovaMap, Part]:
        """Return the same without storing the features of all rows."""
        rows, ((train, test), *_) = self.rows, self.folds.pairs
        anova = _map_for(self.sampler, rows)
        ridge = self.ridge._replace(model=clone(self.ridge.model))
        labels = self.targets.n_classes is not None
        options = {"classes": np.unique(rows.y)} if labels else {}

        def features(chosen: np.ndarray) -> np.ndarray:
            return anova.features(rows.V[chosen])

        def add(chosen: np.ndarray) -> None:
            for b in row_blocks(len(chosen)):
                some = rows.some(chosen[b])
                ridge.model.partial_fit(
                    features(chosen[b]), some.y, sample_weight=some.weights, **options
                )

        add(train)
        P = features(test)
        if "ANOVA" in self.parts_of_anova:
            self.found["ANOVA"] = ridge.predict(P)
        if "logistic" in self.parts_of_anova:
            columns = np.hstack([P, self.encoded.V[test]])
            part = self.parts_of_anova["logistic"]
            chosen = train[: part.most_rows]
            Z = np.hstack([features(chosen), self.encoded.V[chosen]])
            self.fitted["logistic"] = part.fitted(rows.some(chosen)._replace(V=Z))
            self.found["logistic"] = self.fitted["logistic"].predict(columns)
        add(np.setdiff1d(np.arange(len(rows.y)), train))
        return anova, ridge._replace(model=frozen_copy(ridge.model))

    # --------------------------------------------------------------- linear part
    def _linear_part(self) -> dict[str, Part]:
        """Return the fitted linear part, after adding its predictions."""
        if self.targets.n_classes is not None:
            return self._linear_part_of_labels()
        rows, encoding = self.rows, self.blend.encoding.with_all_levels(self.rows.V)
        model, self.found["linear"] = LinearModel.of(
            encoding, rows, self.folds.pairs, self.targets
        )
        return {"linear": Part(self.targets, model)}

    def _linear_part_of_labels(self) -> dict[str, Part]:
        """Return the linear part for labels, or nothing if its weight would be small.

        The first fold determines this weight and the penalty. With few rows, all folds
        determine the penalty, and the part is always returned.
        """
        rows, pairs = self.rows, self.folds.pairs
        n_first = len(pairs) if self.are_few else 1
        first = self.folds._replace(pairs=pairs[:n_first])
        tested = rows.some(first.tested)
        parts = linear_classifiers(self.targets, self.blend.encoding, rows.V)
        if len(rows.y) == 1:
            return {"linear": parts[0].fitted(rows)}
        tried = [first.predictions([part] * n_first, rows) for part in parts]
        losses = [self.targets.losses(found, tested.y) for found in tried]
        best = int(np.argmin(np.array(losses) @ tested.weights))
        part, found = parts[best], [tried[best]]
        if not self.are_few:
            if self._weight_at_first(tried[best]) < _LEAST_OF_LINEAR_AT_FIRST:
                return {}
            others = self.folds._replace(pairs=pairs[n_first:])
            if others.pairs:
                found.append(others.predictions([part] * len(others.pairs), rows))
        self.found["linear"] = np.concatenate(found)
        return {"linear": part.fitted(rows)}

    def _trees_part(self) -> Part | None:
        """Return the unfitted boosting part, after adding its predictions.

        Return None, and add nothing, if its weight on the first fold is small, which is
        not reliable if there are few rows.
        """
        usual, most = self.trees.model.sizes
        trees, (train, test) = self._trees_of(usual), self.folds.pairs[0]
        stages = _stages_without_fold(trees, self.rows, train, test)
        n_best = self._best_size([stages], usual)
        if not self.are_few:
            weight = self._weight_at_first(stages[n_best - 1])
            if weight < _LEAST_OF_TREES_AT_FIRST:
                return None
        if n_best == usual < most and self._best_size([stages], 0) >= _LATE * usual:
            trees = self._trees_of(most)
            stages = _stages_without_fold(trees, self.rows, train, test)
            n_best = self._best_size([stages], usual)
        n_most = min(len(stages), 2 * n_best if n_best < usual else n_best + usual // 4)
        others = self.folds.parallel(
            delayed(_stages_without_fold)(self._trees_of(n_most), self.rows, *pair)
            for pair in self.folds.pairs[1:]
        )
        of_folds = [stages[:n_most], *others]
        n_best = self._best_size(of_folds, min(usual, n_most))
        self.found["trees"] = np.concatenate([each[n_best - 1] for each in of_folds])
        return self._trees_of(n_best)

    def _trees_of(self, n_iterations: int) -> Part:
        """Return the unfitted boosting part with a number of iterations."""
        model = clone(self.trees.model).set_params(n_iterations=n_iterations)
        return self.trees._replace(model=model)

    def _best_size(self, of_folds: Sequence[np.ndarray], usual: int) -> int:
        """Return the best number of iterations, given predictions in some folds.

        The usual number is replaced by the one with the smallest loss only if the
        difference between the losses exceeds its standard error. ``of_folds`` contains
        the predictions of each iteration for the first folds.
        """
        tests = [test for _, test in self.folds.pairs[: len(of_folds)]]
        tested = self.rows.some(np.concatenate(tests))
        share = tested.weights / tested.weights.sum()
        stages = np.concatenate(of_folds, axis=1)
        losses = np.stack([self.targets.losses(each, tested.y) for each in stages])
        best = int(np.argmin(losses @ share))
        if usual:
            gain = losses[usual - 1] - losses[best]
            error = np.sqrt(share**2 @ (gain - share @ gain) ** 2)
            if share @ gain <= error:
                return usual
        return best + 1

    def _local_part(self) -> Part | None:
        """Return the unfitted local linear part, after adding its predictions.

        Return None, and add nothing, if its weight on the first folds is small. With
        enough rows, the metric is learned once, without a quarter of the folds, so that
        these rows decide about its weight. If other parts explain half of the variance
        of the targets, one fold is enough for this purpose.
        """
        encoded, targets, local = self.encoded, self.targets, self.local
        pairs, are_few = self.folds.pairs, self.are_few
        numbers = targets.n_classes is None
        n_first = 1 if are_few else max(1, len(pairs) // 4)
        if numbers and self._unexplained() < _MOST_UNEXPLAINED:
            n_first = 1
        every = np.arange(len(encoded.y))
        trains, tests = zip(*pairs[:n_first], strict=True)
        train, test = reduce(np.intersect1d, trains, every), np.concatenate(tests)
        fitted = local.fitted(encoded.some(train))
        first = fitted.predict(encoded.V[test[:_FIRST_TESTED]])
        self.step()
        least = _LEAST_AT_FIRST if numbers else _LEAST_OF_CLASSES_AT_FIRST
        if not are_few and self._weight_at_first(first) < least:
            return None
        rest = test[_FIRST_TESTED:]
        if len(rest):
            first = np.concatenate([first, fitted.predict(encoded.V[rest])])
        if self.are_many:
            self.fitted["local linear"] = fitted
        if not are_few:  # all further fits use the same metric
            self.n_unseen, model = len(test), fitted.model
            local = part_of(targets, LOCAL, sigma=model.sigma_, alpha=model.alpha_)
            local = self.local._replace(
                model=local.model, map=FrozenEstimator(fitted.map)
            )
        others = self.folds._replace(pairs=pairs[n_first:])
        found = [first]
        if others.pairs:
            found.append(others.predictions([local] * len(others.pairs), encoded))
        self.found["local linear"] = np.concatenate(found)
        return local

    def _unexplained(self) -> float:
        """Return the smallest squared error so far, relative to that of the mean."""
        tested = self.rows.some(self.folds.tested)
        share = tested.weights / tested.weights.sum()
        losses = [
            share @ (found[:, 0] - tested.y) ** 2 for found in self.found.values()
        ]
        total = share @ (tested.y - share @ tested.y) ** 2
        return float(min([*losses, total])) / (total or 1.0)

    def _weight_at_first(self, first: np.ndarray) -> float:
        """Return the weight that further predictions for the first rows would have."""
        tested = self.rows.some(self.folds.tested[: len(first)])
        tried = [each[: len(first)] for each in self.found.values()]
        return float(blend_weights([*tried, first], tested, self.targets)[-1])


def _with_weights(
    blend: Blend,
    found: dict[str, np.ndarray],
    rows: TableRows,
    n_unseen: int | None = None,
) -> Blend:
    """Return a blend with weights and errors of predictions for the given rows.

    If the local linear part has learned its metric from all but the first rows, these
    decide how much of its weight is justified.
    """
    targets, share = blend.targets, rows.weights / rows.weights.sum()
    losses = {
        name: float(share @ targets.losses(each, rows.y))
        for name, each in found.items()
    }
    stacked = np.stack([*found.values()])
    values = blend_weights(stacked, rows, targets)
    if n_unseen is not None and len(found) > 1 and "local linear" in found:
        others = np.array([name != "local linear" for name in found])
        without = np.zeros(len(found))
        without[others] = blend_weights(stacked[others], rows, targets)
        pair = np.tensordot(np.stack([without, values]), stacked[:, :n_unseen], 1)
        share_of_both = blend_weights(pair, rows.some(slice(n_unseen)), targets)
        values = share_of_both @ np.stack([without, values])
    values = np.where(values < _LEAST_WEIGHT, 0, values)
    values /= values.sum()
    blended = np.tensordot(values, stacked, 1)
    used = values > 0
    if targets.n_classes is not None and np.count_nonzero(used) > 1:
        factors, power = geometric_weights(stacked[used], rows)
        other = softmax(power * np.tensordot(factors, _logs(stacked[used]), 1), axis=1)
        gain = targets.losses(blended, rows.y) - targets.losses(other, rows.y)
        error = np.sqrt(share**2 @ (gain - share @ gain) ** 2)
        if share @ gain > error and power > 0:
            values[used], blended = factors, other
            blend = blend._replace(power=power)
    weights = dict(zip(found, values.tolist(), strict=True))
    blend = blend._replace(weights=weights, losses=losses)
    are_few_labels = targets.n_classes is not None and len(rows.y) < FEW_ROWS
    if rows.groups is not None or are_few_labels:
        correction: Shrinkage | Recalibration
        if targets.n_classes is None:
            correction = Shrinkage.of(blended, rows.y[:, None], rows.weights)
        else:
            correction = Recalibration.of(blended, rows)
        blend = blend._replace(correction=correction)
        blended = correction(blended)
    return (
        blend if targets.n_classes is not None else _with_errors(blend, blended, rows)
    )


def _with_errors(blend: Blend, found: np.ndarray, rows: TableRows) -> Blend:
    """Return a blend with the errors of predictions for the given encoded rows."""
    errors = rows.y - found[:, 0]
    return blend._replace(
        errors=ScaledErrors.of(
            np.hstack([found, rows.V]), errors, rows.weights, rows.groups
        )
    )
