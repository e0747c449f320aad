"""Generalised exponential random features of the Gaussian kernel (GERF)."""

from __future__ import annotations

import cmath
import math

from .._docs import fill_doc
from ..maps import ComplexExponentialMap, ExponentialMap, log_one_minus
from ._base import fitted
from ._exponential import ExponentialSampler, mean_squares
from ._gerf_search import best_member, trigonometric_A
from ._optimal_A import optimal_A


@fill_doc
class GERFSampler(ExponentialSampler):
    r"""Gaussian or softmax kernel from the best exponential features, complex A (GERF).

    The family has positive features (s = +1, real A: PosRF, OPRF) and sines and
    cosines (s = -1, A = 0) as members. ``fit`` reads the mean and variance of the
    columns and searches the sign s and the complex A of least second moment.

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output: two a frequency, the real and the imaginary
        part, where an odd number gives the last frequency one column with a random
        phase; one a frequency where the features are positive (s = +1, real A).
    %(coupling)s
    %(center)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    A_ : complex
        The chosen parameter, with a real part below 1/8.
    s_ : int
        The chosen sign, +1 or -1.
    phase_ : float
        Phase of the last column where that is single, in radians; only where a
        frequency has two columns.
    %(center_)s
    %(fitted)s

    See Also
    --------
    OPRFSampler : The best member with s = +1 and real A.
    TrigRBFSampler : The member with s = -1 and A = 0.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already centred and multiplied
    by sigma, queries and keys are mapped by ([1]_, section 3.1)

    .. math::

       f(x) &= \tfrac{D}{\sqrt m} e^{A|w|^2 + B w \cdot x + C|x|^2}, &
       B &= \sqrt{s(1 - 4A)}, \quad C = -\tfrac{s + 1}{2}, \\
       g(y) &= \tfrac{D}{\sqrt m} e^{A|w|^2 + s B w \cdot y + C|y|^2}, &
       D &= (1 - 4A)^{d/4} .

    The estimate is the sum of Re(f(x) g(y)): the columns of ``transform`` are first
    all Re f, then all Im f, those of ``transform_key`` Re g and -Im g. Both sides
    are one map, ``symmetric_``, where A is real. A last single column holds
    :math:`\sqrt2 \operatorname{Re}(e^{ib} f)` and
    :math:`\sqrt2 \operatorname{Re}(e^{-ib} g)`, b uniform on [0, 2 pi), and f itself
    where that is real.

    Put :math:`\rho = 1 / (1 - 8A)` and :math:`q = |x + s y|^2`. One product has

    .. math::

       E \operatorname{Re}(fg)^2 &= \tfrac12 e^{-(s+1)(|x|^2 + |y|^2)}
       \left( e^{a} + \operatorname{Re} e^{b} \right), \\
       a &= d \log \frac{|1 + \rho|}{2 \sqrt{\operatorname{Re} \rho}}
       + \left(\frac s2 + \frac{s|\rho|^2 + |\rho||1 + \rho|}
       {2 \operatorname{Re} \rho}\right) q, \\
       b &= d \log \frac{1 + \rho}{2 \sqrt\rho} + s (1 + \rho) q .

    ``fit`` minimises the logarithm of this at the means of q over all pairs of rows,
    over s and over log rho: for each s L-BFGS-B of 50 iterations from the best three
    points of a grid, and the optimum over real A. The result is never worse there
    than OPRF or TrigRF. In all trials known to us no complex A was better than the
    real optimum of its sign, so ``A_`` ends up real.

    Orthogonal frequencies subtract the same from the variance for every A: with p
    ordered pairs in common blocks, :math:`p / m^2 \, e^{-(s+1)(|x|^2 + |y|^2)}
    (e^{sq} - {}_1F_1(d; d/2; sq/2))`.

    %(variance)s
    %(errors)s

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import GERFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> for sigma in (0.1, 1.0):
    ...     sampler = GERFSampler(sigma=sigma, random_state=0).fit(X)
    ...     print(sigma, sampler.s_, f"{sampler.A_:.3f}")
    0.1 -1 0.005+0.000j
    1.0 1 -0.592+0.000j
    """

    map_: ComplexExponentialMap | ExponentialMap

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency; 2 before ``fit``, where it may be 1."""
        return self.map_.columns_per_frequency if hasattr(self, "map_") else 2

    def _choose(self, statistics, frame):
        d = statistics.n_features
        q_plus, q_minus = mean_squares(statistics, frame)
        optima = {-1: trigonometric_A(q_minus, d), 1: optimal_A(q_plus, d)}
        return best_member(optima, {-1: q_minus, 1: q_plus}, d)

    s_ = fitted("map_.s", "The chosen sign, +1 or -1.")
    phase_ = fitted("map_.phase", "Phase of a last single column, in radians.")

    @property
    def A_(self) -> complex:
        """The chosen parameter."""
        return complex(self.map_.A)

    @property
    def B_(self) -> complex:
        """Coefficient of the projection."""
        return cmath.sqrt(self.s_ * (1 - 4 * self.A_))

    @property
    def C_(self) -> float:
        """Coefficient of the squared norm of the row."""
        return -0.5 * (self.s_ + 1)

    @property
    def log_D_(self) -> complex:
        """Logarithm of the constant factor."""
        return 0.25 * self.n_features_in_ * log_one_minus(4 * self.A_)

    @property
    def D_(self) -> complex:
        """Constant factor, infinite where it overflows."""
        overflows = self.log_D_.real > 709
        return complex(math.inf) if overflows else cmath.exp(self.log_D_)
