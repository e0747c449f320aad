"""Exponential features with a complex diagonal matrix: exact at one pair of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._circle import write_cos_sin
from ._columns import PairedColumns
from ._exponential import share_of_moment
from ._gaussian import GaussianKernel


@dataclass(frozen=True, eq=False)
class DiagonalExponentialMap(FrequencyMap):
    r"""Features of products with a diagonal a, coordinate by coordinate.

    .. math::

       f(x) = \tfrac{1}{\sqrt m} e^{w \cdot a x - (a x)^2 / 2 - |x|^2 / 2}, \quad
       g(y) = \tfrac{1}{\sqrt m} e^{w \cdot y / a - (y / a)^2 / 2 - |y|^2 / 2}

    with squares without conjugates. Queries have the columns Re f, Im f, keys Re g, -Im
    g; where a is real there is one column a frequency.

    Attributes
    ----------
    columns : PairedColumns
        Which frequencies have two columns; none where a is real.
    phase : float
        Of the last column where that is single, in radians.
    diagonal : ndarray of shape (n_features,)
        The diagonal a, complex only where it has to be.
    gaussian : GaussianKernel
        The kernel.
    """

    columns: PairedColumns
    phase: float
    diagonal: np.ndarray
    gaussian: GaussianKernel

    @property
    def is_real(self) -> bool:
        """Whether the diagonal is."""
        return not np.iscomplexobj(self.diagonal)

    @property
    def symmetric(self) -> bool:
        return self.is_real and bool(np.all(self.diagonal == 1 / self.diagonal))

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    @property
    def cosine(self) -> float | None:
        """What a block saves is known for real diagonals alone."""
        return super().cosine if self.is_real else None

    def frequency_index(self) -> np.ndarray:
        return self.columns.index

    # ----------------------------------------------------------------- features
    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        growth = self._growth(rows, key)
        if self.is_real:
            return None, growth
        self._write_circle(rows, key, 1.0, out)
        return out, growth[:, self.columns.index]

    def features(self, rows: UnitRows, out: np.ndarray, *, key: bool = False) -> None:
        growth = self._growth(rows, key)
        if self.is_real:
            np.exp(growth, out=out)
            return
        size, n_pairs = np.exp(growth, out=growth), self.columns.n_pairs
        self._write_circle(rows, key, 1.0, out)
        for part in self.columns.split(out)[:2]:
            part *= size[:, :n_pairs]
        out[:, 2 * n_pairs :] *= size[:, n_pairs:]

    def _growth(self, rows: UnitRows, key: bool) -> np.ndarray:
        """Return the real parts of the exponents, one a frequency."""
        a = 1 / self.diagonal if key else self.diagonal
        growth = rows.map_columns(a.real).project(self.frequencies)
        term = -0.5 * rows.sq_norms - 0.5 * math.log(self.n_frequencies)
        term -= 0.5 * _squares_times(rows, np.square(a).real)
        growth += self.gaussian.plus_row_factor(term, rows)
        return growth

    def _write_circle(
        self, rows: UnitRows, key: bool, scale: float, out: np.ndarray
    ) -> None:
        """Write cosines and sines of the imaginary parts of the exponents."""
        a = 1 / self.diagonal if key else self.diagonal
        phases = rows.map_columns(a.imag).project(self.frequencies)
        phases -= 0.5 * _squares_times(rows, np.square(a).imag)
        if key:  # the conjugate
            np.negative(phases, out=phases)
        n_pairs = self.columns.n_pairs
        cosines, sines, single = self.columns.split(out)
        if self.columns.n_single:  # sqrt 2 Re(e^ib f) and sqrt 2 Re(e^-ib g)
            shifted = np.cos(phases[:, n_pairs:] + self.phase)
            np.multiply(shifted, math.sqrt(2) * scale, out=single)
        write_cos_sin(phases[:, :n_pairs], scale, cosines, sines)

    # ------------------------------------------------------------------- values
    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        a, m = self.diagonal, self.n_frequencies
        # coordinate by coordinate z = a x + y / a, with |z|^2 the sum of two squares
        left, right = X.dense * a, Y.dense * (1 / a)
        log_unit = _squared_sums(left.real, right.real)
        if self.is_real:
            share = share_of_moment(self, log_unit, log_unit)
        else:
            real, imaginary = log_unit, _squared_sums(left.imag, right.imag)
            log_unit = real + imaginary
            twice = _twice_products(left, right)
            share = _relative_variance(log_unit, real - imaginary, twice)
            share += 0.5 * self.columns.n_single / m  # half of E|fg|^2 more
        log_unit -= X.sq_distances(Y)
        log_unit -= math.log(m)
        return self.gaussian.variance(share, log_unit, X, Y)


def _squares_times(rows: UnitRows, factors: np.ndarray) -> np.ndarray:
    """Return the sums of factors times squared coordinates, (n_rows, 1)."""
    x = rows.matrix
    squares = x * x if isinstance(x, np.ndarray) else x.multiply(x).tocsr()
    return np.asarray(squares @ factors.astype(x.dtype))[:, None]


def _squared_sums(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return |x + y|^2 of all pairs of rows."""
    total = 2 * left @ right.T
    total += np.sum(left**2, axis=1)[:, None]
    total += np.sum(right**2, axis=1)
    return np.maximum(total, 0, out=total)


def _twice_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the imaginary part of z.z, twice the real times the imaginary parts."""
    own = np.sum(left.real * left.imag, axis=1)[:, None]
    own = own + np.sum(right.real * right.imag, axis=1)
    return 2 * (own + left.real @ right.imag.T + left.imag @ right.real.T)


def _relative_variance(
    sq_norms: np.ndarray, real: np.ndarray, imaginary: np.ndarray
) -> np.ndarray:
    """Return (e^s + Re e^(zz)) / 2 - 1 in units of e^s, for s = |z|^2 and zz = z.z."""
    near = sq_norms < 30
    small = np.where(near, real, 0) + 1j * np.where(near, imaginary, 0)
    change = np.exp(-sq_norms) * np.expm1(small).real
    far = np.exp(real - sq_norms) * np.cos(imaginary) - np.exp(-sq_norms)
    return 0.5 * (-np.expm1(-sq_norms) + np.where(near, change, far))
