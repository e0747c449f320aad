"""Sums over keys in log space, and causal sums inside a chunk of rows.

With log features l(x) and values v, with a column of ones behind them,

    numerators_i = sum_j sum_r exp(l_r(x_i) + l_r(y_j)) v_j .

Two kinds of factors cancel in the ratio of columns: one for each query, and one for
each feature that moves from the keys to the queries. They keep everything in range. A
factor for each key does not cancel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from .._arrays import (
    Array,
    constant,
    namespace_of,
    positions,
    transposed,
    without_gradient,
)
from ..maps import PortedMap

# a range of exponents in which products of two features lose no digit
_SAFE = {4: 30.0, 8: 300.0}
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


class Weighted(NamedTuple):
    """Numerators of queries, up to a factor for each query.

    Attributes
    ----------
    values : array of shape (..., n_queries, n_values + 1)
        The last column is the denominator.
    log_scale : array of shape (..., n_queries, 1)
        Log of what they are to be multiplied by.
    """

    values: Array
    log_scale: Array

    def plus(self, other: Weighted) -> Weighted:
        """Add the numerators of the same queries over other keys.

        Parameters
        ----------
        other : Weighted
            The others.

        Returns
        -------
        sum : Weighted
            On the larger of the two scales.
        """
        xp = namespace_of(self.values)
        log_scale = xp.maximum(self.log_scale, other.log_scale)
        return Weighted(
            self.values * xp.exp(self.log_scale - log_scale)
            + other.values * xp.exp(other.log_scale - log_scale),
            log_scale,
        )


@dataclass(frozen=True, eq=False)
class KeySums:
    """Sums of key features times values.

    Parameters
    ----------
    shift : array of shape (..., 1, n_components or 1)
        Running maximum of the exponents, moved to the queries.
    sums : array of shape (..., n_components, n_values + 1)
        Of the features over exp(shift) times the values.
    """

    shift: Array
    sums: Array

    @classmethod
    def of(cls, keys: Features, values: Array) -> KeySums:
        """Sum over some keys.

        Parameters
        ----------
        keys : Features
            Of the keys.
        values : array of shape (..., n_keys, n_values + 1)
            With a column of ones.

        Returns
        -------
        sums : KeySums
            Over these keys.
        """
        xp, shift = namespace_of(values), keys.column_maxima()
        return cls(shift, xp.matmul(transposed(keys.scaled(shift)), values))

    def plus(self, other: KeySums) -> KeySums:
        """Add the sums over other keys.

        Parameters
        ----------
        other : KeySums
            The others.

        Returns
        -------
        sums : KeySums
            Over both.
        """
        xp = namespace_of(self.sums)
        shift = xp.maximum(self.shift, other.shift)
        mine, theirs = (
            part.sums * transposed(xp.exp(part.shift - shift)) for part in (self, other)
        )
        return KeySums(shift, mine + theirs)

    def read(self, queries: Features) -> Weighted:
        """Return the numerators of queries.

        Parameters
        ----------
        queries : Features
            Of the queries.

        Returns
        -------
        numerators : Weighted
            Over all the keys.
        """
        moved = queries.plus(self.shift)
        log_scale = moved.row_maxima()
        product = namespace_of(self.sums).matmul(moved.scaled(log_scale), self.sums)
        return Weighted(product, log_scale)


def causal_block(
    before: KeySums | None, queries: Features, keys: Features, values: Array
) -> tuple[Weighted, KeySums]:
    """Return the numerators of a chunk of rows over all the keys up to each of them.

    Where the exponents of the keys lie close together, one product of the features
    does; else a key may vanish beside a later one, and halves of halves are taken,
    where the second half sees all keys of the first.

    Parameters
    ----------
    before : KeySums or None
        Over the keys before the chunk.
    queries, keys : Features
        Of the rows of the chunk.
    values : array of shape (..., n_rows, n_values + 1)
        With a column of ones.

    Returns
    -------
    numerators : Weighted
        Of the rows.
    after : KeySums
        Over the keys before and in the chunk.
    """
    inside = KeySums.of(keys, values)
    after = inside if before is None else before.plus(inside)
    if _is_narrow(before, after, keys):
        return _one_product(before, after, queries, keys, values), after
    numerators = _halves(queries, keys, values)
    if before is not None:
        numerators = numerators.plus(before.read(queries))
    return numerators, after


def _one_product(before, after, queries, keys, values):
    xp, n = namespace_of(values), values.shape[-2]
    moved = queries.plus(after.shift)
    log_scale = moved.row_maxima()
    left, right = moved.scaled(log_scale), keys.scaled(after.shift)
    index = positions(n, values)
    seen = index[:, None] >= index[None, :]
    products = xp.matmul(left, transposed(right))
    products = xp.where(seen, products, xp.zeros_like(products))
    numerators = xp.matmul(products, values)
    if before is not None:
        sums = before.sums * transposed(xp.exp(before.shift - after.shift))
        numerators = numerators + xp.matmul(left, sums)
    return Weighted(numerators, log_scale)


def _is_narrow(before, after, keys):
    """Return whether every row has a key that counts, on the scale of the chunk."""
    xp, exponent = namespace_of(after.sums), without_gradient(keys.exponent)
    safe = _SAFE[_itemsize(exponent)]
    hidden = exponent == -xp.inf
    within = hidden | (after.shift - exponent <= safe)
    try:
        if before is not None and bool(xp.any(hidden)):
            # the row's own key may be hidden: then one of those before must count
            within = within & (after.shift - before.shift <= safe)
        return bool(xp.all(within))
    except TypeError:  # traced, the numbers are not known: halves are right for all
        return False


def _halves(queries, keys, values):
    """Numerators inside a chunk, level by level: blocks of 2 b rows, b = n/2 ... 1."""
    n = values.shape[-2]
    if n & (n - 1):
        raise ValueError(f"a chunk has a power of two rows, got {n}.")
    xp = namespace_of(values)
    own = queries.plus(keys.exponent)  # every row sees its own key
    log_scale = own.row_maxima()
    weights = own.scaled(log_scale)
    if keys.mantissa is not None:
        weights = weights * keys.mantissa
    weights = xp.sum(weights, axis=-1, keepdims=True)
    numerators = Weighted(weights * values, log_scale)
    size = n // 2
    while size:
        early, late = partial(_early, size=size), partial(_late, size=size)
        seen = KeySums.of(keys.map(early), early(values)).read(queries.map(late))
        least = constant(seen.log_scale.shape, _LEAST[_itemsize(values)], values)
        nothing = Weighted(xp.zeros_like(seen.values), least)
        level = Weighted(
            *(
                _rows(xp.concat([none, some], axis=-2))
                for none, some in zip(nothing, seen, strict=True)
            )
        )
        numerators = numerators.plus(level)
        size //= 2
    return numerators


def _early(array, size):
    """Return the first halves of blocks of 2 size rows, (..., n_blocks, size, c)."""
    return _blocks(array, size)[..., :size, :]


def _late(array, size):
    return _blocks(array, size)[..., size:, :]


def _blocks(array, size):
    xp = namespace_of(array)
    return xp.reshape(array, (*array.shape[:-2], -1, 2 * size, array.shape[-1]))


def _rows(blocks):
    xp = namespace_of(blocks)
    return xp.reshape(blocks, (*blocks.shape[:-3], -1, blocks.shape[-1]))


def _maxima(exponent, axis):
    """Return maxima, a very small number where there is minus infinity alone."""
    xp = namespace_of(exponent)
    maxima = without_gradient(xp.max(exponent, axis=axis, keepdims=True))
    least = constant((1,) * maxima.ndim, _LEAST[_itemsize(maxima)], maxima)
    return xp.maximum(maxima, least)


def _itemsize(array):
    return 8 if "float64" in str(array.dtype) else 4
