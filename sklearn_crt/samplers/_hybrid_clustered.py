"""Complex exponential maps, and samplers with one such map per pair of clusters."""

from __future__ import annotations

import itertools
import math
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from .._compat import Interval, RandomState, StrOptions, warn
from ..exceptions import ApproximationWarning
from ..frequencies import Coupling, get_coupling
from ..maps import (
    ClusterBlock,
    ClusteredMap,
    Clusters,
    DiagonalQuadratic,
    GaussianOrSoftmax,
)
from ..rows import ColumnMoments, Frame, Sigma, Statistics
from ..rows.centers import Centers
from ._base import BaseFeatureSampler
from ._exponential import make_exponential_map
from ._hybrid_parts import PartFitter, ScaledRows, spread_columns
from ._trigonometric import TrigRBFSampler
from ._value import fitted


class ComplexExponentialSampler(BaseFeatureSampler):
    r"""Complex exponential features (CE) for the Gaussian or softmax kernel.

    Parameters
    ----------
    diagonal : array-like of shape (n_features,) or complex, default=1.0
        The diagonal a of the matrix in the features (see Notes): a nonzero number, or
        one nonzero number per column. The value 1 gives positive features, and the
        imaginary unit gives random Fourier features.
    n_components : int, default=100
        Number of features: one per frequency if a is real, otherwise two. If each
        frequency has two columns and ``n_components`` is odd, the last frequency has a
        single column with a random phase.

    Attributes
    ----------
    diagonal_ : ndarray of shape (n_features,)
        The diagonal a, as a real array if all entries are real.
    phase_ : float
        Phase of the last column, in radians. It is used only if ``n_components`` is odd
        and each frequency has two columns.

    See Also
    --------
    ClusteredSampler : One sampler of this kind for each pair of clusters.

    Notes
    -----
    Let :math:`w \sim N(0, I_d)` be one of m frequencies. Products and quotients of a
    vector and a are elementwise, and the square of a complex vector is the sum of its
    squared entries, without conjugates. Then ([1]_, equations 14 to 16)

    .. math::

       f(x) &= \tfrac{1}{\sqrt m} e^{w \cdot a x - (a x)^2 / 2 - |x|^2 / 2}, \quad
       g(y) = \tfrac{1}{\sqrt m} e^{w \cdot y / a - (y / a)^2 / 2 - |y|^2 / 2}, \\
       \operatorname{Var} &= \frac{K^2}{m} \left( \tfrac12 e^{|z|^2}
       + \tfrac12 \operatorname{Re} e^{z \cdot z} - 1 \right), \quad z = a x + y / a .

    The columns are Re f and Im f for queries, and Re g and -Im g for keys. The variance
    is zero if z = 0. If a is real, orthogonal frequencies reduce the variance as for
    positive features, which ``kernel_variance`` takes into account. If a is complex,
    ``kernel_variance`` returns the variance for independent frequencies.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import ComplexExponentialSampler
    >>> X, Y = np.array([[0.5, -1.0]]), np.array([[2.0, 0.25]])
    >>> sampler = ComplexExponentialSampler([2j, 0.5], sigma=1.0, random_state=0)
    >>> bool(sampler.fit(X, X_key=Y).kernel_variance(X, Y)[0, 0] < 1e-15)
    True
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "coupling": [str, Coupling],
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "diagonal": ["array-like", complex, float, int],
    }

    def __init__(
        self,
        diagonal: complex | ArrayLike = 1.0,
        *,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        diagonal = self._full_diagonal(statistics.n_features)
        coupling = get_coupling(self.coupling, type(self).__name__)
        form = self._frame(statistics), DiagonalQuadratic(diagonal), coupling
        return make_exponential_map(self, statistics, drawn, *form)

    def _full_diagonal(self, d):
        """Return the diagonal, one entry per column, as a real array if possible."""
        a = np.asarray(self.diagonal)
        if a.ndim > 1 or a.size not in (1, d) or not np.all(np.isfinite(a) & (a != 0)):
            raise ValueError(
                f"diagonal={self.diagonal!r} must be finite and nonzero: a number or "
                f"one for each of the {d} features."
            )
        a = np.broadcast_to(a, d).astype(complex)
        return a if np.any(a.imag) else a.real.copy()

    diagonal_: np.ndarray = fitted(
        "map_.quadratic.diagonal", "The diagonal, a real array if all entries are real."
    )
    phase_: float = fitted("map_.phase", "Phase of the single last column, in radians.")


def best_diagonal(
    query: np.ndarray,
    key: np.ndarray,
    query_spread: np.ndarray | float = 0.0,
    key_spread: np.ndarray | float = 0.0,
    *,
    real: bool = False,
) -> np.ndarray:
    """Return the diagonal a that minimises the mean of ``|a x + y / a|**2``.

    ``query`` and ``key`` are the centres of two clusters, and the spreads are the
    second moments about these centres. An entry of a is imaginary if the two centres
    have the same sign in this column, so that the two terms cancel, and real otherwise.
    All entries are real if ``real`` is True.
    """
    floor = 1e-12  # if both second moments are smaller, the modulus of a is 1
    squares = np.maximum(query**2 + query_spread, floor)
    key_squares = np.maximum(key**2 + key_spread, floor)
    modulus = np.clip((key_squares / squares) ** 0.25, 1e-6, 1e6)
    imaginary = (query * key > 0) & (not real)
    a = np.zeros(np.shape(modulus), dtype=complex)
    a.real, a.imag = np.where(imaginary, 0, modulus), np.where(imaginary, modulus, 0)
    return a


class ClusterParts(NamedTuple):
    """The fitted parts of a map for pairs of clusters."""

    clusters: tuple[Clusters, Clusters]
    samplers: list[Any]
    blocks: tuple[ClusterBlock, ...]


class ClusteredSampler(BaseFeatureSampler):
    r"""Features for the Gaussian kernel, from one feature map per pair of clusters.

    ``fit`` clusters queries and keys by k-means. For each pair of clusters it fits a
    :class:`ComplexExponentialSampler` whose diagonal makes the variance small for this
    pair. A row has nonzero features only in the maps for its own cluster, so exactly
    one map contributes to the kernel estimate for two rows (a zero-one mixture).

    Parameters
    ----------
    n_clusters : int or tuple of two int, default=2
        Number of clusters for queries and for keys: one number for both, or a pair.
    diagonal : {"complex", "real"}, default="complex"
        Whether the diagonals may have imaginary entries. If they may,
        ``statistic="centers"`` makes the variance zero at the cluster centres. Real
        diagonals need only one column per frequency.
    statistic : {"moments", "centers"}, default="moments"
        Whether the diagonals are computed from the second moments of the clusters, or
        only from their centres, as in [1]_. The moments give a lower variance unless
        the clusters are very narrow.
    n_components : int, default=100
        Number of features, divided among the maps as evenly as their frequencies allow.
        A remaining column that no map can use is filled with zeros. If there are too
        few features for all maps, random Fourier features are used for all rows, and a
        warning reports the required number.
    random_state : int, RandomState instance or None, default=None
        Seed for the clustering and the random frequencies.

    Attributes
    ----------
    clusters_ : tuple of two Clusters
        Clusters of queries and of keys, with the attributes ``centers``, ``spreads``
        and ``shares``.
    blocks_ : list of ClusterBlock
        The fitted maps, each with the attributes ``part`` (the map) and ``columns``.

    See Also
    --------
    clustered_hybrid : The same features, with options for centring and softmax.

    Notes
    -----
    The variance for two rows is the variance of the map for their pair of clusters
    ([1]_, sections 2.4 and H). The clusters are computed from up to 1000 queries and
    1000 keys.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import ClusteredSampler
    >>> centers = np.array([[2.0, 1.0], [-1.0, 2.0]])
    >>> X = np.repeat(centers, 50, axis=0)
    >>> X += 0.1 * np.random.default_rng(0).normal(size=X.shape)
    >>> sampler = ClusteredSampler(sigma=1.0, n_components=80, random_state=0).fit(X)
    >>> features = sampler.transform(X)
    >>> int((features[0] != 0).sum())
    40
    """

    map_: ClusteredMap
    _doubtful_below = math.inf
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "n_clusters": [Interval(Integral, 1, None, closed="left"), tuple],
        "diagonal": [StrOptions({"complex", "real"})],
        "statistic": [StrOptions({"moments", "centers"})],
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        n_clusters: int | tuple[int, int] = 2,
        diagonal: Literal["complex", "real"] = "complex",
        statistic: Literal["moments", "centers"] = "moments",
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_clusters = n_clusters
        self.diagonal = diagonal
        self.statistic = statistic
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _reads(self):
        return {"rows": 1000}

    def _make_map(self, statistics, drawn):
        parts = self._fit_parts(statistics)
        frame = self._frame(statistics)
        return ClusteredMap(frame, self.n_components, parts.clusters, parts.blocks)

    def _fit_parts(self, statistics: Statistics) -> ClusterParts:
        """Return the clusters and the fitted maps for the given statistics."""
        get_coupling(self.coupling, type(self).__name__)  # raises ValueError if invalid
        cluster_rng, block_rng = statistics.frequency_stream().spawn(2)
        fitter = PartFitter(statistics, self._frame(statistics))
        clusters = self._find_clusters(fitter.sides, cluster_rng)
        counts = [side.shares.size for side in clusters]
        pairs = list(itertools.product(*map(range, counts)))
        parts = [self._part_for(clusters, i, j) for i, j in pairs]
        members = [
            [np.arange(n) == k for n, k in zip(counts, pair, strict=True)]
            for pair in pairs
        ]
        units = [fitter.columns_per_frequency(part) for part in parts]
        if self.n_components < sum(units):
            warn(
                f"{len(parts)} maps need n_components={sum(units)} or more, got "
                f"n_components={self.n_components}: sines and cosines are used for "
                "all rows.",
                ApproximationWarning,
            )
            everywhere = [np.ones(n, dtype=bool) for n in counts]
            parts, members, units = [self.fallback], [everywhere], [1]
        seeds = block_rng.integers(2**31 - 1, size=len(parts))
        widths, _ = spread_columns(self.n_components, units, units)
        samplers, blocks, start = [], [], 0
        for part, (queries, keys), width, seed in zip(
            parts, members, widths, seeds, strict=True
        ):
            sampler = fitter.fit_base(part, seed, width)
            columns = slice(start, start + width)
            blocks.append(ClusterBlock(sampler.map_, columns, queries, keys))
            samplers.append(sampler)
            start += width
        return ClusterParts(clusters, samplers, tuple(blocks))

    def _find_clusters(
        self, sides: list[ScaledRows], rng: np.random.Generator
    ) -> tuple[Clusters, Clusters]:
        """Return the clusters of queries and of keys, which may be the same object."""
        counts = self._counts
        seeds = [int(seed) for seed in rng.integers(2**31 - 1, size=2)]
        queries = find_clusters(sides[0], counts[0], seeds[0])
        if len(sides) == 1 and counts[0] == counts[1]:
            return queries, queries
        return queries, find_clusters(sides[-1], counts[1], seeds[1])

    def _part_for(self, clusters, i, j):
        """Return the unfitted sampler with the best diagonal for a pair of clusters."""
        queries, keys = clusters
        spreads = (0.0, 0.0)
        if self.statistic == "moments":
            spreads = queries.spreads[i], keys.spreads[j]
        centers = queries.centers[i], keys.centers[j]
        a = best_diagonal(*centers, *spreads, real=self.diagonal == "real")
        return ComplexExponentialSampler(a, coupling=self.coupling)

    @property
    def _counts(self) -> tuple[int, int]:
        """Numbers of clusters of queries and of keys."""
        wanted: Any = self.n_clusters
        counts = (wanted, wanted) if np.ndim(wanted) == 0 else wanted
        good = len(counts) == 2 and all(
            isinstance(count, Integral) and int(count) >= 1 for count in counts
        )
        if not good:
            raise ValueError(
                f"n_clusters={wanted!r} must be a positive integer, or two of them: "
                "for the queries and for the keys."
            )
        return counts

    @property
    def min_components(self) -> int:
        """Minimum number of features for the requested clusters: two per map."""
        return 2 * math.prod(self._counts)

    @property
    def fallback(self) -> TrigRBFSampler:
        """Unfitted sampler for all rows, used if there are too few features."""
        return TrigRBFSampler(coupling=self.coupling)

    clusters_: tuple[Clusters, Clusters] = fitted(
        "map_.clusters", "Clusters of queries and of keys."
    )

    @property
    def blocks_(self) -> list[ClusterBlock]:
        """The fitted maps, with the columns and the clusters of each map."""
        return list(self.map_.blocks)


# ------------------------------------------------------------------------- clusters
def find_clusters(side: ScaledRows, n_clusters: int, seed: int) -> Clusters:
    """Cluster the rows by k-means."""
    rows, weights = side.rows.astype(np.float64), side.weights
    found, labels = Centers(rows, weights).reduced(n_clusters, Frame(), seed=seed)
    centers: Any = found.points
    if issparse(centers):  # each of a few rows is a cluster of its own
        centers = centers.toarray()
    spreads = [
        ColumnMoments.of(rows, np.where(labels == k, weights, 0)).variance
        for k in range(len(centers))
    ]
    return Clusters(centers, np.stack(spreads), found.weights / found.weights.sum())
