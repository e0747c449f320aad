"""Linear attention in the place of ``torch.nn.MultiheadAttention``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .._linear import causal_rows, get_sampler, linear_attention
from .._softmax import softmax_attention
from .._state import LinearAttentionState, with_column_of_ones
from ._maps import MapsOfHeads, at_least_float32
from ._positions import step_of_band


class LinearAttention(MapsOfHeads):
    r"""Multi-head attention in time and memory linear in the length.

    It takes the place of ``torch.nn.MultiheadAttention``, with the same names of
    parameters, so that weights can be copied from one to the other and it works inside
    ``torch.nn.TransformerEncoderLayer``.

    Parameters
    ----------
    embed_dim : int
        Columns of queries, keys, values and outputs.
    num_heads : int
        Number of heads, of embed_dim / num_heads columns each.
    dropout : float, default=0.0
        Chance that, while training, a value is left out of the averages; one draw for
        all the queries of a head, since single weights are never computed.
    bias : bool, default=True
        Whether the projections have biases.
    batch_first : bool, default=False
        Whether arrays are (batch, length, columns), not (length, batch, columns).
    device, dtype : default=None
        Of parameters and buffers; running means are float32 at least.
    feature_map : str or sampler, default="favor++"
        ``"favor+"`` (:class:`~sklearn_crt.PositiveRBFSampler`), ``"favor++"``
        (:class:`~sklearn_crt.OPRFSampler`), ``"simplex"`` (the same with simplex
        frequencies), ``"derf"`` (:class:`~sklearn_crt.DERFSampler`),
        ``"trigonometric"``, ``"hybrid"``
        (:func:`~sklearn_crt.angular_hybrid`), a deterministic map ``"elu+1"``,
        ``"elu(-)+1"`` or ``"relu"``; or a sampler that has ``kernel="softmax"``, which
        is cloned. Each head draws its own frequencies. Others that choose their map by
        the rows are a TypeError: there are none yet.
    n_components : int, default=256
        Features per head; a sampler brings its own number.
    causal : bool, default=False
        Whether row i sees the rows 0 ... i alone, in every call.
    band : int, default=None
        Where given, exact attention to keys with abs(i - j) <= band is blended in, with
        learned weights sigmoid(``near_logit``) and sigmoid(``far_logit``) per head.
    momentum : float, default=0.1
        Of the running means of queries and keys that FAVOR++ and DERF follow.
    positional : callable, default=None
        What is done to queries and keys before their features: ``positional(rows,
        positions)`` takes rows (batch, num_heads, length, head_dim) and the numbers of
        their places, which broadcast against (batch, num_heads, length), and returns
        rows, as :func:`rotary` does.
    redraw_interval : int, default=None
        Where given, ``redraw_`` is called after as many batches of training, always.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies.

    Attributes
    ----------
    in_proj_weight, in_proj_bias, out_proj : Parameter, Parameter, Linear
        As in ``torch.nn.MultiheadAttention``.
    near_logit, far_logit : Parameter of shape (num_heads, 1, 1)
        Of the blend, where ``band`` is given.

    See Also
    --------
    replace_attention : Change the attention of a whole model.
    calibrate : Read batches for A, without training.
    sklearn_crt.attention.linear_attention : The function behind it.

    Notes
    -----
    Frequencies are buffers: they are saved, moved and cast with the module, and take no
    gradient. Copies of a module have equal frequencies until ``redraw_``.

    FAVOR++ has one A per head, from means of \|q + k\|^2. While training these
    are running means; in a causal module a batch is taken in *after* its own output was
    computed, since an A of the whole sequence would tell early rows about later ones.
    In evaluation nothing changes, and a warning says where no batch was seen. DERF has
    running covariances, and maps that are made of them on the host: before the batches
    1, 2, 4, 8, 16, 32, 48, ... (counted from 0), by ``calibrate`` and by ``redraw_``.
    Activation checkpointing computes a batch twice and counts it once. Under
    ``DistributedDataParallel`` the means are those of rank 0, whose buffers it sends to
    the others before a batch; where that is turned off, they differ between the ranks.

    ``torch.compile(fullgraph=True)`` takes it, while training without DERF and
    ``redraw_interval``, and ``torch.export`` for any length, where causal with
    ``prefer_deferred_runtime_asserts_over_guards=True``.

    Inputs of half precision are computed in float32.

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

    # torch's encoder would go round this module, to exact attention, without it
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
        if embed_dim % num_heads:
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
        if band is not None:
            self.near_logit = nn.Parameter(torch.zeros(num_heads, 1, 1, **place))
            self.far_logit = nn.Parameter(torch.zeros(num_heads, 1, 1, **place))
        sizes = num_heads, self.head_dim
        sampler = get_sampler(feature_map, n_components)
        self._draw_maps(sampler, sizes, momentum, random_state, **place)

    @classmethod
    def from_multihead(
        cls, attention: nn.MultiheadAttention, **options: Any
    ) -> LinearAttention:
        """Return linear attention with the weights of exact attention.

        Parameters
        ----------
        attention : MultiheadAttention
            Of one width for queries, keys and values.
        **options
            Keyword-only parameters of this class.

        Returns
        -------
        linear : LinearAttention
            With copies of the weights, in the same mode, training or evaluation.
            Frozen ones are frozen. FAVOR++ is FAVOR+ until it has seen a batch: see
            :func:`calibrate`.

        Raises
        ------
        ValueError
            If ``attention`` has several widths, ``bias_k`` or ``add_zero_attn``.
        """
        extra = attention.bias_k is not None or attention.add_zero_attn
        if not attention._qkv_same_embed_dim or extra:
            raise ValueError(
                "attention must have one width for queries, keys and values, and "
                "neither bias_k nor add_zero_attn: linear attention has no such form."
            )
        weight, bias = attention.in_proj_weight, attention.in_proj_bias
        sizes = attention.embed_dim, attention.num_heads, attention.dropout
        layout = bias is not None, attention.batch_first
        linear = cls(*sizes, *layout, weight.device, weight.dtype, **options)
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
        """Return averages of the projected values.

        Parameters
        ----------
        query, key, value : Tensor
            Of shape (length, batch, embed_dim), or (batch, length, embed_dim) with
            ``batch_first``, or (length, embed_dim).
        key_padding_mask : Tensor of shape (batch, length), default=None
            True for keys to be left out; or numbers added to the scores of keys.
        need_weights : bool, default=True
            Ignored, here for the interface: there are no weights.
        attn_mask : Tensor of shape (length, length), default=None
            None or the causal mask, also as (batch * num_heads, length, length). The
            least number of its type stands for minus infinity, in both masks.
        average_attn_weights : bool, default=True
            Ignored.
        is_causal : bool, default=False
            Whether row i sees the rows 0 ... i alone; ``attn_mask`` is not read then.

        Returns
        -------
        output : Tensor
            Of the shape of query.
        weights : None
            Always.

        Raises
        ------
        ValueError
            If ``attn_mask`` is another mask: linear attention has no single weights.
        RuntimeError
            In ``torch.jit.trace`` where causal: the trace would be of one length.
        """
        single = query.ndim == 2
        causal = self.causal or is_causal or _is_causal_mask(attn_mask)
        if causal and torch.jit.is_tracing():
            raise RuntimeError(
                "torch.jit.trace would keep the chunks of this length, which are wrong "
                "at another one. Use torch.export."
            )
        q, k, v = self._project(query, key, value)
        scores = _key_scores(key_padding_mask, k)
        with torch.autocast(q.device.type, enabled=False):
            q32, k32, v32 = self._placed(q, k, v)
            output = self._attend(q32, k32, v32, scores, causal)
        return self._joined(output, q.dtype, single), None

    def step(
        self, x: Tensor, state: dict[str, Tensor] | None = None
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return causal attention of some more rows to all rows so far.

        A language model writes token by token so: the state has a fixed size, and a
        token costs the same however many came before. As in evaluation, nothing is
        dropped out and no statistics are taken.

        Parameters
        ----------
        x : Tensor
            Rows of the next tokens, of a shape that ``forward`` takes.
        state : dict of Tensor, default=None
            What the call for the tokens before returned; None at the beginning. The
            first axis of each entry is the batch: ``{name: part[beams] for name, part
            in state.items()}`` goes on with some of the sequences. It is a plain
            ``state_dict``, to be saved, moved or detached.

        Returns
        -------
        output : Tensor
            Of the shape of x.
        state : dict of Tensor
            After these tokens; the one before stays as it was.

        Raises
        ------
        ValueError
            If there is no token.

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
            raise ValueError("x has no token.")
        with torch.autocast(q.device.type, enabled=False):
            n_before = state["n_tokens"] if state else q.new_zeros(n_batch).long()
            q32, k32, v32 = self._placed(q, k, v, n_before)
            far = LinearAttentionState(self._feature_map(q32))
            if state:
                far = far._with_arrays(state)
            output, far = causal_rows(far, q32, k32, with_column_of_ones(v32), None)
            after = {"n_tokens": n_before + n, **far._arrays()}
            if self.band is not None:
                near, kept = step_of_band(q32, k32, v32, state or {}, self.band)
                output, after = self._blend(near, output), after | kept
        return self._joined(output, q.dtype, x.ndim == 2), after

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
        """Return the rows of the heads in float32 at least, with their positions."""
        q, k, v = map(at_least_float32, (q, k, v))
        if self.positional is None:
            return q, k, v
        start = 0 if n_before is None else n_before[:, None, None]
        places = (torch.arange(x.shape[2], device=x.device) + start for x in (q, k))
        return *map(self.positional, (q, k), places), v

    def _project(self, query, key, value):
        weight, bias = self.in_proj_weight, self.in_proj_bias
        if query is key and key is value:  # one product
            parts = F.linear(query, weight, bias).chunk(3, -1)
        else:
            biases = (None,) * 3 if bias is None else bias.chunk(3)
            parts = map(F.linear, (query, key, value), weight.chunk(3), biases)
        for part in parts:
            heads = self._batch_first(part).unflatten(-1, (-1, self.head_dim))
            yield heads.transpose(1, 2)

    def _attend(self, q, k, v, scores, causal):
        if 0 in q.shape or 0 in v.shape:  # no row, or none to be seen
            return 0 * q
        feature_map = self._map_of_batch(q, k, scores, causal)
        if self.training and self.dropout > 0:
            v = v * F.dropout(torch.ones_like(v[..., :1]), self.dropout)
        options = {"causal": causal, "key_mask": scores}
        far = linear_attention(q, k, v, feature_map, **options)
        if self.band is None:
            return far
        return self._blend(softmax_attention(q, k, v, band=self.band, **options), far)

    def _blend(self, near, far):
        near_weight, far_weight = self.near_logit.sigmoid(), self.far_logit.sigmoid()
        return (near_weight * near + far_weight * far).to(far.dtype)

    def extra_repr(self) -> str:
        """Return what ``print`` shows.

        Returns
        -------
        text : str
            Sizes and the map.
        """
        return (
            f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, "
            f"causal={self.causal}, band={self.band}, feature_map={self._sampler}"
        )


# ---------------------------------------------------------- masks of MultiheadAttention
def _key_scores(key_padding_mask: Tensor | None, k: Tensor) -> Tensor | None:
    """Return what is added to the scores of keys."""
    # key_padding_mask (n_batch, n_keys) or (n_keys,), k (n_batch, n_heads, n_keys, d)
    # -> (n_batch, 1, n_keys)
    if key_padding_mask is None:
        return None
    if key_padding_mask.ndim == 1:
        key_padding_mask = key_padding_mask[None]
    if key_padding_mask.shape != (k.shape[0], k.shape[2]):
        raise ValueError(
            f"key_padding_mask has shape {tuple(key_padding_mask.shape)}, but needs "
            f"(n_batch, n_keys) = {(k.shape[0], k.shape[2])}."
        )
    scores = key_padding_mask
    if scores.dtype == torch.bool:
        zeros = torch.zeros_like(scores, dtype=k.dtype)
        scores = zeros.masked_fill(scores, -torch.inf)
    else:
        scores = scores.masked_fill(_is_least(scores), -torch.inf)
    return at_least_float32(scores)[:, None]


def _is_least(mask):
    """Return where numbers stand for minus infinity."""
    return mask <= torch.finfo(mask.dtype).min


def _is_causal_mask(attn_mask: Tensor | None) -> bool:
    """Return whether a mask of pairs is causal, not empty."""
    # attn_mask (n_queries, n_keys) or (n_batch * n_heads, n_queries, n_keys)
    if attn_mask is None:
        return False
    boolean = attn_mask.dtype == torch.bool
    hidden = attn_mask if boolean else _is_least(attn_mask)
    if boolean or bool((hidden | (attn_mask == 0)).all()):
        if not bool(hidden.any()):
            return False
        square = attn_mask.shape[-1] == attn_mask.shape[-2]
        if square and bool((hidden == torch.ones_like(hidden).triu(1)).all()):
            return True
    raise ValueError(
        "attn_mask must be None or the causal mask of shape (length, length): linear "
        "attention computes no weights of single pairs that could be masked. Leave out "
        "whole keys by key_padding_mask, or use torch.nn.MultiheadAttention."
    )
