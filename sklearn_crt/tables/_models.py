"""Estimators for raw tables: weighted averages of several kernel models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from .._compat import (
    Interval,
    RandomState,
    StrOptions,
    _check_feature_names_in,
    _fit_context,
)
from ..life_cycle.fitted import Batch
from ..life_cycle.intervals import IntervalsMixin, SimilarityMixin
from ..life_cycle.out_of_fold import group_numbers
from ..life_cycle.supervised import (
    ProbabilitiesMixin,
    TableLifeCycle,
    warn_of_repeated_rows,
)
from ..ridge._anova_effects import Effects
from ..rows import (
    TableLike,
    as_numbers,
    check_same_classes,
    weighted_rows,
)
from ..rows.raw_table import read_table_and_targets
from ._blend import (
    PARTS_OF_LABELS,
    PARTS_OF_NUMBERS,
    Blend,
    BlendChoices,
    BlendValue,
)
from ._error_scale import ScaledErrors


class BaseTableModel(SimilarityMixin, TableLifeCycle):
    """A weighted average of kernel models and boosting."""

    _parameter_constraints: dict = {
        "parts": ["array-like", None],
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }
    _value: BlendValue
    _every_part: tuple[str, ...]
    _read_targets: Callable[[np.ndarray], np.ndarray]

    def __init__(
        self,
        *,
        parts: Sequence[str] | None = None,
        n_folds: int = 4,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.parts = parts
        self.n_folds = n_folds
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: TableLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fit the models, and their weights by cross-validation.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Training rows: a raw table, whose columns may contain numbers, booleans,
            dates, strings or categories, and missing values.
        y : array-like of shape (n_samples,)
            Targets: numbers for regression, labels for classification.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, of which only the ratios matter; None means that all
            rows have the same weight. Rows with weight 0 are ignored.
        groups : array-like of shape (n_samples,), default=None
            Labels of groups of dependent rows, for instance of the patient whose visits
            the rows describe. All rows of a group are then placed in the same fold of
            the cross-validation, which has up to ten folds, so the weights, the
            intervals and the probabilities refer to rows of new groups. None means that
            the rows are independent.

        Returns
        -------
        self : object
            The fitted estimator. Until :meth:`freeze` is called, it keeps the training
            rows, so that more rows can be added, except with groups.

        Raises
        ------
        TypeError
            If X or y has a type that the estimator does not support.
        ValueError
            If a parameter, X, y, a weight or a group is invalid.
        """
        return self._fit_value(X, y, sample_weight, groups)

    def _read(  # type: ignore[override]
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        groups: Any = None,
        *,
        first: bool,
        final: bool,
    ) -> Batch:
        self._note_namespace(X, y, sample_weight, first=first)
        V, y, self._reader = read_table_and_targets(self, X, y, None, None, reset=first)
        y = column_or_1d(y, warn=True)
        y = self._read_targets(y)
        n_given = len(V)
        V, y, weights, dropped = weighted_rows(V, y, sample_weight)
        numbers = None if groups is None else group_numbers(groups, n_given, dropped)
        return Batch(V, y, weights, groups=numbers)

    def _warn_after_fit(self, batch: Batch) -> None:
        if batch.groups is None:
            warn_of_repeated_rows(batch.X, batch.y, type(self).__name__)

    def _empty_value(self, batch: Batch) -> BlendValue:
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kinds, classes = self._reader.kinds, getattr(self, "classes_", None)
        n_classes = None if classes is None else len(classes)
        class_weight: Any = getattr(self, "class_weight", None)
        if class_weight is not None and not isinstance(class_weight, str):
            options = {"classes": classes, "y": classes}
            class_weight = compute_class_weight(class_weight, **options)
            class_weight = tuple(class_weight.tolist())
        choices = BlendChoices(
            n_folds=self.n_folds,
            n_jobs=self.n_jobs,
            seed=seed,
            kinds=kinds,
            n_classes=n_classes,
            class_weight=class_weight,
            parts=self._parts(),
        )
        return BlendValue(choices)

    def _parts(self) -> tuple[str, ...]:
        """Return the names of the parts in a fixed order."""
        if self.parts is None:
            return self._every_part
        given = [*self.parts]
        if not given or len({*given}) < len(given) or {*given} - {*self._every_part}:
            raise ValueError(
                f"parts={self.parts!r} must be None, or a list of different names from "
                f"{[*self._every_part]}."
            )
        return tuple(name for name in self._every_part if name in given)

    def _check_same_model(self, other: Any) -> None:
        if hasattr(self, "classes_"):
            check_same_classes(self, other)

    def _predictions(self, V: np.ndarray) -> tuple[np.ndarray, Blend]:
        """Return the predictions for validated rows, and the models that made them."""
        blend = self._value.solution
        return blend.predict(V).astype(V.dtype, copy=False), blend

    def _scores(self, V: np.ndarray) -> np.ndarray:
        blend = self._value.solution
        scores = blend.similar.score_samples(blend.encoding.one_hot(V))
        return scores.astype(V.dtype, copy=False)

    @property
    def weights_(self) -> dict[str, float]:
        """The weight of each model."""
        return dict(self._value.solution.weights)

    @property
    def losses_(self) -> dict[str, float]:
        """The mean loss of each model on rows to which it was not fitted."""
        return dict(self._value.solution.losses)

    @property
    def feature_importances_(self) -> np.ndarray:
        """Importance of each column of X; the importances sum to 1."""
        return self._value.solution.importances(self.n_features_in_)

    def effects(self, X: TableLike) -> Effects:
        """Split the predictions into effects of columns and of pairs of columns.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows whose predictions are explained.

        Returns
        -------
        effects : Effects
            The effects of the ANOVA model and, for regressors, of the linear model,
            both multiplied by their weights, in the format of
            :meth:`~sklearn_crt.RandomFeatureRidge.effects`. The effect of a column also
            contains the straight line along which predictions continue outside its
            range. The last effect, ``"remainder"``, is the contribution of the other
            models; it is the only one if both models have weight 0. The intercept and
            the effects sum to the predictions or, for classifiers, to the class
            probabilities; with two classes, to the probability of the second class
            minus that of the first. For classifiers, the remainder also contains the
            difference between the probabilities of the ANOVA model and the linear
            scores from which they are computed.
        """
        model, V = self._query(X, "effects")
        mean, blend = model._predictions(V)
        total = mean[:, 1:] - mean[:, :1] if mean.shape[1] == 2 else mean
        values, columns, intercept = blend.effects(V)
        labels = _check_feature_names_in(model)
        names = [" & ".join(labels[j] for j in each) for each in columns]
        names, columns = [*names, "remainder"], [*columns, ()]
        rest = total - intercept - values.sum(axis=1)
        values = np.concatenate([values, rest[:, None]], axis=1)
        if values.shape[2] == 1:
            return Effects(values[..., 0], names, columns, float(intercept[0]))
        return Effects(values, names, columns, intercept)

    def _effect_at(
        self, place: int, columns: tuple[int, ...], grid: list[np.ndarray], output: int
    ) -> tuple[np.ndarray, None]:
        """Return an effect at given values of its columns, without a deviation."""
        blend = self._value.solution
        V = np.zeros((grid[0].size, self.n_features_in_))
        for j, values in zip(columns, grid, strict=True):
            V[:, j] = values.ravel()
        return blend.effect_at(columns, V, output), None


