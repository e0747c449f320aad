"""Linear attention as torch modules; requires the extra ``torch``."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from ...arrays.namespaces import Namespace, namespace_of, register_namespace
from ._maps import RandomFeatures
from ._module import LinearAttention
from ._positions import rotary, sinusoidal
from ._replace import calibrate, fit_maps, replace_attention

__all__ = [
    "LinearAttention",
    "RandomFeatures",
    "calibrate",
    "fit_maps",
    "replace_attention",
    "rotary",
    "sinusoidal",
]
__dir__ = __all__.copy  # so that dir() shows only public names


# Functions of torch with their names in the array API standard. Those of
# array_api_compat promote dtypes in Python, which cannot be compiled and takes longer
# than a short operation. Promotion is not needed here, because arrays that are combined
# have the same dtype.


def _extremum(function: Any) -> Any:
    def reduced(x: Tensor, *, axis: Any = None, keepdims: bool = False) -> Tensor:
        return function(x, () if axis is None else axis, keepdims)

    return reduced


def _cumulative(function: Any) -> Any:
    def running(x: Tensor, *, axis: int) -> Tensor:
        return function(x, axis).values

    return running


def _torch_values_are_known(x: Tensor) -> bool:
    """Return whether values can be read: on the CPU, outside compilation and vmap."""
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return False
    return not torch._C._functorch.is_batchedtensor(x)


def _of_torch(*names: str) -> dict[str, Any]:
    return {name: getattr(torch, name) for name in names}


def _torch_namespace() -> Namespace:
    """Return functions of torch, or of array_api_compat where torch differs."""
    compat = vars(namespace_of(torch.empty(0)))
    own = {
        **_of_torch("add", "broadcast_to", "divide", "multiply", "sign", "subtract"),
        **_of_torch(
            "abs", "all", "any", "clip", "concat", "cos", "exp", "floor", "full"
        ),
        **_of_torch(
            "full_like", "isinf", "log", "log1p", "matmul", "maximum", "minimum"
        ),
        **_of_torch("ones_like", "reshape", "sin", "sqrt", "square", "sum"),
        **_of_torch("arange", "where", "zeros_like"),
        "astype": lambda x, dtype, *, copy=True: x.to(dtype, copy=copy),
        "broadcast_arrays": torch.broadcast_tensors,
        "cumulative_max": _cumulative(torch.cummax),
        "cumulative_min": _cumulative(torch.cummin),
        "cumulative_sum": torch.cumsum,
        "matrix_transpose": torch.Tensor.mT.__get__,
        "max": _extremum(torch.amax),
        "values_are_known": _torch_values_are_known,
        "moveaxis": torch.movedim,
        "min": _extremum(torch.amin),
        "stack": lambda arrays, *, axis=0: torch.stack(tuple(arrays), axis),
        "take": lambda x, index, *, axis=0: torch.index_select(x, axis, index),
    }
    return SimpleNamespace(**{**compat, **own})


# torch may be a mock while the documentation is built
if isinstance(torch.Tensor, type):
    register_namespace(torch.Tensor, _torch_namespace())
