"""Sums over keys in log space.

With log features l(x) and values v, with a column of ones behind them,

    numerators_i = sum_j sum_r exp(l_r(x_i) + l_r(y_j)) v_j .

Two kinds of factors cancel in the ratio of columns: one for each query, and one for
each feature that moves from the keys to the queries. They keep everything in range. A
factor for each key does not cancel.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from .._arrays import Array, namespace_of, transposed
from ._log_features import Features


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
