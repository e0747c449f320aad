r"""Quadratic forms, which are the exponents of exponential features.

A feature of a query x is :math:`\exp(w'Aw + w'Bx + c(x))`, where w is standard normal.
For every A, there are B and c such that the product of the features of a query and a
key has the kernel as its mean. The variance of the product depends on A and B.
"""

from __future__ import annotations

import cmath
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._compat import cached_property
from .._values import Value
from ..arrays.namespaces import Array, asarray_like, namespace_of
from ..arrays.namespaces import sq_norms as sums_of_squares
from ..frequencies import Affine, Frequencies
from ..rows import Inputs
from .variance import (
    log_one_minus,
    log_rho,
    positive_block_covariance,
    scaled_variance,
    second_moment,
    trigonometric_block_covariance,
)

PairTerms = tuple[Any, np.ndarray, np.ndarray]


class Side(NamedTuple):
    """The exponents of the features of queries or of keys.

    They are affine functions of the row, plus a term per row that does not depend on
    the frequency. The imaginary part is given by ``phase``, and the real part by
    ``magnitude``, or by the log of ``scale`` if it is the same for all rows.
    """

    magnitude: Affine
    phase: Affine | None = None
    scale: Array | None = None  # (1, n_frequencies)
    sq_norm: float = -1.0  # coefficient of |x|^2 in the real part
    # (n_features, 2): coefficients of x_l^2 in the real and in the imaginary part
    squares: Array | None = None
    single_phase: Array | None = None  # (1, 1), phase b of the last column if single
    shift: Array | None = None  # (1, n_features): h if the form depends on x - h
    axes: Frequencies | None = None  # the matrix in |axes (x - h)|^2
    # axes v and column (n_axes, 1) of factors s: the real and the imaginary part of the
    # exponent contain the sum of s (v.x)^2
    forms: tuple[tuple[Frequencies, Array], ...] | None = None

    def terms(self, rows: Inputs) -> tuple[Inputs, Array, Any]:
        """Return the rows to which the affine forms apply, and the terms per row."""
        # -> rows, (..., n_rows, 1), (..., n_rows, 1) or None
        if self.shift is not None and self.axes is not None:
            # exp(-|x|^2 / 2) turns the kernel exp(x.y) into the Gaussian kernel
            inside = rows.shifted(self.shift)
            turned, other_side = inside.project(self.axes), rows.shifted(-self.shift)
            term = -0.5 * (sums_of_squares(turned) + other_side.sq_norms)
            return inside, term + sums_of_squares(self.shift), None
        if self.forms is not None:
            parts = [rows.project(axes) ** 2 @ factors for axes, factors in self.forms]
            return rows, parts[0], parts[-1] if len(parts) > 1 else None
        none = None if self.phase is None else rows.zeros()
        if self.squares is None:
            term = none if self.sq_norm == 0 else self.sq_norm * rows.sq_norms
            return rows, term, none
        both = rows.sums_of_squares(self.squares)
        return rows, both[..., :1], both[..., 1:]


