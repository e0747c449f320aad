"""Masks in the forms that ``torch.nn.MultiheadAttention`` takes."""

from __future__ import annotations

import torch
from torch import Tensor

from ._maps import at_least_float32


def key_scores(key_padding_mask: Tensor | None, k: Tensor) -> Tensor | None:
    """Return what is added to the scores of keys."""
    # key_padding_mask (n_batch, n_keys) or (n_keys,), k (n_batch, n_heads, n_keys, d)
    # -> (n_batch, 1, n_keys)
    if key_padding_mask is None:
        return None
    if key_padding_mask.ndim == 1:
        key_padding_mask = key_padding_mask[None]
    if key_padding_mask.shape != (k.shape[0], k.shape[2]):
        raise ValueError(
            f"key_padding_mask has shape {tuple(key_padding_mask.shape)}, but needs "
            f"(n_batch, n_keys) = {(k.shape[0], k.shape[2])}."
        )
    scores = key_padding_mask
    if scores.dtype == torch.bool:
        zeros = torch.zeros_like(scores, dtype=k.dtype)
        scores = zeros.masked_fill(scores, -torch.inf)
    else:
        scores = scores.masked_fill(_is_least(scores), -torch.inf)
    return at_least_float32(scores)[:, None]


def _is_least(mask):
    """Return where numbers stand for minus infinity."""
    return mask <= torch.finfo(mask.dtype).min


def is_causal_mask(attn_mask: Tensor | None) -> bool:
    """Return whether a mask of pairs is causal, not empty."""
    # attn_mask (n_queries, n_keys) or (n_batch * n_heads, n_queries, n_keys)
    if attn_mask is None:
        return False
    boolean = attn_mask.dtype == torch.bool
    hidden = attn_mask if boolean else _is_least(attn_mask)
    if boolean or bool((hidden | (attn_mask == 0)).all()):
        if not bool(hidden.any()):
            return False
        square = attn_mask.shape[-1] == attn_mask.shape[-2]
        if square and bool((hidden == torch.ones_like(hidden).triu(1)).all()):
            return True
    raise ValueError(
        "attn_mask must be None or the causal mask of shape (length, length): linear "
        "attention computes no weights of single pairs that could be masked. Leave out "
        "whole keys by key_padding_mask, or use torch.nn.MultiheadAttention."
    )
