"""Sine and cosine pairs, for any radial kernel."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from ._circle import write_cos_sin
from ._isotropic import IsotropicSampler


class TrigonometricSampler(IsotropicSampler):
    r"""Features :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt{m}` of m frequencies.

    The columns are all cosines, then all sines. With an odd number of columns the
    last frequency has one column :math:`\sqrt{2/m} \cos(w \cdot x + b)`, b uniform
    on [0, 2 pi); with ``random_phase`` all frequencies have one. A subclass states
    ``_profile(r)``, the kernel at distance r, and the law of the norm of w.
    """

    random_phase = False  # a parameter of the subclasses that offer it

    @property
    def _features_per_frequency(self):
        return 1 if self.random_phase else 2

    def _layout(self):
        """Return the number of pairs of columns and of single columns."""
        return (
            (0, self.n_components)
            if self.random_phase
            else divmod(self.n_components, 2)
        )

    def frequency_index(self):
        n_pairs, n_single = self._layout()
        pairs = np.arange(n_pairs)
        return np.concatenate([pairs, pairs, n_pairs + np.arange(n_single)])

    def _after_draw(self, rng):
        (phase_rng,) = rng.spawn(1)
        size = self._n_frequencies if self.random_phase else None
        self.phase_ = phase_rng.uniform(0, 2 * math.pi, size=size)

    def _features(self, rows, out, key):
        phases, (n_pairs, n_single) = self._phases(rows), self._layout()
        scale = 1 / math.sqrt(self._n_frequencies)
        if n_single:
            single = phases[:, n_pairs:] + np.asarray(self.phase_, phases.dtype)
            np.multiply(np.cos(single), math.sqrt(2) * scale, out=out[:, 2 * n_pairs :])
        cosines, sines = out[:, :n_pairs], out[:, n_pairs : 2 * n_pairs]
        write_cos_sin(phases[:, :n_pairs], scale, cosines, sines)
        return out, self._log_row_factor(rows)

    def _kernel(self, X, Y):
        return self._profile(self._distances(X, Y))

    def _variance(self, X, Y):
        r = self._distances(X, Y)
        n_pairs, n_single = self._layout()
        total = n_pairs * self._pair_variance(r) if n_pairs else 0.0
        if n_single:
            single = 1 + self._profile(2 * r) / 2 - self._profile(r) ** 2
            total = total + n_single * single
        if self._n_pairs() > 0 and self._has_closed_form():
            total = total - self._n_pairs() * self._orthogonality_gap(r)
        return np.maximum(total, 0) / self._n_frequencies**2

    # ------------------------------------------------------------------- hooks
    def _phases(self, rows):
        """Return w.x, or what differs from it by multiples of 2 pi."""
        return rows.projection

    def _distances(self, X, Y):
        """Return the distances that the kernel depends on."""
        return np.sqrt(X.sq_distances(Y))

    def _log_row_factor(self, rows):
        """Return the logs of factors of the rows, (n_rows, 1), or None for ones."""
        return None

    def _pair_variance(self, r):
        """Return the variance of the estimate from one pair of columns."""
        return (1 + self._profile(2 * r) - 2 * self._profile(r) ** 2) / 2

    def _orthogonality_gap(self, r):
        """Return what one pair in a block saves, where ``_has_closed_form``."""
        raise NotImplementedError

    @abstractmethod
    def _profile(self, r):
        """Return the kernel at distances r, at unit bandwidth."""
