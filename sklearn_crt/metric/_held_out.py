"""The error of kernel averages on rows that a metric has not seen."""

from __future__ import annotations

import numpy as np

from .._kernels import log_weights, one_hot_weights, sq_distances
from ._targets import Sample

_MULTIPLES = 2.0 ** np.arange(-1, 4.6, 0.5)  # of one over the root of total variance
_LEAST = 1e-3  # of a probability: a row that is missed counts for as much


def held_out_losses(
    L: np.ndarray, keys: Sample, queries: Sample, n_classes: int | None
) -> tuple[np.ndarray, float]:
    """Return the loss of each query at the best sigma, and this sigma.

    The losses are minus the log of the probability of the own class, or squared errors
    over the variance of the targets.
    """
    # L (n_features, r) -> (n_queries,)
    Z, Q = (side.rows @ L for side in (keys, queries))
    center = np.average(Z, axis=0, weights=keys.weights)
    variance = np.average((Z - center) ** 2, axis=0, weights=keys.weights).sum()
    base = 1 / np.sqrt(variance) if variance > 0 else 1.0
    Z, Q = ((rows - center).astype(np.float32) * np.float32(base) for rows in (Z, Q))
    squares = sq_distances(Q, Z)
    if n_classes is None:
        spread = np.average(
            (keys.codes - np.average(keys.codes, axis=0, weights=keys.weights)) ** 2,
            axis=0,
            weights=keys.weights,
        )
        spread[spread == 0] = 1.0
        targets = keys.codes
    else:
        targets = one_hot_weights(keys.codes, np.ones(len(Z)), n_classes, float)
    targets = (targets * keys.weights[:, None]).astype(np.float32)
    weights = keys.weights.astype(np.float32)[:, None]
    encoded = np.hstack([targets, weights])
    best: tuple[float, np.ndarray, float] | None = None
    for multiple in _MULTIPLES:
        shares, _ = log_weights(squares * np.float32(-0.5 * multiple**2), normal=True)
        found = (shares @ encoded).astype(np.float64)
        found = found[:, :-1] / found[:, -1:]
        if n_classes is None:
            losses = np.mean((found - queries.codes) ** 2 / spread, axis=1)
        else:
            own = found[np.arange(len(found)), queries.codes]
            losses = -np.log(np.clip(own, _LEAST, 1))
        mean = np.average(losses, weights=queries.weights)
        if best is None or mean < best[0]:
            best = mean, losses, base * multiple
    assert best is not None
    return best[1], best[2]
