"""Clusters of the rows of both sides, and the best diagonal for each pair of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import has_fit_parameter

from ._complex_exponential import best_diagonal


@dataclass(frozen=True)
class Clusters:
    """Clusters of one side.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        The means of the clusters.
    spreads : ndarray of shape (n_clusters, n_features)
        Second moments about the centres.
    shares : ndarray of shape (n_clusters,)
        Shares of the sample weight.
    """

    centers: np.ndarray
    spreads: np.ndarray
    shares: np.ndarray

    @classmethod
    def of(cls, rows, weights, n_clusters, clusterer, seed) -> Clusters:
        """Cluster rows; fewer clusters where there are fewer rows."""
        rows = rows.astype(np.float64)
        clusterer = KMeans() if clusterer is None else clone(clusterer)
        n_clusters = min(n_clusters, rows.shape[0])
        known = {"n_clusters": n_clusters, "random_state": seed}
        names = clusterer.get_params()
        clusterer.set_params(**{k: v for k, v in known.items() if k in names})
        options = (
            {"sample_weight": weights}
            if has_fit_parameter(clusterer, "sample_weight")
            else {}
        )
        with warnings.catch_warnings():  # fewer distinct rows than clusters: no harm
            warnings.simplefilter("ignore", ConvergenceWarning)
            clusterer.fit(rows, **options)
        centers = np.asarray(clusterer.cluster_centers_, dtype=np.float64)
        labels = pairwise_distances_argmin(rows, centers)
        members = np.zeros((centers.shape[0], rows.shape[0]))
        members[labels, np.arange(rows.shape[0])] = weights
        mass = members.sum(axis=1)
        members /= np.where(mass > 0, mass, 1)[:, None]
        squares = rows.multiply(rows) if sparse.issparse(rows) else rows**2
        means = np.asarray(members @ rows)
        second = np.asarray(members @ squares)
        spreads = np.maximum(second - 2 * means * centers + centers**2, 0)
        spreads[mass == 0] = 0
        return cls(centers, spreads, mass / mass.sum())

    def assign(self, rows):
        """Return the index of the nearest centre for each row."""
        return pairwise_distances_argmin(rows, self.centers.astype(rows.dtype))


def cluster_sides(samples, n_clusters, clusterer, rng):
    """Return the clusters of the queries and of the keys, one set without keys.

    ``samples`` holds rows and weights of one side or of two.
    """
    counts = (n_clusters, n_clusters) if np.ndim(n_clusters) == 0 else n_clusters
    seeds = [int(seed) for seed in rng.integers(2**31 - 1, size=2)]
    queries = Clusters.of(*samples[0], counts[0], clusterer, seeds[0])
    if len(samples) == 1 and counts[0] == counts[1]:
        return queries, queries
    return queries, Clusters.of(*samples[-1], counts[1], clusterer, seeds[1])


def pair_diagonal(queries, keys, i, j, *, real, moments):
    """Return the best diagonal for query cluster i and key cluster j."""
    spreads = (queries.spreads[i], keys.spreads[j]) if moments else (0.0, 0.0)
    return best_diagonal(queries.centers[i], keys.centers[j], *spreads, real=real)


def massive_pairs(queries, keys, n_pairs):
    """Return the pairs of clusters with most pairs of rows, all where None."""
    mass = np.outer(queries.shares, keys.shares).ravel()
    count = mass.size if n_pairs is None else min(n_pairs, mass.size)
    chosen = np.sort(np.argsort(-mass, kind="stable")[:count])
    return [divmod(int(index), keys.shares.size) for index in chosen]
