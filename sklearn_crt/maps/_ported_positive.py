"""Positive features with matrices, and about anchors, as arrays of one library."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._arrays import Array, moved, namespace_of
from ..frequencies import Affine
from ._anchored import AnchoredMap
from ._dense import AffineQuadratic
from ._ported import (
    PortedFrame,
    PortedMap,
    PortedPart,
    pair_index,
    pairs_and_singles,
    port,
    port_frame,
    port_positive,
    sq_norms,
)
from ._positive import PositiveMap
from ._quadratic import IsotropicQuadratic


@dataclass(frozen=True, eq=False)
class PortedSide(PortedPart):
    """What the positive features of one side are linear in, and a term of the row.

    The exponents are ``weights' x + offsets - |turn' (x - shift)|^2 / 2 - |x + shift|^2
    / 2 + constant``, or without turn ``weights' x + offsets - |x|^2``.

    Parameters
    ----------
    weights : array of shape (..., n_features, n_frequencies)
        One frequency a column, times what stands before w.x.
    offsets : array of shape (..., 1, n_frequencies)
        Even in the frequency, and all that belongs to the columns.
    shift : array of shape (..., 1, n_features) or None
        Subtracted from the rows of this side.
    turn : array of shape (..., n_features, n_features) or None
        What makes coordinates of the rows.
    constant : float
        Added to the exponents.
    """

    weights: Array
    offsets: Array
    shift: Array | None
    turn: Array | None
    constant: float

    def exponents(self, rows: Array, plus: Array | float) -> tuple[Array, Array]:
        """Return the exponents and their part that is even in the frequencies."""
        xp = namespace_of(rows)
        if self.shift is None:
            term, inside = plus - sq_norms(rows), rows
        else:
            inside = rows - self.shift
            turned = sq_norms(xp.matmul(inside, self.turn))
            both = turned + sq_norms(rows + self.shift)
            term = plus - 0.5 * both + self.constant
        even = term + self.offsets
        return xp.matmul(inside, self.weights) + even, even


@dataclass(frozen=True, eq=False)
class PortedAffine(PortedMap):
    """Positive features whose exponents are affine in the rows, one map a side.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    sides : tuple of PortedSide
        Of queries and keys.
    n_pairs : int
        Number of frequencies that stand for w and -w, which come first.
    softmax : bool
        Whether the kernel is the softmax kernel, not the Gaussian one.
    """

    frame: PortedFrame
    sides: tuple[PortedSide, PortedSide]
    n_pairs: int
    softmax: bool

    is_positive = True

    @property
    def n_components(self) -> int | None:
        return self.sides[0].weights.shape[-1] + self.n_pairs

    def frequency_index(self) -> np.ndarray | None:
        return pair_index(self.n_pairs, self.sides[0].weights.shape[-1])

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        rows, _, raw_squares = self.frame.rows(rows)
        plus = 0.5 * raw_squares if self.softmax else 0.0
        exponents, even = self.sides[key].exponents(rows, plus)
        return None, pairs_and_singles(exponents, even, self.n_pairs)


@dataclass(frozen=True, eq=False)
class PortedAnchored(PortedAffine):
    """Positive features about anchors.

    Parameters
    ----------
    index : tuple of int
        The vector behind each column.
    """

    index: tuple[int, ...]

    def frequency_index(self) -> np.ndarray | None:
        return np.asarray(self.index)


@port.register
def _(feature_map: PositiveMap, like: Array) -> PortedMap:
    n_pairs, quadratic = feature_map.columns.n_pairs, feature_map.quadratic
    if isinstance(quadratic, IsotropicQuadratic):
        return port_positive(feature_map, n_pairs, like)
    # offsets hold the factor of pairs, which pairs_and_singles brings itself
    log_pairs = 0.5 * math.log(2) * (np.arange(feature_map.n_frequencies) < n_pairs)
    sides = []
    for key in (False, True):
        form = feature_map._form(key)
        shift = turn = None
        constant = 0.0
        if isinstance(quadratic, AffineQuadratic):
            h = quadratic.shift
            shift, constant = moved((-h if key else h)[None], like), float(h @ h)
            axes = quadratic.key_axes if key else quadratic.query_axes
            turn = moved(axes.T, like)
        sides.append(_side(form, form.offsets + log_pairs, shift, turn, constant, like))
    softmax = feature_map.gaussian.softmax
    frame = port_frame(feature_map.frame, like)
    return PortedAffine(frame, (sides[0], sides[1]), n_pairs, softmax)


@port.register
def _(feature_map: AnchoredMap, like: Array) -> PortedMap:
    form = feature_map._form
    side = _side(form, form.offsets, None, None, 0.0, like)
    frame, softmax = port_frame(feature_map.frame, like), feature_map.gaussian.softmax
    return PortedAnchored(
        frame, (side, side), 0, softmax, tuple(feature_map.columns.index.tolist())
    )


def _side(
    form: Affine,
    offsets: np.ndarray,
    shift: Array | None,
    turn: Array | None,
    constant: float,
    like: Array,
) -> PortedSide:
    weights = form.scale * form.frequencies.to_dense()
    return PortedSide(
        moved(weights, like), moved(offsets[None], like), shift, turn, constant
    )
