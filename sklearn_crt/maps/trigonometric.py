"""The map whose features are cosines and sines of inner products."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._compat import cached_property
from ..arrays.loops import itemsize
from ..arrays.namespaces import Array, columns, float_types, namespace_of, to_host
from ..arrays.sincos import sincos
from ..frequencies import Frequencies
from ..rows import Inputs
from .base import LogFeatures, PairedMap
from .radial_kernels import GaussianKernel, RadialKernel

# If |w| |x| is below these limits, BLAS computes the phase w.x accurately enough. Its
# rounding error is up to 4 units in the last place of |w| |x|, and depends on the BLAS
# kernel and on the number of rows. At the limit it is 8e-6 in float32 (2^5) and 3e-8 in
# float64 (2^26).
_LARGEST_IN_SINGLE = 2.0**5
_LARGEST_IN_DOUBLE = 2.0**26
# With many columns, |w| |x| often exceeds 2^5 for Gaussian frequencies, and a second
# product would be slow. Their limit is therefore larger; at this limit the error is
# 6e-5.
_LARGEST_OF_LIGHT_TAILS = 2.0**8


@dataclass(frozen=True, eq=False)
class TrigonometricMap(PairedMap):
    r"""Features :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt{m}` of m frequencies.

    All cosines come first, then all sines. A frequency with a single column has the
    feature :math:`\sqrt{2/m} \cos(w \cdot x + b)`.
    """

    radial: RadialKernel
    phase: float | np.ndarray  # b, in radians
    shape_factor: np.ndarray | None = None  # (n_features, n_features)
    gaussian: GaussianKernel | None = None
    # whether the norms of the frequencies have a heavy-tailed distribution
    heavy_tailed: bool = False

    @property
    def cosine(self) -> float | None:
        cosine = super().cosine
        return cosine if self.radial.knows_angle(cosine) else None

    @cached_property
    def tables(self) -> tuple[Frequencies, Any]:
        return self.frequencies, np.atleast_2d(self.phase)

    @cached_property
    def _norms(self) -> np.ndarray:
        """Norms of the frequencies."""
        return np.sqrt(self.frequencies.sq_norms.astype(np.float64))

    @cached_property
    def _largest_norm(self) -> float:
        """Largest norm of the frequencies."""
        return float(self._norms.max())

    @property
    def phase_rate(self) -> float:
        return 0.0 if self.heavy_tailed else self._largest_norm

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        frequencies, single_phase = self.tables
        phases = rows.project(frequencies)
        is_plain = isinstance(phases, np.ndarray)
        if not (self.heavy_tailed or (is_plain and phases.ndim == 2)):
            # the norm is not computed, because reading it would mean waiting for the
            # device
            longest = 0.0
        elif is_plain:
            longest = math.sqrt(rows.sq_norms.max())
        else:
            longest = math.sqrt(float(to_host(namespace_of(phases).max(rows.sq_norms))))
        largest = _LARGEST_IN_DOUBLE
        if itemsize(phases) == 4:
            largest = (
                _LARGEST_IN_SINGLE if self.heavy_tailed else _LARGEST_OF_LIGHT_TAILS
            )
        if self._largest_norm * longest > largest:
            bounds = self._norms * longest
            phases = _accurate_phases(phases, rows, frequencies, bounds, largest)
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
        queries = X.times(self.shape_factor)
        keys = queries if Y is X else Y.times(self.shape_factor)
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


def _accurate_phases(
    phases: Array,
    rows: Inputs,
    frequencies: Frequencies,
    bounds: np.ndarray,
    largest: float,
) -> Array:
    """Return the phases, recomputing those that BLAS does not round reproducibly.

    BLAS rounds the products of a single row differently from those of many rows. If the
    bound |w| |x| of a column exceeds ``largest``, its float32 phases are computed in
    float64 and reduced modulo 2 pi. If the bound exceeds 2^26, the products are summed
    in a fixed order for both dtypes. The phases of a row then do not depend on the
    other rows, even if none of their digits is significant.
    """
    # phases (..., n_rows, n_frequencies), bounds (n_frequencies,)
    has_wider = itemsize(phases) == 4 and float_types(phases)[0] != phases.dtype
    in_order = bounds > (_LARGEST_IN_DOUBLE if has_wider else largest)
    in_double = (bounds > largest) & ~in_order  # all False if there is no wider dtype
    for suspects, project, fold in (
        (np.flatnonzero(in_double), rows.project_in_double, _without_turns),
        (np.flatnonzero(in_order), rows.project_in_order, _folded),
    ):
        if suspects.size > 0:
            exact = project(frequencies, suspects)
            exact = fold(exact) if has_wider else exact
            phases = _with_columns(phases, suspects, exact)
    return phases


def _without_turns(phases: Array) -> Array:
    """Reduce phases of magnitude up to 2^26 modulo 2 pi, to the range [-pi, pi]."""
    turns = namespace_of(phases).round(phases / (2 * math.pi))
    return phases - 2 * math.pi * turns


def _folded(phases: Array) -> Array:
    """Reduce phases of any size modulo 2 pi, with full precision."""
    xp = namespace_of(phases)
    # before NumPy 2.0, the function is only available under its old name
    atan2 = xp.atan2 if hasattr(xp, "atan2") else xp.arctan2
    return atan2(xp.sin(phases), xp.cos(phases))


def _with_columns(array: Array, index: np.ndarray, values: Array) -> Array:
    """Replace the values of some columns, in place for NumPy arrays."""
    if isinstance(array, np.ndarray):
        array[..., index] = values
        return array
    xp = namespace_of(array)
    rest = np.setdiff1d(np.arange(array.shape[-1]), index)
    parts = [columns(array, rest), xp.astype(values, array.dtype)]
    order = np.argsort(np.concatenate([rest, index]))
    return columns(xp.concat(parts, axis=-1), order)
