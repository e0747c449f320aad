"""Blends of models for raw tables, with weights from cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from ..averages import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonRegressor,
)
from ..life_cycle.fitted import Step, no_step
from ..life_cycle.intervals import Errors, LeftOut
from ..life_cycle.supervised import SampleValue
from ..metric import LearnedMetric
from ..ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier
from ..rows.raw_table import CATEGORY
from ..rows.sample import hashes
from ._columns import Encoding
from ._kernel import row_blocks
from ._sampler import AnovaSampler

FLOOR = 0.002  # approximate lower limit of the class probabilities of each model
# predictions may exceed the range of the targets by this proportion of the range
_BEYOND = 0.2
_MOST_AXES = 20  # limit on the number of columns in the learned metric
# With more than _MANY rows, features of the ANOVA kernel are not stored. Weights are
# computed from cross-validated predictions for at most _MOST_TESTED rows, and logistic
# regression is fitted to at most _MOST_LOGISTIC rows.
_MANY, _MOST_TESTED, _MOST_LOGISTIC = 10_000, 4_000, 20_000
_FEW = 600  # with fewer rows, each fold learns its own kernel and metric
_LEAST_ROWS = 40  # with fewer rows, only the ANOVA part is used
_LEAST_SHARE = 0.05  # minimum importance in similarities, relative to the mean
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# The local linear part, which is slow and rarely improves class probabilities, is kept
# only if its weight on the first fold is at least this: for numbers, and for labels.
_LEAST_AT_FIRST, _LEAST_OF_CLASSES_AT_FIRST = 0.1, 0.25
_PENALTY = 0.3  # parameter C of logistic regression
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


class TableRows(NamedTuple):
    """Rows in an order that depends only on their content."""

    V: np.ndarray  # (n, d), as the reader returns them
    y: np.ndarray  # (n,), numbers or codes of classes
    weights: np.ndarray  # (n,), numbers of rows

    def with_copies(self, n_most: int) -> TableRows:
        """Return each row of weight w repeated w times, but at most ``n_most`` times.

        Equal rows are merged, but cross-validation has to train on some of them and to
        test on others. Otherwise the folds of a table with few distinct rows differ
        systematically in the targets of these rows.
        """
        counts = np.clip(self.weights * (1 + 1e-9), 1, n_most).astype(np.intp)
        places = np.repeat(np.arange(len(counts)), counts)
        rows = self.some(places)
        return rows._replace(weights=rows.weights / counts[places])

    def some(self, chosen: Any) -> TableRows:
        """Return the chosen rows."""
        return TableRows(self.V[chosen], self.y[chosen], self.weights[chosen])


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
        own = None if self.map is None else clone(self.map).fit(V, *given)
        V = V if own is None else own.transform(V)
        with warnings.catch_warnings():
            # of merged equal rows, and of folds in which some classes have no rows
            what = "The mean of the sample weights|The number of unique classes"
            warnings.filterwarnings("ignore", what)
            warnings.simplefilter("ignore", ConvergenceWarning)
            return self._replace(model=clone(self.model).fit(V, *given), map=own)

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        targets = self.targets
        V = V if self.map is None else self.map.transform(V)
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


class FeaturesAndColumns(BaseEstimator):
    """The features of a fitted sampler, followed by the one-hot encoded columns."""

    def __init__(self, sampler: FrozenEstimator, encoding: Encoding):
        self.sampler = sampler
        self.encoding = encoding

    def fit(self, *given: np.ndarray) -> Self:
        """Do nothing, because the columns do not depend on the rows of a fold."""
        return self

    def transform(self, V: np.ndarray) -> np.ndarray:
        """Return the columns, (n, m + n_columns)."""
        columns = self.encoding.one_hot(V)
        m = len(self.sampler.get_feature_names_out())
        out = np.empty((len(V), m + columns.shape[1]))
        out[:, m:] = columns
        for rows in row_blocks(len(V)):  # in blocks, to avoid a copy of all features
            out[rows, :m] = self.sampler.transform(V[rows])
        return out


def anova_parts(
    targets: TargetRange, encoding: Encoding, sampler: FrozenEstimator
) -> dict[str, Part]:
    """Return the ridge model and, for labels, logistic regression on its features."""
    parts = {"ANOVA": part_of(targets, _RIDGE, sampler)}
    if targets.n_classes is not None:
        # imported here, because only classifiers need it
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=_PENALTY, max_iter=200)
        both = FeaturesAndColumns(sampler, encoding)
        parts["logistic"] = Part(targets, model, both, _MOST_LOGISTIC)
    return parts


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
    parts: dict[str, Part]  # "ANOVA", and others with positive weights
    weights: dict[str, float] = {"ANOVA": 1.0}
    losses: dict[str, float] = {}
    errors: Errors | None = None  # of cross-validated predictions; None for labels
    similar: NadarayaWatsonRegressor | None = None

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
        return total


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
        # the folds do not depend on the unit of numeric targets
        order = np.argsort(hashes(rows.V, np.zeros(len(rows.y))), kind="stable")
        rows = rows.some(order).with_copies(choices.n_folds)
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
        blend = Blend(targets, encoding, {"ANOVA": anova})
        folds = Folds.of(rows, targets, choices)
        enough = len(rows.y) >= _LEAST_ROWS
        if enough and all(np.ptp(rows.y[train]) > 0 for train, _ in folds.pairs):
            blend = _with_all_parts(blend, rows, folds, step)
        shares = blend.anova.kernel_.feature_importances_
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
        """Return folds (stratified for labels); the rows must be in random order.

        The number of test rows is limited.
        """
        n_rows, n_folds = len(rows.y), choices.n_folds
        order = np.arange(n_rows)
        if targets.n_classes is not None:
            order = np.argsort(rows.y, kind="stable")
        of_fold = np.empty(n_rows, np.intp)
        of_fold[order] = np.arange(n_rows) % n_folds
        n_pairs = min(n_folds, n_rows)
        most = max(1, _MOST_TESTED // n_pairs)
        pairs = [
            (np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold)[:most])
            for fold in range(n_pairs)
        ]
        return cls(pairs, Parallel(n_jobs=choices.n_jobs), choices.seed)

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


def _kernel_of(sampler: AnovaSampler, rows: TableRows) -> AnovaSampler:
    """Return a sampler with the same parameters that is fitted to the rows."""
    return clone(sampler).fit(rows.V, rows.y, sample_weight=rows.weights)


def _with_all_parts(blend: Blend, rows: TableRows, folds: Folds, step: Step) -> Blend:
    """Return the weighted average of all parts, given the fitted ANOVA part."""
    targets, encoding = blend.targets, blend.encoding
    encoded = rows._replace(V=encoding.one_hot(rows.V))
    found = _anova_predictions(blend, rows, encoded.V, folds)
    step()
    local = _local_part(found, encoded, folds, targets, step)
    step()
    blend = _with_weights(blend, found, rows.some(folds.tested))
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
        P = kernel.transform(rows.V)
        inputs = {"ANOVA": P, "logistic": np.hstack([P, one_hot])}
        parts["ANOVA"] = [part_of(targets, _RIDGE, "linear")] * len(kernels)
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
        random_state=folds.seed,
    )
    local = part_of(targets, _LOCAL)._replace(map=metric)
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
        local = part_of(targets, _LOCAL, sigma=model.sigma_, alpha=model.alpha_)
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
    if targets.n_classes is not None:
        return blend
    y, nothing = rows.y[:, None], np.zeros_like(blended)
    errors = Errors.of(LeftOut(blended, y, nothing, rows.weights), None)
    return blend._replace(errors=errors)
