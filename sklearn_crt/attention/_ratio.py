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

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._arrays import Array, moved, namespace_of, transposed
from .._compat import array_device
from ..maps import N_ERRORS, N_GROUPS, PortedMap
from ._causal import causal_block
from ._log_features import Features
from ._seen import Seen
from ._sums import KeySums, Weighted


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
