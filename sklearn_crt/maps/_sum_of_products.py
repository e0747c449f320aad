"""Base maps mixed with random coefficients: hybrid random features."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..frequencies import JointFrequencies
from ..rows import UnitRows
from ._anchored import AnchoredMap
from ._base import FeatureMap, FrequencyMap, LogFeatures
from ._clustered import ClusteredMap
from ._complex_exponential import ComplexExponentialMap
from ._diagonal_exponential import DiagonalExponentialMap
from ._exponential import ExponentialMap
from ._gaussian import GaussianKernel
from ._parts import log_features_of, on_rows, raw, raw_pair, write_features
from ._positive import PositiveMap
from ._radial import GaussianRadial
from ._terms import (
    Term,
    exponents,
    mantissas,
    terms_of,
    write_exponents,
    write_products,
)
from ._trigonometric import TrigonometricMap

_OF_THE_GAUSSIAN_KERNEL = (
    AnchoredMap,
    ClusteredMap,
    ComplexExponentialMap,
    DiagonalExponentialMap,
    ExponentialMap,
    PositiveMap,
)


@dataclass(frozen=True, eq=False)
class SumOfProductsMap(FeatureMap):
    r"""The map of :math:`\sum_k \lambda_k K_k + (1 - \sum_k \lambda_k) K_{last}`.

    All the maps are independent. Their raw rows are the rows of ``frame``.

    Attributes
    ----------
    bases : tuple of FeatureMap
        Those of the kernels K.
    coefficients : tuple of FeatureMap
        Those of :math:`\lambda_k - a_k`, one less.
    constants : tuple of float
        The :math:`a_k`.
    shared : bool, default=False
        Whether base maps of one law have the same frequencies.
    factor : GaussianKernel, default=GaussianKernel()
        The kernel, where the bases are those of the Gaussian kernel; it says whether
        the estimate is multiplied by the row factors of the softmax kernel.
    spare : FeatureMap or None, default=None
        A further map of the last kernel in columns that are left.
    spare_weight : float, default=0.0
        Weight of its estimate.
    """

    bases: tuple[FeatureMap, ...]
    coefficients: tuple[FeatureMap, ...]
    constants: tuple[float, ...]
    shared: bool = False
    factor: GaussianKernel = field(default_factory=GaussianKernel)
    spare: FeatureMap | None = None
    spare_weight: float = 0.0

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The columns of the products, in their order."""
        counts = [part.n_components for part in self.coefficients]
        widths = [part.n_components for part in self.bases]
        terms = terms_of(self.constants, counts, widths)
        if self.spare is None:
            return tuple(terms)
        main, scale = (1 - self.spare_weight) ** 0.5, self.spare_weight**0.5
        terms = [term._replace(scale=main * term.scale) for term in terms]
        start = terms[-1].columns.stop
        columns = slice(start, start + self.spare.n_components)
        return (*terms, Term(len(self.bases), None, scale, 1, columns, 1))

    @property
    def frequencies(self) -> JointFrequencies:
        """Those of the maps: the last base first, then coefficients."""
        parts = (*self.bases[::-1], *self.coefficients)
        known = [part for part in parts if hasattr(part, "frequencies")]
        return JointFrequencies([part.frequencies for part in known])

    @property
    def _bases_and_spare(self) -> tuple[FeatureMap, ...]:
        return self.bases if self.spare is None else (*self.bases, self.spare)

    @property
    def parts(self) -> list[FeatureMap]:
        """All the maps that it is made of."""
        return [*self._bases_and_spare, *self.coefficients]

    @property
    def symmetric(self) -> bool:
        same = all(part.symmetric for part in self.parts)
        return same and all(term.key_sign > 0 for term in self.terms)

    @property
    def variance_is_exact(self) -> bool:
        known = len(self.bases) == 1 or not self.shared or self._covariance_is_known
        return known and all(part.variance_is_exact for part in self.parts)

    def frequency_index(self) -> None:
        """Return None: most columns are products of two frequencies."""
        return None

    # ----------------------------------------------------------------- features
    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        unit = raw(rows)
        bases, coefficients = (
            [log_features_of(part, unit, key) for part in side]
            for side in (self._bases_and_spare, self.coefficients)
        )
        return self._log_products(rows, bases, coefficients, key, out)

    def _log_products(
        self,
        rows: UnitRows,
        bases: list[LogFeatures],
        coefficients: list[LogFeatures],
        key: bool,
        out: np.ndarray,
    ) -> LogFeatures:
        write_products(self.terms, mantissas(bases), mantissas(coefficients), key, out)
        factor = self.factor.log_row_factor(rows)
        logs = exponents(bases), exponents(coefficients)
        if all(log is None for side in logs for log in side):
            return out, factor
        total = np.empty_like(out)
        write_exponents(self.terms, *logs, total)
        return out, total if factor is None else total + factor

    def features(self, rows: UnitRows, out: np.ndarray, *, key: bool = False) -> None:
        # exponentials of the columns of the maps, not of their products, unless one
        # could be too large and the other too small
        unit, factor = raw(rows), self.factor.log_row_factor(rows)
        coefficients = [log_features_of(part, unit, key) for part in self.coefficients]
        if any(exponent is not None for _, exponent in coefficients):
            bases = [log_features_of(part, unit, key) for part in self._bases_and_spare]
            _, exponent = self._log_products(rows, bases, coefficients, key, out)
            assert exponent is not None
            out *= np.exp(np.where(out == 0, -np.inf, exponent))
            return
        if len(self.terms) == 1:
            _write(self.bases[0], unit, out, key, factor)
            return
        columns = []
        for part in self._bases_and_spare:
            columns.append(np.empty((out.shape[0], part.n_components), out.dtype))
            _write(part, unit, columns[-1], key, factor)
        write_products(self.terms, columns, mantissas(coefficients), key, out)

    def estimate(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        if len(self.terms) > 1 or not isinstance(self.bases[0], ClusteredMap):
            return super().estimate(X, Y)
        kernel = on_rows(self.bases[0], "estimate", *raw_pair(X, Y))
        with np.errstate(divide="ignore", over="ignore"):
            log_size = np.log(np.abs(kernel)) + self.factor.log_pair_factor(X, Y)
            return np.copysign(np.exp(log_size), kernel)

    # ------------------------------------------------------------------- values
    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        if all(map(_is_gaussian, self._bases_and_spare)):
            return self.factor.values(X, Y)
        pair = raw_pair(X, Y)
        means, _ = self.coefficient_moments(*pair)
        kernels = [on_rows(base, "kernel", *pair) for base in self.bases]
        kernel = sum(mean * k for mean, k in zip(means, kernels, strict=True))
        if self.spare is not None:
            gap = on_rows(self.spare, "kernel", *pair) - kernel
            kernel = kernel + self.spare_weight * gap
        return kernel * np.exp(self.factor.log_pair_factor(X, Y))

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        pair, weight = raw_pair(X, Y), self.spare_weight
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            total = _product((1 - weight) ** 2, self._main_variance(*pair))
            if self.spare is not None and weight > 0:
                spare = on_rows(self.spare, "variance", *pair)
                total = total + weight**2 * spare
            return self.factor.variance(total, np.zeros_like(total), X, Y)

    def coefficient_moments(
        self, X: UnitRows, Y: UnitRows
    ) -> tuple[list[np.ndarray | float], list[np.ndarray | float]]:
        """Return means and variances of all the coefficients.

        Parameters
        ----------
        X, Y : UnitRows
            Raw rows of the parts.

        Returns
        -------
        means, variances : list of float or ndarray of shape (n_X, n_Y)
            One for each base; the last has what remains of one.
        """
        means: list[np.ndarray | float] = []
        variances: list[np.ndarray | float] = []
        for part, constant in zip(self.coefficients, self.constants, strict=True):
            means.append(constant + on_rows(part, "kernel", X, Y))
            variances.append(on_rows(part, "variance", X, Y))
        return [*means, 1.0 - sum(means)], [*variances, sum(variances)]

    def mean_variances(self, X: UnitRows, Y: UnitRows) -> tuple[float, float]:
        """Return the means of lambda^2 Var K and of Var(lambda) Var K, all bases.

        Parameters
        ----------
        X, Y : UnitRows
            Raw rows of the parts.

        Returns
        -------
        fixed, falling : float
            What more columns of coefficients leave, and what they lower.
        """
        fixed = falling = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            moments = zip(self.bases, *self.coefficient_moments(X, Y), strict=True)
            for base, mean, spread in moments:
                variance = on_rows(base, "variance", X, Y)
                fixed += float(np.mean(mean**2 * variance))
                falling += float(np.mean(spread * variance))
        return fixed, falling

    def _main_variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        """Return the variance without the spare map, without row factors."""
        means, variances = self.coefficient_moments(X, Y)
        total = np.zeros((X.shape[0], Y.shape[0]))
        with np.errstate(over="ignore", invalid="ignore"):
            for base, mean, variance in zip(self.bases, means, variances, strict=True):
                second = mean**2 + variance
                total += _product(second, on_rows(base, "variance", X, Y))
            if not all(map(_is_gaussian, self.bases)):
                *kernels, last = (on_rows(base, "kernel", X, Y) for base in self.bases)
                for kernel, variance in zip(kernels, variances[:-1], strict=True):
                    total += _product(variance, (kernel - last) ** 2)
        if self.shared and self._covariance_is_known:
            phases = X.sq_norms - Y.sq_norms.T
            product = means[0] * means[1] - variances[0]  # E lam (1 - lam)
            kernel = on_rows(self.bases[0], "kernel", X, Y)
            common = kernel**2 * 2 * np.sin(phases / 2) ** 2 * product
            known = [base for base in self.bases if isinstance(base, FrequencyMap)]
            n_frequencies = max(base.n_frequencies for base in known)
            total = np.maximum(total - 2 / n_frequencies * common, 0)
        return total

    @property
    def _covariance_is_known(self) -> bool:
        """Whether base maps with the same frequencies have a closed form."""
        first, last = self.bases[0], self.bases[-1]
        return (
            len(self.bases) == 2
            and type(first) is PositiveMap
            and type(last) is TrigonometricMap
            and bool(np.all(first.A == 0))
            and isinstance(last.radial, GaussianRadial)
            and all(
                base.n_pairs == 0 and base.n_components % 2 == 0
                for base in (first, last)
            )
        )


def _is_gaussian(part: FeatureMap) -> bool:
    """Whether a part is a map of the Gaussian kernel of its raw rows."""
    if isinstance(part, TrigonometricMap):
        plain = isinstance(part.radial, GaussianRadial) and part.metric_factor is None
    else:
        plain = isinstance(part, _OF_THE_GAUSSIAN_KERNEL)
    if not plain or np.any(part.frame.sigma != 1):
        return False
    gaussian = getattr(part, "gaussian", None)
    return gaussian is None or not gaussian.softmax


def _write(
    part: FeatureMap,
    rows: UnitRows,
    out: np.ndarray,
    key: bool,
    log_factor: np.ndarray | None,
) -> None:
    """Write the features of a part, for its raw rows."""
    rows = part.frame.inside(rows)
    if isinstance(part, ClusteredMap):
        part.scaled_features(rows, out, key=key, log_factor=log_factor)
    else:
        write_features(part, rows, out, key, log_factor)


def _product(left: float | np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left * right, where zero times infinity is zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = left * right
        if np.isfinite(product.sum()):
            return product
        return np.where((left == 0) | (right == 0), 0.0, product)
