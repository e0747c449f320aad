"""Exponential features: the parameters, and the map they make."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np

from .._compat import StrOptions
from .._docs import fill_doc
from ..frequencies import Coupling, chi_law, get_coupling
from ..maps import (
    ComplexExponentialMap,
    ExponentialMap,
    GaussianKernel,
    IsotropicQuadratic,
    PairedColumns,
    PositiveMap,
)
from ..rows import Frame, Statistics
from ._base import BaseFeatureSampler
from ._optimal_A import optimal_for


@fill_doc
class ExponentialSampler(BaseFeatureSampler):
    r"""Exponential features of the Gaussian or softmax kernel.

    .. math:: f(w, x) = (1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2)

    for s = +1 and a real A <= 0, which makes them positive; complex ones for s = -1 or
    a complex A (:class:`GERFSampler`). A subclass states ``_choose``: s and A.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a frequency.
    %(coupling_positive)s
    %(center)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s
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
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        center=True,
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
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

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency: two where w stands for w and -w."""
        return 2 if self._get_coupling().opposite else 1

    def _get_coupling(self) -> Coupling:
        name = type(self).__name__
        return get_coupling(self.coupling, name, opposite=self._takes_pairs)

    def _make_map(self, statistics, drawn):
        frame = self._frame(statistics, middle(statistics) if self.center else None)
        (s, A), d = self._choose(statistics, frame), statistics.n_features
        positive = s == 1 and A.imag == 0
        coupling = self._get_coupling()
        single = positive and not coupling.opposite
        columns = PairedColumns.of(self.n_components, single=single)
        # angles that follow the norms lower the variance up to a bound
        follows = positive and optimal_for(A.real, d) <= 0.5
        coupling = coupling.weigh(2 * A.real if follows else None)
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        m = columns.n_frequencies
        positive_maps = ExponentialMap, PositiveMap
        same = drawn is not None and isinstance(drawn, positive_maps) == positive
        if same and drawn.n_frequencies == m and not coupling.weight_dependent:
            frequencies, phase = drawn.frequencies, getattr(drawn, "phase", 0.0)
        else:
            rng = statistics.frequency_stream()
            frequencies = coupling.draw(chi_law, m, d, rng)
            phase = float(rng.spawn(1)[0].uniform(0, 2 * math.pi))
        fields = frame, self.n_components, frequencies, coupling
        if coupling.opposite:
            return PositiveMap(*fields, IsotropicQuadratic(A.real), columns, kernel)
        if positive:
            return ExponentialMap(*fields, A.real, kernel)
        parts = A.real, A.imag
        return ComplexExponentialMap(*fields, columns, phase, s, parts, kernel)


def middle(statistics: Statistics) -> np.ndarray:
    """Return the mean of the mean rows of both sides, the best centre.

    Parameters
    ----------
    statistics : Statistics
        Of the rows.

    Returns
    -------
    center : ndarray of shape (n_features,)
        Of raw rows.
    """
    return 0.5 * (statistics.query.mean + statistics.key.mean)


def mean_squares(statistics: Statistics, frame: Frame) -> tuple[float, float]:
    """Return the means of |x + y|^2 and |x - y|^2 over all pairs of rows.

    Parameters
    ----------
    statistics : Statistics
        Of the raw rows.
    frame : Frame
        Centre and sigma of the rows x and y.

    Returns
    -------
    sums, differences : float
        At unit bandwidth.
    """
    query, key = statistics.query, statistics.key
    scale, spread = np.square(frame.sigma), query.variance + key.variance
    center = 0.0 if frame.center is None else frame.center
    sums = query.mean + key.mean - 2 * center
    differences = query.mean - key.mean
    first, second = (
        float(np.sum(scale * (spread + offset**2))) for offset in (sums, differences)
    )
    return first, second
