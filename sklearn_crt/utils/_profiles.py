"""Radial kernels as the logarithm of a function of the distance r >= 0."""

from __future__ import annotations

import math

import numpy as np
from scipy import special


def log_gaussian(r, nu=None):
    """Return -r^2 / 2."""
    return -0.5 * np.square(r)


def log_laplacian(r, nu=None):
    """Return -r."""
    return -r


def log_matern(r, nu):
    """Return the log of the Matern kernel of smoothness nu, length scale 1."""
    if nu == math.inf:
        return log_gaussian(r)
    t = math.sqrt(2 * nu) * r
    if nu == 0.5:
        return -t
    if nu == 1.5:
        return np.log1p(t) - t
    if nu == 2.5:
        return np.log1p(t + t * t / 3) - t
    with np.errstate(divide="ignore", invalid="ignore"):
        # kve(nu, t) = kv(nu, t) exp(t) does not underflow at large t
        log_bessel = np.log(special.kve(nu, t)) + nu * np.log(t) - t
    value = (1 - nu) * math.log(2) - special.gammaln(nu) + log_bessel
    # at t -> 0 kve overflows: the kernel is 1 there to rounding
    return np.where(np.isfinite(value), value, 0.0).astype(t.dtype, copy=False)


LOG_PROFILES = {
    "gaussian": log_gaussian,
    "laplacian": log_laplacian,
    "matern": log_matern,
}
