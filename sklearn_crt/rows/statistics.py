"""Mergeable statistics of the rows, on which feature maps depend."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import starmap
from operator import add
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.sparsefuncs import mean_variance_axis, min_max_axis

from .._compat import RandomState
from ..arrays.namespaces import (
    Array,
    float_types,
    namespace_of,
    on_host,
    to_host,
    transposed,
)
from .inputs import Rows
from .row_sample import RowSample

_MOMENT_BYTES = 2**19  # size of the float64 copy of a batch, which fits into the cache
_COVARIANCE_BYTES = 2**22  # size of a batch for covariances, for efficient products
# batch size on a device, where starting an operation takes as long as processing a MiB
_DEVICE_BYTES = 2**27
_ROUNDING = 1e-14  # rounding errors of sparse variances, relative to mean squares
_CONSTANT = 1e-12  # the same for standard deviations, relative to root mean squares


def _batches(
    X: Any, weights: Array | None, host_bytes: int, least: int = 1
) -> Iterator[tuple[Any, Array]]:
    """Yield batches of rows and their weights, in the widest floating-point dtype."""
    xp = None if on_host(X) else namespace_of(X)
    wide = np.float64 if xp is None else float_types(X)[0]
    n_rows, width = X.shape
    size = (host_bytes if xp is None else _DEVICE_BYTES) // 8
    if sparse.issparse(X):
        # merging two batches takes O(n_features) time, however few entries they have
        width, size = -(-X.nnz // max(n_rows, 1)), max(size, 4 * width)
    for rows in gen_batches(n_rows, max(least, size // max(width, 1))):
        if xp is None:
            batch = X[rows].astype(wide, copy=False)
            ones = np.ones(batch.shape[0]) if weights is None else weights[rows]
            yield batch, np.asarray(ones, wide)
        else:
            batch = xp.astype(X[rows, ...], wide)
            ones = xp.ones_like(batch[:, 0]) if weights is None else weights[rows]
            yield batch, xp.astype(ones, wide)


@dataclass(frozen=True)
class ColumnMoments:
    """Total weight, and the mean, variance, mean |x| and minimum of each column.

    The statistics are computed in float64, and the order in which they are merged
    affects only rounding errors. To preserve precision for columns far from zero,
    squares are centred at the mean, and the rounding error of the mean is also stored.
    """

    weight: float
    mean: np.ndarray  # (n_features,)
    rest: np.ndarray  # (n_features,); mean + rest is more accurate
    variance: np.ndarray  # (n_features,)
    mean_abs: np.ndarray  # (n_features,)
    minimum: np.ndarray  # (n_features,)
    n_rows: int = 0  # number of rows with positive weight

    @classmethod
    def of(cls, X: Any, sample_weight: Array | None = None) -> ColumnMoments:
        """Compute the statistics of rows."""
        # X (n_rows, n_features), sample_weight (n_rows,)
        of_rows = cls._of_sparse if sparse.issparse(X) else cls._of_dense
        batches = _batches(X, sample_weight, _MOMENT_BYTES)
        with np.errstate(over="ignore", invalid="ignore"):
            total = reduce(add, starmap(of_rows, batches))
        if not np.isfinite(total.variance).all():
            raise ValueError(
                "Input X contains values whose squares are too large for float64. "
                "Scale the columns."
            )
        return total

    @classmethod
    def _of_dense(cls, X: Array, weights: Array) -> ColumnMoments:
        xp = namespace_of(X)
        weight = float(xp.sum(weights))
        if weight == 0:
            return cls._of_nothing(X.shape[1])
        share = weights / weight
        mean, counted, n_rows = share @ X, X, X.shape[0]
        if not xp.all(share > 0):
            n_rows = int(xp.count_nonzero(share > 0))
            counted = xp.where(share[:, None] > 0, X, xp.full_like(X, np.inf))
        gaps = X - mean
        rest = share @ gaps
        vectors = (
            mean,
            rest,
            share @ xp.square(gaps) - xp.square(rest),
            share @ xp.abs(X),
            xp.min(counted, axis=0),
        )
        found = to_host(xp.stack(vectors)).astype(np.float64, copy=False)
        first, rest, variance, mean_abs, minimum = found
        mean = first + rest
        rest = rest - (mean - first)
        variance = np.maximum(variance, 0)
        return cls(
            weight=weight,
            mean=mean,
            rest=rest,
            variance=variance,
            mean_abs=mean_abs,
            minimum=minimum,
            n_rows=n_rows,
        )

    @classmethod
    def _of_sparse(cls, X: sparse.csr_array, weights: np.ndarray) -> ColumnMoments:
        weight = float(weights.sum())
        if weight == 0:
            return cls._of_nothing(X.shape[1])
        share = weights / weight
        mean, variance = mean_variance_axis(X, axis=0, weights=share)
        counted = X if np.all(weights) else X[weights > 0]
        minimum, _ = min_max_axis(counted, axis=0)
        variance = np.maximum(variance, 0)  # rounding may make it negative
        # only columns without zeros can be far from zero, relative to their deviations
        is_full = np.bincount(X.indices, minlength=mean.size) == X.shape[0]
        rest = np.zeros_like(mean)
        if is_full.any():
            gaps = np.repeat(share, np.diff(X.indptr)) * (X.data - mean[X.indices])
            rest = np.where(is_full, np.bincount(X.indices, gaps, mean.size), 0)
        total = mean + rest
        rest = rest - (total - mean)
        n_rows = int(np.count_nonzero(weights))
        return cls(
            weight=weight,
            mean=total,
            rest=rest,
            variance=variance,
            mean_abs=share @ abs(X),
            minimum=minimum,
            n_rows=n_rows,
        )

    @classmethod
    def _of_nothing(cls, n_features: int) -> ColumnMoments:
        zero = np.zeros(n_features)
        return cls(
            weight=0.0,
            mean=zero,
            rest=zero,
            variance=zero,
            mean_abs=zero,
            minimum=np.full(n_features, np.inf),
        )

    def __add__(self, other: ColumnMoments) -> ColumnMoments:
        """Return the statistics of both sets of rows together."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        gap = (other.mean - self.mean) + (other.rest - self.rest)
        step = self.rest + share * gap
        mean = self.mean + step
        return ColumnMoments(
            weight=weight,
            mean=mean,
            rest=step - (mean - self.mean),
            variance=(1 - share) * (self.variance + share * gap**2)
            + share * other.variance,
            mean_abs=(1 - share) * self.mean_abs + share * other.mean_abs,
            minimum=np.minimum(self.minimum, other.minimum),
            n_rows=self.n_rows + other.n_rows,
        )

    @property
    def mean_square(self) -> np.ndarray:
        """Weighted mean of x^2 for each column, shape (n_features,)."""
        return self.variance + self.mean**2

    @property
    def total_variance(self) -> float:
        """Variance of all entries, as computed by ``X.var()``."""
        means = self.mean - self.mean[0] + self.rest
        return float(np.mean(self.variance) + np.var(means))


