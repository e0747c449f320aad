"""Random Fourier features of the Gaussian kernel."""

from __future__ import annotations

from .._compat import StrOptions
from .._docs import fill_doc
from ..frequencies import Coupling, chi_law
from ..maps import GaussianKernel, GaussianRadial
from ._base import BaseFeatureSampler, fitted
from ._trigonometric import make_trigonometric_map


@fill_doc
class TrigRBFSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from sine and cosine pairs (random Fourier features).

    ``fit`` reads of the data the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    %(sigma)s
    %(n_components_pairs)s
    %(coupling)s
    %(kernel)s
    %(random_phase)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    %(phase_)s
    %(fitted)s

    See Also
    --------
    PositiveRBFSampler : Positive features of the same kernels.
    OPRFSampler : Positive features of least variance on the data.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already multiplied by sigma,

    .. math:: f(x) = \frac{1}{\sqrt m} (\cos w \cdot x, \sin w \cdot x), \qquad
       \operatorname{Var} = \frac{(1 - K^2)^2}{2m} - \frac{p}{m^2} g(|x - y|^2)

    ([1]_; [3]_ section 2.2), where p counts the ordered
    pairs of frequencies in common blocks and
    :math:`g(q) = e^{-q} - {}_1F_1(d; d/2; -q/2)` is what an orthogonal pair saves
    [2]_.

    %(variance)s
    %(errors)s

    References
    ----------
    .. [1] A. Rahimi, B. Recht, "Random Features for Large-Scale Kernel Machines",
       NeurIPS 2007.
    .. [2] F. X. Yu et al., "Orthogonal Random Features", NeurIPS 2016,
       :arxiv:`1610.09072`.
    .. [3] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import TrigRBFSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = TrigRBFSampler(n_components=1000, random_state=0).fit(X)
    >>> sampler.transform(X).shape
    (100, 1000)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> bool(abs(error).mean() < 0.02)
    True
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "random_phase": ["boolean"],
    }

    def __init__(
        self,
        *,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        kernel="gaussian",
        random_phase=False,
        n_jobs=None,
        random_state=None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency."""
        return 1 if self.random_phase else 2

    def _make_map(self, statistics, drawn):
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        return make_trigonometric_map(
            self, statistics, drawn, GaussianRadial(), chi_law, gaussian=kernel
        )

    phase_ = fitted("map_.phase", "Phases of single columns, in radians.")
