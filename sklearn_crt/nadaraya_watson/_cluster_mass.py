r"""How much kernel weight a cluster can have, and how much it is likely to have.

With the distance D of a query from the centre of a cluster of weight W, no row is
nearer than l, the larger of D less the radius and of what half spaces say
(``_half_spaces``), so the cluster has at most the weight :math:`W K(l)`: the
*certified* bound.

The *estimate* takes the rows for a cloud, normal around the centre with the mean
squared distance :math:`\rho^2 = d s^2`. For the Gaussian kernel at precision
:math:`\tau`, :math:`e^{-\tau r^2 / 2}`, it is

.. math:: W (1 + \tau s^2)^{-d/2} \exp\left(-\frac{\tau D^2}{2 (1 + \tau s^2)}\right) .

The log of another kernel is replaced by its tangent as a function of :math:`r^2`, taken
where the product of cloud and kernel has its mean,
:math:`r^2 = D^2 / (1 + \tau s^2)^2 + \rho^2 / (1 + \tau s^2)`. The logs of mixtures of
Gaussian kernels (Laplacian, Matern, exponential power) are convex there, and their
tangent is below them: this is the best of the lower bounds by Jensen's inequality.

Rows have no tails as clouds have: of n rows the one nearest to the query is not likely
nearer than

.. math:: r^2 = D^2 + \rho^2 - z \sqrt{4 D^2 s^2 + 2 d s^4}, \qquad
   z = 1 + \sqrt{2 \log n},

from the mean and standard deviation of the squared distance of a normal point, and the
largest of n normal numbers. So no estimate is above W K(r), or the bound by the radius.
"""

from __future__ import annotations

import numpy as np

from ..maps import GaussianRadial, RadialKernel
from ._clusters import Clusters
from ._left_out import blurred

_STEP, _N_TANGENTS = 0.01, 2  # relative, of the slope; and how often it is taken


def least_distances(clusters: Clusters, distances: np.ndarray) -> np.ndarray:
    """Return the least distances that rows of the clusters can have from queries.

    Parameters
    ----------
    clusters : Clusters
        The rows.
    distances : ndarray of shape (n_queries, n_clusters)
        Of the queries from the centres.

    Returns
    -------
    least : ndarray of shape (n_queries, n_clusters)
        Not negative.
    """
    least = np.maximum(distances - clusters.radii * (1 + 1e-9), 0)
    if clusters.half_spaces is not None:
        np.maximum(least, clusters.half_spaces.distances(distances), out=least)
    return least * (1 - 1e-9)


def log_bound(
    kernel: RadialKernel, sigma: float, least: np.ndarray, log_weights: np.ndarray
) -> np.ndarray:
    """Return logs of what the kernel weights of clusters cannot exceed.

    Parameters
    ----------
    kernel : RadialKernel
        At unit bandwidth, falling with the distance.
    sigma : float
        Multiplier of the distances.
    least : ndarray of shape (n_queries, n_clusters)
        From ``least_distances``.
    log_weights : ndarray of shape (n_clusters,)
        Of the clusters.

    Returns
    -------
    log_mass : ndarray of shape (n_queries, n_clusters)
        Never below the log of the kernel weight of a cluster.
    """
    return kernel.log_profile(sigma * least) + log_weights


def log_cloud(
    kernel: RadialKernel, sigma: float, distances: np.ndarray, clusters: Clusters
) -> np.ndarray:
    """Return logs of the kernel weights that clusters would have as normal clouds.

    Parameters
    ----------
    kernel : RadialKernel
        At unit bandwidth.
    sigma : float
        Multiplier of the distances.
    distances : ndarray of shape (n_queries, n_clusters)
        Of the queries from the centres.
    clusters : Clusters
        The rows.

    Returns
    -------
    log_mass : ndarray of shape (n_queries, n_clusters)
        An estimate, on either side of the log of the kernel weight of a cluster.
    """
    n_features = clusters.centers.shape[1]
    near = _likely_nearest(distances, clusters)
    bound = log_bound(kernel, sigma, near, clusters.log_weights)
    squares = np.square(sigma * distances)
    spreads = sigma**2 * clusters.sq_radii
    if isinstance(kernel, GaussianRadial):
        squares *= -0.5
        log_mass = blurred(squares, spreads / n_features, n_features)
        log_mass += clusters.log_weights
        return np.minimum(log_mass, bound, out=log_mass)
    wide = np.ones(1)
    with np.errstate(all="ignore"):  # of kernels that end somewhere
        for _ in range(_N_TANGENTS):
            at = squares / wide**2 + spreads / wide
            slope = kernel.log_profile(np.sqrt((1 + _STEP) * at))
            slope -= kernel.log_profile(np.sqrt((1 - _STEP) * at))
            precision = -slope / (_STEP * at)
            wide = 1 + precision * spreads / n_features
        log_mass = blurred(-0.5 * precision * squares, wide - 1, n_features)
        log_mass += kernel.log_profile(np.sqrt(at)) + 0.5 * precision * at
        log_mass += clusters.log_weights
    return np.where(np.isfinite(log_mass), np.minimum(log_mass, bound), bound)


def _likely_nearest(distances, clusters):
    """Return distances that hardly a row of the clusters falls short of."""
    variances = clusters.sq_radii / clusters.centers.shape[1]
    z = 1 + np.sqrt(2 * np.log(clusters.sizes))
    squares = np.square(distances)
    likely = np.sqrt(4 * variances * squares + 2 * variances * clusters.sq_radii)
    likely *= -z
    likely += squares + clusters.sq_radii
    least = np.maximum(distances - clusters.radii, 0)
    return np.sqrt(np.maximum(likely, np.square(least)))
