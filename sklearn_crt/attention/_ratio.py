r"""From numerators and denominators to averages of values.

Positive features give a positive denominator wherever a query sees a key. Features of
both signs estimate the denominator S with an error s, and the rule is that of the
Nadaraya-Watson estimators: averages are moved into the range of the values that the
query sees, and count with the weight :math:`\min(1, \max(S, 0) / 2 s)^2`, the mean of
those values with the rest. The error is the grouped jackknife over the frequencies,

.. math:: s^2 = \frac{G}{G - 1} \sum_g \left(S_g - \frac{n_g}{m} S\right)^2 ,

with the part :math:`S_g` of S from the :math:`n_g` of the m frequencies that are dealt
to group g of G = 16 in turn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._arrays import Array, constant, moved, namespace_of, positions, transposed
from .._compat import array_device
from ..maps import N_ERRORS, N_GROUPS, PortedMap
from ._sums import Features, KeySums, Weighted, causal_block


def averages(numerators: Weighted) -> Array:
    """Return numerators over denominators, for positive features.

    Parameters
    ----------
    numerators : Weighted
        With the denominators as their last column.

    Returns
    -------
    averages : array of shape (..., n_queries, n_values)
        0 for a query that sees no key.
    """
    return _ratio(numerators.values)[0]


def _ratio(values):
    """Return averages, 0 where denominators are not positive, and where they are."""
    xp, weights = namespace_of(values), values[..., -1:]
    positive = weights > 0
    found = values[..., :-1] / xp.where(positive, weights, xp.ones_like(weights))
    return xp.where(positive, found, xp.zeros_like(found)), positive


@dataclass(frozen=True, eq=False)
class Seen:
    """What queries see: sums of the values and of ones, and their range.

    Parameters
    ----------
    totals : array of shape (..., n_queries or 1, n_values + 1)
        Sums of the values and, last, the number of keys, by weight.
    low, high : array of shape (..., n_queries or 1, n_values)
        Least and largest values.
    """

    totals: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, values: Array, bias: Array | None, causal: bool) -> Seen:
        """Collect what queries see of some keys.

        Parameters
        ----------
        values : array of shape (..., n_keys, n_values + 1)
            With a column of ones.
        bias : array of shape (..., n_keys, 1) or None
            Logs of the weights of the keys.
        causal : bool
            Whether query i sees the keys 0 ... i, not all of them.

        Returns
        -------
        seen : Seen
            One row where not causal.
        """
        xp, v = namespace_of(values), values[..., :-1]
        low = high = v
        if bias is not None:
            values = values * xp.exp(bias)
            none = constant((1,) * v.ndim, xp.inf, v)
            low, high = (
                xp.where(bias == -xp.inf, none, v),
                xp.where(bias == -xp.inf, -none, v),
            )
        if not causal:
            return cls(
                xp.sum(values, axis=-2, keepdims=True),
                xp.min(low, axis=-2, keepdims=True),
                xp.max(high, axis=-2, keepdims=True),
            )
        index = positions(values.shape[-2], values)
        ones = constant((index.shape[0],) * 2, 1.0, values)
        mask = xp.where(index[:, None] >= index[None, :], ones, xp.zeros_like(ones))
        return cls(
            xp.matmul(mask, values),
            _running(xp.minimum, low, xp.inf),
            _running(xp.maximum, high, -xp.inf),
        )

    def plus(self, other: Seen) -> Seen:
        """Return what is seen of the keys of both.

        Parameters
        ----------
        other : Seen
            Of other keys.

        Returns
        -------
        seen : Seen
            Of all of them.
        """
        xp = namespace_of(self.totals)
        return Seen(
            self.totals + other.totals,
            xp.minimum(self.low, other.low),
            xp.maximum(self.high, other.high),
        )

    def last(self) -> Seen:
        """Return what the last query sees.

        Returns
        -------
        seen : Seen
            With one row.
        """
        rows = (part[..., -1:, :] for part in (self.totals, self.low, self.high))
        return Seen(*rows)


def _running(function: Callable, array: Array, nothing: float) -> Array:
    """Return running minima or maxima of rows, in steps of 1, 2, 4 ... rows."""
    xp, step, n = namespace_of(array), 1, array.shape[-2]
    while step < n:
        fill = constant((*array.shape[:-2], step, array.shape[-1]), nothing, array)
        earlier = xp.concat([fill, array[..., : n - step, :]], axis=-2)
        array, step = function(array, earlier), 2 * step
    return array


@dataclass(frozen=True, eq=False)
class Groups:
    """Key sums of each group of frequencies, for the errors of denominators.

    The groups are an axis before the rows; the smaller ones are filled up by zeros.

    Parameters
    ----------
    columns : array of int of shape (n_groups * width,)
        The columns of the features, group by group.
    counts : array of shape (n_groups, 1, width)
        1 for a column, 0 for one that fills up.
    shares : array of shape (n_groups,)
        Shares of the frequencies.
    sums : KeySums or None, default=None
        Of the denominators; None before the first key.
    """

    columns: Array
    counts: Array
    shares: Array
    sums: KeySums | None = None

    @classmethod
    def of(cls, feature_map: PortedMap, features: Features) -> Groups:
        """Deal the frequencies of a map to groups.

        Parameters
        ----------
        feature_map : PortedMap
            The map.
        features : Features
            Of any rows, for number of columns and library.

        Returns
        -------
        groups : Groups
            Without keys.
        """
        like: Array = features.mantissa
        index = feature_map.frequency_index()
        index = np.arange(like.shape[-1]) if index is None else index
        sizes = np.bincount(np.unique(index) % N_GROUPS, minlength=N_GROUPS)
        used = np.flatnonzero(sizes)
        members = [np.flatnonzero(index % N_GROUPS == group) for group in used]
        width = max(map(len, members))
        columns: Array = np.zeros((len(used), width), dtype=np.int64)
        counts = np.zeros((len(used), 1, width))
        for group, own in enumerate(members):
            columns[group, : len(own)], counts[group, :, : len(own)] = own, 1
        columns = columns.ravel()
        if not isinstance(like, np.ndarray):
            xp, device = namespace_of(like), array_device(like)
            columns = xp.asarray(columns, device=device)
        return cls(columns, moved(counts, like), moved(sizes[used] / sizes.sum(), like))

    def plus(self, keys: Features, ones: Array) -> Groups:
        """Return the groups with more keys.

        Parameters
        ----------
        keys : Features
            Of the keys.
        ones : array of shape (..., n_keys, 1)
            Ones.

        Returns
        -------
        groups : Groups
            A new value.
        """
        new = KeySums.of(self._split(keys), ones[..., None, :, :])
        return replace(self, sums=new if self.sums is None else self.sums.plus(new))

    def read(self, queries: Features) -> Weighted:
        """Return the parts of the denominators.

        Parameters
        ----------
        queries : Features
            Of the queries.

        Returns
        -------
        parts : Weighted
            Arrays of shape (..., n_groups, n_queries, 1).
        """
        sums: Any = self.sums  # there are keys
        return sums.read(self._split(queries))

    def causal(
        self, queries: Features, keys: Features, ones: Array
    ) -> tuple[Weighted, Groups]:
        """Return the parts for a chunk of causal rows, and the groups after it.

        Parameters
        ----------
        queries, keys : Features
            Of the rows.
        ones : array of shape (..., n_rows, 1)
            Ones.

        Returns
        -------
        parts : Weighted
            Arrays of shape (..., n_groups, n_queries, 1).
        groups : Groups
            With these keys.
        """
        split = self._split(queries), self._split(keys)
        parts, sums = causal_block(self.sums, *split, ones[..., None, :, :])
        return parts, replace(self, sums=sums)

    def _split(self, features):
        """Return features with an axis of groups before the rows."""
        xp, n_groups = namespace_of(self.counts), self.counts.shape[0]

        def split(array):
            if array.shape[-1] == 1:
                return array[..., None, :, :]
            array = xp.take(array, self.columns, axis=-1)
            array = xp.reshape(array, (*array.shape[:-1], n_groups, -1))
            return xp.moveaxis(array, -2, -3)

        mantissa = features.mantissa
        return Features(split(mantissa) * self.counts, split(features.exponent))

    def averages(self, numerators: Weighted, parts: Weighted, seen: Seen) -> Array:
        """Return averages by the rule for features of both signs.

        Parameters
        ----------
        numerators : Weighted
            With the denominators as their last column.
        parts : Weighted
            Of the denominators, a group each.
        seen : Seen
            What the queries see.

        Returns
        -------
        averages : array of shape (..., n_queries, n_values)
            In the range of the values that are seen.
        """
        xp, values = namespace_of(numerators.values), numerators.values
        found, _ = _ratio(values)
        mean, any_seen = _ratio(seen.totals)
        found = xp.minimum(xp.maximum(found, seen.low), seen.high)
        found = xp.where(any_seen, found, xp.zeros_like(found))
        n_groups = self.counts.shape[0]
        if n_groups < 2:  # a single frequency says nothing of its error
            return mean + xp.zeros_like(found)
        scale = xp.exp(parts.log_scale - numerators.log_scale[..., None, :, :])
        scaled = transposed((parts.values * scale)[..., 0])
        total = values[..., -1:]
        gaps = scaled - total * self.shares
        squares = xp.sum(gaps * gaps, axis=-1, keepdims=True)
        squares = squares * (n_groups / (n_groups - 1) * N_ERRORS**2)
        zero, one = xp.zeros_like(total), xp.ones_like(total)
        # (S / 2 s)^2, without a root whose gradient may be infinite
        share = total * total / xp.where(squares > 0, squares, one)
        share = xp.where(squares > 0, xp.minimum(share, one), one)
        share = xp.where(total > 0, share, zero)
        return mean + share * (found - mean)
