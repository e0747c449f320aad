"""Predictions for training rows by models that are fitted without their fold.

Leaving out one row at a time is cheap, but it is not enough in three cases. With few
rows, the parameters that were selected depend on each row. A learned metric depends on
the targets of all rows. If rows come in groups, other rows of its group predict a row
better than rows of other groups could. In these cases the whole fit is repeated without
one fold of the rows at a time, and intervals and probabilities are based on predictions
for the rows of that fold.
"""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, cast

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.utils import column_or_1d

from .._compat import HasMethods
from .._values import Value
from ..arrays.namespaces import Array, asarray_like, taken, to_host
from ..arrays.threads import blas_for_fit
from ..rows import Rows
from .fitted import (
    Batch,
    LearnedValue,
    LifeCycle,
    Step,
    computed_once,
    no_step,
    without_value,
)

if TYPE_CHECKING:
    from ..metric import LearnedMetric

METRIC_CONSTRAINTS = [HasMethods(["fit", "transform"]), None]
FEW_ROWS = 200  # with fewer rows, intervals use the models of all folds
_MOST_FOLDS = 10
_FOLDS_OF_MANY = 5  # with at least FEW_ROWS rows
_ENTRIES = 2**22  # number of values of which quantiles are computed at a time
# The penalties on the slope a and the biases b are _OF_SLOPE log(1 + a^2) and
# _OF_BIASES |b|^2 / 2, in units of rows. Hence few rows, from which little can be
# learned, have probabilities close to the class shares. The slope has a lower bound, so
# that the order of rows by probability is kept.
_OF_SLOPE, _OF_BIASES = 4.0, 0.01
_LEAST_SLOPE, _MOST_SLOPE = 0.05, 100.0
_TINY = float(np.finfo(np.float64).tiny)


class OutOfFold(NamedTuple):
    """Predictions for all training rows, each by the model of its fold."""

    predictions: np.ndarray  # (n, k), numbers or class probabilities
    deviations: np.ndarray | None  # (n, k), relative standard deviations of the errors
    fold_of_row: np.ndarray  # (n,)
    # fitted values of the folds; empty if they are not kept
    models: tuple[LearnedValue, ...]


def fold_numbers(
    n_rows: int, labels: np.ndarray | None, groups: np.ndarray | None
) -> np.ndarray:
    """Return the number of the fold of each row, stratified by labels or by groups.

    Rows are assigned to folds at random. All rows of a group are in the same fold.
    """
    rng = np.random.default_rng(0)
    n_folds = _MOST_FOLDS if n_rows < FEW_ROWS else _FOLDS_OF_MANY
    found = np.empty(n_rows, np.intp)
    if groups is not None:
        # the largest groups are assigned first, each to the fold with the fewest rows
        sizes = np.bincount(groups)
        n_folds = min(_MOST_FOLDS, len(sizes))
        totals, fold_of_group = np.zeros(n_folds), np.empty(len(sizes), np.intp)
        order = rng.permutation(len(sizes))
        for group in order[np.argsort(-sizes[order], kind="stable")]:
            fold_of_group[group] = totals.argmin()
            totals[fold_of_group[group]] += sizes[group]
        return fold_of_group[groups]
    order = rng.permutation(n_rows)
    if labels is not None:
        order = order[np.argsort(labels[order], kind="stable")]
    found[order] = np.arange(n_rows) % min(n_folds, n_rows)
    return found


def out_of_fold(
    batch: Batch,
    *,
    are_labels: bool,
    fitted: Callable[[Batch], LearnedValue],
    predict: Callable[[LearnedValue, Rows], tuple[np.ndarray, np.ndarray | None]],
) -> OutOfFold | None:
    """Return out-of-fold predictions for a batch, or None if it has a single fold.

    ``fitted`` returns the fitted value for a batch. ``predict`` returns the predictions
    of a fitted value for rows, and the relative standard deviations of their errors.
    """
    labels = to_host(batch.y) if are_labels else None
    fold_of_row = fold_numbers(batch.X.shape[0], labels, batch.groups)
    n_folds = int(fold_of_row.max()) + 1
    if n_folds == 1:
        return None
    models, found = list[LearnedValue](), []
    for fold in range(n_folds):
        train = np.flatnonzero(fold_of_row != fold)
        X, y, weights = (taken(array, train) for array in batch[:3])
        part = batch._replace(
            X=X, y=y, weights=weights, n_given=len(train), dropped=(), groups=None
        )
        value = fitted(part)
        test = np.flatnonzero(fold_of_row == fold)
        found.append((test, *predict(value, taken(batch.X, test))))
        if len(fold_of_row) < FEW_ROWS and not are_labels:
            models.append(value.frozen_fold())
    order = np.argsort(np.concatenate([rows for rows, *_ in found]))
    predictions, deviations = (
        None if parts[0] is None else np.concatenate(parts)[order]
        for parts in list(zip(*found, strict=True))[1:]
    )
    assert predictions is not None
    return OutOfFold(predictions, deviations, fold_of_row, tuple(models))


