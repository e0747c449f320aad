"""Kernel sums over all the training rows, in blocks and in log space."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ..utils._bandwidth import RowSample, resolve_sigma
from ..utils._moments import Moments
from ..utils._profiles import LOG_PROFILES

_QUERY_ROWS, _KEY_ROWS = 256, 2048  # kernel values computed at a time


class ExactEngine:
    """The exact estimator: keeps the training rows.

    Parameters
    ----------
    kernel : str or callable
        Name of a radial kernel, or a function of two arrays of rows.
    sigma, nu : see NadarayaWatsonClassifier
    rng : numpy.random.Generator
        For the sample behind ``sigma="median"``.
    encode : callable
        ``encode(y, weights, dtype)`` returns the matrix of targets (n, k).
    """

    sampler = "exact"

    def __init__(self, kernel, sigma, nu, rng, encode):
        self._kernel, self._sigma, self._nu, self._encode = kernel, sigma, nu, encode
        self._sample = RowSample(rng)
        self._moments = None
        self._parts = []

    def add(self, X, y, weights, final, step=None):
        """Keep rows of positive weight."""
        batch = Moments.of(X, weights)
        self._moments = batch if self._moments is None else self._moments.merge(batch)
        self._sample.add(X, weights)
        self._parts.append((X, y, weights))

    def merge(self, other):
        """Keep the rows of another engine too."""
        for part in other._parts:
            self.add(*part, final=True)

    @property
    def sigma(self):
        """The multiplier of the inputs for the rows seen so far."""
        return resolve_sigma(self._sigma, self._moments, self._sample)

    def _unit(self, X, dtype, sigma, center):
        """Return sigma times the rows, less the mean of the training rows if center.

        Distances do not change, and their float32 error falls with the norms.
        """
        X = X.astype(dtype, copy=False)
        if sparse.issparse(X):
            columns = np.broadcast_to(np.asarray(sigma, dtype), X.shape[1])
            return X @ sparse.diags(columns).tocsr()
        centred = X - self._moments.mean.astype(dtype) if center else X
        return centred * np.asarray(sigma, dtype)

    def scores(self, X):
        """Yield rows, ``sum_j K(x, x_j) T[j]`` over exp(log_scale), and log_scale."""
        dtype, sigma, parts = X.dtype, self.sigma, []
        sides = [X, *(keys for keys, *_ in self._parts)]
        # all or none: sparse rows would become dense
        center = not callable(self._kernel) and not any(map(sparse.issparse, sides))
        for keys, y, weights in self._parts:
            keys = self._unit(keys, dtype, sigma, center)
            targets = self._encode(y, weights, dtype)
            parts.append((keys, row_norms(keys, squared=True), targets))
        for rows in gen_batches(X.shape[0], _QUERY_ROWS):
            queries = self._unit(X[rows], dtype, sigma, center)
            scores, log_scale = 0.0, -np.inf
            for keys, sq_norms, targets in parts:
                for block in gen_batches(keys.shape[0], _KEY_ROWS):
                    logs = self._log_kernel(queries, keys[block], sq_norms[block])
                    total = np.maximum(log_scale, logs.max(axis=1, keepdims=True))
                    shift = np.where(np.isfinite(total), total, 0)
                    logs -= shift
                    np.exp(logs, out=logs)
                    scores = scores * np.exp(log_scale - shift) + logs @ targets[block]
                    log_scale = total
            yield rows, scores, np.where(np.isfinite(log_scale), log_scale, 0)

    def _log_kernel(self, queries, keys, sq_norms):
        if callable(self._kernel):
            with np.errstate(divide="ignore"):
                return np.log(np.asarray(self._kernel(queries, keys)))
        squares = safe_sparse_dot(queries, keys.T, dense_output=True)
        squares *= -2
        squares += sq_norms
        squares += row_norms(queries, squared=True)[:, None]
        np.maximum(squares, 0, out=squares)
        if self._kernel == "gaussian":
            squares *= -0.5
            return squares
        return LOG_PROFILES[self._kernel](np.sqrt(squares, out=squares), self._nu)
