"""Sums of products of maps, with which hybrids combine several estimates."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..._compat import cached_property
from ...arrays.loops import exp_features
from ...arrays.namespaces import Array, constant, namespace_of
from ...frequencies import JointFrequencies
from ...rows import Inputs
from ..anchored import AnchoredMap
from ..base import FeatureMap, FrequencyMap, LogFeatures, mantissa_and_exponent
from ..exponential import ExponentialMap
from ..quadratic import IsotropicQuadratic
from ..radial_kernels import Gaussian, GaussianKernel
from ..trigonometric import TrigonometricMap
from .clustered import ClusteredMap
from .parts import ComposedMap, joined_frequencies, of_part


class Term(NamedTuple):
    """Product of a base map with a coefficient map, or with a constant."""

    base: int
    coefficient: int | None
    scale: float
    key_sign: int


@dataclass(frozen=True, eq=False)
class SumOfProductsMap(ComposedMap):
    r"""The map of :math:`\sum_k \lambda_k K_k + (1 - \sum_k \lambda_k) K_{last}`.

    For a sum of kernels, the features are concatenated; for a product of kernels, the
    row-wise outer product of the features is computed. A coefficient is a constant plus
    the estimate of a map, :math:`\lambda_k = a_k + r_{1k} \cdot r_{2k}`. Columns that
    the products leave unused are filled by an additional map, ``spare``, which is
    weighted by its proportion of the columns.
    """

    bases: tuple[FeatureMap, ...]
    coefficients: tuple[FeatureMap, ...]
    constants: tuple[float, ...]
    shared: bool = False
    spare: FeatureMap | None = None
    factor: GaussianKernel = field(default_factory=GaussianKernel)

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """The products, in the order of their columns."""
        last, plain = len(self.bases) - 1, [*self.constants, 1 - sum(self.constants)]
        wanted: list[tuple[int, int | None, float]] = [
            (base, None, weight) for base, weight in enumerate(plain) if weight != 0
        ]
        for k in range(last):
            wanted += [(k, k, 1.0), (last, k, -1.0)]
        share = self.spare_weight
        wanted = [(base, k, (1 - share) * weight) for base, k, weight in wanted]
        if self.spare is not None:
            wanted.append((last + 1, None, share))
        return tuple(
            Term(base, part, abs(weight) ** 0.5, 1 if weight > 0 else -1)
            for base, part, weight in wanted
        )

    @property
    def spare_weight(self) -> float:
        """Weight of the map ``spare`` in the estimate."""
        return (
            0.0 if self.spare is None else self.spare.n_components / self.n_components
        )

    @property
    def _bases_and_spare(self) -> tuple[FeatureMap, ...]:
        return self.bases if self.spare is None else (*self.bases, self.spare)

    @property
    def parts(self) -> list[Any]:
        return [*self._bases_and_spare, *self.coefficients]

    @property
    def frequencies(self) -> JointFrequencies:
        """Frequencies of the base maps in reverse order, then of the coefficients."""
        return joined_frequencies([*self.bases[::-1], *self.coefficients])

    @property
    def symmetric(self) -> bool:
        same = all(part.symmetric for part in self.parts)
        return same and all(term.key_sign > 0 for term in self.terms)

    @property
    def variance_is_exact(self) -> bool:
        known = len(self.bases) == 1 or not self.shared or self._covariance_is_known
        return known and super().variance_is_exact

    # ----------------------------------------------------------------- features
    @cached_property
    def tables(self) -> tuple[Any, ...]:
        return self._bases_and_spare, self.coefficients, self.constants

    def _of_parts(self, rows: Inputs, key: bool) -> Iterator[list[LogFeatures]]:
        """Yield the log features of the base maps and of the coefficient maps."""
        unit = rows.part_of_map()
        for side in self.tables[:2]:
            inside = [(part, part.frame.inside(unit)) for part in side]
            yield [part.log_features(some, key=key) for part, some in inside]

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        xp = namespace_of(rows.zeros())
        bases, coefficients = (
            [
                xp.broadcast_arrays(*mantissa_and_exponent(features, rows))
                for features in side
            ]
            for side in self._of_parts(rows, key)
        )
        one = mantissa_and_exponent((None, None), rows)
        mantissas, exponents = [], []
        for base, part, scale, sign in self.terms:
            scale = scale * sign if key else scale
            factor = one if part is None else coefficients[part]
            mantissa = _outer(xp.multiply, scale * factor[0], bases[base][0])
            exponent = _outer(xp.add, factor[1], bases[base][1])
            # define zero times infinity as zero
            exponent = xp.where(
                mantissa == 0, xp.full_like(exponent, -math.inf), exponent
            )
            mantissas.append(xp.broadcast_arrays(mantissa, exponent)[0])
            exponents.append(exponent)
        exponent = self.factor.plus_row_factor(xp.concat(exponents, axis=-1), rows)
        return xp.concat(mantissas, axis=-1), exponent

    def features(self, rows: Inputs, *, key: bool = False) -> Array:
        # exponentials are computed before the multiplication, which increases the
        # number of columns, unless one factor could overflow and the other underflow
        (bases, parts, _), unit = self.tables, rows.part_of_map()
        coefficients = [p.log_features(p.frame.inside(unit), key=key) for p in parts]
        if any(exponent is not None for _, exponent in coefficients):
            return super().features(rows, key=key)
        factor, columns = self.factor.log_row_factor(rows), []
        for base in bases:
            inside = base.frame.inside(unit)
            if factor is None:
                columns.append(base.features(inside, key=key))
                continue
            mantissa, exponent = base.log_features(inside, key=key)
            # a new array, because exp_features overwrites the exponents
            exponent = factor + (0 if exponent is None else exponent)
            columns.append(exp_features(mantissa, exponent))
        if len(self.terms) == 1 and self.terms[0].scale == 1:  # a single base map
            return columns[0]
        xp, out = namespace_of(columns[0]), rows.output(self.n_components)
        products, start = [], 0
        for k, part, scale, sign in self.terms:
            one = constant(
                (1,) * columns[k].ndim, scale * sign if key else scale, columns[k]
            )
            left = one if part is None else one * coefficients[part][0]
            width = left.shape[-1] * columns[k].shape[-1]
            place = None if out is None else out[..., start : start + width]
            products.append(_outer(xp.multiply, left, columns[k], place))
            start += width
        return xp.concat(products, axis=-1) if out is None else out

    def estimate(self, X: Inputs, Y: Inputs) -> np.ndarray:
        if len(self.terms) > 1 or not isinstance(self.bases[0], ClusteredMap):
            return super().estimate(X, Y)
        kernel = of_part(self.bases[0], "estimate", *_both_sides(X, Y))
        with np.errstate(divide="ignore", over="ignore"):
            log_size = np.log(np.abs(kernel)) + self.factor.log_pair_factor(X, Y)
            return np.copysign(np.exp(log_size), kernel)

    # ------------------------------------------------------------------- values
    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        if all(map(_is_gaussian, self._bases_and_spare)):
            return self.factor.values(X, Y)
        pair = _both_sides(X, Y)
        means, _ = self.coefficient_moments(*pair)
        kernels = [of_part(base, "kernel", *pair) for base in self.bases]
        kernel = sum(mean * k for mean, k in zip(means, kernels, strict=True))
        if self.spare is not None:
            gap = of_part(self.spare, "kernel", *pair) - kernel
            kernel = kernel + self.spare_weight * gap
        return kernel * np.exp(self.factor.log_pair_factor(X, Y))

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        pair, weight = _both_sides(X, Y), self.spare_weight
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            total = (1 - weight) ** 2 * self._gaussian_variance(*pair)
            if self.spare is not None:
                total += weight**2 * of_part(self.spare, "variance", *pair)
            return self.factor.variance(total, np.zeros_like(total), X, Y)

    def coefficient_moments(
        self, X: Inputs, Y: Inputs
    ) -> tuple[list[np.ndarray | float], list[np.ndarray | float]]:
        """Return the means and the variances of all coefficients, (n_X, n_Y) each."""
        means: list[np.ndarray | float] = []
        variances: list[np.ndarray | float] = []
        for part, a in zip(self.coefficients, self.constants, strict=True):
            means.append(a + of_part(part, "kernel", X, Y))
            variances.append(of_part(part, "variance", X, Y))
        return [*means, 1.0 - sum(means)], [*variances, sum(variances)]

    def _gaussian_variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        """Return the variance, ignoring the row factors and the map ``spare``."""
        means, variances = self.coefficient_moments(X, Y)
        total = np.zeros((X.shape[0], Y.shape[0]))
        with np.errstate(over="ignore", invalid="ignore"):
            for base, mean, variance in zip(self.bases, means, variances, strict=True):
                second = mean**2 + variance
                total += _product_without_nan(second, of_part(base, "variance", X, Y))
            if not all(map(_is_gaussian, self.bases)):
                *kernels, last = (of_part(base, "kernel", X, Y) for base in self.bases)
                for kernel, variance in zip(kernels, variances[:-1], strict=True):
                    total += _product_without_nan(variance, (kernel - last) ** 2)
        if self.shared and self._covariance_is_known:
            phases = X.sq_norms - Y.sq_norms.T
            product = means[0] * means[1] - variances[0]  # E lam (1 - lam)
            kernel = of_part(self.bases[0], "kernel", X, Y)
            common = kernel**2 * 2 * np.sin(phases / 2) ** 2 * product
            known = [base for base in self.bases if isinstance(base, FrequencyMap)]
            n_frequencies = max(base.n_frequencies for base in known)
            total = np.maximum(total - 2 / n_frequencies * common, 0)
        return total

    @property
    def _covariance_is_known(self) -> bool:
        """Whether the covariance of base maps that share frequencies is known."""
        first, last = self.bases[0], self.bases[-1]
        return (
            len(self.bases) == 2
            and isinstance(first, ExponentialMap)
            and isinstance(last, TrigonometricMap)
            and first.quadratic == IsotropicQuadratic(0.0)
            and isinstance(last.radial, Gaussian)
            and all(
                base.n_pairs == 0 and base.columns.n_single == 0
                for base in (first, last)
            )
        )


def _is_gaussian(part: FeatureMap) -> bool:
    """Return whether a part estimates the Gaussian kernel of the rows it receives."""
    if isinstance(part, TrigonometricMap):
        plain = isinstance(part.radial, Gaussian) and part.shape_factor is None
    else:
        plain = isinstance(part, (AnchoredMap, ClusteredMap, ExponentialMap))
    if not plain or np.any(part.frame.sigma != 1):
        return False
    gaussian = getattr(part, "gaussian", None)
    return gaussian is None or not gaussian.softmax


def _both_sides(X: Inputs, Y: Inputs) -> tuple[Inputs, Inputs]:
    """Return queries and keys as inputs of the parts; the same object if Y is X."""
    queries = X.part_of_map()
    return queries, queries if Y is X else Y.part_of_map()


def _outer(
    function: Any, left: Array, right: Array, out: np.ndarray | None = None
) -> Array:
    """Apply a function to all pairs of columns of two arrays."""
    # (..., n, a), (..., n, b) -> (..., n, a * b)
    left, right = left[..., :, None], right[..., None, :]
    if out is not None:
        shape = *out.shape[:-1], left.shape[-2], right.shape[-1]
        # this reshape returns a view, because it only splits the last axis
        function(left, right, out=out.reshape(shape))
        return out
    pairs = function(left, right)
    return namespace_of(pairs).reshape(pairs, (*pairs.shape[:-2], -1))


def _product_without_nan(left: float | np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return left * right, with zero times infinity defined as zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        product = left * right
        if np.isfinite(product.sum()):
            return product
        return np.where((left == 0) | (right == 0), 0.0, product)
