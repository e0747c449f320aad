"""The parts of a blend for tables, and their weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from ..averages import LocalLinearClassifier, LocalLinearRegressor
from ..metric import LearnedMetric
from ..ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier
from ._columns import Encoding, Score

FLOOR = 0.002  # smallest probability of a class that a part predicts
# predictions may exceed the range of the targets by this proportion of it
_BEYOND = 0.2
_MOST_AXES = 20  # of the learned metric
_FEW = 600  # rows below which the ANOVA kernel is learned within the folds


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
