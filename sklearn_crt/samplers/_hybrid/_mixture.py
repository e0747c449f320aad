"""Gaussian mixture over pairs of clusters: base maps and coefficients of a hybrid."""

from __future__ import annotations

import math

import numpy as np

from ..utils._docs import fill_doc
from ._clusters import cluster_sides, massive_pairs, pair_diagonal
from ._complex_exponential import ComplexExponentialSampler
from ._conformity import positive_gap
from ._gaussian import GaussianKernelMixin
from ._isotropic import IsotropicSampler
from ._trig_rbf import TrigRBFSampler


@fill_doc
class MixtureCoefficient(GaussianKernelMixin, IsotropicSampler):
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

    kernel = "gaussian"
    symmetric_ = False
    _parameter_constraints: dict = {
        **IsotropicSampler._parameter_constraints,
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

    def _side(self, rows, key):
        """Return the rows u of the query side, -v of the key side."""
        a = np.asarray(self.diagonal, dtype=float)
        return rows.map_columns(-1 / a if key else a)

    def _features(self, rows, out, key):
        side = self._side(rows, key)
        exponent = side.projection
        exponent -= side.sq_norms + 0.5 * math.log(self.n_components)
        return None, exponent

    def _kernel(self, X, Y):
        return super()._kernel(self._side(X, False), self._side(Y, True))

    def _variance(self, X, Y):
        n = self.n_components
        _, q, sq_distances = self._side(X, False).pair_statistics(self._side(Y, True))
        total = -np.expm1(-q) / n
        if self._n_pairs() > 0 and self._has_closed_form():
            gap = positive_gap(q, self.n_features_in_, self._cosine()) * np.exp(-q)
            total = total - self._n_pairs() / n**2 * gap
        with np.errstate(divide="ignore", over="ignore"):
            return np.exp(np.log(np.maximum(total, 0)) + q - sq_distances)


def mixture_parts(samples, n_clusters, sigma, coupling, rng):
    """Return unfitted base maps and coefficients for all pairs of clusters."""
    queries, keys = cluster_sides(samples, n_clusters, None, rng)
    bases, coefficients = [], []
    for i, j in massive_pairs(queries, keys, None):
        a = pair_diagonal(queries, keys, i, j, real=True, moments=True).real
        bases.append(ComplexExponentialSampler(a, coupling=coupling))
        coefficients.append(MixtureCoefficient(a, sigma=sigma, coupling=coupling))
    bases.append(TrigRBFSampler(coupling=coupling))
    return bases, coefficients
