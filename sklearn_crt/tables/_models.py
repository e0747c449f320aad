"""Blends of additive, ANOVA and local linear models for raw tables."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.parallel import Parallel, delayed

from .._calibration import Errors, LeftOut
from .._compat import (
    Interval,
    RandomState,
    StrOptions,
    _fit_context,
)
from .._fitted import (
    Batch,
    LifeCycle,
    Step,
    check_same_params,
    no_step,
    value_of,
)
from .._quantiles import check_coverage, check_levels
from ..ridge._effects import Effects
from ..rows import (
    TableLike,
    as_numbers,
    check_same_classes,
    read_weights,
    weighted_rows,
)
from ..rows.raw_table import (
    CATEGORY,
    TableReader,
    read_table_and_targets,
    validated_table,
)
from ._columns import Encoding
from ._parts import (
    AdditivePart,
    AnovaPart,
    LocalLinearPart,
    TableRows,
    TargetRange,
    blend_weights,
    range_of,
)
from ._sampler import AnovaSampler, SampleValue

_LEAST_ROWS = 40  # with fewer rows only the ANOVA part is used
_LEAST_WEIGHT = 0.01  # parts with a smaller weight are left out
# The same on the first fold for the local linear part, whose fits take most of the time
_LEAST_AT_FIRST = 0.1
# powers of blended probabilities that are compared
_POWERS = 0.8, 0.9, 1.0, 1.1, 1.2, 1.35


class Blend(NamedTuple):
    """The fitted parts and their weights."""

    targets: TargetRange
    additives: list[AdditivePart]  # one per fold
    anova: AnovaPart
    local: LocalLinearPart | None
    weights: dict[str, float]
    losses: dict[str, float]
    power: float
    errors: Errors | None  # of cross-validated predictions; None for labels

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


class BaseKernelModel(LifeCycle):
    """A convex combination of an additive, an ANOVA and a local linear model.

    Parameters
    ----------
    n_folds : int, default=4
        Number of folds whose left-out predictions determine the weights of the parts.
    n_jobs : int, default=None
        Number of processes for the folds; -1 uses all processors, None is one.
    random_state : int, RandomState instance or None, default=None
        Seed of the landmarks and of the learned metric. Pass an integer for results
        that can be repeated.

    Attributes
    ----------
    weights_ : dict of str and float
        The weight of each part: ``"additive"``, ``"ANOVA"`` and ``"local linear"``. A
        part of weight 0 is not used. With fewer than 40 rows there is only ``"ANOVA"``.
    losses_ : dict of str and float
        The mean loss of each part on rows that it was not fitted to: squared error for
        numbers, log loss for labels.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of X in the ANOVA part; the importances sum to 1.
    """

    _parameter_constraints: dict = {
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }
    _value: BlendValue
    _reader: TableReader

    def __init__(
        self,
        *,
        n_folds: int = 4,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: TableLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the parts and their weights.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Table with columns of numbers, booleans, dates, strings or categories, which
            may have missing values.
        y : array-like of shape (n_samples,)
            Targets: numbers for the regressor, labels for the classifier.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; a row of weight w counts as w rows.

        Returns
        -------
        self : object
            The fitted model, which keeps the rows until :meth:`freeze` is called.

        Raises
        ------
        ValueError
            If a parameter, X, y or a weight is out of range.
        """
        return self._fit_value(X, y, sample_weight)

    def _read(  # type: ignore[override]
        self, X: Any, y: Any, sample_weight: Any, *, first: bool, final: bool
    ) -> Batch:
        self._note_namespace(X, y, sample_weight, first=first)
        V, y, self._reader = read_table_and_targets(self, X, y, None, None, reset=first)
        y = column_or_1d(y, warn=True)
        y, sample_weight = self._read_targets(y, V, sample_weight)
        return Batch(*weighted_rows(V, y, sample_weight)[:3])

    def _empty_value(self, batch: Batch) -> BlendValue:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kinds, classes = self._reader.kinds, getattr(self, "classes_", None)
        n_classes = None if classes is None else len(classes)
        return BlendValue(
            BlendChoices(self.n_folds, self.n_jobs, seed, kinds, n_classes)
        )

    def _check_same_model(self, other: Any) -> None:
        pair = self._value, other._value
        mine, theirs = (one.choices._replace(seed=0, n_jobs=None) for one in pair)
        check_same_params(mine._asdict(), theirs._asdict())
        if mine.n_classes is not None:
            check_same_classes(self, other)

    def _predictions(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the matrix of a table of the user, and its predictions."""
        blend = value_of(self).solution
        V = self._reader.read(validated_table(self, X, reset=False))
        return V, blend.predict(V).astype(V.dtype, copy=False)

    @property
    def weights_(self) -> dict[str, float]:
        """The weight of each part."""
        return dict(self._value.solution.weights)

    @property
    def losses_(self) -> dict[str, float]:
        """The mean loss of each part on rows that it was not fitted to."""
        return dict(self._value.solution.losses)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each column of X in the ANOVA part; the sum is 1."""
        return self._value.solution.anova.model.kernel_.feature_importances_

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags: raw tables."""
        tags = super().__sklearn_tags__()
        inputs = tags.input_tags
        inputs.sparse = False
        inputs.allow_nan = inputs.string = inputs.categorical = True
        return tags


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


class KernelRegressor(RegressorMixin, BaseKernelModel):
    """Regression on raw tables by a blend of three kinds of smooth functions.

    Numbers, categories, dates and missing values need no preparation. The prediction is
    a weighted average of an additive model (splines of each number), ridge regression
    with the ANOVA kernel of :class:`AnovaSampler`, and local linear regression in a
    learned metric, which uses the additive predictions as an additional column. The
    weights minimise the squared error of cross-validated predictions (stacking [1]_).

    See Also
    --------
    RandomFeatureRidge : With ``AnovaSampler()`` one of the parts, which is faster.
    KernelClassifier : The same for labels.

    Notes
    -----
    With 600 rows or more the ANOVA kernel is learned from all rows, and folds fit the
    coefficients; with fewer rows it is learned within the folds, as the metric always
    is. The local linear part is left out if its weight on the first fold is below 0.1.
    Predictions of each part may exceed the range of the targets by at most a fifth of
    this range.

    References
    ----------
    .. [1] L. Breiman, "Stacked Regressions", Machine Learning 24 (1996),
       :doi:`10.1007/BF00117832`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import KernelRegressor
    >>> rng = np.random.default_rng(0)
    >>> size, kind = rng.uniform(-2, 2, 300), rng.choice(["a", "b", None], 300)
    >>> X = np.array([size, kind], dtype=object).T
    >>> y = np.sin(2 * size) * np.where(kind == "a", 1, -1)
    >>> model = KernelRegressor(random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.9
    True
    """

    def _read_targets(self, y: np.ndarray, V: np.ndarray, sample_weight: Any) -> Any:
        return as_numbers(y), sample_weight

    def predict(self, X: TableLike) -> np.ndarray:
        """Predict targets.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted targets.
        """
        return self._predictions(X)[1][:, 0]

    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> np.ndarray:
        """Predict intervals that contain a given proportion of new targets.

        The intervals have the same width for all rows, which is determined by the
        errors of cross-validated predictions.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows for which predictions are made.
        coverage : float, default=0.9
            Proportion of new targets that the intervals should contain.

        Returns
        -------
        ends : ndarray of shape (n_samples, 2)
            Lower and upper ends of the intervals.
        """
        coverage, (V, mean) = check_coverage(coverage), self._predictions(X)
        blend = self._value.solution
        errors = blend.errors
        if errors is None:
            return blend.anova.model.predict_interval(V, coverage)
        margin = errors.margins(np.ones_like(mean), coverage)
        return np.concatenate([mean - margin, mean + margin], axis=1)

    def predict_quantiles(
        self, X: TableLike, quantiles: float | ArrayLike
    ) -> np.ndarray:
        """Predict quantiles of the targets.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows for which predictions are made.
        quantiles : float or array-like of shape (n_quantiles,)
            Levels of the quantiles, between 0 and 1.

        Returns
        -------
        values : ndarray of shape (n_samples,) or (n_samples, n_quantiles)
            Each prediction plus the quantiles of the errors of cross-validated
            predictions.
        """
        levels, (V, mean) = check_levels(quantiles), self._predictions(X)
        blend = self._value.solution
        errors = blend.errors
        if errors is None:
            return blend.anova.model.predict_quantiles(V, quantiles)
        values = mean + errors.quantiles(np.ones_like(mean), levels)[:, 0]
        return values[:, 0] if np.ndim(quantiles) == 0 else values

    def effects(self, X: TableLike) -> Effects:
        """Split the predictions into effects of columns and of pairs of columns.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows whose predictions are explained.

        Returns
        -------
        effects : Effects
            The effects of the ANOVA part times its weight, as returned by
            :meth:`RandomFeatureRidge.effects`. The last one, ``"remainder"``, is the
            contribution of the other parts.
        """
        (V, mean), blend = self._predictions(X), self._value.solution
        weight, found = blend.weights["ANOVA"], blend.anova.model.effects(V)
        known = getattr(self, "feature_names_in_", None)
        labels = [f"x{j}" for j in range(V.shape[1])] if known is None else known
        keep = [e for e, columns in enumerate(found.columns) if columns]
        values = weight * found.values[:, keep]
        names = [" & ".join(labels[j] for j in found.columns[e]) for e in keep]
        rest = mean[:, 0] - found.intercept - values.sum(axis=1)
        values = np.column_stack([values, rest])
        columns = [*(found.columns[e] for e in keep), ()]
        return Effects(values, [*names, "remainder"], columns, found.intercept)


class KernelClassifier(ClassifierMixin, BaseKernelModel):
    """Classification of raw tables by a blend of three kinds of smooth functions.

    The class probabilities are weighted averages of the probabilities of three models:
    additive logistic regression, ridge classification with the ANOVA kernel of
    :class:`AnovaSampler`, and local linear regression in a learned metric. The weights
    minimise the log loss of cross-validated predictions, and the average is calibrated
    by raising it to a power.

    Parameters
    ----------
    class_weight : dict or "balanced", default=None
        Weights of the classes, by label, by which the weights of their rows are
        multiplied. ``"balanced"`` gives all classes the same total weight.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.

    See Also
    --------
    RandomFeatureRidgeClassifier : With ``AnovaSampler()`` one of the parts.
    KernelRegressor : The same for numbers, with more on the method.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import KernelClassifier
    >>> rng = np.random.default_rng(0)
    >>> size, kind = rng.normal(size=300), rng.choice(["a", "b", None], 300)
    >>> X = np.array([size, kind], dtype=object).T
    >>> y = (size > 0) == (kind == "a")
    >>> model = KernelClassifier(random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.9
    True
    """

    _parameter_constraints: dict = {
        **BaseKernelModel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    classes_: np.ndarray

    def __init__(
        self,
        *,
        n_folds: int = 4,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        super().__init__(n_folds=n_folds, n_jobs=n_jobs, random_state=random_state)
        self.class_weight = class_weight

    def _read_targets(self, y: np.ndarray, V: np.ndarray, sample_weight: Any) -> Any:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.class_weight is not None:
            weights = read_weights(V, sample_weight)
            sample_weight = weights * compute_sample_weight(self.class_weight, y)
            # unlike sample weights, those of classes do not count rows
            sample_weight *= weights.sum() / max(sample_weight.sum(), 1e-300)
        return codes, sample_weight

    def predict_proba(self, X: TableLike) -> np.ndarray:
        """Return class probabilities, none of which is 0 or 1.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Probabilities of the classes in the order of ``classes_``.
        """
        return self._predictions(X)[1]

    def predict(self, X: TableLike) -> np.ndarray:
        """Return the most probable labels.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predicted labels.
        """
        found = self.predict_proba(X)
        return self.classes_[np.argmax(found, axis=1)]
