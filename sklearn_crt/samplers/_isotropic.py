"""Maps whose frequencies are a coupling times a law of the norm."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..frequencies import Coupling, get_coupling
from ._base import BaseFeatureSampler


class IsotropicSampler(BaseFeatureSampler):
    """A map whose frequencies are a coupling times a law of the norm."""

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
    }
    _couplings: tuple[str, ...] | None = None  # None: all that are registered

    def _draw_projection(self, n_features, rng):
        return self._coupling().draw(
            self._radial_law, self._n_frequencies, n_features, rng
        )

    def _coupling(self):
        coupling = get_coupling(self.coupling, type(self).__name__, self._couplings)
        return coupling.weigh(self._log_norm_weight())

    @property
    def variance_is_exact_(self) -> bool:
        """Whether ``kernel_variance`` is that of the coupling in use."""
        check_is_fitted(self)
        closed = self._n_pairs() == 0 or self._has_closed_form()
        return closed and self._coupling().exact

    def _has_closed_form(self) -> bool:
        """Return whether what a pair of frequencies in a block saves is known."""
        return False

    def _n_pairs(self):
        """Return the number of ordered pairs of frequencies that share a block."""
        sizes = self._coupling().block_sizes(self._n_frequencies, self.n_features_in_)
        return int(np.sum(sizes * (sizes - 1)))

    def _log_norm_weight(self):
        """Return what ``Coupling.weigh`` takes; of no effect on most couplings."""
        return np.zeros_like

    @abstractmethod
    def _radial_law(self, n_features: int):
        """Return the law of the norm of a frequency in this dimension."""
