"""Samplers with one complex exponential map per pair of clusters."""

from __future__ import annotations

import itertools
import math
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.sparse import issparse

from ..._compat import HasMethods, Interval, RandomState, StrOptions, warn
from ...exceptions import ApproximationWarning
from ...frequencies import Coupling, get_coupling
from ...maps import ClusterBlock, ClusteredMap, Clusters
from ...rows import ColumnMoments, Frame, Sigma, Statistics
from ...rows.clustering import Centers
from .._base import BaseFeatureSampler, fitted
from .._trigonometric import TrigRBFSampler
from .complex_exponential import ComplexExponentialSampler, best_diagonal
from .part_fitter import PartFitter, ScaledRows, spread_columns


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
    n_pairs : int, default=None
        Number of pairs of clusters with a map of their own, namely those with the
        largest product of the numbers of their rows. All other pairs share the map
        ``default``. None means all pairs.
    default : sampler, default=None
        Unfitted sampler for the pairs without a map of their own. None means random
        Fourier features.
    sigma : float, {"scale", "median"} or array-like, default=None
        Inverse length scale by which the inputs are multiplied: one number for all
        columns, or one per column. ``"scale"`` corresponds to scikit-learn's
        ``gamma="scale"`` with ``gamma = sigma**2 / 2``. ``"median"`` is the inverse of
        the median pairwise distance in a sample of up to 1000 rows. None means
        ``"scale"``, unless an estimator that uses the sampler chooses ``sigma``; any
        other value, even ``"scale"``, is kept.
    n_components : int, default=None
        Number of features, divided among the maps as evenly as their frequencies allow.
        A remaining column that no map can use is filled with zeros. If there are too
        few features for all maps, random Fourier features are used for all rows, and a
        warning reports the required number. None means 100, unless an estimator that
        uses the sampler sets a number.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or a coupling object. The
        kernel estimate is exactly unbiased for every coupling except the structured
        ones.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed for the clustering and the random frequencies.

    Attributes
    ----------
    clusters_ : tuple of two Clusters
        Clusters of queries and of keys, with the attributes ``centers``, ``spreads``
        and ``shares``.
    blocks_ : list of ClusterBlock
        The fitted maps, each with the attributes ``part`` (the map) and ``columns``.
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
    clustered_hybrid : The same features, with options for centring and softmax.

    Notes
    -----
    The variance for two rows is the variance of the map for their pair of clusters
    ([1]_, sections 2.4 and H). The clusters are computed from up to 1000 queries and
    1000 keys. Clusters of queries whose remaining keys are the same have a common map
    ``default``.

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
        "n_pairs": [Interval(Integral, 1, None, closed="left"), None],
        "default": [HasMethods(["fit", "transform", "kernel_variance"]), None],
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        n_clusters: int | tuple[int, int] = 2,
        diagonal: Literal["complex", "real"] = "complex",
        statistic: Literal["moments", "centers"] = "moments",
        n_pairs: int | None = None,
        default: BaseFeatureSampler | None = None,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_clusters = n_clusters
        self.diagonal = diagonal
        self.statistic = statistic
        self.n_pairs = n_pairs
        self.default = default
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
        pairs = most_massive_pairs(clusters, self.n_pairs)
        parts: list[Any] = [self._part_for(clusters, i, j) for i, j in pairs]
        members = [
            [np.arange(n) == k for n, k in zip(counts, pair, strict=True)]
            for pair in pairs
        ]
        rest = rectangles_without(pairs, *counts)
        parts += [self._fallback if self.default is None else self.default] * len(rest)
        members += rest
        units = [fitter.columns_per_frequency(part) for part in parts]
        if self.n_components < sum(units):
            warn(
                f"{len(parts)} maps require n_components >= {sum(units)}, got "
                f"n_components={self.n_components}. Trigonometric features are used "
                "for all rows instead.",
                ApproximationWarning,
            )
            everywhere = [np.ones(n, dtype=bool) for n in counts]
            parts, members, units = [self._fallback], [everywhere], [1]
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
        a = self._diagonal_for(clusters, i, j)
        return ComplexExponentialSampler(a, coupling=self.coupling)

    def _diagonal_for(self, clusters, i, j):
        queries, keys = clusters
        moments = self.statistic == "moments"
        return best_diagonal(
            query=queries.centers[i],
            key=keys.centers[j],
            query_spread=queries.spreads[i] if moments else 0.0,
            key_spread=keys.spreads[j] if moments else 0.0,
            real=self.diagonal == "real",
        )

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
                f"n_clusters={wanted!r} must be a positive integer, or a pair of "
                "positive integers for queries and keys."
            )
        return counts

    @property
    def _min_components(self) -> int:
        """Minimum number of features for the requested clusters: two per map."""
        n_queries, n_keys = self._counts
        most = n_queries * n_keys
        if self.n_pairs is None or self.n_pairs >= most:
            return 2 * most
        return 2 * min(self.n_pairs + n_queries, most)

    @property
    def _fallback(self) -> TrigRBFSampler:
        """Unfitted sampler for pairs, or for all rows if there are too few features."""
        return TrigRBFSampler(coupling=self.coupling)

    clusters_: tuple[Clusters, Clusters] = fitted(
        "map_.clusters", "Clusters of queries and of keys."
    )

    @property
    def blocks_(self) -> list[ClusterBlock]:
        """The fitted maps, with the columns and the clusters of each map."""
        return list(self.map_.blocks)


# ------------------------------------------------------------------------- clusters
def most_massive_pairs(
    clusters: tuple[Clusters, Clusters], n_pairs: int | None
) -> list[tuple[int, int]]:
    """Return the pairs of clusters with the most pairs of rows, in their own order."""
    masses = np.outer(clusters[0].shares, clusters[1].shares)
    n_queries, n_keys = masses.shape
    pairs = list(itertools.product(range(n_queries), range(n_keys)))
    if n_pairs is None or n_pairs >= len(pairs):
        return pairs
    largest = np.argsort(-masses.ravel(), kind="stable")[:n_pairs]
    return [pairs[k] for k in np.sort(largest)]


def rectangles_without(
    pairs: list[tuple[int, int]], n_queries: int, n_keys: int
) -> list[list[np.ndarray]]:
    """Return masks of queries and keys whose products are all other pairs."""
    remaining = np.ones((n_queries, n_keys), dtype=bool)
    for pair in pairs:
        remaining[pair] = False
    kinds, index = np.unique(remaining, axis=0, return_inverse=True)
    index = np.ravel(index)
    return [[index == k, keys] for k, keys in enumerate(kinds) if keys.any()]


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
