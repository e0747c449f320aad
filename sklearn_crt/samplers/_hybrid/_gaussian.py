"""One minus a Gaussian kernel: a coefficient of hybrids."""

from __future__ import annotations

import math

import numpy as np

from ..._docs import fill_doc
from ...frequencies import Coupling, chi_law
from ...maps import GaussianRadial, WeightedMap
from .._base import BaseFeatureSampler, fitted
from .._trigonometric import make_trigonometric_map


@fill_doc
class GaussianCoefficient(BaseFeatureSampler):
    r"""Coefficient of a hybrid that grows with the distance, from sines and cosines.

    A sampler of :math:`-e^{-\sigma^2 |x - y|^2 / 2} / h`; the constant 1/h is the
    attribute ``a_``, which :class:`HybridSampler` adds. The coefficient is 0 for equal
    rows, and 1 for rows x and -x of the largest norm in the data.

    Parameters
    ----------
    sigma : float, str or array-like of shape (n_features,), default=1.0
        Multiplies the rows: large values let the coefficient grow fast. Inside a
        hybrid the rows are multiplied by the sigma of the hybrid before.
    n_components : int, default=100
        Number of columns, two a frequency. An odd number gives the last frequency
        one column with a random phase.
    %(coupling)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    a_ : float
        The constant part of the coefficient, 1/h.
    phase_ : float
        Phase of the last column where ``n_components`` is odd, in radians.
    %(fitted)s

    See Also
    --------
    AngularCoefficient : The angle over pi.
    HybridSampler : Mixes base maps with such coefficients.

    Notes
    -----
    With n frequencies :math:`t \sim N(0, I_d)`, rows multiplied by sigma, and r the
    largest norm among up to 1000 of them ([1]_, section F),

    .. math::

       \lambda(x, y) &= \frac{1 - e^{-|x - y|^2 / 2}}{h}, \quad
       h = 1 - e^{-2 r^2}, \\
       r_1(x) &= \frac{1}{\sqrt{n h}} (\cos t \cdot x, \sin t \cdot x), \quad
       r_2(y) = -r_1(y), \quad
       \operatorname{Var} = \frac{(1 - e^{-|x-y|^2})^2}{2 n h^2}

    for independent frequencies; orthogonal ones are accounted for.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import GaussianCoefficient
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])
    >>> coefficient = GaussianCoefficient(random_state=0).fit(X)
    >>> (coefficient.a_ + coefficient.exact_kernel(X[:1], X)).round(3)
    array([[0.   , 0.731, 1.   ]])
    """

    map_: WeightedMap
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        sigma=1.0,
        n_components=100,
        coupling="orthogonal",
        n_jobs=None,
        random_state=None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency."""
        return 2

    def _reads_rows(self):
        return True

    def _make_map(self, statistics, drawn):
        inner = None if drawn is None else drawn.base
        base = make_trigonometric_map(
            self, statistics, inner, GaussianRadial(), chi_law
        )
        weight = -_constant(statistics, base.frame)
        return WeightedMap(base.frame, base.n_components, base, weight)

    phase_ = fitted("map_.base.phase", "Phase of a single last column, in radians.")

    @property
    def a_(self) -> float:
        """The constant part of the coefficient, 1/h."""
        return -self.map_.weight


def _constant(statistics, frame):
    """Return 1/h for the largest norm among samples of the rows."""
    samples = (sample.rows.astype(np.float64) for sample in statistics.side_samples)
    rows = map(frame.rows, samples)
    sq_radius = max(float(some.sq_norms.max(initial=0)) for some in rows)
    h = -math.expm1(-2 * sq_radius)
    # h = 1 where a sparse and a dense fit could round to either side of it
    return 1.0 if h == 0 or h > 1 - 1e-12 else 1 / h
