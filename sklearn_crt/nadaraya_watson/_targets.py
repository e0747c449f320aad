"""Targets as matrices of weighted numbers, which kernel averages are taken of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike

from .._arrays import namespace_of, positions


@dataclass(frozen=True)
class OneHot:
    """Class labels 0, 1, ...: one column a class, the weight in that of the label.

    Attributes
    ----------
    n_classes : int
        Number of columns.
    """

    n_classes: int

    def encode(
        self, codes: np.ndarray, weights: np.ndarray, dtype: DTypeLike
    ) -> np.ndarray:
        """Return the matrix of the rows.

        Parameters
        ----------
        codes : ndarray of int of shape (n_rows,)
            Labels.
        weights : ndarray of shape (n_rows,)
            Weights of the rows.
        dtype : dtype
            Of the matrix.

        Returns
        -------
        targets : ndarray of shape (n_rows, n_classes)
            Rows sum to their weights.
        """
        if not isinstance(codes, np.ndarray):
            xp = namespace_of(codes)
            here = codes[:, None] == positions(self.n_classes, codes)
            return xp.astype(here, dtype) * xp.astype(weights, dtype)[:, None]
        targets = np.zeros((codes.size, self.n_classes), dtype=dtype)
        targets[np.arange(codes.size), codes] = weights
        return targets

    def product_type(self, dtype: DTypeLike) -> DTypeLike:
        """Return the type of products of features in a type with sums of targets."""
        return dtype

    @property
    def n_averages(self) -> int:
        """Number of columns that averages are taken of, the first ones."""
        return self.n_classes

    def weight(self, sums: np.ndarray) -> np.ndarray:
        """Return the part of sums of targets that is the weight of the rows alone.

        Parameters
        ----------
        sums : ndarray of shape (n, n_classes)
            Sums of rows of such matrices, times numbers.

        Returns
        -------
        weight : ndarray of shape (n,)
            The same sums of the weights.
        """
        return sums.sum(axis=1)


@dataclass(frozen=True)
class Numbers:
    """Numbers: a column of weighted numbers an output, and one of the weights.

    Attributes
    ----------
    n_outputs : int
        Number of columns less one.
    """

    n_outputs: int

    def encode(
        self, y: np.ndarray, weights: np.ndarray, dtype: DTypeLike | None = None
    ) -> np.ndarray:
        """Return the matrix of the rows.

        Parameters
        ----------
        y : ndarray of shape (n_rows, n_outputs)
            Targets.
        weights : ndarray of shape (n_rows,)
            Weights of the rows.
        dtype : dtype, default=None
            Ignored: float64, since numbers far from zero need it.

        Returns
        -------
        targets : ndarray of shape (n_rows, n_outputs + 1), float64
            The last column holds the weights.
        """
        if not isinstance(y, np.ndarray):
            xp = namespace_of(y)
            weights = xp.astype(weights, y.dtype)[:, None]
            return xp.concat([weights * y, weights], axis=1)
        weights = weights[:, None].astype(np.float64)
        return np.hstack([weights * y, weights])

    def product_type(self, dtype: DTypeLike) -> DTypeLike:
        """Return float64, as for ``encode``."""
        return np.float64

    @property
    def n_averages(self) -> int:
        """Number of columns that averages are taken of, the first ones."""
        return self.n_outputs

    def weight(self, sums: np.ndarray) -> np.ndarray:
        """Return the part of sums of targets that is the weight of the rows alone.

        Parameters
        ----------
        sums : ndarray of shape (n, n_outputs + 1)
            Sums of rows of such matrices, times numbers.

        Returns
        -------
        weight : ndarray of shape (n,)
            The same sums of the weights.
        """
        return sums[:, -1]
