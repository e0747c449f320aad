"""Exponential features: the optimal real A, the base class, and its feature map."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import optimize, special

from .._compat import RandomState, StrOptions
from ..arrays.namespaces import namespace_of
from ..frequencies import Coupling, chi_law, get_coupling
from ..maps import (
    ExponentialMap,
    GaussianKernel,
    GaussianOrSoftmax,
    IsotropicQuadratic,
    PairedColumns,
    Quadratic,
)
from ..rows import Frame, Sigma, Statistics
from ._base import BaseFeatureSampler, centered


def optimal_A(q: Any, n_features: int) -> Any:
    """Return the A that minimises the mean log second moment for a mean q of |x + y|^2.

    Here rho = 1 / (1 - 8A) is the positive root of 2 q rho^2 + (2q + d) rho = d (CRT
    theorem 3.3). The formula avoids cancellation for both small and large q.
    """
    # q is a number, or an array (possibly 0-d) of any array library
    is_number = isinstance(q, (int, float))
    xp, d = np if is_number else namespace_of(q), n_features
    gap = 2 * q - d
    total = xp.sqrt((2 * q + d) ** 2 + 8 * d * q) + xp.abs(gap)
    A = -xp.where(gap > 0, total / (16 * d), q / total)
    return float(A) if is_number else A


def optimal_antithetic_A(q: float, n_features: int) -> float:
    """Return the A that minimises the mean log second moment for pairs (w, -w).

    The corresponding rho is the root of d (rho - 1) / (2 rho (1 + rho)) + q expit((1 +
    rho) q). It lies between the optima for single frequencies at q and at q / 2.
    """
    d = n_features
    low, high = (1 / (1 - 8 * optimal_A(part, d)) for part in (q, q / 2))

    def slope(rho):
        return d * (rho - 1) / (2 * rho * (1 + rho)) + q * special.expit((1 + rho) * q)

    if slope(low) >= 0 or slope(high) <= 0:  # low and high are equal up to rounding
        rho = low
    else:
        rho = optimize.brentq(slope, low, high, xtol=1e-15)
    return (1 - 1 / rho) / 8


def optimal_for(A: float, n_features: int) -> float:
    """Return the mean q of |x + y|^2 for which A is optimal."""
    rho = 1 / (1 - 8 * A)
    return -4 * n_features * A / (1 + rho)


def make_exponential_map(
    sampler: Any,
    statistics: Statistics,
    drawn: ExponentialMap | None,
    frame: Frame,
    quadratic: Quadratic,
    coupling: Coupling,
) -> ExponentialMap:
    """Return the map for a quadratic form, with frequencies drawn from a coupling."""
    single = quadratic.is_real and not coupling.opposite
    columns = PairedColumns.of(sampler.n_components, single=single)
    m = columns.n_frequencies
    if drawn is None or drawn.frequencies.n_frequencies != m or coupling.norm_dependent:
        rng = statistics.frequency_stream()
        frequencies = coupling.draw(chi_law, m, statistics.n_features, rng)
        phase = float(rng.spawn(1)[0].uniform(0, 2 * math.pi))
    else:
        frequencies, phase = drawn.frequencies, drawn.phase
    return ExponentialMap(
        frame=frame,
        n_components=sampler.n_components,
        frequencies=frequencies,
        coupling=coupling,
        columns=columns,
        quadratic=quadratic,
        gaussian=GaussianKernel(softmax=sampler.kernel == "softmax"),
        phase=phase,
    )


class ExponentialSampler(BaseFeatureSampler):
    """Base class of exponential features; A = 0 unless ``_choose`` is overridden."""

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "center": ["boolean"],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    def __init__(
        self,
        *,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        coupling: str | Coupling = "orthogonal",
        center: bool = True,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    center_: np.ndarray = centered

    def _can_use(self, coupling: Any) -> bool:
        """Return whether the map can use a coupling, given as an object or a class."""
        return not coupling.opposite

    def _choose(
        self, statistics: Statistics, frame: Frame, coupling: Coupling
    ) -> Quadratic:
        """Return the quadratic form of the map."""
        return IsotropicQuadratic(0.0)

    def _make_map(self, statistics, drawn):
        frame = self._frame(statistics, middle(statistics) if self.center else None)
        name = type(self).__name__
        coupling = get_coupling(self.coupling, name, self._can_use)
        quadratic = self._choose(statistics, frame, coupling)
        if coupling.norm_dependent:
            coupling = coupling.weigh(_norm_factor(quadratic, statistics.n_features))
        return make_exponential_map(self, statistics, drawn, frame, quadratic, coupling)


def _norm_factor(quadratic: Quadratic, n_features: int) -> float | None:
    """Return c such that the features weight a frequency by ``|w| exp(c |w|^2)``.

    The result is None if angles that depend on the norms do not reduce the variance.
    """
    if not isinstance(quadratic, IsotropicQuadratic) or not quadratic.is_real:
        return None
    A = quadratic.real
    return 2 * A if optimal_for(A, n_features) <= 0.5 + 1e-9 else None


def middle(statistics: Statistics) -> np.ndarray:
    """Return the optimal centre, the midpoint of the means of queries and keys."""
    # -> (n_features,)
    return 0.5 * (statistics.query.mean + statistics.key.mean)


def mean_squares(statistics: Statistics, frame: Frame) -> tuple[float, float]:
    """Return the means of |x + y|^2 and |x - y|^2 over all pairs of rows."""
    query, key = statistics.query, statistics.key
    scale, spread = np.square(frame.sigma), query.variance + key.variance
    center = 0.0 if frame.center is None else frame.center
    sums = query.mean + key.mean - 2 * center
    differences = query.mean - key.mean
    of_sums = float(np.sum(scale * (spread + sums**2)))
    return of_sums, float(np.sum(scale * (spread + differences**2)))
