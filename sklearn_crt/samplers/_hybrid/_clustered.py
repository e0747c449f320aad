"""One complex-exponential map for each pair of clusters of queries and keys."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np

from ..._compat import HasMethods, Interval, StrOptions
from ..._docs import fill_doc
from ...frequencies import Coupling, get_coupling
from ...maps import Block, ClusteredMap, Clusters
from ...rows import Statistics
from .._base import BaseFeatureSampler, fitted
from .._stacklevel import outside_stacklevel
from .._trig_rbf import TrigRBFSampler
from ._clusters import check_counts, cluster_sides, massive_pairs, pair_diagonal
from ._complex_exponential import ComplexExponentialSampler
from ._parts import columns_per_frequency, fit_part, map_of, unit_samples


class ClusterParts(NamedTuple):
    """The fitted parts of a map for pairs of clusters.

    Attributes
    ----------
    clusters : tuple of two Clusters
        Of queries and keys.
    samplers : list of samplers
        Fitted, with the width of their columns.
    blocks : tuple of Block
        Their maps and columns.
    """

    clusters: tuple[Clusters, Clusters]
    samplers: list[Any]
    blocks: tuple[Block, ...]


@fill_doc
class ClusteredSampler(BaseFeatureSampler):
    r"""Gaussian kernel from a map for each pair of clusters (zero-one mixture).

    ``fit`` clusters queries and keys, and gives each pair of clusters a
    :class:`ComplexExponentialSampler` whose diagonal makes its variance small there.
    A query has the columns of the pairs of its cluster and zeros elsewhere, likewise
    a key, so exactly one map estimates a pair of rows.

    Parameters
    ----------
    n_clusters : int or tuple of two int, default=2
        Number of clusters of both sides, or of queries and of keys.
    clusterer : estimator, default=None
        With ``fit`` and ``cluster_centers_``, as KMeans and MiniBatchKMeans; KMeans
        if None. Its ``n_clusters`` and ``random_state`` are set here.
    diagonal : {"complex", "real"}, default="complex"
        Whether the diagonals may be imaginary. Then the variance is zero at the
        centres, with ``statistic="centers"``; a real one has one column a frequency.
    statistic : {"moments", "centers"}, default="moments"
        Whether the second moments of the clusters enter the diagonals, which lowers
        the variance as soon as clusters have a width, or the centres alone ([1]_).
    n_pairs : int, default=None
        Number of pairs of clusters with a map of their own, those with most pairs of
        rows; None for all.
    default : sampler, default=None
        The map of the other pairs; TrigRBFSampler if None.
    %(sigma)s
    n_components : int, default=100
        Number of columns, split over the maps as evenly as frequencies allow. An odd
        last column that no map can use is zero.
    %(coupling)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    clusters_ : tuple of two Clusters
        Those of queries and keys, with ``centers``, ``spreads`` and ``shares``.
    blocks_ : list of Block
        Each with ``part``, the fitted map, and its ``columns``.
    %(fitted)s

    See Also
    --------
    HybridSampler : Has this map as ``kind="clustered"``.

    Notes
    -----
    The variance is that of the map of the pair of clusters ([1]_, sections 2.4 and H).
    Clusters are those of up to 1000 rows of each side.

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
        n_clusters=2,
        clusterer=None,
        diagonal="complex",
        statistic="moments",
        n_pairs=None,
        default=None,
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        n_jobs=None,
        random_state=None,
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

    def _reads_rows(self):
        return True

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
        units = [columns_per_frequency(part) for part, *_ in wanted]
        if self.n_components < sum(units):
            warnings.warn(
                f"{len(wanted)} maps need n_components={sum(units)} or more, got "
                f"n_components={self.n_components}: the default map is used alone.",
                UserWarning,
                stacklevel=outside_stacklevel(),
            )
            everywhere = [np.ones(side.shares.size, dtype=bool) for side in clusters]
            wanted, units = [(self.fallback, *everywhere)], [1]
        seeds = block_rng.integers(2**31 - 1, size=len(wanted))
        samplers, blocks, start = [], [], 0
        for (part, *masks), width, seed in zip(
            wanted, self._split(units), seeds, strict=True
        ):
            params = {"sigma": 1.0, "kernel": "gaussian"}
            samplers.append(fit_part(part, samples, width, seed, **params))
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
    def columns_per_frequency(self) -> int:
        """Number of columns of a frequency of its maps, at most."""
        return 2

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

    clusters_ = fitted("map_.clusters", "Clusters of queries and of keys.")

    @property
    def blocks_(self) -> list[Block]:
        """The maps with their columns and clusters."""
        return list(self.map_.blocks)
