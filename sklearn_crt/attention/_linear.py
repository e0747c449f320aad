"""Attention in linear time from feature maps, alone or blended with a near field."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from sklearn.base import clone
from sklearn.utils import check_random_state

from .._array import (
    Array,
    joined,
    namespace_of,
    refuse_not_finite,
    to_host,
    values_are_known,
)
from .._kernels import itemsize
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
_CAUSAL_ROWS = 128  # rows of a causal chunk, within which all pairs are computed
_SIGNED_ROWS = 32  # the same if all pairs are computed for each group of frequencies


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
    \cdot k / \sqrt d}`, so exact attention computes a number for each pair of rows.
    With features f and g whose inner products estimate these weights, sums over the
    keys are computed once and used for all queries.

    Parameters
    ----------
    q : array of shape (..., n_queries, d)
        Queries, float32 or float64, of any library that follows the array API standard
        (NumPy, torch, JAX, CuPy). Leading axes are batch and heads.
    k : array of shape (..., n_keys, d)
        Keys.
    v : array of shape (..., n_keys, e)
        Values.
    feature_map : fitted sampler, FeatureMap, str, or list of these
        A sampler with ``kernel="softmax"``, or its ``map_``, fitted on rows like q (and
        k as its ``X_key``) with ``sigma=d**-0.25``. The scores are q.k / sqrt(d) and
        their estimate is unbiased whatever its sigma was, but the parameter A of
        :class:`~sklearn_crt.OPRFSampler` is optimal only for this sigma. The names
        ``"elu+1"``, ``"elu(-)+1"`` and ``"relu"`` denote deterministic features, which
        do not approximate softmax attention but define a different kind of attention. A
        list contains one map per head, for arrays of shape (..., n_heads, n_rows, d).
    causal : bool, default=False
        Whether row i attends only to the keys 0 to i. In this case, fit the map on
        earlier batches: parameters that are computed from the whole sequence would leak
        information about later rows.
    key_mask : array of shape (..., n_keys), default=None
        Boolean mask that is True for the keys to attend to, or numbers that are added
        to the scores of the keys.
    chunk_size : int, default=None
        Number of rows that are processed at a time; a power of two if ``causal``. By
        default as many as fit into a cache; 128 if ``causal`` (32 for features of both
        signs).

    Returns
    -------
    output : array of shape (..., n_queries, e)
        Averages of the values, in the library and type of q. The output is 0 for a
        query that attends to no key. If a map has features of both signs and the
        estimated denominator is not well above its error, the output is partly or
        completely replaced by the mean of the values that the query attends to, as in
        the Nadaraya-Watson estimators. As in exact attention, it is NaN if the query or
        one of these keys is not finite.

    Raises
    ------
    TypeError, ValueError
        If the shapes of the arrays and the map do not match, or if q or k is a NumPy
        array with values that are not finite.

    See Also
    --------
    softmax_attention : What is estimated.
    LinearAttentionState : Causal attention, one token at a time.

    Notes
    -----
    With m features the cost is O(L m (d + e)). Causal attention with chunks of C rows
    needs another O(L C (m + e)). Output i is

    .. math:: \frac{f(q_i)^\top \sum_j g(k_j) v_j}{f(q_i)^\top \sum_j g(k_j)}

    (equation 3 of [1]_; [2]_). The output is computed from the logarithms of the
    features. The maximum of each log feature over the keys is moved to the queries, and
    each query is then divided by its largest term; both factors cancel in the ratio.
    Positive features therefore give a weighted average of the values at any scale of q
    and k, also in float32. In causal attention, running maxima are used.

    This does not make the estimate accurate. With entries of unit variance and d = 64,
    no affordable number of features is accurate. For fewer than about 2 m rows, exact
    attention is faster.

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
            f"chunk_size must be a power of two where causal, got {chunk_size}."
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

    Attention between distant positions often varies slowly, so a few features
    approximate it well. Attention between neighbouring positions does not, so it is
    computed exactly.

    Parameters
    ----------
    q : array of shape (..., n_rows, d)
        Queries.
    k : array of shape (..., n_rows, d)
        Keys.
    v : array of shape (..., n_rows, e)
        Values.
    feature_maps : list, default=("elu+1", "elu(-)+1")
        The r feature maps of the far field, each as ``feature_map`` in
        :func:`linear_attention`.
    band : int
        The near field of row i consists of the keys with abs(i - j) <= band.
    near_weight, far_weight : float or array, default=0.5
        Weights of the near field and of each far field. They are positive, for instance
        the sigmoid of free parameters. Arrays, for instance with one weight per head,
        are broadcast against (..., n_rows, e).
    causal : bool, default=False
        Whether row i attends only to the keys 0 to i.
    key_mask : array of shape (..., n_rows), default=None
        Boolean mask that is True for the keys to attend to, or numbers that are added
        to the scores of the keys.

    Returns
    -------
    output : array of shape (..., n_rows, e)
        Attention outputs. The weights of the values in a row add up to near_weight + r
        far_weight.

    Raises
    ------
    TypeError, ValueError
        As for :func:`softmax_attention` and :func:`linear_attention`.

    Notes
    -----
    With the near field D and feature maps :math:`\phi_1 ... \phi_r` [1]_,

    .. math:: w_1 D V + w_2 \sum_{l=1}^r \frac{\phi_l(Q) (\phi_l(K)^\top V)}
       {\phi_l(Q) (\phi_l(K)^\top 1)} ,

    in time O(L (band + r m) (d + e)). A map with m features approximates the matrix by
    one of rank m. With r maps the rank is at most r m - (r - 1), because all matrices
    preserve the vector of ones.

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
    """Return the arrays of one head; an axis of length one applies to all heads."""
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
    """Return the output of rows, each after its token, and the state after them."""
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
    """Yield chunks whose numbers of rows are powers of two."""
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
        Sampler with ``kernel="softmax"``. It is cloned, and ``sigma`` of the copies is
        set to d^(-1/4).
    q, k : array of shape (..., n_heads, n_rows, d)
        Queries and keys. Each head is fitted on its rows in all batches. For causal
        attention, use earlier batches, never the rows to which attention is applied.

    Returns
    -------
    samplers : list of sampler
        The ``feature_map`` of :func:`linear_attention`. The fitted samplers. More rows
        of a head can be added by ``partial_fit`` of its sampler.

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
    # without rows there is no centre yet; DERF uses running means, and positive
    # discrete features always subtract the minima
    params = feature_map.get_params(deep=False)
    is_positive = params.get("positive", False)
    if "center" in params and not is_positive and type(feature_map) is not DERFSampler:
        feature_map.set_params(center=False)
    return feature_map
