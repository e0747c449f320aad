"""The sums of linear attention, as a value that grows token by token."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from .._arrays import Array, constant, namespace_of
from ..maps import PortedMap
from ._causal import causal_block
from ._checks import check_rows, check_values
from ._features import resolve
from ._log_features import Features
from ._ratio import Groups, averages
from ._seen import Seen
from ._sums import KeySums


@dataclass(frozen=True, eq=False)
class LinearAttentionState:
    r"""Sums over the keys seen so far: attention one token at a time.

    A language model that writes text asks for one row of causal attention after
    another. Exact attention reads all earlier keys for it; this state has a fixed size
    and a new token costs O(m (d + e)) for m features, d columns of keys and e of
    values.

    A state never changes: ``update`` returns a new one, so that a beam of continuations
    may share a beginning.

    Parameters
    ----------
    feature_map : fitted sampler, FeatureMap, str, or list of these
        As in :func:`linear_attention`, but all heads of one kind.

    See Also
    --------
    linear_attention : All rows at once.

    Notes
    -----
    Kept are, for each feature r, the running maximum :math:`c_r` of the logs of the
    keys' features and the sums

    .. math:: S_r = \sum_j e^{\log f_r(k_j) - c_r} (v_j, 1) ,

    which are rescaled where the maximum grows, so nothing overflows.

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
    _sums: KeySums | None = field(default=None, init=False)
    _seen: Seen | None = field(default=None, init=False)
    _groups: Groups | None = field(default=None, init=False)

    def update(
        self, k: Array, v: Array, *, key_mask: Array | None = None
    ) -> LinearAttentionState:
        """Return the state after some more tokens.

        Parameters
        ----------
        k : array of shape (..., n_tokens, d)
            Their keys.
        v : array of shape (..., n_tokens, e)
            Their values.
        key_mask : array of shape (..., n_tokens), default=None
            As in :func:`linear_attention`.

        Returns
        -------
        state : LinearAttentionState
            Over the tokens before and these.
        """
        check_rows(k, "k")
        check_values(k, v)
        return self._ported(k)._plus(k, with_ones(v), log_weights(key_mask, k))

    def attend(self, q: Array) -> Array:
        """Return the averages of the values for some queries.

        Parameters
        ----------
        q : array of shape (..., n_queries, d)
            Queries, which see all the tokens so far.

        Returns
        -------
        output : array of shape (..., n_queries, e)
            One row a query.
        """
        check_rows(q, "q")
        if self._sums is None:
            raise ValueError("the state has seen no token: call update(k, v) first.")
        queries = Features.of(self.feature_map, q)
        numerators = self._sums.read(queries)
        if self._groups is None:
            return averages(numerators)
        seen: Any = self._seen  # set with the groups
        return self._groups.averages(numerators, self._groups.read(queries), seen)

    def _ported(self, like):
        """Return the state with its map in the library of an array."""
        if isinstance(self.feature_map, PortedMap):
            return self
        ported = resolve(self.feature_map, like)
        if isinstance(ported, list):
            raise ValueError(
                "the maps of the heads differ in kind or size; make one "
                "LinearAttentionState for each head."
            )
        return self._with(feature_map=ported)

    def _plus(self, k, values, bias):
        keys = Features.of(self.feature_map, k, key=True, bias=bias)
        sums = KeySums.of(keys, values)
        after = sums if self._sums is None else self._sums.plus(sums)
        if self.feature_map.is_positive:
            return self._with(_sums=after)
        seen = self._with_seen(Seen.of(values, bias, causal=False))
        groups = self._groups or Groups.of(self.feature_map, keys)
        groups = groups.plus(keys, values[..., -1:])
        return self._with(_sums=after, _seen=seen, _groups=groups)

    def _causal(self, q, k, values, bias):
        """Return the output of a chunk of rows, each after its token, and the state."""
        keys = Features.of(self.feature_map, k, key=True, bias=bias)
        queries = Features.of(self.feature_map, q)
        numerators, after = causal_block(self._sums, queries, keys, values)
        if self.feature_map.is_positive:
            return averages(numerators), self._with(_sums=after)
        seen = self._with_seen(Seen.of(values, bias, causal=True))
        groups = self._groups or Groups.of(self.feature_map, keys)
        parts, groups = groups.causal(queries, keys, values[..., -1:])
        output = groups.averages(numerators, parts, seen)
        return output, self._with(_sums=after, _seen=seen.last(), _groups=groups)

    def _with(self, **changes):
        """Return a copy with other fields, as ``dataclasses.replace`` may not."""
        other = copy.copy(self)
        other.__dict__.update(changes)
        return other

    def _with_seen(self, seen):
        return seen if self._seen is None else self._seen.plus(seen)


def with_ones(v: Array) -> Array:
    """Return values with a column of ones behind them, whose sum is the denominator.

    Parameters
    ----------
    v : array of shape (..., n_keys, e)
        Values.

    Returns
    -------
    values : array of shape (..., n_keys, e + 1)
        With the column.
    """
    xp = namespace_of(v)
    return xp.concat([v, constant((*v.shape[:-1], 1), 1.0, v)], axis=-1)


def log_weights(key_mask: Array | None, like: Array) -> Array | None:
    """Return the logs of the weights of keys as a column.

    Parameters
    ----------
    key_mask : array of shape (..., n_keys) or None
        True for keys that count, or numbers added to the scores.
    like : array of shape (..., n_keys, d)
        The keys.

    Returns
    -------
    bias : array of shape (..., n_keys, 1) or None
        0 and minus infinity for a mask of truth values.

    Raises
    ------
    ValueError
        If its last axis is not that of the keys.
    """
    if key_mask is None:
        return None
    if key_mask.shape[-1] != like.shape[-2]:
        raise ValueError(
            f"key_mask has {key_mask.shape[-1]} entries in its last axis, but there "
            f"are {like.shape[-2]} keys."
        )
    xp = namespace_of(like, key_mask)
    if "bool" in str(key_mask.dtype):
        zero = constant((1,) * key_mask.ndim, 0.0, like)
        key_mask = xp.where(key_mask, zero, zero - xp.inf)
    return key_mask[..., None]
