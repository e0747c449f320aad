"""The maps that make a hybrid: which they are, how wide, and how they are fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._compat import warn
from ...frequencies import Antithetic, Coupling, get_coupling
from ...maps import SumOfProductsMap
from ...rows import Frame, Statistics
from .._base import BaseFeatureSampler
from .._oprf import OPRFSampler
from .._positive import PositiveRBFSampler
from .._trig_rbf import TrigRBFSampler
from .clustered import (
    ClusteredSampler,
    Sample,
    cluster_sides,
    columns_per_frequency,
    fit_base,
    fit_part,
    map_of,
    massive_pairs,
    pair_diagonal,
    unit_samples,
)
from .coefficients import AngularCoefficient, GaussianCoefficient, MixtureCoefficient
from .complex_exponential import ComplexExponentialSampler

_NEEDED = ("fit", "transform", "exact_kernel", "kernel_variance")  # of each map


# ------------------------------------------------------------------------ all parts
@dataclass(frozen=True)
class HybridParts:
    """The fitted samplers whose maps make a hybrid."""

    bases: list[Any]
    coefficients: list[Any]
    spare: list[Any]  # none or one, for the columns that the products leave
    samples: list[Sample]

    def joint_map(self, n_components: int, shared: bool) -> SumOfProductsMap:
        """Return the map of the hybrid, at unit bandwidth."""
        bases, coefficients, spare = (
            tuple(map_of(part, self.samples) for part in side)
            for side in (self.bases, self.coefficients, self.spare)
        )
        constants = tuple(map(_constant_of, self.coefficients))
        last = spare[0] if spare else None
        fields = bases, coefficients, constants, shared, last
        return SumOfProductsMap(Frame(), n_components, *fields)


def _constant_of(coefficient: Any) -> float:
    """Return the constant part of a fitted coefficient, 0 where it states none."""
    return float(getattr(coefficient, "a_", 0.0))


def fit_hybrid(sampler: Any, statistics: Statistics, frame: Frame) -> HybridParts:
    """Return the fitted parts of a hybrid."""
    get_coupling(sampler.coupling, type(sampler).__name__)  # or ValueError
    streams = statistics.frequency_stream().spawn(4)
    base_rng, coefficient_rng, spare_rng, cluster_rng = streams
    samples = unit_samples(statistics, frame)
    bases, unfitted = _unfitted_parts(sampler, samples, cluster_rng)
    base_seeds, seeds = (
        rng.integers(2**31 - 1, size=len(bases)) for rng in (base_rng, coefficient_rng)
    )
    # the last base has the first seed: alone it is the map that it is in a hybrid
    base_seeds = base_seeds[[0] * len(bases)] if sampler.shared else base_seeds[::-1]
    coefficients = [
        fit_part(part, samples, seed)
        for part, seed in zip(unfitted, seeds, strict=False)
    ]
    split = _split_columns(sampler.n_components, bases, coefficients, samples)
    last = getattr(bases[-1], "fallback", bases[-1])
    if split is None:
        bases, coefficients, split = [last], [], ([sampler.n_components], 0)
    widths, rest = split
    parts = zip(bases, widths, base_seeds[-len(bases) :], strict=True)
    fitted = [fit_base(part, samples, width, seed) for part, width, seed in parts]
    seed = int(spare_rng.integers(2**31 - 1))
    spare = [fit_base(last, samples, rest, seed)] if rest else []
    return HybridParts(fitted, coefficients, spare, samples)


def _split_columns(
    n_components: int, bases: Sequence[Any], coefficients: list[Any], samples: Any
) -> tuple[list[int], int] | None:
    """Return the columns of the base maps and those left, or warn and return None.

    All have as many frequencies; what is left goes to one more of single maps, the
    last map first.
    """
    constants = [_constant_of(part) for part in coefficients]
    counts = [map_of(part, samples).n_components for part in coefficients]
    units = [columns_per_frequency(base, samples) for base in bases]
    plain = [int(a != 0) for a in (*constants, 1 - sum(constants))]
    # columns of the hybrid for one frequency of each base map
    costs = [
        unit * (constant + count)
        for unit, constant, count in zip(
            units, plain, [*counts, sum(counts)], strict=True
        )
    ]
    frequencies, rest = divmod(n_components, sum(costs))
    least = max(
        -(-getattr(base, "min_components", 1) // unit)
        for base, unit in zip(bases, units, strict=True)
    )
    if frequencies < least:
        warn(
            f"This hybrid needs n_components={least * sum(costs)} or more, got "
            f"n_components={n_components}: the last base map is used alone.",
            UserWarning,
        )
        return None
    widths = [frequencies * unit for unit in units]
    for k in reversed(range(len(costs))):
        if 0 < costs[k] <= rest:
            widths[k] += units[k]
            rest -= costs[k]
    return widths, rest


# -------------------------------------------------- what a kind of hybrid stands for
def _unfitted_parts(
    sampler: Any, samples: list[Sample], rng: np.random.Generator
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the base maps and coefficients that the parameters of a hybrid ask for."""
    own = sampler.bases is None and sampler.coefficients is None
    mixture = own and sampler.kind == "clustered" and sampler.mixture == "gaussian"
    _check_effects(sampler, mixture)
    if mixture:
        return _mixture_parts(sampler, samples, rng)
    bases, coefficients = sampler.bases, sampler.coefficients
    bases = _own_bases(sampler) if bases is None else bases
    coefficients = _own_coefficients(sampler) if coefficients is None else coefficients
    for part in (*bases, *coefficients):
        missing = [name for name in _NEEDED if not hasattr(part, name)]
        if missing or isinstance(part, type):
            lack = f"it lacks {', '.join(missing)}" if missing else "it is a class"
            raise ValueError(
                f"{part!r} is no sampler: {lack}. Give objects with "
                f"{', '.join(_NEEDED)} as bases and coefficients."
            )
    if len(bases) != len(coefficients) + 1:
        raise ValueError(
            f"{len(bases)} bases and {len(coefficients)} coefficients do not fit: "
            "each base but the last needs one coefficient, and the last base has "
            "what remains of one."
        )
    return bases, coefficients


