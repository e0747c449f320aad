"""Maps that serve as parts of hybrids: sign maps, weighted and third-party maps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import config_context

from .._array import Array, constant, namespace_of, on_host
from .._compat import cached_property
from ..frequencies import Coupling, Frequencies
from ..rows import Frame, Inputs, Rows
from .base import FeatureMap, FrequencyMap, LogFeatures, mantissa_and_exponent
from .variance import angles, orthogonal_sign_moment


@dataclass(frozen=True, eq=False)
class SignMap(FrequencyMap):
    """Features sign(t.x) / sqrt(2n) for n directions t, with a minus sign for keys.

    Their inner product estimates theta / pi - 1/2, where theta is the angle between a
    query and a key.
    """

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def cosine(self) -> float | None:
        """The cosine if it is 0; otherwise None, because no closed form is known."""
        return 0.0 if super().cosine == 0 else None

    @cached_property
    def tables(self) -> Frequencies:
        return self.frequencies

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        products = rows.project(self.tables)
        if isinstance(products, np.ndarray) and products.ndim == 2:
            products = self._with_sure_signs(products, rows)
        scale = (-1 if key else 1) / math.sqrt(2 * self.n_components)
        signs = constant((1,) * products.ndim, scale, products)
        return namespace_of(products).where(products >= 0, signs, -signs), None

    def _with_sure_signs(self, products: np.ndarray, rows: Inputs) -> np.ndarray:
        """Return the products, with those of uncertain sign summed in a fixed order.

        Otherwise the sign of a product close to zero would depend on the rounding of
        BLAS, which varies with the number of rows.
        """
        norms = np.sqrt(self.frequencies.sq_norms)
        error = 4 * np.finfo(products.dtype).eps * np.sqrt(rows.sq_norms) * norms
        unsure = np.flatnonzero((np.abs(products) < error).any(axis=0))
        if unsure.size > 0:
            products[:, unsure] = rows.project_in_order(self.tables, unsure)
        return products

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return angles(X.dense, Y.dense) / np.pi - 0.5

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        n, theta = self.n_components, angles(X.dense, Y.dense)
        share = theta / np.pi
        variance = n * share * (1 - share)
        if self.n_pairs > 0 and self.cosine is not None:
            moment = orthogonal_sign_moment(theta, self.n_features)
            gap = (1 - 2 * share) ** 2 - moment
            gap[(share == 0) | (share == 1)] = 0
            variance -= 0.25 * self.n_pairs * gap
        return np.maximum(variance, 0) / n**2


@dataclass(frozen=True, eq=False)
class WeightedMap(FeatureMap):
    """Map whose kernel is w times the kernel of another map with the same frame.

    The features of the other map are multiplied by sqrt(abs(w)) for queries and by
    sign(w) sqrt(abs(w)) for keys, because the weight w may be negative.
    """

    base: FrequencyMap
    weight: float

    @property
    def frequencies(self) -> Frequencies:
        """The frequencies of the other map."""
        return self.base.frequencies

    @property
    def coupling(self) -> Coupling:
        """The coupling of the other map."""
        return self.base.coupling

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies."""
        return self.base.n_frequencies

    @property
    def columns_per_frequency(self) -> int:
        return self.base.columns_per_frequency

    @property
    def symmetric(self) -> bool:
        return self.weight > 0 and self.base.symmetric

    @property
    def variance_is_exact(self) -> bool:
        return self.base.variance_is_exact

    def frequency_index(self) -> np.ndarray | None:
        return self.base.frequency_index()

    @cached_property
    def tables(self) -> tuple[FeatureMap, float]:
        return self.base, self.weight

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        base, weight = self.tables
        features = base.log_features(rows, key=key)
        scale = math.copysign(math.sqrt(abs(weight)), weight if key else 1)
        return scale * mantissa_and_exponent(features, rows)[0], features[1]

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.weight * self.base.kernel(X, Y)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.weight**2 * self.base.variance(X, Y)


@dataclass(frozen=True, eq=False)
class ThirdPartyMap(FeatureMap):
    """Map that computes its features with a transformer of another package."""

    transformer: Any

    @classmethod
    def of(cls, transformer: Any, X: Any) -> ThirdPartyMap:
        """Return the map of a fitted transformer, after transforming one row."""
        return cls(Frame(), transformer.transform(X[:1]).shape[1], transformer)

    @property
    def symmetric(self) -> bool:
        return bool(getattr(self.transformer, "symmetric_", True))

    @property
    def variance_is_exact(self) -> bool:
        return bool(getattr(self.transformer, "variance_is_exact_", True))

    def frequency_index(self) -> None:
        """Return None, because the frequencies are unknown."""

    def to(self, like: Array) -> ThirdPartyMap:
        if on_host(like):
            return self
        raise TypeError(
            f"{type(self.transformer).__name__} is a third-party part and has no form "
            "for other array libraries; take parts of sklearn_crt.samplers, or give "
            "rows in the memory of the host."
        )

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        sides = {True: "transform_key", False: "transform"}
        side = sides[key and hasattr(self.transformer, "transform_key")]
        with config_context(assume_finite=True):  # the rows have been validated
            features = getattr(self.transformer, side)(rows.matrix)
        features = features.toarray() if hasattr(features, "toarray") else features
        return np.asarray(features, dtype=rows.dtype), None

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return np.asarray(self.transformer.exact_kernel(*_matrices(X, Y)))

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return np.asarray(self.transformer.kernel_variance(*_matrices(X, Y)))


def _matrices(X: Inputs, Y: Inputs) -> tuple[Rows, ...]:
    """Return the arguments for a kernel: two matrices, or one if Y is X."""
    return (X.matrix,) if Y is X else (X.matrix, Y.matrix)
