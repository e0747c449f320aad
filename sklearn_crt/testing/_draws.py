"""The draws that judge the mean and the variance of a sampler, each made once."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import stats
from sklearn.base import clone

from ..samplers import BaseFeatureSampler
from ._blocks import WideFit, cuts_into_blocks
from ._composed import composed_estimates
from ._estimates import (
    FAMILY,
    assert_mean,
    fit_sides,
    seed_estimates,
    stated_bias,
    stated_variance,
)


class Draws:
    """Estimates of the kernel by one sampler, for all the checks of it.

    Parameters
    ----------
    sampler : sampler
        Any.
    X, Y : ndarray of shape (n_X, n_features), (n_Y, n_features)
        Rows of the two sides; Y is X if None.
    sizes : list of (int, int)
        Numbers of blocks, and of frequencies a block, that ``blocks`` can return.
    """

    def __init__(
        self,
        sampler: BaseFeatureSampler,
        X: np.ndarray,
        Y: np.ndarray | None,
        sizes: list[tuple[int, int]],
    ):
        self.sampler, self.X, self.Y, self.sizes = sampler, X, Y, sizes
        self._blocks: dict[tuple[int, int], tuple[np.ndarray, BaseFeatureSampler]] = {}

    @cached_property
    def fitted(self) -> BaseFeatureSampler:
        """The sampler, fitted with its own parameters."""
        return fit_sides(clone(self.sampler), self.X, self.Y)

    @cached_property
    def _wide(self) -> WideFit:
        return WideFit(self.sampler, self.X, self.Y, self.sizes)

    def blocks(
        self, n_blocks: int, block: int
    ) -> tuple[np.ndarray, BaseFeatureSampler]:
        """Return what ``block_estimates`` does."""
        if (n_blocks, block) not in self._blocks:
            self._blocks[n_blocks, block] = self._wide.estimates(n_blocks, block)
        return self._blocks[n_blocks, block]

    def judge_mean(self, n_blocks: int, block: int, n_draws: int) -> None:
        """Raise AssertionError if the mean is not the exact kernel, up to the bias."""
        sampler, X, Y, fitted = self.sampler, self.X, self.Y, self.fitted
        expected, bias = fitted.exact_kernel(X, Y), stated_bias(fitted)
        assert_mean(seed_estimates(sampler, X, Y, n_draws=n_draws), expected, bias=bias)
        if n_blocks and cuts_into_blocks(fitted):
            estimates, narrow = self.blocks(n_blocks, block)
            assert_mean(estimates, narrow.exact_kernel(X, Y), bias=bias)

    def judge_variance(self, n_blocks: int, block: int, n_draws: int) -> None:
        """Raise AssertionError if the variance is not the stated one."""
        X, Y, narrow, estimates = self.X, self.Y, self.fitted, None
        if cuts_into_blocks(narrow):
            estimates, narrow = self.blocks(n_blocks, block)
        elif hasattr(narrow, "bases_"):
            estimates = composed_estimates(narrow, X, Y)
        if estimates is None:
            estimates = seed_estimates(self.sampler, X, Y, n_draws=n_draws)
        expected, error = stated_variance(narrow, X, Y)
        squares = np.square(estimates - estimates.mean(axis=0))
        sample = np.mean(squares, axis=0)
        squared = np.var(squares, axis=0) / len(estimates)
        standard = np.sqrt(squared + error**2) + 1e-12
        z = np.abs(sample - expected) / standard
        limit = stats.norm.isf(FAMILY / (2 * z.size))
        worst = np.unravel_index(np.argmax(z), z.shape)
        assert z.max() < limit, (
            f"wrong variance: z = {z.max():.1f} (limit {limit:.1f}) at {worst}, sample "
            f"{sample[worst]:.6g}, formula {expected[worst]:.6g}"
        )
