"""The angle over pi: a coefficient of hybrids."""

from __future__ import annotations

import copy
from typing import Self

from sklearn.utils.validation import check_is_fitted

from ..._docs import fill_doc
from ...frequencies import Coupling, get_coupling
from ...maps import SignMap
from ...rows import Frame, Sigma
from .._base import BaseFeatureSampler
from ._draw import draw_normal

# not the structured ones: a row on an axis has products that are exactly zero
_COUPLINGS = ("iid", "orthogonal", "simplex", "simplex+", "halton", "sobol")


@fill_doc
class AngularCoefficient(BaseFeatureSampler):
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

    _parameter_constraints: dict = {
        **{
            name: BaseFeatureSampler._parameter_constraints[name]
            for name in ("n_components", "n_jobs", "random_state")
        },
        "coupling": [str, Coupling],
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

    @property
    def a_(self) -> float:
        """The constant part of the coefficient."""
        return 0.5

    def _make_map(self, statistics, drawn):
        coupling = get_coupling(self.coupling, type(self).__name__, _COUPLINGS)
        if not coupling.exact:
            raise ValueError(
                f"coupling={self.coupling!r} has directions that are only nearly "
                "uniform, whose signs are biased for rows on an axis; use "
                f"{', '.join(map(repr, _COUPLINGS))}, or an exact Coupling object."
            )
        n = self.n_components
        directions = draw_normal(coupling, n, statistics, drawn)
        return SignMap(Frame(), n, directions, coupling)

    def with_sigma(self, sigma: Sigma) -> Self:
        """Return a copy: angles do not depend on a common factor of the rows.

        Parameters
        ----------
        sigma : float
            Any.

        Returns
        -------
        sampler : AngularCoefficient
            The same.
        """
        check_is_fitted(self)
        return copy.copy(self)
