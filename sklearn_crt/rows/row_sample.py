"""Random samples of rows, drawn by the positions of the rows in the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import pdist
from sklearn.metrics.pairwise import euclidean_distances

from ..arrays.namespaces import joined, taken, to_host
from ..arrays.validation import plain_sparse
from .inputs import Rows

Seed = int | tuple[int, ...]


@dataclass(frozen=True, eq=False)
class RowSample:
    """A random sample of the rows with positive weight, with or without their targets.

    Each row has a random priority, which is determined by the seed and by the position
    of the row among the rows with positive weight. The rows with the smallest
    priorities are kept, in the order of the data. Therefore the sample is the same
    whether rows are read in batches or all at once, and ``a + b`` is the sample of the
    rows of a followed by those of b.

    By default, each row is drawn with the same probability, and keeps its own weight.
    If rows are drawn by weight, the priority of a row of weight w is E / w, where E is
    exponentially distributed. Then ``weights`` are Horvitz-Thompson weights: their sum
    over any part of the rows is an unbiased estimate of the sum of the given weights
    over this part [1]_.

    References
    ----------
    .. [1] Cohen, E. and Kaplan, H. (2007). Summarizing data using bottom-k sketches.
       Proceedings of the 26th ACM Symposium on Principles of Distributed Computing.
    """

    X: Rows  # (n_rows, n_features)
    y: Any  # (n_rows,) or (n_rows, n_outputs); None for samples without targets
    given_weights: np.ndarray  # (n_rows,)
    priorities: np.ndarray  # (n_rows,)
    threshold: float  # the smallest priority that was not kept, infinite without such
    n_seen: int  # number of rows from which the sample was drawn
    n_before: int  # position of the first of them
    seed: Seed
    size: int  # maximum number of rows
    by_weight: bool = False

    @classmethod
    def of(
        cls,
        X: Rows,
        y: Any = None,
        weights: Any = None,
        *,
        seed: Seed,
        size: int,
        n_before: int = 0,
        by_weight: bool = False,
    ) -> RowSample:
        """Draw a sample of rows, whose first one has the position ``n_before``.

        Rows without weight have no position. If ``weights`` is None, all weights are 1.
        """
        # X (n_rows, n_features), y (n_rows,) or (n_rows, n_outputs), weights (n_rows,)
        given = np.ones(X.shape[0]) if weights is None else to_host(weights)
        counted = np.flatnonzero(given > 0)
        n_seen = counted.size
        own = given[counted].astype(np.float64)
        priorities = _priorities(seed, n_before, own, by_weight)
        kept, threshold = _smallest(priorities, size)
        index = counted[kept]
        return cls(
            X=to_host(taken(X, index)),
            y=None if y is None else to_host(taken(y, index)),
            given_weights=own[kept],
            priorities=priorities[kept],
            threshold=threshold,
            n_seen=n_seen,
            n_before=n_before,
            seed=seed,
            size=size,
            by_weight=by_weight,
        )

    @classmethod
    def of_batches(
        cls,
        batches: Iterable[tuple[Any, ...]],
        *,
        seed: Seed,
        size: int,
        n_before: int = 0,
        by_weight: bool = False,
    ) -> RowSample:
        """Draw a sample from consecutive batches, tuples (X, y, weights, ...).

        The first row of the first batch has the position ``n_before``.
        """
        parts = iter(batches)
        options: Any = {"seed": seed, "size": size, "by_weight": by_weight}
        sample = cls.of(*next(parts)[:3], n_before=n_before, **options)
        for batch in parts:
            sample = sample.with_rows(*batch[:3])
        return sample

    def with_rows(self, X: Rows, y: Any = None, weights: Any = None) -> RowSample:
        """Return the sample that includes further rows, at the next positions."""
        # X (n_rows, n_features), y (n_rows,) or (n_rows, n_outputs), weights (n_rows,)
        return self + RowSample.of(
            X,
            y,
            weights,
            seed=self.seed,
            size=self.size,
            n_before=self.n_before + self.n_seen,
            by_weight=self.by_weight,
        )

    @property
    def weights(self) -> np.ndarray:
        """Weights of the rows: their own or, if drawn by weight, Horvitz-Thompson."""
        # -> (n_rows,)
        own = self.given_weights
        if not self.by_weight or np.isinf(self.threshold):
            return own
        # w / P(E / w < threshold)
        return own / -np.expm1(-own * self.threshold)

    def __add__(self, other: RowSample) -> RowSample:
        """Return the sample of the rows of self, followed by those of other.

        If other has all of its rows and starts at position 0, these rows get the
        positions after those of self. Otherwise their positions are kept.
        """
        end, seen = self.n_before + self.n_seen, other.n_seen
        added = other.priorities
        if other.n_before == 0 and added.size == seen:
            added = _priorities(self.seed, end, other.given_weights, self.by_weight)
        priorities = np.concatenate([self.priorities, added])
        kept, dropped = _smallest(priorities, self.size)
        weights = np.concatenate([self.given_weights, other.given_weights])
        return replace(
            self,
            X=taken(joined([self.X, other.X]), kept),
            y=None if self.y is None else np.concatenate([self.y, other.y])[kept],
            given_weights=weights[kept],
            priorities=priorities[kept],
            threshold=min(dropped, self.threshold, other.threshold),
            n_seen=self.n_seen + seen,
        )

    def median_distance(self) -> float:
        """Return the weighted median distance between distinct rows."""
        weights, pairs = self.weights, np.triu_indices(self.X.shape[0], 1)
        distances = _pair_distances(self.X.astype(np.float64), pairs)
        # for equal sparse rows, distances are rounding errors
        distinct = distances > 1e-7 * distances.max(initial=0)
        pair_weights = np.where(distinct, (weights[:, None] * weights)[pairs], 0)
        order = np.argsort(distances)
        cumulated = np.cumsum(pair_weights[order])
        if cumulated.size == 0 or cumulated[-1] == 0:
            return 1.0
        middle = np.searchsorted(cumulated, 0.5 * cumulated[-1])
        return float(distances[order[middle]])

    def distinct(self) -> tuple[Rows, np.ndarray]:
        """Return the distinct rows and their total weights."""
        # -> (n_distinct, n_features), (n_distinct,)
        if self.X.shape[0] == 0:  # all weights were zero
            return np.zeros((1, self.X.shape[1]), self.X.dtype), np.ones(1)
        first, places = distinct_rows(self.X)
        return self.X[first], np.bincount(places, self.weights)


def distinct_rows(
    rows: Rows, y: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the first row of each group of equal rows, and the group of each row.

    Groups have the order of their first rows. If targets are given, rows count as equal
    only if their targets are equal, too.
    """
    # y (n_rows,) or (n_rows, n_outputs) -> (n_distinct,), (n_rows,)
    if y is not None:
        _, places = distinct_rows(rows)
        return distinct_rows(np.column_stack([places, y]))
    if sparse.issparse(rows):
        table = plain_sparse(rows).copy()
        table.eliminate_zeros()
        table.sort_indices()
        bounds = [*pairwise(table.indptr.tolist())]
        parts = table.indices, table.data
        contents = [b"".join(part[i:j].tobytes() for part in parts) for i, j in bounds]
        groups = {content: k for k, content in enumerate(dict.fromkeys(contents))}
        keys = np.array([groups[content] for content in contents])
    else:
        table = np.add(rows, 0.0, dtype=np.float64, order="C")  # no -0.0
        keys = table.view(np.dtype((np.void, 8 * table.shape[1]))).ravel()
    _, first, places = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(first)
    ranks = np.empty_like(order)
    ranks[order] = np.arange(len(order))
    return first[order], ranks[places]


