"""Random Fourier features for the Matern, Laplacian and exponential-power kernels."""

from __future__ import annotations

import math
from abc import abstractmethod
from numbers import Real
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from .._compat import Interval, RandomState, StrOptions
from ..frequencies import (
    Coupling,
    Frequencies,
    Independent,
    Orthogonal,
    get_coupling,
    stable_law,
    student_law,
)
from ..maps import ExponentialPower, Laplacian, Matern, RadialKernel
from ..rows import Sigma, shape_factor
from ._base import BaseFeatureSampler, fitted
from ._trigonometric import has_uniform_directions, make_trigonometric_map
from ._warnings import warn_of_tail

# with this few columns, structured frequencies are too often orthogonal to rows
_FEW_FEATURES = 32


class HeavyTailedSampler(BaseFeatureSampler):
    """Base class of random Fourier features whose frequencies have heavy tails.

    This class adds ``shape_matrix`` and ``random_phase``, and computes large phases
    accurately. A subclass implements ``_radial``, ``_radial_law`` and ``_tail_index``.
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "shape_matrix": ["array-like", None],
        "random_phase": ["boolean"],
    }

    # ------------------------------------------------------------------- hooks
    _tail_advice = "another kernel"

    @abstractmethod
    def _radial(self) -> RadialKernel:
        """Return the kernel."""

    @abstractmethod
    def _radial_law(self, n_features: int):
        """Return the distribution of the norm of a frequency in a given dimension."""

    @abstractmethod
    def _tail_index(self) -> float:
        """Return b such that P(|w| > R) ~ R^-b; infinity for light tails."""

    def _coupling(self) -> Coupling:
        """Return the coupling for the parameter ``coupling``."""
        return get_coupling(self.coupling, type(self).__name__)

    # ------------------------------------------------------------------ fitting
    def _make_map(self, statistics, drawn):
        factor = shape_factor(self.shape_matrix, statistics.n_features)
        coupling = self._coupling()
        if drawn is None:
            self._check_tail(coupling, statistics.n_features)

        def draw(n_frequencies, n_features, rng):
            law = self._radial_law
            frequencies = coupling.draw(law, n_frequencies, n_features, rng)
            if factor is None:
                return frequencies
            return Frequencies(factor @ frequencies.to_dense())

        return make_trigonometric_map(
            self,
            statistics,
            drawn,
            self._radial(),
            self._radial_law,
            coupling=coupling,
            draw=draw,
            shape_factor=factor,
            heavy_tailed=True,
        )

    def _check_tail(self, coupling, n_features):
        index = self._tail_index()
        warn_of_tail(self, index, self._tail_advice)
        if index < 2 and not coupling.exact and n_features <= _FEW_FEATURES:
            reason = (
                f" with up to {_FEW_FEATURES} columns (X has {n_features}), because "
                "directions that are only nearly uniform bias the estimate where "
                "frequencies are large"
            )
            name = type(self).__name__
            get_coupling(self.coupling, name, has_uniform_directions, reason)

    phase_: float | np.ndarray = fitted(
        "map_.phase", "Phase of each single column, in radians."
    )


class MaternSampler(HeavyTailedSampler):
    r"""Random Fourier features that estimate the Matern kernel.

    Use this kernel for functions that are less smooth than the Gaussian kernel assumes;
    ``nu`` sets the smoothness. The features are cosines and sines of inner products
    with random frequencies, which follow a multivariate Student distribution (normal
    vectors divided by chi variables). ``fit`` uses the data only to determine the
    number of columns and, for ``sigma="scale"`` or ``"median"``, their scale.

    Parameters
    ----------
    nu : float, default=1.5
        Smoothness of the kernel, which must be positive: 1/2 gives the Laplacian
        kernel, and infinity gives the Gaussian kernel. Below 0.15, ``fit`` warns that
        many frequencies are too large for floating-point numbers.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: a cosine and a sine per frequency, or only a cosine with
        ``random_phase=True``. If ``n_components`` is odd, the last frequency has a
        single column with a random phase. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    shape_matrix : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M that defines the distance ``sqrt(u' M u)``,
        where ``u = sigma * (x - y)``. None means the identity matrix.
    random_phase : bool, default=False
        Whether each feature is ``sqrt(2 / m) * cos(w.x + b)`` with its own random
        frequency w and phase b. For the same number of features, this gives a lower
        variance than cosine-sine pairs where the kernel value is small, but a higher
        variance for neighbouring rows.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    phase_ : float or ndarray of shape (n_components,)
        Phase, in radians, of the last column if ``n_components`` is odd, or of every
        column if ``random_phase=True``.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        Frequencies of the map. They apply to rows multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` computes the same features as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    LaplacianSampler : The special case nu = 1/2, and the L1 Laplacian kernel.
    sklearn_crt.TrigRBFSampler : The Gaussian kernel, the limit for infinite nu.
    sklearn_crt.kernels.matern_kernel : The exact kernel as a function.

    Notes
    -----
    Let x and y be rows that are already multiplied by sigma, and let :math:`r = |x -
    y|_M` be the distance that ``shape_matrix`` M defines. The kernel and the
    distribution of the frequencies are

    .. math:: K = \frac{2^{1-\nu}}{\Gamma(\nu)} \left(\sqrt{2\nu} r\right)^\nu
       K_\nu\left(\sqrt{2\nu} r\right), \qquad
       w = \sqrt{2\nu}\, \frac{M^{1/2} u}{\chi_{2\nu}}, \quad u \sim N(0, I_d).

    For M = I, the norm of a frequency is :math:`\sqrt{2\nu B}`, where B has a beta
    prime distribution with parameters d/2 and nu ([1]_, theorems 11 and 12; theorem 11
    lacks the factor :math:`\sqrt{2\nu}`). The probability that the norm exceeds R
    decreases as :math:`R^{-2\nu}`. With m frequencies, the features are :math:`(\cos w
    \cdot x, \sin w \cdot x) / \sqrt m`, and the variance of the kernel estimate is

    .. math:: \operatorname{Var} = \frac{1 + \kappa(2r) - 2 \kappa(r)^2}{2m}
       - \frac{p}{m^2} g(r)

    where :math:`\kappa(r)` is the kernel at distance r, p is the number of ordered
    pairs of frequencies in the same block, and g(r) is the variance reduction of an
    orthogonal pair. To compute g, the variance reduction for the Gaussian kernel is
    averaged over a distribution of scales by quadrature, with an error of about 1e-6.
    For couplings other than ``"iid"`` and ``"orthogonal"``, and for stratified norms,
    ``kernel_variance`` returns the variance for independent frequencies (p = 0).

    For float32 rows, inner products w.x beyond 2^20 are computed in float64.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import MaternSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = MaternSampler(nu=2.5, n_components=1000, random_state=0).fit(X)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> bool(abs(error).mean() < 0.02)
    True
    """

    _parameter_constraints: dict = {
        **HeavyTailedSampler._parameter_constraints,
        # infinity gives the Gaussian kernel
        "nu": [Interval(Real, 0, None, closed="right")],
    }
    _tail_advice = "nu of 0.15 or more"

    def __init__(
        self,
        *,
        nu: float = 1.5,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        coupling: str | Coupling = "orthogonal",
        shape_matrix: ArrayLike | None = None,
        random_phase: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.nu = nu
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.shape_matrix = shape_matrix
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _tail_index(self):
        return 2 * self.nu

    def _radial(self):
        return Matern(self.nu)

    def _radial_law(self, n_features):
        return student_law(n_features, self.nu)


class LaplacianSampler(MaternSampler):
    r"""Random Fourier features that estimate the L2 or L1 Laplacian kernel.

    Use this kernel for functions that are continuous but not smooth. With the L2 norm
    this is :class:`MaternSampler` with ``nu=0.5``, and the frequencies have a
    multivariate Cauchy distribution. With the L1 norm the coordinates of each frequency
    are independent Cauchy variables. ``fit`` uses the data only to determine the number
    of columns and, for ``sigma="scale"`` or ``"median"``, their scale.

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        Norm that is applied to the difference between two rows. With ``"l1"``, the
        kernel is scikit-learn's Laplacian kernel, which is not isotropic.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: a cosine and a sine per frequency, or only a cosine with
        ``random_phase=True``. If ``n_components`` is odd, the last frequency has a
        single column with a random phase. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    coupling : str or Coupling, default="auto"
        How the frequencies depend on each other. For the L2 norm, ``"auto"`` is
        ``"orthogonal"``, and all couplings of :class:`MaternSampler` are allowed. For
        the L1 norm, ``"auto"`` is ``"iid"``, and no other coupling is allowed.
    shape_matrix : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M that defines the distance ``sqrt(u' M u)``,
        where ``u = sigma * (x - y)``. None means the identity matrix. Available only
        for the L2 norm.
    random_phase : bool, default=False
        Whether each feature is ``sqrt(2 / m) * cos(w.x + b)`` with its own random
        frequency w and phase b. For the same number of features, this gives a lower
        variance than cosine-sine pairs where the kernel value is small, but a higher
        variance for neighbouring rows.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    phase_ : float or ndarray of shape (n_components,)
        Phase, in radians, of the last column if ``n_components`` is odd, or of every
        column if ``random_phase=True``.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        Frequencies of the map. They apply to rows multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` computes the same features as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    MaternSampler : A family of kernels that includes the L2 kernel, for nu = 1/2.
    ExponentialPowerSampler : A family that includes the L2 kernel, for alpha = 1.
    sklearn_crt.kernels.matern_kernel : The exact L2 kernel, for nu = 1/2.

    Notes
    -----
    Let x and y be rows that are already multiplied by sigma, and let :math:`r = |x -
    y|_M` be the distance that ``shape_matrix`` M defines. With the L2 norm, the kernel
    and the frequencies are

    .. math:: K = e^{-r}, \qquad w = \frac{M^{1/2} u}{|n|}, \quad u \sim N(0, I_d),
       \quad n \sim N(0, 1)

    with one n per frequency ([1]_, theorem 11). Table 1 in [1]_ suggests one n per
    column of the data instead, which would give the L1 kernel. For M = I, the norm of a
    frequency is :math:`\sqrt B`, where B has a beta prime distribution with parameters
    d/2 and 1/2. The probability that the norm exceeds R decreases as 1/R. The features,
    their variance and the computation in float32 are the same as for
    :class:`MaternSampler`, with this kernel as :math:`\kappa`.

    With ``norm="l1"``, ``fit`` raises ValueError if ``shape_matrix`` is given or if the
    coupling is not ``"auto"`` or ``"iid"``.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`.
    .. [2] A. Rahimi, B. Recht, "Random Features for Large-Scale Kernel Machines",
       NeurIPS 2007 (the L1 kernel).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import LaplacianSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = LaplacianSampler(n_components=1000, random_state=0).fit(X)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> bool(abs(error).mean() < 0.03)
    True
    """

    _parameter_constraints: dict = {
        **MaternSampler._parameter_constraints,
        "norm": [StrOptions({"l2", "l1"})],
    }
    nu = 0.5

    def __init__(
        self,
        *,
        norm: Literal["l2", "l1"] = "l2",
        sigma: Sigma | None = None,
        n_components: int | None = None,
        coupling: str | Coupling = "auto",
        shape_matrix: ArrayLike | None = None,
        random_phase: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.norm = norm
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.shape_matrix = shape_matrix
        self.random_phase = random_phase
        self.n_jobs = n_jobs
        self.random_state = random_state

    @property
    def _doubtful_below(self) -> float:  # type: ignore[override]
        # the L1 kernel is close to 0 for most pairs if X has many columns
        return math.inf if self.norm == "l1" else 64

    def _make_map(self, statistics, drawn):
        if self.norm == "l2":
            return super()._make_map(statistics, drawn)
        if self.shape_matrix is not None:
            raise ValueError(
                "shape_matrix requires norm='l2', got norm='l1'; use shape_matrix=None."
            )
        coupling = Independent() if self.coupling == "auto" else self._coupling()
        if not isinstance(coupling, Independent):
            raise ValueError(
                f"coupling={self.coupling!r} is not supported by LaplacianSampler with "
                "norm='l1', whose frequencies are not isotropic; use 'auto' or 'iid'."
            )
        return make_trigonometric_map(
            self,
            statistics,
            drawn,
            Laplacian("l1"),
            self._radial_law,
            coupling=coupling,
            draw=_draw_cauchy,
            heavy_tailed=True,
        )

    def _coupling(self):
        return Orthogonal() if self.coupling == "auto" else super()._coupling()


def _draw_cauchy(n_frequencies, n_features, rng):
    """Draw frequencies with independent Cauchy coordinates."""
    (cauchy_rng,) = rng.spawn(1)
    return Frequencies(cauchy_rng.standard_cauchy((n_frequencies, n_features)).T)


class ExponentialPowerSampler(HeavyTailedSampler):
    r"""Random Fourier features that estimate the exponential power kernel.

    Use this kernel for functions that are less smooth than the Gaussian kernel assumes;
    a smaller ``alpha`` gives the kernel a sharper peak. The frequencies are normal
    vectors multiplied by the square root of a positive stable variable. ``fit`` uses
    the data only to determine the number of columns and, for ``sigma="scale"`` or
    ``"median"``, their scale.

    Parameters
    ----------
    alpha : float, default=1.0
        Exponent in (0, 2]: 1 gives the Laplacian kernel, and 2 the Gaussian kernel
        ``exp(-r**2)``, without the factor 1/2. Below 0.3, ``fit`` warns that many
        frequencies are too large for floating-point numbers.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features: a cosine and a sine per frequency, or only a cosine with
        ``random_phase=True``. If ``n_components`` is odd, the last frequency has a
        single column with a random phase. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    shape_matrix : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M that defines the distance ``sqrt(u' M u)``,
        where ``u = sigma * (x - y)``. None means the identity matrix.
    random_phase : bool, default=False
        Whether each feature is ``sqrt(2 / m) * cos(w.x + b)`` with its own random
        frequency w and phase b. For the same number of features, this gives a lower
        variance than cosine-sine pairs where the kernel value is small, but a higher
        variance for neighbouring rows.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    phase_ : float or ndarray of shape (n_components,)
        Phase, in radians, of the last column if ``n_components`` is odd, or of every
        column if ``random_phase=True``.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        Frequencies of the map. They apply to rows multiplied by ``sigma_``.
    symmetric_ : bool
        Whether ``transform_key`` computes the same features as ``transform``.
    variance_is_exact_ : bool
        Whether ``kernel_variance`` is exact for the coupling that is used.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    LaplacianSampler : The case alpha = 1.
    sklearn_crt.TrigRBFSampler : The case alpha = 2, with sigma multiplied by sqrt(2).
    sklearn_crt.kernels.exponential_power_kernel : The exact kernel as a function.

    Notes
    -----
    Let x and y be rows that are already multiplied by sigma, and let :math:`r = |x -
    y|_M` be the distance that ``shape_matrix`` M defines. The kernel and the
    distribution of the frequencies are

    .. math:: K = e^{-r^\alpha}, \qquad w = \sqrt S M^{1/2} u, \quad u \sim N(0, I_d),
       \quad \operatorname{E} e^{-gS} = e^{-(2g)^{\alpha/2}}

    so for M = I the norm of a frequency is :math:`\chi_d \sqrt S`. The variable S is
    sampled by the method of Chambers, Mallows and Stuck in Kanter's form [2]_. See
    theorems 11 and 12 of [1]_; theorem 12 lacks :math:`\chi_d` and the square root. The
    probability that the norm exceeds R decreases as :math:`R^{-\alpha}`. The features,
    their variance and the computation in float32 are the same as for
    :class:`MaternSampler`, with this kernel as :math:`\kappa`. For alpha below 0.05,
    ``kernel_variance`` returns the variance for independent frequencies.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`.
    .. [2] M. Kanter, "Stable densities under change of scale and total variation
       inequalities", Annals of Probability 3, 1975, :doi:`10.1214/aop/1176996309`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import ExponentialPowerSampler
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
        sigma: Sigma | None = None,
        n_components: int | None = None,
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
