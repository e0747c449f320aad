"""Running statistics of queries and keys, from which FAVOR++ takes its A."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ._heads import optimal_A


class RunningStatistics(nn.Module):
    """Means of queries and keys of earlier batches, one set a head.

    Parameters
    ----------
    n_heads : int
        Number of heads.
    n_features : int
        Columns of a head.
    momentum : float, default=0.1
        Weight of a new batch; the first one counts as a whole.
    """

    def __init__(self, n_heads: int, n_features: int, momentum: float = 0.1):
        super().__init__()
        self.momentum = momentum
        for side in ("query", "key"):
            self.register_buffer(f"{side}_mean", torch.zeros(n_heads, n_features))
            self.register_buffer(f"{side}_square", torch.zeros(n_heads))
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self, q: Tensor, k: Tensor, weights: Tensor | None) -> None:
        """Take in a batch.

        Parameters
        ----------
        q : Tensor of shape (n_batch, n_heads, n_queries, d)
            Queries.
        k : Tensor of shape (n_batch, n_heads, n_keys, d)
            Keys.
        weights : Tensor of shape (n_batch, 1, n_keys) or None
            Weights of the keys, 0 for padding.
        """
        share = 1.0 if self.n_batches == 0 else self.momentum
        self.n_batches += 1
        for side, rows, weight in (("query", q, None), ("key", k, weights)):
            if weight is None:
                weight = rows.new_ones(1)
            weight = weight.expand(rows.shape[:-1])[..., None]
            total = weight.sum((0, 2)).clamp_min(torch.finfo(rows.dtype).tiny)
            mean = (weight * rows).sum((0, 2)) / total
            square = (weight * rows * rows).sum((0, 2)) / total
            self.get_buffer(f"{side}_mean").lerp_(mean, share)
            self.get_buffer(f"{side}_square").lerp_(square.sum(-1), share)

    def A(self) -> Tensor:
        """Return the A of each head, 0 before the first batch.

        Returns
        -------
        A : Tensor of shape (n_heads, 1, 1)
            For the mean of |x + y|^2 of the batches so far.
        """
        d = self.query_mean.shape[-1]
        cross = (self.query_mean * self.key_mean).sum(-1)
        mean = (self.query_square + self.key_square + 2 * cross) * d**-0.5
        return optimal_A(mean.clamp_min(0), d)[:, None, None]
