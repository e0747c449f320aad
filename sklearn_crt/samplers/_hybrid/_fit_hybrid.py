"""Fits the parts of a hybrid: how many columns each, and with which seeds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...frequencies import get_coupling
from ...maps import FeatureMap, SumOfProductsMap
from ...rows import Frame, Statistics
from .._stacklevel import outside_stacklevel
from ._clustered import ClusteredSampler
from ._kinds import unfitted_parts
from ._layout import Layout, best_n_coefficients
from ._parts import (
    Sample,
    columns_per_frequency,
    constant_of,
    few_rows,
    fit_base,
    fit_part,
    map_of,
    unit_samples,
)


@dataclass(frozen=True)
class HybridParts:
    """The fitted samplers whose maps make a hybrid.

    Attributes
    ----------
    bases, coefficients : list of samplers
        Fitted, with the width that they have in the hybrid.
    spare : sampler or None
        A further map of the last base in columns that are left.
    samples : list of Sample
        The rows that they were fitted to, at unit bandwidth.
    """

    bases: list[Any]
    coefficients: list[Any]
    spare: Any
    samples: list[Sample]

    def joint_map(self, shared: bool) -> SumOfProductsMap:
        """Return the map of the hybrid, at unit bandwidth.

        Parameters
        ----------
        shared : bool
            Whether the base maps have one seed.

        Returns
        -------
        map : SumOfProductsMap
            With the weight of the spare map that makes the mean variance least.
        """
        bases, coefficients = (
            tuple(map_of(part, self.samples) for part in side)
            for side in (self.bases, self.coefficients)
        )
        constants = tuple(map(constant_of, self.coefficients))
        whole = SumOfProductsMap(Frame(), 0, bases, coefficients, constants, shared)
        whole = replace(whole, n_components=whole.terms[-1].columns.stop)
        if self.spare is None:
            return whole
        spare = map_of(self.spare, self.samples)
        return replace(
            whole,
            n_components=whole.n_components + spare.n_components,
            spare=spare,
            spare_weight=_best_weight(whole, spare, self.samples),
        )


def fit_hybrid(sampler: Any, statistics: Statistics, frame: Frame) -> HybridParts:
    """Return the fitted parts of a hybrid.

    Parameters
    ----------
    sampler : HybridSampler
        With the parameters.
    statistics : Statistics
        Of the rows.
    frame : Frame
        Centre and sigma.

    Returns
    -------
    parts : HybridParts
        They follow from the three.
    """
    get_coupling(sampler.coupling, type(sampler).__name__)  # or ValueError
    *streams, cluster_rng = statistics.frequency_stream().spawn(4)
    samples = unit_samples(statistics, frame)
    bases, coefficients = unfitted_parts(sampler, samples, cluster_rng)
    seeds = [stream.integers(2**31 - 1, size=len(bases)) for stream in streams]
    # the last base has the first seed: alone it is the map that it is in a hybrid
    base_seeds = seeds[0][[0] * len(bases)] if sampler.shared else seeds[0][::-1]
    draw = _Draw(samples, base_seeds, seeds[1])
    last = bases[-1]
    fallback = last.fallback if isinstance(last, ClusteredSampler) else last
    layout = _choose_layout(sampler, bases, coefficients, draw)
    split = layout.split(sampler.n_components)
    if split is None:
        warnings.warn(
            f"This hybrid needs n_components={layout.smallest} or more, got "
            f"n_components={sampler.n_components}: the last base map is used alone.",
            UserWarning,
            stacklevel=outside_stacklevel(),
        )
        widths, rest = [sampler.n_components], 0
        bases, coefficients, counts = [fallback], [], []
    else:
        (widths, rest), counts = split, layout.n_coefficients
    spare = fit_base(fallback, samples, rest, seeds[2][0]) if rest else None
    fitted = draw.coefficients(coefficients, counts)
    return HybridParts(draw.bases(bases, widths), fitted, spare, samples)


@dataclass(frozen=True)
class _Draw:
    """Fits bases and coefficients, each with its seed, to one sample of rows."""

    samples: list[Sample]
    base_seeds: np.ndarray
    coefficient_seeds: np.ndarray

    def bases(self, parts, widths):
        """Return all the base maps; a single one has the last seed."""
        seeds = self.base_seeds[-len(parts) :]
        triples = zip(parts, widths, seeds, strict=True)
        return [fit_base(part, self.samples, n, seed) for part, n, seed in triples]

    def coefficients(self, parts, widths):
        """Return all the coefficient maps; None lets one keep its width."""
        triples = zip(parts, widths, self.coefficient_seeds)
        return [fit_part(part, self.samples, n, seed) for part, n, seed in triples]


def _choose_layout(sampler, bases, coefficients, draw):
    """Return how the columns are split, with the number of coefficients asked for."""
    own = sampler.coefficients is None and len(coefficients) > 0
    widths = [columns_per_frequency(part) if own else None for part in coefficients]
    fitted = draw.coefficients(coefficients, widths)
    constants = tuple(map(constant_of, fitted))
    maps = tuple(map_of(part, draw.samples) for part in fitted)
    layout = Layout.of(bases, constants, [part.n_components for part in maps])
    if not own:
        return layout
    if sampler.n_coefficients != "auto":
        return layout.with_coefficients(sampler.n_coefficients)
    if layout.split(sampler.n_components) is None:
        return layout
    singles = draw.bases(bases, layout.units)
    singles = tuple(map_of(part, draw.samples) for part in singles)
    one_each = SumOfProductsMap(Frame(), 0, singles, maps, constants)
    variances = one_each.mean_variances(*few_rows(draw.samples))
    n = best_n_coefficients(layout, sampler.n_components, *variances)
    return layout.with_coefficients(n)


def _best_weight(main: SumOfProductsMap, spare: FeatureMap, samples: list[Sample]):
    """Return the weight of a spare map that makes the mean variance least."""
    X, Y = few_rows(samples)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = np.mean(main.variance(X, Y))
        weight = mean / (mean + np.mean(spare.variance(*_inside(spare, X, Y))))
    return float(weight) if np.isfinite(weight) else 0.0


def _inside(part, X, Y):
    return part.frame.inside(X), part.frame.inside(Y)
