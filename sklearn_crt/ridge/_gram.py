"""Gram matrices of features, stored by rows as long as there are fewer rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._values import Value


@dataclass(frozen=True, eq=False)
class Gram(Value):
    """A sum of products of rows, F'F, where F has one row per training row.

    F is stored instead of the D x D sum of products as long as it has fewer than D
    rows, because it takes less memory, and decompositions of its Gram matrix FF' take
    less time.
    """

    root: np.ndarray | None = None  # F, (n, D) in float64, with n < D
    products: np.ndarray | None = None  # F'F, (D, D); None if F is stored

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> Gram:
        """Return the Gram matrix of weighted rows in float64."""
        if len(rows) < rows.shape[1]:
            return cls(root=rows)
        return cls(products=rows.T @ rows)

    @property
    def n_features(self) -> int:
        """The number of features, D."""
        array = self.products if self.root is None else self.root
        assert array is not None
        return array.shape[1]

    @property
    def trace(self) -> float:
        """The sum of squares of all entries of F."""
        if self.root is not None:
            return float(np.vdot(self.root, self.root))
        assert self.products is not None
        return float(np.trace(self.products))

    def matrix(self) -> np.ndarray:
        """Return F'F, which must not be modified."""
        if self.root is not None:
            return self.root.T @ self.root
        assert self.products is not None
        return self.products

    def __add__(self, other: Gram) -> Gram:
        """Return the Gram matrix of the rows of both."""
        if self.root is not None and other.root is not None:
            return Gram.of_rows(np.concatenate([self.root, other.root]))
        full = self.matrix().copy() if self.root is None else self.matrix()
        full += other.matrix()
        return Gram(products=full)

    def with_row(self, row: np.ndarray) -> Gram:
        """Return the Gram matrix that includes another row of F."""
        if self.root is not None:
            return Gram.of_rows(np.vstack([self.root, row]))
        return Gram(products=np.outer(row, row) + self.matrix())

    def divided_by(self, unit: float) -> Gram:
        """Return the Gram matrix for weights that are divided by ``unit``."""
        if unit == 1:
            return self
        if self.root is not None:
            return Gram(root=self.root / np.sqrt(unit))
        return Gram(products=self.matrix() / unit)
