"""Sines and cosines: the map that parameters make, and what heavy tails need."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from .._compat import warn
from ..exceptions import ApproximationWarning
from ..frequencies import Coupling, Frequencies, get_coupling
from ..maps import PairedColumns, RadialKernel, TrigonometricMap
from ..rows import Statistics, shape_factor
from ._base import BaseFeatureSampler, fitted


def make_trigonometric_map(
    sampler: BaseFeatureSampler,
    statistics: Statistics,
    drawn: TrigonometricMap | None,
    radial: RadialKernel,
    radial_law: Callable,
    *,
    coupling: Coupling | None = None,
    draw: Callable | None = None,
    **fields: Any,
) -> TrigonometricMap:
    """Return sines and cosines for a radial kernel."""
    coupling = coupling or get_coupling(sampler.coupling, type(sampler).__name__)
    single = getattr(sampler, "random_phase", False)
    columns = PairedColumns.of(sampler.n_components, single=single)
    if drawn is not None:
        frequencies, phase = drawn.frequencies, drawn.phase
    else:
        rng = statistics.frequency_stream()
        sizes = columns.n_frequencies, statistics.n_features
        if draw is None:
            frequencies = coupling.draw(radial_law, *sizes, rng)
        else:
            frequencies = draw(*sizes, rng)
        (phase_rng,) = rng.spawn(1)
        size = columns.n_frequencies if single else None
        phase = phase_rng.uniform(0, 2 * math.pi, size=size)
    return TrigonometricMap(
        sampler._frame(statistics),
        sampler.n_components,
        frequencies,
        coupling,
        radial,
        columns,
        phase,
        **fields,
    )


def has_uniform_directions(coupling: Any) -> bool:
    """Return whether the directions of a coupling are exactly uniform."""
    return coupling.exact and not coupling.opposite


_LIGHT_TAIL = 0.3  # least index of the tail without a warning
_FEW_FEATURES = 32  # products of Hadamard matrices have inner products of exactly 0


class HeavyTailedSampler(BaseFeatureSampler):
    """Sines and cosines for kernels whose frequencies have heavy tails.

    This class adds ``shape_matrix`` and ``random_phase``, and computes large phases
    accurately. A subclass defines ``_radial``, ``_radial_law`` and ``_tail_index``.
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "shape_matrix": ["array-like", None],
        "random_phase": ["boolean"],
    }

    # ------------------------------------------------------------------- hooks
    _tail_advice = "another kernel"

    @abstractmethod
    def _radial(self) -> RadialKernel:
        """Return the kernel."""

    @abstractmethod
    def _radial_law(self, n_features: int):
        """Return the law of the norm of a frequency in this dimension."""

    @abstractmethod
    def _tail_index(self) -> float:
        """Return the b of P(|w| > R) ~ R^-b; infinity for light tails."""

    def _coupling(self) -> Coupling:
        """Return the coupling of the parameter."""
        return get_coupling(self.coupling, type(self).__name__)

    # ------------------------------------------------------------------ fitting
    def _make_map(self, statistics, drawn):
        factor = shape_factor(self.shape_matrix, statistics.n_features)
        coupling = self._coupling()
        if drawn is None:
            self._check_tail(coupling, statistics.n_features)

        def draw(n_frequencies, n_features, rng):
            sizes = n_frequencies, n_features
            frequencies = coupling.draw(self._radial_law, *sizes, rng)
            if factor is None:
                return frequencies
            return Frequencies(factor @ frequencies.to_dense())

        return make_trigonometric_map(
            self,
            statistics,
            drawn,
            self._radial(),
            self._radial_law,
            coupling=coupling,
            draw=draw,
            shape_factor=factor,
            heavy_tailed=True,
        )

    def _check_tail(self, coupling, n_features):
        index = self._tail_index()
        if index < _LIGHT_TAIL:
            warn(
                f"A norm |w| of {type(self).__name__} exceeds R with a chance of about "
                f"R^-{index:.2g}, so many phases w.x are beyond what a float resolves "
                "(2^24 in float32, 2^53 in float64), and their sines are noise; norms "
                f"are cut at 1e15. Use float64, {self._tail_advice}, or the exact "
                "kernel of sklearn_crt.kernels.",
                ApproximationWarning,
            )
        if index < 2 and not coupling.exact and n_features <= _FEW_FEATURES:
            reason = (
                f" with up to {_FEW_FEATURES} columns (X has {n_features}), because "
                "directions that are only nearly uniform bias the estimate where "
                "frequencies are large"
            )
            name = type(self).__name__
            get_coupling(self.coupling, name, has_uniform_directions, reason)

    phase_: float | np.ndarray = fitted(
        "map_.phase", "Phases of single columns, in radians."
    )
