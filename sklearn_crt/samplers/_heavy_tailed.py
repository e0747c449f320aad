"""What the Laplacian, Matern and exponential-power maps share."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod

import numpy as np

from ..frequencies import Projection
from ..utils._metric import metric_factor
from ._trigonometric import TrigonometricSampler

_LIGHT_TAIL = 0.3  # least index of the tail without a warning
_FEW_FEATURES = 32  # products of Hadamard matrices have inner products of exactly 0
_LARGE_PHASE = 2.0**20  # from here float32 leaves less than three digits of a phase


class HeavyTailedSampler(TrigonometricSampler):
    """Sines and cosines for kernels whose frequencies have heavy tails.

    Adds ``metric`` and ``random_phase``, and care for large phases. A subclass states
    ``_log_profile``, ``_radial_law``, ``_gap`` and ``_tail_index``.
    """

    _parameter_constraints: dict = {
        **TrigonometricSampler._parameter_constraints,
        "metric": ["array-like", None],
        "random_phase": ["boolean"],
    }

    def _fit_parameters(self, moments, key_moments):
        self._factor = metric_factor(self.metric, self.n_features_in_)

    def _draw_projection(self, n_features, rng):
        index = self._tail_index()
        if index < _LIGHT_TAIL:
            warnings.warn(
                f"A norm |w| of {type(self).__name__} exceeds R with a chance of about "
                f"R^-{index:.2g}, so many phases w.x are beyond what a float resolves "
                "(2^24 in float32, 2^53 in float64), and their sines are noise; norms "
                f"are cut at 1e15. Use float64, {self._tail_advice}, or the exact "
                "kernel of sklearn_crt.kernels.",
                RuntimeWarning,
                stacklevel=6,
            )
        if index < 2 and not self._coupling().exact and n_features <= _FEW_FEATURES:
            raise ValueError(
                f"coupling={self.coupling!r} has directions that are only nearly "
                f"uniform, which biases {type(self).__name__} with up to "
                f"{_FEW_FEATURES} columns, got X with {n_features}: its large "
                "frequencies resolve the difference; use 'orthogonal'."
            )
        projection = super()._draw_projection(n_features, rng)
        if self._factor is None:
            return projection
        return Projection(self._factor @ projection.to_dense())

    def _phases(self, rows):
        phases = rows.projection
        if phases.dtype == np.float32:
            # w.x in float64, less multiples of 2 pi; for few frequencies, if any
            largest = math.sqrt(rows.sq_norms.max(initial=0))
            norms = np.sqrt(rows.frequencies.sq_norms)
            suspects = np.flatnonzero(norms * largest > _LARGE_PHASE)
            if suspects.size:
                exact = rows.project_in_double(suspects)
                folded = np.remainder(exact, 2 * math.pi)
                small = np.abs(exact) <= _LARGE_PHASE
                phases[:, suspects] = np.where(small, phases[:, suspects], folded)
        return phases

    def _unit_pair(self, X, Y):
        X, Y = super()._unit_pair(X, Y)
        queries = X.times(self._factor)
        return queries, queries if Y is X else Y.times(self._factor)

    def _profile(self, r):
        return np.exp(self._log_profile(r))

    def _pair_variance(self, r):
        # (1 + k(2r) - 2 k(r)^2) / 2, without cancellation for small r
        return 0.5 * np.expm1(self._log_profile(2 * r)) - np.expm1(
            2 * self._log_profile(r)
        )

    def _has_closed_form(self):
        coupling = self._coupling()
        return coupling.independent_norms and coupling.cosine(self.n_features_in_) == 0

    def _orthogonality_gap(self, r):
        return self._gap(self.n_features_in_)(r)

    # ------------------------------------------------------------------- hooks
    _tail_advice = "another kernel"

    @abstractmethod
    def _tail_index(self) -> float:
        """Return the b of P(|w| > R) ~ R^-b; infinity for light tails."""

    @abstractmethod
    def _log_profile(self, r):
        """Return the log of the kernel at distances r, at unit bandwidth."""

    @abstractmethod
    def _gap(self, n_features):
        """Return the function of r that says what an orthogonal pair saves."""
