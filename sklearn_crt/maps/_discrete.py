"""Monomials of the coordinates, with random integer exponents."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike
from scipy import special

from ..frequencies import Affine, Frequencies
from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._count_laws import CountLaw
from ._gaussian import GaussianKernel
from ._parities import Parities, flip_signs

# in place of minus infinity: times 0 it is 0, times a count nothing outweighs it, and
# times a count of 1e15 it does not overflow
_LOG_OF_ZERO = {"float32": -1e20, "float64": -1e200}


class Counts(Frequencies):
    """Integer frequencies, as floats, with what signs, zeros and weights need.

    Parameters
    ----------
    weights : ndarray of shape (n_features, n_frequencies)
        One frequency a column.
    """

    @cached_property
    def parities(self) -> Parities:
        """The counts modulo 2."""
        return Parities(self.weights)

    @cached_property
    def supports(self) -> Frequencies:
        """One where a count is not zero, as frequencies for rows of zeros and ones."""
        return Frequencies((self.weights > 0).astype(np.float32))  # which counts them

    @cached_property
    def log_factorials(self) -> np.ndarray:
        """Sum over l of log(w_l!) for each frequency w, in float64."""
        return special.gammaln(self.weights.astype(np.float64) + 1).sum(axis=0)

    def to(self, dtype: DTypeLike) -> Counts:
        if self.dtype == dtype:
            return self
        moved = super().to(dtype)
        assert isinstance(moved, Counts)
        # of the counts, which another type may round
        moved.parities, moved.log_factorials = self.parities, self.log_factorials
        return moved


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
    def _form(self) -> Affine:
        counts = self.frequencies
        log_weights = self.law.log_weights(counts.log_factorials, self.n_features)
        offsets = np.broadcast_to(log_weights, counts.n_frequencies)
        offsets = offsets - 0.5 * math.log(self.n_components)
        return Affine(counts, 1.0, offsets.astype(counts.dtype))

    def _raised(self, x: np.ndarray) -> np.ndarray:
        """Return coordinates, not below ``least``."""
        return x if self.least is None else np.maximum(x, self.least)

    def _log_magnitude(self, x: np.ndarray, of_zero: float = 0.0) -> np.ndarray:
        """Return log|x / scale|, and a number for x = 0."""
        magnitudes = np.abs(self._raised(x))
        with np.errstate(divide="ignore"):
            logs = np.log(magnitudes, out=magnitudes)
        logs -= math.log(self.law.scale)
        logs[logs == -np.inf] = of_zero
        return logs

    def _write_exponents(self, rows: UnitRows, out: np.ndarray) -> None:
        """Write the logs of the magnitudes; zeros become about ``_LOG_OF_ZERO``."""
        raised = rows if self.least is None else rows.map(self._raised)
        row_term = self.gaussian.plus_row_factor(-0.5 * raised.sq_norms, rows)
        of_zero = _LOG_OF_ZERO[rows.dtype.name]
        if isinstance(rows.stored[0], np.ndarray):
            logs = rows.map(lambda x: self._log_magnitude(x, of_zero))
            logs.affine(self._form, row_term, out)
            return
        rows.map(self._log_magnitude).affine(self._form, row_term, out)
        if self.least is None and _has_zeros(rows):
            zeros = rows.map(lambda x: (x == 0).astype(np.float32))
            out[zeros.project(self.frequencies.supports) > 0.5] = of_zero

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        exponent = np.empty((rows.shape[0], self.n_components), rows.dtype)
        self._write_exponents(rows, exponent)
        if self.least is not None:
            return None, exponent
        if _has_zeros(rows):
            exponent[exponent <= 0.1 * _LOG_OF_ZERO[rows.dtype.name]] = -np.inf
        signs = np.empty_like(exponent) if out is None else out
        signs[:] = 1
        flip_signs(signs, self.frequencies.parities.are_odd(rows))
        return signs, exponent

    def features(self, rows: UnitRows, out: np.ndarray, *, key: bool = False) -> None:
        self._write_exponents(rows, out)
        np.exp(out, out=out)
        if self.least is None:
            flip_signs(out, self.frequencies.parities.are_odd(rows))

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        left, right = (
            rows if self.least is None else rows.map(self._raised) for rows in (X, Y)
        )
        columns = zip(left.columns(), right.columns(), strict=True)
        log_unit = self.law.sum_of_log_excesses(columns)
        share = -np.expm1(-log_unit)
        log_unit -= math.log(self.n_components)
        for x, y in zip(left.columns(), right.columns(), strict=True):
            log_unit -= np.subtract.outer(x, y) ** 2
        return self.gaussian.variance(share, log_unit, X, Y)


def _has_zeros(rows: UnitRows) -> bool:
    """Whether a coordinate may be 0; nearly all of sparse rows that nothing moved."""
    stored, shift = rows.stored
    if isinstance(stored, np.ndarray):
        return not stored.all()
    if shift is None or not shift.all():
        return True
    return bool(np.any(stored.data == shift[stored.indices]))
