"""Quantiles and intervals of targets, from the weights of the training rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array, check_scalar

from .._array import taken, to_host, to_namespace_of
from .._compat import available_if
from .._fitted import computed_once
from .._kernels import least_log
from ..rows import Rows, TableLike
from ..rows.centers import distinct_rows
from ._bandwidth import sample
from ._exact import Keys
from ._prototypes import Prototypes
from ._row_weights import CUT, _has_rows, all_rows, log_kernels, shares_of
from ._targets import LocalLinear

_N_LEFT = 2000  # rows left out, by which intervals are widened
_WIDER = 0.5  # times sigma: residuals change more slowly than answers
_OF_ANSWERS = 0.5  # times their deviation: answers of one size have noise of one size
_ROUNDING = 1e-12  # of a level, which sums of shares may miss by so much


def weighted_quantiles(
    shares: np.ndarray, values: np.ndarray, levels: np.ndarray
) -> np.ndarray:
    """Return the least values below or at which rows have these shares.

    As ``numpy.quantile`` with weights and ``method="inverted_cdf"``.
    """
    # shares (n_queries, n), values (n,), levels (l,) -> (n_queries, l)
    order = np.argsort(values, kind="stable")
    sums = np.cumsum(shares[:, order], axis=1)
    found = np.empty((len(sums), len(levels)))
    for i, level in enumerate(levels):
        least = max(level * (1 - _ROUNDING), CUT)
        places = np.count_nonzero(sums < least * sums[:, -1:], axis=1)
        found[:, i] = values[order[np.minimum(places, len(order) - 1)]]
    return found


class Residuals(NamedTuple):
    """Rows whose targets, or residuals, have the distribution that is asked for."""

    keys: Keys  # of these rows
    values: np.ndarray  # (n_rows, n_outputs)
    sigma: float | np.ndarray
    answers: Any  # (n_rows, n_outputs), of local fits without each row, else None
    limits: tuple[np.ndarray, np.ndarray] | None  # of clipped answers, by output

    @classmethod
    def of(cls, value: Any, limits: tuple[Any, Any] | None) -> Residuals:
        """Return targets of plain averages, and of fits residuals of rows left out."""
        keys, sigma = value.keys, value.sigma
        if not isinstance(keys.targets, LocalLinear):
            return cls(keys, all_rows(keys)[1], sigma, None, None)
        few, answers = computed_once(
            value, "held-out predictions", lambda: cls._held_out(keys, sigma)
        )
        if limits is not None:
            answers = np.clip(answers, *limits)
        (_, y, _), *_ = few.parts
        return cls(few, y - answers, _WIDER * sigma, answers, limits)

    @staticmethod
    def _held_out(keys, sigma):
        """Return a sample of the rows, and their predictions from the other rows."""
        X, y, weights = all_rows(keys)
        own, weights = distinct_sample(X, y, weights)
        rows = taken(X, own), y[own], weights
        return replace(keys, parts=(rows,)), left_out_answers(keys, rows[0], sigma)

    def quantiles(
        self,
        X: Rows,
        answers: np.ndarray | None,
        levels: np.ndarray,
        *,
        left_out: bool = False,
    ) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield slices of queries, and their quantiles."""
        # answers (n_queries, n_outputs) -> (n_queries, n_outputs, n_levels)
        *_, weights = all_rows(self.keys)
        for rows, logs in log_kernels(self.keys, X, self.sigma, left_out=left_out):
            if answers is None:
                shares = shares_of(logs, weights)
                found = [weighted_quantiles(shares, v, levels) for v in self.values.T]
            else:
                found = []
                for k, (values, middle) in enumerate(
                    zip(self.values.T, answers[rows].T, strict=True)
                ):
                    near = logs + self._log_likeness(middle, k, weights)
                    shares = shares_of(near, weights)
                    quantiles = weighted_quantiles(shares, values, levels)
                    found.append(quantiles + middle[:, None])
            values = np.stack(found, axis=1)
            if self.limits is not None:
                least, most = (end[:, None] for end in self.limits)
                np.clip(values, least, most, out=values)
            yield rows, values

    def _log_likeness(self, queries, output, weights):
        """Return the log kernel of answers of one output, (n_queries, n_rows)."""
        assert self.answers is not None  # of local fits alone
        own = self.answers[:, output]
        mean = np.average(own, weights=weights)
        width = _OF_ANSWERS * np.sqrt(np.average((own - mean) ** 2, weights=weights))
        if width <= 1e-10 * abs(mean):  # a deviation that is rounding
            return 0.0
        return -0.5 * np.subtract.outer(queries / width, own / width) ** 2

    def margin(self, coverage: float) -> np.ndarray:
        """Return what intervals lack on both sides to hold rows left out, by output."""
        X, _, weights = all_rows(self.keys)
        own, weights = distinct_sample(X, self.values, weights, _N_LEFT)
        levels = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
        answers = None if self.answers is None else self.answers[own]
        parts = self.quantiles(taken(X, own), answers, levels, left_out=True)
        ends = np.concatenate([values for _, values in parts])
        values = self.values[own] if answers is None else self.values[own] + answers
        outside = np.maximum(ends[..., 0] - values, values - ends[..., 1])
        # weights count as repeated rows, but for weights of a small sum their scale is
        # arbitrary
        n_rows = max(len(own), weights.sum())
        level = np.array([min(1.0, coverage * (1 + 1 / n_rows))])
        shares = weights[None]
        found = [weighted_quantiles(shares, column, level) for column in outside.T]
        return np.concatenate(found)[:, 0]


