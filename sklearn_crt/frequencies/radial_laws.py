"""Distributions of the norm of a frequency, as functions of the dimension."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
from numpy.random import Generator
from scipy import special
from scipy.interpolate import CubicSpline

# for larger norms, the phases w.x would have no significant digits
_LOG_LARGEST = math.log(1e15)


class RadialLaw(Protocol):
    """Distribution of the norm of a frequency in a given dimension."""

    def rvs(self, size: int, random_state: Generator) -> np.ndarray:
        """Draw norms; a smaller draw equals the beginning of a larger one.

        Parameters
        ----------
        size : int
            Number of norms.
        random_state : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        norms : ndarray of shape (size,)
            The norms, which are positive.
        """

    def ppf(self, u: np.ndarray) -> np.ndarray:
        """Return quantiles of the norm.

        Parameters
        ----------
        u : ndarray
            Probabilities.

        Returns
        -------
        r : ndarray
            Norms.
        """

    def cdf(self, r: np.ndarray) -> np.ndarray:
        """Return values of the cumulative distribution function of the norm.

        Parameters
        ----------
        r : ndarray
            Norms.

        Returns
        -------
        u : ndarray
            Probabilities.
        """


Family: TypeAlias = Callable[[int], RadialLaw]  # a distribution for each dimension


def chi_law(n_features: int) -> RadialLaw:
    """Return the chi distribution of the frequency norms of the Gaussian kernel.

    Parameters
    ----------
    n_features : int
        Dimension d of the frequency.

    Returns
    -------
    law : RadialLaw
        Distribution of the norm of a standard normal vector of dimension d.

    Examples
    --------
    >>> from sklearn_crt.extend import chi_law
    >>> round(float(chi_law(2).ppf(0.5)), 4)
    1.1774
    """
    return _ChiLaw(n_features)


def student_law(n_features: int, nu: float) -> RadialLaw:
    r"""Return the distribution of the frequency norms of the Matern kernel.

    This is the distribution of the norm of a multivariate Student vector,
    :math:`\sqrt{2\nu}\, \chi_d / \chi_{2\nu}`. The squared norm divided by 2 nu has a
    beta prime distribution with parameters d / 2 and nu.
    """
    return chi_law(n_features) if nu == math.inf else _StudentLaw(n_features, nu)


def stable_law(n_features: int, alpha: float) -> RadialLaw:
    r"""Return the distribution of the frequency norms of the exponential power kernel.

    This is the distribution of the norm of an elliptical stable vector, :math:`\chi_d
    \sqrt S`, where S is a positive stable variable with :math:`\operatorname{E} e^{-gS}
    = e^{-(2g)^{\alpha/2}}`.
    """
    if alpha == 2:
        return _ChiLaw(n_features, math.sqrt(2))
    if alpha == 1:
        return _StudentLaw(n_features, 0.5)
    return _StableLaw(n_features, alpha)


def _norms(log_squares: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(0.5 * log_squares, _LOG_LARGEST))


@dataclass(frozen=True)
class _ChiLaw:
    """Distribution of scale * chi_d, without the overhead of SciPy's frozen objects."""

    d: int
    scale: float = 1.0

    def rvs(self, size: int, random_state: Generator) -> np.ndarray:
        return self.scale * np.sqrt(random_state.chisquare(self.d, size))

    def ppf(self, u: np.ndarray) -> np.ndarray:
        return self.scale * np.sqrt(2 * special.gammaincinv(self.d / 2, u))

    def cdf(self, r: np.ndarray) -> np.ndarray:
        return special.gammainc(self.d / 2, 0.5 * (r / self.scale) ** 2)


class _StudentLaw:
    """Distribution of sqrt(2 nu) chi_d / chi_(2 nu)."""

    def __init__(self, n_features: int, nu: float):
        self._a, self._nu = n_features / 2, nu

    def rvs(self, size: int, random_state: Generator) -> np.ndarray:
        above, below, root = random_state.spawn(3)
        log_above = np.log(above.standard_gamma(self._a, size))
        # Gamma(nu) = Gamma(nu + 1) U^(1/nu) can underflow, so its logarithm is computed
        log_below = np.log(below.standard_gamma(self._nu + 1, size))
        log_below -= root.standard_exponential(size) / self._nu
        return _norms(math.log(2 * self._nu) + log_above - log_below)

    def ppf(self, u: np.ndarray) -> np.ndarray:
        share = special.betaincinv(self._a, self._nu, u)
        rest = special.betainccinv(self._nu, self._a, u)  # more precise than 1 - share
        with np.errstate(divide="ignore"):
            log_ratio = np.log(share) - np.log(rest)
        return _norms(math.log(2 * self._nu) + log_ratio)

    def cdf(self, r: np.ndarray) -> np.ndarray:
        ratio = np.square(r) / (2 * self._nu)
        return special.betainc(self._a, self._nu, ratio / (1 + ratio))