def _check_effects(sampler: Any, mixture: bool) -> None:
    """Raise ValueError where a parameter that is not its default would not count."""
    kind, own = sampler.kind, sampler.coefficients is None
    clustered = kind == "clustered" and sampler.bases is None
    counts = {  # whether the parameter counts, and where it does
        "n_clusters": (clustered, "kind='clustered' without bases of your own"),
        "mixture": (
            mixture,
            "kind='clustered' without bases and coefficients of your own",
        ),
        "diagonal": (
            clustered and not mixture,
            "kind='clustered' and mixture='zero-one' without bases of your own",
        ),
        "lambda_sigma": (
            mixture or (own and kind == "gaussian"),
            "kind='gaussian' or mixture='gaussian' without coefficients of your own",
        ),
        "n_coefficients": (
            mixture or (own and kind != "clustered"),
            "mixture='gaussian' or another kind than 'clustered' without "
            "coefficients of your own",
        ),
    }
    defaults = type(sampler)().get_params(deep=False)
    for name, (has_effect, where) in counts.items():
        value, default = getattr(sampler, name), defaults[name]
        # one cluster is none, which is true of every kind; scikit-learn's checks set it
        harmless = value == default or (name == "n_clusters" and value == 1)
        if not harmless and not has_effect:
            raise ValueError(
                f"{name}={value!r} has no effect with kind={kind!r} and the other "
                f"parameters given: it counts for {where}. Leave it at its default, "
                f"{default!r}, or change these."
            )


def _own_bases(sampler: Any) -> list[BaseFeatureSampler]:
    coupling = sampler.coupling
    if sampler.kind == "clustered":
        options = {"n_clusters": sampler.n_clusters, "diagonal": sampler.diagonal}
        return [ClusteredSampler(coupling=coupling, **options)]
    pairs = get_coupling(coupling, type(sampler).__name__)
    if not pairs.weight_dependent:  # angles that follow the norms make no pairs
        pairs = Antithetic(pairs)
    positive = (
        OPRFSampler(coupling=pairs)
        if sampler.kind == "optimal"
        else PositiveRBFSampler(coupling=pairs, center=False)
    )
    return [positive, TrigRBFSampler(coupling=coupling)]


def _own_coefficients(sampler: Any) -> list[BaseFeatureSampler]:
    n, coupling = sampler.n_coefficients, _exact_coupling(sampler)
    if sampler.kind in ("optimal", "angular"):
        return [AngularCoefficient(n_components=n, coupling=coupling)]
    if sampler.kind == "gaussian":
        options = {"sigma": sampler.lambda_sigma, "coupling": coupling}
        return [GaussianCoefficient(n_components=2 * n, **options)]
    return []


def _exact_coupling(sampler: Any) -> str | Coupling:
    """Return the coupling of coefficients: few directions need their exact law."""
    coupling = get_coupling(sampler.coupling, type(sampler).__name__)
    return coupling if coupling.exact else "orthogonal"


def _mixture_parts(
    sampler: Any, samples: list[Sample], rng: np.random.Generator
) -> tuple[list[Any], list[Any]]:
    """Return base maps and coefficients for all pairs of clusters, and the rest."""
    queries, keys = cluster_sides(samples, sampler.n_clusters, None, rng)
    coupling, sigma = sampler.coupling, sampler.lambda_sigma
    n, bases, coefficients = sampler.n_coefficients, [], []
    for i, j in massive_pairs(queries, keys, None):
        a = pair_diagonal(queries, keys, i, j, real=True, moments=True).real
        bases.append(ComplexExponentialSampler(a, coupling=coupling))
        options = {"sigma": sigma, "n_components": n, "coupling": coupling}
        coefficients.append(MixtureCoefficient(a, **options))
    return [*bases, TrigRBFSampler(coupling=coupling)], coefficients
