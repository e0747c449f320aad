"""Change the attention of a whole model."""

from __future__ import annotations

from typing import Any

from sklearn.utils import check_random_state
from torch import nn

from ._module import LinearAttention


def replace_attention(model: nn.Module, **options: Any) -> int:
    """Replace each ``MultiheadAttention`` inside a model by linear attention.

    Parameters
    ----------
    model : Module
        Changed in place; its weights are kept.
    **options
        Keyword-only parameters of :class:`LinearAttention`. A ``random_state`` gives
        each layer a seed of its own.

    Returns
    -------
    n_replaced : int
        Number of layers that were changed.
    """
    rng = check_random_state(options.pop("random_state", None))
    n_replaced = 0
    for module in list(model.modules()):
        if isinstance(module, nn.TransformerEncoder):
            module.use_nested_tensor = False  # there is no linear attention for these
        for name, child in list(module.named_children()):
            if isinstance(child, nn.MultiheadAttention):
                linear = LinearAttention.from_multihead(
                    child, random_state=rng.randint(2**31 - 1), **options
                )
                setattr(module, name, linear)
                n_replaced += 1
    return n_replaced
