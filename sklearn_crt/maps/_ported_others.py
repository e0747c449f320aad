"""Monomials, clusters and other rows a side as arrays of one library."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._arrays import Array, moved, namespace_of, positions, transposed
from ._clustered import ClusteredMap, Clusters
from ._derived import ColumnFactorsMap
from ._discrete import DiscreteMap
from ._outside import OutsideMap
from ._ported import PortedFrame, PortedMap, port, port_frame, sq_norms
from ._ported_hybrids import filled


@dataclass(frozen=True, eq=False)
class PortedCounts(PortedMap):
    """Monomials of the coordinates.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    counts, supports, parities : array of shape (..., n_features, n_frequencies)
        The exponents, whether they are not zero, and whether they are odd.
    log_weights : array of shape (..., 1, n_frequencies)
        Logs of the factors of the columns.
    scale : float
        What coordinates are divided by.
    least : float or None
        Coordinates below are raised to it.
    softmax : bool
        Whether the kernel is the softmax kernel, not the Gaussian one.
    """

    frame: PortedFrame
    counts: Array
    supports: Array
    parities: Array
    log_weights: Array
    scale: float
    least: float | None
    softmax: bool

    @property
    def is_positive(self) -> bool:
        return self.least is not None

    @property
    def n_components(self) -> int | None:
        return self.counts.shape[-1]

    def frequency_index(self) -> np.ndarray | None:
        return np.arange(self.counts.shape[-1])

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp = namespace_of(rows)
        rows, _, raw_squares = self.frame.rows(rows)
        if self.least is not None:
            rows = xp.where(rows < self.least, xp.full_like(rows, self.least), rows)
        zero = rows == 0
        size = xp.where(zero, xp.full_like(rows, self.scale), xp.abs(rows))
        exponent = xp.matmul(xp.log(size) - math.log(self.scale), self.counts)
        term = -0.5 * sq_norms(rows)
        term = term + 0.5 * raw_squares if self.softmax else term
        exponent = exponent + self.log_weights + term
        if self.least is not None:
            return None, exponent
        vanishes = xp.matmul(xp.astype(zero, rows.dtype), self.supports) > 0.5
        none = xp.full_like(exponent, -math.inf)
        changes = xp.matmul(xp.astype(rows < 0, rows.dtype), self.parities)
        sign = 1 - 2 * (changes - 2 * xp.floor(0.5 * changes))
        return sign, xp.where(vanishes, none, exponent)


@dataclass(frozen=True, eq=False)
class PortedClusters(PortedMap):
    """One map for each pair of clusters, side by side; the others of a row are zero.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma; its rows are the raw rows of the parts.
    parts : tuple of PortedMap
        The maps of the blocks.
    centers : tuple of array of shape (..., n_clusters, n_features)
        Of the clusters of queries and keys.
    active : tuple of array of shape (..., n_clusters, n_blocks)
        One where rows of a cluster have the columns of a block, else zero.
    """

    frame: PortedFrame
    parts: tuple[PortedMap, ...]
    centers: tuple[Array, Array]
    active: tuple[Array, Array]

    is_positive = False

    @property
    def n_components(self) -> int | None:
        widths = [part.n_components for part in self.parts]
        return sum(width for width in widths if width is not None)

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp = namespace_of(rows)
        rows = self.frame.rows(rows)[0]
        active = xp.matmul(self._membership(rows, key), self.active[key]) > 0.5
        mantissas, exponents = [], []
        for i, part in enumerate(self.parts):
            mantissa, exponent = filled(part.log_features(rows, key=key), rows)
            here = active[..., i : i + 1]
            nothing = xp.zeros_like(mantissa)
            mantissas.append(xp.where(here, mantissa, nothing))
            exponents.append(xp.where(here, exponent, nothing - math.inf))
        return xp.concat(mantissas, axis=-1), xp.concat(exponents, axis=-1)

    def _membership(self, rows: Array, key: bool) -> Array:
        """Return one in the column of the nearest centre, (..., n_rows, n_clusters)."""
        xp, centers = namespace_of(rows), self.centers[key]
        products = xp.matmul(rows, transposed(centers))
        gaps = transposed(sq_norms(centers)) - 2 * products
        label = xp.argmin(gaps, axis=-1, keepdims=True)
        return xp.astype(label == positions(gaps.shape[-1], gaps), rows.dtype)


@dataclass(frozen=True, eq=False)
class PortedColumnFactors(PortedMap):
    """Another map, of rows whose columns are multiplied by factors.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    base : PortedMap
        The other map.
    factors : tuple of array of shape (..., 1, n_features)
        Of queries and keys.
    """

    frame: PortedFrame
    base: PortedMap
    factors: tuple[Array, Array]

    @property
    def is_positive(self) -> bool:
        return self.base.is_positive

    @property
    def n_components(self) -> int | None:
        return self.base.n_components

    def frequency_index(self) -> np.ndarray | None:
        return self.base.frequency_index()

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        rows = self.frame.rows(rows)[0] * self.factors[key]
        return self.base.log_features(rows, key=key)


@port.register
def _(feature_map: DiscreteMap, like: Array) -> PortedMap:
    frequencies, least = feature_map.frequencies, feature_map.least
    counts, supports, parities = (
        moved(table, like)
        for table in (
            frequencies.to_dense(),
            frequencies.supports.to_dense(),
            frequencies.parities.to_dense(),
        )
    )
    return PortedCounts(
        port_frame(feature_map.frame, like),
        counts,
        supports,
        parities,
        moved(feature_map._form.offsets[None], like),
        float(feature_map.law.scale),
        None if least is None else float(least),
        feature_map.gaussian.softmax,
    )


@port.register
def _(feature_map: ClusteredMap, like: Array) -> PortedMap:
    blocks, (queries, keys) = feature_map.blocks, feature_map.clusters
    parts = tuple(port(block.part, like) for block in blocks)
    active = tuple(
        moved(np.stack(sides, axis=1).astype(np.float64), like)
        for sides in ([b.queries for b in blocks], [b.keys for b in blocks])
    )
    frame = port_frame(feature_map.frame, like)
    centers = _centers(queries, like), _centers(keys, like)
    return PortedClusters(frame, parts, centers, (active[0], active[1]))


def _centers(clusters: Clusters, like: Array) -> Array:
    return moved(clusters.centers, like)


@port.register
def _(feature_map: ColumnFactorsMap, like: Array) -> PortedMap:
    sides = feature_map.query_factors, feature_map.key_factors
    queries, keys = (moved(np.atleast_2d(factors), like) for factors in sides)
    base = port(feature_map.base, like)
    return PortedColumnFactors(
        port_frame(feature_map.frame, like), base, (queries, keys)
    )


@port.register
def _(feature_map: OutsideMap, like: Array) -> PortedMap:
    raise TypeError(
        f"{type(feature_map.transformer).__name__} is a part that is written elsewhere "
        "and has no form for other array libraries; take parts of "
        "sklearn_crt.samplers, or give rows in the memory of the host."
    )
