"""The Gaussian kernel and, times two row factors, the softmax kernel."""

from __future__ import annotations

import numpy as np

from .._compat import StrOptions
from ..frequencies import chi_law


def log_expm1(excess):
    """Return log(exp(excess) - 1): that of Var / K^2, for excess = log(E2 / K^2)."""
    with np.errstate(divide="ignore"):
        return excess + np.log(-np.expm1(-excess))


class GaussianKernelMixin:
    r"""Maps of :math:`K = e^{-|x-y|^2/2}` and of :math:`e^{x \cdot y}`.

    Since :math:`e^{x \cdot y} = K e^{|x|^2/2} e^{|y|^2/2}`, a map of the softmax
    kernel is the map of the Gaussian kernel with a factor for each row, and its
    variance has the squares of these factors.
    """

    _parameter_constraints: dict = {"kernel": [StrOptions({"gaussian", "softmax"})]}

    def _radial_law(self, n_features):
        return chi_law(n_features)

    def _has_closed_form(self):
        return self._cosine() is not None

    def _cosine(self):
        coupling = self._coupling()
        fixed = coupling.independent_norms
        return coupling.cosine(self.n_features_in_) if fixed else None

    def _log_row_factor(self, rows):
        """Return the logs of the row factors, (n_rows, 1), or None for ones."""
        return 0.5 * rows.raw_sq_norms if self.kernel == "softmax" else None

    def _kernel(self, X, Y):
        _, _, sq_distances = X.pair_statistics(Y)
        return np.exp(self._log_pair_factor(X, Y) - 0.5 * sq_distances)

    def _log_pair_factor(self, X, Y):
        """Return the log of kernel / Gaussian kernel, 0 or (n_X, n_Y)."""
        if self.kernel == "gaussian":
            return 0.0
        return self._log_row_factor(X) + self._log_row_factor(Y).T
