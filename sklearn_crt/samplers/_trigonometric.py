"""Random Fourier features for the Gaussian kernel."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._compat import RandomState, StrOptions
from ..frequencies import Coupling, chi_law, get_coupling
from ..maps import (
    Gaussian,
    GaussianKernel,
    GaussianOrSoftmax,
    PairedColumns,
    RadialKernel,
    TrigonometricMap,
)
from ..rows import Sigma, Statistics
from ._base import BaseFeatureSampler, fitted


def make_trigonometric_map(
    sampler: BaseFeatureSampler,
    statistics: Statistics,
    drawn: TrigonometricMap | None,
    radial: RadialKernel,
    radial_law: Callable,
    *,
    coupling: Coupling | None = None,
    draw: Callable | None = None,
    **fields: Any,
) -> TrigonometricMap:
    """Return a map of random Fourier features for a radial kernel."""
    coupling = coupling or get_coupling(sampler.coupling, type(sampler).__name__)
    single = getattr(sampler, "random_phase", False)
    columns = PairedColumns.of(sampler.n_components, single=single)
    if drawn is not None:
        frequencies, phase = drawn.frequencies, drawn.phase
    else:
        rng, m = statistics.frequency_stream(), columns.n_frequencies
        if draw is None:
            frequencies = coupling.draw(radial_law, m, statistics.n_features, rng)
        else:
            frequencies = draw(m, statistics.n_features, rng)
        (phase_rng,) = rng.spawn(1)
        phase = phase_rng.uniform(0, 2 * math.pi, size=m if single else None)
    return TrigonometricMap(
        frame=sampler._frame(statistics),
        n_components=sampler.n_components,
        frequencies=frequencies,
        coupling=coupling,
        columns=columns,
        radial=radial,
        phase=phase,
        **fields,
    )


def has_uniform_directions(coupling: Any) -> bool:
    """Return whether the directions of a coupling are exactly uniform."""
    return coupling.exact and not coupling.opposite


class TrigRBFSampler(BaseFeatureSampler):
    r"""Random Fourier features for the Gaussian or softmax kernel.

    ``fit`` uses the data only to determine the number of columns and, for
    ``sigma="scale"`` or ``"median"``, their scale.

    Parameters
    ----------
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
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
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
    sklearn_crt.PositiveRBFSampler : Positive features of the same kernels.
    OPRFSampler : Positive features optimised for the data.

    Notes
    -----
    Let :math:`w \sim N(0, I_d)` be one of m frequencies, and let x be a row that is
    multiplied by sigma. Then

    .. math:: f(x) = \frac{1}{\sqrt m} (\cos w \cdot x, \sin w \cdot x), \qquad
       \operatorname{Var} = \frac{(1 - K^2)^2}{2m} - \frac{p}{m^2} g(|x - y|^2)

    ([1]_; [3]_ section 2.2), where p is the number of ordered pairs of frequencies in
    the same block and :math:`g(q) = e^{-q} - {}_1F_1(d; d/2; -q/2)` is the variance
    reduction of an orthogonal pair [2]_.

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
        sigma: Sigma | None = None,
        n_components: int | None = None,
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

    def _columns_per_frequency(self, n_features):
        get_coupling(self.coupling, type(self).__name__)  # raises ValueError if invalid
        return 1 if self.random_phase else 2

    def _make_map(self, statistics, drawn):
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        return make_trigonometric_map(
            self, statistics, drawn, Gaussian(), chi_law, gaussian=kernel
        )

    phase_: float | np.ndarray = fitted(
        "map_.phase", "Phase of each single column, in radians."
    )