class Quadratic(Value, ABC):
    """The exponent of an exponential feature, as a function of w and x."""

    s = 1  # sign in |x + s y|^2, on which the variance depends
    is_real = True
    knows_angles = True  # whether the covariance within a block has a closed form

    @property
    @abstractmethod
    def coefficient(self) -> Any:
        """The coefficient A of the form, a number or a matrix."""

    @property
    def symmetric(self) -> bool:
        """Whether queries and keys have the same features."""
        return True

    @abstractmethod
    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        """Return the exponents for queries or for keys, with ``log_scale`` added."""

    def pair_terms(self, X: Inputs, Y: Inputs) -> PairTerms:
        """Return the quantities on which the variance of real features depends.

        These are a number c and the matrices s and q of shape (n_X, n_Y). Relative to
        K^2, the product of the features of x and y has the second moment ``exp(c + s)``
        and, for pairs w and -w, the cross moment ``exp(c - q)``.
        """
        raise NotImplementedError(f"{self!r} has complex features.")

    def complex_variance(
        self, X: Inputs, Y: Inputs, counts: tuple[int, int, int], cosine: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the sum of the variances of all complex frequencies, and its log unit.

        The sum is in units of exp(log unit) K^2. ``counts`` are the numbers of
        frequencies, of single columns, and of ordered pairs in the same block.
        """
        raise NotImplementedError(f"{self!r} has real features.")


@dataclass(frozen=True)
class IsotropicQuadratic(Quadratic):
    r"""Exponents whose coefficients A and :math:`B = \sqrt{s (1 - 4A)}` are numbers.

    .. math:: f(x) = D e^{A|w|^2 + B w \cdot x - (s+1)|x|^2/2}, \quad
       D = (1 - 4A)^{d/4}; \quad g(y) \text{ with } s B
    """

    real: float
    imaginary: float = 0.0
    s: int = 1

    @property
    def A(self) -> complex:
        """Coefficient of the squared norm of the frequency."""
        return complex(self.real, self.imaginary)

    @property
    def coefficient(self) -> complex | float:
        return self.real if self.imaginary == 0 else self.A

    @cached_property
    def is_real(self) -> bool:  # type: ignore[override]  # of the parameters
        return self.s == 1 and self.imaginary == 0

    @property
    def symmetric(self) -> bool:
        return self.imaginary == 0

    def side(
        self, frequencies: Frequencies, log_scale: np.ndarray, *, key: bool
    ) -> Side:
        sq_norms = frequencies.sq_norms.astype(np.float64)[None]
        if self.is_real:
            return Side(real_form(frequencies, sq_norms, self.real, log_scale))
        A, s, d = self.A, self.s, frequencies.n_features
        B = cmath.sqrt(s * (1 - 4 * A))
        log_D = 0.25 * d * log_one_minus(4 * A)
        if key:  # Re g and -Im g are the parts of the complex conjugate of g
            A, B, log_D = A.conjugate(), s * B.conjugate(), log_D.conjugate()
        offsets = A.real * sq_norms + (log_D.real + log_scale)
        scale = None
        # the limit of 80 prevents an overflow of the exponential in float32
        if B.real == 0 and np.abs(offsets).max() < 80:
            scale = np.exp(offsets)
        magnitude = Affine(frequencies, B.real, offsets)
        phase = Affine(frequencies, B.imag, A.imag * sq_norms + log_D.imag)
        return Side(magnitude, phase, scale, -0.5 * (s + 1))

    def pair_terms(self, X: Inputs, Y: Inputs) -> PairTerms:
        rho = 1 / (1 - 8 * self.real)
        _, q, _ = X.pair_statistics(Y)
        return X.shape[1] * float(log_excess(rho)), rho * q, q

    def complex_variance(
        self, X: Inputs, Y: Inputs, counts: tuple[int, int, int], cosine: float | None
    ) -> tuple[np.ndarray, np.ndarray]:
        (m, n_single, n_pairs), d, s = counts, X.shape[1], self.s
        _, sums, sq_distances = X.pair_statistics(Y)
        q = sums if s > 0 else sq_distances
        size, *others = second_moment(*log_rho(self.A), s, q, d)
        one, log_scale = scaled_variance(size, *others)
        total = m * one
        if n_single:  # the random phase of a single column adds half of E|fg|^2
            total = total + 0.5 * np.exp(size - log_scale)
        if n_pairs and cosine is not None:
            # E|fg|^2 is at least K^2, and at least 1 for s = -1, so no factor exceeds 1
            if s > 0:
                change = positive_block_covariance(q, d, cosine)
                change *= np.exp(-log_scale)
            else:
                change = trigonometric_block_covariance(q, d, cosine)
                change *= np.exp(q - log_scale)
            total = total + n_pairs * change
        return total, log_scale


def real_form(
    frequencies: Frequencies, sq_norms: Array, A: Any, log_scale: Any
) -> Affine:
    """Return the exponents of real features; A is a number, or one number per head."""
    # sq_norms (..., 1, n_frequencies), A () or (..., 1, 1)
    xp, A = namespace_of(sq_norms), asarray_like(A, sq_norms)
    constant = 0.25 * frequencies.n_features * xp.log1p(-4 * A)
    scale = xp.sqrt(1 - 4 * A)
    offsets = A * sq_norms + (constant + log_scale)
    return Affine(frequencies, float(scale) if scale.ndim == 0 else scale, offsets)


def log_excess(rho: Any) -> Any:
    """Return log((1 + rho) / (2 sqrt(rho))), accurate for rho near 1."""
    root = np.sqrt(rho)
    return np.log1p((1 - root) ** 2 / (2 * root))


def squared_sums(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return |x + y|^2 for all pairs of rows."""
    total = 2 * left @ right.T
    total += np.sum(left**2, axis=1)[:, None]
    total += np.sum(right**2, axis=1)
    return np.maximum(total, 0, out=total)
