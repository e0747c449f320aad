"""Monomials of the coordinates, with random integer exponents."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from numbers import Real

import numpy as np
from scipy import special

from .._compat import Interval
from ..frequencies import Projection
from ..utils._docs import fill_doc
from ._base import BaseFeatureSampler
from ._gaussian import GaussianKernelMixin, log_expm1


class Counts(Projection):
    """Integer frequencies, as floats, with what signs, zeros and weights need."""

    @cached_property
    def parities(self):
        """The counts modulo 2, as frequencies."""
        return Projection(np.mod(self.weights, 2))

    @cached_property
    def supports(self):
        """One where a count is not zero, as frequencies."""
        return Projection((self.weights > 0).astype(self.weights.dtype))

    @cached_property
    def log_factorials(self):
        """Sum over l of log(w_l!) for each frequency w, in float64."""
        return special.gammaln(self.weights.astype(np.float64) + 1).sum(axis=0)


@fill_doc
class DiscreteSampler(GaussianKernelMixin, BaseFeatureSampler):
    r"""Features from monomials of integer frequencies, coordinates independent.

    .. math:: f(w, x) = e^{-|x|^2/2} \prod_l \frac{x_l^{w_l}}{\sqrt{w_l!\, p(w_l)}}

    with 0^0 = 1, where p is the law of the counts. A subclass sets the parameter of
    the law in ``_fit_law`` and states ``_draw_counts``, ``_scale`` and
    ``_log_weights``, which together say 1 / sqrt(w! p(w)), and ``_log_excess``.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a frequency.
    %(positive)s
    %(center_discrete)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        **GaussianKernelMixin._parameter_constraints,
        "positive": ["boolean"],
        "epsilon": [Interval(Real, 0, None, closed="neither")],
        "center": ["boolean"],
    }
    _law_is_fitted = True

    def __init__(
        self,
        *,
        sigma="scale",
        n_components=100,
        positive=False,
        epsilon=1e-8,
        center=True,
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.positive = positive
        self.epsilon = epsilon
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _center(self):
        return self.center_ if self.positive or self.center else None

    def _fit_parameters(self, moments, key_moments):
        center = 0.5 * (moments.mean + key_moments.mean)
        if self.positive:
            minimum = np.minimum(moments.minimum, key_moments.minimum)
            minimum = np.where(np.isfinite(minimum), minimum, 0)  # without any row
            center = minimum - self.epsilon / np.asarray(self.sigma_)
        elif not self.center:
            center = np.zeros_like(center)
        self.center_ = center
        self._fit_law(moments, key_moments)

    def _draw_projection(self, n_features, rng):
        # frequency after frequency, so the first of them need no others
        counts = self._draw_counts((self._n_frequencies, n_features), rng)
        return Counts(counts.T.astype(np.float64))

    def _raised(self, x):
        """Return coordinates, at least epsilon where ``positive``."""
        return np.maximum(x, self.epsilon) if self.positive else x

    def _log_magnitude(self, x):
        """Return log|x / scale|, 0 for x = 0."""
        x = np.abs(self._raised(x))
        return np.log(np.where(x == 0, self._scale, x)) - math.log(self._scale)

    def _features(self, rows, out, key):
        counts = rows.frequencies
        exponent = rows.map(self._log_magnitude, counts).projection
        log_weights = self._log_weights(counts) - 0.5 * math.log(self.n_components)
        exponent += np.asarray(log_weights, dtype=exponent.dtype)
        row_term = -0.5 * rows.map(self._raised).sq_norms
        if self.kernel == "softmax":
            row_term = row_term + self._log_row_factor(rows)
        exponent += row_term
        if self.positive:
            return None, exponent

        zeros = rows.map(lambda x: (x == 0).astype(x.dtype), counts.supports)
        if zeros.sq_norms.any():
            exponent[zeros.projection > 0.5] = -np.inf
        negatives = rows.map(lambda x: (x < 0).astype(x.dtype), counts.parities)
        changes = negatives.projection
        return 1 - 2 * (changes - 2 * np.floor(changes / 2)), exponent

    def _variance(self, X, Y):
        log_ratio = sq_distances = 0.0
        for x, y in zip(X.columns(), Y.columns(), strict=True):
            x, y = self._raised(x), self._raised(y)
            log_ratio = log_ratio + self._log_excess(np.multiply.outer(x, y))
            sq_distances = sq_distances + np.subtract.outer(x, y) ** 2
        log_variance = log_expm1(log_ratio) - math.log(self.n_components) - sq_distances
        with np.errstate(over="ignore"):
            return np.exp(log_variance + 2 * self._log_pair_factor(X, Y))

    # ------------------------------------------------------------------- hooks
    @property
    @abstractmethod
    def _scale(self) -> float:
        """What coordinates are divided by, near their size: powers stay small."""

    @abstractmethod
    def _fit_law(self, moments, key_moments):
        """Set the fitted parameter of the law of the counts; ``center_`` is set."""

    @abstractmethod
    def _draw_counts(self, size, rng):
        """Draw counts in C order, such that smaller draws begin larger ones."""

    @abstractmethod
    def _log_weights(self, counts):
        """Return the log of prod_l scale^w_l / sqrt(w_l! p(w_l)), one a frequency."""

    @abstractmethod
    def _log_excess(self, products):
        """Return log(E2 / K^2) of one coordinate for products x_l y_l, >= 0."""
