"""Blends for raw tables: their parts, and weights from cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed

from .._fitted import Step, no_step
from .._quantiles import Errors, LeftOut
from ..averages import LocalLinearClassifier, LocalLinearRegressor
from ..metric import LearnedMetric
from ..ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier
from ..rows.raw_table import CATEGORY
from ._columns import Encoding, Score
from ._sampler import AnovaSampler, SampleValue

FLOOR = 0.002  # smallest probability of a class that a part predicts
# predictions may exceed the range of the targets by this proportion of it
_BEYOND = 0.2
_MOST_AXES = 20  # largest number of columns of the learned metric
_FEW = 600  # rows below which the ANOVA kernel is learned within the folds
_LEAST_ROWS = 40  # with fewer rows only the ANOVA part is used
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# the same threshold on the first fold for the local linear part, the slowest one
_LEAST_AT_FIRST = 0.1
# powers of blended probabilities that are compared
_POWERS = 0.8, 0.9, 1.0, 1.1, 1.2, 1.35


class TargetRange(NamedTuple):
    """What is predicted: numbers within a range, or classes."""

    n_classes: int | None  # None for numbers
    low: float = 0.0
    high: float = 1.0

    def bounded(self, found: np.ndarray) -> np.ndarray:
        """Return limited predictions, or probabilities of at least FLOOR, (n, k)."""
        if self.n_classes is None:
            return np.clip(found.reshape(len(found), 1), self.low, self.high)
        found = np.maximum(found, FLOOR)
        return found / found.sum(axis=1, keepdims=True)

    def predictions(self, model: Any, X: np.ndarray) -> np.ndarray:
        """Return the bounded predictions of a fitted model."""
        if self.n_classes is None:
            return self.bounded(np.asarray(model.predict(X), dtype=np.float64))
        found = np.zeros((len(X), self.n_classes))
        found[:, model.classes_] = model.predict_proba(X)
        return self.bounded(found)

    def losses(self, found: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the squared error or the log loss of each row."""
        if self.n_classes is None:
            return (found[:, 0] - y) ** 2
        return -np.log(found[np.arange(len(y)), y])

    def vary(self, y: np.ndarray, folds: Sequence[Any]) -> bool:
        """Return whether the targets differ in the training rows of each fold."""
        return all(np.ptp(y[train]) > 0 for train, _ in folds)

    def columns(self, found: np.ndarray) -> np.ndarray:
        """Return predictions as columns for a further model: numbers, or logits."""
        if self.n_classes is None:
            return found
        logits = np.log(found) - np.log(found).mean(axis=1, keepdims=True)
        return logits[:, 1:] if self.n_classes == 2 else logits


def range_of(y: np.ndarray) -> TargetRange:
    """Return the limits of predictions of numeric targets."""
    beyond = _BEYOND * float(np.ptp(y))
    return TargetRange(None, float(y.min()) - beyond, float(y.max()) + beyond)


class TableRows(NamedTuple):
    """Rows in an order that follows from their content."""

    V: np.ndarray  # (n, d), as the reader returns them
    y: np.ndarray  # (n,), numbers or codes of classes
    weights: np.ndarray  # (n,)

    def some(self, chosen: np.ndarray) -> TableRows:
        """Return some of the rows."""
        return TableRows(self.V[chosen], self.y[chosen], self.weights[chosen])


class AdditivePart:
    """Ridge or logistic regression on splines of numbers and one-hot categories."""

    def __init__(self, targets: TargetRange, encoding: Encoding):
        # imported here, because few users need them
        from sklearn.linear_model import LogisticRegression, RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import SplineTransformer, StandardScaler

        self.targets, self.encoding = targets, encoding
        splines = SplineTransformer(
            8, degree=3, knots="quantile", include_bias=False, extrapolation="linear"
        )
        linear: Any = LogisticRegression(C=0.1, max_iter=200)
        if targets.n_classes is None:
            linear = RidgeCV(np.logspace(-2, 4, 13))
        columns = encoder(encoding, make_pipeline(splines, StandardScaler()))
        self.model = make_pipeline(columns, linear)

    def fit(self, rows: TableRows) -> AdditivePart:
        """Fit the model."""
        name = self.model.steps[-1][0]
        options = {f"{name}__sample_weight": rows.weights}
        self.model.fit(self.encoding.transform(rows.V), rows.y, **options)
        return self

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        return self.targets.predictions(self.model, self.encoding.transform(V))


class AnovaPart:
    """Ridge regression or classification with an ANOVA kernel."""

    def __init__(self, targets: TargetRange, sampler: Any):
        self.targets = targets
        kind: Any = RandomFeatureRidgeClassifier
        if targets.n_classes is None:
            kind = RandomFeatureRidge
        self.model = kind(sampler)

    def fit(self, rows: TableRows) -> AnovaPart:
        """Fit the model."""
        self.model.fit(rows.V, rows.y, sample_weight=rows.weights)
        return self

    def within_folds(self, rows: TableRows) -> AnovaPart:
        """Return what folds fit: with the kernel of all rows, unless they are few."""
        if len(rows.y) < _FEW:
            return AnovaPart(self.targets, clone(self.model.kernel))
        return AnovaPart(self.targets, FrozenEstimator(self.model.kernel_))

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        return self.targets.predictions(self.model, V)