def weight_of_new(weights: np.ndarray, groups: np.ndarray | None) -> float:
    """Return the mean weight of a row, or of a group, under the weighted distribution.

    This is the weight that a new row or group gets in quantiles of errors.
    """
    each = weights if groups is None else np.bincount(groups, weights)
    return float(each @ each / each.sum())


def conformal_quantiles(
    values: np.ndarray, weights: np.ndarray, of_new: float, levels: np.ndarray
) -> np.ndarray:
    """Return weighted quantiles of the values and of a new value, which is unknown.

    The new value, of weight ``of_new``, may be infinite. The quantiles are therefore
    infinite if there are too few values for a level. With equal weights, the quantile
    is that of ``numpy.quantile`` with ``method="weibull"``: the value of rank r has the
    level r / (n + 1), and levels in between are interpolated.
    """
    # values (n_queries, k, n), weights (n,) -> (n_queries, k, n_levels)
    order = np.argsort(values, axis=-1, kind="stable")
    values = np.take_along_axis(values, order, axis=-1)
    weights = np.broadcast_to(weights[order], values.shape)
    found = np.empty((*values.shape[:-1], len(levels)))
    for i, level in enumerate(levels):
        if level >= 0.5:
            found[..., i] = _upper_quantile(values, weights, of_new, level)
        else:
            flipped = -values[..., ::-1], weights[..., ::-1]
            found[..., i] = -_upper_quantile(*flipped, of_new, 1 - level)
    return found


def _upper_quantile(
    values: np.ndarray, weights: np.ndarray, of_new: float, level: float
) -> np.ndarray:
    """Return a quantile of sorted values, infinite if their weight is too small."""
    sums = np.cumsum(weights, axis=-1)
    wanted = level * (sums[..., -1:] + of_new) * (1 - 1e-12)  # for rounding errors
    n_values = values.shape[-1]
    places = np.count_nonzero(sums < wanted, axis=-1)[..., None]

    def at(array: np.ndarray, places: np.ndarray) -> np.ndarray:
        inside = np.clip(places, 0, n_values - 1)
        return np.take_along_axis(array, inside, axis=-1)

    upper, lower = at(values, places), at(values, places - 1)
    share = np.clip((at(sums, places) - wanted) / at(weights, places), 0, 1)
    found = np.where(upper == lower, upper, upper - share * (upper - lower))
    return np.where(places < n_values, found, np.inf)[..., 0]


@dataclass(frozen=True, eq=False)
class Shrinkage(Value):
    """Shrinkage of predictions towards the mean target.

    Predictions are too extreme if a metric or parameters are learned from the same
    rows. The slope has the smallest squared error of out-of-fold predictions.
    """

    mean: np.ndarray  # (k,)
    slope: np.ndarray  # (k,), from 0 to 1

    @classmethod
    def of(
        cls, predictions: np.ndarray, y: np.ndarray, weights: np.ndarray
    ) -> Shrinkage:
        """Return the shrinkage for out-of-fold predictions, (n, k)."""
        share = weights / weights.sum()
        mean = share @ y
        changes = predictions - mean
        size = share @ changes**2
        products = share @ (changes * (y - mean))
        return cls(mean, np.clip(products / np.where(size > 0, size, 1), 0, 1))

    def __call__(self, predictions: Array) -> Array:
        """Return shrunk predictions, (n, k)."""
        mean, slope = (asarray_like(a, predictions) for a in (self.mean, self.slope))
        return mean + slope * (predictions - mean)


