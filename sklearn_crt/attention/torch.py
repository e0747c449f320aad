"""Linear attention as modules of torch, which the extra ``torch`` installs."""

from ._module import LinearAttention, replace_attention

__all__ = ["LinearAttention", "replace_attention"]
