"""Attention in linear time from feature maps, alone or blended with a near field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from sklearn.base import clone
from sklearn.utils import check_random_state

from ..arrays.loops import itemsize, refuse_not_finite
from ..arrays.namespaces import Array, joined, namespace_of, to_host, values_are_known
from ..samplers import (
    DERFSampler,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
    angular_hybrid,
)
from ._causal import causal_blocks
from ._features import DETERMINISTIC, check_attention_inputs, resolve
from ._softmax import softmax_attention
from ._state import LinearAttentionState, logs_of_mask, with_column_of_ones

_BLOCK_BYTES = 2**20  # bytes of the features of a chunk, about the size of an L2 cache
_CAUSAL_ROWS = 128  # rows per causal chunk, within which all pairs are computed
_SIGNED_ROWS = 32  # features of both signs: pairs are computed per frequency group


def linear_attention(
    q: Array,
    k: Array,
    v: Array,
    feature_map: object,
    *,
    causal: bool = False,
    key_mask: Array | None = None,
    chunk_size: int | None = None,
) -> Array:
    r"""Estimate softmax attention in time and memory linear in the number of rows.

    Attention returns, for each query, an average of the values with weights :math:`e^{q
    \cdot k / \sqrt d}`, so exact attention computes a weight for every query-key pair.
    This function estimates the weights by inner products of features f and g, so that
    sums over the keys can be computed once and reused for all queries.

    Parameters
    ----------
    q : array of shape (..., n_queries, d)
        Queries, as a float32 or float64 array of any library that follows the array API
        standard (NumPy, torch, JAX, CuPy). The leading axes stand for batches and
        heads.
    k : array of shape (..., n_keys, d)
        Keys.
    v : array of shape (..., n_keys, e)
        Values.
    feature_map : fitted sampler, FeatureMap, str, or list of these
        A sampler with ``kernel="softmax"``, or its ``map_``. Fit the sampler with
        ``sigma=d**-0.25`` on queries (``X``) and keys (``X_key``) that have the same
        distributions as q and k. If a map was fitted with another sigma, it is rescaled
        and still estimates exp(q.k / sqrt(d)) without bias, but the parameter A of
        :class:`~sklearn_crt.OPRFSampler` is then no longer optimal. The names
        ``"elu+1"``, ``"elu(-)+1"`` and ``"relu"`` select deterministic features, which
        do not approximate softmax attention but define a different kind of attention. A
        list contains one map per head, for arrays of shape (..., n_heads, n_rows, d).
    causal : bool, default=False
        Whether row i attends only to keys 0 to i. If True, fit the map on earlier
        batches, because parameters computed from the entire sequence would leak
        information about later rows.
    key_mask : array of shape (..., n_keys), default=None
        Boolean mask that is True for the keys to attend to, or numbers that are added
        to the scores of the keys.
    chunk_size : int, default=None
        Number of rows to process at a time; if ``causal``, a power of two. By default,
        chunks fit into the cache; if ``causal``, they have 128 rows (32 for features
        that can be negative).

    Returns
    -------
    output : array of shape (..., n_queries, e)
        Averages of the values, as an array of the same library and dtype as q. The
        output is 0 for a query that attends to no key. If the features can be negative
        and the denominator in the formula below is not well above its standard error,
        the output is shrunk towards the mean of the values that the query attends to,
        as in the Nadaraya-Watson estimators. As in exact attention, the output is NaN
        if the query or a key that it attends to is not finite.

    Raises
    ------
    TypeError, ValueError
        If the shapes of the arrays do not match each other or the map, or if q or k is
        a NumPy array with non-finite values.

    See Also
    --------
    softmax_attention : Exact attention, which this function approximates.
    LinearAttentionState : Causal attention, one token at a time.

    Notes
    -----
    For L rows and m features, the cost is O(L m (d + e)). Causal attention in chunks of
    C rows costs another O(L C (m + e)). Output i is

    .. math:: \frac{f(q_i)^\top \sum_j g(k_j) v_j}{f(q_i)^\top \sum_j g(k_j)}

    (equation 3 of [1]_; see also [2]_). The output is computed from the logarithms of
    the features. For each feature, the maximum over the keys is factored out and moved
    to the queries. The terms of each query are then divided by the largest term.
    Neither step changes the ratio. With positive features, the output is therefore a
    weighted average of the values even if q and k are so large that the weights
    overflow in float32. Causal attention uses running maxima.

    The absence of overflow does not imply accuracy: if queries and keys have 64 columns
    with unit variance, no affordable number of features gives an accurate result. For
    fewer than about 2 m rows, exact attention is faster.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.
    .. [2] K. Choromanski et al., "Rethinking Attention with Performers", ICLR 2021,
       :arxiv:`2009.14794`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.attention import linear_attention, softmax_attention
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = 0.5 * rng.normal(size=(3, 1000, 16))
    >>> sampler = OPRFSampler(
    ...     sigma=16**-0.25, kernel="softmax", n_components=256, random_state=0
    ... ).fit(q, X_key=k)
    >>> error = linear_attention(q, k, v, sampler) - softmax_attention(q, k, v)
    >>> bool(abs(error).max() < 0.02)
    True
    """
    check_attention_inputs(q, k, v, causal)
    refuse_not_finite(q, "q")
    refuse_not_finite(k, "k")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"chunk_size must be at least 1, got {chunk_size}.")
    if causal and chunk_size is not None and chunk_size & (chunk_size - 1):
        raise ValueError(
            f"chunk_size must be a power of two if causal=True, got {chunk_size}."
        )
    resolved, bias = resolve(feature_map, k), logs_of_mask(key_mask, k)
    arrays = (q, k, with_column_of_ones(v), bias)
    run: Callable[..., Array] = _causal if causal else _bidirectional
    if not isinstance(resolved, list):
        return run(LinearAttentionState(resolved), *arrays, chunk_size)
    heads = [
        run(LinearAttentionState(one), *_head(arrays, h, len(resolved)), chunk_size)
        for h, one in enumerate(resolved)
    ]
    return namespace_of(q).stack(heads, axis=-3)


def fmm_attention(
    q: Array,
    k: Array,
    v: Array,
    feature_maps: Sequence[object] = ("elu+1", "elu(-)+1"),
    *,
    band: int,
    near_weight: float | Array = 0.5,
    far_weight: float | Array = 0.5,
    causal: bool = False,
    key_mask: Array | None = None,
) -> Array:
    r"""Combine exact attention to neighbouring keys with linear attention to all keys.

    Attention between distant positions often varies slowly with the position, so a few
    features approximate it well. Attention between neighbouring positions varies
    faster, so it is computed exactly.

    Parameters
    ----------
    q, k, v : array of shape (..., n_rows, d), (..., n_rows, d), (..., n_rows, e)
        Queries, keys and values, as in :func:`linear_attention`.
    feature_maps : list, default=("elu+1", "elu(-)+1")
        The r feature maps for linear attention to all keys (the far field), each
        specified like ``feature_map`` in :func:`linear_attention`.
    band : int
        The near field of row i consists of the keys j with abs(i - j) <= band.
    near_weight, far_weight : float or array, default=0.5
        Positive weights of the near field and of each far-field map, for instance
        sigmoids of trainable parameters. Arrays, such as one weight per head, are
        broadcast against the shape (..., n_rows, e).
    causal : bool, default=False
        Whether row i attends only to keys 0 to i.
    key_mask : array of shape (..., n_rows), default=None
        Mask for the keys, as in :func:`linear_attention`.

    Returns
    -------
    output : array of shape (..., n_rows, e)
        Attention outputs. The attention weights of a query sum to near_weight + r *
        far_weight.

    Raises
    ------
    TypeError, ValueError
        For the same reasons as in :func:`softmax_attention` and
        :func:`linear_attention`.

    Notes
    -----
    Let D be the attention matrix of the near field, and :math:`\phi_1 ... \phi_r` the
    feature maps. The output is [1]_

    .. math:: w_1 D V + w_2 \sum_{l=1}^r \frac{\phi_l(Q) (\phi_l(K)^\top V)}
       {\phi_l(Q) (\phi_l(K)^\top 1)} ,

    which takes O(L (band + r m) (d + e)) operations for L rows. A map with m features
    approximates the attention matrix by a matrix of rank m. With r maps, the rank is at
    most r m - (r - 1), because each matrix maps the vector of ones to itself.

    References
    ----------
    .. [1] T. M. Nguyen et al., "FMMformer: Efficient and Flexible Transformer via
       Decomposed Near-field and Far-field Attention", NeurIPS 2021,
       :arxiv:`2108.02347`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.attention import fmm_attention
    >>> q, k, v = np.random.default_rng(0).normal(size=(3, 50, 4))
    >>> fmm_attention(q, k, np.ones_like(v), band=3).round(6)[0]
    array([1.5, 1.5, 1.5, 1.5])
    """
    near = softmax_attention(q, k, v, causal=causal, band=band, key_mask=key_mask)
    output = near_weight * near
    for feature_map in feature_maps:
        far = linear_attention(q, k, v, feature_map, causal=causal, key_mask=key_mask)
        output = output + far_weight * far
    return output


def _head(arrays, h, n_heads):
    """Yield the arrays of one head; an axis of length one is shared by all heads."""
    for array in arrays:
        if array is None or array.ndim < 3:
            yield array
        else:
            yield array[..., h if array.shape[-3] == n_heads else 0, :, :]


def _causal(state, q, k, values, bias, chunk_size):
    return causal_rows(state, q, k, values, bias, chunk_size)[0]


def _bidirectional(state, q, k, values, bias, chunk_size):
    for rows in _chunks(k, state, chunk_size):
        part = None if bias is None else bias[..., rows, :]
        state = state._plus(k[..., rows, :], values[..., rows, :], part)
    output = [state.attend(q[..., rows, :]) for rows in _chunks(q, state, chunk_size)]
    return joined(output, axis=-2)


def causal_rows(
    state: LinearAttentionState,
    q: Array,
    k: Array,
    values: Array,
    bias: Array | None,
    chunk_size: int | None = None,
) -> tuple[Array, LinearAttentionState]:
    """Return the causal attention of new rows, and the state after these rows."""
    # values (..., n_rows, n_values + 1), bias (..., n_rows, 1)
    output, usual = [], _SIGNED_ROWS
    if state.feature_map.is_positive:
        usual = _CAUSAL_ROWS
    n = k.shape[-2]
    if isinstance(n, int) and n == 1:
        return state._causal(q, k, values, bias)
    if not values_are_known(k):
        blocks = partial(causal_blocks, size=chunk_size or usual)
        return state._causal(q, k, values, bias, blocks)
    for rows in _binary_chunks(n, chunk_size or usual):
        part = None if bias is None else bias[..., rows, :]
        own, keys, targets = (array[..., rows, :] for array in (q, k, values))
        chunk, state = state._causal(own, keys, targets, part)
        output.append(chunk)
    return joined(output, axis=-2), state


def _chunks(rows, state, chunk_size) -> Iterator[slice]:
    n = rows.shape[-2]
    if chunk_size is None and not values_are_known(rows):
        yield slice(None)
        return
    if chunk_size is None:
        width = max(rows.shape[-1], state.feature_map.n_components or 0)
        n_bytes = math.prod(rows.shape[:-2]) * width * itemsize(rows)
        chunk_size = max(128, _BLOCK_BYTES // n_bytes)
    for start in range(0, n, chunk_size):
        yield slice(start, min(start + chunk_size, n))


def _binary_chunks(n, chunk_size) -> Iterator[slice]:
    """Yield slices whose lengths are powers of two."""
    start = 0
    while start < n:
        while start + chunk_size > n:
            chunk_size //= 2
        yield slice(start, start + chunk_size)
        start += chunk_size


S = TypeVar("S")


def fit_heads(sampler: S, q: Array, k: Array) -> list[S]:
    """Fit one sampler per head, each with its own frequencies and parameters.

    Parameters
    ----------
    sampler : sampler
        Sampler with ``kernel="softmax"``. It is cloned for each head, with ``sigma``
        set to d^(-1/4).
    q, k : array of shape (..., n_heads, n_rows, d)
        Queries and keys. The sampler of a head is fitted on the rows of this head in
        all batches. For causal attention, pass only earlier batches.

    Returns
    -------
    samplers : list of sampler
        The fitted samplers, for use as ``feature_map`` in :func:`linear_attention`. To
        add more rows for a head, call the ``partial_fit`` method of its sampler.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.attention import fit_heads, linear_attention
    >>> rng = np.random.default_rng(0)
    >>> scale = np.array([0.3, 1.0])[:, None, None]  # for two heads
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
        heads = (to_host(array[..., h, :, :]) for array in (q, k))
        queries, keys = (rows.reshape(-1, rows.shape[-1]) for rows in heads)
        one = clone(sampler).set_params(
            sigma=queries.shape[-1] ** -0.25, random_state=rng.randint(2**31 - 1)
        )
        samplers.append(one.fit(queries, X_key=keys))
    return samplers


