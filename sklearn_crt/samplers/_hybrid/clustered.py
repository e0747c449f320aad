"""One complex-exponential map for each pair of clusters of queries and keys."""

from __future__ import annotations

import math
import warnings
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.utils.validation import has_fit_parameter

from ..._compat import HasMethods, Interval, StrOptions, warn
from ..._types import RandomState
from ...frequencies import Coupling, get_coupling
from ...maps import Block, ClusteredMap, Clusters, FeatureMap, ThirdPartyMap
from ...rows import Frame, Rows, Sigma, Statistics
from .._base import BaseFeatureSampler, fitted
from .._trig_rbf import TrigRBFSampler
from .complex_exponential import ComplexExponentialSampler, best_diagonal


class Sample(NamedTuple):
    """Distinct rows of one side at unit bandwidth, and their weights."""

    rows: Rows  # (n_rows, n_features)
    weights: np.ndarray  # (n_rows,)


def unit_samples(statistics: Statistics, frame: Frame) -> list[Sample]:
    """Return the samples of rows of each side, at unit bandwidth."""
    sides = (sample.distinct() for sample in statistics.side_samples)
    return [Sample(frame.rows(rows).matrix, weights) for rows, weights in sides]


def fit_part(part: Any, samples: list[Sample], seed: int, **params: Any) -> Any:
    """Return a fitted clone of a sampler, with the parameters that it has."""
    part, params = clone(part), {**params, "random_state": int(seed)}
    known = part.get_params(deep=False)
    part.set_params(**{name: value for name, value in params.items() if name in known})
    options, (rows, weights) = {}, samples[0]
    if np.any(weights != 1) and has_fit_parameter(part, "sample_weight"):
        options["sample_weight"] = weights
    if len(samples) > 1 and has_fit_parameter(part, "X_key"):
        options["X_key"] = samples[1].rows
    if not isinstance(part, BaseFeatureSampler):
        return part.fit(rows, **options)
    part._validate_params()
    part._fit(rows, options.get("X_key"), options.get("sample_weight"))
    return part


def fit_base(part: Any, samples: list[Sample], n_components: int, seed: int) -> Any:
    """Return a fitted map of the Gaussian kernel at unit bandwidth."""
    params = {"n_components": n_components, "sigma": 1.0, "kernel": "gaussian"}
    fitted = fit_part(part, samples, seed, **params)
    width = map_of(fitted, samples).n_components
    if width != n_components:
        raise ValueError(
            f"The base {fitted!r} has {width} columns, but the hybrid set "
            f"n_components={n_components}: a base must have exactly as many."
        )
    return fitted


def map_of(fitted: Any, samples: list[Sample]) -> FeatureMap:
    """Return the map of a fitted part."""
    if isinstance(fitted, BaseFeatureSampler):
        return fitted.map_
    return ThirdPartyMap.of(fitted, samples[0].rows)


def columns_per_frequency(part: Any, samples: list[Sample]) -> int:
    """Return the number of columns per frequency, 1 for third-party samplers."""
    if not isinstance(part, BaseFeatureSampler):
        return 1
    if hasattr(part, "min_components"):
        return 2
    return fit_part(part, samples, 0).map_.columns_per_frequency


Counts = int | tuple[int, int]


class ClusterParts(NamedTuple):
    """The fitted parts of a map for pairs of clusters."""

    clusters: tuple[Clusters, Clusters]
    samplers: list[Any]
    blocks: tuple[Block, ...]


