"""Radial kernels as values: profile, variance of a pair, what blocks save."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from ..rows import UnitRows
from ._profiles import (
    log_exponential_power,
    log_gaussian,
    log_laplacian,
    log_matern,
)
from .block_savings import stable_gap, student_gap, trigonometric_gap

_LEAST_ALPHA = 0.05  # below, integrals over S are slow and overflow


class RadialKernel(ABC):
    """A kernel that is a function of the distance r of two rows.

    A kernel of one's own states ``log_profile``; the rest follows, for independent
    frequencies.
    """

    @abstractmethod
    def log_profile(self, r: np.ndarray) -> np.ndarray:
        """Return the log of the kernel.

        Parameters
        ----------
        r : ndarray
            Distances at unit bandwidth, not negative.

        Returns
        -------
        log_kernel : ndarray
            0 at 0, falling.
        """

    def pair_variance(self, r: np.ndarray) -> np.ndarray:
        """Return the variance of the estimate from one pair of columns.

        Parameters
        ----------
        r : ndarray
            Distances.

        Returns
        -------
        variance : ndarray
            (1 + k(2r) - 2 k(r)^2) / 2, without cancellation for small r.
        """
        return 0.5 * np.expm1(self.log_profile(2 * r)) - np.expm1(
            2 * self.log_profile(r)
        )

    def knows_angle(self, cosine: float | None) -> bool:
        """Return whether ``block_saving`` holds for frequencies at an angle.

        Parameters
        ----------
        cosine : float or None
            Of the angle; None where angles are not fixed.

        Returns
        -------
        known : bool
            False unless a kernel says otherwise.
        """
        return False

    def block_saving(self, r: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
        """Return what a pair of frequencies of one block saves, where that is known.

        Parameters
        ----------
        r : ndarray
            Distances.
        n_features : int
            Dimension of the frequencies.
        cosine : float
            Of their angle.

        Returns
        -------
        saving : ndarray
            Kernel squared less the cross moment.
        """
        raise NotImplementedError(f"{self!r} states no saving of blocks.")

    def distances(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the distances that the kernel depends on, a hook.

        Parameters
        ----------
        X, Y : UnitRows
            Rows.

        Returns
        -------
        r : ndarray of shape (n_X, n_Y)
            Euclidean unless a kernel says otherwise.
        """
        return np.sqrt(X.sq_distances(Y))


@dataclass(frozen=True)
class GaussianRadial(RadialKernel):
    """The kernel exp(-r^2 / 2), whose frequencies are normal."""

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return log_gaussian(r)

    def pair_variance(self, r: np.ndarray) -> np.ndarray:
        return 0.5 * np.expm1(-(r**2)) ** 2  # (1 - k^2)^2 / 2

    def knows_angle(self, cosine: float | None) -> bool:
        return cosine is not None

    def block_saving(self, r: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
        return trigonometric_gap(r**2, n_features, cosine)


class _ScaleMixture(RadialKernel):
    """A kernel whose frequencies are normal vectors times a random scale."""

    def knows_angle(self, cosine: float | None) -> bool:
        return cosine == 0


@dataclass(frozen=True)
class LaplacianRadial(_ScaleMixture):
    """The kernel exp(-r), whose frequencies are Cauchy.

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        Of the distance.
    """

    norm: str = "l2"

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return log_laplacian(r)

    def block_saving(self, r: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
        return student_gap(0.5, n_features)(r)

    def distances(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return X.l1_distances(Y) if self.norm == "l1" else super().distances(X, Y)


@dataclass(frozen=True)
class MaternRadial(_ScaleMixture):
    """The Matern kernel, whose frequencies are Student.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness; infinity for the Gaussian kernel.
    """

    nu: float = 1.5

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return log_matern(r, self.nu)

    def block_saving(self, r: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
        return student_gap(float(self.nu), n_features)(r)


@dataclass(frozen=True)
class ExponentialPowerRadial(_ScaleMixture):
    """The kernel exp(-r^alpha), whose frequencies are elliptical stable.

    Parameters
    ----------
    alpha : float, default=1.0
        Exponent in (0, 2].
    """

    alpha: float = 1.0

    def log_profile(self, r: np.ndarray) -> np.ndarray:
        return log_exponential_power(r, self.alpha)

    def knows_angle(self, cosine: float | None) -> bool:
        # below, less than 0.1 % is saved
        return self.alpha >= _LEAST_ALPHA and super().knows_angle(cosine)

    def block_saving(self, r: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
        return stable_gap(float(self.alpha), n_features)(r)
