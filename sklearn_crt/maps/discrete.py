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
_LARGEST_TABLE = 2**22  # largest number of probabilities for drawing by inversion
_MOST_TERMS = 20_000  # number of terms after which a series is said to diverge
_LARGEST_LOG = 600.0  # largest log of a product of values of I_0, to avoid overflow
# (256, 8): for each byte, -1 where a bit is set, and 1 elsewhere
_SIGNS = 1.0 - 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1)

Columns = Iterable[tuple[np.ndarray, np.ndarray]]


class CountLaw(ABC):
    r"""Base class of the distributions of the exponents of discrete random features.

    Each coordinate of a row is raised to a random power k = 0, 1, 2, ... with
    probability :math:`p_k`. For every distribution with :math:`p_k > 0` for all k, the
    resulting monomials give unbiased estimates of the Gaussian and of the softmax
    kernel ([1]_, equations 9 and 10); the distribution determines the variance. A
    subclass, which should be a frozen dataclass, implements ``log_probability``. The
    other methods have default implementations that work for any distribution, and may
    be replaced by faster ones.

    See Also
    --------
    DiscreteSampler : Base class of samplers, which choose a distribution for the rows.

    Notes
    -----
    For a row x that is centred and multiplied by sigma, and a vector w of d independent
    exponents, one of m features is

    .. math:: f(x) = \frac{e^{-|x|^2 / 2}}{\sqrt m}
       \prod_{l=1}^d \frac{x_l^{w_l}}{\sqrt{w_l! \, p_{w_l}}}, \qquad 0^0 = 1,

    and the variance of the estimate of the kernel K is

    .. math:: \operatorname{Var} = \frac{K^2}{m} \left( \prod_l \left[ e^{-2 x_l y_l}
       \sum_{k=0}^\infty \frac{(x_l y_l)^{2k}}{k!^2 \, p_k} \right] - 1 \right) .

    It is infinite if :math:`p_k` decreases faster than :math:`c^{2k} / k!^2` for
    :math:`c = x_l y_l`.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`, section 3.2.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from scipy import stats
    >>> from sklearn_crt.extend import CountLaw
    >>> @dataclass(frozen=True)
    ... class NegativeBinomial(CountLaw):
    ...     r: float
    ...     p: float
    ...
    ...     def log_probability(self, counts):
    ...         return stats.nbinom.logpmf(counts, self.r, self.p)
    >>> law = NegativeBinomial(r=0.5, p=0.4)
    >>> law.draw((3, 4), np.random.default_rng(0)).shape
    (3, 4)
    >>> law.log_excess(np.array([0.0, 0.5])).round(3)  # for c = 0 and c = 0.5
    array([0.458, 0.129])
    """

    @property
    def scale(self) -> float:
        """Divisor of the coordinates that keeps their powers moderate in float32."""
        return 1.0

    @abstractmethod
    def log_probability(self, counts: np.ndarray) -> np.ndarray:
        """Return the logarithms of the probabilities of exponents.

        Parameters
        ----------
        counts : ndarray
            Non-negative integers, as an array of integers or floats of any shape.

        Returns
        -------
        log_probability : ndarray
            Logarithms of the probabilities, an array of the same shape. All of them
            must be finite, and the probabilities of all integers must add up to 1.
        """

    def draw(self, size: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
        """Draw exponents in C order, so that larger draws begin with smaller ones.

        Parameters
        ----------
        size : tuple of (int, int)
            Shape of the result, (n_frequencies, n_features).
        rng : Generator
            Source of all random numbers.

        Returns
        -------
        counts : ndarray of the given shape
            Independent exponents.

        Raises
        ------
        ValueError
            If a probability is zero, or if the probabilities do not add up to 1.
        """
        uniform = rng.random(size)
        largest, n = float(uniform.max(initial=0.0)), 64
        while True:
            logs = np.asarray(self.log_probability(np.arange(n)), dtype=np.float64)
            cumulative = np.cumsum(np.exp(logs))
            if not np.isfinite(logs).all() or cumulative[-1] > 1 + 1e-6:
                raise ValueError(
                    f"The probabilities of {self!r} must be positive for every "
                    "exponent 0, 1, 2, ..., and must add up to 1. Correct "
                    "log_probability."
                )
            if cumulative[-1] > largest:
                return np.searchsorted(cumulative, uniform, side="right")
            if n > _LARGEST_TABLE:
                raise ValueError(
                    f"The probabilities of {self!r} for the exponents below {n} add up "
                    f"to {cumulative[-1]:.6g}. Correct log_probability, or implement "
                    "draw if the distribution has such heavy tails."
                )
            n *= 4

    def log_weights(self, counts: np.ndarray) -> np.ndarray | float:
        """Return the logarithms of the constant factors of the features.

        Parameters
        ----------
        counts : ndarray of shape (n_features, n_frequencies)
            Exponents k.

        Returns
        -------
        log_weights : ndarray of shape (n_frequencies,) or float
            For each frequency, the sum over the coordinates of ``log(scale**k /
            sqrt(k! p_k))``; a number if it is the same for all frequencies.
        """
        logs = special.gammaln(counts + 1) + self.log_probability(counts)
        return np.sum(counts * math.log(self.scale) - 0.5 * logs, axis=0)

    def log_excess(self, products: np.ndarray) -> np.ndarray:
        """Return the logarithm of the relative second moment for one coordinate.

        Parameters
        ----------
        products : ndarray
            Products c = x_l y_l of one coordinate of queries and keys.

        Returns
        -------
        log_excess : ndarray
            Logarithm of ``exp(-2c) * sum(c**(2k) / (k!**2 p_k))``, an array of the same
            shape. It is non-negative, and it is infinite if the sum diverges.
        """
        # The sum equals 1 plus the sum of (q - p)^2 / p over k, where q = exp(-c) c^k /
        # k!. This form loses no accuracy where the variance is small.
        c = np.asarray(products, dtype=np.float64)
        with np.errstate(divide="ignore"):
            log_c = np.log(np.abs(c))
        log_total = np.full(c.shape, -np.inf)
        last, rest, logs = log_total, 1.0, np.zeros(0)
        first_end = 16 + 2 * float(np.abs(c).max(initial=0))
        for k in range(_MOST_TERMS):
            if k >= logs.size:
                counts = np.arange(max(64, 2 * logs.size))
                logs = np.asarray(self.log_probability(counts), dtype=np.float64)
            power = k * log_c if k else 0.0
            ratio = power - math.lgamma(k + 1) - c - logs[k]  # log of |q / p|
            sign = np.where(c < 0, -1.0, 1.0) if k % 2 else 1.0
            near = np.abs(sign * np.exp(np.minimum(ratio, 30.0)) - 1)
            with np.errstate(divide="ignore"):
                gap = np.where(ratio > 30, ratio, np.log(near))
            log_total = np.logaddexp(log_total, 2 * gap + logs[k])
            rest -= math.exp(logs[k])
            term = 2 * ratio + logs[k]  # log of q^2 / p
            # the q are negligible from here on, and the remaining p add up to ``rest``
            done = (term < last) & (term < log_total - 40) | (term < -90)
            if k > first_end and done.all():
                if rest > 1e-14:
                    log_total = np.logaddexp(log_total, math.log(rest))
                return np.logaddexp(0.0, log_total)
            last = term
        return np.where(done, np.logaddexp(0.0, log_total), np.inf)

    def sum_of_log_excesses(self, columns: Columns) -> np.ndarray:
        """Return the sum of ``log_excess`` over the coordinates for all pairs of rows.

        Parameters
        ----------
        columns : iterable of tuple of (ndarray, ndarray)
            For each coordinate, its values in the n_X queries and in the n_Y keys.

        Returns
        -------
        total : ndarray of shape (n_X, n_Y)
            Sums over the coordinates.
        """
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

    def log_probability(self, counts: np.ndarray) -> np.ndarray:
        log_factorials = special.gammaln(counts + 1)
        return counts * math.log(self.lambda_) - self.lambda_ - log_factorials

    def log_weights(self, counts: np.ndarray) -> np.ndarray | float:
        return 0.5 * self.lambda_ * len(counts)

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

    def log_probability(self, counts: np.ndarray) -> np.ndarray:
        return math.log(self.p) + counts * math.log1p(-self.p)

    def log_weights(self, counts: np.ndarray) -> np.ndarray | float:
        log_factorials = special.gammaln(counts + 1).sum(axis=0)
        return -0.5 * log_factorials - 0.5 * len(counts) * math.log(self.p)

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
        log_weights = self.law.log_weights(counts)
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
