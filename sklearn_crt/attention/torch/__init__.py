"""Linear attention as modules of torch, which the extra ``torch`` installs."""

import torch

from ..._array import register_namespace
from ._features import RandomFeatures
from ._module import LinearAttention
from ._namespace import torch_namespace
from ._positions import rotary
from ._replace import calibrate, replace_attention

__all__ = [
    "LinearAttention",
    "RandomFeatures",
    "calibrate",
    "replace_attention",
    "rotary",
]

if isinstance(torch.Tensor, type):  # no mock, with which documentation is built
    register_namespace(torch.Tensor, torch_namespace())
