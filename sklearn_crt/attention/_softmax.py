"""Exact attention, over all keys or over a band."""

from __future__ import annotations

from .._array import (
    Array,
    constant,
    cut,
    may_look,
    namespace_of,
    positions,
    transposed,
    uncut,
)
from ._features import check_attention_inputs
from ._state import log_weights

_LEAST_BLOCK = 32  # rows of a block of the band, so that products are worth their calls


def softmax_attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    causal: bool = False,
    band: int | None = None,
    key_mask: Array | None = None,
) -> Array:
    r"""Average values with weights softmax(q.k / sqrt(d)), for all pairs of rows.

    The yardstick of :func:`linear_attention`: exact, but the time and the memory grow
    with the square of the number of rows, unless a band is given.

    Parameters
    ----------
    q : array of shape (..., n_queries, d)
        Queries, float32 or float64, of any library that follows the array API standard.
        Leading axes are batch and heads.
    k : array of shape (..., n_keys, d)
        Keys.
    v : array of shape (..., n_keys, e)
        Values.
    causal : bool, default=False
        Whether row i sees the keys 0 ... i alone.
    band : int, default=None
        Row i sees the keys with abs(i - j) <= band alone, in time and memory
        O(L band (d + e)); needs as many queries as keys. None for all.
    key_mask : array of shape (..., n_keys), default=None
        True for the keys that count; or numbers that are added to the scores of keys.

    Returns
    -------
    output : array of shape (..., n_queries, e)
        Weighted averages of the values; 0 for a query that sees no key.

    Raises
    ------
    TypeError, ValueError
        If arrays do not fit together, or band is negative.

    See Also
    --------
    linear_attention : In time linear in the number of rows.

    Notes
    -----
    :math:`\mathrm{softmax}(q k^\top / \sqrt d + M) v`, where the mask M has minus
    infinity, not 0, for keys that are not seen: with 0 they would keep a weight of
    :math:`e^0`.

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
    bias = log_weights(key_mask, k)
    if band is None:
        return _dense(q, k, v, causal, bias)
    if band < 0:
        raise ValueError(f"band must be at least 0, got {band}.")
    if q.shape[-2] != k.shape[-2]:
        raise ValueError(
            f"band needs as many queries as keys, got {q.shape[-2]} and {k.shape[-2]}."
        )
    return _banded(q, k, v, causal, band, bias)


def _dense(q, k, v, causal, bias):
    xp = namespace_of(q, k, v)
    scores = xp.matmul(q * q.shape[-1] ** -0.5, transposed(k))
    if bias is not None:
        scores = scores + transposed(bias)
    if causal:
        rows, columns = positions(q.shape[-2], q), positions(k.shape[-2], q)
        scores = _hide(scores, columns[None, :] <= rows[:, None])
    return _average(scores, v)


def _hide(scores, seen):
    """Set scores of pairs that are not seen to minus infinity."""
    xp = namespace_of(scores)
    return xp.where(seen, scores, constant((1, 1), -xp.inf, scores))


def _average(scores, v):
    xp = namespace_of(scores)
    largest = xp.max(scores, axis=-1, keepdims=True)
    largest = xp.where(largest == -xp.inf, xp.zeros_like(largest), largest)
    weights = xp.exp(scores - largest)
    total = xp.sum(weights, axis=-1, keepdims=True)
    return xp.matmul(weights, v) / xp.where(total > 0, total, xp.ones_like(total))


def _banded(q, k, v, causal, band, bias):
    """Attend block by block, to the block before, the block itself, and the next."""
    xp, n, d = namespace_of(q, k, v), q.shape[-2], q.shape[-1]
    size = max(band, _LEAST_BLOCK)
    if may_look(q):  # else one program for every length
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
