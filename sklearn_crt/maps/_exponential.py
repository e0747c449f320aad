"""Positive features exp(A|w|^2 + B w.x - |x|^2), for real A."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..frequencies import Affine
from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._gaussian import GaussianKernel
from .block_savings import positive_gap

_LARGEST = {"float32": 80.0, "float64": 700.0}  # exp of minus it is a normal number


@dataclass(frozen=True, eq=False)
class ExponentialMap(FrequencyMap):
    r"""Positive features of the Gaussian or softmax kernel, for a real A <= 0.

    .. math:: f(w, x) = (1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2)

    Attributes
    ----------
    A : float
        Coefficient of the squared norm of the frequency: 0 for PosRF, negative for
        OPRF.
    gaussian : GaussianKernel
        The kernel.
    """

    A: float
    gaussian: GaussianKernel
    s: ClassVar[int] = 1

    @cached_property
    def _form(self) -> Affine:
        A, d = self.A, self.n_features
        constant = 0.25 * d * math.log1p(-4 * A) - 0.5 * math.log(self.n_frequencies)
        offsets = A * self.frequencies.sq_norms + constant
        return Affine(self.frequencies, math.sqrt(1 - 4 * A), offsets)

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        row_term = self.gaussian.plus_row_factor(-rows.sq_norms, rows)
        return None, rows.affine(self._form, row_term, out)

    @cached_property
    def _reach(self) -> tuple[float, float]:
        """Largest factor of the norm of a row in an exponent, and largest offset."""
        norm = math.sqrt(self.frequencies.sq_norms.max())
        return self._form.scale * norm, float(np.abs(self._form.offsets).max())

    def may_vanish(self, rows: UnitRows) -> bool:
        (factor, offset), norm = self._reach, rows.norm_bound
        return not factor * norm + offset + norm**2 < _LARGEST[rows.dtype.name]

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        d, m, rho = self.n_features, self.n_frequencies, 1 / (1 - 8 * self.A)
        _, q, sq_distances = X.pair_statistics(Y)
        # E2 / K^2 = ((1 + rho) / (2 sqrt rho))^d exp(rho q), written to keep q -> 0
        root = math.sqrt(rho)
        log_unit = d * math.log1p((1 - root) ** 2 / (2 * root)) + rho * q
        share = share_of_moment(self, log_unit, q)
        log_unit -= sq_distances
        log_unit -= math.log(m)
        return self.gaussian.variance(share, log_unit, X, Y)


def share_of_moment(
    feature_map: FrequencyMap, log_moment: np.ndarray, q: np.ndarray
) -> np.ndarray:
    """Return (E f^2 - K^2 - what blocks save) / E f^2 of products of exponentials.

    Parameters
    ----------
    feature_map : FrequencyMap
        The map, one column a frequency.
    log_moment : ndarray
        The logs of E f^2 / K^2 of pairs of rows, not negative.
    q : ndarray
        Squared lengths of what the frequencies meet.

    Returns
    -------
    share : ndarray
        Without cancellation for small q, in any size of the moments.
    """
    less_one = np.expm1(-log_moment)
    share = -less_one
    if feature_map.n_pairs > 0 and feature_map.cosine is not None:
        saved = positive_gap(q, feature_map.n_features, feature_map.cosine)
        saved *= feature_map.n_pairs / feature_map.n_frequencies
        less_one += 1
        saved *= less_one
        share -= saved
    return share
