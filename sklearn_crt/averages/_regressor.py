"""Nadaraya-Watson regression: averages, conditional quantiles and intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import RegressorMixin

from ..arrays.loops import least_log
from ..arrays.namespaces import asarray_like, joined, namespace_of, taken, to_host
from ..arrays.validation import to_fit_namespace
from ..life_cycle.fitted import computed_once
from ..life_cycle.intervals import Errors, IntervalsMixin
from ..life_cycle.out_of_fold import positive
from ..life_cycle.supervised import NumbersMixin
from ..rows import Rows, Sigma
from ..samplers._kernel_parameter import KernelLike
from ..sums.feature_sums import trust
from ._base import BaseNadarayaWatson
from ._fitted_averages import Averages
from ._kernel_rows import (
    KernelRows,
    KernelTotals,
    all_rows,
    log_kernels,
    shares_of,
)
from ._row_weights import N_LEFT_OUT, ComparedRows, Similarity
from ._sigma_choice import is_significant
from ._target_columns import RegressionTargets

if TYPE_CHECKING:
    from ..metric import LearnedMetric

# The noise variance usually varies more slowly than the mean of the targets, so
# residuals are weighted by a wider kernel, whose sigma is multiplied by the first
# number. Noise often grows with the prediction, so residuals with similar predictions
# have larger weights. The kernel that compares predictions has a length scale of the
# second number, in units of their standard deviation. With enough rows, other pairs are
# used if they predict left-out residuals better, for instance where the noise changes
# abruptly.
_SCALES = (0.5, 0.5), (0.5, 0.25), (0.5, 0.125), (1.0, 0.5), (1.0, 0.25), (2.0, 0.5)
_LEAST_CHOSEN, _N_CHOSEN = 200, 500  # minimum of rows, and number of rows compared
_BETTER = 2.0  # in standard errors of the log likelihood
# If a row is left out, its prediction moves away from its target. If predictions vary
# little otherwise, their kernel would select rows with similar errors. It is therefore
# omitted if the predictions have less than this proportion of the targets' variance.
_LEAST_VARIANCE = 0.1
_ROWS_OF_PRIOR = 2.0  # the mean squared residual counts as this many rows
# a prediction from n rows has a variance of 3 / n times the noise variance
_ROWS_OF_FIT = 3.0
# Smaller deviations than this, relative to those of the targets, count as equal when
# scales are compared.
_LEAST_DEVIATION = 1e-6
# for distant rows, standard deviation of errors relative to that of the targets
_DISTANT_DEVIATIONS = 2.5
_LATER: Any = None  # a field that is computed from the others


@dataclass(frozen=True, eq=False)
class Residuals:
    """Leave-one-out residuals of training rows, and error scales based on them."""

    similarity: Similarity
    keys: KernelRows  # a sample of the training rows, and the kernel for residuals
    predictions: np.ndarray  # (n_rows, n_outputs), leave-one-out
    squares: np.ndarray  # (n_rows, n_outputs), squared residuals
    weights: np.ndarray  # (n_rows,), with mean 1
    spread: np.ndarray  # (n_outputs,), standard deviations of the targets
    length_scale: float  # of the kernel that compares predictions
    # the distribution of residuals divided by their deviations
    errors: Errors = _LATER

    @classmethod
    def of(cls, value: Averages) -> Residuals:
        """Return the residuals of the training rows for fitted kernel averages."""
        return computed_once(value, "residuals", lambda: cls._computed(value))

    @classmethod
    def _computed(cls, value: Averages) -> Residuals:
        keys, similarity, seen = value.solution, Similarity.of(value), value.seen
        few = similarity.few
        X, y, _ = all_rows(keys)
        X, y = taken(X, few.places), y[few.places]
        predictions = leave_one_out_predictions(keys, X, few.places)
        predictions = np.clip(predictions, seen.least, seen.most)
        residuals = y - predictions
        weights = few.weights * (len(few.weights) / few.weights.sum())
        share = few.weights / few.weights.sum()
        found = cls(
            similarity=similarity,
            keys=replace(keys, parts=((X, y, weights),)),
            predictions=predictions,
            squares=residuals**2,
            weights=weights,
            spread=np.sqrt(share @ (y - share @ y) ** 2),
            length_scale=1.0,
        )
        compared, left = similarity.left_out, few.first(N_LEFT_OUT)
        first = np.arange(len(left.places))
        found = found._with_best_scales(keys.sigma, X, compared, left.weights)
        deviations = found._left_out_deviations(X, compared, first)
        ratios = residuals[first] / positive(deviations)
        # the ratios of all rows are assumed to have the same distribution
        errors = Errors(ratios, deviations, left.weights, most_groups=1)
        return replace(found, errors=errors)

    def _with_best_scales(
        self,
        sigma: Any,
        X: Rows,
        compared: ComparedRows,
        weights: np.ndarray,
    ) -> Residuals:
        """Return a copy with the scales that predict left-out residuals best.

        The criterion is the log likelihood of normally distributed residuals. The first
        scales are kept unless others are better by ``_BETTER`` standard errors.
        """
        candidates = [
            replace(
                self,
                keys=replace(self.keys, sigma=multiple * sigma),
                length_scale=length_scale,
            )
            for multiple, length_scale in _SCALES
        ]
        if len(self.squares) < _LEAST_CHOSEN:
            return candidates[0]
        first = np.arange(min(len(weights), _N_CHOSEN))
        few = ComparedRows(*(each[first] for each in compared))
        losses = []
        for candidate in candidates:
            deviations = candidate._left_out_deviations(X, few, first)
            variances = np.maximum(deviations, _LEAST_DEVIATION * self.spread) ** 2
            variances = np.where(variances > 0, variances, 1)
            ratios = self.squares[first] / variances
            losses.append(np.sum(np.log(variances) + ratios, axis=1))
        best = int(np.argmin(np.stack(losses) @ weights[first]))
        gain = losses[0] - losses[best]
        is_better = is_significant(gain, weights[first], _BETTER)
        return candidates[best if is_better else 0]

    def _left_out_deviations(
        self, X: Rows, compared: ComparedRows, first: np.ndarray
    ) -> np.ndarray:
        """Return the deviations for the first rows of the sample, each left out."""
        return self.deviations(
            taken(X, first), self.predictions[first], compared, own=first
        )

    def deviations(
        self,
        X: Rows,
        predictions: np.ndarray,
        compared: ComparedRows,
        *,
        own: np.ndarray | None = None,
    ) -> np.ndarray:
        """Return the standard deviations of the errors of predictions.

        If the queries are rows of the sample, ``own`` contains their positions in it.
        """
        # predictions (n_queries, n_outputs)
        found = np.empty(predictions.shape)
        mean = self.weights @ self.squares / self.weights.sum()
        for rows, logs in log_kernels(self.keys, X, own):
            for k, queries in enumerate(predictions[rows].T):
                near = logs + self._log_prediction_kernel(queries, k)
                shares = shares_of(near, self.weights)
                size = 1 / (shares**2 @ (1 / self.weights))
                sums = size * (shares @ self.squares[:, k]) + _ROWS_OF_PRIOR * mean[k]
                variances = sums / (size + _ROWS_OF_PRIOR) * (1 + _ROWS_OF_FIT / size)
                found[rows, k] = variances
        # predictions are less accurate where training rows are sparse
        sparse = np.maximum(0.5 - compared.scores[:, None], 0)
        found *= (1 + 2 * sparse**2) ** 2
        spread = _DISTANT_DEVIATIONS * compared.distances[:, None] * self.spread
        return np.sqrt(found + spread**2)

    def _log_prediction_kernel(self, queries, output):
        """Return the log kernel between predictions of one output."""
        own = self.predictions[:, output]
        mean = np.average(own, weights=self.weights)
        variance = np.average((own - mean) ** 2, weights=self.weights)
        if variance < _LEAST_VARIANCE * self.spread[output] ** 2:
            return 0.0
        width = self.length_scale * np.sqrt(variance)
        if width <= 1e-10 * abs(mean):  # predictions are equal up to rounding
            return 0.0
        return -0.5 * np.subtract.outer(queries / width, own / width) ** 2


def leave_one_out_predictions(keys: KernelRows, X: Rows, own: np.ndarray) -> np.ndarray:
    """Predict training rows with the positions ``own``, each without the row itself."""
    _, y, weights = all_rows(keys)
    predictions = np.tile(np.average(y, axis=0, weights=weights), (X.shape[0], 1))
    for rows, sums in keys.sums(X, own=own):
        found = keys.targets.weight(sums.scores)
        has_any = (found > 0) & (sums.log_scale[:, 0] > least_log(sums.log_scale))
        values = sums.scores[has_any, :-1] / found[has_any, None]
        predictions[np.flatnonzero(has_any) + rows.start] = values
    return predictions


class NadarayaWatsonRegressor(
    IntervalsMixin, NumbersMixin, RegressorMixin, BaseNadarayaWatson
):
    r"""Nadaraya-Watson regression: averages of the targets weighted by a kernel.

    The prediction for a row is the weighted mean of the training targets, in which the
    closest training rows have the largest weights. This is a smooth version of
    nearest-neighbour regression.

    Parameters
    ----------
    kernel : str, kernel, callable or transformer, default="gaussian"
        Kernel that determines the weights of the training rows.

        - ``"gaussian"``, ``"laplacian"``, ``"matern"``, or a kernel object with its own
          parameters, such as ``Matern(nu=2.5)`` from :mod:`sklearn_crt.kernels`: the
          exact kernel between the row to be predicted and all training rows.
        - A callable: it takes two arrays of shapes (n, d) and (m, d), whose rows are
          already multiplied by ``sigma``, and returns a non-negative matrix of shape
          (n, m). The kernels of :mod:`sklearn.gaussian_process.kernels` are of this
          kind.
        - :class:`Prototypes`: the exact kernel between the row to be predicted and a
          small number of weighted points, which replace the training rows.
        - A sampler, such as :class:`OPRFSampler`, or any other transformer: the inner
          products of its features replace the kernel, so only sums over the training
          rows are needed. The transformer is cloned and fitted, unless it is wrapped in
          a ``FrozenEstimator``.
        - ``"linear"``: the inner product of the rows, which must already be features,
          as in the last step of a pipeline.
    sigma : float, {"auto", "scale", "median"} or array-like, default="auto"
        Inverse length scale by which the rows are multiplied: a number, or one number
        per column; a larger ``sigma`` yields a narrower kernel, and ``length_scale = 1
        / sigma``. ``"scale"`` corresponds to scikit-learn's ``gamma="scale"`` with
        ``gamma = sigma**2 / 2``, and ``"median"`` is the inverse of the median distance
        between rows. ``"auto"`` selects the multiple of ``"scale"`` with the lowest
        leave-one-out error of the predictions (see Notes). If the kernel is a sampler,
        these predictions are made with its features, and ``"auto"`` keeps a ``sigma``
        that was set on the sampler. If the kernel is ``"linear"`` or a transformer of
        another package, ``sigma`` must be ``"auto"`` and has no effect.
    metric : LearnedMetric or None, default=None
        A :class:`~sklearn_crt.LearnedMetric` that defines distances between rows. It is
        learned from the training rows and also scales the columns. The metric is
        learned again without each of five folds of the rows, or ten folds if there are
        fewer than 200 rows. Intervals, class probabilities, and a factor that shrinks
        predicted numbers towards the mean target are based on predictions for the rows
        of these folds. Rows cannot be added to a model with a metric.

    Attributes
    ----------
    y_mean_ : ndarray of shape (n_outputs,)
        Weighted mean of each target. It is the prediction for rows whose kernel weights
        are all zero.
    kernel_ : kernel, Prototypes, transformer or "linear"
        The kernel that is used: a kernel object, ``Prototypes`` with the attribute
        ``prototypes_``, or the fitted transformer.
    sigma_ : float or ndarray of shape (n_features,)
        The inverse length scale that is used. It is not defined if ``kernel`` is
        ``"linear"`` or a transformer without ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    NadarayaWatsonClassifier : The corresponding classifier.
    Prototypes : A small number of weighted points instead of the training rows.
    sklearn_crt.kernels : Kernels with parameters of their own.
    OPRFSampler : Sampler of positive features with one fitted parameter.

    Notes
    -----
    With the kernel K and training rows :math:`x_j` with sample weights :math:`w_j`, the
    prediction for a row x is [1]_ [2]_

    .. math:: \hat y(x) = \frac{\sum_j w_j K(x, x_j) y_j}{\sum_j w_j K(x, x_j)} .

    :class:`NadarayaWatsonClassifier` explains how features replace the kernel, and how
    the standard error s of the denominator S is estimated for features that can be
    negative. Predictions from such features are clipped to the range of the training
    targets. The estimate for a row is *unreliable* if :math:`S < 2s`. The prediction is
    then a weighted mean of ``y_mean_`` and the kernel average, whose weight is
    :math:`(\max(S, 0) / 2s)^2`. A single warning reports the number of unreliable
    predictions. With positive features or an exact kernel, a prediction is unreliable
    only if all kernel weights of the row vanish.

    ``sigma="auto"`` minimises the mean squared leave-one-out error relative to the
    variance of each output, among the multiples of ``"scale"`` that
    :class:`NadarayaWatsonClassifier` compares. With a sampler, ``"scale"`` is kept
    unless the error of another multiple is lower by more than one standard error.

    References
    ----------
    .. [1] E. A. Nadaraya, "On Estimating Regression", Theory of Probability & Its
       Applications 9 (1964), :doi:`10.1137/1109020`.
    .. [2] Geoffrey S. Watson, "Smooth Regression Analysis", Sankhya A 26 (1964).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import NadarayaWatsonRegressor, OPRFSampler
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> model = NadarayaWatsonRegressor().fit(x[::2], np.sin(x[::2, 0]))
    >>> bool(model.score(x[1::2], np.sin(x[1::2, 0])) > 0.99)
    True
    >>> sampler = OPRFSampler(sigma=4.0, n_components=512, random_state=0)
    >>> model = NadarayaWatsonRegressor(sampler).fit(x, np.sin(x[:, 0]))
    >>> bool(model.score(x, np.sin(x[:, 0])) > 0.9)
    True
    """

    def __init__(
        self,
        kernel: KernelLike = "gaussian",
        *,
        sigma: Sigma = "auto",
        metric: LearnedMetric | None = None,
    ):
        self.kernel = kernel
        self.sigma = sigma
        self.metric = metric

    def _encoder(self):
        return RegressionTargets(self._n_outputs)

    @property
    def y_mean_(self) -> np.ndarray:
        """Weighted mean of each output."""
        return to_fit_namespace(self, self._value.seen.mean)

    def _mean_and_std(self, rows, return_std):
        value, folds = self._value, self._value.folds
        if not return_std:
            found = self._decode(value, rows)
            return found if folds is None else folds.shrunk(found), None
        self._check_can_leave_out()
        found, deviations, _ = self._with_deviations(value, rows)
        if folds is not None:
            return folds.shrunk(found), deviations * folds.root_mean_squares
        return found, deviations * Residuals.of(value).errors.root_mean_squares

    def _out_of_fold_predictions(self, value, rows):
        try:
            self._check_can_leave_out()
        except AttributeError:  # no intervals are available
            return to_host(self._decode(value, rows)), None
        _, deviations, inside = self._with_deviations(value, rows)
        return inside, deviations

    def _with_deviations(self, value, rows):
        """Return predictions, their deviations, and predictions clipped to targets."""
        residuals, totals = Residuals.of(value), list[KernelTotals]()
        found = self._decode(value, rows, totals)
        rows, logs = to_host(rows), np.concatenate([each.logs for each in totals])
        inside = np.clip(to_host(found), value.seen.least, value.seen.most)
        compared = residuals.similarity.compared(rows, logs)
        return found, residuals.deviations(rows, inside, compared), inside

    def _squeezed(self, values):
        return values[:, 0] if self._one_output else values

    def _decode(self, value, rows, totals=None):
        """Return the predictions as an array of shape (n_rows, n_outputs).

        The total kernel weights of blocks of rows are appended to the list ``totals``.
        """
        blocks, n_unreliable = [], 0
        options = {} if totals is None else {"measured": True}
        for _, sums in self._kernel_sums(value.solution, rows, **options):
            scores, error = sums.scores, sums.error
            if totals is not None:
                totals.append(sums.totals)
            xp, mean = namespace_of(scores), asarray_like(value.seen.mean, scores)
            weights = scores[:, -1]
            empty = ~(weights > 0)
            divisors = xp.where(empty, xp.ones_like(weights), weights)
            block = scores[:, :-1] / divisors[:, None]
            block = xp.where(empty[:, None], mean, block)
            # if some weights are negative, averages may exceed the range of the targets
            if error is not None:
                block = xp.where((error > 0)[:, None], value.seen.clipped(block), block)
                share = trust(weights, error)[:, None]
                block = block + (1 - share) * (mean - block)
                empty = share[:, 0] < 1
            blocks.append(block)
            n_unreliable += int(xp.count_nonzero(empty))
        if n_unreliable:
            instead = (
                "for them, the mean of the targets partly or entirely replaces the "
                "prediction"
            )
            self._warn_unreliable(n_unreliable, instead)
        # in the widest dtype, because large targets may require its precision
        return joined(blocks)

    def _quantiles(self, rows, levels):
        found = self._quantiles_of_folds(rows, levels)
        if found is not None:
            return found
        value = self._value
        _, deviations, predictions = self._with_deviations(value, rows)
        errors, seen = Residuals.of(value).errors, value.seen
        found = errors.quantiles(deviations, levels) + predictions[..., None]
        if getattr(self, "clip", False):
            np.clip(found, seen.least[:, None], seen.most[:, None], out=found)
        return found

    def __sklearn_tags__(self):
        """Return the estimator tags of scikit-learn, which allow several outputs."""
        tags = super().__sklearn_tags__()
        # scikit-learn's checks use too few rows for kernel averages to score well
        tags.regressor_tags.poor_score = True
        tags.target_tags.multi_output = True
        return tags
