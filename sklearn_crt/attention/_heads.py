"""Samplers for the heads of attention: those of names, and a fit for each head."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._array import Array
from ..samplers import (
    DERFSampler,
    HybridSampler,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)
from ._features import DETERMINISTIC

S = TypeVar("S")


def fit_heads(sampler: S, q: Array, k: Array) -> list[S]:
    """Fit one sampler per head, each with frequencies and parameters of its own.

    Parameters
    ----------
    sampler : sampler
        With ``kernel="softmax"``; it is cloned, and its sigma is set to d^(-1/4).
    q, k : array of shape (..., n_heads, n_rows, d)
        Queries and keys; a head is fitted on its rows in all batches. Where attention
        is causal take earlier batches, never the rows that it is applied to.

    Returns
    -------
    samplers : list of sampler
        The ``feature_map`` of :func:`linear_attention`. With ``partial_fit`` a sampler
        takes in more rows of its head.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.attention import fit_heads, linear_attention
    >>> rng = np.random.default_rng(0)
    >>> scale = np.array([0.3, 1.0])[:, None, None]  # of two heads
    >>> q, k, v = (scale * rng.normal(size=(5, 2, 30, 8)) for _ in range(3))
    >>> samplers = fit_heads(OPRFSampler(kernel="softmax", random_state=0), q, k)
    >>> [round(sampler.A_, 2) for sampler in samplers]
    [-0.03, -0.23]
    >>> linear_attention(q, k, v, samplers).shape
    (5, 2, 30, 8)
    """
    rng = check_random_state(getattr(sampler, "random_state", None))
    samplers = []
    for h in range(q.shape[-3]):
        queries, keys = (_as_numpy(array[..., h, :, :]) for array in (q, k))
        one = clone(sampler).set_params(
            sigma=queries.shape[-1] ** -0.25, random_state=rng.randint(2**31 - 1)
        )
        samplers.append(one.fit(queries, X_key=keys))
    return samplers


def _as_numpy(rows):
    """Return rows as a NumPy table."""
    if hasattr(rows, "detach"):
        rows = rows.detach().cpu()
    return np.asarray(rows).reshape(-1, rows.shape[-1])


_SAMPLERS = {
    "favor+": PositiveRBFSampler(kernel="softmax"),
    "favor++": OPRFSampler(kernel="softmax"),
    "derf": DERFSampler(kernel="softmax", coupling="antithetic"),
    "simplex": OPRFSampler(kernel="softmax", coupling="simplex"),
    "trigonometric": TrigRBFSampler(kernel="softmax"),
    "hybrid": HybridSampler(kernel="softmax", kind="angular"),
}


def get_sampler(feature_map: Any, n_components: int) -> Any:
    """Return the sampler of a ``feature_map`` argument of a module."""
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
    # there are no rows to be centred yet; DERF follows running means
    if "center" in feature_map.get_params() and type(feature_map) is not DERFSampler:
        feature_map.set_params(center=False)
    return feature_map
