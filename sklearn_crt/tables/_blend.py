"""Blends of models for raw tables, with weights from cross-validation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.interpolate import BSpline
from scipy.special import softmax
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import has_fit_parameter

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
from ._columns import Encoding
from ._sampler import AnovaSampler

FLOOR = 0.002  # smallest class probability that a part predicts
# predictions may exceed the range of the targets by this proportion of the range
_BEYOND = 0.2
_DEGREE = 3  # of the splines
_MOST_AXES = 20  # limit on the number of columns in the learned metric
# With more than _MANY rows, features of the ANOVA kernel are not stored. Weights are
# computed from cross-validated predictions for at most _MOST_TESTED rows.
_MANY, _MOST_TESTED = 10_000, 4_000
_FEW = 600  # with fewer rows, each fold learns a kernel and a metric
_LEAST_ROWS = 40  # with fewer rows, only the ANOVA part is used
_LEAST_SHARE = 0.05  # minimum importance of columns in similarities, times n_columns
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# minimum weight on the first fold for the local linear part, which is slow, to be kept
_LEAST_AT_FIRST = 0.1
# candidates for the power to which blended probabilities are raised
_POWERS = 0.8, 0.9, 1.0, 1.1, 1.2, 1.35


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

    def of_classes(self, found: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return bounded probabilities of all classes, given those of some classes."""
        every = np.zeros((len(found), self.n_classes or 0))
        every[:, classes] = found
        return self.bounded(every)

    def losses(self, found: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the squared error or the log loss of each row."""
        if self.n_classes is None:
            return (found[:, 0] - y) ** 2
        return -np.log(found[np.arange(len(y)), y])

    def vary(self, y: np.ndarray, folds: Sequence[Any]) -> bool:
        """Return whether the targets vary among the training rows of each fold."""
        return all(np.ptp(y[train]) > 0 for train, _ in folds)

    def columns(self, found: np.ndarray) -> np.ndarray:
        """Convert predictions to columns for another model: numbers or logits."""
        if self.n_classes is None:
            return found
        logits = np.log(found) - np.log(found).mean(axis=1, keepdims=True)
        return logits[:, 1:] if self.n_classes == 2 else logits


def range_of(y: np.ndarray) -> TargetRange:
    """Return the limits within which predictions of numerical targets must lie."""
    beyond = _BEYOND * float(np.ptp(y))
    return TargetRange(None, float(y.min()) - beyond, float(y.max()) + beyond)


class TableRows(NamedTuple):
    """Rows in an order that depends only on their content."""

    V: np.ndarray  # (n, d), as the reader returns them
    y: np.ndarray  # (n,), numbers or codes of classes
    weights: np.ndarray  # (n,)

    def some(self, chosen: np.ndarray) -> TableRows:
        """Return the chosen rows."""
        return TableRows(self.V[chosen], self.y[chosen], self.weights[chosen])


@dataclass(frozen=True, eq=False)
class Part:
    """A model whose predictions are bounded."""

    targets: TargetRange
    model: Any  # a pipeline

    @classmethod
    def of(cls, targets: TargetRange, *steps: Any) -> Part:
        """Return a part whose model is a pipeline of the given steps."""
        # imported here, because it is rarely needed
        from sklearn.pipeline import make_pipeline

        return cls(targets, make_pipeline(*steps))

    def fitted(self, rows: TableRows) -> Part:
        """Return a copy whose model is fitted to the rows."""
        weights = {
            f"{name}__sample_weight": rows.weights
            for name, step in self.model.steps
            if has_fit_parameter(step, "sample_weight")
        }
        model = clone(self.model).fit(rows.V, rows.y, **weights)
        return Part(self.targets, model)

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        targets = self.targets
        if targets.n_classes is None:
            return targets.bounded(self.model.predict(V).astype(np.float64))
        return targets.of_classes(self.model.predict_proba(V), self.model.classes_)


class AdditiveModel(NamedTuple):
    """A sum of a spline per score, and of a coefficient per indicator of a category.

    Its rows are those of ``Encoding.one_hot``. Beyond the limits of the training rows,
    the splines continue as lines.
    """

    targets: TargetRange
    splines: list[BSpline]  # with k outputs
    limits: np.ndarray  # (2, n_scores)
    jumps: np.ndarray  # (2, n_scores, k), from each limit to the line beyond it
    slopes: np.ndarray  # (2, n_scores, k), of the lines
    coef: np.ndarray  # (n_indicators, k)
    intercept: np.ndarray  # (k,)
    classes: np.ndarray | None

    @classmethod
    def of(cls, targets: TargetRange, n_scores: int, rows: TableRows) -> AdditiveModel:
        """Return a penalised linear model of spline bases and indicators."""
        # imported here, because they are rarely needed
        from sklearn.compose import make_column_transformer
        from sklearn.linear_model import LogisticRegression, RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import SplineTransformer, StandardScaler

        options: Any = {"knots": "quantile", "include_bias": False}
        bases = SplineTransformer(8, degree=_DEGREE, extrapolation="linear", **options)
        scaled = make_pipeline(bases, StandardScaler()), np.arange(n_scores)
        columns = make_column_transformer(scaled, remainder="passthrough")
        linear: Any = LogisticRegression(C=0.1, max_iter=200)
        if targets.n_classes is None:
            linear = RidgeCV(np.logspace(-2, 4, 13))
        linear.fit(columns.fit_transform(rows.V), rows.y, sample_weight=rows.weights)
        coef, intercept = np.atleast_2d(linear.coef_).T, np.ravel(linear.intercept_)
        splines, ends = [], np.empty((3, n_scores, 2, coef.shape[1]))
        if n_scores:  # each spline includes the scales and coefficients of its bases
            fitted, scaler = columns.named_transformers_["pipeline"]
            own, coef = np.split(coef, [len(scaler.scale_)])
            own = own / scaler.scale_[:, None]
            intercept = intercept - scaler.mean_ @ own
            pairs = zip(fitted.bsplines_, np.split(own, n_scores), strict=True)
            for j, (basis, w) in enumerate(pairs):
                # the bases sum to 1, so the last one has no coefficient
                w = np.append(w, np.zeros((1, w.shape[1])), axis=0)
                splines.append(BSpline.construct_fast(basis.t, basis.c @ w, _DEGREE))
                limits = basis.t[[_DEGREE, ~_DEGREE]]
                # only the outer bases continue, but if values are repeated, others
                # may differ from 0 at the limits
                outer = np.zeros((2, len(w)), bool)
                outer[0, :_DEGREE] = outer[1, -_DEGREE:] = True
                ends[0, j] = limits[:, None]
                ends[1, j] = np.where(outer, 0, -basis(limits)) @ w
                ends[2, j] = np.where(outer, basis(limits, 1), 0) @ w
        limits, jumps, slopes = ends.transpose(0, 2, 1, 3)
        classes = getattr(linear, "classes_", None)
        return cls(
            targets, splines, limits[..., 0], jumps, slopes, coef, intercept, classes
        )

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return bounded predictions, (n, k)."""
        scores, indicators = np.split(Z, [len(self.splines)], axis=1)
        total = indicators @ self.coef + self.intercept
        inside = np.clip(scores, *self.limits)
        for spline, x in zip(self.splines, inside.T, strict=True):
            total += spline(x)
        beyond = scores - inside
        for side, sign in enumerate((-1, 1)):
            outside = sign * beyond > 0
            total += outside @ self.jumps[side]
            total += np.where(outside, beyond, 0) @ self.slopes[side]
        if self.classes is None:
            return self.targets.bounded(total)
        if len(self.classes) == 2:
            total = np.column_stack([np.zeros(len(total)), total])
        return self.targets.of_classes(softmax(total, axis=1), self.classes)


def ridge_part(targets: TargetRange, kernel: Any) -> Part:
    """Return ridge regression or classification with a kernel."""
    numbers = targets.n_classes is None
    kind: Any = RandomFeatureRidge if numbers else RandomFeatureRidgeClassifier
    return Part.of(targets, kind(kernel))


def local_part(targets: TargetRange, metric: Any, **options: Any) -> Part:
    """Return local linear regression or classification in a metric."""
    numbers = targets.n_classes is None
    kind: Any = LocalLinearRegressor if numbers else LocalLinearClassifier
    return Part.of(targets, metric, kind(**options))


def with_choices(local: Part, *, metric: bool) -> Part:
    """Return a local linear part that reuses ``sigma`` and ``alpha`` of a fitted part.

    If ``metric`` is True, it also reuses the metric; otherwise it learns a new one.
    """
    learned, model = local.model
    options = {"sigma": model.sigma_, "alpha": model.alpha_}
    kept = FrozenEstimator(learned)
    if not metric:
        kept = clone(learned).set_params(columns=learned.columns_)
    return local_part(local.targets, kept, **options)


def blend_weights(
    found: Sequence[np.ndarray], rows: TableRows, targets: TargetRange
) -> np.ndarray:
    """Return weights that sum to 1 and minimise the loss of the weighted average."""
    share, k = rows.weights / rows.weights.sum(), len(found)
    weights = np.full(k, 1 / k)
    if targets.n_classes is not None:
        own = np.stack([p[np.arange(len(rows.y)), rows.y] for p in found], axis=1)
        for _ in range(300):  # expectation maximisation for mixture weights
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


def similar_rows(
    rows: TableRows, sources: np.ndarray, shares: np.ndarray
) -> NadarayaWatsonRegressor:
    """Return a kernel average in which columns are scaled by their importance.

    For each column of the rows, ``sources`` contains the position of the table's column
    from which it was computed; ``shares`` are the importances of the table's columns.
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
    additives: list[AdditiveModel]  # one per fold
    anova: Part
    local: Part | None
    similar: NadarayaWatsonRegressor
    weights: dict[str, float]
    losses: dict[str, float] = {}
    power: float = 1.0
    errors: Errors | None = None  # of cross-validated predictions; None for labels

    def predict(self, V: np.ndarray) -> np.ndarray:
        """Return predictions, (n, k)."""
        total = np.zeros(1)
        if self.additives:
            Z = self.encoding.one_hot(V)
            additive = np.mean([each.predict(Z) for each in self.additives], axis=0)
            total = self.weights["additive"] * additive
            if self.local is not None:
                Z = with_additive(Z, additive, self.targets)
                total = total + self.weights["local linear"] * self.local.predict(Z)
        if self.weights["ANOVA"]:
            total = total + self.weights["ANOVA"] * self.anova.predict(V)
        return calibrated(total, self.power, self.targets)

    @property
    def ridge(self) -> Any:
        """The fitted ridge estimator with the ANOVA kernel."""
        return self.anova.model[-1]


def with_additive(
    Z: np.ndarray, additive: np.ndarray, targets: TargetRange
) -> np.ndarray:
    """Append the predictions of the additive part to the columns of the rows."""
    return np.column_stack([Z, targets.columns(additive)])


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
        """Return the fitted parts and their weights."""
        sample, (n_folds, n_jobs, seed, kinds, n_classes) = self.sample, self.choices
        assert sample is not None  # only called once there are rows
        rows = TableRows(sample.X, sample.y, sample.weights)
        targets = range_of(rows.y) if n_classes is None else TargetRange(n_classes)
        categories = [j for j, kind in enumerate(kinds) if kind == CATEGORY]
        sampler = AnovaSampler(categories=categories, random_state=seed)
        anova = ridge_part(targets, sampler).fitted(rows)
        step()
        unit = min(1.0, float(rows.weights.mean()))
        encoding = Encoding.of(rows.V, rows.weights / unit, kinds, ())
        plain = rows._replace(V=encoding.one_hot(rows.V))
        kernel = anova.model[-1].kernel_
        sources, shares = encoding.one_hot_sources, kernel.feature_importances_
        similar = similar_rows(plain, sources, shares)
        folds = _folds(rows, targets, n_folds)
        if len(rows.y) < _LEAST_ROWS or not targets.vary(rows.y, folds):
            weights = {"ANOVA": 1.0}
            return Blend(targets, encoding, [], anova, None, similar, weights)
        parallel = Parallel(n_jobs=n_jobs)
        few, ridge, features = len(rows.y) < _FEW, anova, rows
        if len(rows.y) > _MANY:
            ridge = ridge_part(targets, FrozenEstimator(kernel))
        elif not few:
            ridge = ridge_part(targets, "linear")
            features = rows._replace(V=kernel.transform(rows.V))
        fit = partial(AdditiveModel.of, targets, int(encoding.is_score.sum()))
        additives, parts = _in_folds(fit, plain, folds, parallel)
        additive = np.empty((len(rows.y), parts[0].shape[1]))
        for (_, test), each in zip(folds, parts, strict=True):
            additive[test] = each
        most = max(1, _MOST_TESTED // len(folds))
        folds = [(train, test[:most]) for train, test in folds]
        tested = np.concatenate([test for _, test in folds])
        _, parts = _in_folds(ridge.fitted, features, folds, parallel)
        found = {"additive": additive[tested], "ANOVA": np.concatenate(parts)}
        step()
        Z = with_additive(plain.V, additive, targets)
        near, n_axes = rows._replace(V=Z), min(_MOST_AXES, Z.shape[1])
        candidates = "auto" if n_classes is None else "linear"
        options = {"columns": candidates, "random_state": seed}
        metric = LearnedMetric(n_axes, method="evidence", **options)
        local: Any = local_part(targets, metric)
        (first,), parts = _in_folds(local.fitted, near, folds[:1], parallel)
        test = folds[0][1]
        tried = [*(each[: len(test)] for each in found.values()), *parts]
        step()
        if blend_weights(tried, rows.some(test), targets)[-1] < _LEAST_AT_FIRST:
            local = None
        else:
            local = local if few else with_choices(first, metric=True)
            parts += _in_folds(local.fitted, near, folds[1:], parallel)[1]
            found["local linear"] = np.concatenate(parts)
        step()
        known = rows.some(tested)
        share = known.weights / known.weights.sum()
        losses = {
            name: float(share @ targets.losses(each, known.y))
            for name, each in found.items()
        }
        values = blend_weights([*found.values()], known, targets)
        values = np.where(values < _LEAST_WEIGHT, 0, values)
        values /= values.sum()
        weights = {name: float(w) for name, w in zip(found, values, strict=True)}
        blended = np.tensordot(values, np.stack([*found.values()]), 1)
        power, errors = 1.0, None
        if n_classes is None:
            y, nothing = known.y[:, None], np.zeros_like(blended)
            errors = Errors.of(LeftOut(blended, y, nothing, known.weights), None)
        else:
            powers = [calibrated(blended, each, targets) for each in _POWERS]
            by_power = [share @ targets.losses(each, known.y) for each in powers]
            power = _POWERS[int(np.argmin(by_power))]
        weights = {"local linear": 0.0, **weights}
        if local is not None and weights["local linear"]:
            last = local if few else with_choices(first, metric=False)
            local = last.fitted(near)
        else:
            local = None
        keep = additives if local or weights["additive"] else []
        blend = keep, anova, local, similar, weights, losses, power, errors
        return Blend(targets, encoding, *blend)


def _folds(
    rows: TableRows, targets: TargetRange, n_folds: int
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the training and test rows of each fold, given rows in random order."""
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


def _in_folds(
    fit: Callable, rows: TableRows, folds: Sequence[Any], parallel: Parallel
) -> tuple[list[Any], list[np.ndarray]]:
    """For each fold, fit a model to the other folds and predict this fold."""
    pairs = parallel(delayed(_without_fold)(fit, rows, *fold) for fold in folds)
    fitted, predictions = zip(*pairs, strict=True)
    return list(fitted), list(predictions)


def _without_fold(
    fit: Callable, rows: TableRows, train: np.ndarray, test: np.ndarray
) -> tuple[Any, np.ndarray]:
    """Return the model fitted to training rows, and its predictions for test rows."""
    fitted = fit(rows.some(train))
    return fitted, fitted.predict(rows.V[test])
