"""One map for each pair of clusters of queries and keys, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from sklearn import config_context
from sklearn.metrics import pairwise_distances_argmin

from ..frequencies import JointFrequencies
from ..rows import Rows, UnitRows
from ._base import FeatureMap, LogFeatures
from ._gaussian import GaussianKernel
from ._parts import on_rows, raw, write_features


@dataclass(frozen=True, eq=False)
class Clusters:
    """Clusters of one side.

    Attributes
    ----------
    centers : ndarray of shape (n_clusters, n_features)
        The means of the clusters.
    spreads : ndarray of shape (n_clusters, n_features)
        Second moments about the centres.
    shares : ndarray of shape (n_clusters,)
        Shares of the sample weight.
    """

    centers: np.ndarray
    spreads: np.ndarray
    shares: np.ndarray

    def assign(self, rows: Rows) -> np.ndarray:
        """Return the cluster of each row.

        Parameters
        ----------
        rows : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Multiplied by sigma.

        Returns
        -------
        labels : ndarray of int of shape (n_rows,)
            Indices of the nearest centres.
        """
        with config_context(assume_finite=True):  # checked before
            return pairwise_distances_argmin(rows, self.centers.astype(rows.dtype))


class Block(NamedTuple):
    """Columns of one map, for queries and keys of some clusters.

    Attributes
    ----------
    part : FeatureMap
        The map.
    columns : slice
        Its columns.
    queries, keys : ndarray of bool of shape (n_clusters,)
        The clusters whose rows have these columns.
    """

    part: FeatureMap
    columns: slice
    queries: np.ndarray
    keys: np.ndarray


@dataclass(frozen=True, eq=False)
class ClusteredMap(FeatureMap):
    """Features of a row in the blocks of its cluster, zeros elsewhere.

    So exactly one map estimates a pair of rows.

    Attributes
    ----------
    clusters : tuple of two Clusters
        Those of queries and keys.
    blocks : tuple of Block
        One or none for each pair of clusters.
    """

    clusters: tuple[Clusters, Clusters]
    blocks: tuple[Block, ...]

    @property
    def parts(self) -> list[FeatureMap]:
        """The maps of the blocks."""
        return [block.part for block in self.blocks]

    @property
    def frequencies(self) -> JointFrequencies:
        """Those of the maps of the blocks, one after the other."""
        known = [part for part in self.parts if hasattr(part, "frequencies")]
        return JointFrequencies([part.frequencies for part in known])

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def columns_per_frequency(self) -> int:
        return 2

    @property
    def variance_is_exact(self) -> bool:
        return all(part.variance_is_exact for part in self.parts)

    def frequency_index(self) -> None:
        """Return None: the columns of a pair of rows are those of one block."""
        return None

    # ----------------------------------------------------------------- features
    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        out[:] = 0
        exponents = np.full_like(out, -np.inf)
        for block, members, some in self._active(rows, key):
            mantissa, exponent = block.part.log_features(some, key=key)
            out[members, block.columns] = 1 if mantissa is None else mantissa
            exponents[members, block.columns] = 0 if exponent is None else exponent
        return out, exponents

    def features(self, rows: UnitRows, out: np.ndarray, *, key: bool = False) -> None:
        self.scaled_features(rows, out, key=key)

    def scaled_features(
        self,
        rows: UnitRows,
        out: np.ndarray,
        *,
        key: bool = False,
        log_factor: np.ndarray | None = None,
    ) -> None:
        """Write the features of a chunk times a factor for each row.

        Only the columns of the blocks of a row are computed.

        Parameters
        ----------
        rows : UnitRows
            Of ``frame``, in the type of the map.
        out : ndarray of shape (n_rows, n_components)
            Overwritten.
        key : bool, default=False
            Whether to take the map of the key side.
        log_factor : ndarray of shape (n_rows, 1), default=None
            Logs of the factors; None for ones.
        """
        out[:] = 0
        for block, members, some in self._active(rows, key):
            part = np.empty((members.size, block.part.n_components), out.dtype)
            factor = None if log_factor is None else log_factor[members]
            write_features(block.part, some, part, key, factor)
            out[members, block.columns] = part

    def _active(
        self, rows: UnitRows, key: bool
    ) -> Iterator[tuple[Block, np.ndarray, UnitRows]]:
        """Yield the blocks with the rows that they are active for."""
        rows = raw(rows)
        labels = self.clusters[key].assign(rows.matrix)
        for label in range(self.clusters[key].shares.size):
            members = np.flatnonzero(labels == label)
            if members.size == 0:
                continue
            some = rows.take(members)
            for block in self.blocks:
                if (block.keys if key else block.queries)[label]:
                    yield block, members, block.part.frame.inside(some)

    # ------------------------------------------------------------------- values
    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return GaussianKernel().values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self._pairwise("variance", X, Y)

    def estimate(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self._pairwise("estimate", X, Y)

    def _pairwise(self, method: str, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Call a method of the map of each pair of rows."""
        result = np.empty((X.shape[0], Y.shape[0]), X.dtype)
        for block, i, j in self.members(X, Y):
            pair = raw(X).take(i), raw(Y).take(j)
            result[np.ix_(i, j)] = on_rows(block.part, method, *pair)
        return result

    def members(
        self, X: UnitRows, Y: UnitRows
    ) -> Iterator[tuple[Block, np.ndarray, np.ndarray]]:
        """Yield the blocks with the indices of the queries and keys they are for.

        Parameters
        ----------
        X, Y : UnitRows
            Queries and keys.

        Yields
        ------
        block : Block
            One with a pair of rows.
        queries, keys : ndarray of int
            Which rows.
        """
        pairs = zip(self.clusters, (X, Y), strict=True)
        queries, keys = (side.assign(rows.matrix) for side, rows in pairs)
        for block in self.blocks:
            i = np.flatnonzero(block.queries[queries])
            j = np.flatnonzero(block.keys[keys])
            if i.size and j.size:
                yield block, i, j
