"""Blends of models for raw tables, with weights from cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
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
from ._anova_sampler import AnovaSampler
from ._encoding import Encoding
from ._error_scale import ScaledErrors
from ._extrapolation import Trend
from ._parts import LOCAL, RIDGE, Part, TableRows, TargetRange, anova_parts, part_of
from ._trees import Trees

_MOST_AXES = 20  # limit on the number of columns in the learned metric
_MANY = 10_000  # with more rows, features of the ANOVA kernel are not stored
_FEW = 600  # with fewer rows, each fold learns its own kernel and metric
_LEAST_ROWS = 40  # with fewer rows, only the ANOVA part is used
_LEAST_SHARE = 0.05  # minimum importance in similarities, relative to the mean
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# The local linear part, which is slow and rarely improves class probabilities, is kept
# only if its weight on the first fold is at least this: for numbers, and for labels.
_LEAST_AT_FIRST, _LEAST_OF_CLASSES_AT_FIRST = 0.1, 0.25
_LEAST_OF_TREES_AT_FIRST = 0.05
_LATE = 0.9  # share of the iterations after which more of them are tried
# the parts of regressors and of classifiers; with few rows, the first one is used
PARTS_OF_NUMBERS = "ANOVA", "linear", "local linear", "trees"
PARTS_OF_LABELS = "ANOVA", "logistic", "local linear", "trees"
# blending weights and error scales are computed from predictions for at most this many
MOST_TESTED = 4_000
# With fewer than _FEW_OF_FOLDS rows, there are at least _LEAST_FOLDS folds, because
# models that are fitted to much fewer rows have larger errors.
_FEW_OF_FOLDS, _LEAST_FOLDS = 200, 10


class Folds(NamedTuple):
    """Training and test rows of each fold."""

    pairs: list[tuple[np.ndarray, np.ndarray]]
    parallel: Parallel

    @classmethod
    def of(
        cls, rows: TableRows, n_folds: int, n_jobs: int | None, *, stratified: bool
    ) -> Folds:
        """Return folds, stratified for labels; the rows must be in random order.

        The number of test rows is limited. Rows of a group are in the same fold.
        """
        n_rows = len(rows.y)
        if n_rows < _FEW_OF_FOLDS:
            n_folds = max(n_folds, _LEAST_FOLDS)
        order = np.argsort(rows.y, kind="stable") if stratified else np.arange(n_rows)
        of_fold = np.empty(n_rows, np.intp)
        of_fold[order] = np.arange(n_rows) % n_folds
        n_pairs = min(n_folds, n_rows)
        if rows.groups is not None:
            of_fold = fold_numbers(n_rows, None, rows.groups)
            n_pairs = int(of_fold.max()) + 1
        most = max(1, MOST_TESTED // n_pairs)
        pairs = [
            (np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold)[:most])
            for fold in range(n_pairs)
        ]
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

    def stages(self, part: Part, rows: TableRows) -> list[np.ndarray]:
        """Return predictions of each iteration of boosting for each fold."""
        # -> (n_iterations, n, k) for each fold
        return self.parallel(
            delayed(_stages_without_fold)(part, rows, *pair) for pair in self.pairs
        )


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


def blend_weights(
    found: Sequence[np.ndarray], rows: TableRows, targets: TargetRange
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


def similar_rows(
    rows: TableRows, sources: np.ndarray, shares: np.ndarray
) -> NadarayaWatsonRegressor:
    """Return a kernel average in which columns are scaled by their importance.

    ``sources`` contains the table column from which each encoded column was computed,
    and ``shares`` the importance of each table column.
    """
    Z, share = rows.V, rows.weights / rows.weights.sum()
    spread = np.bincount(sources, share @ (Z - share @ Z) ** 2, len(shares))
    # unimportant columns also contribute, so that unusual values in them are detected
    sizes = np.maximum(shares, _LEAST_SHARE / len(shares))
    sigma = np.sqrt(2 * sizes / np.where(spread > 0, spread, 1))[sources]
    averages = NadarayaWatsonRegressor(sigma=sigma)
    # targets are not needed
    return frozen_copy(averages.fit(Z, np.zeros(len(Z)), sample_weight=rows.weights))


class Blend(NamedTuple):
    """The fitted parts and their weights."""

    targets: TargetRange
    encoding: Encoding
    # those with positive weights, and "ANOVA" if "logistic" uses its kernel
    parts: dict[str, Part]
    weights: dict[str, float] = {}
    losses: dict[str, float] = {}
    errors: ScaledErrors | None = None  # None for labels, and for a single row
    similar: NadarayaWatsonRegressor | None = None
    # with groups, of predictions for rows of new groups; of probabilities for few rows
    correction: Shrinkage | Recalibration | None = None
    # (n_encoded,), standard deviations of encoded columns
    spreads: np.ndarray | None = None
    trend: Trend | None = None  # of numbers, outside the range of the columns

    @property
    def anova(self) -> Any:
        """The ridge model with the ANOVA kernel."""
        return self.parts["ANOVA"].model

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions, (n, k), computed in blocks of rows."""
        if self.trend is not None:
            inside = self._replace(trend=None).predict(self.trend.inside(V))
            return inside + self.trend.beyond(V)[0][:, None]
        used = {name: weight for name, weight in self.weights.items() if weight}
        total = np.zeros((len(V), self.targets.n_classes or 1))
        for rows in row_blocks(len(V)):
            for name, weight in used.items():
                Z = V[rows]
                if name in {"linear", "local linear"}:
                    Z = self.encoding.one_hot(Z)
                total[rows] += weight * self.parts[name].predict(Z)
        return total if self.correction is None else self.correction(total)

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
        mean = self.predict(V)
        found = [
            function(self.errors, np.hstack([mean[b], self.encoding.one_hot(V[b])]))
            for b in row_blocks(len(V))
        ]
        return mean[:, 0], np.concatenate(found)

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
                found = np.abs(self.parts[name].model.coef_) * self.spreads
                found = np.bincount(self.encoding.one_hot_sources, found, n_columns)
                total += weight * found / (found.sum() or 1.0)
            elif weight and name == "trees":
                total += weight * self.parts[name].model.importances
            elif weight:  # logistic regression has the features of the same kernel
                total += weight * self.anova.kernel_.feature_importances_
        return total


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
        spreads = weighted_deviations(encoding.one_hot(rows.V), rows.weights)
        blend = Blend(targets, encoding, {}, spreads=spreads)
        if {"ANOVA", "logistic"} & {*choices.parts}:
            categories = [j for j, kind in enumerate(choices.kinds) if kind == CATEGORY]
            sampler = AnovaSampler(categories=categories, random_state=choices.seed)
            anova = part_of(targets, RIDGE, sampler).fitted(rows)
            blend = blend._replace(parts={"ANOVA": anova})
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
            blend = blend._replace(trend=_trend_of(encoding, rows, learner.encoded.V))
        return blend._replace(similar=similar)


