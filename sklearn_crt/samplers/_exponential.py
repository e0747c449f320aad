"""Positive exponential features: the parameters, and the map they make."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from .._compat import StrOptions
from .._docs import fill_doc
from ..frequencies import Coupling, chi_law, get_coupling
from ..maps import ExponentialMap, GaussianKernel
from ._base import BaseFeatureSampler, fitted
from ._optimal_A import optimal_for


@fill_doc
class ExponentialSampler(BaseFeatureSampler):
    r"""Positive features of the Gaussian or softmax kernel, for a real A <= 0.

    .. math:: f(w, x) = (1 - 4A)^{d/4} \exp(A |w|^2 + \sqrt{1 - 4A}\, w \cdot x - |x|^2)

    A subclass states ``_choose_A``, the value of A.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a frequency.
    %(coupling)s
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
    def _choose_A(self, statistics, frame) -> float:
        """Return the coefficient of the squared norm of the frequency."""

    def _make_map(self, statistics, drawn):
        frame = self._frame(statistics, middle(statistics) if self.center else None)
        A, d = self._choose_A(statistics, frame), statistics.n_features
        coupling = get_coupling(self.coupling, type(self).__name__)
        # angles that follow the norms raise the variance beyond
        coupling = coupling.weigh(None if optimal_for(A, d) > 0.5 else 2 * A)
        if drawn is not None and not coupling.weight_dependent:
            frequencies = drawn.frequencies
        else:
            rng = statistics.frequency_stream()
            frequencies = coupling.draw(chi_law, self.n_components, d, rng)
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        return ExponentialMap(
            frame, self.n_components, frequencies, coupling, A, kernel
        )

    A_ = fitted("map_.A", "Coefficient of the squared norm of the frequency.")


def middle(statistics) -> np.ndarray:
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


def mean_squares(statistics, frame) -> tuple[float, float]:
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
    return tuple(
        float(np.sum(scale * (spread + offset**2))) for offset in (sums, differences)
    )
