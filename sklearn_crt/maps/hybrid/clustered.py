"""The map that uses its own part for each pair of clusters of queries and keys."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..._compat import cached_property
from ...arrays.namespaces import Array, namespace_of, positions
from ...frequencies import Frequencies
from ...rows import Inputs
from ..base import FeatureMap, LogFeatures, mantissa_and_exponent
from ..radial_kernels import GaussianKernel
from .parts import ComposedMap, of_part


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of queries, or clusters of keys."""

    centers: np.ndarray  # (n_clusters, n_features)
    spreads: np.ndarray  # (n_clusters, n_features)
    shares: np.ndarray  # (n_clusters,)


class ClusterBlock(NamedTuple):
    """A block of columns, computed by one map for certain clusters.

    ``queries`` and ``keys`` state for each cluster whether the block is used for it.
    """

    part: FeatureMap
    columns: slice
    queries: np.ndarray  # (n_clusters,)
    keys: np.ndarray  # (n_clusters,)


@dataclass(frozen=True, eq=False)
class ClusteredMap(ComposedMap):
    """Map that assigns blocks of columns to clusters of queries and keys.

    The features of a row are zero in all blocks that are not used for its cluster.
    """

    clusters: tuple[Clusters, Clusters]
    blocks: tuple[ClusterBlock, ...]

    @property
    def parts(self) -> list[Any]:
        return [block.part for block in self.blocks]

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def columns_per_frequency(self) -> int:
        return 2

    @cached_property
    def tables(self) -> tuple[Any, ...]:
        """The parts, and the centres and blocks of clusters of queries and of keys."""
        sides = []
        for key, clusters in enumerate(self.clusters):
            centers = np.ascontiguousarray(clusters.centers.T, np.float64)
            halves = 0.5 * np.sum(centers**2, axis=0, keepdims=True)
            active = np.stack(
                [(block.queries, block.keys)[key] for block in self.blocks], axis=1
            )
            sides.append((Frequencies(centers), halves, active.astype(np.float64)))
        return tuple(self.parts), tuple(sides)

    def _active(self, rows: Inputs, key: bool) -> Array:
        """Return a mask (..., n_rows, n_blocks) of the blocks used for each row."""
        centers, halves, active = self.tables[1][key]
        # half the squared distances minus |x|^2 / 2, which does not affect the argmin
        gaps = halves - rows.project(centers)
        xp = namespace_of(gaps)
        nearest = xp.argmin(gaps, axis=-1, keepdims=True)
        member = xp.astype(nearest == positions(gaps.shape[-1], gaps), gaps.dtype)
        return xp.matmul(member, active) > 0.5

    def features(self, rows: Inputs, *, key: bool = False) -> Array:
        out = rows.output(self.n_components) if len(rows.shape) == 2 else None
        if out is None:
            return super().features(rows, key=key)
        # a row uses few blocks; computing all blocks would take 3 to 5 times as long
        out[:] = 0
        unit, is_active = rows.part_of_map(), self._active(rows, key)
        for part, block, own in zip(
            self.tables[0], self.blocks, is_active.T, strict=True
        ):
            some = np.flatnonzero(own)
            if some.size:
                inside = part.frame.inside(unit.take(some))
                out[some, block.columns] = part.features(inside, key=key)
        return out

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        parts, is_active = self.tables[0], self._active(rows, key)
        xp, unit = namespace_of(is_active), rows.part_of_map()
        mantissas, exponents = [], []
        for i, part in enumerate(parts):
            inside = part.frame.inside(unit)
            features = mantissa_and_exponent(part.log_features(inside, key=key), inside)
            mantissa, exponent = xp.broadcast_arrays(*features)
            here, nothing = is_active[..., i : i + 1], xp.zeros_like(mantissa)
            mantissas.append(xp.where(here, mantissa, nothing))
            exponents.append(xp.where(here, exponent, nothing - math.inf))
        # columns that are not part of any block are zero
        for _ in range(self.blocks[-1].columns.stop, self.n_components):
            mantissas.append(rows.zeros())
            exponents.append(rows.zeros() - math.inf)
        return xp.concat(mantissas, axis=-1), xp.concat(exponents, axis=-1)

    # ------------------------------------------------------------------- values
    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return GaussianKernel().values(X, Y)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self._pairwise("variance", X, Y)

    def estimate(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self._pairwise("estimate", X, Y)

    def _pairwise(self, method: str, X: Inputs, Y: Inputs) -> np.ndarray:
        """Call a method for all pairs of rows, using the map of each pair's block."""
        result = np.empty((X.shape[0], Y.shape[0]), X.dtype)
        for block, i, j in self.members(X, Y):
            pair = X.part_of_map().take(i), Y.part_of_map().take(j)
            result[np.ix_(i, j)] = of_part(block.part, method, *pair)
        return result

    def members(
        self, X: Inputs, Y: Inputs
    ) -> Iterator[tuple[ClusterBlock, np.ndarray, np.ndarray]]:
        """Yield each block with the indices of the queries and keys that use it."""
        sides = self._active(X, False).T, self._active(Y, True).T
        for block, queries, keys in zip(self.blocks, *sides, strict=True):
            i, j = np.flatnonzero(queries), np.flatnonzero(keys)
            if i.size and j.size:
                yield block, i, j
