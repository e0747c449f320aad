"""Weighted quantiles, and intervals calibrated on the errors of left-out rows."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_scalar

from .._compat import available_if
from ..arrays.namespaces import to_namespace_of
from ..rows import TableLike

# smallest level; at level 0, a value with almost no weight could become the quantile
_LEAST_LEVEL = 1e-13
# relative tolerance for comparing cumulative weights with a level
_ROUNDING = 1e-12
_MARGIN = 1e-8  # relative to the standard deviation of the targets
_EQUAL = 1e-6  # deviations with a smaller relative difference count as equal
# Rows whose predictions have similar standard deviations form a group with its own
# error distribution. If there are several groups, each has at least _ROWS_PER_GROUP
# rows.
_MOST_GROUPS, _ROWS_PER_GROUP = 5, 200


def weighted_quantiles(
    shares: np.ndarray, values: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return weighted quantiles of the values for each row of weights.

    The quantile is the smallest of the values at which the cumulative weight reaches
    the proportion ``level`` of the total weight, as in ``numpy.quantile`` with
    ``method="inverted_cdf"``.
    """
    # shares (n_queries, n), values (n,), levels (l,) -> (n_queries, l)
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(shares[:, order], axis=1)
    found = np.empty((len(sums), len(levels)))
    for i, level in enumerate(levels):
        least = max(level * (1 - _ROUNDING), _LEAST_LEVEL)
        places = np.count_nonzero(sums < least * sums[:, -1:], axis=1)
        found[:, i] = values[order[np.minimum(places, len(order) - 1)]]
    return found


class Distribution(NamedTuple):
    """The weighted distribution of a quantity over the training rows."""

    values: np.ndarray  # (n_rows,), in ascending order
    shares: np.ndarray  # (n_rows + 1,), cumulative weights

    @classmethod
    def of(cls, values: np.ndarray, weights: np.ndarray) -> Self:
        order = np.argsort(values, kind="stable")
        sums = np.append(0.0, np.cumsum(weights[order]))
        return cls(values[order], sums / sums[-1])

    def shares_below(self, values: np.ndarray) -> np.ndarray:
        """Return the weighted proportion of rows at or below each given value."""
        return self.shares[np.searchsorted(self.values, values, side="right")]


def check_levels(quantiles: ArrayLike) -> np.ndarray:
    """Return the levels of quantiles as an array, after checking their range."""
    levels: Any = check_array(np.atleast_1d(quantiles), ensure_2d=False, dtype=float)
    if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
        raise ValueError(
            "quantiles must be a number or a list of numbers between 0 and 1, got "
            f"{quantiles!r}."
        )
    return levels


def check_coverage(coverage: float) -> float:
    """Return the coverage of an interval after checking its range."""
    ends = {"min_val": 0, "max_val": 1, "include_boundaries": "neither"}
    return float(check_scalar(coverage, "coverage", Real, **ends))


def levels_of_interval(coverage: float) -> np.ndarray:
    """Return the levels of the quantiles that bound a central interval."""
    return 0.5 + np.array([-0.5, 0.5]) * check_coverage(coverage)


class LeftOut(NamedTuple):
    """Predictions for training rows by models that were fitted without them.

    A prediction is nan if it cannot be computed without the row.
    """

    predictions: np.ndarray  # (n, k)
    targets: np.ndarray  # (n, k)
    variances: np.ndarray  # (n, k), in units of the noise variance
    weights: np.ndarray  # (n,)
    fitted: np.ndarray | None = None  # (n, k), predictions by the model of all rows


