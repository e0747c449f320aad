"""Features that are monomials of the coordinates with random integer exponents."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike
from scipy import special

from .._compat import cached_property
from ..arrays.loops import exp_features, itemsize, log_magnitudes
from ..arrays.namespaces import Array, at_least, namespace_of
from ..frequencies import Affine, Frequencies
from ..rows import Inputs
from .base import FrequencyMap, LogFeatures
from .radial_kernels import GaussianKernel

# Finite substitute for log(0). Its product with an exponent of 0 is 0, and its product
# with a positive exponent outweighs all other terms. Even its product with 1e15 does
# not overflow.
_LOG_OF_ZERO = {4: -1e20, 8: -1e200}
# largest argument at which I_0 is computed from its series, using about 60 terms
_LARGEST_ARGUMENT = 40.0
_LARGEST_LOG = 600.0  # largest log of a product of values of I_0, to avoid overflow
# (256, 8): for each byte, -1 where a bit is set, and 1 elsewhere
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)

Columns = Iterable[tuple[np.ndarray, np.ndarray]]


class CountLaw(ABC):
    """Distribution p of exponents k, and the factors of features that depend on p."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """Divisor of the coordinates that keeps their powers moderate."""

    @abstractmethod
    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Draw exponents in C order, so that larger draws begin with smaller ones."""

    @abstractmethod
    def log_weights(
        self, log_factorials: np.ndarray, n_features: int
    ) -> np.ndarray | float:
        """Return the log of prod_l scale^k_l / sqrt(k_l! p(k_l)) for each frequency."""
        # log_factorials (n_frequencies,) -> (n_frequencies,)

    @abstractmethod
    def log_excess(self, products: np.ndarray) -> np.ndarray:
        """Return log(E2 / K^2), which is non-negative, for one coordinate l.

        E2 is the second moment of the product of the features of x and y, and K is the
        kernel. The array ``products`` contains x_l y_l.
        """

    def sum_of_log_excesses(self, columns: Columns) -> np.ndarray:
        """Return the sum of ``log_excess`` over the coordinates for all pairs of rows.

        Subclasses may override this method with a faster one.
        """
        # columns (n_X,) -> (n_X, n_Y)
        products = (np.multiply.outer(x, y) for x, y in columns)
        return np.asarray(sum(map(self.log_excess, products)))


@dataclass(frozen=True)
class PoissonLaw(CountLaw):
    """Exponents with a Poisson distribution."""

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
        # lambda + c^2 / lambda - 2c, without cancellation
        return (products - self.lambda_) ** 2 / self.lambda_


@dataclass(frozen=True)
class GeometricLaw(CountLaw):
    """Exponents with a geometric distribution, P(k) = p (1 - p)^k."""

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
        """Return the sum, computed 6 to 9 times faster from products of I_0."""
        # each product minus 1 is stored, because the difference may be tiny
        total: np.ndarray | float = 0.0
        excess: np.ndarray | float = 0.0
        factor, log_size, kept = 2 / self.scale, 0.0, []
        for x, y in columns:
            z = factor * np.abs(x).max(initial=0) * np.abs(y).max(initial=0)
            if not z <= _LARGEST_ARGUMENT:
                total = total + self.log_excess(np.multiply.outer(x, y))
                continue
            if log_size + z > _LARGEST_LOG:
                total, excess, log_size = total + np.log1p(excess), 0.0, 0.0
            one = _bessel_excess(x, y, factor)
            product = one * excess
            excess = excess + one + product
            log_size += z
            kept.append((x, y))
        if kept:
            X, Y = (np.column_stack(side) for side in zip(*kept, strict=True))
            total = total + np.log1p(excess) - len(kept) * math.log(self.p)
            total -= (2 * X) @ Y.T
        return np.maximum(total, 0)


