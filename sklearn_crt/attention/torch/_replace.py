"""Replace the attention layers of a model, and adapt them to batches of data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from sklearn.base import clone
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
    momenta = [one.momentum for one in statistics]
    for one in statistics:
        one.momentum = None
        one.n_batches.zero_()
    try:
        _run(model, batches, training=statistics)
    finally:
        for one, momentum in zip(statistics, momenta, strict=True):
            one.momentum = momentum
    for layer in layers:
        if layer._adapts:
            layer._make_map()
    return sum(map(bool, fields))


def fit_maps(model: nn.Module, sampler: Any, batches: Iterable[Any]) -> int:
    """Fit a sampler to the queries and keys of each head, and use its maps.

    Use this function for samplers whose features depend on the rows, such as
    :func:`~sklearn_crt.clustered_hybrid` or :class:`~sklearn_crt.AnchoredRBFSampler`.
    The maps do not change when training continues, until this function is called again.

    Parameters
    ----------
    model : Module
        Model with :class:`LinearAttention` layers, which is changed in place. Its
        weights and its training mode do not change.
    sampler : sampler
        Sampler with ``kernel="softmax"``. A clone is fitted for each head, with a seed
        derived from its ``random_state``.
    batches : iterable
        Arguments with which ``model`` is called for each batch, as in
        :func:`calibrate`. All queries and keys are kept in memory, except masked keys.

    Returns
    -------
    n_layers : int
        Number of layers whose maps were fitted.

    Raises
    ------
    TypeError
        If the maps of the heads of a layer differ in kind or size.
    ValueError
        If no layer of the model is a :class:`LinearAttention`, if a layer has several
        maps, or if ``batches`` is empty.

    See Also
    --------
    sklearn_crt.attention.fit_heads : The same for arrays of queries and keys.

    Notes
    -----
    The maps are buffers whose names depend on the sampler, so a state dictionary can
    only be loaded into a model for which this function was called with a sampler of the
    same kind and size. *Hybrid Random Features* [1]_ trains speech models in this way,
    with clusters that are fixed after 1000 training steps (HRF-C).

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       `arXiv:2110.04367 <https://arxiv.org/abs/2110.04367>`_.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt import clustered_hybrid
    >>> from sklearn_crt.attention.torch import fit_maps, replace_attention
    >>> layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    >>> model = torch.nn.TransformerEncoder(layer, 2)
    >>> replace_attention(model, random_state=0)
    2
    >>> sampler = clustered_hybrid(n_clusters=2, kernel="softmax", random_state=0)
    >>> fit_maps(model, sampler, [torch.randn(8, 100, 32) for _ in range(2)])
    2
    """
    layers = [m for m in model.modules() if isinstance(m, LinearAttention)]
    if not layers:
        raise ValueError(
            "model contains no LinearAttention layer. Call replace_attention first."
        )
    if any(len(layer._far_fields) > 1 for layer in layers):
        raise ValueError(
            "fit_maps requires layers with a single map, but a layer was created with "
            "a list of maps."
        )
    rows: dict[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]] = {
        layer: [] for layer in layers
    }

    def record(layer, args, kwargs):
        rows[layer].append(layer._queries_and_keys(*args, **kwargs))

    hooks = [
        layer.register_forward_pre_hook(record, with_kwargs=True) for layer in layers
    ]
    # maps that adapt to running statistics do so, as in calibrate
    statistics = [one.statistics for one in layers if one.statistics is not None]
    try:
        _run(model, batches, training=statistics)
    finally:
        for hook in hooks:
            hook.remove()
    rng = check_random_state(getattr(sampler, "random_state", None))
    used = [layer for layer in layers if rows[layer]]
    for layer in used:
        one = clone(sampler).set_params(random_state=rng.randint(2**31 - 1))
        queries, keys = (torch.cat(side, 1) for side in zip(*rows[layer], strict=True))
        weight = layer.in_proj_weight
        layer._fix_map(one, queries, keys, device=weight.device, dtype=weight.dtype)
    return len(used)


def _run(
    model: nn.Module, batches: Iterable[Any], training: Iterable[nn.Module] = ()
) -> None:
    """Call a model in evaluation mode for each batch, except some of its modules."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    for one in training:
        one.train()
    n_batches = 0
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
    if n_batches == 0:
        raise ValueError("batches is empty; pass at least one batch.")
