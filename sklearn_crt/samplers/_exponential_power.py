"""Random Fourier features of the exponential-power kernel."""

from __future__ import annotations

from numbers import Real

from .._compat import Interval
from .._docs import fill_doc
from ..frequencies import stable_law
from ..maps import ExponentialPowerRadial
from ._heavy_tailed import HeavyTailedSampler


@fill_doc
class ExponentialPowerSampler(HeavyTailedSampler):
    r"""Exponential-power kernel from sine and cosine pairs.

    The frequencies are normal vectors times the root of a positive stable variable.
    ``fit`` reads of the data the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    alpha : float, default=1.0
        Exponent in (0, 2]: 1 is the Laplacian kernel, 2 the Gaussian kernel
        exp(-r^2), without the factor 1/2. Below 0.3 a warning says that the
        frequencies are too large for floats.
    %(sigma_radial)s
    %(n_components_pairs)s
    %(coupling)s
    %(metric)s
    %(random_phase)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    %(phase_)s
    %(fitted)s

    See Also
    --------
    LaplacianSampler : The case alpha = 1.
    TrigRBFSampler : The case alpha = 2, with sigma times sqrt(2).
    sklearn_crt.kernels.exponential_power_kernel : The exact kernel as a function.

    Notes
    -----
    With x already multiplied by sigma and :math:`r = |x - y|_M`,

    .. math:: K = e^{-r^\alpha}, \qquad w = \sqrt S M^{1/2} u, \quad u \sim N(0, I_d),
       \quad \operatorname{E} e^{-gS} = e^{-(2g)^{\alpha/2}}

    so the norm for M = I is :math:`\chi_d \sqrt S`; S is drawn by Kanter's form of the
    method of Chambers, Mallows and Stuck ([1]_, theorems 11 and 12; the latter lacks
    :math:`\chi_d` and the root). The features are
    :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt m` and

    .. math:: \operatorname{Var} = \frac{1 + \kappa(2r) - 2 \kappa(r)^2}{2m}
       - \frac{p}{m^2} g(r)

    %(radial_variance)s
    For alpha below 0.05, too, ``kernel_variance`` is that of independent frequencies.

    %(radial_errors)s

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`.
    .. [2] M. Kanter, "Stable densities under change of scale and total variation
       inequalities", Annals of Probability 3, 1975, :doi:`10.1214/aop/1176996309`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import ExponentialPowerSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = ExponentialPowerSampler(alpha=0.7, n_components=1000, random_state=0)
    >>> error = sampler.fit(X).approximate_kernel(X) - sampler.exact_kernel(X)
    >>> bool(abs(error).mean() < 0.03)
    True
    """

    _parameter_constraints: dict = {
        **HeavyTailedSampler._parameter_constraints,
        "alpha": [Interval(Real, 0, 2, closed="right")],
    }
    _tail_advice = "alpha of 0.3 or more"

    def __init__(
        self,
        *,
        alpha=1.0,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        metric=None,
        random_phase=False,
        n_jobs=None,
        random_state=None,
    ):
        self.alpha = alpha
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.metric = metric
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _tail_index(self):
        return self.alpha

    def _radial(self):
        return ExponentialPowerRadial(self.alpha)

    def _radial_law(self, n_features):
        return stable_law(n_features, self.alpha)
