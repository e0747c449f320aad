"""Attention in linear time from feature maps, and exact attention for comparison."""

from ._key_sampling import KeySampler
from ._linear import fit_heads, fmm_attention, linear_attention
from ._softmax import coreset_attention, softmax_attention
from ._state import LinearAttentionState

__all__ = [
    "KeySampler",
    "LinearAttentionState",
    "coreset_attention",
    "fit_heads",
    "fmm_attention",
    "linear_attention",
    "softmax_attention",
]

__dir__ = __all__.copy  # so that dir() shows only public names
