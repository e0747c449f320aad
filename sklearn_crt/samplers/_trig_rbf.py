"""Random Fourier features of the Gaussian kernel."""

from __future__ import annotations

import numpy as np

from ..utils._docs import fill_doc
from ._conformity import trigonometric_gap
from ._gaussian import GaussianKernelMixin
from ._trigonometric import TrigonometricSampler


@fill_doc
class TrigRBFSampler(GaussianKernelMixin, TrigonometricSampler):
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
        **TrigonometricSampler._parameter_constraints,
        **GaussianKernelMixin._parameter_constraints,
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

    def _profile(self, r):
        return np.exp(-0.5 * r**2)

    def _pair_variance(self, r):
        return 0.5 * np.expm1(-(r**2)) ** 2  # (1 - K^2)^2 / 2

    def _orthogonality_gap(self, r):
        return trigonometric_gap(r**2, self.n_features_in_, self._cosine())

    def _variance(self, X, Y):
        with np.errstate(divide="ignore", over="ignore"):
            log_variance = np.log(super()._variance(X, Y))
            return np.exp(log_variance + 2 * self._log_pair_factor(X, Y))
