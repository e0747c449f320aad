"""Radial kernels as the logarithm of a function of the distance r >= 0."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.polynomial import Polynomial
from scipy import special

from ._piecewise import Table, tabulate

_MANY = 20_000  # values from which a table costs less than Bessel functions
_FIRST, _LAST = 1e-3, 1e3  # its range
_LARGE_ORDER = 25  # from here the expansion for large nu is exact to rounding


def log_gaussian(r: np.ndarray, nu: float | None = None) -> np.ndarray:
    """Return -r^2 / 2."""
    return -0.5 * np.square(r)


def log_laplacian(r: np.ndarray, nu: float | None = None) -> np.ndarray:
    """Return -r."""
    return -r


def log_exponential_power(r: np.ndarray, alpha: float) -> np.ndarray:
    """Return -r^alpha."""
    return -np.power(r, alpha)


def log_matern(r: np.ndarray, nu: float) -> np.ndarray:
    """Return the log of the Matern kernel of smoothness nu, length scale 1."""
    if nu == math.inf:
        return log_gaussian(r)
    if nu == 0.5:
        return -r
    t = math.sqrt(2 * nu) * r
    if nu == 1.5:
        return np.log1p(t) - t
    if nu == 2.5:
        return np.log1p(t + t * t / 3) - t
    wide = np.asarray(r, dtype=np.float64)
    if nu >= _LARGE_ORDER:
        value = _log_matern_large(wide, nu)
    elif wide.size < _MANY or float(nu + 0.5).is_integer():
        value = _log_matern_exact(math.sqrt(2 * nu) * wide, nu)
    else:
        value = _log_matern_table(math.sqrt(2 * nu) * wide, nu)
    return value.astype(np.asarray(r).dtype, copy=False)


def _log_matern_exact(t: np.ndarray, nu: float) -> np.ndarray:
    """Return the log for any nu."""
    if float(2 * nu).is_integer():
        return _log_matern_recurrence(t, nu)
    return _log_matern_bessel(t, nu)


def _log_matern_recurrence(t: np.ndarray, nu: float) -> np.ndarray:
    """Return the log for half-integer and integer nu.

    With g_nu = 2^(1-nu) / Gamma(nu) t^nu K_nu(t) exp(t), all terms are positive in
    g_(nu+1) = g_nu + t^2 g_(nu-1) / (4 nu (nu-1)).
    """
    # outside of this range the powers of t are lost in 1 and in exp(t)
    s = np.clip(t, 1e-290, 1e12)
    if float(nu).is_integer():
        order, previous = 1.0, None
        current, step = s * special.k1e(s), 0.5 * s * s * special.k0e(s)
    else:
        order, previous, current = 1.5, np.ones_like(s), 1 + s
    while order < nu:
        if previous is not None:
            step = s * s
            step *= previous
            step /= 4 * order * (order - 1)
        previous, current = current, current + step
        order += 1
    return np.minimum(np.log(current) - t, 0.0)


def _log_matern_bessel(t: np.ndarray, nu: float) -> np.ndarray:
    """Return the log for any nu, by the Bessel function K scaled with exp(t)."""
    s = np.minimum(t, 1e8)  # SciPy's kve ends a little later
    with np.errstate(divide="ignore", invalid="ignore"):
        log_bessel = np.log(special.kve(nu, s)) + nu * np.log(s) - t
    value = (1 - nu) * math.log(2) - special.gammaln(nu) + log_bessel
    # where kve overflows t is tiny: two terms of the series in t, 1 to rounding
    near = -np.square(np.minimum(t, 1.0)) / (4 * (nu - 1)) if nu > 2 else 0.0
    return np.minimum(np.where(np.isfinite(value), value, near), 0.0)


def _log_matern_table(t: np.ndarray, nu: float) -> np.ndarray:
    """Return the log for any nu from a table in log(t), to 1e-14 of the kernel."""
    value = _bessel_table(float(nu))(np.log(np.clip(t, _FIRST, _LAST) / _FIRST))
    value -= t
    outside = (t < _FIRST) | (t > _LAST)
    if outside.any():
        value[outside] = _log_matern_exact(t[outside], nu)
    return np.minimum(value, 0.0, out=value)


@lru_cache(maxsize=8)
def _bessel_table(nu: float) -> Table:
    def log_scaled(x: np.ndarray) -> np.ndarray:
        t = _FIRST * np.exp(x)
        return _log_matern_exact(t, nu) + t

    return tabulate(log_scaled, math.log(_LAST / _FIRST), rtol=1e-14, atol=1e-15)


def _log_matern_large(r: np.ndarray, nu: float) -> np.ndarray:
    """Return the log for large nu, by the uniform expansion of K (DLMF 10.41.4).

    With z = r sqrt(2 / nu) and p = 1 / sqrt(1 + z^2), the log is nu (log(1 + s/2) - s)
    - log(1 + s) / 2 + log sum(p) - log sum(1), s = sqrt(1 + z^2) - 1; it tends to
    -r^2 / 2, the Gaussian kernel.
    """
    z2 = 2 * np.square(np.minimum(r, 1e100)) / nu
    s = z2 / (1 + np.sqrt(1 + z2))
    terms = (u * (-nu) ** -k for k, u in enumerate(_expansion(11)))
    series = sum(terms, Polynomial([0.0]))
    correction = np.log(series(1 / (1 + s)) / series(1.0))
    return nu * (np.log1p(s / 2) - s) - 0.5 * np.log1p(s) + correction


@lru_cache(maxsize=1)
def _expansion(n_terms: int) -> list[Polynomial]:
    """Return the polynomials u_k of DLMF 10.41.9."""
    terms = [Polynomial([1.0])]
    weight, inner = Polynomial([0, 0, 0.5, 0, -0.5]), Polynomial([1, 0, -5])
    while len(terms) < n_terms:
        u = terms[-1]
        terms.append(weight * u.deriv() + (inner * u).integ() / 8)
    return terms
