"""Centred products of features and targets: all that ridge regression needs of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._workers import Workspace


@dataclass(frozen=True, eq=False)
class Moments:
    """Weight, means and centred products of features Z and targets Y, in float64.

    ``a + b`` is that of the rows of both, by the parallel formula of Chan, Golub and
    LeVeque (1979): squares are about the mean, so nothing cancels.
    """

    weight: float
    z_mean: np.ndarray  # (D,)
    y_mean: np.ndarray  # (k,)
    gram: np.ndarray  # (D, D), of Z with Z
    cross: np.ndarray  # (D, k), of Z with Y
    squares: np.ndarray  # (k,), of Y with itself
    eps: float  # rounding of the features

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of the rows of both."""
        weight = self.weight + other.weight
        share = other.weight / weight
        z, y = other.z_mean - self.z_mean, other.y_mean - self.y_mean
        gram = np.multiply.outer(z, z * (share * self.weight))
        gram += self.gram
        gram += other.gram
        return Moments(
            weight,
            self.z_mean + share * z,
            self.y_mean + share * y,
            gram,
            self.cross + other.cross + np.outer(z, y * (share * self.weight)),
            self.squares + other.squares + share * self.weight * y**2,
            max(self.eps, other.eps),
        )

    def about_zero(self) -> Moments:
        """Return the products of features and targets that are not centred."""
        z, y, weight = self.z_mean, self.y_mean, self.weight
        return Moments(
            weight,
            np.zeros_like(z),
            np.zeros_like(y),
            self.gram + weight * np.outer(z, z),
            self.cross + weight * np.outer(z, y),
            self.squares + weight * y**2,
            self.eps,
        )


class MomentSums:
    """Moments of rows that come in chunks, about the mean of the first chunk.

    Products are taken in the type of the features, and added in float64.
    """

    def __init__(self) -> None:
        self._weight, self._eps = 0.0, 0.0
        self._workspace = Workspace()

    def add(self, Z: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        """Add rows of positive weight."""
        # Z (n, D), Y (n, k), weights (n,)
        if Z.dtype not in (np.float32, np.float64):
            Z = Z.astype(np.float64)
        weights = weights.astype(np.float64)
        if self._weight == 0:
            self._start(Z, Y, weights / weights.sum())
        self._weight += float(weights.sum())
        # not in place: rows that are features belong to the caller
        centred = self._workspace.buffer("centred", Z.shape, Z.dtype)
        np.subtract(Z, self._z_shift.astype(Z.dtype), out=centred)
        residuals = Y - self._y_shift
        self._z_sum += weights.astype(Z.dtype) @ centred
        self._y_sum += weights @ residuals
        with np.errstate(over="ignore"):
            self._squares += weights @ np.square(residuals)
        if np.any(weights != 1):
            root = np.sqrt(weights)[:, None]
            centred *= root.astype(Z.dtype)
            residuals = residuals * root
        product = self._workspace.buffer("product", self._gram.shape, Z.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # moments() says more
            self._gram += np.matmul(centred.T, centred, out=product)
            self._cross += centred.T @ residuals.astype(Z.dtype)

    def _start(self, Z: np.ndarray, Y: np.ndarray, share: np.ndarray) -> None:
        n_columns, n_outputs = Z.shape[1], Y.shape[1]
        # rounded, so that it is the same number where it is subtracted
        self._z_shift = (share @ Z).astype(Z.dtype).astype(np.float64)
        self._y_shift = share @ Y
        self._z_sum, self._y_sum = np.zeros(n_columns), np.zeros(n_outputs)
        self._gram = np.zeros((n_columns, n_columns))
        self._cross = np.zeros((n_columns, n_outputs))
        self._squares, self._eps = np.zeros(n_outputs), float(np.finfo(Z.dtype).eps)

    def moments(self) -> Moments:
        """Return the moments of all rows; this value is used up."""
        z, y = self._z_sum / self._weight, self._y_sum / self._weight
        with np.errstate(over="ignore", invalid="ignore"):
            self._gram -= np.multiply.outer(z, self._z_sum)
            self._cross -= np.outer(z, self._y_sum)
        sums = self._gram, self._cross, self._squares
        if not all(np.isfinite(each).all() for each in sums):
            raise ValueError(
                "Products of features, or of features and targets, are too large for "
                "their type. Scale the columns and the targets, or take float64."
            )
        squares = np.maximum(self._squares - y * self._y_sum, 0)
        means = self._z_shift + z, self._y_shift + y
        return Moments(
            self._weight, *means, self._gram, self._cross, squares, self._eps
        )
