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
from ..life_cycle.out_of_fold import Recalibration, Shrinkage, fold_numbers
from ..life_cycle.supervised import SampleValue, balanced_factors
from ..metric import LearnedMetric
from ..rows.raw_table import CATEGORY
from ._anova_kernel import row_blocks
from ._columns import Encoding
from ._error_scale import ScaledErrors
from ._parts import LOCAL, RIDGE, Part, TableRows, TargetRange, anova_parts, part_of
from ._sampler import AnovaSampler

_MOST_AXES = 20  # limit on the number of columns in the learned metric
_MANY = 10_000  # with more rows, features of the ANOVA kernel are not stored
_FEW = 600  # with fewer rows, each fold learns its own kernel and metric
_LEAST_ROWS = 40  # with fewer rows, only the ANOVA part is used
_LEAST_SHARE = 0.05  # minimum importance in similarities, relative to the mean
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# The local linear part, which is slow and rarely improves class probabilities, is kept
# only if its weight on the first fold is at least this: for numbers, and for labels.
_LEAST_AT_FIRST, _LEAST_OF_CLASSES_AT_FIRST = 0.1, 0.25
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


def _without_fold(
    part: Part, rows: TableRows, train: np.ndarray, test: np.ndarray
) -> np.ndarray:
    """Return predictions for the test rows of a fold."""
    return part.fitted(rows.some(train)).predict(rows.V[test])


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
    parts: dict[str, Part]  # "ANOVA", and others with positive weights
    weights: dict[str, float] = {"ANOVA": 1.0}
    losses: dict[str, float] = {}
    errors: ScaledErrors | None = None  # None for labels, and for a single row
    similar: NadarayaWatsonRegressor | None = None
    # with groups, of predictions for rows of new groups
    correction: Shrinkage | Recalibration | None = None

    @property
    def anova(self) -> Any:
        """The ridge model with the ANOVA kernel."""
        return self.parts["ANOVA"].model

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions, (n, k), computed in blocks of rows."""
        used = {name: part for name, part in self.parts.items() if self.weights[name]}
        total = np.zeros((len(V), self.targets.n_classes or 1))
        for rows in row_blocks(len(V)):
            for name, part in used.items():
                is_local = name == "local linear"
                Z = self.encoding.one_hot(V[rows]) if is_local else V[rows]
                total[rows] += self.weights[name] * part.predict(Z)
        return total if self.correction is None else self.correction(total)

    def with_errors(
        self, V: np.ndarray, function: Callable[[ScaledErrors, np.ndarray], np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions for rows, (n,), and a function of errors and rows.

        The function is called with blocks of rows, which consist of the prediction and
        the encoded columns.
        """
        assert self.errors is not None
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
        categories = [j for j, kind in enumerate(choices.kinds) if kind == CATEGORY]
        sampler = AnovaSampler(categories=categories, random_state=choices.seed)
        anova = part_of(targets, RIDGE, sampler).fitted(rows)
        step()
        encoding = Encoding.of(rows.V, rows.weights, choices.kinds, ())
        blend = Blend(targets, encoding, {"ANOVA": anova})
        options = {"stratified": n_classes is not None}
        folds = Folds.of(rows, choices.n_folds, choices.n_jobs, **options)
        if len(rows.y) >= _LEAST_ROWS and all(
            np.ptp(rows.y[train]) > 0 for train, _ in folds.pairs
        ):
            blend = _with_all_parts(blend, rows, folds, choices.seed, step)
        elif n_classes is None and len(rows.y) > 1:  # for the distribution of errors
            encoded = encoding.one_hot(rows.V)
            found = _anova_predictions(blend, rows, encoded, folds)
            tested = rows._replace(V=encoded).some(folds.tested)
            blend = _with_errors(blend, found["ANOVA"], tested)
        shares = blend.importances(rows.V.shape[1])
        plain = rows._replace(V=encoding.one_hot(rows.V))
        similar = similar_rows(plain, encoding.one_hot_sources, shares)
        return blend._replace(similar=similar)


def _kernel_of(sampler: AnovaSampler, rows: TableRows) -> AnovaSampler:
    """Return a sampler with the same parameters that is fitted to the rows."""
    return clone(sampler).fit(rows.V, rows.y, sample_weight=rows.weights)


