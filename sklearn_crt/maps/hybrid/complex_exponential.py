"""Exponents with a real or complex matrix B, which may be diagonal."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from ..._compat import cached_property
from ...frequencies import Affine, Frequencies
from ...rows import Inputs
from ..quadratic import PairTerms, Quadratic, Side, squared_sums


class LinearQuadratic(Quadratic):
    r"""Exponents with a matrix B, whose variance depends on z = B x + B'^-1 y.

    .. math:: f(x) = e^{w \cdot B x - (B x)^2 / 2 - |x|^2 / 2}, \quad
       g(y) = e^{w \cdot B'^{-1} y - (B'^{-1} y)^2 / 2 - |y|^2 / 2}

    where the squares of complex vectors are sums of squares without conjugation. The
    estimate is exact if z = 0.
    """

    matrix: np.ndarray  # (n_features, n_features), or its diagonal (n_features,)

    @property
    def coefficient(self) -> np.ndarray:
        return np.zeros_like(self.matrix)

    @property
    def is_real(self) -> bool:  # type: ignore[override]  # of the parameters
        return not np.iscomplexobj(self.matrix)

    @property
    def knows_angles(self) -> bool:  # type: ignore[override]  # of the parameters
        return self.is_real

    @abstractmethod
    def _products(self, X: Inputs, Y: Inputs) -> tuple[np.ndarray, np.ndarray]:
        """Return the two terms of z for all queries and keys."""

    def pair_terms(self, X: Inputs, Y: Inputs) -> PairTerms:
        q = squared_sums(*self._products(X, Y))
        return 0.0, q, q

    def complex_variance(
        self, X: Inputs, Y: Inputs, counts: tuple[int, int, int], cosine: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        m, n_single, _ = counts
        left, right = self._products(X, Y)
        real = squared_sums(left.real, right.real)
        imaginary = squared_sums(left.imag, right.imag)
        share = _relative_variance(
            real + imaginary, real - imaginary, _twice_products(left, right)
        )
        # the random phase of a single column adds half of E|fg|^2
        return m * share + 0.5 * n_single, real + imaginary


@dataclass(frozen=True, eq=False)
class DiagonalQuadratic(LinearQuadratic):
    """Exponents with a diagonal matrix B, given as a vector a: z = a x + y / a."""

    matrix: np.ndarray  # (n_features,)

    @property
    def symmetric(self) -> bool:
        return self.is_real and bool(np.all(self.matrix == 1 / self.matrix))

    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        a = np.conjugate(1 / self.matrix) if key else self.matrix
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
        return X.dense * self.matrix, Y.dense * (1 / self.matrix)


@dataclass(frozen=True, eq=False)
class MatrixQuadratic(LinearQuadratic):
    """Exponents with any invertible matrix B."""

    matrix: np.ndarray  # (n_features, n_features)

    @cached_property
    def _inverse(self) -> np.ndarray:
        return np.linalg.inv(self.matrix)

    @property
    def symmetric(self) -> bool:
        return self.is_real and bool(
            np.allclose(self.matrix.T, self._inverse, rtol=0, atol=1e-14)
        )

    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        B = np.conjugate(self._inverse.T) if key else self.matrix
        weights = B.T @ frequencies.to_dense().astype(np.float64)
        # the quadratic form includes -|x|^2 / 2, as for diagonal matrices
        form = -0.5 * (np.eye(len(B)) + B.T @ B)
        magnitude = Affine(_real_frequencies(weights.real), 1.0, log_scale)
        if self.is_real:
            return Side(magnitude, forms=(_axes_of(form),))
        phase = Affine(_real_frequencies(weights.imag), 1.0, 0 * log_scale)
        return Side(magnitude, phase, forms=(_axes_of(form.real), _axes_of(form.imag)))

    def _products(self, X: Inputs, Y: Inputs) -> tuple[np.ndarray, np.ndarray]:
        return X.dense @ self.matrix.T, Y.dense @ self._inverse


def _real_frequencies(weights: np.ndarray) -> Frequencies:
    return Frequencies(np.ascontiguousarray(weights))


def _axes_of(form: np.ndarray) -> tuple[Frequencies, np.ndarray]:
    """Return axes v and factors s such that x' form x is the sum of s (v.x)^2."""
    factors, axes = np.linalg.eigh((form + form.T) / 2)
    return Frequencies(axes), factors[:, None]


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
