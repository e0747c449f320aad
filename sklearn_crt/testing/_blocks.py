"""Draws of estimates of a kernel from blocks of the frequencies of one wide fit."""

from __future__ import annotations

import numpy as np
from sklearn.base import clone

from ..frequencies import Coupling
from ..samplers import BaseFeatureSampler
from ._estimates import fit_sides


def _coupling(sampler: BaseFeatureSampler) -> Coupling | None:
    """Return the coupling of the frequencies of a fitted sampler, or None."""
    return getattr(getattr(sampler, "map_", None), "coupling", None)


def coupled_size(sampler: BaseFeatureSampler, n_features: int) -> int:
    """Return after how many frequencies the coupling starts anew; 0 for never."""
    coupling = _coupling(sampler)
    if coupling is None:
        return n_features
    sizes = coupling.block_sizes(32 * n_features, n_features)  # some pad to 16
    return max(n_features, int(np.max(sizes))) if len(sizes) > 1 else 0


def cuts_into_blocks(fitted: BaseFeatureSampler) -> bool:
    """Whether groups of frequencies of a fitted sampler make independent estimates."""
    if fitted.frequency_index() is None:
        return False
    return coupled_size(fitted, fitted.n_features_in_) > 0


class WideFit:
    """A wide fit whose frequencies stand, block by block, for those of narrow fits.

    Its blocks are independent and each has the law of a fit with as many frequencies.

    Parameters
    ----------
    sampler : sampler
        With ``frequency_index``, as all of this package.
    X, Y : ndarray of shape (n_X, n_features), (n_Y, n_features)
        Rows of the two sides; Y is X if None.
    sizes : list of (int, int)
        Numbers of blocks, and of frequencies a block, that will be asked for.
    random_state : int, default=0
        Seed.
    """

    def __init__(
        self,
        sampler: BaseFeatureSampler,
        X: np.ndarray,
        Y: np.ndarray | None,
        sizes: list[tuple[int, int]],
        random_state: int = 0,
    ):
        self.X, self.Y = X, Y
        self.sampler = clone(sampler).set_params(random_state=random_state)
        first = fit_sides(clone(self.sampler).set_params(n_components=1), X, Y)
        self.per_frequency = first.columns_per_frequency
        self.whole = coupled_size(first, X.shape[1])
        self.n_frequencies = max(self._stride(size) * n for n, size in sizes)
        wide = self._fit(self.n_frequencies)
        index = np.asarray(wide.frequency_index())
        order = np.argsort(index, kind="stable")
        self.begins = np.searchsorted(index[order], np.arange(self.n_frequencies + 1))
        self.queries = wide.transform(X)[:, order]
        self.keys = wide.transform_key(X if Y is None else Y)[:, order]

    def _stride(self, block: int) -> int:
        """Return after how many frequencies the next block may begin."""
        return -(-block // self.whole) * self.whole

    def _fit(self, n_frequencies: int) -> BaseFeatureSampler:
        n_components = n_frequencies * self.per_frequency
        narrow = clone(self.sampler).set_params(n_components=n_components)
        return fit_sides(narrow, self.X, self.Y)

    def estimates(
        self, n_blocks: int, block: int
    ) -> tuple[np.ndarray, BaseFeatureSampler]:
        """Return what ``block_estimates`` does."""
        first = self._stride(block) * np.arange(n_blocks)
        borders = self.begins[np.column_stack([first, first + block]).ravel()]
        stop, scale = borders[-1], self.n_frequencies / block
        estimates = np.empty((n_blocks, len(self.queries), len(self.keys)))
        for i, query in enumerate(self.queries):
            for j, key in enumerate(self.keys):
                products = query[:stop] * key[:stop]
                sums = np.add.reduceat(products, borders[:-1])[::2]
                np.multiply(sums, scale, out=estimates[:, i, j])
        return estimates, self._fit(block)


def block_estimates(
    sampler: BaseFeatureSampler,
    X: np.ndarray,
    Y: np.ndarray | None = None,
    *,
    n_blocks: int = 50_000,
    block: int | None = None,
    random_state: int = 0,
) -> tuple[np.ndarray, BaseFeatureSampler]:
    """Return independent estimates of the kernel, one a block of frequencies.

    One wide fit stands for many narrow ones: its blocks are independent and each has
    the law of a fit with as many frequencies.

    Parameters
    ----------
    sampler : sampler
        With ``frequency_index``, as all of this package.
    X, Y : ndarray of shape (n_X, n_features), (n_Y, n_features)
        Rows of the two sides; Y is X if None.
    n_blocks : int, default=50000
        Number of estimates.
    block : int, default=None
        Frequencies a block, the number of columns of X if None.
    random_state : int, default=0
        Seed of the wide fit.

    Returns
    -------
    estimates : ndarray of shape (n_blocks, n_X, n_Y)
        Independent along the first axis.
    narrow : sampler
        Fitted with the columns of one block, for its exact kernel and variance.
    """
    block = X.shape[1] if block is None else block
    wide = WideFit(sampler, X, Y, [(n_blocks, block)], random_state)
    return wide.estimates(n_blocks, block)
