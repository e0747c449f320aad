"""Cosines and sines of many phases, by the fastest method on this machine.

For NumPy, they are computed in place, and in blocks that fit into the cache. ``out``,
and the arrays that the function ``buffer`` returns, may be overwritten. Both arguments
are ignored for other libraries.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from .namespaces import Array, namespace_of

# function that returns an array for a name and a shape
Buffer = Callable[[str, tuple[int, ...]], np.ndarray]
_ENTRIES = 2**16  # number of phases in a block that fits into the cache


def sincos(
    phases: Array,
    scale: Any,
    n_pairs: int,
    single_phase: Any = 0.0,
    out: np.ndarray | None = None,
    buffer: Buffer | None = None,
) -> Array:
    """Return the scaled cosines of all pairs, then their sines, then single cosines.

    The first ``n_pairs`` frequencies have a cosine and a sine. Each of the others has
    the single column sqrt(2) cos(w.x + b). The phases are overwritten. ``scale`` is a
    number, or an array with one number per frequency.
    """
    # phases (..., n, m) -> (..., n, m + n_pairs)
    has_single = n_pairs < phases.shape[-1]
    if not isinstance(phases, np.ndarray):
        xp = namespace_of(phases)
        pairs, singles = phases[..., :n_pairs], phases[..., n_pairs:]
        parts = [xp.cos(pairs), xp.sin(pairs)]
        if has_single:
            parts.append(math.sqrt(2) * xp.cos(singles + single_phase))
        if hasattr(scale, "shape"):
            scale = xp.concat([scale[..., :n_pairs], scale], axis=-1)
        return scale * xp.concat(parts, axis=-1)
    of_each = not isinstance(scale, float)  # True for one scale per frequency
    if of_each and np.ndim(scale) > 2:  # one scale for each frequency of each head
        features = sincos(phases, 1.0, n_pairs, single_phase, out, buffer)
        features *= np.concatenate([scale[..., :n_pairs], scale], axis=-1)
        return features
    shape = (*phases.shape[:-1], phases.shape[-1] + n_pairs)
    out = np.empty(shape, phases.dtype) if out is None else out
    if has_single:
        singles = phases[..., n_pairs:]
        singles += np.asarray(single_phase, phases.dtype)
        np.cos(singles, out=out[..., 2 * n_pairs :])
        own = scale[..., n_pairs:] if of_each and np.ndim(scale) else scale
        out[..., 2 * n_pairs :] *= math.sqrt(2) * own
    if n_pairs:
        if of_each and np.ndim(scale):
            scale = np.broadcast_to(scale[..., :n_pairs], (1, n_pairs))
        flat = phases.reshape(-1, phases.shape[-1]), out.reshape(-1, out.shape[-1])
        _write_cos_sin(*flat, scale, n_pairs, buffer)
    return out


def _write_cos_sin(
    phases: np.ndarray,
    out: np.ndarray,
    scale: float | np.ndarray,
    n_pairs: int,
    buffer: Buffer | None,
) -> None:
    """Write the columns of all pairs, in blocks of rows that fit into the cache."""
    phases = phases[:, :n_pairs]
    cosines, sines = out[:, :n_pairs], out[:, n_pairs : 2 * n_pairs]
    if has_fast_tangent():
        write, n_arrays = _from_tangents, 1
    elif phases.dtype == np.float32:
        write, n_arrays = _one_by_one, 1
    else:
        write, n_arrays = _from_quotients, 4
    n_rows = len(phases)
    size = max(1, min(n_rows, _ENTRIES // n_arrays // n_pairs))
    shape = n_arrays, size, n_pairs
    work = np.empty(shape, phases.dtype) if buffer is None else buffer("sincos", shape)
    for start in range(0, n_rows, size):
        some = slice(start, min(start + size, n_rows))
        block = work[:, : some.stop - start]
        write(phases[some], scale, cosines[some], sines[some], block)


@cache
def has_fast_tangent() -> bool:
    """Return whether NumPy computes tangents with vector instructions on this machine.

    If it does, computing sines and cosines from the tangent of half the angle takes
    half the time in float32, and a quarter of the time in float64.
    """
    if not sys.platform.startswith("linux"):
        return False
    config: dict[str, Any] = np.show_config(mode="dicts") or {}  # type: ignore[assignment]
    extensions = config.get("SIMD Extensions", {})
    known = {*extensions.get("baseline", ()), *extensions.get("found", ())}
    # NumPy 2.4 and later use the first name, earlier versions the second
    return not known.isdisjoint({"X86_V4", "AVX512_SKX"})


def _one_by_one(phases, scale, cosines, sines, work):
    """Compute cosines and sines with NumPy functions, one after the other."""
    np.multiply(np.cos(phases, out=work[0]), scale, out=cosines)
    np.multiply(np.sin(phases, out=phases), scale, out=sines)


def _from_tangents(phases, scale, cosines, sines, work):
    """Compute cosines and sines as rational functions of tan(phase / 2)."""
    phases *= 0.5
    tangents = np.tan(phases, out=phases)
    share = np.square(tangents, out=work[0])
    share += 1
    np.divide(2 * scale, share, out=share)
    np.subtract(share, scale, out=cosines)
    np.multiply(tangents, share, out=sines)


# Without fast tangents, a quotient of polynomials is 4 to 5 times as fast as NumPy in
# float64 (see the benchmarks without AVX-512).
# largest phase from which a multiple of pi can be subtracted without rounding errors
_LARGEST = 2.0**26
# pi = _PI + _REST; _PI has 27 bits, so its products with integers up to 2^26 are exact
_PI = 0x3243F6A8 / 2**28
_REST = 1.984187159361081e-09
# x + _ROUND - _ROUND is the nearest integer; its parity is the last bit of x + _ROUND
_ROUND = 1.5 * 2**52
# tan(x / 2) = x P(x^2) / Q(x^2) for |x| <= pi / 2. For these degrees, the coefficients
# minimise the largest error of the angle of (q, p), which is 6e-18. They were computed
# by Lawson's algorithm with 50 digits; the leading coefficient of Q is 1.
_P = (-153465.63859292312, 4921.938458946029, -26.917773112891773, 0.017955969091933446)
_Q = (-306931.27718584624, 35421.48335004539, -447.86518217858406)


def _from_quotients(phases, scale, cosines, sines, work):
    """Compute cosines and sines as rational functions of p / q = tan(phase / 2)."""
    if not -_LARGEST < phases.min(initial=0) <= phases.max(initial=0) < _LARGEST:
        # some phases are too large, or NaN
        _one_by_one(phases, scale, cosines, sines, work)
        return
    turns, square, p, odd = work
    # the multiple of pi is subtracted in two parts, the first of which is exact
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
    np.bitwise_xor(bits, signs, out=bits)  # change the sign for odd multiples of pi
    np.multiply(cosine, share, out=cosines)
    share += share
    np.multiply(p, share, out=sines)
