"""Positive features exp(A|w|^2 + B w.x - |x|^2), for real A."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from ..utils._docs import fill_doc
from ._conformity import positive_gap
from ._gaussian import GaussianKernelMixin
from ._isotropic import IsotropicSampler


def optimal_A(q: float, n_features: int) -> float:
    """Return the A of least mean log second moment for the mean q of |x + y|^2.

    With rho = 1 / (1 - 8A) it is the positive root of 2 q rho^2 + (2q + d) rho = d
    (CRT theorem 3.3), written so that nothing cancels for small or large q.
    """
    d = n_features
    root = math.hypot(2 * q + d, math.sqrt(8 * d * q))
    if 2 * q > d:
        return -(2 * q - d + root) / (16 * d)
    return -q / (d - 2 * q + root)


def optimal_for(A: float, n_features: int) -> float:
    """Return the mean q of |x + y|^2 for which A is the optimal one."""
    rho = 1 / (1 - 8 * A)
    return -4 * n_features * A / (1 + rho)


@fill_doc
class ExponentialSampler(GaussianKernelMixin, IsotropicSampler):
    r"""Positive features of the Gaussian or softmax kernel, for a real A <= 0.

    .. math:: f(w, x) = (1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2)

    A subclass states ``_A``, the value of A.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a frequency.
    %(coupling)s
    %(center)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s
    """

    _parameter_constraints: dict = {
        **IsotropicSampler._parameter_constraints,
        **GaussianKernelMixin._parameter_constraints,
        "center": ["boolean"],
    }

    def __init__(
        self,
        *,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        center=True,
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    @abstractmethod
    def _A(self) -> float:
        """The coefficient of the squared norm of the frequency."""

    def _center(self):
        return self.center_ if self.center else None

    def _fit_parameters(self, moments, key_moments):
        center = 0.5 * (moments.mean + key_moments.mean)
        self.center_ = center if self.center else np.zeros_like(center)

    def _mean_squares(self, moments, key_moments):
        """Return the means of |x + y|^2 and |x - y|^2 over pairs of centred rows."""
        scale, spread = np.square(self.sigma_), moments.variance + key_moments.variance
        sums = moments.mean + key_moments.mean - 2 * self.center_
        differences = moments.mean - key_moments.mean
        return tuple(
            float(np.sum(scale * (spread + offset**2)))
            for offset in (sums, differences)
        )

    def _log_norm_weight(self):
        # beyond, angles that follow the norms raise the variance
        if optimal_for(self._A, self.n_features_in_) > 0.5:
            return None
        return lambda norms: 2 * self._A * norms**2

    def _affine(self, frequencies):
        A, d = self._A, self.n_features_in_
        constant = 0.25 * d * math.log1p(-4 * A) - 0.5 * math.log(self._n_frequencies)
        return math.sqrt(1 - 4 * A), A * frequencies.sq_norms + constant

    def _features(self, rows, out, key):
        row_term = -rows.sq_norms
        if self.kernel == "softmax":
            row_term = row_term + self._log_row_factor(rows)
        exponent = out[:, : self._n_frequencies]
        return None, rows.affine(*self._affine(rows.frequencies), row_term, exponent)

    def _variance(self, X, Y):
        d, m, rho = self.n_features_in_, self._n_frequencies, 1 / (1 - 8 * self._A)
        _, q, sq_distances = X.pair_statistics(Y)
        # E2 / K^2 = ((1 + rho) / (2 sqrt rho))^d exp(rho q), written to keep q -> 0
        root = math.sqrt(rho)
        excess = d * math.log1p((1 - root) ** 2 / (2 * root)) + rho * q
        saved = 0.0
        if self._n_pairs() > 0 and self._has_closed_form():
            saved = self._n_pairs() / m * positive_gap(q, d, self._cosine())
        # log of (expm1(excess) - saved) / m, which may overflow only at the end
        log_first = excess + np.log(-np.expm1(-np.maximum(excess, 1e-300)))
        with np.errstate(divide="ignore"):
            share = np.log1p(-np.minimum(saved * np.exp(-log_first), 1))
            log_variance = log_first + share - math.log(m) - sq_distances
        with np.errstate(over="ignore"):
            return np.exp(log_variance + 2 * self._log_pair_factor(X, Y))
