r"""Second moment of generalised exponential features, and the search for the best A.

One product of features is :math:`f g = D^2 \exp(2A|w|^2 + B w \cdot (x + sy) +
C(|x|^2 + |y|^2))`. In units of the squared kernel, with log rho = ``lam`` + i ``phi``,
rho = 1 / (1 - 8A) and q = :math:`|x + sy|^2`,

.. math:: E |fg|^2 / K^2 = e^{u + v}, \qquad E (fg)^2 / K^2 = e^{u - v + i \theta} .

The second moment of Re(fg) is the mean of the first and the real part of the second.
"""

from __future__ import annotations

import cmath
import math

import numpy as np
from scipy import optimize, special

_GRID = np.meshgrid(np.linspace(-1.5, 1.5, 13), np.linspace(0.02, 1.5, 25))
_BOUNDS = ((-40.0, 40.0), (0.0, math.pi / 2 - 1e-6))


def log_one_minus(z: complex) -> complex:
    """Return log(1 - z), with all digits where z is small."""
    if z.imag == 0:
        return complex(math.log1p(-z.real))
    modulus = 0.5 * math.log1p(z.real * (z.real - 2) + z.imag * z.imag)
    return complex(modulus, cmath.phase(1 - z))


def log_rho(A: complex) -> tuple[float, float]:
    """Return the real part and the magnitude of the imaginary part of log rho.

    A and its conjugate give the same estimate.
    """
    log_inverse = log_one_minus(8 * A)
    return -log_inverse.real, abs(log_inverse.imag)


def second_moment(lam, phi, s, q, n_features):
    """Return u + v, u, v >= 0 and theta; ``lam`` and ``phi``, or q, may be arrays.

    All terms are written so that none cancels, for rho -> 1, rho -> 0 and q -> 0; u + v
    apart, since u may be far below zero for s = -1.
    """
    sin_phi, rest = np.sin(phi), 2 * np.sin(phi / 2) ** 2
    c = 1 - rest
    root, modulus = np.sqrt(c), np.exp(lam)
    beside = np.hypot(1 + modulus * c, modulus * sin_phi)  # |1 + rho|
    excess = 2 * np.sinh(lam / 2) ** 2 + (rest / (1 + root)) ** 2
    u = 0.5 * n_features * np.log1p(excess / (2 * root))
    v = -0.25 * n_features * np.log1p(-rest)
    theta = n_features * np.arctan(np.tanh(lam / 2) * np.tan(phi / 2))
    theta = theta + s * modulus * sin_phi * q
    # factors of q in the logs of both moments, and their sum
    if s > 0:
        left = modulus * (1 + (modulus + 2 * c) / (beside + 1)) + rest
        left, right = left / (2 * c), modulus * c
        total = left + right
    else:  # 1 + above and -1 - drop, where both may be near 0
        above = sin_phi**2 * (1 + 2 * modulus * c)
        above /= (1 + modulus * c + c * beside) * 2 * c * (beside + modulus)
        drop = c * np.expm1(lam) - rest
        left, right, total = 1 + above, -1 - drop, above - drop
    size = u + v + left * q
    return size, u + 0.5 * total * q, np.maximum(v + 0.5 * (left - right) * q, 0), theta


def scaled_variance(size, u, v, theta):
    """Return Var / K^2 of one product as two arrays: a number times an exponential."""
    log_scale = np.maximum(size, 0)
    # expm1(u) + e^u (2 sinh(v/2)^2 - e^-v sin(theta/2)^2), nowhere above its scale
    variance = np.sign(u) * -np.expm1(-np.abs(u))
    variance = variance * np.exp(np.maximum(u, 0) - log_scale)
    variance = variance + 0.5 * np.exp(size - log_scale) * np.expm1(-v) ** 2
    variance = variance - np.exp(u - v - log_scale) * np.sin(theta / 2) ** 2
    return np.maximum(variance, 0), log_scale


def log_variance(lam, phi, s, q, n_features):
    """Return log(Var / K^2) of one product, -inf where it is zero."""
    with np.errstate(divide="ignore"):
        variance, log_scale = scaled_variance(
            *second_moment(lam, phi, s, q, n_features)
        )
        return np.log(variance) + log_scale


def log_second_moment(lam, phi, s, q, n_features):
    """Return log(E Re(fg)^2 / K^2), the objective at an array of points."""
    size, _, v, theta = second_moment(lam, phi, s, q, n_features)
    h = -np.expm1(-2 * v) + 2 * np.exp(-2 * v) * np.cos(theta / 2) ** 2
    with np.errstate(divide="ignore"):
        return size + np.log(h / 2)


def value_and_gradient(point, s, q, n_features):
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


def complex_candidates(A: float, s: int, q: float, n_features: int):
    """Return the ends of L-BFGS-B from the best three points of a grid about A."""
    real, _ = log_rho(complex(A))
    if abs(real) > _BOUNDS[0][1]:
        return
    points = np.stack([_GRID[0].ravel() + real, _GRID[1].ravel()])
    points = np.clip(points, *np.transpose(_BOUNDS)[..., None])
    values = log_second_moment(*points, s, q, n_features)
    for start in np.argsort(values)[:3]:
        yield optimize.minimize(
            value_and_gradient,
            points[:, start],
            args=(s, q, n_features),
            method="L-BFGS-B",
            jac=True,
            bounds=_BOUNDS,
            options={"maxiter": 50},
        ).x


def best_member(
    real_optima: dict[int, float], q: dict[int, float], n_features: int, real_cost: bool
) -> tuple[int, complex]:
    """Return s and A of least second moment at the averages q of |x + sy|^2.

    The kernel is the same for both signs, so the least second moment is the least
    variance, and the variance has digits where the second moment is near 1. What the
    search finds must be better than the real optimum of its sign by more than rounding.
    """
    best, member = math.inf, (-1, complex(real_optima[-1]))
    for s, A in sorted(real_optima.items()):
        value = float(log_variance(*log_rho(complex(A)), s, q[s], n_features))
        margin = 1e-8 + 1e-12 * abs(value)
        # a real A with s = +1 has two frequencies for the columns of another's one
        saved = math.log(2) if real_cost and s > 0 else 0.0
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
