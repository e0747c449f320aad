r"""Signs of projections on orthogonal directions, which the angular coefficient takes.

For a random direction t the product of the signs of t.x and t.y is -1 with chance
theta / pi, the angle over pi. For two orthogonal directions the mean of the product of
two such products is

.. math:: 1 - \frac4\pi E \min(\theta', \delta')

where theta' is the smaller of theta and pi - theta, and delta' in [0, pi/2] the angle
between the projections of the two directions on the plane of x and y, as lines. For d
> 2 its density is proportional to 2F1(1, 1; (d + 1)/2; sin(delta)^2): the two
squared lengths u, v in the plane have the density (1 - u - v + u v sin(delta)^2)^((d -
5)/2), and these are its integrals over v and u.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline
from scipy.spatial.distance import cdist

_NODES = 2049


def angles(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the angles of all pairs of rows, pi / 2 where one of the two is zero.

    Twice the arc tangent of ``|u - v| / |u + v|`` for the unit vectors, which is
    accurate at 0 and at pi.

    Parameters
    ----------
    X, Y : ndarray of shape (n_X, n_features), (n_Y, n_features)
        Rows.

    Returns
    -------
    theta : ndarray of shape (n_X, n_Y)
        In radians; 0 where both rows are zero.
    """
    lengths = [np.linalg.norm(Z, axis=1) for Z in (X, Y)]
    units = [
        Z / np.where(length > 0, length, 1)[:, None]
        for Z, length in zip((X, Y), lengths, strict=True)
    ]
    theta = 2 * np.arctan2(cdist(*units), cdist(units[0], -units[1]))
    zero = [length == 0 for length in lengths]
    theta[zero[0][:, None] != zero[1]] = np.pi / 2
    theta[zero[0][:, None] & zero[1]] = 0
    return theta


def orthogonal_sign_moment(theta: np.ndarray, n_features: int) -> np.ndarray:
    """Return the mean of the product of two sign products, orthogonal directions.

    Parameters
    ----------
    theta : ndarray
        Angles of pairs of rows, from 0 to pi.
    n_features : int
        Dimension of the rows, at least 2.

    Returns
    -------
    moment : ndarray of the shape of theta
        The mean.
    """
    folded = np.minimum(theta, np.pi - theta)
    if n_features == 2:  # the projections are the directions
        return 1 - 4 / np.pi * folded
    return 1 - 4 / np.pi * _mean_minimum(n_features)(folded)


@lru_cache(maxsize=16)
def _mean_minimum(n_features: int) -> CubicSpline:
    """Return theta' -> E min(theta', delta'), as a spline."""
    # nodes cluster at pi / 2, where the density of d = 3 is a logarithm
    nodes = np.pi / 2 * np.sin(np.linspace(0, np.pi / 2, _NODES))
    points, weights = np.polynomial.legendre.leggauss(8)
    half = np.diff(nodes) / 2
    inside = (nodes[:-1] + half)[:, None] + half[:, None] * points
    if n_features == 3:  # the series ends in a logarithm at pi / 2
        density = -2 * np.log(np.cos(inside)) / np.sin(inside) ** 2
    else:
        density = _hypergeometric((n_features + 1) / 2, np.sin(inside) ** 2)
    mass = half * (density @ weights)
    first = half * ((density * inside) @ weights)
    below = np.concatenate([[0], np.cumsum(mass)])
    moment = np.concatenate([[0], np.cumsum(first)])
    total = below[-1]
    values = (moment + nodes * (total - below)) / total
    slopes = 1 - below / total
    spline = CubicSpline(nodes, values, bc_type=((1, slopes[0]), (1, slopes[-1])))
    return spline


def _hypergeometric(c: float, z: np.ndarray) -> np.ndarray:
    """Return 2F1(1, 1; c; z) for 0 <= z <= 1 and c > 2.

    The terms k! / (c)_k z^k; ``special.hyp2f1`` overflows from c = 100.
    """
    if c < 20:
        return special.hyp2f1(1, 1, c, z)
    k = np.arange(64)
    factors = np.cumprod((k + 1) / (c + k))
    return np.polynomial.polynomial.polyval(z, np.append(1.0, factors))
