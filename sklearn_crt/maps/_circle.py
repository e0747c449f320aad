"""Cosines and sines together, faster than one after the other."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import cache

import numpy as np

from ..rows import UnitRows

_ENTRIES = 2**16  # phases of a block, for the cache
_LEAST = 256  # rows of a block, for the product
_LARGEST = 2.0**26  # of a phase that a multiple of pi can be taken from exactly

# pi = _PI + _REST, and the multiples of _PI up to 2^26 are exact: it has 27 bits
_PI = 0x3243F6A8 / 2**28
_REST = 1.984187159361081e-09
_ROUND = 1.5 * 2**52  # x + _ROUND - _ROUND is the next integer, last bit of x + _ROUND
# tan(x / 2) = x P(x^2) / Q(x^2) for |x| <= pi / 2, to 6e-18: least largest error of the
# angle (q, p) for these degrees (Lawson's algorithm, in 50 digits), Q of leading 1
_P = (-153465.63859292312, 4921.938458946029, -26.917773112891773, 0.017955969091933446)
_Q = (-306931.27718584624, 35421.48335004539, -447.86518217858406)


def phase_blocks(
    rows: UnitRows, n_frequencies: int
) -> Iterator[tuple[slice, UnitRows]]:
    """Yield rows in blocks whose phases stay in the cache for their sines.

    Parameters
    ----------
    rows : UnitRows
        Rows.
    n_frequencies : int
        Phases a row.

    Yields
    ------
    block : slice
        Which rows.
    rows : UnitRows
        These rows.
    """
    return rows.blocks(max(_LEAST, _ENTRIES // max(n_frequencies, 1)))


def write_cos_sin(
    phases: np.ndarray,
    scale: float | np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    rows: UnitRows | None = None,
) -> None:
    """Write scale * cos and scale * sin of the phases, which are overwritten.

    Both follow from the tangent t of half the phase: cos = 2 / (1 + t^2) - 1,
    sin = 2 t / (1 + t^2). Where NumPy vectorises tangents (``has_fast_tangent``) t is
    NumPy's. Elsewhere it vectorises sines and cosines in float32, which are taken, and
    nothing in float64: there t = p / q is a rational function of the phase less a
    multiple of pi, so that cos = (q^2 - p^2) / (q^2 + p^2) and sin = 2 p q /
    (q^2 + p^2). Either way errors are below 6e-16 in float64.

    Parameters
    ----------
    phases : ndarray of shape (n_rows, n_frequencies)
        In radians; overwritten.
    scale : float or ndarray of shape (n_frequencies,)
        A number, or one for each column.
    cosines, sines : ndarray of shape (n_rows, n_frequencies)
        Overwritten.
    rows : UnitRows, default=None
        Whose phases they are: their room is taken.
    """
    if has_fast_tangent():
        write, n_arrays = _from_tangents, 1
    elif phases.dtype == np.float32:
        write, n_arrays = _one_by_one, 1
    else:
        write, n_arrays = _from_quotients, 4
    n_rows, width = phases.shape
    size = max(1, min(n_rows, _ENTRIES // n_arrays // max(width, 1)))
    shape = n_arrays, size, width
    room = np.empty(shape, phases.dtype) if rows is None else rows.room("circle", shape)
    for start in range(0, n_rows, size):
        some = slice(start, min(start + size, n_rows))
        block = room[:, : some.stop - start]
        write(phases[some], scale, cosines[some], sines[some], block)


@cache
def has_fast_tangent() -> bool:
    """Return whether this NumPy computes tangents in vectors on this processor.

    It has Intel's functions for AVX-512, on Linux only, and they are left alone where
    ``NPY_DISABLE_CPU_FEATURES`` says so.

    Returns
    -------
    fast : bool
        Whether ``numpy.tan`` takes about a nanosecond in float64, not ten and more.
    """
    if not sys.platform.startswith("linux"):
        return False
    config = np.show_config(mode="dicts") or {}
    extensions = config.get("SIMD Extensions", {})
    known = {*extensions.get("baseline", ()), *extensions.get("found", ())}
    return not known.isdisjoint({"X86_V4", "AVX512_SKX"})  # since NumPy 2.4, and before


def _one_by_one(
    phases: np.ndarray,
    scale: float | np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    room: np.ndarray,
) -> None:
    np.multiply(np.cos(phases, out=room[0]), scale, out=cosines)
    np.multiply(np.sin(phases, out=phases), scale, out=sines)


def _from_tangents(
    phases: np.ndarray,
    scale: float | np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    room: np.ndarray,
) -> None:
    phases *= 0.5
    tangents = np.tan(phases, out=phases)
    share = np.square(tangents, out=room[0])
    share += 1
    np.divide(2 * scale, share, out=share)
    np.subtract(share, scale, out=cosines)
    np.multiply(tangents, share, out=sines)


def _from_quotients(
    phases: np.ndarray,
    scale: float | np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
    room: np.ndarray,
) -> None:
    if not -_LARGEST < phases.min(initial=0) <= phases.max(initial=0) < _LARGEST:
        _one_by_one(phases, scale, cosines, sines, room)  # also where one is no number
        return
    turns, square, p, odd = room
    # less the multiple of pi in two parts, of which the first has no rounding error
    np.multiply(phases, 1 / math.pi, out=turns)
    turns += _ROUND
    signs = np.left_shift(turns.view(np.int64), 63, out=odd.view(np.int64))
    turns -= _ROUND
    phases -= np.multiply(turns, _PI, out=square)
    phases -= np.multiply(turns, _REST, out=turns)
    np.square(phases, out=square)
    np.multiply(square, _P[3], out=p)
    for coefficient in _P[2:0:-1]:
        p += coefficient
        p *= square
    p += _P[0]
    p *= phases
    q = np.add(square, _Q[2], out=phases)
    for coefficient in _Q[1::-1]:
        q *= square
        q += coefficient
    cosine, length = np.square(q, out=turns), np.square(p, out=square)
    p *= q
    np.add(cosine, length, out=q)
    cosine -= length
    share = np.divide(scale, q, out=q)
    bits = share.view(np.int64)
    np.bitwise_xor(bits, signs, out=bits)  # minus for odd multiples
    np.multiply(cosine, share, out=cosines)
    share += share
    np.multiply(p, share, out=sines)
