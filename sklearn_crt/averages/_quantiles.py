"""Conditional quantiles and prediction intervals from kernel weights."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._array import to_host, to_namespace_of
from .._compat import available_if
from .._fitted import computed_once
from .._kernels import least_log
from .._quantiles import check_coverage, check_levels, weighted_quantiles
from ..rows import Rows, TableLike
from ..rows.sample import DistinctSample
from ._exact import Keys
from ._prototypes import Prototypes
from ._row_weights import all_rows, kernel_of, log_kernels, shares_of, stores_rows
from ._sigma import N_KEYS
from ._targets import LocalLinear

_N_HELD_OUT = 2000  # training rows on which intervals are calibrated
# The variance of the noise usually varies more slowly than the mean, so residuals are
# weighted by a wider kernel, whose sigma is multiplied by this factor.
_RESIDUAL_SIGMA = 0.5
# Noise often grows with the prediction, so residuals with similar predictions have
# larger weights. The unit of this length scale is the standard deviation of the
# predictions.
_PREDICTION_LENGTH_SCALE = 0.5


class Residuals(NamedTuple):
    """Training rows with the values whose conditional distribution is estimated.

    The values are the targets for kernel averages, and the leave-one-out residuals for
    local linear regression.
    """

    keys: Keys  # the rows
    values: np.ndarray  # (n_rows, n_outputs)
    sigma: float | np.ndarray
    predictions: Any  # (n_rows, n_outputs), leave-one-out; None for kernel averages
    limits: tuple[np.ndarray, np.ndarray] | None  # range of targets if clipped to it

    @classmethod
    def of(cls, value: Any, limits: tuple[Any, Any] | None) -> Residuals:
        """Return the targets for kernel averages, residuals for local linear fits."""
        keys, sigma = value.keys, value.sigma
        if not isinstance(keys.targets, LocalLinear):
            return cls(keys, all_rows(keys)[1], sigma, None, None)
        few, predictions = computed_once(
            value, "leave-one-out", lambda: cls._leave_one_out(keys, sigma)
        )
        if limits is not None:
            predictions = np.clip(predictions, *limits)
        (_, y, _), *_ = few.parts
        return cls(few, y - predictions, _RESIDUAL_SIGMA * sigma, predictions, limits)

    @staticmethod
    def _leave_one_out(keys, sigma):
        """Return a sample of the rows, and their leave-one-out predictions."""
        few = DistinctSample.of([all_rows(keys)], N_KEYS)
        rows = few.X, few.y, few.weights
        return replace(keys, parts=(rows,)), leave_one_out_predictions(
            keys, few.X, sigma
        )

    def quantiles(
        self,
        X: Rows,
        predictions: np.ndarray | None,
        levels: np.ndarray,
        *,
        left_out: bool = False,
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of queries, and their conditional quantiles.

        ``left_out`` excludes training rows that are equal to the query.
        """
        # predictions (n_queries, n_outputs) -> (n_queries, n_outputs, n_levels)
        *_, weights = all_rows(self.keys)
        for rows, logs in log_kernels(self.keys, X, self.sigma, left_out=left_out):
            if predictions is None:
                shares = shares_of(logs, weights)
                found = [weighted_quantiles(shares, v, levels) for v in self.values.T]
            else:
                found = []
                for k, (values, center) in enumerate(
                    zip(self.values.T, predictions[rows].T, strict=True)
                ):
                    near = logs + self._log_prediction_kernel(center, k, weights)
                    shares = shares_of(near, weights)
                    quantiles = weighted_quantiles(shares, values, levels)
                    found.append(quantiles + center[:, None])
            values = np.stack(found, axis=1)
            if self.limits is not None:
                least, most = (end[:, None] for end in self.limits)
                np.clip(values, least, most, out=values)
            yield rows, values

    def _log_prediction_kernel(self, queries, output, weights):
        """Return the log kernel between predictions of one output."""
        assert self.predictions is not None  # because the fit is local linear
        own = self.predictions[:, output]
        mean = np.average(own, weights=weights)
        variance = np.average((own - mean) ** 2, weights=weights)
        width = _PREDICTION_LENGTH_SCALE * np.sqrt(variance)
        if width <= 1e-10 * abs(mean):  # the deviations are rounding errors
            return 0.0
        return -0.5 * np.subtract.outer(queries / width, own / width) ** 2

    def margin(self, coverage: float) -> np.ndarray:
        """Return the margin by which intervals must be widened, (n_outputs,).

        After widening them by it on both sides, the intervals contain the proportion
        ``coverage`` of the targets of held-out training rows.
        """
        X, values, predictions, weights = self._held_out()
        levels = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
        parts = self.quantiles(X, predictions, levels, left_out=True)
        ends = np.concatenate([values for _, values in parts])
        if predictions is not None:
            values = values + predictions
        outside = np.maximum(ends[..., 0] - values, values - ends[..., 1])
        # Weights are treated as numbers of repeated rows, unless their sum is smaller
        # than the number of rows: they are then on another scale.
        n_rows = max(len(weights), weights.sum())
        level = np.array([min(1.0, coverage * (1 + 1 / n_rows))])
        shares = weights[None]
        found = [weighted_quantiles(shares, column, level) for column in outside.T]
        return np.concatenate(found)[:, 0]

    def _held_out(self):
        """Return held-out rows, their values, predictions and weights."""
        X, _, weights = all_rows(self.keys)
        if self.predictions is None:
            few = DistinctSample.of([(X, self.values, weights)], _N_HELD_OUT)
            return few.X, few.y, None, few.weights
        first = slice(_N_HELD_OUT)  # the rows are already a sample, in random order
        return X[first], self.values[first], self.predictions[first], weights[first]


