"""Linear attention as modules of torch, which the extra ``torch`` installs."""

from ._module import LinearAttention
from ._replace import replace_attention

__all__ = ["LinearAttention", "replace_attention"]
