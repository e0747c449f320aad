"""Which maps a kind of hybrid is made of, and which parameters count for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...frequencies import get_coupling
from .._trig_rbf import TrigRBFSampler
from ._angular import AngularCoefficient
from ._clustered import ClusteredSampler
from ._clusters import check_counts, cluster_sides, massive_pairs, pair_diagonal
from ._complex_exponential import ComplexExponentialSampler
from ._gaussian import GaussianCoefficient
from ._mixture import MixtureCoefficient
from ._parts import Sample
from ._positive_pair import PositivePairSampler

_NEEDED = ("fit", "transform", "exact_kernel", "kernel_variance")  # of each map


def unfitted_parts(
    sampler: Any, samples: list[Sample], rng: np.random.Generator
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the base maps and coefficients that the parameters of a hybrid ask for.

    Parameters
    ----------
    sampler : HybridSampler
        With the parameters.
    samples : list of Sample
        Rows of each side at unit bandwidth.
    rng : numpy.random.Generator
        For clusters.

    Returns
    -------
    bases, coefficients : list of samplers
        Unfitted.

    Raises
    ------
    ValueError
        If a parameter has no effect, or parts are no samplers or too many.
    """
    _check_effects(sampler)
    if sampler.kind == "clustered":
        check_counts(sampler.n_clusters)
        if _is_mixture(sampler):
            return _mixture_parts(sampler, samples, rng)
    bases, coefficients = sampler.bases, sampler.coefficients
    bases = _own_bases(sampler) if bases is None else bases
    coefficients = _own_coefficients(sampler) if coefficients is None else coefficients
    _check_parts(bases, coefficients)
    return bases, coefficients


def _is_mixture(sampler):
    own = sampler.bases is None and sampler.coefficients is None
    return own and sampler.kind == "clustered" and sampler.mixture == "gaussian"


def _check_effects(sampler):
    """Raise ValueError where a parameter that is not its default would not count."""
    clustered, own_bases = sampler.kind == "clustered", sampler.bases is None
    mixture, own = _is_mixture(sampler), sampler.coefficients is None
    counts = {  # default, whether the parameter counts, and where it does
        "n_clusters": (
            2,
            clustered and own_bases,
            "kind='clustered' without bases of one's own",
        ),
        "mixture": (
            "zero-one",
            mixture,
            "kind='clustered' without bases and coefficients of one's own",
        ),
        "diagonal": (
            "complex",
            clustered and own_bases and not mixture,
            "kind='clustered' and mixture='zero-one' without bases of one's own",
        ),
        "lambda_sigma": (
            1.0,
            mixture or (own and sampler.kind == "gaussian"),
            "kind='gaussian' or mixture='gaussian' without coefficients of one's own",
        ),
        "n_coefficients": (
            "auto",
            mixture or (own and not clustered),
            "kind='angular', kind='gaussian' or mixture='gaussian' without "
            "coefficients of one's own",
        ),
    }
    for name, (default, has_effect, where) in counts.items():
        value = getattr(sampler, name)
        # one cluster is none, which is true of every kind; scikit-learn's checks set it
        harmless = value == default or (name == "n_clusters" and value == 1)
        if not harmless and not has_effect:
            raise ValueError(
                f"{name}={value!r} has no effect with kind={sampler.kind!r} and the "
                f"other parameters given: it counts for {where}. Leave it at its "
                f"default, {default!r}, or change these."
            )


def _check_parts(bases, coefficients):
    """Raise ValueError unless these are samplers, and as many as they should be."""
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


def _own_bases(sampler):
    coupling = sampler.coupling
    if sampler.kind != "clustered":
        trigonometric = TrigRBFSampler(coupling=coupling)
        return [PositivePairSampler(coupling=coupling), trigonometric]
    options = {"n_clusters": sampler.n_clusters, "diagonal": sampler.diagonal}
    return [ClusteredSampler(coupling=coupling, **options)]


def _own_coefficients(sampler):
    if sampler.kind == "clustered":
        return []
    # few directions, whose signs need their exact law
    coupling = get_coupling(sampler.coupling, type(sampler).__name__)
    exact = coupling if coupling.exact else "orthogonal"
    if sampler.kind == "angular":
        return [AngularCoefficient(coupling=exact)]
    return [GaussianCoefficient(sigma=sampler.lambda_sigma, coupling=exact)]


def _mixture_parts(sampler, samples, rng):
    """Return base maps and coefficients for all pairs of clusters, and the rest."""
    queries, keys = cluster_sides(samples, sampler.n_clusters, None, rng)
    coupling, sigma = sampler.coupling, sampler.lambda_sigma
    bases, coefficients = [], []
    for i, j in massive_pairs(queries, keys, None):
        a = pair_diagonal(queries, keys, i, j, real=True, moments=True).real
        bases.append(ComplexExponentialSampler(a, coupling=coupling))
        coefficients.append(MixtureCoefficient(a, sigma=sigma, coupling=coupling))
    return [*bases, TrigRBFSampler(coupling=coupling)], coefficients
