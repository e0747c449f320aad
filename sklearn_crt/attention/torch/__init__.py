"""Linear attention as modules of torch, which the extra ``torch`` installs."""

from ._module import LinearAttention
from ._positions import rotary
from ._replace import calibrate, replace_attention

__all__ = ["LinearAttention", "calibrate", "replace_attention", "rotary"]
