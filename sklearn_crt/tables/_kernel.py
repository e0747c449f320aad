"""The ANOVA kernel of encoded columns, centred over landmarks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

_ALL: Any = slice(None)
_BLOCK = 1024  # number of rows for which kernel values are computed at a time
Order = Any  # 1, 2 or "all"


@dataclass(frozen=True, eq=False)
class ColumnKernels:
    """Kernels of single columns, centred and scaled over landmarks.

    The kernel of a term is ``exp(-r) + exp(-r**2 / 2)``, where r**2 is the squared
    Euclidean distance between scores plus the number of codes that differ. As the sum
    of a rough and a smooth kernel, it can fit both kinks and smooth curves. For a
    single categorical column, centring and scaling turn it into the centred and scaled
    kernel that is 1 for equal and 0 for different categories. Kernels have mean zero
    over the landmarks in both arguments, so interactions contain no effects of single
    columns. Their mean diagonal is 1, which makes the weights of columns comparable.
    """

    points: np.ndarray  # (m, n_encoded), the encoded landmarks
    is_score: np.ndarray  # (n_encoded,)
    terms: tuple[tuple[int, ...], ...]
    means: np.ndarray  # (n_terms, m)
    scales: np.ndarray  # (n_terms,)

    @classmethod
    def of(
        cls, points: np.ndarray, is_score: np.ndarray, terms: Sequence[tuple[int, ...]]
    ) -> ColumnKernels:
        """Return the kernels, centred and scaled over the given landmarks."""
        means, scales = np.empty((len(terms), len(points))), np.empty(len(terms))
        for q, term in enumerate(terms):
            K = _raw(points[:, term], points[:, term], is_score[list(term)])
            means[q] = K.mean(axis=0)
            scales[q] = max(np.diag(K).mean() - K.mean(), 1e-9)
        return cls(points, is_score, tuple(terms), means, scales)

    def tables(self, Z: np.ndarray, q: int, dtype: Any) -> tuple[np.ndarray, Any]:
        """Return a term's kernel at distinct values, and the index of each row's value.

        This saves time, because many columns have only a few distinct values.
        """
        columns = list(self.terms[q])
        values, places = Z[:, columns], _ALL
        if len(columns) == 1 and len(Z) > 1:
            distinct, place_of_row = np.unique(values[:, 0], return_inverse=True)
            if 2 * len(distinct) <= len(Z):
                values, places = distinct[:, None], place_of_row
        points = self.points[:, columns]
        values, points = (v.astype(dtype, copy=False) for v in (values, points))
        K = _raw(values, points, self.is_score[columns])
        K -= self.means[q].astype(dtype, copy=False)
        K -= K.mean(axis=1, keepdims=True)  # the mean of the means cancels
        K /= dtype(self.scales[q])
        return K, places

    def stacked(
        self, Z: np.ndarray, chosen: Sequence[int], dtype: Any = np.float64
    ) -> np.ndarray:
        """Return kernels of terms between rows and landmarks, (n_chosen, n, m)."""
        out = np.empty((len(chosen), len(Z), len(self.points)), dtype)
        for rows in row_blocks(len(Z)):
            for term, q in zip(out, chosen, strict=True):
                table, places = self.tables(Z[rows], q, dtype)
                term[rows] = table[places]
        return out


def _raw(A: np.ndarray, B: np.ndarray, is_score: np.ndarray) -> np.ndarray:
    """Return the kernel between encoded rows, before centring and scaling."""
    if len(is_score) == 1:
        if not is_score[0]:
            return (A == B.T).astype(A.dtype)
        distances = np.abs(A - B.T)
    else:
        squares = np.zeros((len(A), len(B)), A.dtype)
        for a, b, score in zip(A.T, B.T, is_score, strict=True):
            squares += np.subtract.outer(a, b) ** 2 if score else a[:, None] != b
        distances = np.sqrt(squares)
    smooth = np.square(distances)
    smooth *= -0.5
    np.exp(smooth, out=smooth)
    np.negative(distances, out=distances)
    np.exp(distances, out=distances)
    return np.add(distances, smooth, out=distances)


def row_blocks(n_rows: int) -> Iterator[slice]:
    """Yield slices that divide the rows into blocks."""
    for start in range(0, n_rows, _BLOCK):
        yield slice(start, min(start + _BLOCK, n_rows))


def anova_sum(
    terms: Iterable[tuple[np.ndarray, Any]],
    order: Order,
    strength: float,
    out: np.ndarray,
) -> np.ndarray:
    """Write the ANOVA kernel of weighted terms to ``out``, and return it.

    For each term, ``terms`` yields kernel values, and the index of each row's values.
    """
    c, squares = out.dtype.type(strength), np.zeros_like(out)
    out[:] = 1 if order == "all" else 0
    tables, indices = [], []
    for term, places in terms:
        if order == "all":
            out *= (1 + c * term)[places]
        elif places is not _ALL:
            tables.append(term)
            indices.append(places)
        else:
            out += term
            squares += np.square(term)
    if tables:  # one product with a sparse matrix adds the rows of all tables
        firsts = np.cumsum([0, *map(len, tables)])
        columns = np.stack(indices, axis=1) + firsts[:-1]
        starts = np.arange(len(columns) + 1) * len(tables)
        entries = np.ones(columns.size, out.dtype), columns.ravel(), starts
        indicators = sparse.csr_array(entries, shape=(len(columns), firsts[-1]))
        table = np.vstack(tables)
        out += indicators @ table
        squares += indicators @ np.square(table)
    if order == "all":
        out -= 1
        out /= c
    if order == 2:
        np.subtract(np.square(out), squares, out=squares)
        squares *= c / 2
        out += squares
    return out


def combined(
    terms: np.ndarray, weights: np.ndarray, order: Order, strength: float
) -> np.ndarray:
    """Return the ANOVA kernel of stored terms, (n_terms, n, m) -> (n, m)."""
    out, weights = np.empty(terms.shape[1:], terms.dtype), weights.astype(terms.dtype)
    for rows in row_blocks(terms.shape[1]):
        some = ((t[rows] * w, _ALL) for t, w in zip(terms, weights, strict=True))
        anova_sum(some, order, strength, out[rows])
    return out


@dataclass(frozen=True, eq=False)
class AnovaKernel:
    """An ANOVA kernel, defined by weights of terms and by their interactions.

    Let k_j be the kernels of the terms, w_j their weights, and c the strength of
    interactions, and let ``e1 = sum_j w_j k_j`` and ``e2 = sum_{i<j} w_i w_j k_i k_j``.
    The kernel of order 1 is e1, that of order 2 is ``e1 + c e2``, and that of order
    "all" is ``(prod_j (1 + c w_j k_j) - 1) / c``.
    """

    columns: ColumnKernels
    weights: np.ndarray  # (n_terms,)
    order: Order
    strength: float

    def __call__(self, Z: np.ndarray) -> np.ndarray:
        """Return the kernel between encoded rows and the landmarks, block by block."""
        out = np.empty((len(Z), len(self.columns.points)))

        def terms(rows: slice) -> Iterator[tuple[np.ndarray, Any]]:
            for q, weight in enumerate(self.weights):
                table, places = self.columns.tables(Z[rows], q, np.float64)
                table *= weight
                yield table, places

        for rows in row_blocks(len(Z)):
            anova_sum(terms(rows), self.order, self.strength, out[rows])
        return out

    def weighted_terms(self, Z: np.ndarray, chosen: Sequence[int]) -> np.ndarray:
        """Return chosen terms of the kernel times their weights, (n_chosen, n, m)."""
        weights = self.weights[list(chosen)]
        return self.columns.stacked(Z, chosen) * weights[:, None, None]

    def between(self, Z: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """Return the kernel between two sets of encoded rows, (n, m)."""
        own, out = self.columns, np.empty((len(Z), len(Y)))

        def terms() -> Iterator[tuple[np.ndarray, Any]]:
            for q, weight in enumerate(self.weights):
                columns = list(own.terms[q])
                is_score = own.is_score[columns]
                sides = [rows[:, columns] for rows in (Z, Y, own.points)]
                K = _raw(sides[0], sides[1], is_score)
                means = [_raw(side, sides[2], is_score).mean(1) for side in sides[:2]]
                K -= means[0][:, None] + means[1] - own.means[q].mean()
                yield K * (weight / own.scales[q]), _ALL

        return anova_sum(terms(), self.order, self.strength, out)

    def diagonal(self, Z: np.ndarray) -> np.ndarray:
        """Return the kernel of each encoded row with itself, (n,)."""
        own, out = self.columns, np.empty(len(Z))

        def terms() -> Iterator[tuple[np.ndarray, Any]]:
            for q, weight in enumerate(self.weights):
                columns = list(own.terms[q])
                is_score = own.is_score[columns]
                raw = 2.0 if len(columns) > 1 or is_score[0] else 1.0
                mean = _raw(Z[:, columns], own.points[:, columns], is_score).mean(1)
                centred = raw - 2 * mean + own.means[q].mean()
                yield centred * (weight / own.scales[q]), _ALL

        return anova_sum(terms(), self.order, self.strength, out)
