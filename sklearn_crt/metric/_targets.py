"""Targets as columns of numbers, and rows that are known by their content."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import gen_batches

from .._kernels import one_hot_weights
from ..rows import Frame, Rows

_ROWS = 4096  # that are looked at at a time
_WRAPS = 1024.0  # times that a projection of unit variance goes around


@dataclass(frozen=True, eq=False)
class Coding:
    """How targets become columns: one for each class, or the outputs themselves."""

    classes: np.ndarray | None  # (n_classes,), None for numbers
    mean: np.ndarray  # (n_outputs,), taken off numbers: no digits are lost in squares

    @classmethod
    def of(cls, y: np.ndarray, weights: np.ndarray) -> Coding:
        """Return the coding of labels (1d, no floats) or of numbers."""
        # y (n_rows,) or (n_rows, n_outputs), weights (n_rows,)
        if cls.is_of_labels(y):
            return cls(np.unique(y), np.zeros(0))
        return cls(None, np.average(as_outputs(y), axis=0, weights=weights))

    @staticmethod
    def is_of_labels(y: np.ndarray) -> bool:
        """Return whether targets are labels, and no numbers."""
        return y.ndim == 1 and y.dtype.kind != "f"

    @property
    def by_class(self) -> bool:
        """Whether targets are labels."""
        return self.classes is not None

    def codes(self, y: np.ndarray) -> np.ndarray:
        """Return numbers of classes, or outputs about their mean."""
        # y (n_rows,) -> (n_rows,), or (n_rows, n_outputs)
        if self.classes is not None:
            return np.searchsorted(self.classes, y)
        return as_outputs(y) - self.mean

    def columns(self, codes: np.ndarray) -> np.ndarray:
        """Return what ``codes`` gave as columns, (n_rows, n_outputs)."""
        if self.classes is None:
            return codes
        return one_hot_weights(codes, np.ones(codes.size), self.classes.size, float)

    def with_labels(self, y: np.ndarray) -> Coding:
        """Return the coding with the labels of further rows among the classes."""
        if self.classes is None:
            return self
        return Coding(np.unique(np.concatenate([self.classes, y])), self.mean)

    def moved(self, sums: Any, coding: Coding) -> Any:
        """Return sums over columns of this coding for one of more classes."""
        if self.classes is None or coding.classes is None:
            return sums
        if self.classes.size == coding.classes.size:
            return sums
        places = np.searchsorted(coding.classes, self.classes)
        return sums.with_outputs(places, coding.classes.size)


def as_outputs(y: np.ndarray) -> np.ndarray:
    """Return numbers in float64 with an axis of outputs."""
    y = y.astype(np.float64)
    return y[:, None] if y.ndim == 1 else y


def fingerprints(X: Rows, frame: Frame, seed: int) -> np.ndarray:
    """Return numbers in [0, 1), even over rows, the same for the same content.

    So what is chosen by them does not depend on the order of rows or on batches, and a
    weight of two is a row that comes twice.
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
class Sample:
    """Distinct standardised rows with codes and weights, in an order of their own."""

    rows: np.ndarray  # (n_rows, n_features)
    codes: np.ndarray  # (n_rows,) or (n_rows, n_outputs)
    weights: np.ndarray  # (n_rows,)

    @classmethod
    def of(cls, table: Any, frame: Frame, marks: np.ndarray, size: int) -> Sample:
        """Return the rows of the least marks, equal rows as one."""
        # marks (n_rows,)
        order = np.argsort(marks, kind="stable")[:size]
        codes = table.codes[order].reshape(len(order), -1)
        inside = np.lexsort((*codes.T, marks[order]))
        order, codes = order[inside], codes[inside]
        new = np.ones(len(order), bool)
        changes = np.diff(codes, axis=0) != 0
        new[1:] = (np.diff(marks[order]) != 0) | changes.any(axis=1)
        weights = np.add.reduceat(table.weights[order], np.flatnonzero(new))
        order = order[new]
        rows = frame.rows(table.X[order].astype(np.float64, copy=False)).dense
        return cls(rows, table.codes[order], weights)

    def take(self, index: Any) -> Sample:
        """Return some of the rows."""
        return Sample(self.rows[index], self.codes[index], self.weights[index])
