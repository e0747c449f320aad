"""Rows chosen by their content, so that their order and batches do not matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from ..rows import Frame, Rows

_ROWS = 4096  # that are hashed at a time
_WRAPS = 1024.0  # times that a projection of unit variance goes around


def row_hashes(X: Rows, frame: Frame, seed: int) -> np.ndarray:
    """Return a number in [0, 1) for each row that depends on its content alone.

    Over the rows of a table the numbers are about uniformly distributed. Rows that are
    chosen by them, to be held out for instance, do not depend on the order of the rows
    or on batches, and a weight of two has the effect of a row that comes twice.
    """
    # X (n_rows, n_features) -> (n_rows,)
    draws = np.random.default_rng(seed).standard_normal(X.shape[1])
    direction = draws * (_WRAPS / np.linalg.norm(draws))
    out = np.empty(X.shape[0])
    for block in gen_batches(X.shape[0], _ROWS):
        rows = X[block].astype(np.float64, copy=False)
        if sparse.issparse(X):
            along = frame.sigma * direction
            out[block] = rows @ along - frame.center @ along
        else:  # no product: BLAS adds up each row in the order of its place
            out[block] = (frame.rows(rows).matrix * direction).sum(axis=1)
    return out % 1.0


@dataclass(frozen=True, eq=False)
class DistinctRows:
    """Distinct standardised rows with codes and weights, ordered by their hashes."""

    rows: np.ndarray  # (n_rows, n_features)
    codes: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)

    @classmethod
    def of(
        cls, table: Any, frame: Frame, hashes: np.ndarray, size: int
    ) -> DistinctRows:
        """Return the rows of the smallest hashes; equal rows become one."""
        # hashes (n_rows,)
        order = np.argsort(hashes, kind="stable")[:size]
        codes = table.codes[order].reshape(len(order), -1)
        inside = np.lexsort((*codes.T, hashes[order]))
        order, codes = order[inside], codes[inside]
        new = np.ones(len(order), bool)
        changes = np.diff(codes, axis=0) != 0
        new[1:] = (np.diff(hashes[order]) != 0) | changes.any(axis=1)
        weights = np.add.reduceat(table.weights[order], np.flatnonzero(new))
        order = order[new]
        rows = frame.rows(table.X[order].astype(np.float64, copy=False)).dense
        return cls(rows, table.codes[order], weights)

    def take(self, index: Any) -> DistinctRows:
        """Return some of the rows."""
        return DistinctRows(self.rows[index], self.codes[index], self.weights[index])
