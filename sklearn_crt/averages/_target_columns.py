"""Encodings of labels and of numerical targets as the columns of a matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.sparse import csr_array

from .._values import Value
from ..arrays.namespaces import (
    Array,
    DType,
    asarray_like,
    float_types,
    namespace_of,
    to_host,
)
from ..rows import Inputs, Rows

if TYPE_CHECKING:
    from ._prototypes import Points

_ENCODED_ROWS = 2**16  # rows of other libraries whose classes are encoded at a time


class Targets(Value, ABC):
    """Base class of encodings of the targets as columns of a matrix.

    Dividing kernel sums of these columns by the total kernel weight yields averages.
    """

    are_labels: bool
    n_averages: int  # averages are computed from this many leading columns

    @abstractmethod
    def encode(
        self, y: Array, weights: Array, dtype: DType = None, *of_rows: Inputs | Array
    ) -> Array:
        """Encode targets as the columns that enter kernel sums, (n_rows, n_columns).

        Local linear fits also need the rows and, for prototypes, the second moments of
        the rows that each prototype represents.
        """

    def prepared(
        self, y: Array, weights: Array, dtype: DType, *of_rows: Inputs | Array
    ) -> tuple[Array, ...]:
        """Return the arrays to store for the targets, with one entry per row."""
        return (self.encode(y, weights, dtype, *of_rows),)

    def product_type(self, X: Rows) -> DType:
        """Return the data type for products of features with sums of targets.

        The widest type preserves small differences between sums of large targets.
        """
        return float_types(X)[0]

    @abstractmethod
    def weight(self, sums: Array) -> Array:
        """Return the sums of the weights, given the sums of encoded targets."""

    @abstractmethod
    def statistics_of(self, y: Array, weights: Array) -> ClassCounts | TargetMoments:
        """Return statistics of the targets, which can be merged by ``a + b``."""

    def candidates(self) -> tuple[Targets, ...]:
        """Return the candidates that are compared by leave-one-out error."""
        return (self,)

    def with_error(self, error: float) -> Targets:
        """Return targets adapted to their leave-one-out error; by default unchanged."""
        return self

    def reduced(self) -> Targets:
        """Return an equivalent encoding, with fewer columns if possible."""
        return self

    def is_wide(self, n_features: int) -> bool:
        """Return whether there are too many columns to fit a slope for each."""
        return False

    def adapted(self, rows: Inputs, weights: np.ndarray) -> Targets:
        """Limit the number of directions that have slopes if there are many columns."""
        return self

    def contribution(self, own: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Return what to subtract from each prototype to leave out one of its rows.

        ``own`` are the encoded rows, and ``group`` their encoded prototypes.
        """
        return own

    def n_products(self, n_features: int) -> int:
        """Return the number of second moments that are accumulated."""
        return 0

    def spread_of(
        self, points: Points, share: np.ndarray, labels: np.ndarray
    ) -> csr_array:
        """Return the central second moments of the rows in each group of points."""
        return csr_array((labels.max() + 1, 0))

    def scaled(self, spread: csr_array, sigma: float | np.ndarray) -> np.ndarray:
        """Return the central second moments for rows that are multiplied by sigma."""
        return spread.toarray()

    def solve(self, sums: Array, queries: Inputs, sigma: float | np.ndarray) -> Array:
        """Return scores, which are divided by the total weight to obtain predictions.

        The sums and the queries refer to rows that are multiplied by sigma.
        """
        return sums

    def solve_all(self, sums: np.ndarray, queries: Inputs, sigma: float) -> np.ndarray:
        """Return the scores of each candidate, as ``solve`` does for a single one."""
        # (n_queries, n_columns) -> (n_candidates, n_queries, n_averages or more)
        return sums[None]


@dataclass(frozen=True)
class OneHot(Targets):
    """Class labels 0, 1, ... as one-hot columns, multiplied by the weights."""

    n_averages: int
    are_labels = True

    def encode(
        self, y: Array, weights: Array, dtype: DType = None, *of_rows: Inputs | Array
    ) -> Array:
        if isinstance(y, np.ndarray):
            found = np.zeros((y.size, self.n_averages), dtype=dtype)
            found[np.arange(y.size), y] = weights
            return found
        xp = namespace_of(y)
        here = y[:, None] == asarray_like(np.arange(self.n_averages), y)
        return xp.astype(here, dtype) * xp.astype(weights, dtype)[:, None]

    def product_type(self, X: Rows) -> DType:
        return X.dtype

    def weight(self, sums: Array) -> Array:
        return namespace_of(sums).sum(sums, axis=1)

    def statistics_of(self, y: Array, weights: Array) -> ClassCounts:
        if isinstance(y, np.ndarray):
            return ClassCounts(np.bincount(y, weights, minlength=self.n_averages))
        wide, total = float_types(weights)[0], np.zeros(self.n_averages)
        for start in range(0, y.shape[0], _ENCODED_ROWS):
            rows = slice(start, min(start + _ENCODED_ROWS, y.shape[0]))
            some = self.encode(y[rows], weights[rows], wide)
            total += to_host(namespace_of(some).sum(some, axis=0))
        return ClassCounts(total)


@dataclass(frozen=True)
class RegressionTargets(Targets):
    """Numerical targets: one weighted column per output, and a column of weights."""

    n_averages: int
    are_labels = False

    def encode(
        self, y: Array, weights: Array, dtype: DType = None, *of_rows: Inputs | Array
    ) -> Array:
        xp = namespace_of(y)
        weights = xp.astype(weights, float_types(y)[0])[:, None]
        return xp.concat([weights * y, weights], axis=1)

    def weight(self, sums: Array) -> Array:
        return sums[:, -1]

    def statistics_of(self, y: Array, weights: Array) -> TargetMoments:
        return TargetMoments.of(y, weights)


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Sum of the weights of each class; ``a + b`` merges two sets of rows."""

    sums: np.ndarray  # (n_classes,)

    @property
    def shares(self) -> np.ndarray:
        """The weight of each class as a proportion of the total weight."""
        return self.sums / self.sums.sum()

    def __add__(self, other: ClassCounts) -> ClassCounts:
        return ClassCounts(self.sums + other.sums)


@dataclass(frozen=True, eq=False)
class TargetMoments:
    """Weight, mean and range of targets; ``a + b`` merges two sets of rows."""

    weight: float
    mean: np.ndarray  # (n_outputs,)
    least: np.ndarray  # (n_outputs,)
    most: np.ndarray  # (n_outputs,)

    @classmethod
    def of(cls, y: Array, weights: Array) -> TargetMoments:
        """Return the statistics of weighted targets."""
        xp = namespace_of(y)
        weights = xp.astype(weights, float_types(y)[0])
        weight = float(xp.sum(weights))
        parts = (weights / weight) @ y, xp.min(y, axis=0), xp.max(y, axis=0)
        mean, least, most = map(to_host, parts)
        ends = least.astype(np.float64), most.astype(np.float64)
        return cls(weight, mean.astype(np.float64), *ends)

    def clipped(self, predictions: Array) -> Array:
        """Return predictions clipped to the range of the training targets."""
        xp = namespace_of(predictions)
        ends = (asarray_like(end, predictions) for end in (self.least, self.most))
        least, most = ends
        predictions = xp.where(predictions > most, most, predictions)
        return xp.where(predictions < least, least, predictions)

    def __add__(self, other: TargetMoments) -> TargetMoments:
        weight = self.weight + other.weight
        return TargetMoments(
            weight,
            self.mean + (other.weight / weight) * (other.mean - self.mean),
            np.minimum(self.least, other.least),
            np.maximum(self.most, other.most),
        )
