"""Laws of the integer exponents of discrete maps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
from scipy import special


class CountLaw(ABC):
    """The law p of a count k, and the constants of the features that follow from it."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """What coordinates are divided by, near their size: powers stay small."""

    @abstractmethod
    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Draw counts in C order, such that smaller draws begin larger ones.

        Parameters
        ----------
        size : tuple of int
            Numbers of frequencies and of columns.
        rng : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        counts : ndarray of int
            Independent.
        """

    @abstractmethod
    def log_weights(
        self, log_factorials: np.ndarray, n_features: int
    ) -> np.ndarray | float:
        """Return the log of prod_l scale^k_l / sqrt(k_l! p(k_l)), one a frequency.

        Parameters
        ----------
        log_factorials : ndarray of shape (n_frequencies,)
            Sums over l of log(k_l!).
        n_features : int
            Number of counts of a frequency.

        Returns
        -------
        log_weights : float or ndarray of shape (n_frequencies,)
            Of the frequencies.
        """

    @abstractmethod
    def log_excess(self, products: np.ndarray) -> np.ndarray:
        """Return log(E2 / K^2) of one coordinate, not negative.

        Parameters
        ----------
        products : ndarray
            Products x_l y_l of the coordinates of two rows.

        Returns
        -------
        log_excess : ndarray
            Of one frequency.
        """


@dataclass(frozen=True)
class PoissonLaw(CountLaw):
    """Poisson counts.

    Attributes
    ----------
    lambda_ : float
        Their mean.
    """

    lambda_: float

    @property
    def scale(self) -> float:
        return math.sqrt(self.lambda_)

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.poisson(self.lambda_, size)

    def log_weights(
        self, log_factorials: np.ndarray, n_features: int
    ) -> np.ndarray | float:
        return 0.5 * self.lambda_ * n_features

    def log_excess(self, products: np.ndarray) -> np.ndarray:
        # lambda + c^2 / lambda - 2c without its cancellation
        return (products - self.lambda_) ** 2 / self.lambda_


@dataclass(frozen=True)
class GeometricLaw(CountLaw):
    """Geometric counts, P(k) = p (1 - p)^k.

    Attributes
    ----------
    p : float
        Probability of the count 0.
    """

    p: float

    @property
    def scale(self) -> float:
        return math.sqrt(1 - self.p)

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        return rng.geometric(self.p, size) - 1

    def log_weights(
        self, log_factorials: np.ndarray, n_features: int
    ) -> np.ndarray | float:
        return -0.5 * log_factorials - 0.5 * n_features * math.log(self.p)

    def log_excess(self, products: np.ndarray) -> np.ndarray:
        magnitudes = np.abs(products)
        z = 2 * magnitudes / self.scale
        # log I0(z) = log i0e(z) + z
        excess = np.log(special.i0e(z)) - math.log(self.p) + (z - 2 * products)
        return np.maximum(excess, 0)
