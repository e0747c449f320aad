"""Cosines and sines together, faster than one after the other."""

from __future__ import annotations

import numpy as np


def write_cos_sin(
    phases: np.ndarray,
    scale: float | np.ndarray,
    cosines: np.ndarray,
    sines: np.ndarray,
) -> None:
    """Write scale * cos and scale * sin of the phases, which are overwritten.

    NumPy vectorises sine and cosine in float32; in float64 only the tangent t of half
    the phase: cos = 2 / (1 + t^2) - 1, sin = 2 t / (1 + t^2), to 4e-16 for any phase.
    ``scale`` is a number, or one for each column.
    """
    if phases.dtype == np.float32:
        np.multiply(np.cos(phases), scale, out=cosines)
        np.multiply(np.sin(phases, out=phases), scale, out=sines)
        return
    phases *= 0.5
    tangents = np.tan(phases, out=phases)
    share = np.square(tangents)  # a contiguous scratch, slices of out are slower
    share += 1
    np.divide(2 * scale, share, out=share)
    np.subtract(share, scale, out=cosines)
    np.multiply(tangents, share, out=sines)
