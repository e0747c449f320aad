"""Exponential features exp(A|w|^2 + B w.x + C|x|^2), for complex A."""

from __future__ import annotations

import cmath
import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._circle import phase_blocks, write_cos_sin
from ._columns import PairedColumns
from ._gaussian import GaussianKernel
from ._second_moment import log_one_minus, log_rho, scaled_variance, second_moment
from .block_savings import positive_gap, trigonometric_gap

Side = tuple[complex, np.ndarray, np.ndarray | None]


@dataclass(frozen=True, eq=False)
class ComplexExponentialMap(FrequencyMap):
    r"""Real and imaginary parts of exponential features, for either sign s.

    .. math::

       f(x) = D e^{A|w|^2 + B w \cdot x + C|x|^2}, \quad
       g(y) = D e^{A|w|^2 + s B w \cdot y + C|y|^2}, \quad
       B = \sqrt{s(1 - 4A)}, \; C = -\tfrac{s + 1}{2}, \; D = (1 - 4A)^{d/4}

    Queries have the columns Re f, Im f, keys Re g, -Im g.

    Attributes
    ----------
    columns : PairedColumns
        Which frequencies have two columns.
    phase : float
        Of the last column where that is single, in radians.
    s : int
        The sign, +1 or -1.
    A_parts : tuple of float
        Real and imaginary part of A.
    gaussian : GaussianKernel
        The kernel.
    """

    columns: PairedColumns
    phase: float
    s: int
    A_parts: tuple[float, float]
    gaussian: GaussianKernel

    @property
    def A(self) -> complex:
        """Coefficient of the squared norm of the frequency."""
        return complex(*self.A_parts)

    @property
    def symmetric(self) -> bool:
        return self.A_parts[1] == 0

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    def frequency_index(self) -> np.ndarray | None:
        return self.columns.index

    @cached_property
    def _sides(self) -> tuple[Side, Side]:
        """Coefficient B of w.x, and growth and phase of each column, of both sides."""
        return self._side(key=False), self._side(key=True)

    def _side(self, key: bool) -> Side:
        # a key has (Re g, -Im g), so it is the map with conjugate coefficients
        s, A, sq_norms = self.s, self.A, self.frequencies.sq_norms
        B = cmath.sqrt(s * (1 - 4 * A))
        log_D = 0.25 * self.n_features * log_one_minus(4 * A)
        if key:
            A, B, log_D = A.conjugate(), s * B.conjugate(), log_D.conjugate()
        growth = A.real * sq_norms
        growth += log_D.real - 0.5 * math.log(self.n_frequencies)
        return B, growth, None if A.imag == 0 else A.imag * sq_norms + log_D.imag

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        B, column_term, turn = self._sides[key]
        # exp fits in float32
        is_scale = B.real == 0 and np.abs(column_term).max() < 80
        scale = np.exp(column_term) if is_scale else np.ones_like(column_term)
        shape = rows.shape[0], self.n_frequencies
        growth = None if is_scale else np.empty(shape, rows.dtype)
        for block, some in phase_blocks(rows, self.n_frequencies):
            phases = some.project(self.frequencies, brief=True)
            if growth is not None:
                np.multiply(phases, B.real, out=growth[block])
            phases *= B.imag
            if turn is not None:
                phases += turn
            self._write_circle(some, phases, scale, out[block])
        if growth is None:
            return out, self.gaussian.log_row_factor(rows)
        growth += column_term
        row_term = -0.5 * (self.s + 1) * rows.sq_norms
        growth += self.gaussian.plus_row_factor(row_term, rows)
        return out, growth[:, self.columns.index]

    def _write_circle(
        self, rows: UnitRows, phases: np.ndarray, scale: np.ndarray, out: np.ndarray
    ) -> None:
        """Write scaled cosines and sines of the phases, which are overwritten."""
        n_pairs = self.columns.n_pairs
        cosines, sines, single = self.columns.split(out)
        if self.columns.n_single:
            shifted = np.cos(phases[:, n_pairs:] + self.phase)
            np.multiply(shifted, math.sqrt(2) * scale[n_pairs:], out=single)
        write_cos_sin(phases[:, :n_pairs], scale[:n_pairs], cosines, sines, rows)

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        d, m, s = self.n_features, self.n_frequencies, self.s
        _, sums, sq_distances = X.pair_statistics(Y)
        q = sums if s > 0 else sq_distances
        size, *others = second_moment(*log_rho(self.A), s, q, d)
        one, log_scale = scaled_variance(size, *others)
        total = m * one
        if self.columns.n_single:  # half of E|fg|^2, of the phase
            total = total + 0.5 * np.exp(size - log_scale)
        if self.n_pairs > 0 and self.cosine is not None:
            # E|fg|^2 >= K^2, and >= 1 for s = -1: what is saved has no large factor
            if s > 0:
                saved = positive_gap(q, d, self.cosine) * np.exp(-log_scale)
            else:
                saved = trigonometric_gap(q, d, self.cosine) * np.exp(q - log_scale)
            total = total - self.n_pairs * saved
        log_unit = log_scale - 2 * math.log(m) - sq_distances
        return self.gaussian.variance(total, log_unit, X, Y)
