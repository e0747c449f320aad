"""Quadratic forms with a matrix A, for dense exponential random features (DERF)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..frequencies import Affine, Frequencies
from ..rows import Inputs
from .quadratic import PairTerms, Quadratic, Side, log_excess, squared_sums


@dataclass(frozen=True, eq=False)
class DenseQuadratic(Quadratic):
    """Exponents with a matrix A that has given eigenvectors, and B = (I - 4A)^(1/2)."""

    axes: np.ndarray  # (n_features, n_features)
    rho: np.ndarray  # (n_features,), 1 / (1 - 8A)
    knows_angles = False

    @property
    def coefficient(self) -> np.ndarray:
        return (self.axes.T * ((1 - 1 / self.rho) / 8)) @ self.axes

    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        return Side(
            _form_of_axes(frequencies, log_scale, self.axes, self.axes, self.rho)
        )

    def pair_terms(self, X: Inputs, Y: Inputs) -> PairTerms:
        return _diagonal_pair_terms(
            X.dense @ self.axes.T, Y.dense @ self.axes.T, self.rho
        )


@dataclass(frozen=True, eq=False)
class AffineQuadratic(Quadratic):
    """The form of ``DenseQuadratic`` for transformed queries x' and keys y'.

    These are affine functions of x and y, with x'.y' = (x - h).(y + h).
    """

    query_axes: np.ndarray  # (n_features, n_features)
    key_axes: np.ndarray  # (n_features, n_features)
    rotation: np.ndarray  # (n_features, n_features)
    rho: np.ndarray  # (n_features,)
    shift: np.ndarray  # (n_features,)
    knows_angles = False

    @property
    def symmetric(self) -> bool:
        return False

    @property
    def coefficient(self) -> np.ndarray:
        return (1 - 1 / self.rho) / 8

    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        axes = self.key_axes if key else self.query_axes
        form = _form_of_axes(frequencies, log_scale, axes, self.rotation, self.rho)
        shift = -self.shift if key else self.shift
        turn = Frequencies(np.ascontiguousarray(axes.T))
        return Side(form, shift=shift[None], axes=turn)

    def pair_terms(self, X: Inputs, Y: Inputs) -> PairTerms:
        queries = (X.dense - self.shift) @ self.query_axes.T
        keys = (Y.dense + self.shift) @ self.key_axes.T
        return _diagonal_pair_terms(queries, keys, self.rho)


def _form_of_axes(
    frequencies: Frequencies,
    log_scale: np.ndarray,
    axes: np.ndarray,
    rotation: np.ndarray,
    rho: np.ndarray,
) -> Affine:
    """Return the form for the coordinates ``axes @ x``, as an affine form in x.

    The frequencies are rotated by ``rotation``, which does not change their
    distribution. The features therefore do not depend on the signs or the order of the
    axes, nor on the choice of axes for equal entries of rho.
    """
    weights = rotation @ frequencies.to_dense().astype(np.float64)
    spread = (1 + rho) / (2 * rho)  # eigenvalues of I - 4A
    folded = axes.T @ (np.sqrt(spread)[:, None] * weights)
    offsets = ((1 - spread) / 4) @ weights**2 + 0.25 * np.sum(np.log(spread))
    return Affine(Frequencies(folded), 1.0, offsets + log_scale)


def _diagonal_pair_terms(
    queries: np.ndarray, keys: np.ndarray, rho: np.ndarray
) -> PairTerms:
    """Return c, s and q of ``pair_terms`` from coordinates x' (n, d) and y' (m, d)."""
    root = np.sqrt(rho)
    spread = squared_sums(root * queries, root * keys)
    return float(np.sum(log_excess(rho))), spread, squared_sums(queries, keys)