class _StableLaw:
    """Distribution of chi_d sqrt(S)."""

    def __init__(self, n_features: int, alpha: float):
        self._d, self._alpha = n_features, alpha

    def rvs(self, size: int, random_state: Generator) -> np.ndarray:
        chi, angle, waiting = random_state.spawn(3)
        log_chi2 = np.log(2 * chi.standard_gamma(self._d / 2, size))
        u = math.pi * (1 - angle.random(size))  # in (0, pi]
        log_e = np.log(waiting.standard_exponential(size))
        return _norms(log_chi2 + log_positive_stable(self._alpha, u, log_e))

    def ppf(self, u: np.ndarray) -> np.ndarray:
        log_r, logits = _stable_table(self._d, self._alpha)
        inside = np.clip(special.logit(u), logits[0], logits[-1])
        return _norms(2 * CubicSpline(logits, log_r)(inside))

    def cdf(self, r: np.ndarray) -> np.ndarray:
        log_r, logits = _stable_table(self._d, self._alpha)
        with np.errstate(divide="ignore"):
            inside = np.clip(np.log(r), log_r[0], log_r[-1])
        return special.expit(CubicSpline(log_r, logits)(inside))


def log_positive_stable(alpha: float, u: np.ndarray, log_e: np.ndarray) -> np.ndarray:
    """Return log S for a uniform u in (0, pi) and an exponential e (Kanter 1975)."""
    a = alpha / 2
    value = math.log(2) + np.log(np.sin(a * u)) - np.log(np.sin(u)) / a
    return value + (1 - a) / a * (np.log(np.sin((1 - a) * u)) - log_e)


def stable_nodes(
    alpha: float, largest: float = 72.0, width: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes log S (at most ``largest``) and weights of a quadrature rule.

    The trapezoidal rule is applied in log(e) and in the logit of u / pi, where the
    integrand is analytic and decays at both ends. The error is at most 1e-9 for
    functions of log S that vary on scales of ``width`` or larger.
    """
    # -> (n_nodes,)
    a = alpha / 2
    x = np.arange(-36, 36, 0.4)
    share, other = special.expit(x), special.expit(-x)
    # log S = log c(u) - ratio * log e; for u near pi, sin(u) is computed as sin(pi - u)
    ratio = (1 - a) / a
    log_c = math.log(2) + np.log(np.sin(a * math.pi * share))
    log_c -= np.log(np.sin(math.pi * np.minimum(share, other))) / a
    log_c += ratio * np.log(np.sin((1 - a) * math.pi * share))
    step = 0.4 * min(1.0, width / ratio)
    log_e = np.arange(max(-36.0, -(largest + 10) / ratio), 3.7, step)
    log_s = log_c[:, None] - ratio * log_e
    weights = (0.4 * share * other)[:, None] * step * np.exp(log_e - np.exp(log_e))
    kept = (weights > 1e-16) & (log_s < largest)
    return log_s[kept], weights[kept]


@lru_cache(maxsize=32)
def _stable_table(n_features: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return an increasing grid of log r, and the logits of the cdf on this grid."""
    a = n_features / 2
    log_s, weights = stable_nodes(alpha, width=min(1.0, 2 / math.sqrt(a)))
    rest = max(1 - weights.sum(), 0.0)
    # for speed, the chi-squared distribution is interpolated on a grid
    ends = special.gammaincinv(a, 1e-18), special.gammainccinv(a, 1e-18)
    first, last = np.log(ends)
    log_half = np.linspace(first, last, 5000)
    below = special.gammainc(a, np.exp(log_half))
    above = special.gammaincc(a, np.exp(log_half))

    def logits(log_r: np.ndarray) -> np.ndarray:
        values = np.empty_like(log_r)
        for i, log_norm in enumerate(log_r):
            at = 2 * log_norm - math.log(2) - log_s
            inside = weights @ np.interp(at, log_half, below, left=0)
            outside = weights @ np.interp(at, log_half, above, right=0) + rest
            # the lower bound avoids log(0) and limits the range of the logits
            values[i] = np.log(max(inside, 1e-20)) - np.log(max(outside, 1e-20))
        return values

    log_r = np.linspace(-40 / n_features - 3 - 4 / alpha, _LOG_LARGEST, 60)
    values = logits(log_r)
    # refine the grid to equal steps of the logit, with an increasing number of points
    for n_points in (60, 60, 60, 100, 400):
        log_r = np.unique(np.interp(np.linspace(-37, 37, n_points), values, log_r))
        values = logits(log_r)
        rising = np.diff(values, prepend=-np.inf) > 1e-3
        log_r, values = log_r[rising], values[rising]
    return log_r, values
