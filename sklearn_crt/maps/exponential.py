"""The map whose features are real or complex exponentials."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .._compat import cached_property
from ..arrays.loops import with_opposites
from ..arrays.namespaces import columns
from ..arrays.sincos import sincos
from ..frequencies import PairSample
from ..rows import Inputs
from .base import LogFeatures, PairedMap
from .quadratic import Quadratic, Side
from .radial_kernels import GaussianKernel
from .variance import positive_block_covariance, sampled_block_covariance


@dataclass(frozen=True, eq=False)
class ExponentialMap(PairedMap):
    r"""Exponential features of the Gaussian or softmax kernel.

    .. math:: f(x) = \tfrac{1}{\sqrt m}\, e^{w' A w + w' B x + c(x)}

    where ``quadratic`` defines A, B and c. A is a real number for PosRF, OPRF and
    SimRF, a complex number for GERF, and a matrix for DERF; CE has a diagonal matrix B.
    Real features have one column per frequency. If a frequency w also represents -w,
    the columns of all w come first, then those of all -w, then the columns of
    frequencies without an opposite. Complex features have the columns Re f and Im f for
    queries, and Re g and -Im g for keys. If the number of columns is odd, the last
    frequency has the single column :math:`\sqrt 2\, \mathrm{Re}(e^{ib} f)`.
    """

    quadratic: Quadratic
    gaussian: GaussianKernel
    phase: float = 0.0  # b, in radians

    @property
    def A(self) -> complex | np.ndarray:
        """Coefficient A of the term that is quadratic in w: a number or a matrix."""
        return self.quadratic.coefficient

    @property
    def s(self) -> int:
        """Sign s in ``|x + s y|^2``, on which the variance depends."""
        return self.quadratic.s

    @property
    def symmetric(self) -> bool:
        return self.quadratic.symmetric

    @property
    def is_positive(self) -> bool:
        return self.quadratic.is_real

    @cached_property
    def _sampled_pairs(self) -> PairSample | None:
        """Pairs of frequencies whose angles depend on the norms, if there are any."""
        if self.n_pairs == 0 or self.cosine is not None:
            return None
        return self.coupling._sampled_pairs(self.n_features)

    @property
    def cosine(self) -> float | None:
        return super().cosine if self.quadratic.knows_angles else None

    @cached_property
    def tables(self) -> tuple[Side, ...]:
        """The exponents for queries and for keys, or one object if they are equal."""
        # w and -w together count as one frequency in the mean
        m = self.columns.n_frequencies
        log_scale = np.full((1, m), -0.5 * math.log(m))
        quadratic = self.quadratic
        if quadratic.is_real:
            log_scale[:, : self.columns.n_pairs] -= 0.5 * math.log(2)
        phase = None if quadratic.is_real else np.full((1, 1), self.phase)
        sides = (
            quadratic.side(self.frequencies, log_scale, key=key)
            for key in ([False] if quadratic.symmetric else [False, True])
        )
        return tuple(side._replace(single_phase=phase) for side in sides)

    @cached_property
    def phase_rate(self) -> float:  # computed once
        forms = (side.phase for side in self.tables if side.phase is not None)
        return max(
            (abs(f.scale) * math.sqrt(f.frequencies.sq_norms.max()) for f in forms),
            default=0.0,
        )

    def log_features(self, rows: Inputs, *, key: bool = False) -> LogFeatures:
        side, n_pairs = self.tables[-1 if key else 0], self.columns.n_pairs
        inside, row_term, phase_term = side.terms(rows)
        out = rows.output(self.n_components)
        if side.phase is None:
            if self.gaussian.softmax:
                row_term = self.gaussian.plus_row_factor(row_term, rows)
            if n_pairs == 0:
                return None, inside.affine(side.magnitude, row_term, out)
            first = None if out is None else out[..., : self.n_frequencies]
            plus = inside.affine(side.magnitude, row_term, first)
            even = row_term, side.magnitude.offsets
            return None, with_opposites(plus, even, n_pairs, out)
        shape = (*rows.shape[:-1], self.n_frequencies)
        phases = inside.affine(side.phase, phase_term, rows.buffer("phases", shape))
        scale = 1.0 if side.scale is None else side.scale
        mantissa = sincos(phases, scale, n_pairs, side.single_phase, out, rows.buffer)
        if side.scale is not None:
            return mantissa, self.gaussian.log_row_factor(rows)
        row_term = self.gaussian.plus_row_factor(row_term, rows)
        log_magnitude = inside.affine(side.magnitude, row_term)
        return mantissa, columns(log_magnitude, self.columns.index)

    # ------------------------------------------------------------------- values
    def kernel(self, X: Inputs, Y: Inputs) -> np.ndarray:
        return self.gaussian.values(X, Y)

    def variance(self, X: Inputs, Y: Inputs) -> np.ndarray:
        m, n_pairs, n_single = (
            self.n_frequencies,
            self.columns.n_pairs,
            self.columns.n_single,
        )
        if not self.is_positive:
            blocks = self.n_pairs if self.cosine is not None else 0
            total, log_unit = self.quadratic.complex_variance(
                X, Y, (m, n_single, blocks), self.cosine
            )
            log_unit = log_unit - 2 * math.log(m) - X.sq_distances(Y)
            return self.gaussian.variance(total, log_unit, X, Y)
        constant, spread, q = self.quadratic.pair_terms(X, Y)
        top = constant + spread  # all terms below are in units of exp(top) K^2
        total = n_single * -np.expm1(-top)
        if n_pairs:
            total = total + n_pairs * _pair_share(constant, spread, q)
        if self.n_pairs > 0 and self.cosine is not None:
            # replacing one frequency by its opposite changes the cosine from c to -c
            angles = {self.cosine, -self.cosine} if n_pairs else {self.cosine}
            covariances = [
                positive_block_covariance(q, self.n_features, angle) for angle in angles
            ]
            total = total + self.n_pairs * np.mean(covariances, axis=0) * np.exp(-top)
        elif self._sampled_pairs is not None and isinstance(self.A, float):
            covariance = sampled_block_covariance(
                q, self.n_features, self._sampled_pairs, self.A
            )
            total = total + self.n_pairs * covariance * np.exp(-top)
            total = np.maximum(total, 0)
        log_unit = top - 2 * math.log(m) - X.sq_distances(Y)
        return self.gaussian.variance(total, log_unit, X, Y)


def _pair_share(constant: float, spread: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Return (exp(c + s) + exp(c - q) - 2) / (2 exp(c + s)) without cancellation.

    If mu is the mean of the two exponents and delta is half their difference, the
    result is (expm1(mu) + 2 exp(mu) sinh(delta / 2)^2) exp(-mu - delta).
    """
    delta, mu = 0.5 * (spread + q), constant + 0.5 * (spread - q)
    near = -np.expm1(-np.clip(mu, -1, 1)) * np.exp(-delta)
    far = np.exp(-delta) - np.exp(-constant - spread)
    return 0.5 * np.expm1(-delta) ** 2 + np.where(np.abs(mu) < 1, near, far)
