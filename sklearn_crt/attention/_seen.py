"""What queries see of the values: their sums, and their range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._arrays import Array, constant, namespace_of, positions


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
