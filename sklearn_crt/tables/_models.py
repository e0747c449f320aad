"""Estimators for raw tables: weighted averages of several kernel models."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Literal

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from .._compat import Interval, RandomState, StrOptions, _check_feature_names_in
from ..life_cycle.fitted import Batch
from ..life_cycle.intervals import IntervalsMixin, SimilarityMixin
from ..life_cycle.supervised import ProbabilitiesMixin, TableLifeCycle
from ..ridge._effects import Effects
from ..rows import (
    TableLike,
    as_numbers,
    check_same_classes,
    read_weights,
    weighted_rows,
)
from ..rows.raw_table import read_table_and_targets
from ._blend import Blend, BlendChoices, BlendValue


class BaseKernelModel(SimilarityMixin, TableLifeCycle):
    """A weighted average of models with an ANOVA kernel and a local linear model."""

    _parameter_constraints: dict = {
        "n_folds": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }
    _value: BlendValue

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
        folds = self.n_folds, self.n_jobs
        return BlendValue(BlendChoices(*folds, seed, kinds, n_classes))

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
        """Importance of each column of X in the ANOVA model; the sum is 1."""
        return self._value.solution.anova.kernel_.feature_importances_


class KernelRegressor(IntervalsMixin, RegressorMixin, BaseKernelModel):
    """Regression on raw tables by a weighted average of two models.

    Numbers, categories, dates and missing values need no preprocessing. The prediction
    is a weighted average of the predictions of ridge regression with the ANOVA kernel
    of :class:`AnovaSampler` and of local linear regression in a learned metric. The
    weights minimise the squared error of cross-validated predictions (stacking [1]_).

    Parameters
    ----------
    n_folds : int, default=4
        Number of cross-validation folds; predictions for the held-out folds determine
        the weights of the models.
    n_jobs : int, default=None
        Number of processes that fit the folds in parallel; -1 uses all processors, None
        means one.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the landmarks and for the learned metric. Pass an int for
        reproducible results.

    Attributes
    ----------
    weights_ : dict of str and float
        The weight of each model: ``"ANOVA"``, ``"local linear"`` and, for classifiers,
        ``"logistic"``. A model with weight 0 is not used. With fewer than 40 rows, only
        ``"ANOVA"`` is used.
    losses_ : dict of str and float
        The mean loss of each model that was evaluated in all folds, on rows to which it
        was not fitted: squared error for numbers, log loss for labels.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of X in the ANOVA model; the importances sum to 1.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    RandomFeatureRidge : Faster; with ``AnovaSampler()``, one of the two models.
    KernelClassifier : The corresponding classifier.

    Notes
    -----
    With 600 rows or more, the ANOVA kernel is learned once from all rows, the metric is
    learned once from the rows outside the first fold, and only the coefficients are
    fitted in each fold and to all rows. With fewer rows, both the kernel and the metric
    are learned anew in each fold and from all rows. The metric is a
    :class:`LearnedMetric` with ``method="evidence"``. The local linear model is left
    out if its weight on the first fold is below 0.1, or below 0.25 for class
    probabilities. In regression, predictions of each model may exceed the range of the
    targets by at most a fifth of this range. All prediction intervals have the same
    width, which is calibrated on the cross-validated errors. With fewer than 40 rows,
    the intervals and standard deviations are those of :class:`RandomFeatureRidge`.

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

    def _mean_and_std(self, V: np.ndarray, return_std: bool) -> tuple[np.ndarray, Any]:
        mean, blend = self._predictions(V)
        if not return_std:
            return mean, None
        if blend.errors is None:  # too few rows for cross-validation
            return mean, blend.anova.predict(V, return_std=True)[1][:, None]
        return mean, np.full(mean.shape, blend.errors.root_mean_squares)

    def _quantiles(self, V: np.ndarray, levels: np.ndarray) -> np.ndarray:
        mean, blend = self._predictions(V)
        if blend.errors is None:
            return blend.anova.predict_quantiles(V, levels)[:, None]
        return mean[..., None] + blend.errors.quantiles(np.ones_like(mean), levels)

    def _output(self, values: np.ndarray, X: Any) -> np.ndarray:
        return values[:, 0]

    def effects(self, X: TableLike) -> Effects:
        """Split the predictions into effects of columns and of pairs of columns.

        Parameters
        ----------
        X : {data frame, array-like} of shape (n_samples, n_features)
            Rows whose predictions are explained.

        Returns
        -------
        effects : Effects
            The effects of the ANOVA model multiplied by its weight, in the format of
            :meth:`RandomFeatureRidge.effects`. The last effect, ``"remainder"``, is the
            contribution of the local linear model.
        """
        model, V = self._query(X, "effects")
        mean, blend = model._predictions(V)
        weight, found = blend.weights["ANOVA"], blend.anova.effects(V)
        labels = _check_feature_names_in(model)
        keep = [e for e, columns in enumerate(found.columns) if columns]
        values = weight * found.values[:, keep]
        names = [" & ".join(labels[j] for j in found.columns[e]) for e in keep]
        rest = mean[:, 0] - found.intercept - values.sum(axis=1)
        values = np.column_stack([values, rest])
        columns = [*(found.columns[e] for e in keep), ()]
        return Effects(values, [*names, "remainder"], columns, found.intercept)

    def _effect_at(
        self, place: int, columns: tuple[int, ...], grid: list[np.ndarray], output: int
    ) -> tuple[np.ndarray, None]:
        """Return an effect at given values of its columns, without a deviation."""
        blend = self._value.solution
        mean, _ = blend.anova._effect_at(place, columns, grid, output)
        return blend.weights["ANOVA"] * mean, None


class KernelClassifier(ProbabilitiesMixin, ClassifierMixin, BaseKernelModel):
    """Classification on raw tables by a weighted average of three models.

    The class probabilities are weighted averages of the predictions of three models:
    ridge classification with the ANOVA kernel of :class:`AnovaSampler`, logistic
    regression on the features of this kernel, the numbers and the one-hot encoded
    categories, and local linear classification in a learned metric. The weights
    minimise the log loss of cross-validated predictions.

    Parameters
    ----------
    n_folds : int, default=4
        Number of cross-validation folds; predictions for the held-out folds determine
        the weights of the models.
    class_weight : dict or "balanced", default=None
        Dictionary that maps labels to class weights. The weight of each row is
        multiplied by the weight of its class. ``"balanced"`` gives all classes the same
        total weight.
    n_jobs : int, default=None
        Number of processes that fit the folds in parallel; -1 uses all processors, None
        means one.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the landmarks and for the learned metric. Pass an int for
        reproducible results.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    weights_ : dict of str and float
        The weight of each model: ``"ANOVA"``, ``"local linear"`` and, for classifiers,
        ``"logistic"``. A model with weight 0 is not used. With fewer than 40 rows, only
        ``"ANOVA"`` is used.
    losses_ : dict of str and float
        The mean loss of each model that was evaluated in all folds, on rows to which it
        was not fitted: squared error for numbers, log loss for labels.
    feature_importances_ : ndarray of shape (n_features,)
        Importance of each column of X in the ANOVA model; the importances sum to 1.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    RandomFeatureRidgeClassifier : Faster; with ``AnovaSampler()``, one of the models.
    KernelRegressor : The corresponding regressor, with details of the method.

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
            # class weights, unlike sample weights, are not numbers of rows
            sample_weight *= weights.sum() / max(sample_weight.sum(), 1e-300)
        return codes, sample_weight

    def _probabilities(self, V: np.ndarray) -> np.ndarray:
        return self._predictions(V)[0]
