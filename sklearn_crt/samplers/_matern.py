"""Random Fourier features of the Matern kernel."""

from __future__ import annotations

from numbers import Real

from .._compat import Interval
from .._docs import fill_doc
from ..frequencies import student_law
from ..maps import MaternRadial
from ._heavy_tailed import HeavyTailedSampler


@fill_doc
class MaternSampler(HeavyTailedSampler):
    r"""Matern kernel from sine and cosine pairs.

    The frequencies are normal vectors over chi variables: multivariate Student.
    ``fit`` reads of the data the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness, positive: 1/2 is the Laplacian kernel, infinity the Gaussian one.
        Below 0.15 a warning says that the frequencies are too large for floats.
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
    LaplacianSampler : The case nu = 1/2.
    TrigRBFSampler : The case of infinite nu.
    sklearn_crt.kernels.matern_kernel : The exact kernel as a function.

    Notes
    -----
    With x already multiplied by sigma and :math:`r = |x - y|_M`,

    .. math:: K = \frac{2^{1-\nu}}{\Gamma(\nu)} \left(\sqrt{2\nu} r\right)^\nu
       K_\nu\left(\sqrt{2\nu} r\right), \qquad
       w = \sqrt{2\nu}\, \frac{M^{1/2} u}{\chi_{2\nu}}, \quad u \sim N(0, I_d)

    so the norm for M = I is :math:`\sqrt{2\nu B}`, B beta prime of d/2 and nu ([1]_,
    theorems 11 and 12; the former lacks the factor :math:`\sqrt{2\nu}`). The features
    are :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt m` and

    .. math:: \operatorname{Var} = \frac{1 + \kappa(2r) - 2 \kappa(r)^2}{2m}
       - \frac{p}{m^2} g(r)

    %(radial_variance)s

    %(radial_errors)s

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import MaternSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = MaternSampler(nu=2.5, n_components=1000, random_state=0).fit(X)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> bool(abs(error).mean() < 0.02)
    True
    """

    _parameter_constraints: dict = {
        **HeavyTailedSampler._parameter_constraints,
        "nu": [Interval(Real, 0, None, closed="right")],  # infinity is the Gaussian
    }
    _tail_advice = "nu of 0.15 or more"

    def __init__(
        self,
        *,
        nu=1.5,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        metric=None,
        random_phase=False,
        n_jobs=None,
        random_state=None,
    ):
        self.nu = nu
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.metric = metric
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _tail_index(self):
        return 2 * self.nu

    def _radial(self):
        return MaternRadial(self.nu)

    def _radial_law(self, n_features):
        return student_law(n_features, self.nu)
