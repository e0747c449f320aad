"""Positions of rows: rotary and sinusoidal embeddings, and neighbours of new rows."""

from __future__ import annotations

import torch
from torch import Tensor

from .._softmax import softmax_attention


def rotary(rows: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    r"""Rotate rows by angles proportional to their positions.

    The inner product of a rotated query and a rotated key depends only on the
    difference between their positions. Use this function as ``positional`` in
    :class:`LinearAttention`.

    Parameters
    ----------
    rows : Tensor of shape (..., length, head_dim)
        Queries or keys.
    positions : Tensor
        Positions, in a shape that broadcasts against (..., length).
    base : float, default=10000.0
        Base b of the geometric sequence of angles (see Notes).

    Returns
    -------
    rotated : Tensor of shape (..., length, head_dim)
        Rotated rows, with the same norms.

    Notes
    -----
    At position p, the coordinates l and l + h, with h = head_dim // 2, are rotated by
    the angle :math:`p\, b^{-l/h}`. Equation 34 of RoFormer [1]_ pairs neighbouring
    coordinates instead; the two versions differ only by a permutation of the
    coordinates. If head_dim is odd, the last coordinate does not change.

    References
    ----------
    .. [1] J. Su et al., "RoFormer: Enhanced Transformer with Rotary Position
       Embedding", Neurocomputing 568, 2024, :arxiv:`2104.09864`.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt.attention.torch import LinearAttention, rotary
    >>> layer = LinearAttention(32, 4, feature_map="elu+1", positional=rotary)
    >>> x = torch.randn(10, 2, 32)
    >>> layer(x, x, x)[0].shape
    torch.Size([10, 2, 32])
    """
    half = rows.shape[-1] // 2
    rates = torch.arange(half, device=rows.device, dtype=rows.dtype) / half
    angles = positions[..., None] * base**-rates
    cos, sin = angles.cos(), angles.sin()
    a, b, rest = rows[..., :half], rows[..., half : 2 * half], rows[..., 2 * half :]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], dim=-1)


def sinusoidal(rows: Tensor, positions: Tensor, base: float = 10_000.0) -> Tensor:
    r"""Add sinusoidal positional encodings to rows.

    Add them to the embeddings of the tokens before the first layer of a model, as in
    [1]_, or use this function as ``positional`` in :class:`LinearAttention`, which then
    adds them to the queries and keys of each head.

    Parameters
    ----------
    rows : Tensor of shape (..., length, n_columns)
        Embeddings, or queries or keys.
    positions : Tensor
        Positions, in a shape that broadcasts against (..., length).
    base : float, default=10000.0
        Base b of the geometric sequence of frequencies (see Notes).

    Returns
    -------
    embedded : Tensor of shape (..., length, n_columns)
        The rows plus the embeddings of their positions.

    See Also
    --------
    rotary : Rotations by the position, which leave the norms of the rows unchanged.

    Notes
    -----
    The embedding of position p has the columns

    .. math:: PE_{p, 2i} = \sin\left(p\, b^{-2i/d}\right), \qquad
       PE_{p, 2i+1} = \cos\left(p\, b^{-2i/d}\right),

    where d is the number of columns. If d is odd, the last column is a sine.

    References
    ----------
    .. [1] A. Vaswani et al., "Attention Is All You Need", NeurIPS 2017,
       :arxiv:`1706.03762`, section 3.5.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt.attention.torch import sinusoidal
    >>> sinusoidal(torch.zeros(2, 4), torch.arange(2)).numpy().round(2)
    array([[0.  , 1.  , 0.  , 1.  ],
           [0.84, 0.54, 0.01, 1.  ]], dtype=float32)
    """
    d = rows.shape[-1]
    i = torch.arange((d + 1) // 2, device=rows.device, dtype=rows.dtype)
    angles = positions[..., None] * base ** (-2 * i / d)
    return rows + torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., :d]


def step_of_band(
    q: Tensor, k: Tensor, v: Tensor, state: dict[str, Tensor], band: int
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return exact attention of new rows within the band, and the rows to keep."""
    # q, k (n_batch, n_heads, n_rows, d), v (n_batch, n_heads, n_rows, e)
    # the first rows are preceded by rows of zeros, to which no row attends
    n, shape = q.shape[2], (*q.shape[:2], band)
    keys = state.get("near_keys", k.new_zeros(*shape, k.shape[3]))
    values = state.get("near_values", v.new_zeros(*shape, v.shape[3]))
    seen = state.get("near_seen", k.new_zeros(q.shape[0], 1, band))
    keys, values = torch.cat([keys, k], dim=2), torch.cat([values, v], dim=2)
    seen = torch.cat([seen, seen.new_ones(q.shape[0], 1, n)], dim=2)
    queries = torch.cat([q.new_zeros(*shape, q.shape[3]), q], dim=2)
    options = {"band": band, "key_mask": seen > 0}
    near = softmax_attention(queries, keys, values, causal=True, **options)
    names = "near_keys", "near_values", "near_seen"
    kept = keys[:, :, n:], values[:, :, n:], seen[:, :, n:]
    return near[:, :, band:], dict(zip(names, kept, strict=True))
