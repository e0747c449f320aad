"""Replace the attention layers of a model, and adapt them to batches of data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sklearn.utils import check_random_state
from torch import nn

from ._module import LinearAttention


def replace_attention(model: nn.Module, **options: Any) -> int:
    """Replace each ``MultiheadAttention`` inside a model by linear attention.

    Parameters
    ----------
    model : Module
        Model to change in place. If an error is raised, the model is left unchanged.
        The weights are kept. A layer that is used several times in the model is
        replaced by a single new layer.
    **options
        Keyword-only parameters of :class:`LinearAttention`. If ``random_state`` is set,
        each layer gets a different seed derived from it.

    Returns
    -------
    n_replaced : int
        Number of layers that were replaced.

    Raises
    ------
    ValueError
        If a layer cannot be replaced, or if ``model`` itself is such a layer.

    See Also
    --------
    calibrate : Adapt the features to batches of data before the model is used.
    """
    if isinstance(model, nn.MultiheadAttention):
        raise ValueError(
            "model is itself an attention layer, which cannot be replaced in place. "
            "Use LinearAttention.from_multihead(model, ...)."
        )
    rng = check_random_state(options.pop("random_state", None))
    places, linear = [], {}
    for module in model.modules():
        for name, child in module._modules.items():
            if isinstance(child, nn.MultiheadAttention):
                places.append((module, name, child))
                if child not in linear:
                    linear[child] = LinearAttention.from_multihead(
                        child, random_state=rng.randint(2**31 - 1), **options
                    )
    for module, name, child in places:
        setattr(module, name, linear[child])
    for module in model.modules():
        if isinstance(module, nn.TransformerEncoder):
            # linear attention does not support nested tensors
            module.use_nested_tensor = False
    return len(linear)


def calibrate(model: nn.Module, batches: Iterable[Any]) -> int:
    """Adapt the attention features of a model to batches of data.

    Directly after :func:`replace_attention`, FAVOR++ and DERF use A = 0 and are
    therefore the same as FAVOR+. A few batches are enough to choose the best A for each
    head, without any training.

    Parameters
    ----------
    model : Module
        Model with :class:`LinearAttention` layers. Its weights and its training mode do
        not change; the running statistics are reset and recomputed from the batches.
    batches : iterable
        Arguments with which ``model`` is called for each batch: a tuple or a list of
        positional arguments, a dict of keyword arguments, or a single argument.

    Returns
    -------
    n_layers : int
        Number of layers that were adapted.

    Raises
    ------
    ValueError
        If no layer has features that can be adapted, or if ``batches`` is empty.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt.attention.torch import calibrate, replace_attention
    >>> layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2)
    >>> replace_attention(model, random_state=0)
    2
    >>> calibrate(model, [torch.randn(8, 100, 32) for _ in range(4)])
    2
    """
    attention = [m for m in model.modules() if isinstance(m, LinearAttention)]
    fields = [[f for f in m._far_fields if f.statistics is not None] for m in attention]
    layers = [one for each in fields for one in each]
    statistics = [layer.statistics for layer in layers]
    if not statistics:
        raise ValueError(
            "No layer of the model adapts to data, so there is nothing to calibrate."
        )
    modes = {module: module.training for module in model.modules()}
    momenta, n_batches = [one.momentum for one in statistics], 0
    model.eval()
    for one in statistics:
        one.train()
        one.momentum = None
        one.n_batches.zero_()
    try:
        with torch.no_grad():
            for batch in batches:
                n_batches += 1
                if isinstance(batch, dict):
                    model(**batch)
                else:
                    model(*(batch if isinstance(batch, (tuple, list)) else (batch,)))
    finally:
        for module, mode in modes.items():
            module.training = mode
        for one, momentum in zip(statistics, momenta, strict=True):
            one.momentum = momentum
    if n_batches == 0:
        raise ValueError("batches is empty; pass at least one batch.")
    for layer in layers:
        if layer._adapts:
            layer._make_map()
    return sum(map(bool, fields))