_SAMPLERS = {
    "favor+": PositiveRBFSampler(kernel="softmax"),
    "favor++": OPRFSampler(kernel="softmax"),
    "derf": DERFSampler(kernel="softmax", coupling="antithetic"),
    "simplex": OPRFSampler(kernel="softmax", coupling="simplex"),
    "trigonometric": TrigRBFSampler(kernel="softmax"),
    "hybrid": angular_hybrid(kernel="softmax"),
}


def get_sampler(feature_map: Any, n_components: int) -> Any:
    """Return the sampler for the ``feature_map`` argument of a module."""
    if isinstance(feature_map, str):
        if feature_map in DETERMINISTIC:
            return feature_map
        if feature_map not in _SAMPLERS:
            raise ValueError(
                f"feature_map={feature_map!r} must be one of "
                f"{sorted((*_SAMPLERS, *DETERMINISTIC))} or a sampler."
            )
        sampler = _SAMPLERS[feature_map]
        feature_map = clone(sampler).set_params(n_components=n_components)
    feature_map = clone(feature_map)
    # A new module has no rows from which to compute a centre. DERF uses running means
    # later, and positive discrete features always subtract the column minima.
    params = feature_map.get_params(deep=False)
    is_positive = params.get("positive", False)
    if "center" in params and not is_positive and type(feature_map) is not DERFSampler:
        feature_map.set_params(center=False)
    return feature_map
