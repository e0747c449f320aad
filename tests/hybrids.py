"""The hybrids that tests go through, by name, as functions of their parameters."""

from __future__ import annotations

from functools import partial

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import Antithetic, get_coupling
from sklearn_crt.samplers import (
    AngularCoefficient,
    HybridSampler,
    angular_hybrid,
    clustered_hybrid,
    gaussian_hybrid,
)

KINDS = {
    "optimal": HybridSampler,
    "angular": angular_hybrid,
    "gaussian": partial(gaussian_hybrid, lambda_sigma=0.8),
    "clustered": clustered_hybrid,
    "real": partial(clustered_hybrid, diagonal="real"),
}


def named(*parts: object) -> list[tuple[str, object]]:
    """Return pairs of a name and a part."""
    return [(f"part{i}", part) for i, part in enumerate(parts)]


def hybrid(kind: str = "angular", **params: object) -> HybridSampler:
    """Return an unfitted hybrid; one with parts of its own has no other kind."""
    make = HybridSampler if {"bases", "coefficients"} & set(params) else KINDS[kind]
    return make(**{"sigma": 1.0, "random_state": 0} | params)


def optimal_parts(coupling: str) -> dict[str, list[object]]:
    """Return the default parts of a hybrid, with a coupling."""
    pairs = Antithetic(get_coupling(coupling, "hybrid"))
    return {
        "bases": named(OPRFSampler(coupling=pairs), TrigRBFSampler(coupling=coupling)),
        "coefficients": named(AngularCoefficient(n_components=1, coupling=coupling)),
    }
