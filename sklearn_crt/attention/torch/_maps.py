"""Feature maps of the heads of a module, and the statistics that determine them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, distributed, nn

from ...arrays.namespaces import values_are_known
from ...life_cycle.fitted import with_value
from ...maps import FeatureMap, real_form
from ...rows import Covariance, Frame
from ...samplers import DERFSampler, OPRFSampler
from ...samplers._exponential import optimal_A
from .._features import map_arrays, resolve, stack_heads
from .._linear import fit_heads
from .._state import Groups

# names of the buffers that describe groups of frequencies
_GROUPS = "group_columns", "group_counts", "group_shares"


def draw_heads(
    sampler: Any, d: int, seeds: Sequence[int], found: RunningStatistics | None = None
) -> Any:
    """Return the maps of all heads as one map, drawn before any rows are available.

    Maps that depend on covariances use running statistics if these are given.
    """
    if isinstance(sampler, str):
        return resolve(sampler, torch.empty(1, 1))
    origin, like = np.zeros((1, d)), torch.empty(1, d, dtype=torch.float64)

    def draw(rows, seed, *sides):
        one = clone(sampler).set_params(sigma=d**-0.25, random_state=seed)
        one.fit(rows, X_key=rows if isinstance(sampler, DERFSampler) else None)
        if sides:
            value = one._value
            value = value.with_map(_statistics(value.statistics, *sides))
            one = with_value(one, value)
        return resolve(one, like)

    # maps of other samplers must not depend on the rows
    if not isinstance(sampler, (OPRFSampler, DERFSampler)):
        _check_blind(sampler, draw(origin, 0), draw(np.eye(d), 0))
    sides = [()] * len(seeds) if found is None else found.covariances()
    maps = [draw(origin, s, *both) for s, both in zip(seeds, sides, strict=True)]
    return _stacked(sampler, maps, like)


def _stacked(sampler, maps, like):
    """Return the maps of all heads as one map, or raise TypeError."""
    try:
        return stack_heads(maps, like)
    except ValueError as error:
        raise TypeError(
            f"{sampler!r} draws feature maps of different kinds or sizes for the "
            "heads, but all heads of a module must have maps of the same kind and size."
        ) from error


def _statistics(before, query, key):
    """Return the statistics of a sampler with the covariances of queries and keys."""
    changes = {"query_covariance": query, "key_covariance": key}
    changes["query"] = replace(before.query, mean=query.mean)
    return replace(before, **changes, key_moments=replace(before.query, mean=key.mean))


def _check_blind(sampler, *maps):
    """Raise an error if a sampler makes different maps for different rows."""
    first, second = map(arrays_of, maps)
    same = first.keys() == second.keys()
    if not (same and all(torch.equal(first[name], second[name]) for name in first)):
        raise TypeError(
            f"{type(sampler).__name__} adapts its feature map to the rows passed to "
            "fit, but a module is created before any rows are available, so its map "
            "would differ from that of the fitted sampler. Use feature_map='derf' or "
            "'favor++', which adapt to running statistics, or create the module with "
            "its default map and call fit_maps(model, sampler, batches)."
        )


def arrays_of(feature_map: Any) -> dict[str, Tensor]:
    """Return the arrays of a map by name."""
    found: dict[str, Tensor] = {}
    if isinstance(feature_map, FeatureMap):
        map_arrays(found.setdefault, feature_map)
    return found


def at_least_float32(x: Tensor) -> Tensor:
    """Convert half-precision numbers to float32; return others unchanged."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def in_backward() -> bool:
    """Return whether a backward pass is running."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._current_graph_task_id() != -1


# This function is not compiled, because it uses Python numbers and maps on the CPU.
@torch.compiler.disable
def begin_batch(module: Any) -> None:
    """Redraw or adapt the map of a module before certain training batches."""
    n, interval = module._n_forwards, module.redraw_interval
    if n and interval and n % interval == 0:
        module.redraw_()
    # before batches 1, 2, 4, 8, 16, 32, 48, ..., because later batches change the
    # statistics less
    elif module._adapts and n and n & (n - 1 if n < 16 else 15) == 0:
        module._make_map()
    module._n_forwards += 1


class RunningStatistics(nn.Module):
    """Running means of queries and keys over batches, one set per head.

    The object also holds mean squared norms or, if ``full``, covariances and the
    inverse of the effective number of rows from which they were computed.
    """

    def __init__(
        self, n_heads: int, d: int, momentum: float | None = 0.1, full: bool = False
    ):
        super().__init__()
        # None gives all batches the same weight
        self.momentum = momentum
        self.full = full
        self._has_batch = False  # once it is True, the device is not queried again
        for side in ("query", "key"):
            self.register_buffer(f"{side}_mean", torch.zeros(n_heads, d))
            if full:
                self.register_buffer(f"{side}_covariance", torch.zeros(n_heads, d, d))
                self.register_buffer(f"{side}_share", torch.zeros(n_heads, 1))
            else:
                self.register_buffer(f"{side}_square", torch.zeros(n_heads))
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))

    def _apply(self, fn, recurse=True):
        """Move the means with the module, but never convert them to half precision."""
        before = dict(self.named_buffers())
        super()._apply(fn, recurse)
        for name, part in self.named_buffers():
            if part.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, before[name].to(part.device))
        return self

    @torch.no_grad()
    def update(self, q: Tensor, k: Tensor, weights: Tensor | None) -> None:
        """Update the means with a batch, unless it contains non-finite numbers."""
        # q (n_batch, n_heads, n_queries, d), k (n_batch, n_heads, n_keys, d), weights
        # (n_batch, 1, n_keys)
        found, share = {}, 1 / (self.n_batches + 1)
        if self.momentum is not None:
            share = torch.where(self.n_batches == 0, 1.0, self.momentum)
        for side, rows, weight in (("query", q, None), ("key", k, weights)):
            share, parts = share.to(rows), dict(self.named_buffers())
            if weight is None:
                weight = rows.new_ones(1)
            weight = weight.expand(rows.shape[:-1])[..., None]
            # masked rows may contain any values
            rows = rows.masked_fill(weight == 0, 0)
            total = weight.sum((0, 2))  # gives 0 / 0 if there are no rows
            mean = found[f"{side}_mean"] = (weight * rows).sum((0, 2)) / total
            if not self.full:
                squares = (weight * rows * rows).sum((0, 2)) / total
                found[f"{side}_square"] = squares.sum(-1)
                continue
            rows = (rows - mean[:, None]) * weight.sqrt()
            inside = torch.einsum("bhni,bhnj->hij", rows, rows) / total[..., None]
            gap = mean - parts[f"{side}_mean"]
            between = gap[..., None] * gap[..., None, :]
            found[f"{side}_covariance"] = inside + (1 - share) * between
            # the sum of the squared weights is the inverse of the effective number of
            # rows
            rest = (1 - share) * parts[f"{side}_share"]
            found[f"{side}_share"] = share / total - rest
        # computed without a branch, which would wait for the device
        usable = torch.stack([part.isfinite().all() for part in found.values()]).all()
        for name, part in found.items():
            buffer = self.get_buffer(name)
            wide = buffer.to(part.dtype)
            buffer.copy_(torch.where(usable, wide.lerp(part, share), wide))
        self.n_batches += usable

    def warn_of_no_batch(self) -> None:
        """Warn if the map is used before the first batch."""
        if self._has_batch or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        if self.n_batches.is_meta:  # it has no value
            return
        self._has_batch = bool(self.n_batches > 0)
        if not self._has_batch:
            warnings.warn(
                "LinearAttention has not been adapted to any data, so A is 0 as in "
                "FAVOR+. Train the model, or call calibrate(model, batches).",
                stacklevel=2,
            )

    def A(self) -> Tensor | None:
        """Return A of each head (0 before the first batch), or None if ``full``."""
        # -> (n_heads, 1, 1)
        if self.full:
            return None
        parts = (self.query_mean, self.key_mean, self.query_square, self.key_square)
        query_mean, key_mean, *squares = map(at_least_float32, parts)
        d = query_mean.shape[-1]
        cross = (query_mean * key_mean).sum(-1)
        mean = (sum(squares) + 2 * cross) * d**-0.5
        return optimal_A(mean.clamp_min(0), d)[:, None, None]

    def covariances(self) -> list[tuple[Covariance, Covariance]]:
        """Return the covariances of queries and keys of each head, as NumPy arrays."""
        found = {name: b.double().cpu().numpy() for name, b in self.named_buffers()}

        def side(name, h):
            share, mean, matrix = (
                found[f"{name}_{part}"][h] for part in ("share", "mean", "covariance")
            )
            return Covariance(1 / max(share.item(), 1e-12), mean, matrix)

        return [(side("query", h), side("key", h)) for h in range(len(self.query_mean))]


class MapsOfHeads(nn.Module):
    """Base class of modules with a feature map for each head."""

    redraw_interval: int | None

    def _draw_maps(self, sampler, sizes, momentum, random_state, *, device, dtype):
        """Create buffers for the maps of all heads and for statistics."""
        self._sampler, self._sizes, self._n_forwards = sampler, sizes, 0
        self._rng, (n_heads, d) = check_random_state(random_state), sizes
        seeds, self._is_fixed = self._next_seeds(), False
        self._store_map(draw_heads(sampler, d, seeds), device, dtype)
        self.statistics: Any = None
        self._adapts = isinstance(sampler, DERFSampler)  # DERF uses covariances
        if self._adapts or isinstance(sampler, OPRFSampler):
            statistics = RunningStatistics(n_heads, d, momentum, self._adapts)
            # in half precision, small updates of the means would be lost
            wide = torch.promote_types(dtype, torch.float32)
            self.statistics = statistics.to(device, wide)
        if self._adapts:
            self.register_buffer("seeds", torch.tensor(seeds, device=device))
        self._A = None  # A of the last training batch
        # cached map for evaluation, and the state of the buffers it was computed from
        self._kept: Any = None

    def _store_map(self, feature_map, device, dtype):
        """Create buffers for a map with an axis for the heads."""
        self._map = feature_map
        for name, array in arrays_of(feature_map).items():
            self.register_buffer(f"map_{name}", array.to(device, dtype))
        if not feature_map.is_positive:  # groups are formed here, outside compiled code
            groups = Groups.of(feature_map, torch.empty(0, device=device, dtype=dtype))
            columns = torch.as_tensor(groups.columns, device=device)
            for name, part in zip(_GROUPS, (columns, groups.counts, groups.shares)):
                self.register_buffer(name, part, persistent=False)

    def _fix_map(self, sampler, queries, keys, *, device, dtype):
        """Fit a sampler to the rows of each head, and keep the maps from now on."""
        # queries (n_heads, n_queries, d), keys (n_heads, n_keys, d)
        like = torch.empty(1, self._sizes[1], dtype=torch.float64)
        samplers = fit_heads(sampler, queries.double(), keys.double())
        heads = [resolve(one, like) for one in samplers]
        feature_map = _stacked(sampler, heads, like)
        for name in [*self._buffers]:
            if name.startswith("map_") or name in (*_GROUPS, "seeds"):
                del self._buffers[name]
        self._store_map(feature_map, device, dtype)
        self._sampler, self.redraw_interval = sampler, None
        self.statistics, self._adapts, self._is_fixed = None, False, True
        self._A = self._kept = None

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
        if self._is_fixed:
            raise RuntimeError(
                "The feature maps were fitted to queries and keys, so they cannot be "
                "drawn again without data. Call fit_maps again."
            )
        self._make_map(self._next_seeds())
        return self

    def _next_seeds(self):
        return [self._rng.randint(2**31 - 1) for _ in range(self._sizes[0])]

    def _make_map(self, seeds=None):
        """Recompute the map for new seeds, or for the current running statistics."""
        with torch.no_grad():
            if self._adapts:
                seeds = self.seeds.tolist() if seeds is None else seeds
                self.seeds.copy_(torch.tensor(seeds))
            found = self.statistics if self._adapts else None
            made = draw_heads(self._sampler, self._sizes[1], seeds, found)
            for name, array in arrays_of(made).items():
                self.get_buffer(f"map_{name}").copy_(array)

    def _map_of_batch(self, q, k, scores, causal):
        """Return the map for this batch; during training, update the statistics."""
        statistics, again = self.statistics, in_backward()
        changes = self._adapts or self.redraw_interval
        if self.training and not again and changes and not q.is_meta:
            begin_batch(self)
        if statistics is None:
            return self._feature_map(q)
        if not statistics.training:
            statistics.warn_of_no_batch()
            return self._feature_map(q)
        if not again:  # checkpointing repeats the forward pass during backward
            A = statistics.A()
            statistics.update(q, k, None if scores is None else scores.exp())
            self._A = A if causal else statistics.A()  # from earlier batches, if causal
        return self._made_map(q.dtype, self._A)

    def _feature_map(self, like):
        """Return the map for evaluation, which is cached until a buffer changes."""
        A = None if self.statistics is None else self.statistics.A
        parts = [*self._buffers.values()]
        parts += [] if A is None else self.statistics._buffers.values()
        known = values_are_known(like) and not any(
            part.is_inference() for part in parts
        )
        # DistributedDataParallel writes into buffers without changing their version
        several = distributed.is_available() and distributed.is_initialized()
        if self.training or several or not known:
            return self._made_map(like.dtype, A and A())
        now = [like.dtype, *(part._version for part in parts)]
        if self._kept is not None:
            feature_map, before, tensors = self._kept
            same = zip(parts, tensors, strict=True)
            if now == before and all(a is b for a, b in same):
                return feature_map
        with torch.inference_mode(False), torch.no_grad():
            feature_map = self._made_map(like.dtype, A and A())
        self._kept = feature_map, now, parts
        return feature_map

    def __getstate__(self):
        """Return the state to copy or pickle, without the cached map."""
        return {**self.__dict__, "_kept": None}

    def _made_map(self, dtype, A):
        """Build the map from the current buffers, with one A per head or None."""
        if isinstance(self._sampler, str):
            return self._map

        def buffer(name, _):
            return self.get_buffer(f"map_{name}").to(dtype)

        feature_map = map_arrays(buffer, self._map)
        if not feature_map.is_positive:
            columns, *shares = (self.get_buffer(name) for name in _GROUPS)
            groups = Groups(columns, *(part.to(dtype) for part in shares))
            feature_map.__dict__["groups"] = groups
        if A is not None:
            (side,) = feature_map.tables  # drawn with A = 0
            frequencies, offsets = side.magnitude.frequencies, side.magnitude.offsets
            squares = frequencies.weights.square().sum(-2, keepdim=True)
            form = real_form(frequencies, squares, A.to(dtype), offsets)
            feature_map.__dict__["tables"] = (side._replace(magnitude=form),)
        return feature_map


class RandomFeatures(nn.Module):
    """Layer that computes the features of a fitted sampler, with a trainable sigma.

    Parameters
    ----------
    sampler : fitted sampler
        Fitted sampler, which is not changed.
    learn_sigma : bool, default=True
        Whether sigma is a trainable parameter.
    device, dtype : default=None
        Device and dtype of the parameters and buffers.

    Attributes
    ----------
    log_sigma : Parameter of shape () or (1, n_features)
        Logarithm of sigma, either one number or one per column. Training the logarithm
        instead of sigma keeps sigma positive.

    Raises
    ------
    NotFittedError
        If the sampler is not fitted.

    See Also
    --------
    LinearAttention : Attention that is computed from random features.

    Notes
    -----
    Training changes neither the frequencies nor the parameters that ``fit`` chose for
    the original sigma, such as ``A_`` of :class:`~sklearn_crt.OPRFSampler`. The kernel
    estimates remain unbiased for every sigma.

    Examples
    --------
    >>> import pytest
    >>> torch = pytest.importorskip("torch")
    >>> from sklearn_crt import TrigRBFSampler
    >>> from sklearn_crt.attention.torch import RandomFeatures
    >>> X = torch.randn(100, 5)
    >>> sampler = TrigRBFSampler(n_components=64, random_state=0).fit(X.numpy())
    >>> layer = RandomFeatures(sampler)
    >>> model = torch.nn.Sequential(layer, torch.nn.Linear(64, 1))
    >>> model(X).sum().backward()
    >>> bool(layer.log_sigma.grad != 0)
    True
    """

    def __init__(
        self,
        sampler: Any,
        *,
        learn_sigma: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        check_is_fitted(sampler)
        place = {"device": device, "dtype": dtype or torch.get_default_dtype()}
        like = torch.empty(1, sampler.n_features_in_, dtype=torch.float64)
        self._map = sampler.map_.to(like)
        for name, array in arrays_of(self._map).items():
            self.register_buffer(name, array.to(**place))
        sigma = torch.as_tensor(self._map.frame.sigma, dtype=torch.float64)
        self.log_sigma = nn.Parameter(sigma.log().to(**place), learn_sigma)

    def forward(self, X: Tensor, key: bool = False) -> Tensor:
        """Compute the features of rows.

        Parameters
        ----------
        X : Tensor of shape (..., n_samples, n_features)
            Rows of dtype float32 or float64.
        key : bool, default=False
            Whether the rows are keys rather than queries. It has an effect only if the
            features of keys and queries differ.

        Returns
        -------
        features : Tensor of shape (..., n_samples, n_components)
            Features whose inner products estimate the kernel.
        """
        buffers = dict(self.named_buffers())
        feature_map = map_arrays(lambda name, _: buffers[name].to(X.dtype), self._map)
        sigma = self.log_sigma.to(X.dtype).exp()
        frame = Frame(sigma, feature_map.frame.center)
        return feature_map.features(frame.rows(X), key=key)
