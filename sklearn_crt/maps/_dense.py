"""Exponents of positive features whose coefficient of w w' is a matrix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..frequencies import Affine, Frequencies
from ..rows import UnitRows
from ._quadratic import PairTerms, Quadratic, log_excess


@dataclass(frozen=True, eq=False)
class DenseQuadratic(Quadratic):
    """The form w'Aw + w'(I - 4A)^(1/2) x for a matrix A, with the row term ``-|x|^2``.

    Attributes
    ----------
    axes : ndarray of shape (n_features, n_features)
        Orthonormal eigenvectors of A, one a row.
    rho : ndarray of shape (n_features,)
        The 1 / (1 - 8 A_l) of its eigenvalues.
    """

    axes: np.ndarray
    rho: np.ndarray

    @property
    def coefficient(self) -> np.ndarray:
        """The matrix A."""
        return (self.axes.T * ((1 - 1 / self.rho) / 8)) @ self.axes

    def form(self, frequencies: Frequencies, *, key: bool) -> Affine:
        return diagonal_form(frequencies, self.axes, self.axes, self.rho)

    def row_term(self, rows: UnitRows, *, key: bool) -> np.ndarray:
        return -rows.sq_norms

    def pair_terms(self, X: UnitRows, Y: UnitRows) -> PairTerms:
        return diagonal_pair_terms(
            _turned(X, self.axes), _turned(Y, self.axes), self.rho
        )


@dataclass(frozen=True, eq=False)
class AffineQuadratic(Quadratic):
    """The same form of x' and y' with x'.y' = (x - h).(y + h), one map for each side.

    Attributes
    ----------
    query_axes, key_axes : ndarray of shape (n_features, n_features)
        Matrices P and Q with P'Q = I: x' = P (x - h) and y' = Q (y + h).
    rotation : ndarray of shape (n_features, n_features)
        Orthonormal rows, of which P and Q are products with symmetric matrices.
    rho : ndarray of shape (n_features,)
        The 1 / (1 - 8 A_l) for each coordinate of x' and y'.
    shift : ndarray of shape (n_features,)
        The vector h.
    """

    query_axes: np.ndarray
    key_axes: np.ndarray
    rotation: np.ndarray
    rho: np.ndarray
    shift: np.ndarray
    symmetric = False

    @property
    def coefficient(self) -> np.ndarray:
        """Coefficients of the squares of the coordinates of the frequencies."""
        return (1 - 1 / self.rho) / 8

    def _axes(self, key: bool) -> np.ndarray:
        return self.key_axes if key else self.query_axes

    def form(self, frequencies: Frequencies, *, key: bool) -> Affine:
        return diagonal_form(frequencies, self._axes(key), self.rotation, self.rho)

    def rows(self, rows: UnitRows, *, key: bool) -> UnitRows:
        return rows.shifted(-self.shift if key else self.shift)

    def row_term(self, rows: UnitRows, *, key: bool) -> np.ndarray:
        # exp(x.y) from x' and y', times exp(-|x|^2 / 2) for the Gaussian kernel
        turned = _turned(self.rows(rows, key=key), self._axes(key))
        other_side = self.rows(rows, key=not key).sq_norms
        term = -0.5 * (np.sum(turned**2, axis=1, keepdims=True) + other_side)
        return term + rows.dtype.type(self.shift @ self.shift)

    def pair_terms(self, X: UnitRows, Y: UnitRows) -> PairTerms:
        queries = _turned(self.rows(X, key=False), self.query_axes)
        keys = _turned(self.rows(Y, key=True), self.key_axes)
        return diagonal_pair_terms(queries, keys, self.rho)


def diagonal_form(
    frequencies: Frequencies, axes: np.ndarray, rotation: np.ndarray, rho: np.ndarray
) -> Affine:
    """Return the form of w for coordinates axes x, the axes folded into w.

    The rotation turns w first, which changes no law. So the features do not depend on
    the signs and the order of the axes, nor on their choice where some rho are equal.
    """
    weights = rotation @ frequencies.to_dense().astype(np.float64)
    spread = (1 + rho) / (2 * rho)  # eigenvalues of I - 4A
    folded = axes.T @ (np.sqrt(spread)[:, None] * weights)
    offsets = ((1 - spread) / 4) @ weights**2 + 0.25 * np.sum(np.log(spread))
    dtype = frequencies.dtype
    return Affine(Frequencies(folded.astype(dtype)), 1.0, offsets.astype(dtype))


def diagonal_pair_terms(
    queries: np.ndarray, keys: np.ndarray, rho: np.ndarray
) -> PairTerms:
    """Return constant, spread and q from coordinates x' and y', (n, d) and (m, d)."""

    def sq_sums(factor: np.ndarray | float) -> np.ndarray:
        left, right = factor * queries, factor * keys
        squares = np.sum(left**2, axis=1)[:, None] + np.sum(right**2, axis=1)
        return np.maximum(squares + 2 * left @ right.T, 0)

    return float(np.sum(log_excess(rho))), sq_sums(np.sqrt(rho)), sq_sums(1.0)


def _turned(rows: UnitRows, axes: np.ndarray) -> np.ndarray:
    """Return axes x for each row x, (n_rows, d)."""
    return rows.project(Frequencies(np.ascontiguousarray(axes.T, rows.dtype)))