def _bessel_excess(x: np.ndarray, y: np.ndarray, factor: float) -> np.ndarray:
    """Return I_0(factor x y) - 1 for all pairs.

    Each term of the power series is positive, and is the product of a function of x and
    a function of y. The result is therefore a product of two narrow matrices, computed
    without cancellation.
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


@dataclass(frozen=True, eq=False)
class DiscreteMap(FrequencyMap):
    r"""Features that are monomials with independent random exponents.

    .. math:: f(w, x) = e^{-|x|^2/2} \prod_l \frac{x_l^{w_l}}{\sqrt{w_l!\, p(w_l)}}

    with 0^0 = 1, where p is the distribution of the exponents.
    """

    law: CountLaw
    gaussian: GaussianKernel
    least: float | None = None

    @property
    def is_positive(self) -> bool:
        return self.least is not None

    @cached_property
    def tables(self) -> tuple[Affine, Frequencies, float]:
        """The affine form of log magnitudes, exponents modulo 2, and the log scale."""
        counts = self.frequencies.to_dense().astype(np.float64)
        log_factorials = special.gammaln(counts + 1).sum(axis=0)
        log_weights = self.law.log_weights(log_factorials, self.n_features)
        offsets = np.broadcast_to(log_weights, (1, self.n_components))
        offsets = offsets - 0.5 * math.log(self.n_components)
        parities = Frequencies(np.mod(counts, 2))
        log_scale = math.log(self.law.scale)
        return Affine(Frequencies(counts), 1.0, offsets), parities, log_scale

    @cached_property
    def _supports(self) -> Frequencies:
        """Array that is 1 where an exponent is positive, for sparse rows."""
        return Frequencies((self.frequencies.to_dense() > 0).astype(np.float32))

    def _raised(self, x: Array) -> Array:
        """Return the coordinates, with those below ``least`` replaced by ``least``."""
        return x if self.least is None else at_least(x, self.least)

    @cached_property
    def _sign_bits(self) -> list[np.ndarray]:
        """Signs of the monomials as bits, for each set of negative coordinates.

        There is one array per group of 8 coordinates, with a row for each subset of the
        group and one bit per monomial. A monomial is negative if the exclusive or of
        its bits over all groups is 1.
        """
        odd = np.packbits(np.mod(self.frequencies.to_dense(), 2) > 0, axis=1)
        arrays = []
        for start in range(0, len(odd), 8):
            bits = np.zeros((1, odd.shape[1]), np.uint8)
            for row in odd[start : start + 8]:
                bits = np.concatenate([bits, bits ^ row])
            arrays.append(bits)
        return arrays

    def _exponents(self, rows: Inputs) -> Array:
        """Return log|f| for all features f, or about ``_LOG_OF_ZERO`` if f is 0."""
        raised = rows if self.least is None else rows.map(self._raised)
        row_term = self.gaussian.plus_row_factor(-0.5 * raised.sq_norms, rows)
        of_zero, log_scale = _LOG_OF_ZERO[itemsize(rows)], self.tables[2]
        of_stored = 0.0 if rows.is_sparse else of_zero

        def logs(x: Array) -> Array:
            return log_magnitudes(self._raised(x), log_scale, of_stored)

        out = rows.output(self.n_components)
        exponent = rows.map(logs).affine(self.tables[0], row_term, out)
        if rows.is_sparse and self.least is None:
            zeros = rows.map(lambda x: (x == 0).astype(np.float32))
            exponent[zeros.project(self._supports) > 0.5] = of_zero
        return exponent

    def _signs(self, rows: Inputs) -> Array:
        """Return -1 for features with an odd number of negative factors, else 1."""
        dtype, xp = rows.dtype, namespace_of(rows.sq_norms)
        is_plain = isinstance(rows.sq_norms, np.ndarray) and len(rows.shape) == 2
        if rows.is_sparse or not is_plain:
            factors = rows.map(lambda x: xp.astype(x < 0, dtype))
            counts = factors.project(self.tables[1])
            return 1 - 2 * (counts - 2 * xp.floor(0.5 * counts))
        (n_rows, d), arrays, odd = rows.shape, self._sign_bits, cast(Any, 0)
        negative = np.zeros((n_rows, 8 * len(arrays)), bool)
        np.less(rows.dense, 0, out=negative[:, :d])
        # a single long row is packed ten times as fast as many short ones
        sets = np.packbits(negative.ravel(), bitorder="little").reshape(n_rows, -1)
        for bits, of_rows in zip(arrays, sets.T, strict=True):
            # mode="clip" is several times as fast as the other modes
            odd = odd ^ bits.take(of_rows, axis=0, mode="clip")
        signs = rows.buffer("signs", (*odd.shape, 8))
        np.take(_SIGNS.astype(dtype), odd, axis=0, out=signs, mode="clip")
        return signs.reshape(n_rows, -1)[:, : self.n_components]

    def astype(self, dtype: DTypeLike) -> DiscreteMap:
        """Return the map itself, because exponents are integers."""
        return self

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        exponent = self._exponents(rows)
        if self.least is not None:
            return None, exponent
        xp = namespace_of(exponent)
        none = xp.full_like(exponent, -math.inf)
        hidden = exponent <= 0.1 * _LOG_OF_ZERO[itemsize(rows)]
        return self._signs(rows), xp.where(hidden, none, exponent)

    def features(self, rows: Inputs, *, key: bool = False) -> Array:
        exponent = self._exponents(rows)
        signs = None if self.least is not None else self._signs(rows)
        return exp_features(signs, exponent, exponent)

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
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
