"""Maps for the heads of attention, and the statistics behind their parameter A."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from .._arrays import Array, namespace_of


def fit_heads(sampler: Any, q: Array, k: Array) -> list[Any]:
    """Fit one sampler a head, each with frequencies and parameters of its own.

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


def optimal_A(mean_sq_sum: Array, n_features: int) -> Array:
    """Return the A of least mean log second moment for means of |x + y|^2.

    Parameters
    ----------
    mean_sq_sum : array
        Means q over all pairs of queries x and keys y, at unit bandwidth.
    n_features : int
        Their dimension d.

    Returns
    -------
    A : array
        Of the same shape, 0 where q is 0 and negative elsewhere: rho = 1 / (1 - 8A) is
        the positive root of 2 q rho^2 + (2q + d) rho = d (CRT, theorem 3.3), written so
        that nothing cancels.
    """
    xp, q, d = namespace_of(mean_sq_sum), mean_sq_sum, n_features
    root = xp.sqrt((2 * q + d) ** 2 + 8 * d * q)
    small = 2 * q <= d
    denominator = xp.where(small, d - 2 * q + root, xp.ones_like(q))
    return xp.where(small, -q / denominator, -(2 * q - d + root) / (16 * d))


def mean_sq_sum(q: Array, k: Array) -> Array:
    """Return the mean of |x + y|^2 over all pairs of rows x = q / d^(1/4), y likewise.

    Parameters
    ----------
    q : array of shape (..., n_queries, d)
        Queries.
    k : array of shape (..., n_keys, d)
        Keys.

    Returns
    -------
    mean : array of shape (..., 1, 1)
        In O(L d): |x|^2 and |y|^2 on average plus twice the inner product of the means
        (CRT, equation 8).
    """
    xp, scale = namespace_of(q, k), q.shape[-1] ** -0.5
    squares = [
        xp.mean(xp.sum(rows * rows, axis=-1, keepdims=True), axis=-2, keepdims=True)
        for rows in (q, k)
    ]
    means = [xp.mean(rows, axis=-2, keepdims=True) for rows in (q, k)]
    cross = xp.sum(means[0] * means[1], axis=-1, keepdims=True)
    return scale * (squares[0] + squares[1] + 2 * cross)