class ClusteredSampler(BaseFeatureSampler):
    r"""Gaussian kernel from a map for each pair of clusters (zero-one mixture).

    ``fit`` clusters queries and keys, and gives each pair of clusters a
    :class:`ComplexExponentialSampler` with a diagonal of small variance there. A row
    has the columns of the pairs of its cluster and zeros elsewhere: exactly one map
    estimates each pair of rows.

    Parameters
    ----------
    n_clusters : int or tuple of two int, default=2
        Number of clusters of each side, or of queries and of keys.
    clusterer : estimator, default=None
        A clusterer with ``cluster_centers_``; KMeans if None. Its ``n_clusters`` and
        ``random_state`` are set by the sampler.
    diagonal : {"complex", "real"}, default="complex"
        Whether the diagonals may be imaginary, which makes the variance zero at the
        centres with ``statistic="centers"``; real ones need one column per frequency.
    statistic : {"moments", "centers"}, default="moments"
        Whether the diagonals follow from the second moments of the clusters, which
        lowers the variance as soon as clusters have a width, or from the centres alone
        ([1]_).
    n_pairs : int, default=None
        Number of pairs of clusters with a map of their own, those with the most pairs
        of rows; None means all.
    default : sampler, default=None
        The map of the other pairs; TrigRBFSampler if None.
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` with ``gamma = sigma**2 / 2``;
        ``"median"`` is one over the median distance of up to 1000 rows.
    n_components : int, default=100
        Number of columns, split over the maps as evenly as their frequencies allow. A
        last column that no map can use is zero.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased.
    n_jobs : int, default=None
        Threads of ``transform``; -1 uses all processors, None as many as NumPy's linear
        algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies. Draws are nested: half the columns use the first half.

    Attributes
    ----------
    clusters_ : tuple of two Clusters
        Those of queries and keys, with ``centers``, ``spreads`` and ``shares``.
    blocks_ : list of Block
        Each with ``part``, the fitted map, and its ``columns``.
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
    sklearn_crt.HybridSampler : Uses this map with ``kind="clustered"``.

    Notes
    -----
    The variance is that of the map of the pair of clusters ([1]_, sections 2.4 and H).
    The clusters are found on up to 1000 rows of each side.

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
        "clusterer": [HasMethods(["fit"]), None],
        "diagonal": [StrOptions({"complex", "real"})],
        "statistic": [StrOptions({"moments", "centers"})],
        "n_pairs": [Interval(Integral, 0, None, closed="left"), None],
        "default": [HasMethods(["fit", "transform"]), None],
        "coupling": [str, Coupling],
    }

    def __init__(
        self,
        *,
        n_clusters: int | tuple[int, int] = 2,
        clusterer: BaseEstimator | None = None,
        diagonal: Literal["complex", "real"] = "complex",
        statistic: Literal["moments", "centers"] = "moments",
        n_pairs: int | None = None,
        default: BaseEstimator | None = None,
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.n_clusters = n_clusters
        self.clusterer = clusterer
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
        """Return clusters and fitted maps, which follow from the statistics."""
        check_counts(self.n_clusters)
        get_coupling(self.coupling, type(self).__name__)  # or ValueError
        cluster_rng, block_rng = statistics.frequency_stream().spawn(2)
        samples = unit_samples(statistics, self._frame(statistics))
        clusters = cluster_sides(samples, self.n_clusters, self.clusterer, cluster_rng)
        wanted = self._wanted(*clusters)
        units = [columns_per_frequency(part, samples) for part, *_ in wanted]
        if self.n_components < sum(units):
            warn(
                f"{len(wanted)} maps need n_components={sum(units)} or more, got "
                f"n_components={self.n_components}: the default map is used alone.",
                UserWarning,
            )
            everywhere = [np.ones(side.shares.size, dtype=bool) for side in clusters]
            wanted, units = [(self.fallback, *everywhere)], [1]
        seeds = block_rng.integers(2**31 - 1, size=len(wanted))
        samplers, blocks, start = [], [], 0
        for (part, *masks), width, seed in zip(
            wanted, self._split(units), seeds, strict=True
        ):
            params = {"n_components": width, "sigma": 1.0, "kernel": "gaussian"}
            samplers.append(fit_part(part, samples, seed, **params))
            columns = slice(start, start + width)
            blocks.append(Block(map_of(samplers[-1], samples), columns, *masks))
            start += width
        return ClusterParts(clusters, samplers, tuple(blocks))

    def _wanted(self, queries, keys):
        """Return unfitted maps and the clusters of queries and of keys they are for."""
        maps, pairs = [], massive_pairs(queries, keys, self.n_pairs)
        options = {
            "real": self.diagonal == "real",
            "moments": self.statistic == "moments",
        }
        rest = np.ones((queries.shares.size, keys.shares.size), dtype=bool)
        for i, j in pairs:
            a = pair_diagonal(queries, keys, i, j, **options)
            part = ComplexExponentialSampler(a, coupling=self.coupling)
            one = np.zeros_like(rest)
            one[i, j], rest[i, j] = True, False
            maps.append((part, one.any(axis=1), one.any(axis=0)))
        for row in np.flatnonzero(rest.any(axis=1)):
            maps.append((self.fallback, np.arange(rest.shape[0]) == row, rest[row]))
        return maps

    def _split(self, units):
        """Return the columns of the maps: equally many frequencies, then the rest."""
        n, cost = self.n_components, sum(units)
        widths = [n // cost * unit for unit in units]
        rest = n - sum(widths)
        for k, unit in enumerate(units):
            if unit <= rest:
                widths[k] += unit
                rest -= unit
        return widths

    @property
    def min_components(self) -> int:
        """Least number of columns for the clusters wanted, two for each map."""
        counts = check_counts(self.n_clusters)
        n_maps = counts[0] * counts[1]
        if self.n_pairs is not None and self.n_pairs < n_maps:
            n_maps = self.n_pairs + counts[0]
        return 2 * n_maps

    @property
    def fallback(self) -> Any:
        """The map of pairs without clusters, unfitted."""
        if self.default is not None:
            return self.default
        return TrigRBFSampler(coupling=self.coupling)

    clusters_: tuple[Clusters, Clusters] = fitted(
        "map_.clusters", "Clusters of queries and of keys."
    )

    @property
    def blocks_(self) -> list[Block]:
        """The maps with their columns and clusters."""
        return list(self.map_.blocks)


# ------------------------------------------------------------------------- clusters
def check_counts(n_clusters: Counts) -> tuple[int, int]:
    """Return the numbers of clusters of queries and keys."""
    counts: Any = (n_clusters, n_clusters) if np.ndim(n_clusters) == 0 else n_clusters
    good = len(counts) == 2 and all(
        isinstance(count, Integral) and int(count) >= 1 for count in counts
    )
    if not good:
        raise ValueError(
            f"n_clusters={n_clusters!r} must be a positive integer, or two of them: "
            "for the queries and for the keys."
        )
    return counts


def find_clusters(
    sample: Sample, n_clusters: int, clusterer: Any, seed: int
) -> Clusters:
    """Cluster rows."""
    rows, weights = sample.rows.astype(np.float64), sample.weights
    labels, centers = _centers(rows, weights, n_clusters, clusterer, seed)
    members = np.zeros((centers.shape[0], rows.shape[0]))
    members[labels, np.arange(rows.shape[0])] = weights
    mass = members.sum(axis=1)
    members /= np.where(mass > 0, mass, 1)[:, None]
    squares = rows**2 if isinstance(rows, np.ndarray) else rows.multiply(rows)
    means = np.asarray(members @ rows)
    second = np.asarray(members @ squares)
    spreads = np.maximum(second - 2 * means * centers + centers**2, 0)
    spreads[mass == 0] = 0
    return Clusters(centers, spreads, mass / mass.sum())


def _centers(rows, weights, n_clusters, clusterer, seed):
    """Return the index of the nearest centre of each row, and the centres."""
    if clusterer is None:
        from sklearn.cluster import KMeans  # slow to import, and few need it

        clusterer = KMeans()
    else:
        clusterer = clone(clusterer)
    known = {"n_clusters": min(n_clusters, rows.shape[0]), "random_state": seed}
    names = clusterer.get_params()
    clusterer.set_params(**{k: v for k, v in known.items() if k in names})
    weighs = has_fit_parameter(clusterer, "sample_weight")
    options = {"sample_weight": weights} if weighs else {}
    with warnings.catch_warnings():  # fewer distinct rows than clusters: no harm
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusterer.fit(rows, **options)
    centers = np.asarray(clusterer.cluster_centers_, dtype=np.float64)
    return pairwise_distances_argmin(rows, centers), centers


def cluster_sides(
    samples: list[Sample],
    n_clusters: Counts,
    clusterer: Any,
    rng: np.random.Generator,
) -> tuple[Clusters, Clusters]:
    """Return the clusters of the queries and of the keys, one set without keys."""
    counts = check_counts(n_clusters)
    seeds = [int(seed) for seed in rng.integers(2**31 - 1, size=2)]
    queries = find_clusters(samples[0], counts[0], clusterer, seeds[0])
    if len(samples) == 1 and counts[0] == counts[1]:
        return queries, queries
    return queries, find_clusters(samples[-1], counts[1], clusterer, seeds[1])


def pair_diagonal(
    queries: Clusters, keys: Clusters, i: int, j: int, *, real: bool, moments: bool
) -> np.ndarray:
    """Return the best diagonal for a pair of clusters."""
    # -> (n_features,)
    spreads = (queries.spreads[i], keys.spreads[j]) if moments else (0.0, 0.0)
    return best_diagonal(queries.centers[i], keys.centers[j], *spreads, real=real)


def massive_pairs(
    queries: Clusters, keys: Clusters, n_pairs: int | None
) -> list[tuple[int, int]]:
    """Return the pairs of clusters with most pairs of rows."""
    mass = np.outer(queries.shares, keys.shares).ravel()
    count = mass.size if n_pairs is None else min(n_pairs, mass.size)
    chosen = np.sort(np.argsort(-mass, kind="stable")[:count])
    return [divmod(int(index), keys.shares.size) for index in chosen]
