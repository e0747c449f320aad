"""From the parameter ``sigma`` to the number that multiplies the inputs."""

from __future__ import annotations

import math
from numbers import Real

import numpy as np
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import euclidean_distances

from ._moments import Moments

_SAMPLE_ROWS = 1000


class RowSample:
    """Uniform random sample of at most 1000 of the rows of positive weight so far.

    Each row gets a random priority and the smallest stay, so the sample of rows
    that come in batches is that of the rows together.
    """

    def __init__(self, rng):
        self._rng = rng
        self._parts = None

    def add(self, X, sample_weight=None):
        """Draw from the rows of X and the rows kept so far."""
        weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        priorities = self._rng.random(X.shape[0])
        part = _smallest(X, priorities, weights, np.flatnonzero(weights))
        if self._parts is not None:
            both = self._parts[0], part[0]
            stack = sparse.vstack if any(map(sparse.issparse, both)) else np.vstack
            rows = stack(both)
            rows = rows.tocsr() if sparse.issparse(rows) else rows
            old, new = self._parts[1:], part[1:]
            columns = (np.concatenate(pair) for pair in zip(old, new, strict=True))
            part = _smallest(rows, *columns, np.arange(rows.shape[0]))
        self._parts = part

    @property
    def rows(self):
        """The rows in the sample, as they came."""
        return self._parts[0]

    @property
    def weights(self):
        """Their sample weights."""
        return self._parts[2]

    def median_distance(self) -> float:
        """Weighted median distance of pairs of distinct rows, 1 without any."""
        rows, _, weights = self._parts
        pairs = np.triu_indices(rows.shape[0], 1)
        if sparse.issparse(rows):
            distances = euclidean_distances(rows.astype(np.float64))[pairs]
        else:
            distances = pdist(rows.astype(np.float64))
        # equal rows of a sparse table are apart by rounding
        distinct = distances > 1e-7 * distances.max(initial=0)
        pair_weights = np.where(distinct, (weights[:, None] * weights)[pairs], 0)
        order = np.argsort(distances)
        cumulated = np.cumsum(pair_weights[order])
        if cumulated.size == 0 or cumulated[-1] == 0:
            return 1.0
        middle = np.searchsorted(cumulated, 0.5 * cumulated[-1])
        return float(distances[order[middle]])


def _smallest(rows, priorities, weights, candidates):
    """Keep the 1000 candidate rows of smallest priority, in their order."""
    keep = np.sort(candidates[np.argsort(priorities[candidates])[:_SAMPLE_ROWS]])
    return rows[keep], priorities[keep], weights[keep]


def resolve_sigma(sigma, moments: Moments, sample: RowSample | None):
    """Return the multiplier of the inputs: a float, or an array with one a column."""
    if isinstance(sigma, str):
        if sigma == "median":
            return 1.0 / sample.median_distance()
        variance = moments.mean.size * moments.total_variance
        if variance <= 1e-28 * moments.mean_square.sum():  # constant up to rounding
            return math.sqrt(2.0)  # gamma = sigma^2 / 2 = 1, as in scikit-learn
        return math.sqrt(2.0 / variance)
    values = np.asarray(sigma, dtype=np.float64)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(
            f"sigma={sigma!r} must be positive and finite: a number, one number for "
            "each feature, 'scale' or 'median'."
        )
    if isinstance(sigma, Real):
        return float(sigma)
    if values.shape != moments.mean.shape:
        raise ValueError(
            f"sigma has shape {values.shape}, but X has {moments.mean.size} features; "
            f"give a number or an array of shape ({moments.mean.size},)."
        )
    return values
