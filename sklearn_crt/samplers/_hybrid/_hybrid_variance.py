"""What a hybrid estimates, and how well: from the kernels and variances of its maps."""

from __future__ import annotations

import numpy as np
from sklearn.utils.extmath import row_norms
from sklearn.utils.validation import check_is_fitted

from ._combine import constant_of, spread_rows
from ._gaussian import GaussianKernelMixin
from ._positive_pair import PositivePairSampler
from ._trig_rbf import TrigRBFSampler

_PAIR_ROWS = 32  # rows of each side on which variances are averaged


class HybridVarianceMixin:
    """The kernel and the variance of fitted maps, which are independent."""

    def _kernel(self, X, Y):
        kernels = {getattr(type(base), "_kernel", None) for base in self.bases_}
        if self.spare_ is not None:
            kernels.add(getattr(type(self.spare_), "_kernel", None))
        if kernels == {GaussianKernelMixin._kernel}:
            return super()._kernel(X, Y)
        pair = row_pair(X.matrix, Y.matrix)
        means, _ = _lambda_moments(self.coefficients_, *pair)
        kernels = [base.exact_kernel(*pair) for base in self.bases_]
        kernel = sum(mean * k for mean, k in zip(means, kernels, strict=True))
        if self.spare_ is not None:
            gap = self.spare_.exact_kernel(*pair) - kernel
            kernel = kernel + self.spare_weight_ * gap
        return kernel * np.exp(self._log_pair_factor(X, Y))

    def _variance(self, X, Y):
        pair, weight = row_pair(X.matrix, Y.matrix), self.spare_weight_
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            total = _product((1 - weight) ** 2, self._main_variance(*pair))
            if weight > 0:
                total = total + weight**2 * self.spare_.kernel_variance(*pair)
            return np.exp(np.log(total) + 2 * self._log_pair_factor(X, Y))

    def _main_variance(self, *pair):
        """Return the variance without the spare map, without row factors."""
        means, variances = _lambda_moments(self.coefficients_, *pair)
        kernels = [base.exact_kernel(*pair) for base in self.bases_]
        total = 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            for base, mean, variance in zip(self.bases_, means, variances, strict=True):
                second = mean**2 + variance
                total = total + _product(second, base.kernel_variance(*pair))
            for kernel, variance in zip(kernels[:-1], variances[:-1], strict=True):
                total = total + _product(variance, (kernel - kernels[-1]) ** 2)
        if self._covariance_is_known():
            norms = [row_norms(Z, squared=True) for Z in pair]
            phases = norms[0][:, None] - norms[-1]
            product = means[0] * means[1] - variances[0]  # E lam (1 - lam)
            common = kernels[0] ** 2 * 2 * np.sin(phases / 2) ** 2 * product
            n_frequencies = max(base._n_frequencies for base in self.bases_)
            total = np.maximum(total - 2 / n_frequencies * common, 0)
        return total

    def _covariance_is_known(self):
        """Whether the base maps share frequencies with a closed form."""
        kinds = [type(base) for base in self.bases_]
        return (
            self.shared
            and kinds == [PositivePairSampler, TrigRBFSampler]
            and all(b._n_pairs() == 0 and b.n_components % 2 == 0 for b in self.bases_)
        )

    @property
    def variance_is_exact_(self) -> bool:
        """Whether ``kernel_variance`` is that of the couplings in use."""
        check_is_fitted(self)
        known = len(self.bases_) == 1 or not self.shared or self._covariance_is_known()
        parts = [*self.bases_, *self.coefficients_, self.spare_]
        return known and all(getattr(p, "variance_is_exact_", True) for p in parts)

    def _best_spare_weight(self, samples):
        """Return the weight of the spare map that makes the mean variance least."""
        X, Y = few_rows(samples)
        with np.errstate(over="ignore", invalid="ignore"):
            main = np.mean(self._main_variance(X, Y))
            weight = main / (main + np.mean(self.spare_.kernel_variance(X, Y)))
        return float(weight) if np.isfinite(weight) else 0.0


def _product(left, right):
    """Return left * right, where zero times infinity is zero."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where((left == 0) | (right == 0), 0.0, left * right)


def row_pair(x, y):
    """Return the arguments for the kernel of two sets of rows, one if they are one."""
    return (x,) if y is x else (x, y)


def few_rows(samples):
    """Return rows of both sides, other rows of the two where there is one sample."""
    sides = (samples[0], 0.25), (samples[-1], 0.75)
    return [spread_rows(*sample, _PAIR_ROWS, offset) for sample, offset in sides]


def _lambda_moments(coefficients, *pair):
    """Return means and variances of all the coefficients, that of the last base too."""
    means = [constant_of(part) + part.exact_kernel(*pair) for part in coefficients]
    variances = [part.kernel_variance(*pair) for part in coefficients]
    return [*means, 1.0 - sum(means)], [*variances, sum(variances)]


def mean_variances(bases, coefficients, *pair):
    """Return the means of lambda^2 Var K and of Var(lambda) Var K, all bases."""
    with np.errstate(over="ignore", invalid="ignore"):
        kernel_variances = [base.kernel_variance(*pair) for base in bases]
        means, variances = _lambda_moments(coefficients, *pair)
        fixed = sum(np.mean(m**2 * v) for m, v in zip(means, kernel_variances))
        falling = sum(np.mean(s * v) for s, v in zip(variances, kernel_variances))
    return float(fixed), float(falling)
