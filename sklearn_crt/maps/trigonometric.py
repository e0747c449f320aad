"""Sines and cosines, for any radial kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._array import Array, columns, float_types, namespace_of, to_host
from .._compat import cached_property
from .._kernels import itemsize, sincos
from ..frequencies import Frequencies
from ..rows import Inputs
from .base import FrequencyMap, LogFeatures, PairedColumns
from .radial import GaussianKernel, RadialKernel

_LARGE_PHASE = 2.0**20  # from here float32 leaves less than three digits of a phase
_LARGE_PHASE_IN_DOUBLE = 2.0**26  # from here roundings of products may be seen


@dataclass(frozen=True, eq=False)
class TrigonometricMap(FrequencyMap):
    r"""Features :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt{m}` of m frequencies.

    The columns are all cosines, then all sines. A frequency with a single column has
    :math:`\sqrt{2/m} \cos(w \cdot x + b)` there.
    """

    radial: RadialKernel
    columns: PairedColumns
    phase: float | np.ndarray  # b, in radians
    metric_factor: np.ndarray | None = None  # (n_features, n_features)
    gaussian: GaussianKernel | None = None
    folds: bool = False  # large phases, in one order: norms have heavy tails

    @property
    def columns_per_frequency(self) -> int:
        return self.columns.per_frequency

    @property
    def cosine(self) -> float | None:
        cosine = super().cosine
        return cosine if self.radial.knows_angle(cosine) else None

    def frequency_index(self) -> np.ndarray | None:
        return self.columns.index

    @cached_property
    def tables(self) -> tuple[Frequencies, Any]:
        return self.frequencies, np.atleast_2d(self.phase)

    @cached_property
    def _largest_norm(self) -> float:
        return math.sqrt(self.frequencies.sq_norms.max())

    @property
    def phase_rate(self) -> float:
        return 0.0 if self.folds else self._largest_norm

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        frequencies, single_phase = self.tables
        phases = rows.project(frequencies)
        if self.folds:
            phases = _fold(phases, rows, frequencies, self._largest_norm)
        features = sincos(
            phases,
            1 / math.sqrt(self.n_frequencies),
            self.columns.n_pairs,
            single_phase,
            rows.output(self.n_components),
            rows.buffer,
        )
        return features, self.gaussian and self.gaussian.log_row_factor(rows)

    # ------------------------------------------------------------------- values
    def _distances(self, X: Inputs, Y: Inputs) -> np.ndarray:
        queries = X.times(self.metric_factor)
        keys = queries if Y is X else Y.times(self.metric_factor)
        return self.radial.distances(queries, keys)

    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        if self.gaussian is not None:
            return self.gaussian.values(X, Y)
        logs = self.radial.log_profile(self._distances(X, Y))
        return np.exp(logs, out=logs)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        r = self._distances(X, Y)
        n_pairs, n_single = self.columns.n_pairs, self.columns.n_single
        total = n_pairs * self.radial.pair_variance(r) if n_pairs else np.zeros_like(r)
        if n_single:
            profile, double = (np.exp(self.radial.log_profile(k * r)) for k in (1, 2))
            total = total + n_single * (1 + double / 2 - profile**2)
        if self.n_pairs > 0 and self.cosine is not None:
            covariance = self.radial.block_covariance(r, self.n_features, self.cosine)
            total = total + self.n_pairs * covariance
        total = total / self.n_frequencies**2
        if self.gaussian is None:
            return np.maximum(total, 0)
        return self.gaussian.variance(total, np.zeros_like(total), X, Y)


def _fold(
    phases: Array, rows: Inputs, frequencies: Frequencies, largest: float
) -> Array:
    """Return phases, the large ones from float64; in float32 less multiples of 2 pi.

    A product of BLAS has other roundings for one row than for many.
    """
    wide = float_types(phases)[0]
    on_numpy, is_narrow = isinstance(phases, np.ndarray), itemsize(phases) == 4
    if not on_numpy and (wide == phases.dtype or not is_narrow):
        return phases
    least = _LARGE_PHASE if is_narrow else _LARGE_PHASE_IN_DOUBLE
    norm = math.sqrt(float(to_host(namespace_of(phases).max(rows.sq_norms))))
    if largest * norm <= least:
        return phases
    norms = np.sqrt(to_host(frequencies.sq_norms))
    suspects = np.flatnonzero(norms * norm > least)
    if suspects.size == 0:
        return phases
    xp = namespace_of(phases)
    # of a few frequencies, whose columns are put back where they were
    rest = np.setdiff1d(np.arange(phases.shape[-1]), suspects)
    if on_numpy and largest * norm > _LARGE_PHASE_IN_DOUBLE:
        exact = rows.project_in_order(frequencies, suspects)
    else:
        exact = rows.project_in_double(frequencies, suspects)
    turns = xp.floor(exact / (2 * math.pi)) if is_narrow else 0
    folded = exact - 2 * math.pi * turns
    near = columns(phases, suspects)
    folded = xp.where(xp.abs(exact) > least, xp.astype(folded, near.dtype), near)
    whole = xp.concat([columns(phases, rest), folded], axis=-1)
    return columns(whole, np.argsort(np.concatenate([rest, suspects])))
