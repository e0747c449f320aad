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
    """Return sines and cosines for a radial kernel.

    Parameters
    ----------
    sampler : sampler
        With the parameters ``sigma``, ``n_components``, ``coupling`` and, if it offers
        single columns with random phases, ``random_phase``.
    statistics : Statistics
        Of the rows.
    drawn : TrigonometricMap or None
        A map of the same draw, to take the frequencies from.
    radial : RadialKernel
        The kernel.
    radial_law : callable
        Law of the norm of a frequency as a function of the dimension.
    coupling : Coupling, default=None
        In place of that of the parameter.
    draw : callable, default=None
        ``draw(n_frequencies, n_features, rng)`` returns the frequencies where they are
        not isotropic.
    **fields
        Further fields of the map.

    Returns
    -------
    map : TrigonometricMap
        The map.
    """
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
