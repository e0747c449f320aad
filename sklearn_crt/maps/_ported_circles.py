"""Exponentials of complex numbers as arrays of one library."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass

import numpy as np

from .._arrays import Array, moved, namespace_of
from ._complex_exponential import ComplexExponentialMap
from ._diagonal_exponential import DiagonalExponentialMap
from ._ported import PortedFrame, PortedMap, PortedPart, pair_index, port, port_frame
from ._second_moment import log_one_minus


@dataclass(frozen=True, eq=False)
class PortedCircle(PortedPart):
    """Sizes and phases of the features of one side, affine in rows and their squares.

    Both are ``weights' x + squares' x^2 + offsets``, x^2 coordinate by coordinate.

    Parameters
    ----------
    growth, turning : array of shape (..., n_features, n_frequencies)
        Weights of the log sizes and of the phases.
    growth_squares, turning_squares : array of shape (..., n_features, 1)
        Weights of the squares.
    growth_offsets, turning_offsets : array of shape (..., 1, n_frequencies)
        What belongs to the columns.
    """

    growth: Array
    turning: Array
    growth_squares: Array
    turning_squares: Array
    growth_offsets: Array
    turning_offsets: Array

    def parts(self, rows: Array) -> tuple[Array, Array]:
        """Return log sizes and phases, (..., n_rows, n_frequencies)."""
        xp, squares = namespace_of(rows), rows * rows
        growth = xp.matmul(rows, self.growth) + xp.matmul(squares, self.growth_squares)
        phases = xp.matmul(rows, self.turning)
        phases = phases + xp.matmul(squares, self.turning_squares)
        return growth + self.growth_offsets, phases + self.turning_offsets


@dataclass(frozen=True, eq=False)
class PortedComplex(PortedMap):
    """Real and imaginary parts of exponentials, all real parts first.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    sides : tuple of PortedCircle
        Of queries and keys.
    phase : float
        Of single columns, in radians.
    n_pairs : int
        Number of frequencies with two columns, which come first.
    positive : bool
        Whether all phases are zero: one column a frequency.
    softmax : bool
        Whether there is a factor for each row that makes the softmax kernel.
    """

    frame: PortedFrame
    sides: tuple[PortedCircle, PortedCircle]
    phase: float
    n_pairs: int
    positive: bool
    softmax: bool

    @property
    def is_positive(self) -> bool:
        return self.positive

    @property
    def n_components(self) -> int | None:
        return self.sides[0].growth.shape[-1] + self.n_pairs

    def frequency_index(self) -> np.ndarray | None:
        return pair_index(self.n_pairs, self.sides[0].growth.shape[-1])

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp, n = namespace_of(rows), self.n_pairs
        rows, _, raw_squares = self.frame.rows(rows)
        growth, phases = self.sides[key].parts(rows)
        if self.softmax:
            growth = growth + 0.5 * raw_squares
        if self.positive:
            return None, growth
        pairs, singles = phases[..., :n], phases[..., n:]
        mantissa = [xp.cos(pairs), xp.sin(pairs)]
        exponent = [growth[..., :n], growth]
        if n < growth.shape[-1]:
            mantissa.append(math.sqrt(2) * xp.cos(singles + self.phase))
        return xp.concat(mantissa, axis=-1), xp.concat(exponent, axis=-1)


def _circle(
    B: complex | np.ndarray,
    C: complex | np.ndarray,
    offsets: np.ndarray,
    weights: np.ndarray,
    like: Array,
) -> PortedCircle:
    """Return the features exp(B w.x + C x^2 + offsets) of one side."""
    d = len(weights)
    products = np.broadcast_to(B, (d,))[:, None] * weights
    squares = np.broadcast_to(C, (d,))[:, None]
    parts = (products, squares, offsets[None])
    numbers = [f(part) for part in parts for f in (np.real, np.imag)]
    return PortedCircle(*(moved(np.ascontiguousarray(n), like) for n in numbers))


@port.register
def _(feature_map: ComplexExponentialMap, like: Array) -> PortedMap:
    frequencies, s = feature_map.frequencies, feature_map.s
    A, log_m = feature_map.A, math.log(feature_map.n_frequencies)
    B = cmath.sqrt(s * (1 - 4 * A))
    log_D = 0.25 * feature_map.n_features * log_one_minus(4 * A)
    weights, squares = (
        part.astype(np.float64)
        for part in (frequencies.to_dense(), frequencies.sq_norms)
    )
    sides = []
    for key in (False, True):
        if key:  # (Re g, -Im g) are the parts of the conjugate
            A, B, log_D = A.conjugate(), s * B.conjugate(), log_D.conjugate()
        offsets = A * squares + (log_D - 0.5 * log_m)
        sides.append(_circle(B, -0.5 * (s + 1), offsets, weights, like))
    return _complex(feature_map, (sides[0], sides[1]), False, like)


@port.register
def _(feature_map: DiagonalExponentialMap, like: Array) -> PortedMap:
    weights = feature_map.frequencies.to_dense().astype(np.float64)
    offsets = np.full(feature_map.n_frequencies, -0.5 * math.log(weights.shape[1]))
    sides = []
    for key in (False, True):
        a = 1 / feature_map.diagonal if key else feature_map.diagonal
        if key:
            a = np.conjugate(a)
        sides.append(_circle(a, -0.5 * np.square(a) - 0.5, offsets, weights, like))
    return _complex(feature_map, (sides[0], sides[1]), feature_map.is_real, like)


def _complex(
    feature_map: ComplexExponentialMap | DiagonalExponentialMap,
    sides: tuple[PortedCircle, PortedCircle],
    positive: bool,
    like: Array,
) -> PortedComplex:
    return PortedComplex(
        port_frame(feature_map.frame, like),
        sides,
        float(feature_map.phase),
        feature_map.columns.n_pairs,
        positive,
        feature_map.gaussian.softmax,
    )
