"""The samplers that names of random features stand for."""

from __future__ import annotations

from typing import Any

from sklearn.base import clone

from ..samplers import (
    HybridSampler,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)
from ._features import DETERMINISTIC

_SAMPLERS = {
    "favor+": PositiveRBFSampler(kernel="softmax"),
    "favor++": OPRFSampler(kernel="softmax"),
    "simplex": OPRFSampler(kernel="softmax", coupling="simplex"),
    "trigonometric": TrigRBFSampler(kernel="softmax"),
    "hybrid": HybridSampler(kernel="softmax", kind="angular"),
}


def get_sampler(feature_map: Any, n_components: int) -> Any:
    """Return the sampler of a ``feature_map`` argument of a module.

    Parameters
    ----------
    feature_map : str or sampler
        A name, or a sampler, which is cloned.
    n_components : int
        Number of columns, where a name is given.

    Returns
    -------
    sampler : sampler or str
        Unfitted and without a centre; the name of a deterministic map as it is.

    Raises
    ------
    ValueError
        If there is no such name.
    """
    if isinstance(feature_map, str):
        if feature_map in DETERMINISTIC:
            return feature_map
        if feature_map not in _SAMPLERS:
            raise ValueError(
                f"feature_map={feature_map!r} is none of "
                f"{sorted((*_SAMPLERS, *DETERMINISTIC))}, nor a sampler."
            )
        sampler = _SAMPLERS[feature_map]
        feature_map = clone(sampler).set_params(n_components=n_components)
    feature_map = clone(feature_map)
    if "center" in feature_map.get_params():
        feature_map.set_params(center=False)  # there are no rows to be centred yet
    return feature_map
