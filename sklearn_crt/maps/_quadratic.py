"""What multiplies w w' and w x' in the exponents of positive features."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..frequencies import Affine, Frequencies
from ..rows import UnitRows

PairTerms = tuple[float, np.ndarray, np.ndarray]


class Quadratic(ABC):
    """The form of the exponent of a positive feature, a function of w and x.

    A feature is exp(form(w, x) + row term(x)); one that leaves the estimate of the
    Gaussian kernel unbiased.
    """

    symmetric = True  # whether both sides have the same features
    isotropic = False  # whether closed forms for angles hold

    @property
    @abstractmethod
    def coefficient(self) -> float | np.ndarray:
        """The A of the form, a number or a matrix."""

    @abstractmethod
    def form(self, frequencies: Frequencies, *, key: bool) -> Affine:
        """Return the part of the exponents that depends on the frequencies.

        Parameters
        ----------
        frequencies : Frequencies
            The w, standard normal.
        key : bool
            Whether it is that of the key side.

        Returns
        -------
        form : Affine
            A product with w or with what w becomes, and offsets even in w.
        """

    def rows(self, rows: UnitRows, *, key: bool) -> UnitRows:
        """Return the rows that the form is linear in: a hook, these if not stated.

        Parameters
        ----------
        rows : UnitRows
            Rows.
        key : bool
            Whether they are of the key side.

        Returns
        -------
        rows : UnitRows
            About a centre of that side.
        """
        return rows

    @abstractmethod
    def row_term(self, rows: UnitRows, *, key: bool) -> np.ndarray:
        """Return the part of the exponents that depends on the row alone.

        Parameters
        ----------
        rows : UnitRows
            Rows.
        key : bool
            Whether they are of the key side.

        Returns
        -------
        term : ndarray of shape (n_rows, 1)
            Added to each exponent.
        """

    @abstractmethod
    def pair_terms(self, X: UnitRows, Y: UnitRows) -> PairTerms:
        """Return what the variance of a pair of rows depends on.

        With f(w) the product of both features over the kernel K: E f(w)^2 is
        exp(constant + spread), and E f(w) f(-w) is exp(constant - q).

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides.

        Returns
        -------
        constant : float
            The log second moment where the middle of a pair is the centre.
        spread, q : ndarray of shape (n_X, n_Y)
            Not negative.
        """


@dataclass(frozen=True)
class IsotropicQuadratic(Quadratic):
    """The form ``A |w|^2 + sqrt(1 - 4A) w.x`` with the row term ``-|x|^2``.

    Attributes
    ----------
    A : float
        Not positive.
    """

    A: float
    isotropic = True

    @property
    def coefficient(self) -> float:
        return self.A

    def form(self, frequencies: Frequencies, *, key: bool) -> Affine:
        A, d = self.A, frequencies.n_features
        offsets = A * frequencies.sq_norms + 0.25 * d * math.log1p(-4 * A)
        return Affine(frequencies, math.sqrt(1 - 4 * A), offsets)

    def row_term(self, rows: UnitRows, *, key: bool) -> np.ndarray:
        return -rows.sq_norms

    def pair_terms(self, X: UnitRows, Y: UnitRows) -> PairTerms:
        rho = 1 / (1 - 8 * self.A)
        _, q, _ = X.pair_statistics(Y)
        return X.shape[1] * float(log_excess(rho)), rho * q, q


def log_excess(rho: np.ndarray | float) -> np.ndarray:
    """Return log of (1 + rho) / (2 sqrt(rho)), exact for rho near 1."""
    root = np.sqrt(rho)
    return np.log1p((1 - root) ** 2 / (2 * root))
