"""Random samples of rows that depend only on the content of the rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from ..arrays.namespaces import joined, taken
from ..arrays.validation import plain_sparse
from .inputs import Rows

# Constants of SplitMix64 (Steele, Lea, Flood 2014), which spreads the information of
# each bit over all bits of the result.
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_CHUNK = 2**20  # number of values hashed at a time, which fit into the cache
# The leading half of a hash is computed from numbers rounded to 26 binary digits. Hence
# the order of the hashes hardly ever depends on rounding errors, such as those of a
# preceding transformer. The other half is computed from the exact numbers, which
# distinguishes rows that differ only in their last digits. Rounding to fewer digits, or
# relative to the largest number of a row, would give too many rows the same leading
# half, for example those with the same category or almost the same time in seconds.
# Such rows are drawn together, so the sample would not be representative.
_HALF, _KEPT = np.uint64(2**25), ~np.uint64(2**26 - 1)
_LEADING = ~np.uint64(2**32 - 1)


@dataclass(frozen=True, eq=False)
class DistinctSample:
    """A random sample of distinct rows, each with the total weight of its copies.

    Rows count as equal only if their targets are equal, too. The sample consists of the
    rows with the smallest hashes, so it depends neither on the order of the rows, nor
    on how they are batched, nor on whether a row has weight 2 or occurs twice. ``a +
    b`` is the sample of the rows of both samples.
    """

    X: Rows  # (n_rows, n_features)
    y: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)
    keys: np.ndarray  # (n_rows,), the hashes in ascending order
    size: int  # maximum number of rows

    @classmethod
    def of(cls, batches: Iterable[tuple[Any, ...]], size: int) -> DistinctSample:
        """Draw a sample from batches, which are tuples (X, y, weights, ...)."""
        parts = (
            _smallest(X, y, weights, hashes(X, y), size)
            for X, y, weights, *_ in batches
        )
        return reduce(add, parts)

    def __add__(self, other: DistinctSample) -> DistinctSample:
        """Return the sample of the combined rows."""
        return _smallest(
            joined([self.X, other.X]),
            np.concatenate([self.y, other.y]),
            np.concatenate([self.weights, other.weights]),
            np.concatenate([self.keys, other.keys]),
            self.size,
        )


def _smallest(
    X: Rows, y: np.ndarray, weights: np.ndarray, keys: np.ndarray, size: int
) -> DistinctSample:
    """Return the distinct rows with the smallest hashes."""
    distinct, first, places = np.unique(keys, return_index=True, return_inverse=True)
    totals = np.bincount(places, weights, len(distinct))
    chosen = first[:size]
    return DistinctSample(
        taken(X, chosen), y[chosen], totals[:size], distinct[:size], size
    )


def hashes(X: Rows, y: np.ndarray) -> np.ndarray:
    """Return a hash of each row together with its targets, (n_rows,)."""
    targets = y[:, None] if y.ndim == 1 else y
    n_rows, n_columns = X.shape
    factors = np.random.default_rng(0).integers(
        2**64, size=n_columns + targets.shape[1], dtype=np.uint64
    ) | np.uint64(1)
    of_rows, of_targets = factors[:n_columns], factors[n_columns:]
    sums = _sums_of_dense(targets, of_targets)
    if sparse.issparse(X):
        rows = plain_sparse(X)
        terms = _mixed(rows.data) * of_rows[rows.indices]
        total = np.zeros((2, len(rows.data) + 1), dtype=np.uint64)
        np.cumsum(terms, axis=1, out=total[:, 1:])
        sums += total[:, rows.indptr[1:]] - total[:, rows.indptr[:-1]]  # modulo 2**64
    else:
        step = max(1, _CHUNK // max(n_columns, 1))
        for start in range(0, n_rows, step):
            part = slice(start, start + step)
            sums[:, part] += _sums_of_dense(X[part], of_rows)
    sums ^= sums >> np.uint64(30)
    sums *= _FIRST
    sums ^= sums >> np.uint64(27)
    sums *= _SECOND
    rounded, exact = sums ^ (sums >> np.uint64(31))
    return (rounded & _LEADING) | (exact & ~_LEADING)


def _sums_of_dense(values: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Return the sums of each row's mixed entries times odd factors, (2, n_rows)."""
    return (_mixed(values) * factors).sum(axis=2, dtype=np.uint64)


def _mixed(values: np.ndarray) -> np.ndarray:
    """Mix the bits of rounded and of exact numbers; the result for 0 is 0.

    Therefore zeros do not change a hash, and sparse rows can omit them.
    """
    numbers = np.add(values, 0.0, dtype=np.float64, order="C")  # no -0.0
    numbers[np.isnan(numbers)] = np.nan  # nor other bits of NaN, such as those of 0 / 0
    exact = numbers.view(np.uint64)
    bits = np.stack([(exact + _HALF) & _KEPT, exact])
    bits ^= bits >> np.uint64(32)
    bits *= _FIRST
    bits ^= bits >> np.uint64(29)
    return bits
