"""Features of rows as mantissas and logs, which neither over- nor underflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .._arrays import Array, constant, namespace_of, without_gradient
from ..maps import PortedMap

_LEAST = {4: -1e37, 8: -1e300}


class Features(NamedTuple):
    """Features of rows, mantissa times exp(exponent).

    Attributes
    ----------
    mantissa : array of shape (..., n_rows, n_components) or None
        None stands for ones.
    exponent : array of shape (..., n_rows, n_components or 1)
        The logs.
    """

    mantissa: Array | None
    exponent: Array

    @classmethod
    def of(
        cls,
        feature_map: PortedMap,
        rows: Array,
        *,
        key: bool = False,
        bias: Array | None = None,
    ) -> Features:
        """Compute the features of rows.

        Parameters
        ----------
        feature_map : PortedMap
            The map.
        rows : array of shape (..., n_rows, n_features)
            Raw rows.
        key : bool, default=False
            Whether to take the map of the key side.
        bias : array of shape (..., n_rows, 1), default=None
            Logs of weights of the rows.

        Returns
        -------
        features : Features
            With an exponent.
        """
        mantissa, exponent = feature_map.log_features(rows, key=key)
        if exponent is None:
            exponent = constant((1,) * (rows.ndim - 2) + (rows.shape[-2], 1), 0.0, rows)
        return cls(mantissa, exponent if bias is None else exponent + bias)

    def scaled(self, log_scale: Array) -> Array:
        """Return the features over exp(log_scale).

        Parameters
        ----------
        log_scale : array
            That broadcasts against the exponents.

        Returns
        -------
        features : array of shape (..., n_rows, n_components)
            As numbers.
        """
        xp = namespace_of(self.exponent)
        factors = xp.exp(self.exponent - log_scale)
        return factors if self.mantissa is None else self.mantissa * factors

    def plus(self, shift: Array) -> Features:
        """Return the features times exp(shift).

        Parameters
        ----------
        shift : array
            That broadcasts against the exponents.

        Returns
        -------
        features : Features
            With the same mantissas.
        """
        return Features(self.mantissa, self.exponent + shift)

    def row_maxima(self) -> Array:
        """Return the largest exponent of each row, as a constant.

        Returns
        -------
        maxima : array of shape (..., n_rows, 1)
            Of the exponents, finite.
        """
        return _maxima(self.exponent, -1)

    def column_maxima(self) -> Array:
        """Return the largest exponent of each column, as a constant.

        Returns
        -------
        maxima : array of shape (..., 1, n_components or 1)
            Of the exponents, finite.
        """
        return _maxima(self.exponent, -2)

    def map(self, function: Callable[[Array], Array]) -> Features:
        """Return the features with a function applied to both arrays.

        Parameters
        ----------
        function : callable
            Takes and returns an array; keeps the columns.

        Returns
        -------
        features : Features
            The new ones.
        """
        mantissa = None if self.mantissa is None else function(self.mantissa)
        return Features(mantissa, function(self.exponent))


def least_log(like: Array) -> float:
    """Return a number that stands for the log of 0, with finite differences.

    Parameters
    ----------
    like : array
        Of the floating type.

    Returns
    -------
    least : float
        Far below the logs of features.
    """
    return _LEAST[itemsize(like)]


def itemsize(array: Array) -> int:
    """Return the bytes of an entry, 4 or 8.

    Parameters
    ----------
    array : array
        Of float32 or float64.

    Returns
    -------
    itemsize : int
        Read from the name of the type, which all libraries have.
    """
    return 8 if "float64" in str(array.dtype) else 4


def _maxima(exponent, axis):
    """Return maxima, a very small number where there is minus infinity alone."""
    xp = namespace_of(exponent)
    maxima = without_gradient(xp.max(exponent, axis=axis, keepdims=True))
    least = constant((1,) * maxima.ndim, least_log(maxima), maxima)
    return xp.maximum(maxima, least)
