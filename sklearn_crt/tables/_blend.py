"""Blends of models for raw tables, with weights from cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from .._fitted import Step, no_step
from .._quantiles import Errors, LeftOut
from .._supervised import SampleValue
from ..averages import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
)
from ..metric import LearnedMetric
from ..ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier
from ..rows.raw_table import CATEGORY
from ._columns import AdditiveModel, Encoding
from ._sampler import AnovaSampler

FLOOR = 0.002  # approximate lower limit of the class probabilities of each model
# predictions may exceed the range of the targets by this proportion of the range
_BEYOND = 0.2
_MOST_AXES = 20  # limit on the number of columns in the learned metric
# With more than _MANY rows, features of the ANOVA kernel are not stored. Weights are
# computed from cross-validated predictions for at most _MOST_TESTED rows.
_MANY, _MOST_TESTED = 10_000, 4_000
_FEW = 600  # with fewer rows, each fold learns its own kernel and metric
_LEAST_ROWS = 40  # with fewer rows, only the ANOVA part is used
_LEAST_SHARE = 0.05  # minimum importance in similarities, relative to the mean
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# minimum weight on the first fold for which the slow local linear part is kept
_LEAST_AT_FIRST = 0.1
# candidates for the power to which blended probabilities are raised
_POWERS = 0.8, 0.9, 1.0, 1.1, 1.2, 1.35
_RIDGE = RandomFeatureRidge, RandomFeatureRidgeClassifier
_LOCAL = LocalLinearRegressor, LocalLinearClassifier


class TargetRange(NamedTuple):
    """The kind of prediction: numbers within a range, or class probabilities."""

    n_classes: int | None  # None for regression
    low: float = 0.0
    high: float = 1.0

    def bounded(self, found: np.ndarray) -> np.ndarray:
        """Return clipped numbers, or probabilities of about FLOOR or more, (n, k)."""
        if self.n_classes is None:
            return np.clip(found.reshape(len(found), 1), self.low, self.high)
        found = np.maximum(found, FLOOR)
        return found / found.sum(axis=1, keepdims=True)

    def losses(self, found: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the squared error or the log loss of each row."""
        if self.n_classes is None:
            return (found[:, 0] - y) ** 2
        return -np.log(found[np.arange(len(y)), y])

    def with_additive(self, Z: np.ndarray, found: np.ndarray) -> np.ndarray:
        """Append additive predictions to rows: numbers or centred log-probabilities."""
        if self.n_classes is not None:
            found = np.log(found) - np.log(found).mean(axis=1, keepdims=True)
            found = found[:, 1:] if self.n_classes == 2 else found
        return np.column_stack([Z, found])


class TableRows(NamedTuple):
    """Rows in an order that depends only on their content."""

    V: np.ndarray  # (n, d), as the reader returns them
    y: np.ndarray  # (n,), numbers or codes of classes
    weights: np.ndarray  # (n,), numbers of rows

    def with_copies(self, n_most: int) -> TableRows:
        """Return rows in which one of weight w occurs w times, at most ``n_most`` times.

        Equal rows are merged, but cross-validation has to train on some of them and to
        test on others. Otherwise the folds of a table with few distinct rows differ
        systematically in the targets of these rows.
        """
        counts = np.clip(self.weights * (1 + 1e-9), 1, n_most).astype(np.intp)
        places = np.repeat(np.arange(len(counts)), counts)
        rows = self.some(places)
        return rows._replace(weights=rows.weights / counts[places])

    def some(self, chosen: np.ndarray) -> TableRows:
        """Return the chosen rows."""
        return TableRows(self.V[chosen], self.y[chosen], self.weights[chosen])


class Part(NamedTuple):
    """One of the blended models, with bounded predictions; possibly after a metric."""

    targets: TargetRange
    model: Any
    metric: Any = None

    def fitted(self, rows: TableRows) -> Part:
        """Return a copy whose models are fitted to the rows."""
        V, given = rows.V, (rows.y, rows.weights)
        metric = None if self.metric is None else clone(self.metric).fit(V, *given)
        V = V if metric is None else metric.transform(V)
        with warnings.catch_warnings():
            # weights may be large because equal rows are merged
            warnings.filterwarnings("ignore", "The mean of the sample weights")
            return Part(self.targets, clone(self.model).fit(V, *given), metric)

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        targets = self.targets
        V = V if self.metric is None else self.metric.transform(V)
        if targets.n_classes is None:
            return targets.bounded(self.model.predict(V).astype(np.float64))
        found = np.zeros((len(V), targets.n_classes))
        found[:, self.model.classes_] = self.model.predict_proba(V)
        return targets.bounded(found)


