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
    on [0, 2 pi). A subclass states ``_profile(r)``, the kernel at distance r, and
    the law of the norm of w.
    """

    _features_per_frequency = 2

    def frequency_index(self):
        pairs = np.arange(self.n_components // 2)
        single = np.arange(pairs.size, self._n_frequencies)
        return np.concatenate([pairs, pairs, single])

    def _after_draw(self, rng):
        (phase_rng,) = rng.spawn(1)
        self.phase_ = float(phase_rng.uniform(0, 2 * math.pi))

    def _features(self, rows, out, key):
        phases, n_pairs = rows.projection, self.n_components // 2
        scale = 1 / math.sqrt(self._n_frequencies)
        if self.n_components % 2:
            last = math.sqrt(2) * np.cos(phases[:, -1] + self.phase_)
            out[:, -1] = scale * last
        cosines, sines = out[:, :n_pairs], out[:, n_pairs : 2 * n_pairs]
        write_cos_sin(phases[:, :n_pairs], scale, cosines, sines)
        return out, self._log_row_factor(rows)

    def _kernel(self, X, Y):
        return self._profile(np.sqrt(X.pair_statistics(Y)[2]))

    def _variance(self, X, Y):
        r = np.sqrt(X.pair_statistics(Y)[2])
        n_pairs, n_single = divmod(self.n_components, 2)
        single = 1 + self._profile(2 * r) / 2 - self._profile(r) ** 2
        total = n_pairs * self._pair_variance(r) + n_single * single
        if self._n_pairs() > 0 and self._has_closed_form():
            total = total - self._n_pairs() * self._orthogonality_gap(r)
        return np.maximum(total, 0) / self._n_frequencies**2

    # ------------------------------------------------------------------- hooks
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
