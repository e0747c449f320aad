"""Sines and cosines, for any radial kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..rows import UnitRows
from ._base import FrequencyMap, LogFeatures
from ._circle import phase_blocks, write_cos_sin
from ._columns import PairedColumns
from ._gaussian import GaussianKernel
from ._radial import RadialKernel

LARGE_PHASE = 2.0**20  # from here float32 leaves less than three digits of a phase


@dataclass(frozen=True, eq=False)
class TrigonometricMap(FrequencyMap):
    r"""Features :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt{m}` of m frequencies.

    The columns are all cosines, then all sines. A frequency with a single column has
    :math:`\sqrt{2/m} \cos(w \cdot x + b)` there.

    Attributes
    ----------
    radial : RadialKernel
        The kernel, as a function of the distance.
    columns : PairedColumns
        Which frequencies have two columns.
    phase : float or ndarray
        The b of single columns, in radians.
    metric_factor : ndarray of shape (n_features, n_features) or None, default=None
        The L of M = L L' where the distance is that of a metric M.
    gaussian : GaussianKernel or None, default=None
        Where the kernel may be the softmax kernel.
    folds : bool, default=False
        Whether float32 phases beyond 2^20 are computed in float64: for heavy tails.
    """

    radial: RadialKernel
    columns: PairedColumns
    phase: float | np.ndarray
    metric_factor: np.ndarray | None = None
    gaussian: GaussianKernel | None = None
    folds: bool = False

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    @property
    def cosine(self) -> float | None:
        cosine = super().cosine
        return cosine if self.radial.knows_angle(cosine) else None

    def frequency_index(self) -> np.ndarray | None:
        return self.columns.index

    def log_features(
        self, rows: UnitRows, *, key: bool = False, out: np.ndarray | None = None
    ) -> LogFeatures:
        if out is None:
            out = np.empty((rows.shape[0], self.n_components), rows.dtype)
        for block, some in phase_blocks(rows, self.n_frequencies):
            self._write(some, out[block])
        if self.gaussian is None:
            return out, None
        return out, self.gaussian.log_row_factor(rows)

    def may_vanish(self, rows: UnitRows) -> bool:
        return self.columns.n_pairs == 0  # cos^2 + sin^2 = 1, and no factor is small

    def _write(self, rows: UnitRows, out: np.ndarray) -> None:
        """Write the features of a block of rows."""
        phases = self._phases(rows)
        n_pairs, scale = self.columns.n_pairs, 1 / math.sqrt(self.n_frequencies)
        cosines, sines, singles = self.columns.split(out)
        if self.columns.n_single:
            shifted = phases[:, n_pairs:]
            shifted += np.asarray(self.phase, phases.dtype)
            np.multiply(np.cos(shifted, out=shifted), math.sqrt(2) * scale, out=singles)
        if n_pairs:
            write_cos_sin(phases[:, :n_pairs], scale, cosines, sines, rows)

    def _phases(self, rows: UnitRows) -> np.ndarray:
        """Return w.x, or what differs from it by multiples of 2 pi."""
        phases = rows.project(self.frequencies, brief=True)
        if self.folds and phases.dtype == np.float32:
            # w.x in float64, less multiples of 2 pi; for few frequencies, if any
            if self._largest_norm * rows.norm_bound <= LARGE_PHASE:
                return phases
            largest = math.sqrt(rows.sq_norms.max(initial=0))
            norms = np.sqrt(self.frequencies.sq_norms)
            suspects = np.flatnonzero(norms * largest > LARGE_PHASE)
            if suspects.size:
                exact = rows.project_in_double(self.frequencies, suspects)
                folded = np.remainder(exact, 2 * math.pi)
                small = np.abs(exact) <= LARGE_PHASE
                phases[:, suspects] = np.where(small, phases[:, suspects], folded)
        return phases

    @cached_property
    def _largest_norm(self) -> float:
        return math.sqrt(self.frequencies.sq_norms.max())

    def _distances(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        queries = X.times(self.metric_factor)
        keys = queries if Y is X else Y.times(self.metric_factor)
        return self.radial.distances(queries, keys)

    def kernel(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        if self.gaussian is not None:
            return self.gaussian.values(X, Y)
        logs = self.radial.log_profile(self._distances(X, Y))
        return np.exp(logs, out=logs)

    def variance(self, X: UnitRows, Y: UnitRows) -> np.ndarray:
        r = self._distances(X, Y)
        n_pairs, n_single = self.columns.n_pairs, self.columns.n_single
        total = n_pairs * self.radial.pair_variance(r) if n_pairs else np.zeros_like(r)
        if n_single:
            profile, double = (np.exp(self.radial.log_profile(k * r)) for k in (1, 2))
            total = total + n_single * (1 + double / 2 - profile**2)
        if self.n_pairs > 0 and self.cosine is not None:
            saving = self.radial.block_saving(r, self.n_features, self.cosine)
            total = total - self.n_pairs * saving
        total = total / self.n_frequencies**2
        if self.gaussian is None:
            return np.maximum(total, 0)
        return self.gaussian.variance(total, np.zeros_like(total), X, Y)
