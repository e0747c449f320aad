"""One complex-exponential map for each pair of clusters of queries and keys."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._compat import HasMethods, Interval, StrOptions
from ..frequencies import Coupling, JointProjection, get_coupling
from ..utils._docs import fill_doc
from ._base import BaseFeatureSampler
from ._clusters import cluster_sides, massive_pairs, pair_diagonal
from ._combine import distinct_rows, fit_part, frequencies_of, log_features
from ._complex_exponential import ComplexExponentialSampler
from ._gaussian import GaussianKernelMixin
from ._rows import UnitRows
from ._trig_rbf import TrigRBFSampler


class Block(NamedTuple):
    """Columns of one map, for queries and keys of some clusters."""

    part: object
    columns: slice
    queries: np.ndarray  # which clusters, bool
    keys: np.ndarray

    def active(self, key):
        """Return the mask of the clusters whose rows have these columns."""
        return self.keys if key else self.queries


@fill_doc
class ClusteredSampler(GaussianKernelMixin, BaseFeatureSampler):
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

    kernel = "gaussian"
    symmetric_ = False
    _features_per_frequency = 2
    _reads_rows = True
    _law_is_fitted = True
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

    # ------------------------------------------------------------------ fitting
    @property
    def min_components(self) -> int:
        """Least number of columns for the clusters wanted, two for each map."""
        counts = check_counts(self.n_clusters)
        n_maps = counts[0] * counts[1]
        if self.n_pairs is not None and self.n_pairs < n_maps:
            n_maps = self.n_pairs + counts[0]
        return 2 * n_maps

    @property
    def fallback(self):
        """The map of pairs without clusters, unfitted."""
        if self.default is not None:
            return self.default
        return TrigRBFSampler(coupling=self.coupling)

    def _coupling(self):
        return get_coupling(self.coupling, type(self).__name__)

    def _draw_projection(self, n_features, rng):
        check_counts(self.n_clusters)
        cluster_rng, block_rng = rng.spawn(2)
        samples = [
            (UnitRows(rows, self.sigma_, None).matrix, weights)
            for rows, weights in map(distinct_rows, self._row_samples.values())
        ]
        queries, keys = self.clusters_ = cluster_sides(
            samples, self.n_clusters, self.clusterer, cluster_rng
        )
        maps = []
        pairs = massive_pairs(queries, keys, self.n_pairs)
        options = {
            "real": self.diagonal == "real",
            "moments": self.statistic == "moments",
        }
        rest = np.ones((queries.shares.size, keys.shares.size), dtype=bool)
        for i, j in pairs:
            a = pair_diagonal(queries, keys, i, j, **options)
            map_ij = ComplexExponentialSampler(a, coupling=self.coupling)
            one = np.zeros_like(rest)
            one[i, j], rest[i, j] = True, False
            maps.append((map_ij, one.any(axis=1), one.any(axis=0)))
        for i in np.flatnonzero(rest.any(axis=1)):
            maps.append((self.fallback, np.arange(rest.shape[0]) == i, rest[i]))
        units = [_unit(part) for part, *_ in maps]
        if self.n_components < sum(units):
            warnings.warn(
                f"{len(maps)} maps need n_components={sum(units)} or more, got "
                f"n_components={self.n_components}: the default map is used alone.",
                UserWarning,
                stacklevel=2,
            )
            everywhere = np.ones_like(rest)
            maps = [(self.fallback, everywhere.any(axis=1), everywhere.any(axis=0))]
            units = [1]
        seeds = block_rng.integers(2**31 - 1, size=len(maps))
        self.blocks_, start = [], 0
        for (part, *masks), width, seed in zip(
            maps, self._split(units), seeds, strict=True
        ):
            fitted = fit_part(part, samples, width, int(seed), sigma=1.0)
            self.blocks_.append(Block(fitted, slice(start, start + width), *masks))
            start += width
        return JointProjection(frequencies_of(block.part for block in self.blocks_))

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
    def variance_is_exact_(self) -> bool:
        """Whether ``kernel_variance`` is that of the coupling in use."""
        check_is_fitted(self)
        return all(getattr(b.part, "variance_is_exact_", True) for b in self.blocks_)

    def frequency_index(self):
        """Return None: the columns of a pair of rows are those of one block."""
        return None

    # ------------------------------------------------------------- transforming
    def _features(self, rows, out, key):
        unit, exponent = rows.matrix, np.full_like(out, -np.inf)
        out[:] = 0
        for block, members in self._members(unit, key):
            mantissa, log_part = log_features(block.part, unit[members], key)
            out[members, block.columns] = mantissa
            exponent[members, block.columns] = 0 if log_part is None else log_part
        return out, exponent

    def _members(self, unit, key):
        """Yield the blocks with the indices of the rows they are active for."""
        labels = self.clusters_[key].assign(unit)
        for block in self.blocks_:
            members = np.flatnonzero(block.active(key)[labels])
            if members.size:
                yield block, members

    def approximate_kernel(self, X, Y=None):
        return self._pairwise("approximate_kernel", *self._unit_pair(X, Y)).astype(
            self._float_type(X), copy=False
        )

    def _variance(self, X, Y):
        return self._pairwise("kernel_variance", X, Y)

    def _pairwise(self, method, X, Y):
        """Call a method of the map of each pair of rows."""
        x, y = X.matrix, Y.matrix
        result = np.empty((x.shape[0], y.shape[0]))
        for block, i, j in self.members(x, y):
            result[np.ix_(i, j)] = getattr(block.part, method)(x[i], y[j])
        return result

    def members(self, X, Y):
        """Yield the blocks with the indices of the queries and keys they are for.

        Parameters
        ----------
        X, Y : {ndarray, sparse matrix} of shape (n_X, n_features), (n_Y, n_features)
            Queries and keys, multiplied by sigma.

        Yields
        ------
        block : Block
            One with a pair of rows.
        queries, keys : ndarray of int
            Which rows.
        """
        labels = [side.assign(Z) for side, Z in zip(self.clusters_, (X, Y))]
        for block in self.blocks_:
            i = np.flatnonzero(block.queries[labels[0]])
            j = np.flatnonzero(block.keys[labels[1]])
            if i.size and j.size:
                yield block, i, j


def _unit(part):
    """Return the columns of one frequency."""
    if isinstance(part, ComplexExponentialSampler):
        return 2 if np.any(np.asarray(part.diagonal).imag) else 1
    return getattr(part, "_features_per_frequency", 1)


def check_counts(n_clusters):
    """Return the numbers of clusters of queries and keys, or raise ValueError."""
    counts = (n_clusters, n_clusters) if np.ndim(n_clusters) == 0 else n_clusters
    good = len(counts) == 2 and all(
        isinstance(count, Integral) and count >= 1 for count in counts
    )
    if not good:
        raise ValueError(
            f"n_clusters={n_clusters!r} must be a positive integer, or two of them: "
            "for the queries and for the keys."
        )
    return counts
