"""Smooth functions of one number, at many points from a table of polynomials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev, polynomial

_DEGREE = 9
_HALVINGS = 9
_BATCH = 2**13  # values whose arrays fit the fast cache
_FRACTION = 52  # bits of a float64 after its exponent
_ONE = np.ones(()).view(np.int64) >> _FRACTION
Function = Callable[[np.ndarray], np.ndarray]


@lru_cache(maxsize=1)
def _basis() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return nodes, the matrix of values to series, and that of series to powers."""
    nodes = chebyshev.chebpts1(_DEGREE + 1)
    fit = np.linalg.inv(chebyshev.chebvander(nodes, _DEGREE)).T
    return nodes, fit, np.stack([_shifted(k) for k in range(_DEGREE + 1)])


def _shifted(k: int) -> np.ndarray:
    """Return the coefficients of the Chebyshev polynomial T_k(2u - 1) in u."""
    powers = chebyshev.cheb2poly(np.eye(k + 1)[k])
    coefficients = np.zeros(_DEGREE + 1)
    for power, factor in enumerate(powers):
        expanded = polynomial.polypow([-1, 2], power)
        coefficients[: power + 1] += factor * expanded
    return coefficients


@dataclass(frozen=True, eq=False)
class Table:
    """A function q^p / (1 + q^p) times a piecewise polynomial, of q in [0, stop].

    The leading bits of 1 + q tell the piece, without a search.

    Attributes
    ----------
    power : int
        The p, 0 for the polynomials alone.
    edges : ndarray of shape (n_pieces,)
        Where the pieces begin.
    coefficients : ndarray of shape (n_coefficients, n_pieces)
        Of powers of the distance from there, the highest first.
    piece : ndarray of int
        That of each leading part of 1 + q.
    n_bits : int
        How many bits after the exponent are of the leading part.
    """

    power: int
    edges: np.ndarray
    coefficients: np.ndarray
    piece: np.ndarray
    n_bits: int

    def __call__(self, q: np.ndarray) -> np.ndarray:
        """Return the function.

        Parameters
        ----------
        q : ndarray
            Values in the range, which is not checked.

        Returns
        -------
        values : ndarray of the shape of q
            The function there.
        """
        values = np.empty(q.shape)
        into, flat = values.reshape(-1), q.reshape(-1)
        for start in range(0, flat.size, _BATCH):
            batch = slice(start, start + _BATCH)
            self._write(flat[batch], into[batch])
        return values

    def _write(self, q: np.ndarray, values: np.ndarray) -> None:
        leading = (1 + q).view(np.int64) >> (_FRACTION - self.n_bits)
        leading -= _ONE << self.n_bits
        piece = self.piece.take(leading, mode="clip")  # rounding may make q negative
        step = q - self.edges[piece]
        self.coefficients[0].take(piece, out=values, mode="clip")
        for row in self.coefficients[1:]:
            values *= step
            values += row.take(piece)
        if self.power:
            share = q**self.power
            values *= share
            share += 1
            values /= share


def tabulate(
    function: Function,
    stop: float,
    *,
    power: int = 0,
    rtol: float = 1e-15,
    atol: float = 0.0,
) -> Table:
    """Return a function on [0, stop] as a table of polynomials.

    The pieces (0, 1), (1, 3), (3, 7), (7, 15) ... are halved until the last two of
    their Chebyshev coefficients are below ``rtol`` of the largest, or below ``atol``.

    Parameters
    ----------
    function : callable
        Takes and returns arrays of any shape; no q is 0.
    stop : float
        What the range reaches at least: it ends at 1, 3, 7, 15 ...
    power : int, default=0
        The p of a function that is of size q^p near 0, to keep its digits there:
        the polynomials are of the function over q^p / (1 + q^p).
    rtol, atol : float
        What a piece may err by; less than the rounding of the function itself
        makes the pieces small, no better.

    Returns
    -------
    table : Table
        The function, for arrays.
    """
    n_octaves = int(np.frexp(1 + stop)[1])
    left, width = 2.0 ** np.arange(n_octaves) - 1, 2.0 ** np.arange(n_octaves)
    nodes, fit, to_powers = _basis()
    starts, pieces = [], []
    for halving in range(_HALVINGS + 1):
        q = left[:, None] + width[:, None] * (nodes + 1) / 2
        values = function(q)
        values = values * (1 + 1 / q**power) if power else values
        series = values @ fit
        size = np.abs(series)
        good = size[:, -2:].max(axis=1) <= rtol * size.max(axis=1) + atol
        good |= halving == _HALVINGS
        starts.append(left[good])
        powers = series[good] @ to_powers
        pieces.append(powers / width[good, None] ** np.arange(_DEGREE + 1))
        if good.all():
            break
        left, width = left[~good], width[~good] / 2
        left, width = np.append(left, left + width), np.append(width, width)
    edges, coefficients = np.concatenate(starts), np.concatenate(pieces)
    order = np.argsort(edges)
    edges, coefficients = edges[order], coefficients[order, ::-1].T.copy()
    first = (np.arange(n_octaves << halving) + (_ONE << halving)) << _FRACTION - halving
    piece = np.searchsorted(edges + 1, first.view(np.float64), side="right") - 1
    return Table(power, edges, coefficients, piece, halving)
