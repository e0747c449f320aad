"""Exact attention to all keys or to a band, and attention to a few cluster means."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite

from ..arrays.loops import refuse_not_finite, weights_from_logs
from ..arrays.namespaces import (
    Array,
    asarray_like,
    constant,
    namespace_of,
    positions,
    sq_norms,
    to_host,
    transposed,
    values_are_known,
)
from ._causal import cut, uncut
from ._features import check_attention_inputs
from ._state import HIDING, logs_of_mask

_QUERIES = 256  # number of queries per block of scores in main memory
_LEAST_BLOCK = 32  # minimum number of rows per block, for efficient products


def softmax_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    band: int | None = None,
    key_mask: Array | None = None,
) -> Array:
    r"""Compute exact softmax attention by evaluating all query-key pairs.

    Each output is an average of the values with weights softmax(q.k / sqrt(d)). Use
    this function for comparison with :func:`linear_attention`. The time grows
    quadratically with the number of rows, unless ``band`` is set. For NumPy arrays,
    scores are computed for a few queries at a time; for arrays of other libraries,
    memory use also grows quadratically.

    Parameters
    ----------
    q : array of shape (..., n_queries, d)
        Queries, as a float32 or float64 array of any library that follows the array API
        standard. The leading axes stand for batches and heads.
    k : array of shape (..., n_keys, d)
        Keys.
    v : array of shape (..., n_keys, e)
        Values.
    causal : bool, default=False
        Whether row i attends only to the keys 0 to i.
    band : int, default=None
        If set, row i attends only to the keys j with abs(i - j) <= band, in time and
        memory O(L band (d + e)) for L rows. This requires as many queries as keys.
    key_mask : array of shape (..., n_keys), default=None
        Boolean mask that is True for the keys to attend to, or numbers that are added
        to the scores of the keys.

    Returns
    -------
    output : array of shape (..., n_queries, e)
        Weighted averages of the values; 0 for a query that attends to no key.

    Raises
    ------
    TypeError, ValueError
        If the shapes of the arrays do not match, or if band is negative.

    See Also
    --------
    linear_attention : Approximate attention in linear time.

    Notes
    -----
    The output is :math:`\mathrm{softmax}(q k^\top / \sqrt d + M) v`, where the mask M
    is minus infinity for masked keys. If the scores of masked keys were set to 0
    instead, these keys would keep a weight of :math:`e^0`, before normalisation.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.attention import softmax_attention
    >>> q = k = np.array([[0.0], [1.0]])
    >>> v = np.array([[1.0], [3.0]])
    >>> softmax_attention(q, k, v, causal=True).round(2)
    array([[1.  ],
           [2.46]])
    """
    check_attention_inputs(q, k, v, causal)
    bias = logs_of_mask(key_mask, k)
    if band is None:
        return _dense(q, k, v, causal, bias)
    if band < 0:
        raise ValueError(f"band must be at least 0, got {band}.")
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"band requires equal numbers of queries and keys, got {q.shape[-2]} and "
            f"{k.shape[-2]}."
        )
    return _banded(q, k, v, causal, band, bias)


def _dense(q, k, v, causal, bias):
    if not isinstance(q, np.ndarray):
        return _dense_rows(q, k, v, causal, bias)
    blocks = []
    for start in range(0, max(1, q.shape[-2]), _QUERIES):
        stop = start + _QUERIES
        end = stop if causal else k.shape[-2]  # end of the keys that are attended to
        some = None if bias is None else bias[..., :end, :]
        seen = k[..., :end, :], v[..., :end, :], causal, some
        blocks.append(_dense_rows(q[..., start:stop, :], *seen, start))
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks, axis=-2)


def _dense_rows(q, k, v, causal, bias, start=0):
    """Return attention outputs for consecutive queries, starting at index ``start``."""
    xp = namespace_of(q, k, v)
    scores = xp.matmul(q * q.shape[-1] ** -0.5, transposed(k))
    if bias is not None:
        scores = scores + transposed(bias)
    if causal:
        rows, columns = start + positions(q.shape[-2], q), positions(k.shape[-2], q)
        scores = _hide(scores, columns[None, :] <= rows[:, None])
    return _average(scores, v)


def _hide(scores, seen):
    """Set the scores of masked pairs to minus infinity."""
    xp = namespace_of(scores)
    return xp.where(seen, scores, constant((1, 1), -xp.inf, scores))


def _average(scores, v):
    """Return weighted averages of the values; the scores are overwritten."""
    xp = namespace_of(scores)
    weights, _ = weights_from_logs(scores, overwrite=True)
    total = xp.sum(weights, axis=-1, keepdims=True)
    return xp.matmul(weights, v) / xp.where(total > 0, total, xp.ones_like(total))


def _banded(q, k, v, causal, band, bias):
    """Return banded attention, computed between each block and its neighbours."""
    xp, n, d = namespace_of(q, k, v), q.shape[-2], q.shape[-1]
    size = max(band, _LEAST_BLOCK)
    if values_are_known(q):  # a compiled program has to work for all lengths
        size = min(size, n)
    offsets = (-1, 0) if causal else (-1, 0, 1)
    q = cut(q * d**-0.5, size)
    n_blocks = q.shape[-3]

    def neighbours(array):
        blocks = cut(array, size)
        none = xp.zeros_like(blocks[..., :1, :, :])
        blocks = xp.concat([none, blocks, none], axis=-3)
        near = [blocks[..., 1 + o : 1 + o + n_blocks, :, :] for o in offsets]
        return xp.concat(near, axis=-2)

    scores = xp.matmul(q, transposed(neighbours(k)))
    if bias is not None:
        scores = scores + transposed(neighbours(bias))
    start = size * positions(n_blocks, q)[:, None, None]
    rows = start + positions(size, q)[None, :, None]
    columns = start + (positions(size * len(offsets), q) - size)[None, None, :]
    seen = (columns >= 0) & (columns < n) & (columns - rows >= -band)
    seen = seen & (columns - rows <= (0 if causal else band))
    return uncut(_average(_hide(scores, seen), neighbours(v)), n)


# ------------------------------------------------ means of groups of similar keys
# Applying k-means++ to all keys, or k-means until convergence, takes many times as long
# and hardly reduces the error. For keys of trained models, starting from random keys
# instead of k-means++ gives a much larger error.
_SAMPLED = 8  # number of sampled keys per point, for choosing initial points
_STEPS = 3


def coreset_attention(
    q: Array,
    k: Array,
    v: Array,
    n_points: int = 128,
    *,
    causal: bool = False,
    key_mask: Array | None = None,
) -> Array:
    r"""Approximate softmax attention using a few points that represent the keys.

    Use this function for long sequences whose scores are so large that
    :func:`linear_attention` would need too many features. Each point is the mean of a
    cluster of keys.

    Parameters
    ----------
    q, k, v : array of shape (..., n_queries, d), (..., n_keys, d), (..., n_keys, e)
        Queries, keys and values, as in :func:`softmax_attention`.
    n_points : int, default=128
        Number of points per batch and head. With as many points as distinct keys, the
        result is exact.
    causal : bool, default=False
        Must be False, because the points would leak information about later keys.
    key_mask : array of shape (..., n_keys), default=None
        Mask for the keys, as in :func:`softmax_attention`.

    Returns
    -------
    output : array of shape (..., n_queries, e)
        Weighted averages of the values, as an array of the same library and dtype as q;
        0 for a query that attends to no key.

    Raises
    ------
    TypeError, ValueError
        If the shapes of the arrays do not match, if n_points is below 1, if causal is
        True, or if k or a NumPy array q contains non-finite values.

    See Also
    --------
    linear_attention : Approximate attention by random features, optionally causal.
    softmax_attention : Exact attention, which this function approximates.
    sklearn_crt.Prototypes : The same approximation for Nadaraya-Watson estimators.

    Notes
    -----
    Let :math:`W_p` be the total weight of cluster p (the number of its keys if there is
    no mask), :math:`\bar k_p` its mean key and :math:`\bar v_p` its mean value. Output
    i is

    .. math:: \frac{\sum_p W_p e^{q_i \cdot \bar k_p / \sqrt d}\, \bar v_p}
       {\sum_p W_p e^{q_i \cdot \bar k_p / \sqrt d}} ,

    which is exact attention to the mean keys with :math:`\log W_p` added to the scores,
    as in equation 1 of [1]_, where each token represents several others. Large scores
    do not overflow. The error is of the order of the covariance between scores and
    values within the clusters.

    The clusters are found by three iterations of k-means. The initial centres are
    chosen by k-means++ from a sample of the keys, which is drawn with a fixed seed. The
    clusters do not depend on the order of the keys, and do not change if the same
    vector is added to all keys. To find them, the keys of each batch and head are
    copied to the CPU, so ``torch.compile`` and ``jax.jit`` cannot trace the function.
    The rest is computed on the device of q, and gradients are propagated to q, k, v and
    a numeric mask as if the clusters were fixed.

    For L rows, the function takes O(L n_points (d + e)) time and O(L n_points) memory.

    References
    ----------
    .. [1] D. Bolya et al., "Token Merging: Your ViT But Faster", ICLR 2023,
       :arxiv:`2210.09461`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.attention import coreset_attention, softmax_attention
    >>> rng = np.random.default_rng(0)
    >>> q, k = rng.normal(size=(2, 1000, 4))
    >>> v = np.sin(k)
    >>> error = coreset_attention(q, k, v, 128) - softmax_attention(q, k, v)
    >>> bool(np.sqrt(np.mean(error**2)) < 0.05 * v.std())
    True
    """
    check_attention_inputs(q, k, v, causal)
    refuse_not_finite(q, "q")
    if causal:
        raise ValueError(
            "coreset_attention does not support causal=True, because each of its "
            "points is a mean of earlier and later keys. Use linear_attention, or "
            "softmax_attention with a band."
        )
    if n_points < 1:
        raise ValueError(f"n_points must be at least 1, got {n_points}.")
    bias = logs_of_mask(key_mask, k)
    means, log_total = _points(k, v, bias, _groups(k, bias, n_points))
    return softmax_attention(q, *means, key_mask=log_total)


def _points(k, v, bias, groups):
    """Return mean keys, mean values and the logs of the weights of groups of keys."""
    # groups (..., n_keys) -> (..., n_points, d), (..., n_points, e), (..., n_points)
    xp = namespace_of(k, v)
    index = positions(int(groups.max()) + 1, k)
    zero = constant((1,) * (groups.ndim + 1), 0.0, k)
    logs = zero if bias is None else transposed(bias)
    own = asarray_like(groups, index)[..., None, :] == index[:, None]
    weights, log_scale = weights_from_logs(xp.where(own, logs, zero - xp.inf))
    total = xp.sum(weights, axis=-1, keepdims=True)
    some = total > 0
    positive = xp.where(some, total, xp.ones_like(total))
    log_total = xp.where(some, xp.log(positive) + log_scale, zero - xp.inf)
    means = [xp.matmul(weights, rows) / positive for rows in (k, v)]
    return means, log_total[..., 0]


def _groups(k, bias, n_points):
    """Return the cluster of each key, for each batch and head."""
    # k (..., n_keys, d), bias (..., n_keys, 1) -> (..., n_keys)
    keys, seen = to_host(k), np.ones(k.shape[:-1], dtype=bool)
    assert_all_finite(keys, input_name="k")
    if bias is not None:
        # keys without weight beside others would take points away from these
        logs = to_host(bias)[..., 0]
        seen = seen & (logs > -np.inf)
        seen = seen & (logs >= logs.max(axis=-1, keepdims=True) + HIDING)
        keys = np.broadcast_to(keys, (*seen.shape, keys.shape[-1]))
    groups = np.zeros(seen.shape, dtype=np.int64)
    for place in np.ndindex(seen.shape[:-1]):
        if seen[place].any():
            groups[place][seen[place]] = _cluster(keys[place][seen[place]], n_points)
    return groups


def _cluster(keys: np.ndarray, n_points: int) -> np.ndarray:
    """Return the cluster of each key; few distinct keys form one cluster each."""
    rng = np.random.RandomState(0)
    rows = keys / (np.abs(keys).max() or 1.0)  # scaled so that squares are finite
    # Equal keys have equal products with a random vector, and different keys almost
    # surely have different products. The order of the products depends neither on the
    # order of the keys nor on a vector that is added to all of them.
    products = np.sum(rows * rng.standard_normal(rows.shape[1]), axis=1)
    _, first, groups = np.unique(products, return_index=True, return_inverse=True)
    if first.size <= n_points:
        return groups
    from sklearn.cluster import KMeans  # imported here, because the import is slow

    rows = rows[first]
    some = rng.permutation(first.size)[: _SAMPLED * n_points]
    init = _initial_points(rows[some], n_points, rng)
    model = KMeans(n_points, init=init, n_init=1, max_iter=_STEPS)
    # k-means warns about keys that differ only by rounding
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(rows, sample_weight=np.bincount(groups)).labels_[groups]


def _initial_points(
    rows: np.ndarray, n_points: int, rng: np.random.RandomState
) -> np.ndarray:
    """Return initial points, chosen among the rows by k-means++."""
    # scikit-learn's function would spend most of its time validating its arguments
    chosen, left = [rng.randint(len(rows))], np.full(len(rows), np.inf)
    while len(chosen) < n_points:
        left = np.minimum(left, sq_norms(rows - rows[chosen[-1]])[:, 0])
        share = np.cumsum(left, dtype=np.float64)
        chosen.append(int(np.searchsorted(share, rng.uniform(0, share[-1]))))
    return rows[chosen]