@dataclass(frozen=True, eq=False)
class OutOfFoldErrors(Value):
    """The errors of out-of-fold predictions, and what follows from them."""

    shrinkage: Shrinkage | None
    # (n, k), errors of shrunk predictions, divided by the relative standard deviations
    ratios: np.ndarray
    weights: np.ndarray  # (n,)
    of_new: float  # the weight of a new row or group
    fold_of_row: np.ndarray  # (n,)
    # fitted values of the folds; empty if there are many rows
    models: tuple[LearnedValue, ...] = ()

    @classmethod
    def of(cls, rows: OutOfFold, batch: Batch, *, shrinks: bool) -> OutOfFoldErrors:
        """Return the errors for a batch of training rows."""
        y, weights = to_host(batch.y), to_host(batch.weights)
        shrinkage = Shrinkage.of(rows.predictions, y, weights) if shrinks else None
        found = rows.predictions if shrinkage is None else shrinkage(rows.predictions)
        errors = y - found
        if rows.deviations is not None:
            errors = errors / positive(rows.deviations)
        return cls(
            shrinkage=shrinkage,
            ratios=errors,
            weights=weights,
            of_new=weight_of_new(weights, batch.groups),
            fold_of_row=rows.fold_of_row,
            models=rows.models,
        )

    @classmethod
    def unknown(cls, batch: Batch) -> OutOfFoldErrors:
        """Return the errors of a single row, which are unknown."""
        nothing = np.zeros((0, batch.y.shape[1]))
        return cls(
            shrinkage=None,
            ratios=nothing,
            weights=np.zeros(0),
            of_new=1.0,
            fold_of_row=np.zeros(0, np.intp),
        )

    @property
    def n_rows(self) -> int:
        """Number of training rows."""
        return len(self.fold_of_row)

    def shrunk(self, predictions: Array) -> Array:
        """Return predictions shrunk towards the mean target."""
        return predictions if self.shrinkage is None else self.shrinkage(predictions)

    @property
    def root_mean_squares(self) -> np.ndarray:
        """Root mean squares of the ratios, (k,)."""
        return np.sqrt(self.weights @ self.ratios**2 / self.weights.sum())

    def quantiles(
        self,
        levels: np.ndarray,
        predict: Callable[[LearnedValue | None], tuple[np.ndarray, np.ndarray]],
    ) -> np.ndarray:
        """Return quantiles of the targets of new rows, (n_queries, k, n_levels).

        ``predict`` returns the predictions and the relative standard deviations of a
        fitted value for the new rows; None stands for the value of all rows.
        """
        if not self.models:
            predictions, deviations = predict(None)
            if not len(self.ratios):
                return unknown_quantiles(predictions, levels)
            ratios = self.ratios.T[None]
            errors = conformal_quantiles(ratios, self.weights, self.of_new, levels)
            errors = errors * positive(deviations)[..., None]
            return self.shrunk(predictions)[..., None] + errors
        # CV+: each training row stands for the prediction of the model of its fold,
        # plus its own error
        found = [predict(model) for model in self.models]
        n_queries, n_rows = len(found[0][0]), self.ratios.size
        size = max(1, _ENTRIES // n_rows)
        blocks = []
        for start in range(0, max(n_queries, 1), size):
            some = slice(start, start + size)
            # (n_queries, n, k)
            values = np.stack([self.shrunk(mean[some]) for mean, _ in found], axis=1)
            scales = np.stack([positive(scale[some]) for _, scale in found], axis=1)
            values = values[:, self.fold_of_row]
            values += self.ratios * scales[:, self.fold_of_row]
            values = values.swapaxes(1, 2)
            blocks.append(
                conformal_quantiles(values, self.weights, self.of_new, levels)
            )
        return np.concatenate(blocks)


def unknown_quantiles(predictions: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Return quantiles if no error is known: infinite except for the median."""
    return predictions[..., None] + np.where(
        levels == 0.5, 0.0, np.where(levels > 0.5, np.inf, -np.inf)
    )


def positive(deviations: np.ndarray) -> np.ndarray:
    """Return deviations, with 1 in place of 0."""
    return np.where(deviations > 0, deviations, 1)


@dataclass(frozen=True, eq=False)
class Recalibration(Value):
    """Logistic regression of the labels on logarithms of out-of-fold probabilities.

    With probabilities p and class shares s, the result is proportional to
    ``s * exp(bias) * (p / s) ** slope``: p itself for slope 1 and the shares for slope
    0, apart from the biases.
    """

    slope: float
    biases: np.ndarray  # (n_classes,)
    # (n_classes,), with one more row of unknown label; tiny for classes without weight
    shares: np.ndarray
    proportion: float  # of the shares that is mixed with probabilities
    n_rows: int

    @classmethod
    def of(
        cls, probabilities: np.ndarray, batch: Any, *, tolerance: float = 1e-12
    ) -> Recalibration:
        """Return the recalibration with the smallest penalised log loss.

        The probabilities are those of the rows of the batch, out of fold, and the
        tolerance is relative to the log loss.
        """
        codes, weights = to_host(batch.y), to_host(batch.weights)
        n_classes = probabilities.shape[1]
        share = weights / weights.sum()
        added = weight_of_new(share, batch.groups)  # of one more row or group
        counts = np.bincount(codes, share, n_classes)
        present = counts > 0  # a class_weight of 0 leaves out a class
        shares = (counts + added * present / present.sum()) / (1 + added)
        shares = np.maximum(shares, _TINY)
        zeros, proportion = np.zeros(n_classes), added / (1 + added)
        start = cls(
            slope=1.0,
            biases=zeros,
            shares=shares,
            proportion=proportion,
            n_rows=len(codes),
        )
        if n_classes == 1:
            return start
        logs, each = start._log_ratios(probabilities), np.arange(len(codes))

        def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
            found = log_softmax(
                parameters[0] * logs + parameters[1:] + np.log(shares), axis=1
            )
            gap = np.exp(found)
            gap[each, codes] -= 1
            gap *= share[:, None]
            slope, biases = parameters[0], parameters[1:]
            value = -share @ found[each, codes] + added * (
                _OF_SLOPE * np.log1p(slope**2) + _OF_BIASES * (biases @ biases) / 2
            )
            gradient = np.append(np.sum(gap * logs), gap.sum(axis=0))
            gradient[0] += added * _OF_SLOPE * 2 * slope / (1 + slope**2)
            gradient[1:] += added * _OF_BIASES * biases
            return float(value), gradient

        bounds = [(_LEAST_SLOPE, _MOST_SLOPE), *[(None, None)] * n_classes]
        first = np.append(1.0, np.zeros(n_classes))
        options = {"maxiter": 200, "ftol": tolerance, "gtol": 1e-8}
        best = minimize(loss, first, jac=True, bounds=bounds, options=options).x
        return replace(start, slope=float(best[0]), biases=best[1:])

    def _log_ratios(self, probabilities: np.ndarray) -> np.ndarray:
        present = self.shares > _TINY
        found = probabilities + self.proportion * (self.shares - probabilities)
        return np.log(np.where(present, found, 1) / np.where(present, self.shares, 1))

    def __call__(self, probabilities: np.ndarray) -> np.ndarray:
        """Return recalibrated probabilities, (n, n_classes)."""
        logs = self._log_ratios(probabilities)
        return softmax(self.slope * logs + self.biases + np.log(self.shares), axis=1)


def check_metric(estimator: Any, final: bool) -> None:
    """Raise ValueError if the parameter ``metric``, which is set, cannot be used."""
    metric = estimator.metric
    if not hasattr(metric, "_mapped"):
        raise ValueError(
            f"metric={metric!r} must be None or a LearnedMetric. Put other "
            "transformers in front of the estimator in a pipeline."
        )
    if getattr(estimator.kernel, "_reads_tables", False):
        raise ValueError(
            f"metric={metric!r} requires a numeric matrix, but "
            f"kernel={estimator.kernel!r} processes raw tables and weights their "
            "columns itself. Set metric=None."
        )
    if not final:
        raise ValueError(
            "A metric is learned from all rows at once, so batches of rows cannot be "
            "added with metric. Call fit with all rows, or put a LearnedMetric that "
            "was fitted to some of the rows in front of the estimator."
        )


def group_numbers(groups: Any, n_rows: int, dropped: np.ndarray) -> np.ndarray:
    """Return the number of each row's group, for rows that are not dropped."""
    labels = column_or_1d(groups)
    if len(labels) != n_rows:
        raise ValueError(
            f"groups has {len(labels)} labels, but X has {n_rows} rows. Pass one label "
            "per row."
        )
    names, numbers = np.unique(np.delete(labels, dropped), return_inverse=True)
    if len(names) < 2:
        raise ValueError(
            "groups must contain at least two different labels. Pass groups=None if "
            "the rows are independent."
        )
    return numbers


def fitted_metric(
    metric: LearnedMetric, batch: Batch, are_labels: bool
) -> LearnedMetric:
    """Return a copy of a LearnedMetric that is fitted to a batch."""
    y = to_host(batch.y)
    # strings are labels even if there are many different ones
    targets = y.astype(str) if are_labels else y
    found = clone(metric).fit(batch.X, targets, sample_weight=batch.weights)
    return found.freeze()


def in_metric(value: LearnedValue, rows: Rows) -> Rows:
    """Return rows in the metric of a fitted value, if it has one."""
    return rows if value.metric is None else value.metric._mapped(rows)


def _has_intervals(model: Any) -> bool:
    """Return whether a fitted regressor can predict intervals."""
    try:
        model._check_can_leave_out()
    except AttributeError:
        return False
    return True


class OutOfFoldMixin(LifeCycle):
    """Fits in a learned metric, and intervals and probabilities from folds.

    A metric is learned in ``fit``, stored in the fitted value, and applied to queries.
    With a metric or with groups, ``fit`` also makes out-of-fold predictions. Intervals
    of regressors with few rows use them, too, and so do some class probabilities.
    """

    kernel: Any
    metric: LearnedMetric | None = None
    # with fewer rows, intervals are based on out-of-fold errors
    _few_rows: int = FEW_ROWS
    _recalibrates_few: bool = False  # whether probabilities of few rows are

    @abstractmethod
    def _out_of_fold_predictions(
        self, value: LearnedValue, rows: Rows
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Return predictions, and relative standard deviations of their errors.

        They are class probabilities for classifiers. The deviations are None if no
        intervals are available.
        """

    def _value_with_folds(self, batch: Batch, step: Step = no_step) -> LearnedValue:
        """Return the value for all rows, in a metric or with groups."""
        value = self._value_without_folds(batch, step)
        found = self._folds_of_rows(batch)
        return value if found is None else replace(value, folds=found)

    def _value_without_folds(self, batch: Batch, step: Step = no_step) -> LearnedValue:
        """Return the value for a batch of all rows, after learning the metric."""
        metric = None
        if self.metric is not None:
            metric = fitted_metric(self.metric, batch, hasattr(self, "classes_"))
            batch = batch._replace(X=metric._mapped(batch.X))
        return replace(self._empty_value(batch).fitted(batch, step), metric=metric)

    def _folds_of_rows(self, batch: Batch) -> OutOfFoldErrors | Recalibration | None:
        """Return what follows from out-of-fold predictions, or None for one label."""
        are_labels = hasattr(self, "classes_")

        def predict(
            value: LearnedValue, X: Rows
        ) -> tuple[np.ndarray, np.ndarray | None]:
            return self._out_of_fold_predictions(value, in_metric(value, X))

        with warnings.catch_warnings():  # the fit to all rows has issued them
            warnings.simplefilter("ignore")
            found = out_of_fold(
                batch,
                are_labels=are_labels,
                fitted=self._value_without_folds,
                predict=predict,
            )
        if found is None:
            return None if are_labels else OutOfFoldErrors.unknown(batch)
        if are_labels:
            return Recalibration.of(found.predictions, batch)
        shrinks = batch.groups is not None or self.metric is not None
        return OutOfFoldErrors.of(found, batch, shrinks=shrinks)

    def _result_of_folds(self, value: LearnedValue) -> Any:
        """Return the out-of-fold errors, or the recalibration of probabilities.

        The result is None if leave-one-out predictions are used instead. For few rows,
        it is computed when it is first needed.
        """
        if value.folds is not None:
            return value.folds
        if hasattr(self, "classes_") and not self._recalibrates_few:
            return None
        batch, known = value.training_rows(), value.folds_of_few
        if known is not None and (
            batch is None or batch.X.shape[0] == known.n_rows
        ):  # no rows have been added since
            return known
        if batch is None or batch.X.shape[0] >= self._few_rows:
            return None
        model = self._with_params_of_fit()
        call = blas_for_fit(batch.X.shape[0])
        return computed_once(
            value, "folds_of_few_rows", lambda: call(model._folds_of_rows, batch)
        )

    def _with_params_of_fit(self) -> Self:
        """Return an unfitted copy with the parameters that ``fit`` has used."""
        model = without_value(self)
        for name in self.get_params(deep=False):
            value = self._fit_params[name]
            if isinstance(value, np.random.RandomState):
                value = copy.deepcopy(value)  # a query must not change its state
            setattr(model, name, value)
        return model

    def _frozen_value(self) -> Any:
        value, frozen = self._value, super()._frozen_value()
        are_labels = hasattr(self, "classes_")
        needs_folds = self._recalibrates_few if are_labels else _has_intervals(self)
        if value.folds is not None or not needs_folds:
            return frozen
        return replace(frozen, folds_of_few=self._result_of_folds(value))

    def _quantiles_of_folds(self, rows: Any, levels: np.ndarray) -> np.ndarray | None:
        """Return quantiles of targets from out-of-fold errors, or None without them.

        The estimator is that of a query, and the rows are those in its metric.
        """
        # the models of folds have other metrics
        value, given = self._value, self._rows_as_given
        errors = self._result_of_folds(value)
        if errors is None:
            return None

        def predict(model: LearnedValue | None) -> tuple[np.ndarray, np.ndarray]:
            if model is None:
                found = self._out_of_fold_predictions(value, rows)
            else:
                found = self._out_of_fold_predictions(model, in_metric(model, given))
            return cast(tuple[np.ndarray, np.ndarray], found)

        return errors.quantiles(levels, predict)