def leave_one_out_predictions(
    keys: Keys, X: Rows, sigma: float | np.ndarray
) -> np.ndarray:
    """Predict each row without using the row itself or rows that are equal to it."""
    _, y, weights = all_rows(keys)
    predictions = np.tile(np.average(y, axis=0, weights=weights), (X.shape[0], 1))
    for rows, sums in keys.sums(X, sigma, left_out=True):
        found = keys.targets.weight(sums.scores)
        has_any = (found > 0) & (sums.log_scale[:, 0] > least_log(sums.log_scale))
        values = sums.scores[has_any, :-1] / found[has_any, None]
        predictions[np.flatnonzero(has_any) + rows.start] = values
    return predictions


def _has_residuals(model):
    """Return True if the training rows are stored, or raise AttributeError."""
    if isinstance(kernel_of(model), Prototypes):
        raise AttributeError(
            "Prototypes are means of training rows, whose residuals are not kept; use "
            f"the exact kernel, {type(model).__name__}(), to keep the rows."
        )
    return stores_rows(model)


def _has_targets(model):
    """Return True if targets or residuals are stored, or raise AttributeError."""
    check = _has_residuals if hasattr(model, "slopes") else stores_rows
    return check(model)


class QuantilesMixin:
    """Methods for conditional quantiles and prediction intervals of the targets."""

    _host_rows: Any
    _decode: Any
    _one_output: bool

    @available_if(_has_targets)
    def predict_quantiles(self, X: TableLike, quantiles: ArrayLike) -> np.ndarray:
        r"""Predict conditional quantiles of the targets.

        They describe the distribution of the targets at a given row, for example their
        median, or a range that contains 80 % of them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.
        quantiles : float or array-like of shape (n_quantiles,)
            Levels between 0 and 1, for example 0.5 for the median.

        Returns
        -------
        values : ndarray of shape (n_samples[, n_outputs][, n_quantiles])
            Quantiles of each output. A higher level never yields a smaller quantile.
            The axis of the outputs is omitted if there is a single output, and the last
            axis if ``quantiles`` is a number.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer or ``"linear"``, because these
            store only sums over the training rows, or if the kernel of local linear
            regression is ``Prototypes``.
        ValueError
            If a level is not between 0 and 1.

        Notes
        -----
        The conditional distribution of the targets at a row is estimated by the
        training targets with the weights of :meth:`kernel_weights` [1]_. The quantile
        of a level is the smallest target such that targets up to and including it have
        at least this proportion of the weight. With ``Prototypes``, the mean targets of
        the prototypes replace the training targets.

        For local linear regression, the distribution is that of the prediction plus a
        residual. The residuals are the leave-one-out residuals of up to 10,000 training
        rows; each row is predicted by a model fitted without this row and its copies.
        They are weighted by a kernel with twice the length scale (half of ``sigma``),
        multiplied by a Gaussian kernel of the difference between predictions, whose
        length scale is half the standard deviation of the predictions. The second
        kernel is used because noise often grows with the prediction. The residuals are
        computed in the first call, which takes as long as predicting these rows.

        References
        ----------
        .. [1] C. J. Stone, "Consistent Nonparametric Regression", Annals of Statistics
           5 (1977), :doi:`10.1214/aos/1176343886`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import NadarayaWatsonRegressor
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=(2000, 1))
        >>> y = np.sin(6 * x[:, 0]) + x[:, 0] * rng.normal(size=2000)
        >>> model = NadarayaWatsonRegressor().fit(x, y)
        >>> np.round(model.predict_quantiles([[0.2], [0.8]], [0.16, 0.5, 0.84]), 1)
        array([[ 0.7,  0.9,  1.1],
               [-1.8, -1. , -0.2]])

        The standard deviation of the noise is x, that is 0.2 for the first row and 0.8
        for the second one.
        """
        levels = check_levels(quantiles)
        value, rows = self._host_rows(X, "predict_quantiles")
        values = self._quantiles(value, rows, levels)
        values = values[:, 0] if self._one_output else values
        values = values[..., 0] if np.ndim(quantiles) == 0 else values
        return to_namespace_of(values, X)

    @available_if(_has_residuals)
    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> np.ndarray:
        r"""Predict intervals that contain new targets with a given probability.

        The probability is calibrated on training rows that are left out, and does not
        depend on assumptions about the distribution of the noise.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.
        coverage : float, default=0.9
            Proportion of new targets that the intervals should contain, between 0 and
            1. The coverage holds on average over rows drawn from the distribution of
            the training rows, but not for each individual row.

        Returns
        -------
        ends : ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper ends of the intervals.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer, ``"linear"`` or ``Prototypes``.
        ValueError
            If ``coverage`` is not between 0 and 1.

        Notes
        -----
        For the coverage :math:`1 - \alpha`, the ends of an interval are the quantiles
        of :meth:`predict_quantiles` at the levels :math:`\alpha/2` and :math:`1 -
        \alpha/2`, moved outwards by a number c that is the same for all rows (inwards
        if c is negative). It is calibrated on up to 2000 training rows with targets
        :math:`y_i` and quantiles :math:`l_i, u_i`, each of which is computed without
        the row itself:

        .. math:: c = \operatorname{quantile}_{(1 - \alpha)(1 + 1/n)}
           \max(l_i - y_i,\; y_i - u_i),

        This is conformalized quantile regression [1]_ with leave-one-out quantiles
        instead of a separate calibration set. A row with sample weight s counts as s
        equal rows: n is the sum of the weights, but at least the number of distinct
        rows, and copies of a row are left out together with it. With fewer than
        :math:`1/\alpha` rows, c is the maximum over the rows, and the coverage may be
        lower.

        References
        ----------
        .. [1] Y. Romano, E. Patterson, E. Candès, "Conformalized Quantile Regression",
           NeurIPS 2019, :arxiv:`1905.03222`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import LocalLinearRegressor
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 6, size=(4000, 1))
        >>> y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=4000)
        >>> model = LocalLinearRegressor().fit(x[::2], y[::2])
        >>> low, high = model.predict_interval(x[1::2], coverage=0.9).T
        >>> bool(0.88 < np.mean((low <= y[1::2]) & (y[1::2] <= high)) < 0.92)
        True
        """
        coverage = check_coverage(coverage)
        levels = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
        value, rows = self._host_rows(X, "predict_interval")
        ends, limits = self._quantiles(value, rows, levels), self._limits(value)
        margin = computed_once(
            value,
            f"margin of {coverage}, clipped: {limits is not None}",
            lambda: Residuals.of(value, limits).margin(coverage),
        )[:, None]
        ends += np.concatenate([-margin, margin], axis=1)
        middle = ends.mean(axis=2)  # if the margin is negative, the ends might cross
        ends[..., 0] = np.minimum(ends[..., 0], middle)
        ends[..., 1] = np.maximum(ends[..., 1], middle)
        return to_namespace_of(ends[:, 0] if self._one_output else ends, X)

    def _quantiles(self, value, rows, levels):
        """Return quantiles of the targets as (n_queries, n_outputs, n_levels)."""
        residuals = Residuals.of(value, self._limits(value))
        is_plain = residuals.predictions is None
        predictions = None if is_plain else to_host(self._decode(value, rows))
        found = np.empty((rows.shape[0], residuals.values.shape[1], len(levels)))
        for batch, values in residuals.quantiles(rows, predictions, levels):
            found[batch] = values
        return found

    def _limits(self, value):
        """Return the smallest and largest targets, or None without clipping."""
        seen = value.seen
        return (seen.least, seen.most) if getattr(self, "clip", False) else None