@dataclass(frozen=True, eq=False)
class Errors:
    """The distribution of prediction errors, divided by their standard deviations."""

    ratios: np.ndarray  # (n, k), nan where the error is unknown
    # (n, k), standard deviations of the errors, divided by that of the noise
    deviations: np.ndarray
    weights: np.ndarray  # (n,)
    most_groups: int = _MOST_GROUPS  # each group has its own distribution of errors
    # (n, k), ratios of the residuals. If many rows are equal and have equal targets, a
    # new row of this kind has the error of the residuals, which the errors of left-out
    # rows only approach. Each row therefore counts with the outer of the two.
    inner: np.ndarray | None = None
    margin: np.ndarray | float = 0.0  # (k,), for rounding errors of the residuals

    @classmethod
    def of(cls, rows: LeftOut, limits: tuple[np.ndarray, np.ndarray] | None) -> Errors:
        """Return the error distribution for predictions that are clipped to limits."""
        predictions, fitted = rows.predictions, rows.fitted
        if limits is not None:
            predictions = np.clip(predictions, *limits)
            fitted = None if fitted is None else np.clip(fitted, *limits)
        deviations = np.sqrt(1 + rows.variances)
        ratios = (rows.targets - predictions) / deviations
        return cls(
            ratios=ratios,
            deviations=np.where(np.isnan(ratios), np.inf, deviations),
            weights=rows.weights,
            inner=None if fitted is None else (rows.targets - fitted) / deviations,
            margin=_MARGIN * np.std(rows.targets, axis=0),
        )

    def quantiles(self, deviations: np.ndarray, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the errors of new rows, (n_queries, k, n_levels).

        ``deviations`` are the standard deviations of the errors of new rows, divided by
        that of the noise, (n_queries, k). For an upper quantile, the probability that
        the error of a new row is larger is at most 1 - level. For a lower quantile, the
        probability that it is smaller is at most the level.
        """
        unknown = np.isnan(self.ratios)
        found = []
        for level in levels:
            side = 1.0 if level >= 0.5 else -1.0
            # unknown errors count as infinite, so they widen the intervals
            ratios = side * self.ratios
            if self.inner is not None:
                ratios = np.maximum(ratios, side * self.inner + self.margin)
            ratios = np.where(unknown, np.inf, ratios)
            level = max(level, 1 - level)
            found.append(side * self._quantile(ratios, deviations, level))
        return np.stack(found, axis=-1)

    @property
    def root_mean_squares(self) -> np.ndarray:
        """Root mean squares of the ratios, (k,); nan where an error is unknown."""
        return np.sqrt(self.weights @ self.ratios**2 / self.weights.sum())

    def scores(self, deviations: np.ndarray) -> np.ndarray:
        """Return the proportion of training rows with deviations at least as large."""
        columns = zip(self.deviations.T, deviations.T, strict=True)
        found = [
            Distribution.of(-own, self.weights).shares_below(-queries)
            for own, queries in columns
        ]
        return np.min(found, axis=0)

    def _quantile(
        self, ratios: np.ndarray, deviations: np.ndarray, level: float
    ) -> np.ndarray:
        """Return a quantile of the ratios times the deviations of rows, (n_queries, k).

        For levels above 0.5, the probability that the ratio of a new row exceeds the
        quantile is at most 1 - level.
        """
        found = np.empty(deviations.shape)
        columns = zip(self.deviations.T, ratios.T, deviations.T, strict=True)
        for k, (own, values, queries) in enumerate(columns):
            edges = _edges_of_groups(own, self.most_groups)
            groups = np.searchsorted(edges, own)
            table = np.empty(len(edges) + 1)
            for group in range(len(table)):
                mine = groups == group
                weights, wanted = self.weights[mine], level
                if level > 0.5:
                    n_rows = max(len(weights), weights.sum())
                    wanted = min(1.0, level * (1 + 1 / n_rows))
                levels = np.array([wanted])
                quantile = weighted_quantiles(weights[None], values[mine], levels)
                table[group] = quantile.item()
            found[:, k] = table[np.searchsorted(edges, queries)] * queries
        return found


def _edges_of_groups(deviations: np.ndarray, most_groups: int) -> np.ndarray:
    """Return the edges that divide deviations into non-empty groups.

    The edges lie between two deviations that differ by more than rounding errors, so
    that a new row that equals many training rows belongs to their group.
    """
    n_rows, values = len(deviations), np.sort(deviations)
    n_groups = int(np.clip(n_rows // _ROWS_PER_GROUP, 1, most_groups))
    places = n_rows * np.arange(1, n_groups) // n_groups
    ends = np.searchsorted(values, values[places] * (1 + _EQUAL), side="right")
    ends = np.unique(ends[ends < n_rows])
    last = values[ends - 1]
    # infinite deviations form a group of their own
    following = np.where(np.isinf(values[ends]), last, values[ends])
    return (last + following) / 2


def _can_leave_out(model: Any) -> bool:
    """Return True, or raise AttributeError if no training row can be left out."""
    model._check_can_leave_out()
    return True


class SimilarityMixin:
    """Mixin with the method that compares rows with the training rows."""

    def _check_can_leave_out(self) -> Any:
        """Raise AttributeError if training rows cannot be left out one at a time."""

    _query: Any

    @abstractmethod
    def _scores(self, rows: Any) -> np.ndarray:
        """Return the results of ``score_samples`` for validated rows."""

    @available_if(_can_leave_out)
    def score_samples(self, X: TableLike) -> np.ndarray:
        r"""Return each row's similarity to the training rows, as a score from 0 to 1.

        The score is the proportion of training rows that are no more similar to the
        other training rows than the given row is. Hence about 1 % of new rows from the
        same distribution have scores of at most 0.01. A score near 0 indicates that a
        prediction may be an extrapolation.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Proportions of the training rows. A row has score 0 if it is less similar to
            the training rows than each training row is to the others.

        Raises
        ------
        AttributeError
            If the kernel of kernel averages or of a local linear fit is a sampler, a
            transformer, ``"linear"`` or ``Prototypes``.

        Notes
        -----
        Kernel averages and local linear fits compute two quantities for each row, and
        for up to 2000 training rows, each of which is left out in turn: the total
        kernel weight, and the mean distance to the five nearest of up
        to 10,000 training rows in standardised columns. The second quantity also
        detects changes in columns that the kernel ignores because they have little
        effect on the targets, for instance after they have been shrunk by a
        :class:`~sklearn_crt.LearnedMetric`. Both quantities are converted to quantiles
        among the training rows. The score is the proportion of training rows for which
        the lower of the two quantiles is no larger than it is for the given row. With
        the parameter ``metric``, new rows are farther from the n training rows than
        these are from each other, because the k columns of the metric are principal
        components of the training rows. The distances between training rows are
        therefore multiplied by :math:`\sqrt{(1 + c) / 2}` with :math:`c = (n + 1)(n -
        1) / (n (n - k - 2))`, the ratio that normally distributed rows would have.

        :class:`~sklearn_crt.tables.TableRegressor` and
        :class:`~sklearn_crt.tables.TableClassifier` compute the same quantities from
        standardised numbers and one-hot encoded categories. For the kernel weights,
        columns are scaled according to ``feature_importances_``; for the distances, all
        columns are scaled equally.

        For ridge regression, similarity is measured by the variance of predictions: the
        score is the proportion of training rows whose leave-one-out predictions have a
        variance at least as large as that of the prediction for the given row. If
        outputs have different penalties, it is the lowest score among the outputs. In
        classification with more than 64 features, the variances are estimated with a
        relative standard error of about 18 %.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import NadarayaWatsonRegressor, RandomFeatureRidge
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> usual, distant = [0.0, 0.0, 0.0], [0.0, 0.0, 6.0]
        >>> for model in (NadarayaWatsonRegressor(), RandomFeatureRidge()):
        ...     scores = model.fit(X, X[:, 0]).score_samples([usual, distant])
        ...     print(scores[0] > 0.5, scores[1] < 0.01)
        True True
        True True
        """
        model, rows = self._query(X, "score_samples")
        return to_namespace_of(model._scores(rows), X)


class IntervalsMixin:
    """Mixin of regressors with standard deviations, quantiles and intervals."""

    _one_output: bool
    _query: Any

    @abstractmethod
    def _mean_and_std(self, rows: Any, return_std: bool) -> tuple[Any, Any]:
        """Return predictions, (n_rows, n_outputs), and deviations or None."""

    @abstractmethod
    def _quantiles(self, rows: Any, levels: np.ndarray) -> np.ndarray:
        """Return quantiles of the targets, (n_rows, n_outputs, n_levels)."""

    def _output(self, values: np.ndarray, X: Any) -> Any:
        """Return values (n, k, ...) in the shape users expect, in the library of X."""
        return to_namespace_of(values[:, 0] if self._one_output else values, X)

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[False] = False
    ) -> np.ndarray: ...

    @overload
    def predict(
        self, X: TableLike, return_std: Literal[True]
    ) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(self, X: TableLike, return_std: bool = False) -> Any:
        r"""Predict targets, and optionally return standard deviations.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.
        return_std : bool, default=False
            Whether to return standard deviations as well. Kernel averages and local
            linear regression can do so only if they keep the training rows, as for
            :meth:`predict_interval`. Ridge regression on D features needs about D²
            additional operations per row with ``clip=False``, and none with
            ``clip=True``, which requires the standard deviations in any case.

        Returns
        -------
        y : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Predictions. Except in ``TableRegressor``, they are float64 even if X is
            float32, because targets may need the higher precision. Kernel averages lie
            in the range of the training targets; for rows where the error of the random
            features is too large, the prediction is partly or entirely replaced by
            ``y_mean_`` (see the Notes of the class). Local linear fits can exceed this
            range unless ``clip=True``. The Notes of ``RandomFeatureRidge`` describe how
            ``clip=True`` limits its predictions.
        std : ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Standard deviations of new targets around the predictions, including the
            noise; returned only if ``return_std=True``. For kernel averages and local
            linear regression, they are the estimates :math:`\tau(x)` in the user guide
            (page on quantiles), multiplied by the root mean square of the normalised
            leave-one-out residuals :math:`e_i / \tau(x_i)`. In ridge regression, they
            are infinite if the training rows leave no degrees of freedom to estimate
            the noise. In ``TableRegressor``, they are proportional to a local estimate
            of the expected absolute error, and calibrated on cross-validated errors.

        Raises
        ------
        AttributeError
            If ``return_std=True`` and the model does not keep the training rows.
        """
        model, rows = self._query(X, "predict")
        mean, std = model._mean_and_std(rows, return_std)
        mean = model._output(mean, X)
        return (mean, model._output(std, X)) if return_std else mean

    @available_if(_can_leave_out)
    def predict_quantiles(self, X: TableLike, quantiles: ArrayLike) -> np.ndarray:
        """Predict conditional quantiles of the targets.

        Conditional quantiles describe the distribution of the targets at a given row,
        for example through its median, or through an interval that contains 80 % of the
        targets. A quantile of the targets is the prediction plus a quantile of the
        prediction error. The distribution of the error is estimated from training rows
        that are predicted by models fitted without them (jackknife [1]_). As in
        conformal prediction [2]_, these errors are divided by estimates of their
        standard deviations, and the quantile is multiplied by the estimate for the
        given row. The user guide has the formulas, on the page on quantiles for kernel
        averages and local linear regression, and on the page on ridge regression.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.
        quantiles : float or array-like of shape (n_quantiles,)
            Levels between 0 and 1, for example 0.5 for the median.

        Returns
        -------
        values : ndarray of shape (n_samples[, n_outputs][, n_quantiles])
            Quantiles of each output. A higher level never yields a smaller quantile.
            The axis of the outputs is omitted if there is a single output, and the last
            axis if ``quantiles`` is a number. The Notes of :meth:`predict_interval`
            describe when they are infinite. With ``clip=True``, all quantiles that are
            computed from leave-one-out errors of at least 200 rows are in the range of
            the training targets. With ``clip=False``, the quantiles of a ridge
            regression are also infinite if the errors of too many rows are unknown,
            which happens with fewer rows than features and no penalty.

        Raises
        ------
        AttributeError
            If the kernel of kernel averages or of a local linear regression is a
            sampler, a transformer, ``"linear"`` or ``Prototypes``, because such models
            do not keep the training rows.
        ValueError
            If a level is not between 0 and 1.

        References
        ----------
        .. [1] R. F. Barber et al., "Predictive Inference with the Jackknife+", Annals
           of Statistics 49 (2021), :doi:`10.1214/20-AOS1965`.
        .. [2] J. Lei et al., "Distribution-Free Predictive Inference for Regression",
           Journal of the American Statistical Association 113 (2018),
           :doi:`10.1080/01621459.2017.1307116`.

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
               [-1.7, -1.1, -0.3]])

        The standard deviation of the noise is x, that is, 0.2 for the first row and 0.8
        for the second row.
        """
        levels = check_levels(quantiles)
        model, rows = self._query(X, "predict_quantiles")
        values = model._quantiles(rows, levels)
        return model._output(values[..., 0] if np.ndim(quantiles) == 0 else values, X)

    @available_if(_can_leave_out)
    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> np.ndarray:
        """Predict intervals that contain a given proportion of new targets.

        The bounds are the quantiles at the levels (1 - coverage) / 2 and (1 + coverage)
        / 2. They are calibrated on the errors of training rows that are predicted by
        models fitted without them. The distribution of the noise need not be known.

        Parameters
        ----------
        X : {data frame, array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made, of the same kind as in ``fit``.
        coverage : float, default=0.9
            Proportion of new targets that the intervals should contain, between 0 and
            1. It holds approximately, and on average over rows drawn from the
            distribution of the training rows, but not for each individual row or for
            other distributions.

        Returns
        -------
        bounds : ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Lower and upper bounds of the intervals. With fewer than 200 rows, both are
            infinite if the number n of rows, or of groups, is too small for the
            coverage, that is, below :math:`2 / (1 - c) - 1` (19 for 90 %). With at
            least 200 rows, without a metric or groups and with ``clip=True``, they are
            within the range of the training targets.

        Raises
        ------
        AttributeError
            For the same reasons as in :meth:`predict_quantiles`.
        ValueError
            If ``coverage`` is not between 0 and 1.

        Notes
        -----
        With fewer than 200 training rows, kernel averages, local linear regression and
        ridge regression use CV+ [1]_ with ten folds: the whole fit, including all
        choices such as ``sigma``, is repeated without each fold. For each training row,
        the model of its fold predicts the new row, and the error of the training row
        (relative to the estimated standard deviations) is added. The bounds are
        quantiles of these sums at the levels of n + 1 values, one of which is unknown.
        If rows are drawn independently from one distribution and c is the requested
        coverage, theory guarantees a coverage of about 1 - 2 (1 - c), whatever the
        distribution (between ranks the quantiles are interpolated, which may cost up to
        another 2 / (n + 1)). In practice the coverage is about c. The models of the
        folds are fitted when intervals are first requested, or by ``freeze``.

        With at least 200 rows, left-out errors of the rows are used, for which the
        parameters that ``fit`` selected are kept. If the model was fitted with groups,
        or with a metric, these are the errors for rows of left-out folds, and n is the
        number of groups. The same holds for ridge regression with an ``AnovaSampler``
        and fewer than 1000 rows, because the sampler is learned from the targets.

        References
        ----------
        .. [1] R. F. Barber, E. J. Candès, A. Ramdas, R. J. Tibshirani, "Predictive
           Inference with the Jackknife+", Annals of Statistics 49 (2021),
           :arxiv:`1905.02928`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_crt import RandomFeatureRidge
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(0, 6, size=(4000, 1))
        >>> y = np.sin(x[:, 0]) + 0.1 * rng.normal(size=4000)
        >>> model = RandomFeatureRidge(n_components=100, random_state=0)
        >>> model = model.fit(x[::2], y[::2])
        >>> low, high = model.predict_interval(x[1::2], coverage=0.9).T
        >>> bool(0.88 < np.mean((low <= y[1::2]) & (y[1::2] <= high)) < 0.92)
        True
        """
        levels = levels_of_interval(coverage)
        model, rows = self._query(X, "predict_interval")
        return model._output(model._quantiles(rows, levels), X)