def weighted_deviations(Z: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the standard deviation of each column."""
    share = weights / weights.sum()
    return np.sqrt(share @ np.square(Z - share @ Z))


def _trend_of(encoding: Encoding, rows: TableRows, encoded: np.ndarray) -> Trend | None:
    """Return the lines along which predictions continue outside of the data."""
    k = np.count_nonzero(encoding.is_score)
    parts = encoded[:, :k], encoded[:, k:], encoding.one_hot_sources[:k]
    return Trend.of(rows.V, rows.y, rows.weights, *parts)


def _kernel_of(sampler: AnovaSampler, rows: TableRows) -> AnovaSampler:
    """Return a sampler with the same parameters that is fitted to the rows."""
    return clone(sampler).fit(rows.V, rows.y, sample_weight=rows.weights)


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
        """Prepare for learning; ``blend`` contains the ANOVA part if it is needed."""
        self.blend, self.rows, self.folds, self.step = blend, rows, folds, step
        self.names, self.targets = choices.parts, blend.targets
        self.encoded = rows._replace(V=blend.encoding.one_hot(rows.V))
        numbers = self.targets.n_classes is None
        metric = LearnedMetric(
            min(_MOST_AXES, self.encoded.V.shape[1]),
            method="evidence",
            columns="auto" if numbers else "linear",
            random_state=choices.seed,
        )
        self.local = part_of(self.targets, LOCAL)._replace(map=metric)
        kinds, n_classes = choices.kinds, self.targets.n_classes
        categories = tuple(j for j, kind in enumerate(kinds) if kind == CATEGORY)
        trees = Trees(categories, n_classes, random_state=choices.seed)
        self.trees = Part(self.targets, trees)
        self.linear = part_of(self.targets, RIDGE, "linear")
        self.found: dict[str, np.ndarray] = {}  # predictions for the test rows

    def with_one_part(self) -> Blend:
        """Return a blend of a single part, for few rows."""
        name, rows = self.names[0], self.rows
        part, inputs = self.trees, rows
        if name in {"ANOVA", "logistic"}:
            name = "ANOVA"
        elif name in {"linear", "local linear"}:
            part = self.linear if name == "linear" else self.local
            inputs = self.encoded
        parts = self.blend.parts or {name: part.fitted(inputs)}
        blend = self.blend._replace(parts=parts, weights={name: 1.0})
        if len(rows.y) == 1:
            return blend
        vary = all(np.ptp(rows.y[train]) > 0 for train, _ in self.folds.pairs)
        if self.targets.n_classes is not None and not vary:
            return blend
        if name == "ANOVA":
            found = self._anova_predictions()[name]
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
        blend, names, fitted = self.blend, self.names, dict(self.blend.parts)
        if fitted:
            found = self._anova_predictions()
            self.found = {name: found[name] for name in found if name in names}
        if "linear" in names:
            same = [self.linear] * len(self.folds.pairs)
            self.found["linear"] = self.folds.predictions(same, self.encoded)
        self.step()
        trees = self._trees_part() if "trees" in names else None
        self.step()
        local = self._local_part() if "local linear" in names else None
        self.step()
        blend = _with_weights(blend, self.found, self.encoded.some(self.folds.tested))
        weights = dict.fromkeys(names, 0.0) | blend.weights
        if weights.get("logistic"):
            frozen = FrozenEstimator(blend.anova.kernel_)
            logistic = anova_parts(self.targets, blend.encoding, frozen)["logistic"]
            fitted["logistic"] = logistic.fitted(self.rows)
        if weights.get("linear"):
            fitted["linear"] = self.linear.fitted(self.encoded)
        if local is not None and weights["local linear"]:
            fitted["local linear"] = local.fitted(self.encoded)
        if trees is not None and weights["trees"]:
            fitted["trees"] = trees.fitted(self.rows)
        return blend._replace(parts=fitted, weights=weights)

    def _anova_predictions(self) -> dict[str, np.ndarray]:
        """Return each ANOVA part's predictions for the test rows of all folds.

        The kernel is learned anew in each fold only if there are few rows.
        """
        blend, rows, folds = self.blend, self.rows, self.folds
        targets, encoding, kernel = blend.targets, blend.encoding, blend.anova.kernel_
        n_rows, kernels = len(rows.y), [kernel] * len(folds.pairs)
        if n_rows < _FEW:
            kernels = folds.parallel(
                delayed(_kernel_of)(kernel, rows.some(train))
                for train, _ in folds.pairs
            )
        of_folds = [anova_parts(targets, encoding, FrozenEstimator(k)) for k in kernels]
        names = [name for name in of_folds[0] if name in {"ANOVA", *self.names}]
        parts = {name: [each[name] for each in of_folds] for name in names}
        inputs = dict.fromkeys(parts, rows.V)
        if _FEW <= n_rows <= _MANY:  # store the features
            P = kernel._features(rows.V)
            inputs = {"ANOVA": P, "logistic": np.hstack([P, self.encoded.V])}
            parts["ANOVA"] = [part_of(targets, RIDGE, "linear")] * len(kernels)
            parts = {
                k: [part._replace(map=None) for part in v] for k, v in parts.items()
            }
        return {
            name: folds.predictions(each, rows._replace(V=inputs[name]))
            for name, each in parts.items()
        }

    def _trees_part(self) -> Part | None:
        """Return the unfitted boosting part, after adding its predictions.

        Return None, and add nothing, if its weight on the first fold is small.
        """
        usual, most = self.trees.model.sizes
        trees, (train, test) = self._trees_of(usual), self.folds.pairs[0]
        stages = _stages_without_fold(trees, self.rows, train, test)
        n_best = self._best_size([stages], usual)
        if self._weight_at_first(stages[n_best - 1]) < _LEAST_OF_TREES_AT_FIRST:
            return None
        if n_best == usual < most and self._best_size([stages], 0) >= _LATE * usual:
            trees = self._trees_of(most)
            stages = _stages_without_fold(trees, self.rows, train, test)
            n_best = self._best_size([stages], usual)
        n_most = len(stages) if n_best >= usual else min(len(stages), 2 * n_best)
        others = self.folds._replace(pairs=self.folds.pairs[1:])
        of_folds = [
            stages[:n_most],
            *others.stages(self._trees_of(n_most), self.rows),
        ]
        n_best = self._best_size(of_folds, min(usual, n_most))
        self.found["trees"] = np.concatenate([each[n_best - 1] for each in of_folds])
        return self._trees_of(n_best)

    def _trees_of(self, n_iterations: int) -> Part:
        """Return the unfitted boosting part with a number of iterations."""
        return self.trees._replace(model=self.trees.model.with_size(n_iterations))

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

        Return None, and add nothing, if its weight on the first fold is small.
        """
        encoded, targets, local = self.encoded, self.targets, self.local
        train, test = self.folds.pairs[0]
        fitted = local.fitted(encoded.some(train))
        first = fitted.predict(encoded.V[test])
        self.step()
        numbers = targets.n_classes is None
        least = _LEAST_AT_FIRST if numbers else _LEAST_OF_CLASSES_AT_FIRST
        if self._weight_at_first(first) < least:
            return None
        if len(encoded.y) >= _FEW:  # all further fits use the same metric
            model = fitted.model
            local = part_of(targets, LOCAL, sigma=model.sigma_, alpha=model.alpha_)
            local = local._replace(map=FrozenEstimator(fitted.map))
        self._add("local linear", first, local, encoded)
        return local

    def _weight_at_first(self, first: np.ndarray) -> float:
        """Return the weight that further predictions for the first fold would have."""
        tested = self.rows.some(self.folds.pairs[0][1])
        tried = [each[: len(first)] for each in self.found.values()]
        return float(blend_weights([*tried, first], tested, self.targets)[-1])

    def _add(self, name: str, first: np.ndarray, part: Part, rows: TableRows) -> None:
        """Add the predictions of a part for the test rows of all folds."""
        others = self.folds._replace(pairs=self.folds.pairs[1:])
        rest = others.predictions([part] * len(others.pairs), rows)
        self.found[name] = np.concatenate([first, rest])


def _with_weights(blend: Blend, found: dict[str, np.ndarray], rows: TableRows) -> Blend:
    """Return a blend with weights and errors of predictions for the given rows."""
    targets, share = blend.targets, rows.weights / rows.weights.sum()
    losses = {
        name: float(share @ targets.losses(each, rows.y))
        for name, each in found.items()
    }
    values = blend_weights([*found.values()], rows, targets)
    values = np.where(values < _LEAST_WEIGHT, 0, values)
    values /= values.sum()
    weights = dict(zip(found, values.tolist(), strict=True))
    blended = np.tensordot(values, np.stack([*found.values()]), 1)
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
