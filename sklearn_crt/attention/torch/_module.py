"""Linear attention as a replacement for ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._linear import causal_rows, get_sampler, linear_attention
from .._softmax import softmax_attention
from .._state import LinearAttentionState, with_column_of_ones
from ._maps import MapsOfHeads, at_least_float32
from ._positions import step_of_band


class LinearAttention(MapsOfHeads):
    r"""Multi-head attention in time and memory linear in the sequence length.

    This module replaces ``torch.nn.MultiheadAttention``. Both have the same parameter
    names, so that weights can be copied from one to the other. The module can also be
    used inside ``torch.nn.TransformerEncoderLayer``.

    Parameters
    ----------
    embed_dim : int
        Number of columns of queries, keys, values and outputs.
    num_heads : int
        Number of heads, each with embed_dim / num_heads columns.
    dropout : float, default=0.0
        Probability that a value is omitted from the averages during training. All
        queries of a head omit the same values, because individual attention weights are
        never computed.
    bias : bool, default=True
        Whether the projections have biases.
    batch_first : bool, default=False
        Whether tensors have the shape (batch, length, columns) instead of (length,
        batch, columns).
    device, dtype : default=None
        Device and floating-point dtype of parameters and buffers. Running means are
        stored with at least float32 precision.
    feature_map : str, sampler, or list of these, default="favor++"
        ``"favor+"`` (:class:`~sklearn_crt.PositiveRBFSampler`), ``"favor++"``
        (:class:`~sklearn_crt.OPRFSampler`), ``"simplex"`` (OPRF with simplex
        frequencies), ``"derf"`` (:class:`~sklearn_crt.DERFSampler`),
        ``"trigonometric"``, ``"hybrid"``
        (:func:`~sklearn_crt.angular_hybrid`), a deterministic map ``"elu+1"``,
        ``"elu(-)+1"`` or ``"relu"``; or a sampler with ``kernel="softmax"``, which is
        cloned. Each head draws its own frequencies. Other samplers whose map depends on
        the rows raise a TypeError, because no rows are available when the module is
        created; :func:`fit_maps` fits them later. A list contains r maps, whose outputs
        are added up with a learned weight for each map and head, as in
        :func:`~sklearn_crt.attention.fmm_attention` (FMMformer).
    n_components : int, default=256
        Number of features per head. Ignored if ``feature_map`` is a sampler, because
        its own ``n_components`` is then used.
    causal : bool, default=False
        Whether row i attends only to rows 0 to i, even without a mask in ``forward``.
    band : int, default=None
        If set, exact attention of row i to the keys j with abs(i - j) <= band is added
        to linear attention. The weights of both are learned for each head, as
        sigmoid(``near_logit``) and sigmoid(``far_logit``).
    momentum : float, default=0.1
        Momentum of the running statistics of queries and keys that FAVOR++ and DERF
        use.
    positional : callable, default=None
        Function that is applied to queries and keys before their features are computed,
        such as :func:`rotary` or :func:`sinusoidal`. It is called as
        ``positional(rows, positions)`` with rows of shape (batch, num_heads, length,
        head_dim) and positions that broadcast against (batch, num_heads, length), and
        returns the transformed rows.
    redraw_interval : int, default=None
        Number of training batches after which ``redraw_`` is called again; None means
        never.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies.

    Attributes
    ----------
    in_proj_weight, in_proj_bias, out_proj : Parameter, Parameter, Linear
        The same parameters as in ``torch.nn.MultiheadAttention``.
    near_logit : Parameter of shape (num_heads, 1, 1)
        Logits of the weights of exact attention; only available if ``band`` is set.
    far_logit : Parameter of shape (num_heads, 1, r)
        Logits of the weights of linear attention with each of the r maps; only
        available if ``band`` is set or ``feature_map`` is a list of several maps.

    See Also
    --------
    replace_attention : Replace the attention layers of an existing model.
    calibrate : Adapt A to batches without training.
    fit_maps : Fit any sampler to the queries and keys of each head.
    sklearn_crt.attention.linear_attention : The same computation as a function.

    Notes
    -----
    Frequencies are buffers: they are saved, moved and cast with the module, and are not
    trained. Copies of a module have the same frequencies until ``redraw_`` is called.

    In FAVOR++, each head has a parameter A that depends on the mean of \|q + k\|^2.
    During training, a running mean of these squared norms is used. In a causal module,
    the running mean is updated *after* the output of a batch has been computed, because
    otherwise A would leak information about later rows. In evaluation mode, A is fixed,
    and a warning is issued if no batch has been processed yet. DERF keeps running
    covariances and recomputes its maps from them on the CPU before batches 1, 2, 4, 8,
    16, 32, 48, ... (counted from 0), in ``calibrate`` and in ``redraw_``. With
    activation checkpointing, a batch is computed twice but counted once. With
    ``DistributedDataParallel``, all ranks use the running means of rank 0, whose
    buffers are broadcast before each batch. If broadcasting is disabled, the running
    means differ between ranks.

    ``torch.compile(fullgraph=True)`` supports the module, except for training with DERF
    or ``redraw_interval``. ``torch.export`` supports dynamic lengths; causal attention
    needs the option ``prefer_deferred_runtime_asserts_over_guards=True``.

    Half-precision inputs are computed in float32.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt.attention.torch import LinearAttention
    >>> layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    >>> layer.self_attn = LinearAttention(32, 4, batch_first=True, random_state=0)
    >>> layer(torch.randn(2, 100, 32)).shape
    torch.Size([2, 100, 32])
    """

    # otherwise torch's encoder would bypass this module and use exact attention
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        feature_map: Any = "favor++",
        n_components: int = 256,
        causal: bool = False,
        band: int | None = None,
        momentum: float = 0.1,
        positional: Callable[[Tensor, Tensor], Tensor] | None = None,
        redraw_interval: int | None = None,
        random_state: Any = None,
    ):
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ValueError(
                f"embed_dim={embed_dim} is not divisible by num_heads={num_heads}."
            )
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.dropout, self.batch_first = dropout, batch_first
        self.causal, self.band = causal, band
        self.positional = positional
        self.redraw_interval = redraw_interval
        place = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        width = 3 * embed_dim
        self.in_proj_weight = nn.Parameter(torch.empty(width, embed_dim, **place))
        self.in_proj_bias = nn.Parameter(torch.zeros(width, **place)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias, **place)
        nn.init.xavier_uniform_(self.in_proj_weight)
        if bias:
            nn.init.zeros_(self.out_proj.bias)
        several = isinstance(feature_map, (list, tuple))
        maps = list(feature_map) if several else [feature_map]
        if not maps:
            raise ValueError("feature_map is an empty list; give one or more maps.")
        if band is not None:
            self.near_logit = nn.Parameter(torch.zeros(num_heads, 1, 1, **place))
        if band is not None or len(maps) > 1:
            self.far_logit = nn.Parameter(torch.zeros(num_heads, 1, len(maps), **place))
        sizes = num_heads, self.head_dim
        sampler, *others = (get_sampler(one, n_components) for one in maps)
        self._draw_maps(sampler, sizes, momentum, random_state, **place)
        if others:
            seeds = [self._rng.randint(2**31 - 1) for _ in others]
            self.other_maps = nn.ModuleList(
                FarField(
                    sampler=one,
                    sizes=sizes,
                    momentum=momentum,
                    random_state=seed,
                    redraw_interval=redraw_interval,
                    **place,
                )
                for one, seed in zip(others, seeds, strict=True)
            )

    @classmethod
    def from_multihead(
        cls, attention: nn.MultiheadAttention, **options: Any
    ) -> LinearAttention:
        """Create linear attention from the weights of an exact attention module.

        Parameters
        ----------
        attention : MultiheadAttention
            Exact attention module whose queries, keys and values have the same width.
        **options
            Keyword-only parameters of this class.

        Returns
        -------
        linear : LinearAttention
            Linear attention with copies of the weights, in the same mode (training or
            evaluation). Frozen weights stay frozen. Until the module has processed a
            batch, FAVOR++ is the same as FAVOR+ (see :func:`calibrate`).

        Raises
        ------
        ValueError
            If queries, keys and values of ``attention`` differ in width, or if it uses
            ``bias_k`` or ``add_zero_attn``.
        """
        extra = attention.bias_k is not None or attention.add_zero_attn
        if not attention._qkv_same_embed_dim or extra:
            raise ValueError(
                "attention must have the same width for queries, keys and values and "
                "use neither bias_k nor add_zero_attn, which linear attention does not "
                "support."
            )
        weight, bias = attention.in_proj_weight, attention.in_proj_bias
        linear = cls(
            attention.embed_dim,
            attention.num_heads,
            dropout=attention.dropout,
            bias=bias is not None,
            batch_first=attention.batch_first,
            device=weight.device,
            dtype=weight.dtype,
            **options,
        )
        linear.load_state_dict(attention.state_dict(), strict=False)
        for name, parameter in attention.named_parameters():
            linear.get_parameter(name).requires_grad_(parameter.requires_grad)
        return linear.train(attention.training)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, None]:
        """Compute averages of the projected values.

        Parameters
        ----------
        query, key, value : Tensor
            Tensors of shape (length, batch, embed_dim), or (batch, length, embed_dim)
            with ``batch_first``, or (length, embed_dim).
        key_padding_mask : Tensor of shape (batch, length), default=None
            Boolean mask that is True for the keys to ignore, or numbers that are added
            to the scores of the keys.
        need_weights : bool, default=True
            Ignored, because attention weights are not computed; present for API
            compatibility with torch.
        attn_mask : Tensor of shape (length, length), default=None
            Must be None or the causal mask, which may also have the shape (batch *
            num_heads, length, length). Here and in ``key_padding_mask``, the smallest
            number of the dtype is treated as minus infinity.
        average_attn_weights : bool, default=True
            Ignored.
        is_causal : bool, default=False
            Whether row i attends only to rows 0 to i. If True, ``attn_mask`` is
            ignored.

        Returns
        -------
        output : Tensor
            Averages of the values, with the shape of query.
        weights : None
            Always None, because attention weights are not computed.

        Raises
        ------
        ValueError
            If ``attn_mask`` is neither None nor the causal mask, because linear
            attention does not compute individual weights.
        RuntimeError
            In ``torch.jit.trace`` with causal attention, because the trace would be
            valid for only one sequence length.
        """
        single = query.ndim == 2
        causal = self.causal or is_causal or _is_causal_mask(attn_mask)
        if causal and torch.jit.is_tracing():
            raise RuntimeError(
                "torch.jit.trace would record causal attention for this sequence "
                "length only, so the traced module would return wrong results for "
                "other lengths. Use torch.export."
            )
        q, k, v = self._project(query, key, value)
        scores = _key_scores(key_padding_mask, k)
        with _without_autocast(q):
            q32, k32, v32 = self._placed(q, k, v)
            output = self._attend(q32, k32, v32, scores, causal)
        return self._joined(output, q.dtype, single), None

    def step(
        self, x: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Compute causal attention for one or more new rows of a growing sequence.

        Use this method to generate text with a language model token by token. The state
        has a fixed size, and the cost of a token does not depend on the number of
        earlier tokens. As in evaluation mode, there is no dropout, and no statistics
        are updated.

        Parameters
        ----------
        x : Tensor
            Embeddings of the next tokens, in a shape that ``forward`` accepts.
        state : dict of Tensor, default=None
            State returned by the call for the preceding tokens; None in the first call.
            The first axis of each entry is the batch, so ``{name: part[beams] for name,
            part in state.items()}`` selects the state of some of the sequences. The
            state is a plain dictionary of tensors that can be saved, moved or detached.

        Returns
        -------
        output : Tensor
            Attention output for the new tokens, with the shape of x.
        state : dict of Tensor
            State that includes the new tokens. The input state is not changed.

        Raises
        ------
        ValueError
            If there are no tokens.

        Examples
        --------
        >>> import pytest
        >>> torch = pytest.importorskip("torch")
        >>> from sklearn_crt.attention.torch import LinearAttention
        >>> layer = LinearAttention(32, 4, feature_map="favor+", batch_first=True)
        >>> x, state = torch.randn(1, 5, 32), None
        >>> for i in range(5):
        ...     output, state = layer.step(x[:, i : i + 1], state)
        >>> whole, _ = layer(x, x, x, is_causal=True)
        >>> torch.allclose(output, whole[:, -1:], atol=1e-5)
        True
        """
        q, k, v = self._project(x, x, x)
        n_batch, _, n, _ = q.shape
        if n == 0:
            raise ValueError(
                f"x must contain at least one token, got shape {tuple(x.shape)}."
            )
        with _without_autocast(q):
            n_before = state["n_tokens"] if state else q.new_zeros(n_batch).long()
            q32, k32, v32 = self._placed(q, k, v, n_before)
            fields, after = [], {"n_tokens": n_before + n}
            for i, one in enumerate(self._far_fields):
                prefix = f"far{i}_" if i else ""
                far = LinearAttentionState(one._feature_map(q32))
                if state:
                    own = {
                        name.removeprefix(prefix): part
                        for name, part in state.items()
                        if name.startswith(prefix)
                    }
                    far = far._with_arrays(own)
                ones = with_column_of_ones(v32)
                output, far = causal_rows(far, q32, k32, ones, None)
                fields.append(output)
                arrays = far._arrays().items()
                after |= {f"{prefix}{name}": part for name, part in arrays}
            near = None
            if self.band is not None:
                near, kept = step_of_band(q32, k32, v32, state or {}, self.band)
                after |= kept
            output = self._blend(near, fields)
        return self._joined(output, q.dtype, x.ndim == 2), after

    def _queries_and_keys(self, query, key, value, key_padding_mask=None, *_, **__):
        """Return the queries and the unmasked keys that a call compares, per head."""
        # -> (n_heads, n_queries, d), (n_heads, n_keys, d)
        q, k, v = self._project(query, key, value)
        scores = _key_scores(key_padding_mask, k)
        q, k, _ = self._placed(q, k, v)
        keys = k.transpose(1, 2)  # (n_batch, n_keys, n_heads, d)
        if scores is not None:
            keys = keys[scores[:, 0] > -torch.inf]
        return q.transpose(0, 1).flatten(1, 2), keys.reshape(
            -1, self.num_heads, self.head_dim
        ).transpose(0, 1)

    def _batch_first(self, x):
        if x.ndim == 2:
            return x.unsqueeze(0)
        return x if self.batch_first else x.transpose(0, 1)

    def _joined(self, output, dtype, single):
        """Return the output of the heads in the layout of the inputs."""
        output = self.out_proj(output.transpose(1, 2).flatten(2).to(dtype))
        if single:
            return output[0]
        return output if self.batch_first else output.transpose(0, 1)

    def _placed(self, q, k, v, n_before=None):
        """Return the rows of the heads with positions applied, in at least float32."""
        q, k, v = map(at_least_float32, (q, k, v))
        if self.positional is None:
            return q, k, v
        start = 0 if n_before is None else n_before[:, None, None]
        places = (torch.arange(x.shape[2], device=x.device) + start for x in (q, k))
        return *map(self.positional, (q, k), places), v

    def _project(self, query, key, value):
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if query is key and key is value:  # one matrix product for all three
            parts = F.linear(query, weight, bias).chunk(3, -1)
        else:
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            parts = map(F.linear, (query, key, value), weight.chunk(3), biases)
        for part in parts:
            heads = self._batch_first(part).unflatten(-1, (-1, self.head_dim))
            yield heads.transpose(1, 2)

    def _attend(self, q, k, v, scores, causal):
        if 0 in q.shape or 0 in v.shape:  # there are no queries, or no keys
            return 0 * q
        maps = [one._map_of_batch(q, k, scores, causal) for one in self._far_fields]
        if self.training and self.dropout > 0:
            v = v * F.dropout(torch.ones_like(v[..., :1]), self.dropout)
        options = {"causal": causal, "key_mask": scores}
        fields = [linear_attention(q, k, v, one, **options) for one in maps]
        near = None
        if self.band is not None:
            near = softmax_attention(q, k, v, band=self.band, **options)
        return self._blend(near, fields)

    @property
    def _far_fields(self) -> list[MapsOfHeads]:
        """The objects that hold the maps of linear attention, this module first."""
        return [self, *getattr(self, "other_maps", ())]

    def redraw_(self) -> Self:
        """Draw new frequencies in place, for instance every few hundred training steps.

        Returns
        -------
        self : Module
            This module. The running statistics are kept, and DERF is adapted to them.

        Raises
        ------
        RuntimeError
            If the maps were fitted by :func:`fit_maps`.
        """
        super().redraw_()
        for one in getattr(self, "other_maps", ()):
            one.redraw_()
        return self

    def _blend(self, near, fields):
        """Return the weighted sum of the near field and of all far fields."""
        if near is None and len(fields) == 1:
            return fields[0]
        weights = self.far_logit.sigmoid()
        output = sum(weights[..., i : i + 1] * far for i, far in enumerate(fields))
        if near is not None:
            output = output + self.near_logit.sigmoid() * near
        return output.to(fields[0].dtype)

    def extra_repr(self) -> str:
        """Return the description that ``print`` shows.

        Returns
        -------
        text : str
            Sizes and feature map of the module.
        """
        maps = [one._sampler for one in self._far_fields]
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, "
            f"causal={self.causal}, band={self.band}, "
            f"feature_map={maps[0] if len(maps) == 1 else maps}"
        )


