"""Monomials of the coordinates, with random integer exponents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import special

from ..frequencies import Frequencies
from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._count_laws import CountLaw
from ._gaussian import GaussianKernel, log_expm1


class Counts(Frequencies):
    """Integer frequencies, as floats, with what signs, zeros and weights need.

    Parameters
    ----------
    weights : ndarray of shape (n_features, n_frequencies)
        One frequency a column.
    """

    @cached_property
    def parities(self) -> Frequencies:
        """The counts modulo 2, as frequencies."""
        return Frequencies(np.mod(self.weights, 2))

    @cached_property
    def supports(self) -> Frequencies:
        """One where a count is not zero, as frequencies."""
        return Frequencies((self.weights > 0).astype(self.weights.dtype))

    @cached_property
    def log_factorials(self) -> np.ndarray:
        """Sum over l of log(w_l!) for each frequency w, in float64."""
        return special.gammaln(self.weights.astype(np.float64) + 1).sum(axis=0)


@dataclass(frozen=True, eq=False)
class DiscreteMap(FrequencyMap):
    r"""Features from monomials of integer frequencies, coordinates independent.

    .. math:: f(w, x) = e^{-|x|^2/2} \prod_l \frac{x_l^{w_l}}{\sqrt{w_l!\, p(w_l)}}

    with 0^0 = 1, where p is the law of the counts.

    Attributes
    ----------
    law : CountLaw
        The law p.
    gaussian : GaussianKernel
        The kernel.
    least : float or None, default=None
        Coordinates below are raised to it, so that all features are positive; None
        leaves them.
    """

    frequencies: Counts
    law: CountLaw
    gaussian: GaussianKernel
    least: float | None = None

    @cached_property
    def _log_weights(self) -> np.ndarray:
        counts = self.frequencies
        log_weights = self.law.log_weights(counts.log_factorials, self.n_features)
        log_weights = log_weights - 0.5 * math.log(self.n_components)
        return np.asarray(log_weights, dtype=counts.dtype)

    def _raised(self, x: np.ndarray) -> np.ndarray:
        """Return coordinates, not below ``least``."""
        return x if self.least is None else np.maximum(x, self.least)

    def _log_magnitude(self, x: np.ndarray) -> np.ndarray:
        """Return log|x / scale|, 0 for x = 0."""
        x, scale = np.abs(self._raised(x)), self.law.scale
        return np.log(np.where(x == 0, scale, x)) - math.log(scale)

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        counts = self.frequencies
        exponent = rows.map(self._log_magnitude).project(counts)
        exponent += self._log_weights
        row_term = -0.5 * rows.map(self._raised).sq_norms
        exponent += self.gaussian.plus_row_factor(row_term, rows)
        if self.least is not None:
            return None, exponent

        zeros = rows.map(lambda x: (x == 0).astype(x.dtype))
        if zeros.sq_norms.any():
            exponent[zeros.project(counts.supports) > 0.5] = -np.inf
        negatives = rows.map(lambda x: (x < 0).astype(x.dtype))
        changes = negatives.project(counts.parities)
        # 1 for even counts of changes, -1 for odd ones, in the memory at hand
        even = np.multiply(
            changes, 0.5, out=np.empty_like(changes) if out is None else out
        )
        np.floor(even, out=even)
        even *= 2
        changes -= even
        changes *= -2
        changes += 1
        return changes, exponent

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        log_ratio = sq_distances = np.zeros((X.shape[0], Y.shape[0]))
        for x, y in zip(X.columns(), Y.columns(), strict=True):
            x, y = self._raised(x), self._raised(y)
            log_ratio = log_ratio + self.law.log_excess(np.multiply.outer(x, y))
            sq_distances = sq_distances + np.subtract.outer(x, y) ** 2
        log_variance = log_expm1(log_ratio) - math.log(self.n_components) - sq_distances
        return self.gaussian.variance(log_variance, X, Y)
