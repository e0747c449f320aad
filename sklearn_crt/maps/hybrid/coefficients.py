"""Maps of hybrid coefficients: signs of projections, and weighted maps.

The products of signs of random projections estimate the angle between two rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.polynomial import polynomial
from scipy import special
from scipy.interpolate import PPoly
from scipy.spatial.distance import cdist

from ..._compat import cached_property
from ...arrays.namespaces import Array, constant, namespace_of
from ...frequencies import Coupling, Frequencies
from ...rows import DenseInputs, Inputs
from ..base import FeatureMap, FrequencyMap, LogFeatures, mantissa_and_exponent
from ..variance import tabulate


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
    def tables(self) -> Any:
        return self.base, self.weight

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        base, weight = self.tables
        features = base.log_features(rows, key=key)
        scale = math.copysign(math.sqrt(abs(weight)), weight if key else 1)
        return scale * mantissa_and_exponent(features, rows)[0], features[1]

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.weight * self.base.kernel(X, Y)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.weight * (self.weight * self.base.variance(X, Y))


@dataclass(frozen=True, eq=False)
class LinearImagesMap(WeightedMap):
    """Map that applies another map to linear images of queries and of keys."""

    # (n_features, n_features), by which rows are multiplied from the right, or the
    # diagonals (1, n_features)
    query_matrix: np.ndarray
    key_matrix: np.ndarray

    @property
    def symmetric(self) -> bool:
        return False

    @cached_property
    def tables(self) -> Any:
        return self.base, self.query_matrix, self.key_matrix

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        base, *matrices = self.tables
        return base.log_features(_image(rows, matrices[key]), key=key)

    def _images(self, X: Inputs, Y: Inputs) -> tuple[Inputs, Inputs]:
        return _image(X, self.query_matrix), _image(Y, self.key_matrix)

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.base.kernel(*self._images(X, Y))

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.base.variance(*self._images(X, Y))


def _image(rows: Inputs, matrix: Array) -> Inputs:
    """Return the rows times a matrix, or times the diagonal matrix of a row."""
    if matrix.shape[0] == matrix.shape[1]:
        return rows.times(matrix)
    return DenseInputs(rows.dense * matrix)


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


# Let theta be the angle between x and y. For a random direction t, the signs of t.x and
# t.y differ with probability theta / pi. Each of two orthogonal directions gives a
# product of two signs. The mean of the product of these products is
# 1 - 4 / pi E min(theta', delta'). Here theta' is the smaller of theta and pi - theta,
# and delta' in [0, pi/2] is the angle between two lines, the projections of the two
# directions onto the plane of x and y. For d > 2 the density of delta' is proportional
# to 2F1(1, 1; (d + 1)/2; sin(delta)^2). This is the integral over u and v of
# (1 - u - v + u v sin(delta)^2)^((d - 5)/2), the joint density of delta' and the
# squared norms u and v of the projections.
def angles(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return the angles between all pairs of rows; pi / 2 if one of the two is zero."""
    # X, Y (n_X, n_features) -> (n_X, n_Y)
    lengths = [np.linalg.norm(Z, axis=1) for Z in (X, Y)]
    units = [
        Z / np.where(length > 0, length, 1)[:, None]
        for Z, length in zip((X, Y), lengths, strict=True)
    ]
    # this formula is accurate near 0 and near pi, unlike the arc cosine
    theta = 2 * np.arctan2(cdist(*units), cdist(units[0], -units[1]))
    zero = [length == 0 for length in lengths]
    theta[zero[0][:, None] != zero[1]] = np.pi / 2
    theta[zero[0][:, None] & zero[1]] = 0
    return theta


def orthogonal_sign_moment(theta: np.ndarray, n_features: int) -> np.ndarray:
    """Return the mean product of the sign products of two orthogonal directions."""
    folded = np.minimum(theta, np.pi - theta)
    if n_features == 2:  # the projections are the directions themselves
        return 1 - 4 / np.pi * folded
    excess, total = _sign_tables(n_features)
    return 1 - 4 / np.pi * (folded - excess(folded) / total)


@lru_cache(maxsize=16)
def _sign_tables(n_features: int) -> tuple[PPoly, float]:
    """Return E max(theta' - delta', 0) times a constant as a function of theta'.

    The second result is the constant.
    """

    def density(delta: np.ndarray) -> np.ndarray:
        if n_features == 3:  # the series has a logarithmic singularity at pi / 2
            return -2 * np.log(np.cos(delta)) / np.sin(delta) ** 2
        return _hypergeometric((n_features + 1) / 2, np.sin(delta) ** 2)

    # the pieces are narrower near pi / 2
    edges = np.pi / 2 * (1 - np.linspace(1, 0, 201) ** 4)
    distribution = tabulate(density, edges).antiderivative()
    return distribution.antiderivative(), float(distribution(np.pi / 2))


def _hypergeometric(c: float, z: np.ndarray) -> np.ndarray:
    """Return 2F1(1, 1; c; z) for 0 <= z <= 1 and c > 2.

    For large c the terms k! / (c)_k z^k are summed, because ``special.hyp2f1``
    overflows from c = 100 on.
    """
    if c < 20:
        return special.hyp2f1(1, 1, c, z)
    k = np.arange(64)
    return polynomial.polyval(z, np.append(1.0, np.cumprod((k + 1) / (c + k))))
