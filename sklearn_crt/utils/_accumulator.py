"""Mergeable sums of features that no exponent can overflow."""

from __future__ import annotations

import numpy as np


def _finite(shift):
    """Replace -inf, the shift of a column that holds only zeros, by 0."""
    return np.where(np.isfinite(shift), shift, 0.0)


class FeatureSums:
    """Sums over rows j of features times targets, ``sum_j F[j, m] T[j, k]``.

    Features come as ``mantissa * exp(exponent)``. Per column m the largest exponent
    seen is kept as ``shift``, and ``sums`` holds the sums divided by exp(shift):
    a shift for each column cancels in the ratios of Nadaraya and Watson, a shift
    for each row does not. Adding and merging are exact up to rounding, in any
    order.
    """

    def __init__(self):
        self.shift = -np.inf
        self.sums = 0.0

    @property
    def empty(self) -> bool:
        """Whether nothing was added yet."""
        return np.ndim(self.sums) == 0

    def add(self, mantissa, exponent, targets):
        """Add rows: features (n, m) as mantissa and exponent, targets (n, k)."""
        if exponent is None:
            self._merge(0.0, mantissa.T @ targets)
            return
        shift = exponent.max(axis=0)
        features = np.exp(exponent - _finite(shift))
        if mantissa is not None:
            features = mantissa * features
        self._merge(np.asarray(shift, dtype=np.float64), features.T @ targets)

    def merge(self, other: FeatureSums):
        """Add the sums of another set of rows."""
        self._merge(other.shift, other.sums)

    def _merge(self, shift, sums):
        total = np.maximum(self.shift, shift)
        old, new = np.exp(self.shift - _finite(total)), np.exp(shift - _finite(total))
        self.sums = np.atleast_1d(old)[:, None] * self.sums
        self.sums = self.sums + np.atleast_1d(new)[:, None] * sums
        self.shift = total

    def average(self, mantissa, exponent):
        """Return the features of queries times the sums, and the log of its scale.

        Returns
        -------
        scores : ndarray of shape (n, k), float64
            ``sum_m F[i, m] sums[m, k]`` divided by ``exp(log_scale[i])``.
        log_scale : ndarray of shape (n, 1)
        """
        if exponent is None:
            total = np.atleast_2d(_finite(self.shift)).astype(mantissa.dtype)
        else:
            total = exponent + np.asarray(self.shift, dtype=exponent.dtype)
        log_scale = _finite(total.max(axis=1, keepdims=True))
        weights = np.exp(total - log_scale)
        if mantissa is not None:
            weights = mantissa * weights
        return weights @ self.sums, log_scale
