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


def _is_symmetric(fitted: BaseFeatureSampler, X: np.ndarray) -> bool:
    """Whether both sides are one map by its own words, and for these rows."""
    if not getattr(fitted, "symmetric_", False):
        return False
    return np.array_equal(fitted.transform(X), fitted.transform_key(X))


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
        columns = _columns(np.asarray(wide.frequency_index()), self.n_frequencies)
        self.queries = self.keys = _layers(wide.transform(X), columns)
        if Y is not None or not _is_symmetric(first, X):
            keys = wide.transform_key(X if Y is None else Y)
            self.keys = _layers(keys, columns)

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
        stride = self._stride(block)
        estimates = np.zeros((n_blocks, len(self.queries[0]), len(self.keys[0])))
        for layers in zip(self.queries, self.keys, strict=True):
            query, key = (
                layer[:, : n_blocks * stride].reshape(-1, n_blocks, stride)[..., :block]
                for layer in layers
            )
            estimates += query.transpose(1, 0, 2) @ key.transpose(1, 2, 0)
        estimates *= self.n_frequencies / block
        return estimates, self._fit(block)


def _columns(index: np.ndarray, n_frequencies: int) -> list[np.ndarray | slice]:
    """Return the k-th column of each frequency, for each k.

    Where a frequency has fewer columns than another it is one beyond the last.
    """
    order = np.argsort(index, kind="stable")
    counts = np.bincount(index, minlength=n_frequencies)
    if counts.min() == counts.max():
        columns = order.reshape(n_frequencies, -1).T
    else:
        index, first = index[order], np.cumsum(counts) - counts
        place = np.arange(len(index)) - first[index]  # among its frequency's columns
        columns = np.full((counts.max(), n_frequencies), len(index))
        columns[place, index] = order
    return [_as_slice(column) for column in columns]


def _as_slice(indices: np.ndarray) -> np.ndarray | slice:
    """Return evenly spaced indices as a slice, which copies nothing."""
    start, step = indices[0], indices[1] - indices[0] if len(indices) > 1 else 1
    if step > 0 and np.all(np.diff(indices) == step):
        return slice(start, indices[-1] + 1, step)
    return indices


def _layers(
    features: np.ndarray, columns: list[np.ndarray | slice]
) -> list[np.ndarray]:
    """Return the features of each list of columns; those beyond the last are 0."""
    if all(isinstance(each, slice) for each in columns):
        return [features[:, each] for each in columns]
    features = np.pad(features, ((0, 0), (0, 1)))
    return [features[:, each] for each in columns]


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
