"""Laws of the integer exponents of discrete maps."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from scipy import special

_LARGEST_ARGUMENT = 40.0  # of I_0, whose series has some 60 terms there
_LARGEST_LOG = 600.0  # of a product of values of I_0, which is finite
_GROUP = 32  # coordinates, whose values are multiplied

Columns = Iterable[tuple[np.ndarray, np.ndarray]]


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

    def sum_of_log_excesses(self, columns: Columns) -> np.ndarray:
        """Return the sum of ``log_excess`` over the coordinates, for pairs of rows.

        A hook: a law may know a faster way than coordinate by coordinate.

        Parameters
        ----------
        columns : iterable of (ndarray of shape (n_X,), ndarray of shape (n_Y,))
            Each coordinate of the rows of the two sides.

        Returns
        -------
        log_excess : ndarray of shape (n_X, n_Y)
            Of all pairs; at least one coordinate.
        """
        products = (np.multiply.outer(x, y) for x, y in columns)
        return np.asarray(sum(map(self.log_excess, products)))


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

    def sum_of_log_excesses(self, columns: Columns) -> np.ndarray:
        total: np.ndarray | float = 0.0
        group: list[tuple[np.ndarray, np.ndarray]] = []
        log_size = 0.0
        for x, y in columns:
            z = 2 * np.abs(x).max(initial=0) * np.abs(y).max(initial=0) / self.scale
            if not z <= _LARGEST_ARGUMENT:
                total = total + self.log_excess(np.multiply.outer(x, y))
                continue
            if group and (len(group) == _GROUP or log_size + z > _LARGEST_LOG):
                total, group, log_size = total + self._excess_of(group), [], 0.0
            group.append((x, y))
            log_size += z
        return np.asarray(total + self._excess_of(group) if group else total)

    def _excess_of(self, group: list[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """Return the sum over some coordinates, from the log of one product."""
        # of the product its excess over 1, which may be far less than 1
        total = _bessel_excess(*group[0], 2 / self.scale)
        for x, y in group[1:]:
            one = _bessel_excess(x, y, 2 / self.scale)
            product = total * one
            total += one
            total += product
        excess = np.log1p(total, out=total)
        excess -= len(group) * math.log(self.p)
        X, Y = (np.column_stack(side) for side in zip(*group, strict=True))
        excess -= (2 * X) @ Y.T
        return np.maximum(excess, 0, out=excess)


def _bessel_excess(x: np.ndarray, y: np.ndarray, factor: float) -> np.ndarray:
    """Return I_0(factor x y) - 1 of all pairs.

    Each term of the power series is a product of a number of x and one of y, and all
    are positive: so it is a product of two narrow matrices, exact to rounding.
    """
    largest_x, largest_y = (float(np.abs(side).max(initial=0)) for side in (x, y))
    quarter = (0.5 * factor * largest_x * largest_y) ** 2
    if quarter == 0:
        return np.zeros((x.size, y.size))
    terms = [quarter]
    while terms[-1] > 1e-18 * sum(terms) or len(terms) ** 2 < quarter:
        terms.append(terms[-1] * quarter / (len(terms) + 1) ** 2)
    left, right = (
        np.vander(np.square(side / largest), len(terms) + 1, increasing=True)[:, 1:]
        for side, largest in ((x, largest_x), (y, largest_y))
    )
    return np.asarray(left @ (right * terms).T)