def distinct_sample(
    X: Rows, y: np.ndarray, weights: np.ndarray, most: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return a sample of the distinct rows, and the weights of all their copies.

    Rows count as equal if their targets are equal too. Which rows are taken follows
    from their content, so that neither their order matters nor whether a row of weight
    2 comes twice.
    """
    # y (n_rows, n_outputs), weights (n_rows,) -> (n_sampled,), (n_sampled,)
    first, places = distinct_rows(X, y)
    chosen = sample(len(first))[:most]
    return first[chosen], np.bincount(places, weights)[chosen]


def left_out_answers(keys: Keys, X: Rows, sigma: float | np.ndarray) -> np.ndarray:
    """Return what is answered at rows without them and those that equal them."""
    _, y, weights = all_rows(keys)
    answers = np.tile(np.average(y, axis=0, weights=weights), (X.shape[0], 1))
    for rows, sums in keys.sums(X, sigma, left_out=True):
        found = keys.targets.weight(sums.scores)
        has_any = (found > 0) & (sums.log_scale[:, 0] > least_log(sums.log_scale))
        values = sums.scores[has_any, :-1] / found[has_any, None]
        answers[np.flatnonzero(has_any) + rows.start] = values
    return answers


def _has_residuals(model):
    """Return whether rows are kept, or say what is kept instead."""
    if isinstance(model.kernel, Prototypes):
        raise AttributeError(
            "Prototypes are means of training rows, whose residuals are not kept; "
            f"{type(model).__name__}(ExactKernel()) keeps the rows."
        )
    return _has_rows(model)


def _has_targets(model):
    """Return whether there are targets to take quantiles of."""
    check = _has_residuals if hasattr(model, "slopes") else _has_rows
    return check(model)


class QuantilesMixin:
    """What the weights of training rows tell of targets beside their mean."""

    _host_rows: Any
    _decode: Any
    _one_output: bool

    @available_if(_has_targets)
    def predict_quantiles(self, X: TableLike, quantiles: ArrayLike) -> np.ndarray:
        r"""Return quantiles of the targets, given the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        quantiles : float or array-like of shape (n_quantiles,)
            Levels between 0 and 1, as 0.5 for the median.

        Returns
        -------
        values : ndarray of shape (n_samples[, n_outputs][, n_quantiles])
            Quantiles of each output, which never cross. A number for ``quantiles`` has
            no axis, nor has a single output.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer or ``"linear"``, or for local
            linear fits ``Prototypes``: they keep sums and no rows.
        ValueError
            If a level is not between 0 and 1.

        Notes
        -----
        The distribution of the targets at a row is that of the training targets with
        the weights of :meth:`kernel_weights` [1]_, and a quantile the least target with
        at least so much weight at or below it. Of ``Prototypes`` it is the distribution
        of the means of their points.

        For local linear fits it is the answer plus the distribution of the residuals of
        10,000 training rows at most, each without itself and the rows that equal it.
        Their weights are a kernel that is twice as wide, times a Gaussian kernel of the
        answers, of half their standard deviation: noise often grows with the answer.
        Residuals are computed at the first call, which takes as long as answers at
        these rows.

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

        The noise has standard deviation x: 0.2 at the first row, 0.8 at the second.
        """
        levels = check_array(np.atleast_1d(quantiles), ensure_2d=False, dtype=float)
        if levels.ndim != 1 or not np.all((levels >= 0) & (levels <= 1)):
            raise ValueError(
                "quantiles must be a number or a list of numbers between 0 and 1, got "
                f"{quantiles!r}."
            )
        value, rows = self._host_rows(X, "predict_quantiles")
        values = self._quantiles(value, rows, levels)
        values = values[:, 0] if self._one_output else values
        values = values[..., 0] if np.ndim(quantiles) == 0 else values
        return to_namespace_of(values, X)

    @available_if(_has_residuals)
    def predict_interval(self, X: TableLike, coverage: float = 0.9) -> np.ndarray:
        r"""Return intervals that hold a share of new targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows.
        coverage : float, default=0.9
            Share of the targets of new rows that intervals are to hold, between 0 and
            1. It is held on average over rows of the law of the training rows.

        Returns
        -------
        ends : ndarray of shape (n_samples, 2) or (n_samples, n_outputs, 2)
            Least and largest target of the intervals.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer, ``"linear"`` or ``Prototypes``.
        ValueError
            If ``coverage`` is not between 0 and 1.

        Notes
        -----
        With the coverage :math:`1 - \alpha` these are the quantiles of
        :meth:`predict_quantiles` at :math:`\alpha/2` and :math:`1 - \alpha/2`, moved
        outwards by one number c (inwards where it is negative). It is found on 2000
        training rows at most, whose quantiles :math:`l_i, u_i` are those without them:

        .. math:: c = \operatorname{quantile}_{(1 - \alpha)(1 + 1/n)}
           \max(l_i - y_i,\; y_i - u_i),

        conformalized quantile regression [1]_ with rows left out in place of a part of
        the table held back. With fewer than :math:`1/\alpha` rows c is the largest of
        these numbers, and the coverage may be less.

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
        ends = {"min_val": 0, "max_val": 1, "include_boundaries": "neither"}
        check_scalar(coverage, "coverage", Real, **ends)
        levels = np.array([0.5 - coverage / 2, 0.5 + coverage / 2])
        value, rows = self._host_rows(X, "predict_interval")
        ends, limits = self._quantiles(value, rows, levels), self._limits(value)
        margin = computed_once(
            value,
            f"margin of {float(coverage)}, clipped: {limits is not None}",
            lambda: Residuals.of(value, limits).margin(float(coverage)),
        )[:, None]
        ends += np.concatenate([-margin, margin], axis=1)
        middle = ends.mean(axis=2)  # where c is negative, they might cross
        ends[..., 0] = np.minimum(ends[..., 0], middle)
        ends[..., 1] = np.maximum(ends[..., 1], middle)
        return to_namespace_of(ends[:, 0] if self._one_output else ends, X)

    def _quantiles(self, value, rows, levels):
        """Return quantiles of the targets, (n_queries, n_outputs, n_levels)."""
        residuals = Residuals.of(value, self._limits(value))
        is_plain = residuals.answers is None
        answers = None if is_plain else to_host(self._decode(value, rows))
        found = np.empty((rows.shape[0], residuals.values.shape[1], len(levels)))
        for batch, values in residuals.quantiles(rows, answers, levels):
            found[batch] = values
        return found

    def _limits(self, value):
        """Return the least and the largest target of each output, if these bound it."""
        seen = value.seen
        return (seen.least, seen.most) if getattr(self, "clip", False) else None
