"""Hybrids with one map and one Gaussian coefficient per pair of clusters."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any, Literal

from ..._compat import HasMethods, Interval, RandomState, StrOptions
from ...frequencies import Coupling, get_coupling
from ...maps import FeatureMap, GaussianOrSoftmax, SumOfProductsMap
from ...rows import Sigma, Statistics
from .._base import BaseFeatureSampler, centered
from .._trigonometric import TrigRBFSampler
from .clustered import ClusteredSampler, most_massive_pairs
from .coefficients import GaussianCoefficient
from .complex_exponential import ComplexExponentialSampler
from .part_fitter import PartFitter
from .sampler import HybridParts, HybridSampler


class GaussianMixtureSampler(BaseFeatureSampler):
    r"""Hybrid features with Gaussian coefficients for pairs of clusters.

    ``fit`` clusters queries and keys by k-means. Each pair of clusters has complex
    exponential features that are accurate for this pair, and a coefficient that is
    large for this pair and small for distant rows. A default map has the remaining
    weight. In contrast to :class:`ClusteredSampler`, rows are not assigned to clusters,
    and the estimate depends continuously on the rows. However, it needs many more
    columns, and the errors of the coefficients of all other pairs add to its variance,
    so use it for one or two pairs of clusters at most.

    Parameters
    ----------
    n_clusters : int or tuple of two int, default=2
        Number of clusters for queries and for keys: one number for both, or a pair.
    n_pairs : int, default=None
        Number of pairs of clusters with a map of their own, namely those with the
        largest product of the numbers of their rows. All other pairs share the map
        ``default``. None means all pairs.
    tau : float, default=1.0
        Width of the coefficients: the larger it is, the further from the clusters are
        the rows for which the maps of the pairs are used.
    positive : bool, default=False
        Whether to estimate the coefficients by positive features, as in [1]_, instead
        of random Fourier features, whose variance is bounded.
    default : sampler, default=None
        Unfitted sampler with the remaining weight. None means random Fourier features.
    statistic : {"moments", "centers"}, default="moments"
        Whether the diagonals are computed from the second moments of the clusters, or
        only from their centres, as in [1]_. The moments give a lower variance unless
        the clusters are very narrow.
    n_coefficients : int, default=1
        Number of frequencies of each coefficient.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features. With P pairs and n coefficient frequencies, one frequency of
        each map takes about 6 P n columns. If there are too few features, only the
        default map is used, and a warning reports how many are needed. None means 100,
        unless an estimator that uses the sampler sets a number.
    center : bool, default=False
        Whether to subtract the column means first. Sparse rows are then converted to
        dense arrays chunk by chunk.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed for the clustering and the random frequencies.

    Attributes
    ----------
    bases_, coefficients_ : list of FeatureMap
        The fitted base maps and the fitted coefficient maps.
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows; zero if ``center=False``.
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
    ClusteredSampler : One map per pair of clusters, without coefficients.
    HybridSampler : The general hybrid.

    Notes
    -----
    Let r and c be the centres of clusters of queries and keys, and a the real diagonal
    that makes :math:`|a r + c / a|` small. The base map of this pair is that of
    :class:`ComplexExponentialSampler` with the diagonal a, and its coefficient is
    ([1]_, definition H.1 and equation 94)

    .. math:: \lambda(x, y) = e^{-|a x + y / a|^2 / (2 \tau^2)} .

    The coefficients of all pairs and that of the default map add up to 1. The diagonal
    must be real, because the coefficient would not be between 0 and 1 otherwise.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`, section H.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import GaussianMixtureSampler
    >>> rng = np.random.default_rng(0)
    >>> X = np.array([1.0, -0.5]) + 0.1 * rng.normal(size=(50, 2))
    >>> Y = np.array([-1.0, 0.5]) + 0.1 * rng.normal(size=(50, 2))
    >>> sampler = GaussianMixtureSampler(
    ...     n_clusters=1, sigma=1.0, n_components=180, random_state=0
    ... ).fit(X, X_key=Y)
    >>> error = sampler.approximate_kernel(X, Y) - sampler.exact_kernel(X, Y)
    >>> bool(abs(error).max() < 0.1)
    True
    """

    map_: SumOfProductsMap
    _doubtful_below = math.inf
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "n_clusters": [Interval(Integral, 1, None, closed="left"), tuple],
        "n_pairs": [Interval(Integral, 1, None, closed="left"), None],
        "tau": [Interval(Real, 0, None, closed="neither")],
        "positive": ["boolean"],
        "default": [HasMethods(["fit", "transform", "kernel_variance"]), None],
        "statistic": [StrOptions({"moments", "centers"})],
        "n_coefficients": [Interval(Integral, 1, None, closed="left")],
        "coupling": [str, Coupling],
        "center": ["boolean"],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    def __init__(
        self,
        *,
        n_clusters: int | tuple[int, int] = 2,
        n_pairs: int | None = None,
        tau: float = 1.0,
        positive: bool = False,
        default: BaseFeatureSampler | None = None,
        statistic: Literal["moments", "centers"] = "moments",
        n_coefficients: int = 1,
        coupling: str | Coupling = "orthogonal",
        sigma: Sigma | None = None,
        n_components: int | None = None,
        center: bool = False,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_clusters = n_clusters
        self.n_pairs = n_pairs
        self.tau = tau
        self.positive = positive
        self.default = default
        self.statistic = statistic
        self.n_coefficients = n_coefficients
        self.coupling = coupling
        self.sigma = sigma
        self.n_components = n_components
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    center_: Any = centered

    def _reads(self):
        return {"rows": 1000}

    def _make_map(self, statistics, drawn):
        return self._hybrid(statistics)._make_map(statistics, drawn)

    def _fit_parts(self, statistics: Statistics) -> HybridParts:
        return self._hybrid(statistics)._fit_parts(statistics)

    def _hybrid(self, statistics: Statistics) -> HybridSampler:
        """Return the unfitted hybrid of the maps for all pairs of clusters."""
        hybrid = HybridSampler(
            n_coefficients=self.n_coefficients,
            sigma=self.sigma,
            n_components=self.n_components,
            center=self.center,
            kernel=self.kernel,
        )
        fitter = PartFitter(statistics, hybrid._centred_frame(statistics))
        (cluster_rng,) = statistics.frequency_stream().spawn(4)[3:]
        clustering = ClusteredSampler(
            n_clusters=self.n_clusters, statistic=self.statistic, diagonal="real"
        )
        clusters = clustering._find_clusters(fitter.sides, cluster_rng)
        exact = get_coupling(self.coupling, type(self).__name__).exact
        own = self.coupling if exact else "orthogonal"
        bases: list[tuple[str, Any]] = []
        coefficients: list[tuple[str, Any]] = []
        for i, j in most_massive_pairs(clusters, self.n_pairs):
            a = clustering._diagonal_for(clusters, i, j).real
            name = f"queries{i}_keys{j}"
            base = ComplexExponentialSampler(a, coupling=self.coupling)
            coefficient = GaussianCoefficient(
                sigma=1 / self.tau,
                query_matrix=a,
                key_matrix=1 / a,
                positive=self.positive,
                coupling=own,
            )
            bases.append((name, base))
            coefficients.append((name, coefficient))
        default: Any = self.default
        if default is None:
            default = TrigRBFSampler(coupling=self.coupling)
        hybrid.bases = [*bases, ("default", default)]
        hybrid.coefficients = coefficients
        return hybrid

    @property
    def bases_(self) -> list[FeatureMap]:
        """The fitted base maps; the last one is the default."""
        return list(self.map_.bases)

    @property
    def coefficients_(self) -> list[FeatureMap]:
        """The maps that estimate the coefficients."""
        return list(self.map_.coefficients)
