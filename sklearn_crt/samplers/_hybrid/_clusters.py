"""Clusters of the rows of both sides, and the best diagonal for each pair of them."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import has_fit_parameter

from ...maps import Clusters
from ._diagonal import best_diagonal
from ._parts import Sample

Counts = int | tuple[int, int]


def check_counts(n_clusters: Counts) -> tuple[int, int]:
    """Return the numbers of clusters of queries and keys.

    Parameters
    ----------
    n_clusters : int or tuple of two int
        The parameter.

    Returns
    -------
    counts : tuple of two int
        Of both sides.

    Raises
    ------
    ValueError
        If these are no positive integers.
    """
    counts: Any = (n_clusters, n_clusters) if np.ndim(n_clusters) == 0 else n_clusters
    good = len(counts) == 2 and all(
        isinstance(count, Integral) and int(count) >= 1 for count in counts
    )
    if not good:
        raise ValueError(
            f"n_clusters={n_clusters!r} must be a positive integer, or two of them: "
            "for the queries and for the keys."
        )
    return counts


def find_clusters(
    sample: Sample, n_clusters: int, clusterer: Any, seed: int
) -> Clusters:
    """Cluster rows.

    Parameters
    ----------
    sample : Sample
        Rows and weights.
    n_clusters : int
        Their number; fewer where there are fewer rows.
    clusterer : estimator or None
        None for KMeans.
    seed : int
        Its seed.

    Returns
    -------
    clusters : Clusters
        Centres, spreads and shares.
    """
    rows, weights = sample.rows.astype(np.float64), sample.weights
    labels, centers = _centers(rows, weights, n_clusters, clusterer, seed)
    members = np.zeros((centers.shape[0], rows.shape[0]))
    members[labels, np.arange(rows.shape[0])] = weights
    mass = members.sum(axis=1)
    members /= np.where(mass > 0, mass, 1)[:, None]
    squares = rows**2 if isinstance(rows, np.ndarray) else rows.multiply(rows)
    means = np.asarray(members @ rows)
    second = np.asarray(members @ squares)
    spreads = np.maximum(second - 2 * means * centers + centers**2, 0)
    spreads[mass == 0] = 0
    return Clusters(centers, spreads, mass / mass.sum())


def _centers(rows, weights, n_clusters, clusterer, seed):
    """Return the index of the nearest centre of each row, and the centres."""
    if clusterer is None:
        from sklearn.cluster import KMeans  # slow to import, and few need it

        clusterer = KMeans()
    else:
        clusterer = clone(clusterer)
    known = {"n_clusters": min(n_clusters, rows.shape[0]), "random_state": seed}
    names = clusterer.get_params()
    clusterer.set_params(**{k: v for k, v in known.items() if k in names})
    weighs = has_fit_parameter(clusterer, "sample_weight")
    options = {"sample_weight": weights} if weighs else {}
    with warnings.catch_warnings():  # fewer distinct rows than clusters: no harm
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusterer.fit(rows, **options)
    centers = np.asarray(clusterer.cluster_centers_, dtype=np.float64)
    return pairwise_distances_argmin(rows, centers), centers


def cluster_sides(
    samples: list[Sample],
    n_clusters: Counts,
    clusterer: Any,
    rng: np.random.Generator,
) -> tuple[Clusters, Clusters]:
    """Return the clusters of the queries and of the keys, one set without keys.

    Parameters
    ----------
    samples : list of Sample
        Of one side or of two.
    n_clusters : int or tuple of two int
        Number of clusters of each side.
    clusterer : estimator or None
        None for KMeans.
    rng : numpy.random.Generator
        Source of its seeds.

    Returns
    -------
    queries, keys : Clusters
        Of the two sides.
    """
    counts = check_counts(n_clusters)
    seeds = [int(seed) for seed in rng.integers(2**31 - 1, size=2)]
    queries = find_clusters(samples[0], counts[0], clusterer, seeds[0])
    if len(samples) == 1 and counts[0] == counts[1]:
        return queries, queries
    return queries, find_clusters(samples[-1], counts[1], clusterer, seeds[1])


def pair_diagonal(
    queries: Clusters, keys: Clusters, i: int, j: int, *, real: bool, moments: bool
) -> np.ndarray:
    """Return the best diagonal for a pair of clusters.

    Parameters
    ----------
    queries, keys : Clusters
        Of the two sides.
    i, j : int
        Which of them.
    real : bool
        Whether the diagonal has to be real.
    moments : bool
        Whether spreads count beside centres.

    Returns
    -------
    a : ndarray of shape (n_features,), complex
        The diagonal.
    """
    spreads = (queries.spreads[i], keys.spreads[j]) if moments else (0.0, 0.0)
    return best_diagonal(queries.centers[i], keys.centers[j], *spreads, real=real)


def massive_pairs(
    queries: Clusters, keys: Clusters, n_pairs: int | None
) -> list[tuple[int, int]]:
    """Return the pairs of clusters with most pairs of rows.

    Parameters
    ----------
    queries, keys : Clusters
        Of the two sides.
    n_pairs : int or None
        How many; all where None.

    Returns
    -------
    pairs : list of tuple of two int
        Indices of clusters.
    """
    mass = np.outer(queries.shares, keys.shares).ravel()
    count = mass.size if n_pairs is None else min(n_pairs, mass.size)
    chosen = np.sort(np.argsort(-mass, kind="stable")[:count])
    return [divmod(int(index), keys.shares.size) for index in chosen]
