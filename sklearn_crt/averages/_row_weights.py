"""Weights and number of the training rows behind a prediction, and their similarity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_scalar

from .._compat import available_if
from ..arrays.namespaces import float_type_of, taken, to_host
from ..life_cycle.fitted import computed_once
from ..life_cycle.intervals import Distribution, weighted_quantiles
from ..rows import Rows, TableLike
from ..samplers._kernel_parameter import is_row_kernel
from ._fitted_averages import Averages
from ._kernel_rows import (
    CUT,
    DrawnRows,
    all_rows,
    kernel_totals,
    prediction_weights,
)
from ._prototypes import Prototypes
from ._sigma_choice import N_KEYS

if TYPE_CHECKING:
    from sklearn.neighbors import NearestNeighbors
    from sklearn.preprocessing import StandardScaler

    from ..samplers._kernel_parameter import KernelLike
    from ._base import BaseNadarayaWatson

N_LEFT_OUT = 2000  # number of training rows, each of which is compared with all others
_N_NEIGHBORS = 5
# Rows with scores below _LEAST_SCORE count as unlike the training rows. Distances are
# measured in units of the quantile, at level _USUAL_DISTANCES, of the distances of
# training rows from their neighbours.
_LEAST_SCORE, _USUAL_DISTANCES = 0.05, 0.99
# Distances are limited, because they can be huge in nearly constant columns.
_MOST_UNITS = 5.0
# Differences up to these limits, between log weights and between distances in standard
# deviations, may be rounding errors of float32, so such values count as equal.
_TIES = 3e-4, 3e-6
_LATER: Any = None  # a field that is computed from the others


class ComparedRows(NamedTuple):
    """Similarities of rows to the training rows, and distances from them."""

    scores: np.ndarray  # (n_rows,), from 0 to 1
    distances: np.ndarray  # (n_rows,), 0 unless scores are low


@dataclass(frozen=True, eq=False)
class Similarity:
    """The similarity of rows to the training rows, expressed as a quantile.

    A row is ranked among the training rows by its total kernel weight, in which columns
    count as much as in predictions, and by its mean distance from neighbours, in which
    all columns count equally. The similarity is the lower of the two quantiles.
    """

    few: DrawnRows  # a sample of the training rows
    scaler: StandardScaler
    neighbors: NearestNeighbors  # of the standardised rows
    logs: Distribution
    closeness: Distribution
    unit: float  # unit of the distances
    # the distribution of the lower of the two quantiles
    both: Distribution = _LATER
    # the sample's first rows, each compared with all other rows
    left_out: ComparedRows = _LATER

    @classmethod
    def of(cls, value: Averages) -> Similarity:
        """Return a comparison with the training rows of fitted averages."""
        return computed_once(value, "similarity", lambda: cls._computed(value))

    @classmethod
    def _computed(cls, value: Averages) -> Similarity:
        # imported here, because the modules load slowly
        from sklearn.neighbors import NearestNeighbors
        from sklearn.preprocessing import StandardScaler

        keys = value.solution
        whole, _, weights = all_rows(keys)
        few = DrawnRows.of(weights, N_KEYS)
        some, left = taken(whole, few.places), few.first(N_LEFT_OUT)
        X, weights = taken(whole, left.places), left.weights
        scaler = StandardScaler(with_mean=False).fit(some, sample_weight=few.weights)
        n_neighbors = min(_N_NEIGHBORS + 1, some.shape[0])
        neighbors = NearestNeighbors(n_neighbors=n_neighbors)
        neighbors.fit(scaler.transform(some))
        closest, _ = neighbors.kneighbors(scaler.transform(X))
        # the closest row is the row itself
        distances = closest[:, 1:].sum(axis=1) / max(n_neighbors - 1, 1)
        if value.metric is not None:
            distances *= _stretch_of_new_rows(*whole.shape)
        level = np.array([_USUAL_DISTANCES])
        unit = weighted_quantiles(weights[None], distances, level).item()
        neighbors.set_params(n_neighbors=max(n_neighbors - 1, 1))
        logs = kernel_totals(keys, X, left.places).logs
        of_logs = Distribution.of(logs, weights)
        of_closeness = Distribution.of(-distances, weights)
        found = cls(
            few=few,
            scaler=scaler,
            neighbors=neighbors,
            logs=of_logs,
            closeness=of_closeness,
            unit=unit,
        )
        both = Distribution.of(found._least_share(logs, distances), weights)
        found = replace(found, both=both)
        return replace(found, left_out=found._compared(logs, distances))

    def compared(self, X: Rows, logs: np.ndarray) -> ComparedRows:
        """Compare rows with all training rows, given the logs of their kernel sums."""
        # logs (n_rows,), as returned by ``log_totals``
        closest, _ = self.neighbors.kneighbors(self.scaler.transform(X))
        return self._compared(logs, closest.mean(axis=1))

    def _compared(self, logs: np.ndarray, distances: np.ndarray) -> ComparedRows:
        least = self._least_share(logs, distances)
        scores = self.both.shares_below(least + _TIES[1])
        ratios = distances / self.unit if self.unit > 0 else distances
        ratios = np.clip(ratios, 1, _MOST_UNITS)
        low = np.maximum(1 - scores / _LEAST_SCORE, 0)
        return ComparedRows(scores, low**3 * ratios)

    def _least_share(self, logs: np.ndarray, distances: np.ndarray) -> np.ndarray:
        """Return the lower of the two quantiles among the training rows."""
        closeness = self.closeness.shares_below(_TIES[1] - distances)
        return np.minimum(self.logs.shares_below(logs + _TIES[0]), closeness)


def keeps_all_rows(model: BaseNadarayaWatson) -> bool:
    """Return True if all training rows are stored; otherwise raise AttributeError."""
    if isinstance(kernel_of_model(model), Prototypes):
        raise AttributeError(
            "Training rows cannot be left out with Prototypes, which only store means "
            f"of rows. Use the exact kernel, {type(model).__name__}(), to store the "
            "rows."
        )
    return stores_rows(model)


def kernel_of_model(model: BaseNadarayaWatson) -> KernelLike | Prototypes:
    """Return the fitted kernel of an estimator, or its parameter before ``fit``."""
    value = vars(model).get("_value")
    if value is None:
        return model.kernel
    # the parameter of the fit suffices, and is known before anything is learned
    return value.kernel_in_use if value.is_learned else model._fit_params["kernel"]


def stores_rows(model: BaseNadarayaWatson) -> bool:
    """Return True if rows or prototypes are stored; otherwise raise AttributeError."""
    kernel = kernel_of_model(model)
    if not (isinstance(kernel, Prototypes) or is_row_kernel(kernel)):
        raise AttributeError(
            f"With kernel={kernel!r}, only sums over the training rows are stored. Use "
            f"the exact kernel, {type(model).__name__}(), to store the rows."
        )
    return True


def _stretch_of_new_rows(n_rows: int, n_columns: int) -> float:
    """Return how much farther new rows are from training rows than these are.

    The columns of a metric are principal components of the training rows, so that after
    scaling their covariance is the identity. For normally distributed rows, the mean
    squared length of a new row is then n_columns times (n + 1)(n - 1) / (n (n -
    n_columns - 2)), because the covariance has been estimated from n rows.
    """
    freedom = max(n_rows - n_columns - 2, 1)
    square = (n_rows + 1) * (n_rows - 1) / (n_rows * freedom)
    return float(np.sqrt((1 + square) / 2))


class RowWeightsMixin:
    """Methods that return the weights of training rows or prototypes in predictions."""

    _cast: Any
    _query: Any

    @available_if(stores_rows)
    def kernel_weights(
        self, X: TableLike, n_largest: int | None = None
    ) -> sparse.csr_array:
        r"""Return the weights of the training rows in the predictions.

        They show on which training rows a prediction is based. The prediction of a
        regressor, before it is shrunk towards the mean target because of a metric or of
        groups, is the sum of the training targets multiplied by these weights; the
        frequency of a class, which ``predict_proba`` calibrates, is the sum of the
        weights of its rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.
        n_largest : int, default=None
            Number of largest weights to return for each row; None returns all weights.
            They are not renormalised, so their sum is the fraction of the total weight
            that they account for.

        Returns
        -------
        weights : sparse array of shape (n_samples, n_training_rows)
            Weights, which sum to 1 in each row unless ``n_largest`` is given. Columns
            correspond to the training rows in the order in which they were given, or to
            the points of ``kernel_.prototypes_``.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer or ``"linear"``, because these
            store only sums over the training rows.
        ValueError
            If ``n_largest`` is not a positive integer.

        Notes
        -----
        With sample weights :math:`s_j` the weights are

        .. math:: w_j(x) = s_j K(x, x_j) / \sum_k s_k K(x, x_k) .

        The predictions of local linear regression are also linear in the targets. In
        the notation of :class:`LocalLinearRegressor`, and with the normalised weights
        :math:`w_j(x)` defined above, the weights are

        .. math:: w_j(x)\, (1 + (x - m)^\top (G + \lambda I)^{-1} (x_j - m)) .

        This is the equivalent kernel of [1]_, section 6.1. Some of these weights may be
        negative.

        The smallest weights, which sum to at most 1e-13 in each row, are set to zero.
        The distances to all training rows are computed in blocks. If all kernel values
        of a row vanish, the weights are the normalised sample weights. Local linear
        fits with ``Prototypes`` also depend on the covariance of the rows of each
        prototype, which these weights do not reflect.

        References
        ----------
        .. [1] T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical
           Learning", 2nd edition, Springer 2009.

        Examples
        --------
        >>> from sklearn_crt import NadarayaWatsonRegressor
        >>> X, y = [[0.0], [1.0], [3.0]], [1.0, 2.0, 5.0]
        >>> model = NadarayaWatsonRegressor(sigma=1.0).fit(X, y)
        >>> model.kernel_weights([[0.5]]).toarray().round(3)
        array([[0.488, 0.488, 0.024]])
        """
        if n_largest is not None:
            check_scalar(n_largest, "n_largest", Integral, min_val=1)
        model, rows = self._query(X, "kernel_weights")
        value = model._value
        blocks = []
        for shares in prediction_weights(value.solution, to_host(rows)):
            n_rows = shares.shape[1]
            some = np.where(np.abs(shares) > CUT / n_rows, shares, 0)
            some /= some.sum(axis=1, keepdims=True)
            if n_largest is not None and n_largest < n_rows:
                order = np.argpartition(-np.abs(some), n_largest - 1, axis=1)
                np.put_along_axis(some, order[:, n_largest:], 0, axis=1)
            blocks.append(sparse.csr_array(some))
        found = sparse.vstack(blocks, format="csr").astype(float_type_of(X))
        # positions of training rows with weight 0, which prototypes do not record
        dropped = getattr(value, "dropped", ())
        if not dropped:
            return found
        kept = np.delete(np.arange(value.n_given), np.concatenate(dropped))
        parts = found.data, kept[found.indices], found.indptr
        return sparse.csr_array(parts, shape=(found.shape[0], value.n_given))

    @available_if(stores_rows)
    def effective_sample_size(self, X: TableLike) -> np.ndarray:
        r"""Return the effective number of training rows behind each prediction.

        A small number indicates that a prediction rests on few training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        n_effective : ndarray of shape (n_samples,)
            Effective number of rows, which is 1 if a single row has all the weight. A
            row with sample weight s counts as s equal rows, and a point of
            ``Prototypes`` counts as the rows that it represents.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer or ``"linear"``, because these
            store only sums over the training rows.

        Notes
        -----
        This is the perplexity of the normalised kernel weights :math:`w_j`,
        :math:`\exp(-\sum_j w_j \log (w_j / s_j))`, with the sample weights :math:`s_j`
        [1]_.

        References
        ----------
        .. [1] M. O. Hill, "Diversity and Evenness", Ecology 54 (1973), number of order
           1, :doi:`10.2307/1934352`.

        Examples
        --------
        >>> from sklearn_crt import NadarayaWatsonRegressor
        >>> X, y = [[0.0], [1.0], [3.0]], [1.0, 2.0, 5.0]
        >>> model = NadarayaWatsonRegressor(sigma=1.0).fit(X, y)
        >>> model.effective_sample_size([[0.5], [9.0]]).round(2)
        array([2.2, 1. ])
        """
        model, rows = self._query(X, "effective_sample_size")
        keys = model._value.solution
        found = kernel_totals(keys, to_host(rows)).sizes
        # if all kernel values vanish, the prediction is the mean of all targets
        return self._cast(np.minimum(found, all_rows(keys)[2].sum()), X)
