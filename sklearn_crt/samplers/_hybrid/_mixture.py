"""A Gaussian about a pair of clusters: a coefficient of hybrids."""

from __future__ import annotations

import numpy as np

from ..._docs import fill_doc
from ...frequencies import Coupling, get_coupling
from ...maps import ColumnFactorsMap, ExponentialMap, GaussianKernel
from ...rows import Frame
from .._base import BaseFeatureSampler
from ._draw import draw_normal


@fill_doc
class MixtureCoefficient(BaseFeatureSampler):
    r"""Coefficient of a hybrid that is one where :math:`y = -a^2 x`.

    Positive features of :math:`e^{-|a x + y / a|^2 / 2}`, products and quotients
    coordinate by coordinate.

    Parameters
    ----------
    diagonal : array-like of shape (n_features,) or float, default=1.0
        The diagonal a, real and without zeros.
    sigma : float, str or array-like of shape (n_features,), default=1.0
        Multiplies the rows first, one over the width of the coefficient.
    n_components : int, default=100
        Number of columns, one a frequency.
    %(coupling)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    %(fitted)s

    See Also
    --------
    HybridSampler : With ``kind="clustered"`` and ``mixture="gaussian"`` has one such
        coefficient for each pair of clusters.

    Notes
    -----
    With n frequencies :math:`t \sim N(0, I_d)`, :math:`u = a x` and :math:`v = y / a`
    ([1]_, equations 93 to 96)

    .. math::

       r_1(x) = \frac{1}{\sqrt n} e^{t \cdot u - |u|^2}, \quad
       r_2(y) = \frac{1}{\sqrt n} e^{-t \cdot v - |v|^2}, \quad
       \operatorname{Var} = \frac{\lambda^2}{n} \left( e^{|u - v|^2} - 1 \right)

    less what orthogonal frequencies save.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import MixtureCoefficient
    >>> X = np.array([[1.0, 0.0], [0.0, 0.5]])
    >>> MixtureCoefficient(random_state=0).fit(X).exact_kernel(X[:1], -X)
    array([[1.        , 0.53526143]])
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "diagonal": ["array-like", float, int],
    }

    def __init__(
        self,
        diagonal=1.0,
        *,
        sigma=1.0,
        n_components=100,
        coupling="orthogonal",
        n_jobs=None,
        random_state=None,
    ):
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        a = np.broadcast_to(np.asarray(self.diagonal, float), statistics.n_features)
        coupling = get_coupling(self.coupling, type(self).__name__)
        n = self.n_components
        frequencies = draw_normal(coupling, n, statistics, drawn)
        base = ExponentialMap(Frame(), n, frequencies, coupling, 0.0, GaussianKernel())
        return ColumnFactorsMap(self._frame(statistics), n, base, a.copy(), -1 / a)
