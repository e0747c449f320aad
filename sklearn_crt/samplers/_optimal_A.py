"""The best real A of positive features, in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import optimize, special

from .._array import namespace_of


def optimal_A(q: Any, n_features: int) -> Any:
    """Return the A of least mean log second moment for the mean q of |x + y|^2.

    With rho = 1 / (1 - 8A) it is the positive root of 2 q rho^2 + (2q + d) rho = d
    (CRT theorem 3.3), written so that nothing cancels for small or large q.
    """
    if isinstance(q, (int, float)):
        return float(optimal_A(np.asarray(float(q)), n_features))
    # q () or an array of any library
    xp, d = namespace_of(q), n_features
    gap = 2 * q - d
    total = xp.sqrt((2 * q + d) ** 2 + 8 * d * q) + xp.abs(gap)
    return -xp.where(gap > 0, total / (16 * d), q / total)


def optimal_antithetic_A(q: float, n_features: int) -> float:
    """Return the A of least mean log second moment of a pair w, -w.

    Its rho is the root of d (rho - 1) / (2 rho (1 + rho)) + q expit((1 + rho) q),
    which lies between the best ones of single frequencies for q and for q / 2.
    """
    d = n_features
    low, high = (1 / (1 - 8 * optimal_A(part, d)) for part in (q, q / 2))

    def slope(rho):
        return d * (rho - 1) / (2 * rho * (1 + rho)) + q * special.expit((1 + rho) * q)

    if slope(low) >= 0 or slope(high) <= 0:  # equal up to rounding
        rho = low
    else:
        rho = optimize.brentq(slope, low, high, xtol=1e-15)
    return (1 - 1 / rho) / 8


def optimal_for(A: float, n_features: int) -> float:
    """Return the mean q of |x + y|^2 for which A is the optimal one."""
    rho = 1 / (1 - 8 * A)
    return -4 * n_features * A / (1 + rho)
