r"""Second moment of generalised exponential features.

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


def log_one_minus(z: complex) -> complex:
    """Return log(1 - z), with all digits where z is small.

    Parameters
    ----------
    z : complex
        Any number but 1.

    Returns
    -------
    logarithm : complex
        The principal value.
    """
    if z.imag == 0:
        return complex(math.log1p(-z.real))
    modulus = 0.5 * math.log1p(z.real * (z.real - 2) + z.imag * z.imag)
    return complex(modulus, cmath.phase(1 - z))


def log_rho(A: complex) -> tuple[float, float]:
    """Return the real part and the magnitude of the imaginary part of log rho.

    A and its conjugate give the same estimate.

    Parameters
    ----------
    A : complex
        Coefficient of the squared norm of the frequency, of real part below 1/8.

    Returns
    -------
    lam, phi : float
        The two parts, for rho = 1 / (1 - 8A).
    """
    log_inverse = log_one_minus(8 * A)
    return -log_inverse.real, abs(log_inverse.imag)


def second_moment(
    lam: float | np.ndarray,
    phi: float | np.ndarray,
    s: int,
    q: float | np.ndarray,
    n_features: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return u + v, u, v >= 0 and theta.

    All terms are written so that none cancels, for rho -> 1, rho -> 0 and q -> 0; u + v
    apart, since u may be far below zero for s = -1.

    Parameters
    ----------
    lam, phi : float or ndarray
        Real and imaginary part of log rho; arrays where q is a number.
    s : int
        The sign, 1 or -1.
    q : float or ndarray
        The squared length of x + sy.
    n_features : int
        Dimension d of the rows.

    Returns
    -------
    size, u, v, theta : ndarray
        The sum u + v, its terms, and the phase.
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


def scaled_variance(
    size: float | np.ndarray,
    u: float | np.ndarray,
    v: float | np.ndarray,
    theta: float | np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return Var / K^2 of one product as two arrays: a number times an exponential.

    Parameters
    ----------
    size, u, v, theta : ndarray
        What ``second_moment`` returns.

    Returns
    -------
    variance, log_scale : ndarray
        The number, not negative, and the exponent.
    """
    log_scale = np.maximum(size, 0)
    # expm1(u) + e^u (2 sinh(v/2)^2 - e^-v sin(theta/2)^2), nowhere above its scale
    variance = np.sign(u) * -np.expm1(-np.abs(u))
    variance = variance * np.exp(np.maximum(u, 0) - log_scale)
    variance = variance + 0.5 * np.exp(size - log_scale) * np.expm1(-v) ** 2
    variance = variance - np.exp(u - v - log_scale) * np.sin(theta / 2) ** 2
    return np.maximum(variance, 0), log_scale