class TableRegressor(IntervalsMixin, RegressorMixin, BaseTableModel):
    """Regression on raw tables by a weighted average of four models.

    Numbers, categories, dates and missing values need no preprocessing. The prediction
    is a weighted average of the predictions of ridge regression with the ANOVA kernel
    of :class:`~sklearn_crt.AnovaSampler`, of local linear regression in a learned
    metric, of gradient boosting of decision trees, and of linear ridge regression. The
    first two models fit smooth functions, and trees fit sharp edges and interactions of
    many columns. The weights minimise the squared error of cross-validated predictions
    (stacking [1]_).

    Parameters
    ----------
    parts : list of str, default=None
        Names of the models that are combined: ``"ANOVA"``, ``"linear"``,
        ``"local linear"``, ``"trees"``, and, for classifiers only, ``"logistic"``.
        None means all of them. Leave out a model to save its time, or to see what it
        contributes.
    n_folds : int, default=4
        Number of cross-validation folds, at least 10 if there are fewer than 200 rows,
        and at least 8 if there are from 600 to 1500 rows.
        Predictions for the held-out folds determine the weights of the models and, in
        regression, the prediction intervals.
    n_jobs : int, default=None
        Number of processes that fit the folds in parallel; -1 uses all processors, None
        means one.
    random_state : int, RandomState instance or None, default=None
        Seed for the folds, the choice of the landmarks, the learned metric and the
        trees. Pass an int for reproducible results.

    Attributes
    ----------
    weights_ : dict of str and float
        The weight of each model: ``"ANOVA"``, ``"linear"``, ``"local linear"``,
        ``"trees"``, and, for classifiers only, ``"logistic"``. A model with weight 0 is
        not used. With fewer than 40 rows, ``"local linear"`` and ``"trees"`` are left
        out, and with fewer than 20 rows, only one model is used, which is ``"ANOVA"``
        unless ``parts`` leaves it out.
    losses_ : dict of str and float
        The mean loss of each model that was evaluated in all folds, on rows to which it
        was not fitted: squared error for numbers, log loss for labels. The loss of
        ``"local linear"`` is too small with 600 rows or more, because its metric was
        learned from most of these rows (see the Notes).
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of X; the importances sum to 1. They are means of the
        importances in the individual models, weighted by ``weights_``. The models
        ``"ANOVA"`` and ``"logistic"`` have the importances of their common
        :class:`~sklearn_crt.AnovaSampler`, and ``"local linear"`` has those of its
        :class:`~sklearn_crt.LearnedMetric`. For ``"linear"``, the importance is the
        sum of absolute coefficients times standard deviations. For ``"trees"``, it is
        the square root of the total reduction of the loss by all splits on the column.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    sklearn_crt.RandomFeatureRidge :
        Faster; with ``AnovaSampler()``, one of the models.
    TableClassifier : The corresponding classifier.

    Notes
    -----
    With 600 rows or more, the ANOVA kernel and the penalty of ridge regression are
    chosen once from all rows, and only the coefficients are fitted in each fold. The
    metric is learned once, without the rows of a quarter of the folds (of one fold, if
    other models explain half of the variance of numbers), and these rows determine how
    much of the weight of the local linear model is justified. With fewer rows, both the
    kernel and the metric are learned anew in each fold and from all rows. With more
    than 16,000 rows, there is a single fold with 4000 test rows, and local linear
    regression is fitted to at most 5000 rows. Logistic regression is fitted to at most
    10,000 rows, and the linear model to at most 200,000 (for labels, 10,000 unless
    there are more than 256 numbers and categories). The metric is a
    :class:`~sklearn_crt.LearnedMetric` with ``method="evidence"``. With 600 rows or
    more, the local linear model is left out if its weight on the first folds is below
    0.1, or below 0.25 for class probabilities. Trees, and for labels the linear model,
    are left out if their weight on the first fold is below 0.05.

    The linear model has an indicator for each category of each column, and its penalty
    minimises the loss of predictions for left-out rows. The other models distinguish
    the 400 most frequent categories of a column (trees: 254) if these have at least 10
    rows, and the effects of rare categories are added by
    :class:`~sklearn_crt.AnovaSampler`.

    Trees are those of :class:`~sklearn.ensemble.HistGradientBoostingRegressor` or
    :class:`~sklearn.ensemble.HistGradientBoostingClassifier` with 100 iterations (fewer
    with many classes), unless another number has a cross-validated loss that is smaller
    by more than its standard error. In regression, predictions of each model may exceed
    the range of the targets by at most a fifth of this range.

    Class probabilities are weighted arithmetic means, or normalised powers of weighted
    geometric means if the cross-validated log loss of these is lower by more than its
    standard error. The probabilities of each model are mixed with the class shares,
    which get a weight of 1 / (n + 1) for n rows.

    Outside the range of a numeric column, predictions of regression continue along a
    straight line if the data support it: the line is fitted to the rows without the
    outer tenth of the values, after subtracting the linear effects of the other
    columns, and is used if its slope in the outer tenth exceeds 0.3 times this slope by
    two standard errors. Intervals widen with the distance from the data.

    Prediction intervals and standard deviations are computed from cross-validated
    errors of at most 4000 rows. With 100 of them or more, these errors are divided by
    their local scale: an estimate of the expected absolute error, whose logarithm is an
    additive function of the prediction and of the columns, fitted with hat functions, a
    gamma likelihood and a ridge penalty. The errors are divided by the estimates of
    models without the row. As in split conformal prediction [2]_, the bounds are the
    quantiles of the ratios among n + 1 rows, times the scale of the new row. Intervals
    are infinite if n rows do not allow for the coverage, for instance with fewer than
    19 rows for a coverage of 0.9.

    References
    ----------
    .. [1] L. Breiman, "Stacked Regressions", Machine Learning 24 (1996),
       :doi:`10.1007/BF00117832`.
    .. [2] J. Lei et al., "Distribution-Free Predictive Inference for Regression",
       Journal of the American Statistical Association 113 (2018),
       :doi:`10.1080/01621459.2017.1307116`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.tables import TableRegressor
    >>> rng = np.random.default_rng(0)
    >>> size, kind = rng.uniform(-2, 2, 300), rng.choice(["a", "b", None], 300)
    >>> X = np.array([size, kind], dtype=object).T
    >>> y = np.sin(2 * size) * np.where(kind == "a", 1, -1)
    >>> model = TableRegressor(random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.9
    True
    """

    _one_output = True
    _every_part = PARTS_OF_NUMBERS

    _read_targets = staticmethod(as_numbers)

    def _mean_and_std(self, V: np.ndarray, return_std: bool) -> tuple[np.ndarray, Any]:
        blend = self._value.solution
        if not return_std:
            return blend.predict(V).astype(V.dtype, copy=False), None
        if blend.errors is None:  # a single row
            mean = blend.predict(V)
            return mean, np.full(mean.shape, np.inf)
        mean, std = blend.with_errors(V, ScaledErrors.deviations)
        found = np.stack([mean, std])[..., None].astype(V.dtype, copy=False)
        return found[0], found[1]

    def _quantiles(self, V: np.ndarray, levels: np.ndarray) -> np.ndarray:
        blend = self._value.solution
        if blend.errors is None:  # a single row
            mean = blend.predict(V)
            gaps = np.where(levels == 0.5, 0.0, np.copysign(np.inf, levels - 0.5))
        else:
            mean, gaps = blend.with_errors(
                V, lambda errors, b: errors.quantiles(b, levels)
            )
            mean = mean[:, None]
        return (mean + gaps)[:, None].astype(V.dtype, copy=False)