class LocalLinearPart:
    """Local linear regression in a learned metric, with additive predictions."""

    def __init__(self, targets: TargetRange, encoding: Encoding, seed: int):
        self.targets, self.encoding, self.seed = targets, encoding, seed
        self.columns = encoder(encoding, "passthrough")
        self.metric = LearnedMetric(random_state=seed)
        kind: Any = LocalLinearClassifier
        if targets.n_classes is None:
            kind = LocalLinearRegressor
        self.model = kind()

    def anew(self) -> LocalLinearPart:
        """Return the same part before it is fitted."""
        return LocalLinearPart(self.targets, self.encoding, self.seed)

    def fit(self, rows: TableRows, additive: np.ndarray) -> LocalLinearPart:
        """Fit metric and model; ``additive`` are predictions of the additive part."""
        Z = self.columns.fit_transform(self.encoding.transform(rows.V))
        Z = np.column_stack([Z, self.targets.columns(additive)])
        self.metric.set_params(n_components=min(_MOST_AXES, Z.shape[1]))
        self.metric.fit(Z, rows.y, sample_weight=rows.weights)
        self.model.fit(self.metric.transform(Z), rows.y, sample_weight=rows.weights)
        return self

    def predict(self, V: np.ndarray, additive: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        Z = self.columns.transform(self.encoding.transform(V))
        Z = np.column_stack([Z, self.targets.columns(additive)])
        return self.targets.predictions(self.model, self.metric.transform(Z))


def encoder(encoding: Encoding, numbers: Any) -> Any:
    """Return the transformer of encoded rows; it encodes levels one-hot."""
    from sklearn.compose import make_column_transformer
    from sklearn.preprocessing import OneHotEncoder

    scores = encoding.is_score
    levels = [
        np.arange(column.n_codes, dtype=np.float64)
        for column in encoding.columns
        if not isinstance(column, Score)
    ]
    one_hot = OneHotEncoder(categories=levels, sparse_output=False)
    return make_column_transformer(
        (numbers, np.flatnonzero(scores)),
        (one_hot, np.flatnonzero(~scores)),
        sparse_threshold=0,
    )


def blend_weights(
    found: Sequence[np.ndarray], rows: TableRows, targets: TargetRange
) -> np.ndarray:
    """Return weights with sum 1 that minimise the loss of the average of parts."""
    share, k = rows.weights / rows.weights.sum(), len(found)
    weights = np.full(k, 1 / k)
    if targets.n_classes is not None:
        own = np.stack([p[np.arange(len(rows.y)), rows.y] for p in found], axis=1)
        for _ in range(300):  # expectation maximisation for a mixture
            weights = weights * (share @ (own / (own @ weights)[:, None]))
        return weights / weights.sum()
    from scipy.optimize import minimize

    errors = np.stack([p[:, 0] for p in found], axis=1) - rows.y[:, None]
    products = errors.T @ (errors * share[:, None])
    products /= max(np.trace(products) / k, 1e-300)
    weights = minimize(
        lambda w: w @ products @ w,
        weights,
        jac=lambda w: 2 * products @ w,
        bounds=[(0, 1)] * k,
        method="SLSQP",
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1},
        options={"ftol": 1e-12, "maxiter": 200},
    ).x
    weights = np.maximum(weights, 0)
    return weights / weights.sum()