class FarField(MapsOfHeads):
    """One of several feature maps of a module, with its own buffers and statistics."""

    def __init__(
        self,
        sampler: Any,
        sizes: tuple[int, int],
        momentum: float,
        random_state: int,
        redraw_interval: int | None,
        **place: Any,
    ):
        super().__init__()
        self.redraw_interval = redraw_interval
        self._draw_maps(sampler, sizes, momentum, random_state, **place)


def _without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context in which torch does not change the dtypes of operations."""
    if x.is_meta:  # a device without values, for which torch has no such context
        return nullcontext()
    return torch.autocast(x.device.type, enabled=False)


# ---------------------------------------------------------- masks of MultiheadAttention
def _key_scores(key_padding_mask: Tensor | None, k: Tensor) -> Tensor | None:
    """Return the numbers that are added to the scores of keys."""
    # key_padding_mask (n_batch, n_keys) or (n_keys,), k (n_batch, n_heads, n_keys, d)
    # -> (n_batch, 1, n_keys)
    if key_padding_mask is None:
        return None
    if key_padding_mask.ndim == 1:
        key_padding_mask = key_padding_mask[None]
    if key_padding_mask.shape != (k.shape[0], k.shape[2]):
        raise ValueError(
            "key_padding_mask must have the shape (n_batch, n_keys) = "
            f"{(k.shape[0], k.shape[2])}, got {tuple(key_padding_mask.shape)}."
        )
    hidden = _hidden(key_padding_mask, "key_padding_mask")
    boolean = key_padding_mask.dtype == torch.bool
    scores = k.new_zeros(key_padding_mask.shape) if boolean else key_padding_mask
    scores = scores.masked_fill(hidden, -torch.inf)
    return at_least_float32(scores)[:, None]


def _hidden(mask: Tensor, name: str) -> Tensor:
    """Return the mask of entries that are True or represent minus infinity."""
    if mask.dtype == torch.bool:
        return mask
    if not mask.is_floating_point():
        raise TypeError(
            f"{name} must be boolean (True for keys to ignore) or floating-point "
            f"(added to the scores), got {mask.dtype}. Pass mask == 0 if 0 marks keys "
            "to ignore, as in the attention_mask of a tokenizer, or mask == 1 if 1 "
            "does."
        )
    return mask <= torch.finfo(mask.dtype).min


def _is_causal_mask(attn_mask: Tensor | None) -> bool:
    """Return True for the causal mask and False for no mask; reject other masks."""
    # attn_mask (n_queries, n_keys) or (n_batch * n_heads, n_queries, n_keys)
    if attn_mask is None:
        return False
    boolean, hidden = attn_mask.dtype == torch.bool, _hidden(attn_mask, "attn_mask")
    if attn_mask.is_meta:  # it has no values, and the shapes are the same
        return False
    if boolean or bool((hidden | (attn_mask == 0)).all()):
        if not bool(hidden.any()):
            return False
        square = attn_mask.shape[-1] == attn_mask.shape[-2]
        if square and bool((hidden == torch.ones_like(hidden).triu(1)).all()):
            return True
    raise ValueError(
        "attn_mask must be None or the causal mask of shape (length, length), because "
        "linear attention does not compute weights of individual pairs. Mask keys for "
        "all queries with key_padding_mask, or use torch.nn.MultiheadAttention."
    )
