"""Maps that are another map with another weight, or of other rows on each side."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np

from ..frequencies import Coupling, Frequencies
from ..rows import UnitRows
from ._base import FeatureMap, FrequencyMap, LogFeatures


@dataclass(frozen=True, eq=False)
class DerivedMap(FeatureMap):
    """A map that follows from one with frequencies, and has the same columns.

    Attributes
    ----------
    base : FrequencyMap
        That map.
    """

    base: FrequencyMap

    @property
    def frequencies(self) -> Frequencies:
        """Those of the other map."""
        return self.base.frequencies

    @property
    def coupling(self) -> Coupling:
        """That of the other map."""
        return self.base.coupling

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies."""
        return self.base.n_frequencies

    @property
    def columns_per_frequency(self) -> int:
        return self.base.columns_per_frequency

    @property
    def variance_is_exact(self) -> bool:
        return self.base.variance_is_exact

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether both sides have the same features."""

    def frequency_index(self) -> np.ndarray | None:
        return self.base.frequency_index()


@dataclass(frozen=True, eq=False)
class WeightedMap(DerivedMap):
    r"""A number w times the kernel of another map of the same frame.

    Queries have :math:`\sqrt{|w|}` times the features of the other map, keys
    :math:`\operatorname{sign}(w) \sqrt{|w|}` times.

    Attributes
    ----------
    weight : float
        The w, not zero.
    """

    weight: float

    @property
    def symmetric(self) -> bool:
        return self.weight > 0 and self.base.symmetric

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        mantissa, exponent = self.base.log_features(rows, key=key, out=out)
        scale = math.copysign(math.sqrt(abs(self.weight)), self.weight if key else 1)
        if mantissa is None:
            shape = rows.shape[0], self.n_components
            return np.full(shape, scale, rows.dtype), exponent
        mantissa *= scale
        return mantissa, exponent

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.weight * self.base.kernel(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.weight**2 * self.base.variance(X, Y)

    def rescaled(self, sigma: float | np.ndarray) -> WeightedMap:
        base = self.base.rescaled(sigma)
        return replace(self, frame=base.frame, base=base)


@dataclass(frozen=True, eq=False)
class ColumnFactorsMap(DerivedMap):
    """Another map, of rows whose columns are multiplied by factors, two sets of them.

    Attributes
    ----------
    query_factors, key_factors : ndarray of shape (n_features,)
        Of rows at unit bandwidth on the two sides.
    """

    query_factors: np.ndarray
    key_factors: np.ndarray

    @property
    def symmetric(self) -> bool:
        same = np.array_equal(self.query_factors, self.key_factors)
        return same and self.base.symmetric

    def _side(self, rows: UnitRows, key: bool) -> UnitRows:
        factors = self.key_factors if key else self.query_factors
        return self.base.frame.inside(rows.map_columns(factors))

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        return self.base.log_features(self._side(rows, key), key=key, out=out)

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.base.kernel(self._side(X, False), self._side(Y, True))

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.base.variance(self._side(X, False), self._side(Y, True))