class Blend(NamedTuple):
    """The fitted parts and their weights."""

    targets: TargetRange
    additives: list[AdditivePart]  # one per fold
    anova: AnovaPart
    local: LocalLinearPart | None
    weights: dict[str, float]
    losses: dict[str, float]
    power: float
    errors: Errors | None  # errors of cross-validated predictions; None for labels

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions, (n, k)."""
        total, additive = np.zeros(1), None
        if self.additives:
            additive = np.mean([part.predict(V) for part in self.additives], axis=0)
            total = self.weights["additive"] * additive
        if self.weights["ANOVA"]:
            total = total + self.weights["ANOVA"] * self.anova.predict(V)
        if self.local is not None and additive is not None:
            found = self.local.predict(V, additive)
            total = total + self.weights["local linear"] * found
        return calibrated(total, self.power, self.targets)


def calibrated(found: np.ndarray, power: float, targets: TargetRange) -> np.ndarray:
    """Return numbers unchanged, and a normalised power of class probabilities."""
    if targets.n_classes is None:
        return found
    found = found**power
    return found / found.sum(axis=1, keepdims=True)


class BlendChoices(NamedTuple):
    """The parameters, the seed and the kinds of the columns of a fit."""

    n_folds: int
    n_jobs: int | None
    seed: int
    kinds: tuple[str, ...]
    n_classes: int | None


class BlendValue(SampleValue):
    """The rows, in an order that follows from their content, and the blend."""

    most_rows: ClassVar[int] = 2**62

    def _learn(self, step: Step = no_step) -> Blend:
        """Return the fitted parts and their weights."""
        sample, (n_folds, n_jobs, seed, kinds, n_classes) = self.sample, self.choices
        assert sample is not None  # there are rows
        rows = TableRows(sample.X, sample.y, sample.weights)
        targets = range_of(rows.y) if n_classes is None else TargetRange(n_classes)
        categories = [j for j, kind in enumerate(kinds) if kind == CATEGORY]
        sampler = AnovaSampler(categories=categories, random_state=seed)
        anova = AnovaPart(targets, sampler).fit(rows)
        step()
        folds = _folds(rows, targets, n_folds)
        if len(rows.y) < _LEAST_ROWS or not targets.vary(rows.y, folds):
            return Blend(targets, [], anova, None, {"ANOVA": 1.0}, {}, 1.0, None)
        unit = min(1.0, float(rows.weights.mean()))
        encoding = Encoding.of(rows.V, rows.weights / unit, kinds, ())
        parallel = Parallel(n_jobs=n_jobs)
        additives = parallel(
            delayed(AdditivePart(targets, encoding).fit)(rows.some(train))
            for train, _ in folds
        )
        parts = [m.predict(rows.V[b]) for m, (_, b) in zip(additives, folds)]
        found = {"additive": _in_order(parts, folds)}
        additive = found["additive"]
        local: Any = LocalLinearPart(targets, encoding, seed)
        fits: Any = [_fit_fold(anova, local, rows, additive, *folds[0])]
        step()
        test = folds[0][1]
        first = blend_weights([additive[test], *fits[0]], rows.some(test), targets)
        if first[-1] < _LEAST_AT_FIRST:
            local = None
        fits += parallel(
            delayed(_fit_fold)(anova, local, rows, additive, *fold)
            for fold in folds[1:]
        )
        step()
        names = ("ANOVA",) if local is None else ("ANOVA", "local linear")
        for place, name in enumerate(names):
            found[name] = _in_order([fit[place] for fit in fits], folds)
        share = rows.weights / rows.weights.sum()
        losses = {
            name: float(share @ targets.losses(each, rows.y))
            for name, each in found.items()
        }
        values = blend_weights([*found.values()], rows, targets)
        values = np.where(values < _LEAST_WEIGHT, 0, values)
        values /= values.sum()
        weights = {name: float(w) for name, w in zip(found, values, strict=True)}
        blended = np.tensordot(values, np.stack([*found.values()]), 1)
        power, errors = 1.0, None
        if n_classes is None:
            y, nothing = rows.y[:, None], np.zeros_like(blended)
            errors = Errors.of(LeftOut(blended, y, nothing, rows.weights), None)
        else:
            powers = [calibrated(blended, each, targets) for each in _POWERS]
            by_power = [share @ targets.losses(each, rows.y) for each in powers]
            power = _POWERS[int(np.argmin(by_power))]
        weights = {"local linear": 0.0, **weights}
        local = local.fit(rows, additive) if weights["local linear"] else None
        keep = additives if local or weights["additive"] else []
        return Blend(targets, keep, anova, local, weights, losses, power, errors)


def _folds(
    rows: TableRows, targets: TargetRange, n_folds: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and test rows of folds; the order of the rows is random."""
    n_rows = len(rows.y)
    order = np.arange(n_rows)
    if targets.n_classes is not None:
        order = np.argsort(rows.y, kind="stable")
    of_fold = np.empty(n_rows, np.intp)
    of_fold[order] = np.arange(n_rows) % n_folds
    return [
        (np.flatnonzero(of_fold != fold), np.flatnonzero(of_fold == fold))
        for fold in range(min(n_folds, n_rows))
    ]


def _in_order(parts: Sequence[np.ndarray], folds: Any) -> np.ndarray:
    """Return the predictions of the test rows of folds, in the order of the rows."""
    out = np.empty((sum(map(len, parts)), parts[0].shape[1]))
    for (_, test), part in zip(folds, parts, strict=True):
        out[test] = part
    return out


def _fit_fold(
    anova: AnovaPart,
    local: LocalLinearPart | None,
    rows: TableRows,
    additive: np.ndarray,
    train: np.ndarray,
    test: np.ndarray,
) -> list[np.ndarray]:
    """Return the predictions of the test rows of a fold by one or two parts."""
    some = rows.some(train)
    found = [anova.within_folds(rows).fit(some).predict(rows.V[test])]
    if local is not None:
        own = local.anew().fit(some, additive[train])
        found.append(own.predict(rows.V[test], additive[test]))
    return found
