"""Exponents with a diagonal matrix B, real or complex, for pairs of clusters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...frequencies import Affine, Frequencies
from ...rows import Inputs
from ..quadratic import PairTerms, Quadratic, Side, squared_sums


@dataclass(frozen=True, eq=False)
class DiagonalQuadratic(Quadratic):
    r"""Exponents with a diagonal matrix B, whose diagonal a is real or complex.

    .. math:: f(x) = e^{w \cdot a x - (a x)^2 / 2 - |x|^2 / 2}, \quad
       g(y) = e^{w \cdot y / a - (y / a)^2 / 2 - |y|^2 / 2}

    where the squares of complex vectors are sums of squares without conjugation. The
    estimate is exact if :math:`y = -a^2 x`.
    """

    diagonal: np.ndarray  # (n_features,)

    @property
    def coefficient(self) -> np.ndarray:
        return np.zeros_like(self.diagonal)

    @property
    def is_real(self) -> bool:  # type: ignore[override]  # of the parameters
        return not np.iscomplexobj(self.diagonal)

    @property
    def knows_angles(self) -> bool:  # type: ignore[override]  # of the parameters
        return self.is_real

    @property
    def symmetric(self) -> bool:
        return self.is_real and bool(np.all(self.diagonal == 1 / self.diagonal))

    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        a = np.conjugate(1 / self.diagonal) if key else self.diagonal
        weights = frequencies.to_dense().astype(np.float64)
        magnitude = Affine(Frequencies(a.real[:, None] * weights), 1.0, log_scale)
        # The coefficients include -|x|^2 / 2. If it were added separately, large terms
        # would cancel and leave their rounding errors.
        squares = -0.5 * (1 + np.square(a))
        squares = np.column_stack([squares.real, squares.imag])
        if self.is_real:
            return Side(magnitude, squares=squares)
        phase = Affine(Frequencies(a.imag[:, None] * weights), 1.0, 0 * log_scale)
        return Side(magnitude, phase, squares=squares)

    def _products(self, X: Inputs, Y: Inputs) -> tuple[np.ndarray, np.ndarray]:
        return X.dense * self.diagonal, Y.dense * (1 / self.diagonal)

    def pair_terms(self, X: Inputs, Y: Inputs) -> PairTerms:
        q = squared_sums(*self._products(X, Y))
        return 0.0, q, q

    def complex_variance(
        self, X: Inputs, Y: Inputs, counts: tuple[int, int, int], cosine: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        m, n_single, _ = counts
        # z = a x + y / a, coordinate by coordinate
        left, right = self._products(X, Y)
        real = squared_sums(left.real, right.real)
        imaginary = squared_sums(left.imag, right.imag)
        share = _relative_variance(
            real + imaginary, real - imaginary, _twice_products(left, right)
        )
        # the random phase of a single column adds half of E|fg|^2
        return m * share + 0.5 * n_single, real + imaginary


def _twice_products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return Im(z.z) = 2 Re(z).Im(z) for z = left + right and all pairs of rows."""
    own = np.sum(left.real * left.imag, axis=1)[:, None]
    own = own + np.sum(right.real * right.imag, axis=1)
    return 2 * (own + left.real @ right.imag.T + left.imag @ right.real.T)


def _relative_variance(
    sizes: np.ndarray, real: np.ndarray, imaginary: np.ndarray
) -> np.ndarray:
    """Return (e^s + Re e^(zz)) / 2 - 1 in units of e^s, for s = |z|^2 and zz = z.z."""
    near = sizes < 30
    small = np.where(near, real, 0) + 1j * np.where(near, imaginary, 0)
    change = np.exp(-sizes) * np.expm1(small).real
    far = np.exp(real - sizes) * np.cos(imaginary) - np.exp(-sizes)
    return 0.5 * (-np.expm1(-sizes) + np.where(near, change, far))