def part_of(targets: TargetRange, kinds: Any, *args: Any, **options: Any) -> Part:
    """Return a part with the regressor or the classifier, as the targets require."""
    regressor, classifier = kinds
    kind = regressor if targets.n_classes is None else classifier
    return Part(targets, kind(*args, **options))


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
    return averages.fit(Z, rows.y, sample_weight=rows.weights)


class Blend(NamedTuple):
    """The fitted parts and their weights."""

    targets: TargetRange
    encoding: Encoding
    anova: Part
    additives: Sequence[Part] = ()  # one per fold
    local: Part | None = None
    weights: dict[str, float] = {"ANOVA": 1.0}
    losses: dict[str, float] = {}
    power: float = 1.0
    errors: Errors | None = None  # of cross-validated predictions; None for labels
    similar: NadarayaWatsonRegressor | None = None

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions, (n, k)."""
        total = np.zeros(1)
        if self.additives:
            Z = self.encoding.one_hot(V)
            additive = np.mean([each.predict(Z) for each in self.additives], axis=0)
            total = self.weights["additive"] * additive
            if self.local is not None:
                Z = self.targets.with_additive(Z, additive)
                total = total + self.weights["local linear"] * self.local.predict(Z)
        if self.weights["ANOVA"]:
            total = total + self.weights["ANOVA"] * self.anova.predict(V)
        return calibrated(total, self.power, self.targets)


def calibrated(found: np.ndarray, power: float, targets: TargetRange) -> np.ndarray:
    """Return numbers unchanged; raise probabilities to a power and normalise them."""
    if targets.n_classes is None:
        return found
    found = found**power
    return found / found.sum(axis=1, keepdims=True)


class BlendChoices(NamedTuple):
    """The parameters, the seed and the kinds of columns at the time of ``fit``."""

    n_folds: int
    n_jobs: int | None
    seed: int
    kinds: tuple[str, ...]
    n_classes: int | None


class BlendValue(SampleValue):
    """The rows, in an order that depends only on their content, and the blend."""

    most_rows: ClassVar[int] = 2**62

    def _learn(self, step: Step = no_step) -> Blend:
        sample, choices = self.sample, self.choices
        assert sample is not None  # only called once there are rows
        unit = min(1.0, float(sample.weights.mean()))
        rows = TableRows(sample.X, sample.y, sample.weights / unit)
        rows = rows.with_copies(choices.n_folds)
        targets = TargetRange(choices.n_classes)
        if targets.n_classes is None:
            beyond = _BEYOND * float(np.ptp(rows.y))
            low, high = float(rows.y.min()) - beyond, float(rows.y.max()) + beyond
            targets = targets._replace(low=low, high=high)
        categories = [j for j, kind in enumerate(choices.kinds) if kind == CATEGORY]
        sampler = AnovaSampler(categories=categories, random_state=choices.seed)
        anova = part_of(targets, _RIDGE, sampler).fitted(rows)
        step()
        encoding = Encoding.of(rows.V, rows.weights, choices.kinds, ())
        blend, folds = Blend(targets, encoding, anova), Folds.of(rows, targets, choices)
        enough = len(rows.y) >= _LEAST_ROWS
        if enough and all(np.ptp(rows.y[train]) > 0 for train, _ in folds.pairs):
            blend = _with_all_parts(blend, rows, folds, step)
        shares = anova.model.kernel_.feature_importances_
        plain = rows._replace(V=encoding.one_hot(rows.V))
        similar = similar_rows(plain, encoding.one_hot_sources, shares)
        return blend._replace(similar=similar)


class Folds(NamedTuple):
    """Training and test rows of each fold, and options for fitting a model per fold."""

    pairs: list[tuple[np.ndarray, np.ndarray]]
    parallel: Parallel
    seed: int

    @classmethod
    def of(cls, rows: TableRows, targets: TargetRange, choices: BlendChoices) -> Folds:
        """Return folds (stratified for labels); the rows must be in random order."""
        n_rows, n_folds = len(rows.y), choices.n_folds
        order = np.arange(n_rows)
        if targets.n_classes is not None:
            order = np.argsort(rows.y, kind="stable")
        of_fold = np.empty(n_rows, np.intp)
        of_fold[order] = np.arange(n_rows) % n_folds
        pairs = [
            (np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold))
            for fold in range(min(n_folds, n_rows))
        ]
        return cls(pairs, Parallel(n_jobs=choices.n_jobs), choices.seed)

    def with_fewer_tests(self) -> Folds:
        """Return folds with limited numbers of test rows."""
        most = max(1, _MOST_TESTED // len(self.pairs))
        return self._replace(pairs=[(train, test[:most]) for train, test in self.pairs])

    @property
    def tested(self) -> np.ndarray:
        """The test rows of all folds."""
        return np.concatenate([test for _, test in self.pairs])

    def predictions(
        self, part: Part, rows: TableRows, *, keep: bool = False
    ) -> tuple[np.ndarray, list[Any]]:
        """Return predictions for all test rows, and the fitted parts if requested."""
        some = self.parallel(
            delayed(_without_fold)(part, rows, *pair, keep) for pair in self.pairs
        )
        found, fitted = zip(*some, strict=True)
        return np.concatenate(found), list(fitted)


def _without_fold(
    part: Part, rows: TableRows, train: np.ndarray, test: np.ndarray, keep: bool
) -> tuple[np.ndarray, Part | None]:
    """Return predictions for test rows, and the fitted part if it is to be kept."""
    fitted = part.fitted(rows.some(train))
    return fitted.predict(rows.V[test]), fitted if keep else None


def _with_all_parts(blend: Blend, rows: TableRows, folds: Folds, step: Step) -> Blend:
    """Return the weighted average of three parts, given the fitted ANOVA part."""
    targets, encoding = blend.targets, blend.encoding
    encoded = rows._replace(V=encoding.one_hot(rows.V))
    n_scores = int(encoding.is_score.sum())
    model = AdditiveModel(n_scores, labels=targets.n_classes is not None)
    parts, additives = folds.predictions(Part(targets, model), encoded, keep=True)
    additive = np.empty_like(parts)
    additive[folds.tested] = parts
    encoded = encoded._replace(V=targets.with_additive(encoded.V, additive))
    folds = folds.with_fewer_tests()
    found = {
        "additive": additive[folds.tested],
        "ANOVA": _anova_predictions(blend.anova, rows, folds),
    }
    step()
    local = _local_part(found, encoded, folds, targets, step)
    step()
    blend = _with_weights(blend, found, rows.some(folds.tested))
    if local is not None and blend.weights["local linear"]:
        blend = blend._replace(local=local.fitted(encoded))
    if blend.local is not None or blend.weights["additive"]:
        blend = blend._replace(additives=additives)
    return blend


def _anova_predictions(anova: Part, rows: TableRows, folds: Folds) -> np.ndarray:
    """Return predictions for the test rows of each fold.

    Each fold learns its own kernel only if there are few rows.
    """
    kernel = anova.model.kernel_
    if len(rows.y) > _MANY:
        anova = part_of(anova.targets, _RIDGE, FrozenEstimator(kernel))
    elif len(rows.y) >= _FEW:
        anova = part_of(anova.targets, _RIDGE, "linear")
        rows = rows._replace(V=kernel.transform(rows.V))
    return folds.predictions(anova, rows)[0]


def _local_part(
    found: dict[str, np.ndarray],
    encoded: TableRows,
    folds: Folds,
    targets: TargetRange,
    step: Step,
) -> Part | None:
    """Add predictions of the local linear part to ``found``, and return it unfitted.

    Return None, and add nothing, if its weight on the first fold is below
    ``_LEAST_AT_FIRST``.
    """
    few, numbers = len(encoded.y) < _FEW, targets.n_classes is None
    metric = LearnedMetric(
        min(_MOST_AXES, encoded.V.shape[1]),
        method="evidence",
        columns="auto" if numbers else "linear",
        random_state=folds.seed,
    )
    local = part_of(targets, _LOCAL)._replace(metric=metric)
    first = folds._replace(pairs=folds.pairs[:1])
    predictions, (fitted,) = first.predictions(local, encoded, keep=True)
    tried = [each[: len(predictions)] for each in found.values()] + [predictions]
    step()
    weights = blend_weights(tried, encoded.some(first.tested), targets)
    if weights[-1] < _LEAST_AT_FIRST:
        return None
    each = last = local
    if not few:
        # The other folds reuse sigma, alpha and the metric. The final fit reuses sigma,
        # alpha and the type of features, but learns the metric again from all rows.
        learned, model = fitted.metric, fitted.model
        last = part_of(targets, _LOCAL, sigma=model.sigma_, alpha=model.alpha_)
        each = last._replace(metric=FrozenEstimator(learned))
        metric = clone(metric).set_params(columns=learned.columns_)
        last = last._replace(metric=metric)
    others = folds._replace(pairs=folds.pairs[1:])
    rest, _ = others.predictions(each, encoded)
    found["local linear"] = np.concatenate([predictions, rest])
    return last


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
    if targets.n_classes is None:
        y, nothing = rows.y[:, None], np.zeros_like(blended)
        errors = Errors.of(LeftOut(blended, y, nothing, rows.weights), None)
        return blend._replace(errors=errors)
    powers = [calibrated(blended, each, targets) for each in _POWERS]
    by_power = [share @ targets.losses(each, rows.y) for each in powers]
    return blend._replace(power=_POWERS[int(np.argmin(by_power))])
