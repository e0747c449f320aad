"""Masks of torch: padding of keys, and the causal mask among all masks of pairs."""

from __future__ import annotations

import torch
from torch import Tensor


def key_scores(key_padding_mask: Tensor | None, k: Tensor) -> Tensor | None:
    """Return what is added to the scores of keys.

    Parameters
    ----------
    key_padding_mask : Tensor of shape (n_batch, n_keys) or (n_keys,), or None
        True for keys to be left out; or numbers.
    k : Tensor of shape (n_batch, n_heads, n_keys, d)
        Keys.

    Returns
    -------
    scores : Tensor of shape (n_batch, 1, n_keys) or None
        0, minus infinity, or those numbers.
    """
    if key_padding_mask is None:
        return None
    if key_padding_mask.ndim == 1:
        key_padding_mask = key_padding_mask[None]
    if key_padding_mask.shape != (k.shape[0], k.shape[2]):
        raise ValueError(
            f"key_padding_mask has shape {tuple(key_padding_mask.shape)}, but needs "
            f"(n_batch, n_keys) = {(k.shape[0], k.shape[2])}."
        )
    if key_padding_mask.dtype == torch.bool:
        scores = torch.zeros_like(key_padding_mask, dtype=k.dtype)
        scores = scores.masked_fill(key_padding_mask, -torch.inf)
    else:
        scores = key_padding_mask
    if scores.dtype not in (torch.float32, torch.float64):
        scores = scores.float()
    return scores[:, None]


def is_causal_mask(attn_mask: Tensor | None) -> bool:
    """Return whether a mask of pairs is causal, not empty.

    Parameters
    ----------
    attn_mask : Tensor or None
        True, or minus infinity, for pairs to be left out.

    Returns
    -------
    causal : bool
        False for None and for a mask that leaves out nothing.

    Raises
    ------
    ValueError
        If it is another mask.
    """
    if attn_mask is None:
        return False
    if attn_mask.ndim == 2 and attn_mask.shape[0] == attn_mask.shape[1]:
        boolean = attn_mask.dtype == torch.bool
        hidden = attn_mask if boolean else attn_mask == -torch.inf
        if boolean or bool((hidden | (attn_mask == 0)).all()):
            above = torch.ones_like(hidden).triu(1)
            if bool((hidden == above).all()):
                return True
            if not bool(hidden.any()):
                return False
    raise ValueError(
        "attn_mask must be None or the causal mask of shape (length, length): linear "
        "attention computes no weights of single pairs that could be masked. Leave out "
        "whole keys by key_padding_mask, or use torch.nn.MultiheadAttention."
    )
