"""The Gaussian kernel and, times two row factors, the softmax kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..rows import UnitRows

_LARGEST = 700.0  # whose exponential is finite, and may be multiplied a little


@dataclass(frozen=True)
class GaussianKernel:
    r"""The kernel :math:`K = e^{-|x-y|^2/2}`, or :math:`e^{x \cdot y}`.

    Since :math:`e^{x \cdot y} = K e^{|x|^2/2} e^{|y|^2/2}`, a map of the softmax kernel
    is the map of the Gaussian kernel with a factor for each row, and its variance has
    the squares of these factors.

    Parameters
    ----------
    softmax : bool, default=False
        Whether it is the kernel :math:`e^{x \cdot y}`.
    """

    softmax: bool = False

    def log_row_factor(self, rows: UnitRows) -> np.ndarray | None:
        """Return the logs of the row factors.

        Parameters
        ----------
        rows : UnitRows
            Rows.

        Returns
        -------
        log_factor : ndarray of shape (n_rows, 1) or None
            None for ones.
        """
        return 0.5 * rows.raw_sq_norms if self.softmax else None

    def plus_row_factor(self, term: np.ndarray, rows: UnitRows) -> np.ndarray:
        """Return a term of the exponents of rows plus the logs of the row factors.

        Parameters
        ----------
        term : ndarray of shape (n_rows, 1)
            For the Gaussian kernel.
        rows : UnitRows
            Rows.

        Returns
        -------
        term : ndarray of shape (n_rows, 1)
            For this kernel.
        """
        return term + 0.5 * rows.raw_sq_norms if self.softmax else term

    def log_pair_factor(self, X: UnitRows, Y: UnitRows) -> np.ndarray | float:
        """Return the log of kernel over Gaussian kernel.

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides.

        Returns
        -------
        log_factor : ndarray of shape (n_X, n_Y), or 0.0
            Of all pairs.
        """
        if not self.softmax:
            return 0.0
        return 0.5 * (X.raw_sq_norms + Y.raw_sq_norms.T)

    def values(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the kernel.

        Parameters
        ----------
        X, Y : UnitRows
            Rows of the two sides.

        Returns
        -------
        kernel : ndarray of shape (n_X, n_Y)
            Of all pairs.
        """
        return np.exp(self.log_pair_factor(X, Y) - 0.5 * X.sq_distances(Y))

    def variance(
        self, share: np.ndarray, log_unit: np.ndarray, X: UnitRows, Y: UnitRows
    ) -> np.ndarray:
        """Return the variance from that of the Gaussian kernel, share * exp(log_unit).

        Parameters
        ----------
        share : ndarray of shape (n_X, n_Y)
            Of moderate size; below 0, where rounding takes it, it is 0. Overwritten.
        log_unit : ndarray of shape (n_X, n_Y)
            Of any size. Overwritten.
        X, Y : UnitRows
            Rows of the two sides.

        Returns
        -------
        variance : ndarray of shape (n_X, n_Y)
            Infinite where it overflows.
        """
        np.maximum(share, 0, out=share)
        if self.softmax:
            log_unit += 2 * self.log_pair_factor(X, Y)
        with np.errstate(over="ignore", divide="ignore"):
            if log_unit.max(initial=0) < _LARGEST:
                share *= np.exp(log_unit, out=log_unit)
                return share
            log_unit += np.log(share, out=share)
            return np.exp(log_unit, out=log_unit)