class TableClassifier(ProbabilitiesMixin, ClassifierMixin, BaseTableModel):
    """Classification on raw tables by a weighted average of five models.

    The class probabilities are weighted averages (arithmetic or geometric means, see
    the Notes of :class:`TableRegressor`) of the predictions of five models:
    ridge classification with the ANOVA kernel of :class:`~sklearn_crt.AnovaSampler`,
    logistic regression on the features of this kernel, the numbers and the one-hot
    encoded frequent categories, logistic regression on only the numbers and all one-hot
    encoded categories, local linear classification in a learned metric, and gradient
    boosting of decision trees. The weights minimise the log loss of cross-validated
    predictions.

    Parameters
    ----------
    parts : list of str, default=None
        Names of the models that are combined: ``"ANOVA"``, ``"linear"``,
        ``"local linear"``, ``"trees"``, and, for classifiers only, ``"logistic"``.
        None means all of them. Leave out a model to save its time, or to see what it
        contributes.
    n_folds : int, default=4
        Number of cross-validation folds, at least 10 if there are fewer than 200 rows,
        and at least 8 if there are from 600 to 1500 rows.
        Predictions for the held-out folds determine the weights of the models and, in
        regression, the prediction intervals.
    class_weight : dict or "balanced", default=None
        Dictionary that maps labels to class weights. The weight of each row is
        multiplied by the weight of its class. ``"balanced"`` gives all classes the same
        total weight.
    n_jobs : int, default=None
        Number of processes that fit the folds in parallel; -1 uses all processors, None
        means one.
    random_state : int, RandomState instance or None, default=None
        Seed for the folds, the choice of the landmarks, the learned metric and the
        trees. Pass an int for reproducible results.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    weights_ : dict of str and float
        The weight of each model: ``"ANOVA"``, ``"linear"``, ``"local linear"``,
        ``"trees"``, and, for classifiers only, ``"logistic"``. A model with weight 0 is
        not used. With fewer than 40 rows, ``"local linear"`` and ``"trees"`` are left
        out, and with fewer than 20 rows, only one model is used, which is ``"ANOVA"``
        unless ``parts`` leaves it out.
    losses_ : dict of str and float
        The mean loss of each model that was evaluated in all folds, on rows to which it
        was not fitted: squared error for numbers, log loss for labels. The loss of
        ``"local linear"`` is too small with 600 rows or more, because its metric was
        learned from most of these rows (see the Notes).
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of X; the importances sum to 1. They are means of the
        importances in the individual models, weighted by ``weights_``. The models
        ``"ANOVA"`` and ``"logistic"`` have the importances of their common
        :class:`~sklearn_crt.AnovaSampler`, and ``"local linear"`` has those of its
        :class:`~sklearn_crt.LearnedMetric`. For ``"linear"``, the importance is the
        sum of absolute coefficients times standard deviations. For ``"trees"``, it is
        the square root of the total reduction of the loss by all splits on the column.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    sklearn_crt.RandomFeatureRidgeClassifier :
        Faster; with ``AnovaSampler()``, one of the models.
    TableRegressor : The corresponding regressor, with details of the method.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.tables import TableClassifier
    >>> rng = np.random.default_rng(0)
    >>> size, kind = rng.normal(size=300), rng.choice(["a", "b", None], 300)
    >>> X = np.array([size, kind], dtype=object).T
    >>> y = (size > 0) == (kind == "a")
    >>> model = TableClassifier(random_state=0).fit(X[:200], y[:200])
    >>> model.score(X[200:], y[200:]) > 0.9
    True
    """

    _parameter_constraints: dict = {
        **BaseTableModel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }
    classes_: np.ndarray
    _every_part = PARTS_OF_LABELS

    def __init__(
        self,
        *,
        parts: Sequence[str] | None = None,
        n_folds: int = 4,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        super().__init__(
            parts=parts, n_folds=n_folds, n_jobs=n_jobs, random_state=random_state
        )
        self.class_weight = class_weight

    def _read_targets(self, y: np.ndarray) -> np.ndarray:
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        return codes

    def _probabilities(self, V: np.ndarray) -> np.ndarray:
        return self._predictions(V)[0]
