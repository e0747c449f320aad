"""Random Fourier features of the Matern kernel."""

from __future__ import annotations

from numbers import Real

from numpy.typing import ArrayLike

from .._compat import Interval
from .._types import RandomState
from ..frequencies import Coupling, student_law
from ..maps import MaternRadial
from ..rows import Sigma
from ._trigonometric import HeavyTailedSampler


class MaternSampler(HeavyTailedSampler):
    r"""Matern kernel from sine and cosine pairs.

    The frequencies are multivariate Student: normal vectors divided by chi variables.
    From the data ``fit`` reads the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness, positive: 1/2 is the Laplacian kernel, infinity the Gaussian one.
        Below 0.15 ``fit`` warns that many frequencies are too large for floats.
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
    metric : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M of the distance ``sqrt(u' M u)``, where ``u
        = sigma * (x - y)``. None is the identity.
    random_phase : bool, default=False
        Whether each column is ``sqrt(2 / m) * cos(w.x + b)`` with a frequency w and a
        phase b of its own. At equal columns this has less variance where the kernel is
        small, and pairs have less near x = y.
    n_jobs : int, default=None
        Threads of ``transform``; -1 uses all processors, None as many as NumPy's linear
        algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies. Draws are nested: half the columns use the first half.

    Attributes
    ----------
    phase_ : float or ndarray of shape (n_components,)
        Phase of the last column where ``n_components`` is odd, or of each column with
        ``random_phase``, in radians.
    sigma_ : float or ndarray of shape (n_features,)
        The multiplier in use.
    map_ : FeatureMap
        The drawn map, immutable, which works without the sampler.
    frequencies_ : Frequencies
        Its frequencies, for rows multiplied by sigma.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``, where X has string names.

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
    theorems 11 and 12; the former lacks the factor :math:`\sqrt{2\nu}`), and its
    probability to exceed R falls as :math:`R^{-2\nu}`. The features are
    :math:`(\cos w \cdot x, \sin w \cdot x) / \sqrt m` and

    .. math:: \operatorname{Var} = \frac{1 + \kappa(2r) - 2 \kappa(r)^2}{2m}
       - \frac{p}{m^2} g(r)

    where :math:`\kappa(r)` is the kernel at the distance r, m the number of
    frequencies, p that of ordered pairs of frequencies in common blocks, and g(r) the
    variance reduction of an orthogonal pair: that of the Gaussian kernel averaged over
    a distribution of scales, by quadrature to about 1e-6. For couplings other than
    ``"iid"`` and ``"orthogonal"``, including stratified ones, ``kernel_variance`` is
    that of independent frequencies (p = 0).

    In float32, inner products w.x beyond 2^20 are computed in float64.

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
        nu: float = 1.5,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        metric: ArrayLike | None = None,
        random_phase: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
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
