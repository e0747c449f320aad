"""Which rows share their prototypes, and how many each group gets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

_N_BINS = 8  # of numbers


def allocate(weights: ArrayLike, n_points: int) -> np.ndarray:
    """Return how many of the points each group gets: shares, largest remainder.

    Parameters
    ----------
    weights : array-like of shape (n_groups,)
        Sums of the weights of the groups, not negative.
    n_points : int
        Number of points.

    Returns
    -------
    counts : ndarray of int of shape (n_groups,)
        At least 1 for a positive weight; their sum is ``n_points``, or the number of
        such groups if that is larger.

    Examples
    --------
    >>> allocate([50, 30, 20], 10), allocate([100, 5, 1, 0], 8), allocate([3, 3, 3], 2)
    (array([5, 3, 2]), array([6, 1, 1, 0]), array([1, 1, 1]))
    """
    weights = np.asarray(weights, dtype=np.float64)
    quota = n_points * weights / weights.sum()
    counts = np.maximum(np.floor(quota).astype(int), weights > 0)
    missing = n_points - counts.sum()
    if missing > 0:
        counts[np.argsort(counts - quota, kind="stable")[:missing]] += 1
    while counts.sum() > n_points and counts.max() > 1:
        counts[np.argmax(np.where(counts > 1, counts - quota, -np.inf))] -= 1
    return counts


def group_numbers(
    y: np.ndarray, weights: np.ndarray, n_points: int, seed: int
) -> np.ndarray:
    """Return groups of rows of like targets.

    Parameters
    ----------
    y : ndarray of shape (n_rows, n_outputs)
        Targets.
    weights : ndarray of shape (n_rows,)
        Weights of the rows.
    n_points : int
        Number of prototypes there are to be.
    seed : int
        Of k-means.

    Returns
    -------
    groups : ndarray of int of shape (n_rows,)
        At most 8, and at most one for four points: quantiles of one output, k-means of
        several, each divided by its standard deviation.
    """
    n_bins = int(min(_N_BINS, max(1, n_points // 4)))
    if n_bins == 1:
        return np.zeros(len(y), dtype=int)
    if y.shape[1] > 1:
        deviation = y.std(axis=0)
        scaled = (y - y.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
        if len(np.unique(scaled, axis=0)) <= n_bins:
            return np.unique(scaled, axis=0, return_inverse=True)[1].ravel()
        from sklearn.cluster import KMeans  # slow to import, and few need it

        model = KMeans(n_bins, n_init=1, random_state=seed)
        return model.fit(scaled, sample_weight=weights).labels_
    order = np.argsort(y[:, 0], kind="stable")
    share = np.cumsum(weights[order], dtype=np.float64)
    places = np.searchsorted(share, share[-1] * np.arange(1, n_bins) / n_bins)
    edges = np.unique(y[order[np.minimum(places, len(y) - 1)], 0])
    return np.searchsorted(edges, y[:, 0])  # equal targets are in one group
