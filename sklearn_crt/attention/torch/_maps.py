"""The maps of the heads of a module, and the statistics that they adapt to."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from sklearn.base import clone
from torch import Tensor, nn

from ...maps import FeatureMap, map_arrays
from ...samplers import OPRFSampler
from ...samplers._optimal_A import optimal_A
from .._features import resolve, stack_heads


def draw_heads(sampler: Any, n_heads: int, d: int, rng: np.random.RandomState) -> Any:
    """Return the maps of all heads as one, drawn before there are any rows."""
    if isinstance(sampler, str):
        return resolve(sampler, torch.empty(1, 1))
    origin, like = np.zeros((1, d)), torch.empty(1, d, dtype=torch.float64)

    def draw(rows, seed):
        one = clone(sampler).set_params(sigma=d**-0.25, random_state=seed)
        return resolve(one.fit(rows), like)

    if not isinstance(sampler, OPRFSampler):  # whose A follows running statistics
        _check_blind(sampler, draw(origin, 0), draw(np.eye(d), 0))
    maps = [draw(origin, rng.randint(2**31 - 1)) for _ in range(n_heads)]
    try:
        return stack_heads(maps, like)
    except ValueError as error:
        raise TypeError(
            f"{sampler!r} draws maps of several kinds or sizes for the heads, but the "
            "heads of one module need maps that differ in their numbers alone."
        ) from error


def _check_blind(sampler, *maps):
    """Raise where the maps differ that a sampler makes of different rows."""
    first, second = map(arrays_of, maps)
    same = first.keys() == second.keys()
    if not (same and all(torch.equal(first[name], second[name]) for name in first)):
        raise TypeError(
            f"{type(sampler).__name__} chooses its map by the rows of fit, which a "
            "module has not seen when it is made: it would be another map in silence. "
            "Take feature_map='favor++', whose A follows running statistics; or fit on "
            "queries and keys (fit_heads) and call linear_attention."
        )


def arrays_of(feature_map: Any) -> dict[str, Tensor]:
    """Return the arrays of a map by name."""
    found: dict[str, Tensor] = {}
    if isinstance(feature_map, FeatureMap):
        map_arrays(found.setdefault, feature_map)
    return found


def at_least_float32(x: Tensor) -> Tensor:
    """Return numbers of half precision in float32, others as they are."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()


def in_backward() -> bool:
    """Return whether this runs inside a backward pass."""
    if torch.compiler.is_compiling():
        return False
    return torch._C._current_graph_task_id() != -1


class RunningStatistics(nn.Module):
    """Means of queries and keys of earlier batches, one set a head."""

    def __init__(self, n_heads: int, n_features: int, momentum: float | None = 0.1):
        super().__init__()
        self.momentum = momentum  # None for means in which all batches count the same
        self._has_batch = False  # once seen, the device is not asked any more
        for side in ("query", "key"):
            self.register_buffer(f"{side}_mean", torch.zeros(n_heads, n_features))
            self.register_buffer(f"{side}_square", torch.zeros(n_heads))
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))

    def _apply(self, fn, recurse=True):
        """Move the means with a module; half the digits would lose small steps."""
        before = dict(self.named_buffers())
        super()._apply(fn, recurse)
        for name, part in self.named_buffers():
            if part.dtype in (torch.float16, torch.bfloat16):
                setattr(self, name, before[name].to(part.device))
        return self

    @torch.no_grad()
    def update(self, q: Tensor, k: Tensor, weights: Tensor | None) -> None:
        """Take in a batch, unless it has numbers that are not finite."""
        # q (n_batch, n_heads, n_queries, d), k (n_batch, n_heads, n_keys, d), weights
        # (n_batch, 1, n_keys)
        found = {}
        for side, rows, weight in (("query", q, None), ("key", k, weights)):
            if weight is None:
                weight = rows.new_ones(1)
            weight = weight.expand(rows.shape[:-1])[..., None]
            rows = rows.masked_fill(weight == 0, 0)  # they may be anything
            total = weight.sum((0, 2))  # 0 / 0 where there is no row
            found[f"{side}_mean"] = (weight * rows).sum((0, 2)) / total
            squares = (weight * rows * rows).sum((0, 2)) / total
            found[f"{side}_square"] = squares.sum(-1)
        # no branch: it would wait for the device
        usable = torch.stack([part.isfinite().all() for part in found.values()]).all()
        share = 1 / (self.n_batches + 1)
        if self.momentum is not None:
            share = torch.where(self.n_batches == 0, 1.0, self.momentum)
        for name, part in found.items():
            buffer = self.get_buffer(name)
            wide = buffer.to(part.dtype)
            buffer.copy_(torch.where(usable, wide.lerp(part, share.to(wide)), wide))
        self.n_batches += usable

    def warn_of_no_batch(self) -> None:
        """Warn where the map is used as it was before the first batch."""
        if self._has_batch or torch.compiler.is_compiling() or torch.jit.is_tracing():
            return
        self._has_batch = bool(self.n_batches > 0)
        if not self._has_batch:
            warnings.warn(
                "LinearAttention has seen no batch to adapt its map to: A is 0, as in "
                "FAVOR+. Train it, or call calibrate(model, batches).",
                stacklevel=2,
            )

    def A(self) -> Tensor:
        """Return the A of each head, 0 before the first batch."""
        # -> (n_heads, 1, 1)
        parts = (self.query_mean, self.key_mean, self.query_square, self.key_square)
        query_mean, key_mean, *squares = map(at_least_float32, parts)
        d = query_mean.shape[-1]
        cross = (query_mean * key_mean).sum(-1)
        mean = (sum(squares) + 2 * cross) * d**-0.5
        return optimal_A(mean.clamp_min(0), d)[:, None, None]
