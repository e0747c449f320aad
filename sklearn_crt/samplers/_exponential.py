"""Exponential features: the parameters, and the map they make."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from .._compat import StrOptions
from .._types import GaussianOrSoftmax, RandomState
from ..frequencies import Coupling, chi_law, get_coupling
from ..maps import (
    ExponentialMap,
    GaussianKernel,
    IsotropicQuadratic,
    PairedColumns,
)
from ..rows import Frame, Sigma, Statistics
from ._base import BaseFeatureSampler
from ._optimal_A import optimal_for


class ExponentialSampler(BaseFeatureSampler):
    r"""Exponential features of the Gaussian or softmax kernel.

    .. math:: f(w, x) = (1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2)

    for s = +1 and a real A <= 0, which makes them positive; complex ones for s = -1 or
    a complex A (:class:`GERFSampler`). A subclass states ``_choose``: s and A.
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "center": ["boolean"],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    _takes_pairs = False  # frequencies w and -w

    def __init__(
        self,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        center: bool = True,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    @abstractmethod
    def _choose(self, statistics: Statistics, frame: Frame) -> tuple[int, complex]:
        """Return the sign s and the parameter A of the map."""

    def _get_coupling(self) -> Coupling:
        name = type(self).__name__
        return get_coupling(self.coupling, name, opposite=self._takes_pairs)

    def _make_map(self, statistics, drawn):
        frame = self._frame(statistics, middle(statistics) if self.center else None)
        (s, A), d = self._choose(statistics, frame), statistics.n_features
        coupling = self._get_coupling()
        quadratic = IsotropicQuadratic(A.real, A.imag, s)
        is_real = quadratic.is_real
        single = is_real and not coupling.opposite
        columns = PairedColumns.of(self.n_components, single=single)
        # angles that follow the norms lower the variance up to a bound
        follows = is_real and optimal_for(A.real, d) <= 0.5 + 1e-9
        coupling = coupling.weigh(2 * A.real if follows else None)
        m = columns.n_frequencies
        same = drawn is not None and drawn.n_frequencies == m
        if same and not coupling.weight_dependent:
            frequencies, phase = drawn.frequencies, drawn.phase
        else:
            rng = statistics.frequency_stream()
            frequencies = coupling.draw(chi_law, m, d, rng)
            phase = float(rng.spawn(1)[0].uniform(0, 2 * math.pi))
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        fields = frame, self.n_components, frequencies, coupling
        return ExponentialMap(*fields, quadratic, columns, kernel, phase)


def middle(statistics: Statistics) -> np.ndarray:
    """Return the mean of the mean rows of both sides, the best centre."""
    # -> (n_features,)
    return 0.5 * (statistics.query.mean + statistics.key.mean)


def mean_squares(statistics: Statistics, frame: Frame) -> tuple[float, float]:
    """Return the means of |x + y|^2 and |x - y|^2 over all pairs of rows."""
    query, key = statistics.query, statistics.key
    scale, spread = np.square(frame.sigma), query.variance + key.variance
    center = 0.0 if frame.center is None else frame.center
    sums = query.mean + key.mean - 2 * center
    differences = query.mean - key.mean
    of_sums = float(np.sum(scale * (spread + sums**2)))
    return of_sums, float(np.sum(scale * (spread + differences**2)))
