"""Random Fourier features of the Gaussian kernel."""

from __future__ import annotations

import numpy as np

from .._compat import RandomState, StrOptions
from ..frequencies import Coupling, chi_law
from ..maps import Gaussian, GaussianKernel, GaussianOrSoftmax
from ..rows import Sigma
from ._base import BaseFeatureSampler, fitted
from ._trigonometric import make_trigonometric_map


class TrigRBFSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from sine and cosine pairs (random Fourier features).

    From the data ``fit`` reads the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` with ``gamma = sigma**2 / 2``;
        ``"median"`` is one over the median distance of up to 1000 rows.
    n_components : int, default=100
        Number of columns: two per frequency, or one with ``random_phase``. With an odd
        number the last frequency has one column with a random phase.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        ``"softmax"`` is ``exp(sigma**2 * x.y)``, by features of the Gaussian kernel
        times ``exp(|sigma * x|**2 / 2)``.
    random_phase : bool, default=False
        Whether each column is ``sqrt(2 / m) * cos(w.x + b)`` with a frequency w and a
        phase b of its own. With the same number of columns, this has a lower variance
        where the kernel is small, whereas pairs of cosine and sine have a lower
        variance near x = y.
    n_jobs : int, default=None
        Number of threads of ``transform``; -1 uses all processors. None uses as many as
        NumPy's linear algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies, which are nested: with the same seed, a sampler with
        half as many columns uses the first half of them.

    Attributes
    ----------
    phase_ : float or ndarray of shape (n_components,)
        Phase in radians of the last column if ``n_components`` is odd, or of each
        column with ``random_phase``.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : Frequencies
        The frequencies of the map, for rows that are multiplied by ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    PositiveRBFSampler : Positive features of the same kernels.
    OPRFSampler : Positive features of least variance on the data.

    Notes
    -----
    With m frequencies :math:`w \sim N(0, I_d)` and x already multiplied by sigma,

    .. math:: f(x) = \frac{1}{\sqrt m} (\cos w \cdot x, \sin w \cdot x), \qquad
       \operatorname{Var} = \frac{(1 - K^2)^2}{2m} - \frac{p}{m^2} g(|x - y|^2)

    ([1]_; [3]_ section 2.2), where p is the number of ordered pairs of frequencies in
    common blocks and :math:`g(q) = e^{-q} - {}_1F_1(d; d/2; -q/2)` is the variance
    reduction of an orthogonal pair [2]_.

    ``kernel_variance`` is this formula for ``"iid"`` and ``"orthogonal"``; for
    ``"simplex"`` and objects of any fixed angle another function replaces 1F1 (user
    guide, couplings); the method says what it is for others.

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
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        kernel: GaussianOrSoftmax = "gaussian",
        random_phase: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        return make_trigonometric_map(
            self, statistics, drawn, Gaussian(), chi_law, gaussian=kernel
        )

    phase_: float | np.ndarray = fitted(
        "map_.phase", "Phases of single columns, in radians."
    )
