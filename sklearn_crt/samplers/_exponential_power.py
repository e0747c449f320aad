"""Random Fourier features of the exponential-power kernel."""

from __future__ import annotations

from numbers import Real

from numpy.typing import ArrayLike

from .._compat import Interval, RandomState
from ..frequencies import Coupling, stable_law
from ..maps import ExponentialPower
from ..rows import Sigma
from ._trigonometric import HeavyTailedSampler


class ExponentialPowerSampler(HeavyTailedSampler):
    r"""Exponential-power kernel from sine and cosine pairs.

    The frequencies are normal vectors times the root of a positive stable variable.
    From the data ``fit`` reads the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    alpha : float, default=1.0
        Exponent in (0, 2]: 1 is the Laplacian kernel, 2 the Gaussian kernel
        ``exp(-r**2)``, without the factor 1/2. Below 0.3 ``fit`` warns that many
        frequencies are too large for floats.
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
    shape_matrix : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M of the distance ``sqrt(u' M u)``, where ``u
        = sigma * (x - y)``. None is the identity.
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
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        The frequencies of the map, for rows that are multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` is the same map as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling in use.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

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
    :math:`\chi_d` and the root). The probability that the norm exceeds R falls as
    :math:`R^{-\alpha}`. The features, their variance and float32 are as for
    :class:`MaternSampler`, with this kernel for :math:`\kappa`.
    For alpha below 0.05 ``kernel_variance`` is that of independent frequencies.

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
        alpha: float = 1.0,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        shape_matrix: ArrayLike | None = None,
        random_phase: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.alpha = alpha
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.shape_matrix = shape_matrix
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _tail_index(self):
        return self.alpha

    def _radial(self):
        return ExponentialPower(self.alpha)

    def _radial_law(self, n_features):
        return stable_law(n_features, self.alpha)
