"""Weights of the training rows in a prediction, and their effective number."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_scalar, gen_batches

from .._compat import available_if
from ..arrays.loops import least_log, weights_from_logs
from ..arrays.namespaces import to_host, within_working_memory
from ..arrays.threads import blas_within_processors
from ..rows import TableLike
from ..samplers._kernel_parameter import is_row_kernel
from ._keys import Keys, joined_parts
from ._local_targets import LocalLinear, Planes
from ._prototypes import Prototypes

_BYTES = 2**24  # maximum size of an array of pairwise weights
CUT = 1e-13  # the smallest weights are set to zero if they sum to at most this


def all_rows(keys: Keys) -> tuple[Any, np.ndarray, np.ndarray]:
    """Return all training rows, their targets and their sample weights, on the host."""
    X, y, weights = map(to_host, joined_parts(keys.parts)[:3])
    return X, y, weights.astype(np.float64)


def log_kernels(
    keys: Keys, X: Any, *, left_out: bool = False
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield slices of queries and their log kernel values for all training rows.

    ``left_out`` excludes training rows that are equal to a query: its copies and, if
    it is a training row, the query itself.
    """
    # -> (n_queries, n_rows), in float64
    stored = keys.stored(X)
    stored.frame.check(X)
    size = max(1, within_working_memory(_BYTES) // (8 * stored.rows.shape[0]))
    for batch in gen_batches(X.shape[0], size):
        queries = stored.queries(X[batch])
        logs = keys.log_kernel(queries, stored.rows, left_out=left_out)
        yield batch, logs.astype(np.float64, copy=False)


def shares_of(logs: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weights of the training rows for each query, which sum to 1.

    If all kernel values of a query vanish, the prediction is the mean of all targets,
    so the normalised sample weights are returned.
    """
    # logs (n_queries, n_rows), weights (n_rows,) -> (n_queries, n_rows)
    shares, _ = weights_from_logs(logs)
    shares *= weights
    total = shares.sum(axis=1)
    none = total == 0
    shares[none], total[none] = weights, weights.sum()
    shares /= total[:, None]
    return shares


def effective_sizes(keys: Keys, X: Any, *, left_out: bool = False) -> np.ndarray:
    """Return the effective number of training rows behind each prediction.

    The number is infinite if all kernel values of a query vanish.
    """
    # -> (n_queries,)
    found, (*_, weights) = np.empty(X.shape[0]), all_rows(keys)
    for batch, logs in log_kernels(keys, X, left_out=left_out):
        shares, peaks = weights_from_logs(logs)
        shares *= weights
        total = shares.sum(axis=1)
        logs -= peaks
        np.maximum(logs, least_log(logs), out=logs)  # avoids 0 times infinity
        entropy = np.log(np.where(total > 0, total, 1))
        entropy -= np.einsum("ij,ij->i", shares, logs) / np.where(total > 0, total, 1)
        found[batch] = np.where(total > 0, np.exp(entropy), np.inf)
    return found


def log_totals(keys: Keys, X: Any, *, left_out: bool = False) -> np.ndarray:
    """Return the logarithm of the total kernel weight for each query."""
    # -> (n_queries,)
    found, (*_, weights) = np.empty(X.shape[0]), all_rows(keys)
    for batch, logs in log_kernels(keys, X, left_out=left_out):
        shares, peaks = weights_from_logs(logs, overwrite=True)
        with np.errstate(divide="ignore"):
            found[batch] = np.log(shares @ weights) + peaks[:, 0]
    return found


def prediction_weights(keys: Keys, X: Any) -> Iterator[np.ndarray]:
    """Yield the weights of all training rows in predictions, for batches of queries."""
    # -> (n_queries, n_rows)
    targets: Any = keys.targets
    rows, _, weights = all_rows(keys)
    is_fit = isinstance(targets, LocalLinear)
    if is_fit:  # a linear fit corresponds to a kernel that depends on the query
        planes = keys.with_targets(targets.solved_for(Planes))
        found = [to_host(sums.scores) for _, sums in planes.sums(X)]
        slopes, offsets = np.split(np.concatenate(found), [X.shape[1]], axis=1)
        frame, _ = keys.frame(X)
        points = frame.rows(rows).dense
    for batch, logs in log_kernels(keys, X):
        shares = shares_of(logs, weights)
        if is_fit:
            shares *= targets.kept(shares / weights, weights)
            shares /= shares.sum(axis=1, keepdims=True)
            shares *= 1 + slopes[batch] @ points.T - offsets[batch]
        yield shares


def kernel_of_model(model: Any) -> Any:
    """Return the fitted kernel of an estimator, or its parameter before ``fit``."""
    value = vars(model).get("_value")
    return model.kernel if value is None else value.kernel_in_use


def stores_rows(model: Any) -> bool:
    """Return True if rows or prototypes are stored; otherwise raise AttributeError."""
    kernel = kernel_of_model(model)
    if not (isinstance(kernel, Prototypes) or is_row_kernel(kernel)):
        raise AttributeError(
            f"With kernel={kernel!r} only sums over the training rows are kept, not "
            f"the rows; use the exact kernel, {type(model).__name__}(), to keep them."
        )
    return True


class RowWeightsMixin:
    """Methods that return the weights of training rows or prototypes in predictions."""

    _cast: Any
    _float_type: Any
    _query: Any

    @available_if(stores_rows)
    def kernel_weights(
        self, X: TableLike, n_largest: int | None = None
    ) -> sparse.csr_array:
        r"""Return the weights of the training rows in the predictions.

        They show on which training rows a prediction is based. The prediction of a
        regressor is the sum of the training targets multiplied by these weights; the
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
        found = sparse.vstack(blocks, format="csr").astype(self._float_type(X))
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
        found = effective_sizes(keys, to_host(rows))
        # if all kernel values vanish, the prediction is the mean of all targets
        return self._cast(np.minimum(found, all_rows(keys)[2].sum()), X)

    @available_if(stores_rows)
    def log_weights(self, X: TableLike) -> np.ndarray:
        r"""Return the logarithm of the total kernel weight of the training rows.

        Low values identify rows that are far from all training rows. Up to a constant
        this is the logarithm of a kernel density estimate [1]_, as returned by
        :meth:`sklearn.neighbors.KernelDensity.score_samples`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows for which predictions are made.

        Returns
        -------
        logs : ndarray of shape (n_samples,)
            :math:`\log \sum_j s_j K(x, x_j)` with the sample weights :math:`s_j`;
            minus infinity if all kernel values vanish.

        Raises
        ------
        AttributeError
            If the kernel is a sampler, a transformer or ``"linear"``.

        References
        ----------
        .. [1] E. Parzen, "On Estimation of a Probability Density Function and Mode",
           Annals of Mathematical Statistics 33 (1962),
           :doi:`10.1214/aoms/1177704472`.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn.neighbors import KernelDensity
        >>> from sklearn_crt import NadarayaWatsonRegressor
        >>> X = np.random.default_rng(0).normal(size=(500, 3))
        >>> model = NadarayaWatsonRegressor(sigma=2.0).fit(X, X[:, 0])
        >>> density = KernelDensity(bandwidth=1 / 2.0).fit(X)
        >>> gaps = model.log_weights(X[:9]) - density.score_samples(X[:9])
        >>> bool(np.ptp(gaps) < 1e-6)
        True
        """
        model, rows = self._query(X, "log_weights")
        call, keys = blas_within_processors(rows.shape[0]), model._value.solution
        return self._cast(call(log_totals, keys, to_host(rows)), X)
