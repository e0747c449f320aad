"""The map of sines and cosines that the parameters of a sampler make."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..frequencies import Coupling, get_coupling
from ..maps import PairedColumns, RadialKernel, TrigonometricMap
from ..rows import Statistics
from ._base import BaseFeatureSampler


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