@dataclass(frozen=True, eq=False)
class Covariance:
    """Weighted mean and covariance matrix; ``a + b`` merges two sets of rows.

    Both are computed in float64, and dense batches are centred first, which preserves
    precision for columns far from zero. This takes O(n d^2) time and O(d^2) memory.
    """

    weight: float
    mean: np.ndarray  # (n_features,)
    matrix: np.ndarray  # (n_features, n_features)

    @classmethod
    def of(cls, X: Any, sample_weight: Array | None = None) -> Covariance:
        """Compute the statistics of rows."""
        # X (n_rows, n_features), sample_weight (n_rows,)
        # at least d rows per batch, so that merging takes no longer than the products
        batches = _batches(X, sample_weight, _COVARIANCE_BYTES, X.shape[1])
        return reduce(add, (cls._of_rows(*batch) for batch in batches))

    @classmethod
    def _of_rows(cls, X: Any, weights: Array) -> Covariance:
        weight, d = float(namespace_of(weights).sum(weights)), X.shape[1]
        if weight == 0:
            return cls(0.0, np.zeros(d), np.zeros((d, d)))
        share = weights / weight
        mean = share @ X
        if sparse.issparse(X):
            products = (X.T @ X.multiply(share[:, None])).toarray()
            matrix = products - np.outer(mean, mean)
            # for a constant column, the variance is a rounding error and may be
            # negative
            constant = matrix.diagonal() <= _ROUNDING * products.diagonal()
            matrix[constant] = matrix[:, constant] = 0
            return cls(weight, mean, matrix)
        centred = (X - mean) * namespace_of(X).sqrt(share)[:, None]
        both = mean, transposed(centred) @ centred
        return cls(weight, *(to_host(part).astype(np.float64) for part in both))

    def __add__(self, other: Covariance) -> Covariance:
        """Return the statistics of both sets of rows together."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        gap = other.mean - self.mean
        between = share * (1 - share) * np.outer(gap, gap)
        within = (1 - share) * self.matrix + share * other.matrix
        return Covariance(weight, self.mean + share * gap, within + between)


T = TypeVar("T", ColumnMoments, RowSample, Covariance)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Statistics of queries and, if given, of keys; ``a + b`` combines sets of rows.

    Together with the parameters of a sampler, they determine its feature map.
    """

    seed: tuple[int, ...]
    query: ColumnMoments = None  # type: ignore[assignment]  # unused without rows
    key_moments: ColumnMoments | None = None
    sample: RowSample | None = None
    query_sample: RowSample | None = None
    key_sample: RowSample | None = None
    query_covariance: Covariance | None = None
    key_covariance: Covariance | None = None

    @classmethod
    def seeded(cls, random_state: RandomState) -> Statistics:
        """Return statistics without rows, whose seed is drawn from a random state."""
        seed = check_random_state(random_state).randint(2**31 - 1, size=4)
        return cls(tuple(seed.tolist()))

    @property
    def key(self) -> ColumnMoments:
        """Column moments of the keys."""
        return self.query if self.key_moments is None else self.key_moments

    @property
    def both(self) -> ColumnMoments:
        """Column moments of queries and keys together."""
        return self.query if self.key_moments is None else self.query + self.key_moments

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.query.mean.size

    @property
    def side_samples(self) -> list[RowSample]:
        """The samples of queries and, if there are any, of keys."""
        both = self.query_sample, self.key_sample
        return [sample for sample in both if sample is not None]

    def frequency_stream(self) -> np.random.Generator:
        """Return a generator for frequencies; its initial state is always the same."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(0,)))

    def _row_seed(self, side: int | None) -> tuple[int, ...]:
        """Return the seed of a sample of all rows, of the queries (0) or keys (1)."""
        return (*self.seed, 1) if side is None else (*self.seed, 1, side)

    def read(
        self,
        X: Rows,
        X_key: Rows | None = None,
        sample_weight: np.ndarray | None = None,
        *,
        median: bool = False,
        rows: int = 0,
        covariance: bool = False,
        n_before: int = 0,
    ) -> Statistics:
        """Return statistics that include further rows."""
        # X (n_rows, n_features), X_key (n_keys, n_features), sample_weight (n_rows,)

        def sampled(
            old: RowSample | None,
            Z: Rows,
            weights: np.ndarray | None,
            side: int | None,
            size: int = 1000,
        ) -> RowSample:
            if old is not None:
                return old.with_rows(Z, None, weights)
            seed = self._row_seed(side)
            return RowSample.of(
                Z, None, weights, seed=seed, size=size, n_before=n_before
            )

        changes: dict[str, Any] = {
            "query": added(self.query, ColumnMoments.of(X, sample_weight))
        }
        if median:
            changes["sample"] = sampled(self.sample, X, sample_weight, None)
        if rows:
            old = self.query_sample
            changes["query_sample"] = sampled(old, X, sample_weight, 0, rows)
        if covariance:
            new = Covariance.of(X, sample_weight)
            changes["query_covariance"] = added(self.query_covariance, new)
            if X_key is not None:
                new = Covariance.of(X_key)
                changes["key_covariance"] = added(self.key_covariance, new)
        if X_key is not None:
            changes["key_moments"] = added(self.key_moments, ColumnMoments.of(X_key))
            if median:
                changes["sample"] = sampled(changes["sample"], X_key, None, None)
            if rows:
                changes["key_sample"] = sampled(self.key_sample, X_key, None, 1, rows)
        return replace(self, **changes)

    def __add__(self, other: Statistics) -> Statistics:
        """Return the statistics of the combined rows, with the seed of self."""
        names = [field.name for field in fields(self) if field.name != "seed"]
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in names}
        sums: dict[str, Any] = {name: added(*pair) for name, pair in pairs.items()}
        return replace(self, **sums)

    def without_rows(self) -> Statistics:
        """Return the statistics without the samples of rows."""
        return replace(self, sample=None, query_sample=None, key_sample=None)


def added(a: T | None, b: T | None) -> T | None:
    """Return a + b or, if one of them is None, the other."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def varying_columns(
    values: np.ndarray, weights: np.ndarray, eps: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the positions, means and standard deviations of non-constant columns.

    ``eps`` is the machine epsilon of the data type in which the values were given.
    Smaller deviations, relative to the root mean square, may be rounding errors.
    """
    # values (n_rows, n_columns), weights (n_rows,) -> three arrays (n_kept,)
    share = weights / weights.sum()
    mean = share @ values
    deviation = np.sqrt(share @ (values - mean) ** 2)
    least = max(_CONSTANT, eps) * np.sqrt(share @ values**2)
    kept = np.flatnonzero(deviation > least)
    return kept, mean[kept], deviation[kept]
