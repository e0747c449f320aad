r"""Cross moments of orthogonal frequencies whose law is a mixture of normal laws.

Given the scales S_1, S_2 of two orthogonal frequencies, squared norms S_i A_i with A_i
chi square of d degrees of freedom, share t = A_1 / (A_1 + A_2) and sum are independent.
So with F(-q) the moment for normal frequencies (``_gaussian``), at distance r

.. math:: X(r) = \operatorname{E} F(-r^2 Q), \qquad Q = t S_1 + (1 - t) S_2, \quad
          t \sim \operatorname{Beta}(d/2, d/2)

In both families Q is c T with c and T independent: Student, S_i = nu / G_i with gamma
G_i: T = nu / (G_1 + G_2), c = t / b + (1 - t) / (1 - b) with b = G_1 / (G_1 + G_2);
stable of index a: T = S_1, c = (t^a + (1 - t)^a)^{1/a}. The gap k(r)^2 - X(r) is summed
from terms that vanish at r = 0.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import special
from scipy.interpolate import CubicSpline
from sklearn.utils import gen_batches

from ...frequencies import stable_nodes
from .._piecewise import Function, tabulate
from .._profiles import log_exponential_power, log_matern
from ._gaussian import trigonometric_gap

_SMALLEST = 0.01  # distance below which the share that is saved is taken as constant
_REACH = 50.0  # logs of squared lengths that normal frequencies meet
_VALUES = 2**16  # that are taken at a time, and fit the cache
_STEP = 0.4  # of trapezoidal rules on the log scale


@lru_cache(maxsize=32)
def student_gap(nu: float, n_features: int) -> Function:
    """Return the function of r that an orthogonal pair saves for the Matern kernel.

    Parameters
    ----------
    nu : float
        Smoothness, positive; infinity for the Gaussian kernel.
    n_features : int
        Dimension d of the frequencies.

    Returns
    -------
    gap : callable
        Takes and returns an array.
    """
    if nu == math.inf:
        return lambda r: trigonometric_gap(r**2, n_features)
    t, t_weights = _beta_nodes(n_features / 2)
    b, b_weights = _beta_nodes(nu)
    c = t[:, None] / b + t[::-1, None] / b[::-1]
    # y = log(G / 2 nu) for G = G_1 + G_2
    step = _STEP * min(1.0, 1 / math.sqrt(2 * nu))
    reach = 10 / math.sqrt(2 * nu)
    y = np.arange(-min(30 / nu + reach, 60), math.log1p(reach + 45 / (2 * nu)), step)
    log_total = 2 * nu * (math.log(2 * nu) - 1) - special.gammaln(2 * nu)
    weights = step * np.exp(2 * nu * (y - np.expm1(y)) + log_total)
    return _gap(
        lambda r: log_matern(r, nu),
        lambda q: log_matern(np.sqrt(q), 2 * nu),
        (c, t_weights[:, None] * b_weights),
        (-math.log(2) - y, _normalised(weights, nu)),
        n_features,
        largest=60 / math.sqrt(2 * nu) + 60,
    )


@lru_cache(maxsize=32)
def stable_gap(alpha: float, n_features: int) -> Function:
    """Return the same for the exponential-power kernel.

    Parameters
    ----------
    alpha : float
        Exponent, from 0.05 to 2.
    n_features : int
        Dimension d of the frequencies.

    Returns
    -------
    gap : callable
        Takes and returns an array.
    """
    if alpha == 2:
        return lambda r: trigonometric_gap(2 * r**2, n_features)
    a = alpha / 2
    t, t_weights = _beta_nodes(n_features / 2)
    c = (t**a + t[::-1] ** a) ** (1 / a)
    return _gap(
        lambda r: log_exponential_power(r, alpha),
        lambda q: log_exponential_power(2 * q, a),
        (c, t_weights),
        stable_nodes(alpha),
        n_features,
        largest=60 ** (1 / alpha),
    )


def _beta_nodes(a: float) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes (from small to large, symmetric) and weights of Beta(a, a)."""
    step = _STEP * min(1.0, math.sqrt(2 / a))
    reach = min(2 * math.acosh(math.exp(min(20 / a, 20))), 36)
    x = step * np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1)
    log_density = -2 * a * np.logaddexp(0.5 * x, -0.5 * x) - special.betaln(a, a)
    return special.expit(x), _normalised(step * np.exp(log_density), a)


def _normalised(weights: np.ndarray, shape: float) -> np.ndarray:
    """Return weights of sum 1, where the range of the nodes leaves nothing out."""
    return weights / weights.sum() if shape > 2 else weights


def _gap(
    log_kernel: Function,
    log_laplace: Function,
    scales: tuple[np.ndarray, np.ndarray],
    mixing: tuple[np.ndarray, np.ndarray],
    n_features: int,
    largest: float,
) -> Function:
    """Return the gap as a function, from nodes of c and of log T.

    ``log_laplace(q)`` is log E exp(-q T). Weights may sum to less than 1: the rest
    stands for T or c so large that all terms vanish.
    """
    c, c_weights = (array.ravel() for array in scales)
    kept = c_weights > 1e-16
    c, c_weights = c[kept], c_weights[kept]
    log_t, t_weights = (array.ravel() for array in mixing)
    kept = t_weights > 1e-16
    log_t, t_weights = log_t[kept], t_weights[kept]

    # the gap of normal frequencies, then its mean over T, as functions of log q
    normal = tabulate(
        lambda x: trigonometric_gap(np.exp(x - _REACH), n_features),
        2 * _REACH,
        rtol=1e-12,
        atol=1e-25,
    )
    ends = 2 * math.log(_SMALLEST), 2 * math.log(largest) + 8
    log_q = np.arange(*ends, 0.08)
    mixed = CubicSpline(
        log_q,
        [normal(np.clip(x + log_t + _REACH, 0, 2 * _REACH)) @ t_weights for x in log_q],
    )

    log_r = np.linspace(math.log(_SMALLEST), math.log(largest), 300)
    share = np.empty_like(log_r)
    for part in gen_batches(log_r.size, max(1, _VALUES // c.size)):
        r = np.exp(log_r[part])
        q = np.multiply.outer(r**2, c)
        value = np.expm1(2 * log_kernel(r)) + (1 - c_weights.sum())
        value -= np.expm1(log_laplace(q)) @ c_weights
        value += mixed(np.minimum(np.log(q), log_q[-1])) @ c_weights
        share[part] = value / _pair_variance(log_kernel, r)
    spline = CubicSpline(log_r, share)

    def gap(r: np.ndarray) -> np.ndarray:
        inside = np.clip(r, _SMALLEST, largest)
        return spline(np.log(inside)) * _pair_variance(log_kernel, r)

    return gap


def _pair_variance(log_kernel: Function, r: np.ndarray) -> np.ndarray:
    """Return (1 + k(2r) - 2 k(r)^2) / 2, without cancellation for small r."""
    return 0.5 * np.expm1(log_kernel(2 * r)) - np.expm1(2 * log_kernel(r))
