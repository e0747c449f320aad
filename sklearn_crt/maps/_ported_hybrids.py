"""Hybrids as arrays of one library."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .._arrays import Array, constant, moved, namespace_of
from ._derived import WeightedMap
from ._ported import PortedFrame, PortedMap, port, port_frame
from ._signs import SignMap
from ._sum_of_products import SumOfProductsMap


@dataclass(frozen=True, eq=False)
class PortedSign(PortedMap):
    """Signs of projections, with a minus on the key side.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma.
    weights : array of shape (..., n_features, n_frequencies)
        One direction a column.
    """

    frame: PortedFrame
    weights: Array

    is_positive = False

    @property
    def n_components(self) -> int | None:
        return self.weights.shape[-1]

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp = namespace_of(rows)
        products = xp.matmul(self.frame.rows(rows)[0], self.weights)
        scale = (-1 if key else 1) / math.sqrt(2 * self.weights.shape[-1])
        signs = constant((1,) * products.ndim, scale, products)
        return xp.where(products >= 0, signs, -signs), None


@dataclass(frozen=True, eq=False)
class PortedWeighted(PortedMap):
    """A number times another map.

    Parameters
    ----------
    base : PortedMap
        The other map.
    weight : float
        The number.
    """

    base: PortedMap
    weight: float

    is_positive = False

    @property
    def n_components(self) -> int | None:
        return self.base.n_components

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        mantissa, exponent = self.base.log_features(rows, key=key)
        scale = math.copysign(math.sqrt(abs(self.weight)), self.weight if key else 1)
        if mantissa is None:
            shape = exponent.shape  # type: ignore[union-attr]  # not both are None
            return constant(shape, scale, exponent), exponent
        return scale * mantissa, exponent


@dataclass(frozen=True, eq=False)
class PortedSum(PortedMap):
    """Base maps times coefficients, side by side.

    Parameters
    ----------
    frame : PortedFrame
        Centre and sigma; its rows are the raw rows of the parts.
    bases, coefficients : tuple of PortedMap
        The parts.
    terms : tuple
        Index of the base, of the coefficient or None, scale and sign of the key side.
    softmax : bool
        Whether rows have the factors of the softmax kernel.
    """

    frame: PortedFrame
    bases: tuple[PortedMap, ...]
    coefficients: tuple[PortedMap, ...]
    terms: tuple[tuple[int, int | None, float, int], ...]
    softmax: bool

    is_positive = False

    @property
    def n_components(self) -> int | None:
        bases: list[Any] = [part.n_components for part in self.bases]
        factors: list[Any] = [part.n_components for part in self.coefficients]
        terms = ((base, part) for base, part, *_ in self.terms)
        return sum(bases[i] * (1 if k is None else factors[k]) for i, k in terms)

    def log_features(
        self, rows: Array, *, key: bool = False
    ) -> tuple[Array | None, Array | None]:
        xp = namespace_of(rows)
        rows, _, raw_squares = self.frame.rows(rows)
        bases, coefficients = (
            [filled(part.log_features(rows, key=key), rows) for part in side]
            for side in (self.bases, self.coefficients)
        )
        one = filled((None, None), rows)
        mantissas, exponents = [], []
        for base, part, scale, sign in self.terms:
            factor = one if part is None else coefficients[part]
            scale = scale * sign if key else scale
            mantissas.append(_flat(xp.multiply, scale * factor[0], bases[base][0]))
            exponents.append(_flat(xp.add, factor[1], bases[base][1]))
        mantissa, exponent = (
            xp.concat(part, axis=-1) for part in (mantissas, exponents)
        )
        return mantissa, exponent + 0.5 * raw_squares if self.softmax else exponent


def filled(features: tuple[Array | None, Array | None], rows: Array) -> Sequence[Array]:
    """Return mantissas and exponents as arrays of one shape.

    Parameters
    ----------
    features : tuple of (mantissa, exponent)
        Either may be None, ones or zeros.
    rows : array of shape (..., n_rows, n_features)
        Their rows.

    Returns
    -------
    mantissa, exponent : array of shape (..., n_rows, n_components)
        Arrays of one shape.
    """
    xp, (mantissa, exponent) = namespace_of(rows), features
    shape = (*(1,) * (rows.ndim - 2), rows.shape[-2], 1)
    mantissa = constant(shape, 1.0, rows) if mantissa is None else mantissa
    exponent = constant(shape, 0.0, rows) if exponent is None else exponent
    return xp.broadcast_arrays(mantissa, exponent)


def _flat(
    function: Callable[[Array, Array], Array], left: Array, right: Array
) -> Array:
    """Return a function of all columns of one with all columns of the other."""
    pairs = function(left[..., :, None], right[..., None, :])
    return namespace_of(pairs).reshape(pairs, (*pairs.shape[:-2], -1))


@port.register
def _(feature_map: SignMap, like: Array) -> PortedMap:
    weights = moved(feature_map.frequencies.to_dense(), like)
    return PortedSign(port_frame(feature_map.frame, like), weights)


@port.register
def _(feature_map: WeightedMap, like: Array) -> PortedMap:
    return PortedWeighted(port(feature_map.base, like), feature_map.weight)


@port.register
def _(feature_map: SumOfProductsMap, like: Array) -> PortedMap:
    spare = () if feature_map.spare is None else (feature_map.spare,)
    return PortedSum(
        port_frame(feature_map.frame, like),
        tuple(port(part, like) for part in (*feature_map.bases, *spare)),
        tuple(port(part, like) for part in feature_map.coefficients),
        tuple(term[:4] for term in feature_map.terms),
        feature_map.factor.softmax,
    )
