"""Random features of the coefficients with which a hybrid mixes its base maps."""

from __future__ import annotations

import math

import numpy as np
from scipy import sparse

from ..utils._docs import fill_doc
from ._angles import angles, orthogonal_sign_moment
from ._conformity import trigonometric_gap
from ._gaussian import GaussianKernelMixin
from ._isotropic import IsotropicSampler
from ._rows import UnitRows
from ._trigonometric import TrigonometricSampler


@fill_doc
class AngularCoefficient(GaussianKernelMixin, IsotropicSampler):
    r"""Coefficient theta / pi of a hybrid, from signs of projections.

    A sampler of :math:`\theta / \pi - 1/2`, theta the angle between two rows; the
    constant 1/2 is the attribute ``a_``, which :class:`HybridSampler` adds.

    Parameters
    ----------
    n_components : int, default=100
        Number n of directions, one column each.
    %(coupling)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    a_ : float
        The constant part of the coefficient, 1/2.
    %(fitted)s

    See Also
    --------
    GaussianCoefficient : One minus a Gaussian kernel.
    HybridSampler : Mixes base maps with such coefficients.

    Notes
    -----
    With n directions :math:`t \sim N(0, I_d)` ([1]_; [2]_, equation 19 and lemma 3.2)

    .. math::

       r_1(x) = \frac{\operatorname{sign}(t \cdot x)}{\sqrt{2n}}, \quad
       r_2(y) = -\frac{\operatorname{sign}(t \cdot y)}{\sqrt{2n}}, \quad
       E\, r_1(x) \cdot r_2(y) = \frac\theta\pi - \frac12, \quad
       \operatorname{Var} = \frac1n \frac\theta\pi \left(1 - \frac\theta\pi\right)

    for independent directions; orthogonal ones have a closed form too, others have
    not. Angles are measured at the origin; one with a zero row is a right angle.

    References
    ----------
    .. [1] M. X. Goemans, D. P. Williamson, "Improved approximation algorithms for
       maximum cut and satisfiability problems using semidefinite programming",
       J. ACM 42 (1995).
    .. [2] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import AngularCoefficient
    >>> X = np.array([[1.0, 0.0], [1.0, 1.0], [-2.0, 0.0]])
    >>> coefficient = AngularCoefficient(random_state=0).fit(X)
    >>> coefficient.a_ + coefficient.exact_kernel(X[:1], X)
    array([[0.  , 0.25, 1.  ]])
    """

    sigma = 1.0  # angles do not depend on it
    kernel = "gaussian"
    symmetric_ = False
    a_ = 0.5
    # not the structured ones: a row on an axis has products that are exactly zero
    _couplings = ("iid", "orthogonal", "simplex", "simplex+", "halton", "sobol")
    _parameter_constraints: dict = {
        name: IsotropicSampler._parameter_constraints[name]
        for name in ("n_components", "coupling", "n_jobs", "random_state")
    }

    def __init__(
        self,
        *,
        n_components=100,
        coupling="orthogonal",
        n_jobs=None,
        random_state=None,
    ):
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _coupling(self):
        coupling = super()._coupling()
        if not coupling.exact:
            raise ValueError(
                f"coupling={self.coupling!r} has directions that are only nearly "
                "uniform, whose signs are biased for rows on an axis; use "
                f"{', '.join(map(repr, self._couplings))}, or an exact Coupling object."
            )
        return coupling

    def _features(self, rows, out, key):
        scale = 1 / math.sqrt(2 * self.n_components)
        scale = -scale if key else scale
        np.multiply(rows.projection >= 0, 2 * scale, out=out)
        out -= scale
        return out, None

    def _has_closed_form(self):
        return self._cosine() == 0

    def _kernel(self, X, Y):
        return _angles(X, Y) / np.pi - 0.5

    def _variance(self, X, Y):
        n, theta = self.n_components, _angles(X, Y)
        share = theta / np.pi
        variance = n * share * (1 - share)
        if self._n_pairs() > 0 and self._has_closed_form():
            moment = orthogonal_sign_moment(theta, self.n_features_in_)
            gap = (1 - 2 * share) ** 2 - moment
            gap[(share == 0) | (share == 1)] = 0
            variance -= 0.25 * self._n_pairs() * gap
        return np.maximum(variance, 0) / n**2


def _angles(X, Y):
    """Return the angles of all pairs of rows, dense for the sake of accuracy."""
    return angles(
        *(Z.toarray() if sparse.issparse(Z) else Z for Z in (X.matrix, Y.matrix))
    )


@fill_doc
class GaussianCoefficient(GaussianKernelMixin, TrigonometricSampler):
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

    kernel = "gaussian"
    symmetric_ = False
    _reads_rows = True
    _parameter_constraints: dict = TrigonometricSampler._parameter_constraints

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

    def _fit_parameters(self, moments, key_moments):
        samples = (
            UnitRows(sample.rows.astype(np.float64), self.sigma_, None)
            for sample in self._row_samples.values()
        )
        sq_radius = max(float(rows.sq_norms.max(initial=0)) for rows in samples)
        h = -math.expm1(-2 * sq_radius)
        # h = 1 where a sparse and a dense fit could round to either side of it
        self.a_ = 1.0 if h == 0 or h > 1 - 1e-12 else 1 / h

    def _features(self, rows, out, key):
        features, _ = super()._features(rows, out, key)
        features *= -math.sqrt(self.a_) if key else math.sqrt(self.a_)
        return features, None

    def _kernel(self, X, Y):
        return -self.a_ * super()._kernel(X, Y)

    def _variance(self, X, Y):
        return self.a_**2 * super()._variance(X, Y)

    def _profile(self, r):
        return np.exp(-0.5 * r**2)

    def _pair_variance(self, r):
        return 0.5 * np.expm1(-(r**2)) ** 2  # (1 - e^2)^2 / 2

    def _orthogonality_gap(self, r):
        return trigonometric_gap(r**2, self.n_features_in_, self._cosine())
