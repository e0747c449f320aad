"""The accumulated sums of linear attention, extended token by token."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, cast

import numpy as np

from ..arrays.loops import LogSum, itemsize, least_log, refuse_not_finite
from ..arrays.namespaces import (
    Array,
    asarray_like,
    columns,
    constant,
    namespace_of,
    transposed,
)
from ..sums.feature_sums import (
    N_ERRORS,
    group_columns,
    group_shares,
    jackknife_variance,
)
from ._causal import causal_block
from ._features import Features, Map, check_rows, check_values, resolve

# A key whose mask lowers its score by this much is left out of the range of the values,
# if the query attends to other keys. Its weight underflows in float32, and is below
# 1e-200 in float64. Masks that hide keys commonly subtract 1e4 or 1e9.
HIDING = -500.0
# By itemsize: denominators of signed features below this share of the largest term
# count as zero, since the gradient of the quotient could be infinite
_LEAST_DENOMINATOR = {4: 1e-17, 8: 1e-135}


@dataclass(frozen=True, eq=False)
class LinearAttentionState:
    r"""Sums over all previous keys, for causal attention one token at a time.

    A language model that generates text computes causal attention row by row. Exact
    attention reads all earlier keys for each new row. In contrast, this state has a
    fixed size, and a new token costs O(m (d + e)) operations for m features, d columns
    of keys and e columns of values.

    States are immutable: ``update`` returns a new state, so that several continuations
    can share a prefix, as in beam search.

    Parameters
    ----------
    feature_map : fitted sampler, FeatureMap, str, or list of these
        The same options as in :func:`linear_attention`, but all heads must use the same
        kind of map.

    See Also
    --------
    linear_attention : Compute linear attention for all rows at once.

    Notes
    -----
    For each feature r, the state contains the running maximum :math:`c_r` of the log
    features of the keys, and the sums

    .. math:: S_r = \sum_j e^{\log f_r(k_j) - c_r} (v_j, 1) ,

    which are rescaled whenever the maximum grows, so that nothing overflows.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.attention import LinearAttentionState, linear_attention
    >>> rng = np.random.default_rng(0)
    >>> q, k, v = rng.normal(size=(3, 6, 4))
    >>> state, rows = LinearAttentionState("elu+1"), []
    >>> for i in range(6):
    ...     state = state.update(k[i : i + 1], v[i : i + 1])
    ...     rows.append(state.attend(q[i : i + 1]))
    >>> causal = linear_attention(q, k, v, "elu+1", causal=True)
    >>> bool(np.allclose(np.concatenate(rows), causal))
    True
    """

    feature_map: Any
    _sums: LogSum | None = field(default=None, init=False)
    _seen: Seen | None = field(default=None, init=False)
    _groups: Groups | None = field(default=None, init=False)

    def update(
        self, k: Array, v: Array, *, key_mask: Array | None = None
    ) -> LinearAttentionState:
        """Return a new state that includes one or more further tokens.

        Parameters
        ----------
        k : array of shape (..., n_tokens, d)
            Keys of the new tokens.
        v : array of shape (..., n_tokens, e)
            Values of the new tokens.
        key_mask : array of shape (..., n_tokens), default=None
            As in :func:`linear_attention`.

        Returns
        -------
        state : LinearAttentionState
            The state after the new tokens.
        """
        check_rows(k, "k")
        check_values(k, v)
        refuse_not_finite(k, "k")
        return self._resolved(k)._plus(
            k, with_column_of_ones(v), logs_of_mask(key_mask, k)
        )

    def attend(self, q: Array) -> Array:
        """Return the attention outputs for queries.

        Parameters
        ----------
        q : array of shape (..., n_queries, d)
            Queries, which attend to all tokens so far.

        Returns
        -------
        output : array of shape (..., n_queries, e)
            Averages of the values, one row per query.
        """
        check_rows(q, "q")
        refuse_not_finite(q, "q")
        if self._sums is None:
            raise ValueError(
                "The state does not contain any tokens. Call update(k, v) first."
            )
        queries = Features.of(self.feature_map, q)
        numerators = queries.times(self._sums)
        if self._groups is None:
            return averages_of_values(numerators)
        seen: Any = self._seen  # set together with the groups
        return self._groups.averages(numerators, self._groups.read(queries), seen)

    def _resolved(self, like):
        """Return the state with its map converted to the library of an array."""
        if self._sums is not None:
            return self
        resolved = resolve(self.feature_map, like)
        if isinstance(resolved, list):
            raise ValueError(
                "The feature maps of the heads differ in kind or size. Create one "
                "LinearAttentionState for each head."
            )
        return self._with(feature_map=resolved)

    def _plus(self, k, values, bias):
        keys = Features.of(self.feature_map, k, key=True, bias=bias)
        sums = keys.sum_over_rows(values)
        after = sums if self._sums is None else self._sums.plus(sums)
        if self.feature_map.is_positive:
            return self._with(_sums=after)
        seen = self._with_seen(Seen.of(values, bias))
        groups = self._groups or Groups.of(self.feature_map, values)
        groups = groups.plus(keys, values[..., -1:])
        return self._with(_sums=after, _seen=seen, _groups=groups)

    def _causal(self, q, k, values, bias, block=causal_block):
        """Return the causal attention of new rows, and the state after these rows."""
        keys = Features.of(self.feature_map, k, key=True, bias=bias)
        queries = Features.of(self.feature_map, q)
        numerators, after = block(self._sums, queries, keys, values)
        if self.feature_map.is_positive:
            return averages_of_values(numerators), self._with(_sums=after)
        seen = self._with_seen(Seen.of(values, bias, block))
        groups = self._groups or Groups.of(self.feature_map, values)
        parts, groups = groups.causal(queries, keys, values[..., -1:], block)
        output = groups.averages(numerators, parts, seen)
        return output, self._with(_sums=after, _seen=seen.last(), _groups=groups)

    def _arrays(self):
        """Return the arrays of the state by name, each (..., n_heads, n, n_columns)."""
        # set by the first token; seen and groups remain None for positive features
        sums, seen, groups = cast(Any, (self._sums, self._seen, self._groups))
        found = {"values": sums.values, "log_scale": sums.log_scale}
        if groups is not None:
            found |= {"low": seen.low, "high": seen.high, "totals": seen.totals.values}
            found |= {"totals_log_scale": seen.totals.log_scale}
            found |= {"group_values": groups.sums.values}
            found |= {"group_log_scale": groups.sums.log_scale}
        return found

    def _with_arrays(self, arrays):
        """Return a copy of the state with the given arrays."""
        state = self._with(_sums=LogSum(arrays["values"], arrays["log_scale"]))
        if self.feature_map.is_positive:
            return state
        totals = LogSum(arrays["totals"], arrays["totals_log_scale"])
        seen = Seen(totals, arrays["low"], arrays["high"])
        sums = LogSum(arrays["group_values"], arrays["group_log_scale"])
        groups = replace(Groups.of(self.feature_map, arrays["values"]), sums=sums)
        return state._with(_seen=seen, _groups=groups)

    def _with(self, **changes):
        """Return a copy with changes to fields that ``__init__`` does not accept."""
        other = copy.copy(self)
        other.__dict__.update(changes)
        return other

    def _with_seen(self, seen):
        return seen if self._seen is None else self._seen.plus(seen)


def with_column_of_ones(v: Array) -> Array:
    """Append to the values a column of ones, whose weighted sum is the denominator."""
    # v (..., n_keys, e) -> (..., n_keys, e + 1)
    xp = namespace_of(v)
    return xp.concat([v, constant((*v.shape[:-1], 1), 1.0, v)], axis=-1)


def logs_of_mask(key_mask: Array | None, like: Array) -> Array | None:
    """Return the logarithms of the weights that a mask assigns to keys, as a column."""
    # key_mask (..., n_keys), like (..., n_keys, d) -> (..., n_keys, 1)
    if key_mask is None:
        return None
    xp = namespace_of(like, key_mask)
    if key_mask.shape[-1] != like.shape[-2]:
        raise ValueError(
            f"key_mask has {key_mask.shape[-1]} entries in its last axis, but there "
            f"are {like.shape[-2]} keys."
        )
    zero = constant((1,) * key_mask.ndim, 0.0, like)
    if "bool" in str(key_mask.dtype):
        key_mask = xp.where(key_mask, zero, zero - xp.inf)
    elif "float" not in str(key_mask.dtype):
        raise TypeError(
            f"key_mask must be boolean or floating-point, got {key_mask.dtype}. Pass "
            "key_mask == 1 if 1 marks the keys to attend to."
        )
    # masks may use the smallest finite number as -inf
    smallest = {"float64": least_log(like), "float16": -65504.0}
    least = smallest.get(str(key_mask.dtype).split(".")[-1], -1e37)
    key_mask = xp.where(key_mask <= least, zero - xp.inf, key_mask)
    return asarray_like(key_mask, like)[..., None]


# --------------------------------------------------- from sums to averages of values
# With positive features, the denominator is positive if the query attends to any key.
# Features of both signs estimate the denominator S with a standard error s. As in the
# Nadaraya-Watson estimators, the average is then clipped to the range of the values
# that the query attends to, and blended with the mean of these values, where the
# average has weight min(1, max(S, 0) / 2 s)^2. The error s is a grouped jackknife
# estimate, s^2 = G / (G - 1) sum_g (S_g - n_g / m S)^2: the m frequencies are assigned
# to G = 16 groups in turn, and S_g is the contribution to S of the n_g frequencies in
# group g.
def averages_of_values(numerators: LogSum) -> Array:
    """Return the ratios of numerators and denominators, for positive features."""
    # -> (..., n_queries, n_values)
    return _averages_where_positive(numerators.values)[0]


def _averages_where_positive(values, least=0.0):
    """Return averages where denominators exceed a limit, 0 elsewhere, and a mask."""
    xp, weights = namespace_of(values), values[..., -1:]
    positive = ~(weights <= least)  # NaN remains NaN
    found = values[..., :-1] / xp.where(positive, weights, xp.ones_like(weights))
    return xp.where(positive, found, xp.zeros_like(found)), positive


@dataclass(frozen=True, eq=False)
class Groups:
    """Sums over the keys per group of frequencies, to estimate denominator errors.

    The axis of the groups precedes the axis of the rows. Smaller groups are padded with
    zeros.
    """

    columns: Array  # (n_groups * width,)
    counts: Array  # (n_groups, 1, width)
    shares: Array  # (n_groups,)
    sums: LogSum | None = None

    @classmethod
    def of(cls, feature_map: Map, like: Array) -> Groups:
        """Divide the frequencies of a map into groups, in the library of ``like``."""
        known = vars(feature_map).get("groups")
        if known is not None:
            return known
        index, n_columns = feature_map.frequency_index(), feature_map.n_components
        shares, groups = group_shares(index, n_columns), group_columns(index, n_columns)
        members = [np.flatnonzero(groups == group) for group in np.flatnonzero(shares)]
        width = max(map(len, members))
        columns = np.zeros((len(members), width), dtype=np.int64)
        counts = np.zeros((len(members), 1, width))
        for group, own in enumerate(members):
            columns[group, : len(own)], counts[group, :, : len(own)] = own, 1
        used = asarray_like(shares[shares > 0], like)
        return cls(columns.ravel(), asarray_like(counts, like), used)

    def plus(self, keys: Features, ones: Array) -> Groups:
        """Return the groups after adding the given keys."""
        # ones (..., n_keys, 1)
        new = self._split(keys).sum_over_rows(ones[..., None, :, :])
        return replace(self, sums=new if self.sums is None else self.sums.plus(new))

    def read(self, queries: Features) -> LogSum:
        """Return the contribution of each group to the denominators."""
        sums: Any = self.sums  # not None, because keys have been added
        return self._split(queries).times(sums)

    def causal(
        self, queries: Features, keys: Features, ones: Array, block: Callable
    ) -> tuple[LogSum, Groups]:
        """Return the contributions to causal denominators, and the updated groups."""
        # ones (..., n_rows, 1)
        split = self._split(queries), self._split(keys)
        parts, sums = block(self.sums, *split, ones[..., None, :, :])
        return parts, replace(self, sums=sums)

    def _split(self, features):
        """Return features with an axis of groups before the axis of rows."""
        xp, n_groups = namespace_of(self.counts), self.counts.shape[0]

        def split(array):
            if array.shape[-1] == 1:
                return array[..., None, :, :]
            array = columns(array, self.columns)
            array = xp.reshape(array, (*array.shape[:-1], n_groups, -1))
            return xp.moveaxis(array, -2, -3)

        mantissa = features.mantissa
        return Features(split(mantissa) * self.counts, split(features.exponent))

    def averages(self, numerators: LogSum, parts: LogSum, seen: Seen) -> Array:
        """Return averages, clipped and blended as above if features can be negative."""
        # -> (..., n_queries, n_values)
        xp, values = namespace_of(numerators.values), numerators.values
        least = _LEAST_DENOMINATOR[itemsize(values)]
        found, known = _averages_where_positive(values, least)
        mean, any_seen = _averages_where_positive(seen.totals.values)
        found = seen.clip(found)
        found = xp.where(any_seen, found, xp.zeros_like(found))
        n_groups = self.counts.shape[0]
        if n_groups < 2:  # one group does not suffice to estimate an error
            return mean + 0 * found
        scale = xp.exp(parts.log_scale - numerators.log_scale[..., None, :, :])
        scaled = transposed((parts.values * scale)[..., 0])
        total = values[..., -1:]
        squares = jackknife_variance(scaled, total * self.shares, n_groups, -1)
        squares = N_ERRORS**2 * squares[..., None]
        # (S / 2 s)^2 or 1, without a square root and without larger quotients, whose
        # gradients may be infinite
        square = total * total
        whole = xp.where(known, xp.maximum(squares, square), xp.ones_like(total))
        share = xp.where(known, square / whole, xp.zeros_like(total))
        return mean + share * (found - mean)


@dataclass(frozen=True, eq=False)
class Seen:
    """Sum, number and range of the values that each query attends to.

    With a mask, the range of the keys that the mask does not practically hide comes
    first, followed by the range of all keys that have a weight. The latter is used for
    queries that attend to no other keys.
    """

    totals: LogSum  # (..., n_queries or 1, n_values + 1), weighted by exp(bias)
    low: Array  # (..., n_queries or 1, n_values or 2 * n_values)
    high: Array  # (..., n_queries or 1, n_values or 2 * n_values)

    @classmethod
    def of(
        cls, values: Array, bias: Array | None, block: Callable | None = None
    ) -> Seen:
        """Compute the sums and the range over some keys, for each row if causal."""
        # values (..., n_keys, n_values + 1), bias (..., n_keys, 1)
        xp, v = namespace_of(values), values[..., :-1]
        low = high = v
        if bias is not None:
            none = constant((1,) * v.ndim, xp.inf, v)
            hidden = bias <= HIDING, bias == -xp.inf
            low = xp.concat([xp.where(keys, none, v) for keys in hidden], axis=-1)
            high = xp.concat([xp.where(keys, -none, v) for keys in hidden], axis=-1)
        # the sums are those of linear attention with a single feature, which is one
        ones = Features(None, xp.zeros_like(values[..., -1:]))
        keys = ones if bias is None else Features(None, ones.exponent + bias)
        if block is None:
            return cls(
                keys.sum_over_rows(values),
                xp.min(low, axis=-2, keepdims=True),
                xp.max(high, axis=-2, keepdims=True),
            )
        if hasattr(xp, "cumulative_min"):
            low = xp.cumulative_min(low, axis=-2)
            high = xp.cumulative_max(high, axis=-2)
        else:
            low = _running(xp.minimum, low, xp.inf)
            high = _running(xp.maximum, high, -xp.inf)
        return cls(block(None, ones, keys, values)[0], low, high)

    def plus(self, other: Seen) -> Seen:
        """Return the sums and the range over both sets of keys."""
        xp, sides = namespace_of(self.low), (self, other)
        width = max(side.low.shape[-1] for side in sides)
        # without a mask, all keys are in both ranges
        low, high = (
            [
                part if part.shape[-1] == width else xp.concat([part, part], axis=-1)
                for part in parts
            ]
            for parts in ((side.low for side in sides), (side.high for side in sides))
        )
        totals = self.totals.plus(other.totals)
        return Seen(totals, xp.minimum(*low), xp.maximum(*high))

    def clip(self, averages: Array) -> Array:
        """Return averages (..., n_queries, n_values), clipped to the range."""
        xp, n_values = namespace_of(averages), averages.shape[-1]
        low, high = self.low, self.high
        if low.shape[-1] != n_values:
            nothing = low[..., :n_values] == xp.inf
            low, high = (
                xp.where(nothing, ends[..., n_values:], ends[..., :n_values])
                for ends in (low, high)
            )
        return xp.minimum(xp.maximum(averages, low), high)

    def last(self) -> Seen:
        """Return the sums and the range of the last query."""
        parts = (*self.totals, self.low, self.high)
        *totals, low, high = (part[..., -1:, :] for part in parts)
        return Seen(LogSum(*totals), low, high)


def _running(function: Callable, array: Array, nothing: float) -> Array:
    """Return running minima or maxima over rows, in steps of 1, 2, 4, ... rows."""
    xp, step, n = namespace_of(array), 1, array.shape[-2]
    while step < n:
        fill = constant((*array.shape[:-2], step, array.shape[-1]), nothing, array)
        earlier = xp.concat([fill, array[..., : n - step, :]], axis=-2)
        array, step = function(array, earlier), 2 * step
    return array
