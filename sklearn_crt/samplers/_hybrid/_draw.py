"""Normal frequencies of a map, drawn or taken from another map of the same seed."""

from __future__ import annotations

import math

from ...frequencies import Coupling, Frequencies, chi_law
from ...maps import DiagonalExponentialMap, FrequencyMap
from ...rows import Statistics


def draw_normal(
    coupling: Coupling,
    n_frequencies: int,
    statistics: Statistics,
    drawn: FrequencyMap | None,
) -> Frequencies:
    """Return normal frequencies.

    Parameters
    ----------
    coupling : Coupling
        Their joint law.
    n_frequencies : int
        Their number.
    statistics : Statistics
        With the seed and the number of columns.
    drawn : FrequencyMap or None
        A map with the same frequencies, where there is one.

    Returns
    -------
    frequencies : Frequencies
        At unit bandwidth.
    """
    if drawn is not None:
        return drawn.frequencies
    rng = statistics.frequency_stream()
    return coupling.draw(chi_law, n_frequencies, statistics.n_features, rng)


def draw_normal_and_phase(
    coupling: Coupling,
    n_frequencies: int,
    statistics: Statistics,
    drawn: DiagonalExponentialMap | None,
) -> tuple[Frequencies, float]:
    """Return normal frequencies and a phase in radians.

    Parameters
    ----------
    coupling : Coupling
        Their joint law.
    n_frequencies : int
        Their number.
    statistics : Statistics
        With the seed and the number of columns.
    drawn : DiagonalExponentialMap or None
        A map with the same frequencies and phase, where there is one.

    Returns
    -------
    frequencies : Frequencies
        At unit bandwidth.
    phase : float
        Uniform over the circle.
    """
    if drawn is not None:
        return drawn.frequencies, drawn.phase
    rng = statistics.frequency_stream()
    frequencies = coupling.draw(chi_law, n_frequencies, statistics.n_features, rng)
    (phase_rng,) = rng.spawn(1)
    return frequencies, float(phase_rng.uniform(0, 2 * math.pi))