def _with_all_parts(
    blend: Blend, rows: TableRows, folds: Folds, seed: int, step: Step
) -> Blend:
    """Return the weighted average of all parts, given the fitted ANOVA part."""
    targets, encoding = blend.targets, blend.encoding
    encoded = rows._replace(V=encoding.one_hot(rows.V))
    found = _anova_predictions(blend, rows, encoded.V, folds)
    step()
    local = _local_part(found, encoded, folds, targets, seed, step)
    step()
    blend = _with_weights(blend, found, encoded.some(folds.tested))
    parts = dict(blend.parts)
    if blend.weights.get("logistic"):
        frozen = FrozenEstimator(blend.anova.kernel_)
        logistic = anova_parts(targets, encoding, frozen)["logistic"]
        parts["logistic"] = logistic.fitted(rows)
    if local is not None and blend.weights["local linear"]:
        parts["local linear"] = local.fitted(encoded)
    return blend._replace(parts=parts)


def _anova_predictions(
    blend: Blend, rows: TableRows, one_hot: np.ndarray, folds: Folds
) -> dict[str, np.ndarray]:
    """Return each ANOVA part's predictions for the test rows of all folds.

    The kernel is learned anew in each fold only if there are few rows.
    """
    targets, encoding, kernel = blend.targets, blend.encoding, blend.anova.kernel_
    n_rows, kernels = len(rows.y), [kernel] * len(folds.pairs)
    if n_rows < _FEW:
        kernels = folds.parallel(
            delayed(_kernel_of)(kernel, rows.some(train)) for train, _ in folds.pairs
        )
    of_folds = [anova_parts(targets, encoding, FrozenEstimator(k)) for k in kernels]
    parts = {name: [each[name] for each in of_folds] for name in of_folds[0]}
    inputs = dict.fromkeys(parts, rows.V)
    if _FEW <= n_rows <= _MANY:  # store the features
        P = kernel._features(rows.V)
        inputs = {"ANOVA": P, "logistic": np.hstack([P, one_hot])}
        parts["ANOVA"] = [part_of(targets, RIDGE, "linear")] * len(kernels)
        parts = {k: [part._replace(map=None) for part in v] for k, v in parts.items()}
    return {
        name: folds.predictions(each, rows._replace(V=inputs[name]))
        for name, each in parts.items()
    }


def _local_part(
    found: dict[str, np.ndarray],
    encoded: TableRows,
    folds: Folds,
    targets: TargetRange,
    seed: int,
    step: Step,
) -> Part | None:
    """Add predictions of the local linear part to ``found``, and return it unfitted.

    Return None, and add nothing, if its weight on the first fold is small.
    """
    numbers = targets.n_classes is None
    metric = LearnedMetric(
        min(_MOST_AXES, encoded.V.shape[1]),
        method="evidence",
        columns="auto" if numbers else "linear",
        random_state=seed,
    )
    local = part_of(targets, LOCAL)._replace(map=metric)
    train, test = folds.pairs[0]
    fitted = local.fitted(encoded.some(train))
    first = fitted.predict(encoded.V[test])
    step()
    tried = [each[: len(first)] for each in found.values()] + [first]
    weights = blend_weights(tried, encoded.some(test), targets)
    if weights[-1] < (_LEAST_AT_FIRST if numbers else _LEAST_OF_CLASSES_AT_FIRST):
        return None
    if len(encoded.y) >= _FEW:  # the other folds and the final fit use the same metric
        model = fitted.model
        local = part_of(targets, LOCAL, sigma=model.sigma_, alpha=model.alpha_)
        local = local._replace(map=FrozenEstimator(fitted.map))
    others = folds._replace(pairs=folds.pairs[1:])
    rest = others.predictions([local] * len(others.pairs), encoded)
    found["local linear"] = np.concatenate([first, rest])
    return local


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
    weights = {"local linear": 0.0} | dict(zip(found, values.tolist(), strict=True))
    blended = np.tensordot(values, np.stack([*found.values()]), 1)
    blend = blend._replace(weights=weights, losses=losses)
    if rows.groups is not None:
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
