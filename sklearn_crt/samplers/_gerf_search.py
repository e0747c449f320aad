"""The search for the best A of generalised exponential features.

The formulas stand in ``maps/_second_moment.py``; here is what minimises them.
"""

from __future__ import annotations

import cmath
import math
from functools import lru_cache

import numpy as np
from scipy import optimize, special

from ..maps import log_rho, scaled_variance, second_moment

_GRID = np.meshgrid(np.linspace(-1.5, 1.5, 13), np.linspace(0.02, 1.5, 25))
_BOUNDS = ((-40.0, 40.0), (0.0, math.pi / 2 - 1e-6))


def log_variance(
    lam: float | np.ndarray,
    phi: float | np.ndarray,
    s: int,
    q: float | np.ndarray,
    n_features: int,
) -> np.ndarray:
    """Return log(Var / K^2) of one product, -inf where it is zero."""
    with np.errstate(divide="ignore"):
        variance, log_scale = scaled_variance(
            *second_moment(lam, phi, s, q, n_features)
        )
        return np.log(variance) + log_scale


def log_second_moment(
    lam: float | np.ndarray,
    phi: float | np.ndarray,
    s: int,
    q: float | np.ndarray,
    n_features: int,
) -> np.ndarray:
    """Return log(E Re(fg)^2 / K^2), the objective at an array of points."""
    size, _, v, theta = second_moment(lam, phi, s, q, n_features)
    h = -np.expm1(-2 * v) + 2 * np.exp(-2 * v) * np.cos(theta / 2) ** 2
    with np.errstate(divide="ignore"):
        return size + np.log(h / 2)


def value_and_gradient(
    point: np.ndarray, s: int, q: float, n_features: int
) -> tuple[float, np.ndarray]:
    """Return the objective at one point (lam, phi), and its gradient."""
    lam, phi = float(point[0]), float(point[1])
    modulus, c, sin_phi = math.exp(lam), math.cos(phi), math.sin(phi)
    rho = complex(modulus * c, modulus * sin_phi)
    beside = abs(1 + rho)
    tanh = 0.5 * n_features * (rho - 1) / (rho + 1)
    log_cosh = cmath.log((1 + rho) / 2) - 0.5 * complex(lam, phi)
    total = beside + modulus if s > 0 else (1 + 2 * modulus * c) / (beside + modulus)
    # logs of E|fg|^2 and E(fg)^2 over K^2, the latter analytic in log rho
    size = n_features * (log_cosh.real - 0.5 * math.log(c))
    size += 0.5 * q * (total / c - s)
    square = n_features * log_cosh + s * q * rho
    by_lam = tanh.real + 0.5 * q * (s * modulus + (rho.real + modulus**2) / beside) / c
    by_phi = -tanh.imag + 0.5 * sin_phi / c * (
        n_features + q * (total / c - modulus / beside)
    )
    gap, angle = max(size - square.real, 0.0), square.imag
    h = -math.expm1(-gap) + 2 * math.exp(-gap) * math.cos(0.5 * angle) ** 2
    h = max(h, 1e-300)
    by_square = cmath.rect(math.exp(-gap), angle) * (tanh + s * q * rho)
    gradient = (by_lam + by_square.real) / h, (by_phi - by_square.imag) / h
    return size + math.log(0.5 * h), np.array(gradient)


def trigonometric_A(q: float, n_features: int) -> float:
    """Return the real A of least second moment for s = -1 and q = |x - y|^2.

    With rho = 1 + t it is the root of t = 2 (1 + t)(2 + t) q expit(-(2 + t) q) / d,
    which is below 0.56 / (d - 0.56).
    """
    last = 0.56 / (n_features - 0.56)

    def right(t, at):
        return 2 * (1 + t) * (2 + t) * q * special.expit(-(2 + at) * q) / n_features

    # a bracket of one order of magnitude, in units of its end: the root may be tiny
    high = min(1.001 * right(last, 0.0), last)
    low = 0.999 * right(0.0, high)
    if low < 1e-290:  # q = 0, or so large that nothing is left to gain
        return 0.0
    t = high * optimize.brentq(
        lambda part: part - right(part * high, part * high) / high,
        low / high,
        1.0,
        xtol=1e-15,
    )
    return t / (8 * (1 + t))


@lru_cache  # other seeds ask again for the same rows
def complex_candidates(
    A: float, s: int, q: float, n_features: int
) -> tuple[tuple[float, float], ...]:
    """Return the ends of L-BFGS-B from the best three points of a grid about A."""
    real, _ = log_rho(complex(A))
    if abs(real) > _BOUNDS[0][1]:
        return ()
    points = np.stack([_GRID[0].ravel() + real, _GRID[1].ravel()])
    points = np.clip(points, *np.transpose(_BOUNDS)[..., None])
    values = log_second_moment(points[0], points[1], s, q, n_features)
    ends = (
        optimize.minimize(
            value_and_gradient,
            points[:, start],
            args=(s, q, n_features),
            method="L-BFGS-B",
            jac=True,
            bounds=_BOUNDS,
            options={"maxiter": 50},
        ).x
        for start in np.argsort(values)[:3]
    )
    return tuple((float(lam), float(phi)) for lam, phi in ends)


def best_member(
    real_optima: dict[int, float], q: dict[int, float], n_features: int
) -> tuple[int, complex]:
    """Return s and A of least variance a column at the averages q of |x + sy|^2.

    The kernel is the same for both signs, so the least second moment is the least
    variance, and the variance has digits where the second moment is near 1. What the
    search finds must be better than the real optimum of its sign by more than rounding.
    """
    best, member = math.inf, (-1, complex(real_optima[-1]))
    for s, A in sorted(real_optima.items()):
        value = float(log_variance(*log_rho(complex(A)), s, q[s], n_features))
        margin = 1e-8 + 1e-12 * abs(value)
        # a real A with s = +1 has two frequencies for the columns of another's one
        saved = math.log(2) if s > 0 else 0.0
        candidates = [(value - saved, complex(A))]
        for lam, phi in complex_candidates(A, s, q[s], n_features):
            other = float(log_variance(lam, phi, s, q[s], n_features))
            if other < value - margin:
                other -= saved if phi == 0 else 0.0
                candidates.append((other, (1 - cmath.exp(complex(-lam, -phi))) / 8))
        score, choice = min(candidates, key=lambda candidate: candidate[0])
        if score < best:
            best, member = score, (s, choice)
    return member
