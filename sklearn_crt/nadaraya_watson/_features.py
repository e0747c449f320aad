"""Kernel sums through a feature map: one small matrix stands for the training rows."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import gen_batches
from sklearn.utils.validation import has_fit_parameter

from ..utils._accumulator import FeatureSums

_CHUNK_ROWS = 1024
_PENDING_ENTRIES = 2**22  # entries of X that partial_fit keeps before it fixes a map


class FeatureEngine:
    """Sums of features times targets, and the map that makes the features.

    Sums stay valid only while the map stays still. ``partial_fit`` keeps the first
    rows (up to 2**22 entries), so the map is fitted on all of them and any order of
    batches gives the same result; then it is frozen and the rows are forgotten.

    Parameters
    ----------
    sampler : transformer or None
        None where the rows are features already.
    encode : callable
        ``encode(y, weights, dtype)`` returns the matrix of targets (n, k).
    """

    def __init__(self, sampler, encode):
        self._encode = encode
        self._pending = []
        self._n_pending = 0
        self._sums = FeatureSums()
        self.frozen = sampler is None or isinstance(sampler, FrozenEstimator)
        self.sampler = sampler if self.frozen else clone(sampler)

    def add(self, X, y, weights, final, step=lambda: None):
        """Add rows of positive weight; ``final`` fixes the map.

        ``step`` is called after each chunk of rows.
        """
        if self.frozen:
            self._accumulate(X, y, weights, step)
            return
        self._fit_sampler(X, weights)
        self._pending.append((X, y, weights))
        self._n_pending += X.shape[0] * X.shape[1]
        self._sums = FeatureSums()  # those of the map before
        if final or self._n_pending > _PENDING_ENTRIES or self.frozen:
            self.freeze(step)

    def freeze(self, step=lambda: None):
        """Fix the map for good, and forget the rows kept until now."""
        if self._sums.empty:
            self._absorb(step)
        self._pending, self._n_pending, self.frozen = [], 0, True

    def _fit_sampler(self, X, weights):
        fit = getattr(self.sampler, "partial_fit", None)
        if fit is None:  # a map that learns in one go is fixed by the first batch
            fit, self.frozen = self.sampler.fit, True
        if has_fit_parameter(self.sampler, "sample_weight"):
            fit(X, sample_weight=weights)
        else:
            fit(X)

    def _absorb(self, step=lambda: None):
        for rows in self._pending:
            self._accumulate(*rows, step)

    def _accumulate(self, X, y, weights, step):
        for rows, mantissa, exponent in self._features(X, key=True):
            targets = self._encode(y[rows], weights[rows], X.dtype)
            self._sums.add(mantissa, exponent, targets)
            step()

    def _features(self, X, key):
        if hasattr(self.sampler, "iter_log_features"):
            yield from self.sampler.iter_log_features(X, key=key)
            return
        for rows in gen_batches(X.shape[0], _CHUNK_ROWS):
            chunk = X[rows] if self.sampler is None else self.sampler.transform(X[rows])
            if sparse.issparse(chunk):
                chunk = chunk.toarray()
            yield rows, np.asarray(chunk), None

    def scores(self, X):
        """Yield rows, ``sum_j K(x, x_j) T[j]`` over exp(log_scale), and log_scale."""
        if self._pending and self._sums.empty:
            self._absorb()
        for rows, mantissa, exponent in self._features(X, key=False):
            yield rows, *self._sums.average(mantissa, exponent)

    def merge(self, other):
        """Add the rows behind another engine."""
        if not other.frozen:
            for rows in other._pending:
                self.add(*rows, final=False)
            return
        if self.frozen:
            self._check_same_map(other)
        else:  # take over the map that is fixed already
            self.sampler, self._sums = other.sampler, FeatureSums()
            self.freeze()
        self._sums.merge(other._sums)

    def _check_same_map(self, other):
        if self.sampler is None and other.sampler is None:
            return
        n_features = self.sampler.n_features_in_
        probe = np.random.default_rng(0).standard_normal((4, n_features))
        mine, theirs = (
            [part for _, *parts in engine._features(probe, key=True) for part in parts]
            for engine in (self, other)
        )
        for a, b in zip(mine, theirs, strict=True):
            if (a is None) != (b is None) or (
                a is not None
                and (np.shape(a) != np.shape(b) or not np.allclose(a, b, rtol=1e-6))
            ):
                raise ValueError(
                    "merge needs the same fitted sampler on both sides, but these two "
                    "were fitted on other data or with another seed. Fit one sampler, "
                    "and give sampler=FrozenEstimator(sampler) to both estimators."
                )
