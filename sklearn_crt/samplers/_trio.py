"""The trio that every map has: exact kernel, estimate, variance of the estimate."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ._rows import UnitRows


class KernelTrioMixin:
    """Kernels of pairs of rows, from ``_kernel``, ``_variance`` and the features."""

    def exact_kernel(self, X, Y=None):
        """Return the kernel that the features estimate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Its values, in the type of X.
        """
        kernel = self._kernel(*self._unit_pair(X, Y))
        return kernel.astype(self._validate(X, reset=False).dtype, copy=False)

    def approximate_kernel(self, X, Y=None):
        """Return the estimate of the kernel, ``transform(X) @ transform_key(Y).T``.

        Computed in log space: finite wherever the estimate itself is.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Unbiased estimates, in the type of X.
        """
        queries = self._log_features(X, key=False)
        keys = self._log_features(X if Y is None else Y, key=True)
        (left, log_left), (right, log_right) = map(_scale_rows, (queries, keys))
        product = left @ right.T
        # where the large features of two rows stand in different columns
        lost = np.abs(product) < 1e10 * np.finfo(product.dtype).tiny
        lost &= queries[1].shape[1] > 1
        with np.errstate(over="ignore", invalid="ignore"):
            root = np.exp((log_left + log_right.T) / 2)  # the square may overflow
            estimate = product * root * root
            for i in np.flatnonzero(lost.any(axis=1)):
                mantissa = queries[0][i] * keys[0][lost[i]]
                terms, peak = _scale_rows((mantissa, queries[1][i] + keys[1][lost[i]]))
                estimate[i, lost[i]] = terms.sum(axis=1) * np.exp(peak[:, 0])
        return estimate

    def _log_features(self, X, key):
        """Return mantissas and exponents of all rows; either may have one column."""
        parts = []
        for rows, *features in self.iter_log_features(X, key=key):
            for place, fill in enumerate((1, 0)):  # None stands for ones and zeros
                if features[place] is None:
                    shape = (rows.stop - rows.start, 1)
                    features[place] = np.full(shape, fill, self._float_type(X))
            parts.append(features)
        return [np.vstack(column) for column in zip(*parts, strict=True)]

    @staticmethod
    def _float_type(X):
        return np.float32 if getattr(X, "dtype", None) == np.float32 else np.float64

    def kernel_variance(self, X, Y=None):
        """Return the exact variance of ``approximate_kernel`` over the frequencies.

        For the fitted parameters and coupling; where ``variance_is_exact_`` is False
        (a coupling without a fixed angle: ``"simplex+"``, ``"halton"``, ``"sobol"``) it
        is that of independent frequencies; for a structured coupling in a dimension
        that needs no padding, that of the exact blocks which it approximates.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_X, n_features)
            Rows of the query side.
        Y : {array-like, sparse matrix} of shape (n_Y, n_features), default=None
            Rows of the key side; X if None.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y), float64
            Mean squared errors of the estimates, since these are unbiased.
        """
        return self._variance(*self._unit_pair(X, Y))

    def _unit_pair(self, X, Y):
        check_is_fitted(self)
        X, Y = (
            None
            if Z is None
            else self._validate(Z, reset=False).astype(np.float64, copy=False)
            for Z in (X, Y)
        )
        if Y is not None and sparse.issparse(X) != sparse.issparse(Y):
            # sparse rows are not centred until their products are taken
            kind = type(X) if sparse.issparse(X) else type(Y)
            X, Y = (Z if sparse.issparse(Z) else kind(Z) for Z in (X, Y))
        X, Y = (
            None if Z is None else UnitRows(Z, self.sigma_, self._center())
            for Z in (X, Y)
        )
        return X, X if Y is None else Y


def _scale_rows(features):
    """Return features divided by one factor a row, and the factors' logs."""
    mantissa, exponent = features
    log_scale = exponent.max(axis=1, keepdims=True)
    log_scale = np.where(np.isfinite(log_scale), log_scale, 0)
    return mantissa * np.exp(exponent - log_scale), log_scale
