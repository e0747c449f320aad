"""Smooth functions of one number, at many points from a table of polynomials."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from scipy.interpolate import PPoly

_DEGREE = 9
_HALVINGS = 9
Function = Callable[[np.ndarray], np.ndarray]


def _shifted(k: int) -> np.ndarray:
    """Return the coefficients of the Chebyshev polynomial T_k(2u - 1) in u."""
    powers = chebyshev.cheb2poly(np.eye(k + 1)[k])
    coefficients = np.zeros(_DEGREE + 1)
    for power, factor in enumerate(powers):
        expanded = polynomial.polypow([-1, 2], power)
        coefficients[: power + 1] += factor * expanded
    return coefficients


_NODES = chebyshev.chebpts1(_DEGREE + 1)
_FIT = np.linalg.inv(chebyshev.chebvander(_NODES, _DEGREE)).T  # values to series
_POWERS = np.stack([_shifted(k) for k in range(_DEGREE + 1)])


def tabulate(
    function: Function,
    stop: float,
    *,
    rtol: float = 1e-15,
    atol: float = 0.0,
) -> PPoly:
    """Return a function on [0, stop] as a piecewise polynomial.

    The pieces (0, 1), (1, 2), (2, 4), (4, 8) ... are halved until the last two of
    their Chebyshev coefficients are below ``rtol`` of the largest, or below ``atol``.

    Parameters
    ----------
    function : callable
        Takes and returns arrays of any shape.
    stop : float
        End of the range, above 1.
    rtol, atol : float
        What a piece may err by; less than the rounding of the function itself
        makes the pieces small, no better.

    Returns
    -------
    table : scipy.interpolate.PPoly
        The function, for arrays.
    """
    right = np.append(2.0 ** np.arange(np.ceil(np.log2(stop))), stop)
    left = np.append(0.0, right[:-1])
    starts, pieces = [], []
    for halving in range(_HALVINGS + 1):
        width = right - left
        values = function(left[:, None] + width[:, None] * (_NODES + 1) / 2)
        series = values @ _FIT
        size = np.abs(series)
        good = size[:, -2:].max(axis=1) <= rtol * size.max(axis=1) + atol
        good |= halving == _HALVINGS
        starts.append(left[good])
        powers = series[good] @ _POWERS
        pieces.append(powers / width[good, None] ** np.arange(_DEGREE + 1))
        if good.all():
            break
        left, right = left[~good], right[~good]
        middle = (left + right) / 2
        left, right = np.append(left, middle), np.append(middle, right)
    edges, table = np.concatenate(starts), np.concatenate(pieces)
    order = np.argsort(edges)
    # PPoly wants the highest power first
    return PPoly(table[order, ::-1].T, np.append(edges[order], stop))
