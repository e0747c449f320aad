"""What rows ask of frequencies, which stand above them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

if TYPE_CHECKING:
    from ._unit_rows import Rows


class Linear(Protocol):
    """A linear map of rows: frequencies."""

    @property
    def n_frequencies(self) -> int:
        """Number of inner products a row."""

    def apply(self, X: Rows, out: np.ndarray | None = None) -> np.ndarray:
        """Return the inner products with the rows, (n_rows, n_frequencies)."""

    def of_shift(self, shift: np.ndarray) -> np.ndarray:
        """Return the inner products with one row, (n_frequencies,)."""

    def to_dense(self) -> np.ndarray:
        """Return the matrix, (n_features, n_frequencies)."""


class AffineForm(Protocol):
    """A number times a linear map, plus an offset for each frequency."""

    @property
    def frequencies(self) -> Linear:
        """The linear map."""

    @property
    def scale(self) -> float:
        """The number."""

    @property
    def offsets(self) -> np.ndarray:
        """The offsets, (n_frequencies,)."""

    @property
    def stacked(self) -> np.ndarray | None:
        """All as the matrix that maps (x, 1, r), where there is one."""