def _priorities(
    seed: Seed, n_before: int, weights: np.ndarray, by_weight: bool
) -> np.ndarray:
    """Return the priorities of rows with consecutive positions."""
    # weights (n_rows,) -> (n_rows,)
    rng = np.random.default_rng(seed)
    rng.bit_generator.advance(int(n_before))  # type: ignore[attr-defined]  # PCG64 can
    uniform = rng.random(weights.size)  # one step of the generator for each row
    return -np.log1p(-uniform) / weights if by_weight else uniform


def _smallest(priorities: np.ndarray, size: int) -> tuple[np.ndarray, float]:
    """Return the indices of the smallest priorities, and the next larger priority."""
    # (n_rows,) -> (at most size,) in ascending order
    if priorities.size <= size:
        return np.arange(priorities.size), np.inf
    order = np.argpartition(priorities, size)
    return np.sort(order[:size]), float(priorities[order[size]])


def _pair_distances(rows: Rows, pairs: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the distances between all pairs of dense or sparse rows.

    If rows are far from zero, distances computed from inner products lose precision.
    Sparse columns can be far from zero only if most of their entries are stored, so
    such columns are made dense, and their differences are computed directly.
    """
    # (n_rows, n_features) -> (n_rows * (n_rows - 1) / 2,)
    if isinstance(rows, np.ndarray):
        return pdist(rows)
    is_dense = 2 * np.bincount(rows.indices, minlength=rows.shape[1]) > rows.shape[0]
    squares = pdist(rows[:, is_dense].toarray(), "sqeuclidean")
    if not is_dense.all():
        squares += euclidean_distances(rows[:, ~is_dense], squared=True)[pairs]
    return np.sqrt(squares)
