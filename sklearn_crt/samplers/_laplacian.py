"""Random Fourier features of the Laplacian kernels."""

from __future__ import annotations

from .._compat import StrOptions
from .._docs import fill_doc
from ..frequencies import Frequencies, Independent, Orthogonal, student_law
from ..maps import LaplacianRadial
from ._heavy_tailed import HeavyTailedSampler


@fill_doc
class LaplacianSampler(HeavyTailedSampler):
    r"""Laplacian kernel from sine and cosine pairs.

    The frequencies are Cauchy: for the L2 norm one multivariate Cauchy vector each, a
    normal vector over one normal number; for the L1 norm independent coordinates.
    ``fit`` reads of the data the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        Norm in the exponent. With ``"l1"`` it is the kernel that scikit-learn calls
        Laplacian; it is not isotropic.
    %(sigma_radial)s
    %(n_components_pairs)s
    coupling : str or Coupling, default="auto"
        Joint law of the frequencies: ``"orthogonal"``, ``"iid"`` or an object.
        ``"auto"`` is ``"orthogonal"`` for the L2 norm, and for the L1 norm ``"iid"``,
        the only one it can use.
    metric : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite M, for the L2 norm: the kernel is that of the
        distance ``sqrt(u' M u)``, u = sigma * (x - y). None is the identity.
    %(random_phase)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    %(phase_)s
    %(fitted)s

    See Also
    --------
    MaternSampler : The L2 kernel is its case nu = 1/2.
    ExponentialPowerSampler : The L2 kernel is its case alpha = 1.
    sklearn_crt.kernels.laplacian_kernel : The exact kernel as a function.

    Notes
    -----
    With x already multiplied by sigma and :math:`r = |x - y|_M`,

    .. math:: K = e^{-r}, \qquad w = \frac{M^{1/2} u}{|n|}, \quad u \sim N(0, I_d),
       \quad n \sim N(0, 1)

    with one n a frequency ([1]_, theorem 11; its table 1 reads as one n a column of the
    data, which is the L1 kernel). The norm for M = I is :math:`\sqrt B`, B beta prime
    of d/2 and 1/2. The features are
    :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt m` and

    .. math:: \operatorname{Var} = \frac{1 + \kappa(2r) - 2 \kappa(r)^2}{2m}
       - \frac{p}{m^2} g(r)

    %(radial_variance)s

    %(radial_errors)s
    So does a ``metric``, or a coupling other than ``"auto"`` and ``"iid"``, with
    ``norm="l1"``.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`.
    .. [2] A. Rahimi, B. Recht, "Random Features for Large-Scale Kernel Machines",
       NeurIPS 2007 (the L1 kernel).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import LaplacianSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = LaplacianSampler(n_components=1000, random_state=0).fit(X)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> bool(abs(error).mean() < 0.03)
    True
    """

    _parameter_constraints: dict = {
        **HeavyTailedSampler._parameter_constraints,
        "norm": [StrOptions({"l2", "l1"})],
    }

    def __init__(
        self,
        *,
        norm="l2",
        sigma="scale",
        n_components=100,
        coupling="auto",
        metric=None,
        random_phase=False,
        n_jobs=None,
        random_state=None,
    ):
        self.norm = norm
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.metric = metric
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        if self.norm == "l1" and self.metric is not None:
            raise ValueError("metric needs norm='l2', got norm='l1'; use metric=None.")
        return super()._make_map(statistics, drawn)

    def _coupling(self):
        auto = isinstance(self.coupling, str) and self.coupling == "auto"
        if self.norm == "l2":
            return Orthogonal() if auto else super()._coupling()
        iid = isinstance(self.coupling, str) and self.coupling == "iid"
        if not (auto or iid or isinstance(self.coupling, Independent)):
            raise ValueError(
                f"coupling={self.coupling!r} is not one that LaplacianSampler can use "
                "with norm='l1', whose frequencies are not isotropic; use 'auto' or "
                "'iid'."
            )
        return Independent()

    def _draw(self, coupling):
        return super()._draw(coupling) if self.norm == "l2" else _draw_cauchy

    def _tail_index(self):
        return 1.0

    def _radial(self):
        return LaplacianRadial(self.norm)

    def _radial_law(self, n_features):
        return student_law(n_features, 0.5)


def _draw_cauchy(n_frequencies, n_features, rng):
    """Draw frequencies with independent Cauchy coordinates."""
    (cauchy_rng,) = rng.spawn(1)
    return Frequencies(cauchy_rng.standard_cauchy((n_frequencies, n_features)).T)
