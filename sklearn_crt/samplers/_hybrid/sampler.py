"""Hybrid random features: base maps mixed with random coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from ..._compat import Interval, StrOptions, warn
from ..._types import GaussianOrSoftmax, RandomState
from ...frequencies import Antithetic, Coupling, get_coupling
from ...maps import FeatureMap, GaussianKernel, SumOfProductsMap
from ...rows import Frame, Sigma, Statistics
from .._base import BaseFeatureSampler
from .._exponential import middle
from .._oprf import OPRFSampler
from .._positive import PositiveRBFSampler
from .._trig_rbf import TrigRBFSampler
from .clustered import (
    ClusteredSampler,
    Sample,
    cluster_sides,
    columns_per_frequency,
    fit_base,
    fit_part,
    map_of,
    massive_pairs,
    pair_diagonal,
    unit_samples,
)
from .coefficients import AngularCoefficient, GaussianCoefficient, MixtureCoefficient
from .complex_exponential import ComplexExponentialSampler

_NEEDED = ("fit", "transform", "exact_kernel", "kernel_variance")  # of each map


class HybridParts(NamedTuple):
    """The fitted samplers whose maps make a hybrid."""

    bases: list[Any]
    coefficients: list[Any]
    spare: list[Any]  # none or one, for the columns that the products leave
    samples: list[Sample]


class HybridSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from base maps mixed by coefficients (HRF).

    The estimate is :math:`\sum_k \hat\lambda_k \hat K_k + (1 - \sum_k \hat\lambda_k)
    \hat K_{last}`, with base maps :math:`\hat K` and linearised coefficients
    :math:`\hat\lambda` that are all random features, so that each base map counts where
    it is accurate.

    Parameters
    ----------
    kind : {"optimal", "angular", "gaussian", "clustered"}, default="optimal"
        Coefficients and base maps used where ``coefficients`` and ``bases`` are None:

        - ``"optimal"``: optimal positive features of w and -w
          (:class:`OPRFSampler`), weighted by the angle over pi (from signs of
          projections), and sines and cosines with the remaining weight.
        - ``"angular"``: the hybrid of [1]_, with the positive features of
          :class:`PositiveRBFSampler` instead. The variance is zero for rows of equal
          length at angles 0 and pi, and grows fast with the norms of the rows.
        - ``"gaussian"``: the maps of ``"angular"``, weighted by one minus a Gaussian
          kernel.
        - ``"clustered"``: a map adapted to each pair of clusters of queries and keys
          (:class:`~sklearn_crt.samplers.ClusteredSampler`).
    bases : list of samplers, default=None
        Unfitted base maps; the last one has the remaining weight. Their
        ``n_components``, ``sigma``, ``kernel`` and ``random_state``, where they have
        these, are set by the hybrid. Any sampler works that has ``fit``, ``transform``,
        ``exact_kernel``, ``kernel_variance``, and ``transform_key`` if asymmetric.
    coefficients : list of samplers, default=None
        Unfitted coefficient maps, one fewer than bases. Each estimates its coefficient
        less the constant ``a_`` (0 without this attribute), keeps its parameters except
        ``random_state``, and sees rows already multiplied by sigma.
    n_coefficients : int, default=1
        Number of frequencies of each coefficient map that ``kind`` makes. More of them
        leave fewer frequencies for the base maps.
    lambda_sigma : float, default=1.0
        Inverse length scale of Gaussian coefficients, in units of ``sigma``.
    shared : bool, default=False
        Whether base maps have the same seed, so that maps with the same distribution
        share their frequencies. Coefficients never share them.
    n_clusters : int or tuple of two int, default=2
        Number of clusters of queries and keys, for ``kind="clustered"``.
    mixture : {"zero-one", "gaussian"}, default="zero-one"
        Coefficients of ``kind="clustered"``: the map of the pair of clusters alone, or
        Gaussian kernels around the pairs of centres, with sines and cosines for the
        rest.
    diagonal : {"complex", "real"}, default="complex"
        Whether the maps of ``kind="clustered"`` may have imaginary diagonals.
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` with ``gamma = sigma**2 / 2``;
        ``"median"`` is one over the median distance of up to 1000 rows.
    n_components : int, default=100
        Number of columns, for the largest layout that fits, then for further
        frequencies of single base maps, then for a spare map like the last base, which
        counts in the estimate by its share of the columns. Where no layout fits, the
        last base map is used alone, and a warning says how many columns are needed.
    coupling : str or Coupling, default="orthogonal"
        How the frequencies depend on each other: ``"iid"``, ``"orthogonal"``,
        ``"simplex"``, ``"simplex+"``, ``"halton"``, ``"sobol"``,
        ``"structured-orthogonal"``, ``"structured-simplex"`` or an object. All but the
        structured ones are exactly unbiased.
    center : bool, default=False
        Whether to subtract the column means first, so that angles and coefficients are
        those of centred rows. Sparse rows are made dense chunk by chunk.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        ``"softmax"`` is ``exp(sigma**2 * x.y)``, by features of the Gaussian kernel
        times ``exp(|sigma * x|**2 / 2)``.
    n_jobs : int, default=None
        Threads of ``transform``; -1 uses all processors, None as many as NumPy's linear
        algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies. Draws are nested: half the columns use the first half.

    Attributes
    ----------
    bases_, coefficients_ : list of FeatureMap
        The fitted maps.
    a_ : list of float
        The constant parts of the coefficients.
    spare_ : FeatureMap or None
        The map of the columns that no layout fills.
    center_ : ndarray of shape (n_features,)
        The vector subtracted from the rows, zero without ``center``.
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
    TrigRBFSampler : Best for close pairs of rows.
    PositiveRBFSampler : Best for opposite pairs of rows.

    Notes
    -----
    Queries and keys have the columns ([1]_, lemma 2.3), with :math:`\otimes` the outer
    product of the rows, A the k-th and L the last base map,

    .. math::

       &\sqrt{|a_k|}\, A_k(x), \quad r_{1k}(x) \otimes A_k(x), \quad
       \sqrt{|1 - \textstyle\sum a|}\, L(x), \quad r_{1k}(x) \otimes L(x), \\
       &\pm\sqrt{|a_k|}\, A_k(y), \quad r_{2k}(y) \otimes A_k(y), \quad
       \pm\sqrt{|1 - \textstyle\sum a|}\, L(y), \quad -r_{2k}(y) \otimes L(y)

    with the signs of :math:`a_k` and :math:`1 - \sum a`; parts with :math:`a_k = 0`
    are left out. With 2m columns per base and n frequencies per coefficient these are
    4m(n + 1) columns for ``"optimal"`` and ``"angular"``, and 4m(2n + 1) for
    ``"gaussian"``, computed in O((n + m) d + m n) per row. The maps that ``kind``
    makes have the ``coupling`` of the hybrid, but the coefficients are orthogonal
    where it is structured.

    The maps are independent, so the variance is ([1]_, theorem 3.1)

    .. math:: \sum_k E \hat\lambda_k^2 \operatorname{Var} \hat K_k
       + E\bigl(1 - \sum_k \hat\lambda_k\bigr)^2 \operatorname{Var} \hat K_{last} .

    Independent frequencies shared by the positive and the trigonometric map reduce it
    by :math:`\frac2m K^2 (1 - \cos(|x|^2 - |y|^2)) E \hat\lambda (1 -
    \hat\lambda)`. Where ``variance_is_exact_`` is False, ``kernel_variance`` is that
    of independent maps.

    What is read of the rows comes from up to 1000 of each side.

    References
    ----------
    .. [1] K. Choromanski et al., "Hybrid Random Features", ICLR 2022,
       :arxiv:`2110.04367`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import HybridSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> sampler = HybridSampler(sigma=1.0, n_components=200, random_state=0).fit(X)
    >>> bool(np.diag(sampler.kernel_variance(X)).max() < 1e-15)
    True
    """

    map_: SumOfProductsMap
    _doubtful_below = math.inf
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "kind": [StrOptions({"optimal", "angular", "gaussian", "clustered"})],
        "bases": [list, tuple, None],
        "coefficients": [list, tuple, None],
        "n_coefficients": [Interval(Integral, 1, None, closed="left")],
        "lambda_sigma": [Interval(Real, 0, None, closed="neither")],
        "shared": ["boolean"],
        "n_clusters": [Interval(Integral, 1, None, closed="left"), tuple],
        "mixture": [StrOptions({"zero-one", "gaussian"})],
        "diagonal": [StrOptions({"complex", "real"})],
        "coupling": [str, Coupling],
        "center": ["boolean"],
    }

    def __init__(
        self,
        *,
        kind: Literal["optimal", "angular", "gaussian", "clustered"] = "optimal",
        bases: Sequence[BaseEstimator] | None = None,
        coefficients: Sequence[BaseEstimator] | None = None,
        n_coefficients: int = 1,
        lambda_sigma: float = 1.0,
        shared: bool = False,
        n_clusters: int | tuple[int, int] = 2,
        mixture: Literal["zero-one", "gaussian"] = "zero-one",
        diagonal: Literal["complex", "real"] = "complex",
        sigma: Sigma = "scale",
        n_components: int = 100,
        coupling: str | Coupling = "orthogonal",
        center: bool = False,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.kind = kind
        self.bases = bases
        self.coefficients = coefficients
        self.n_coefficients = n_coefficients
        self.lambda_sigma = lambda_sigma
        self.shared = shared
        self.n_clusters = n_clusters
        self.mixture = mixture
        self.diagonal = diagonal
        self.sigma = sigma
        self.n_components = n_components
        self.coupling = coupling
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _reads(self):
        return {"rows": 1000}

    def _make_map(self, statistics, drawn):
        *sides, samples = self._fit_parts(statistics)
        bases, coefficients, spare = (
            tuple(map_of(part, samples) for part in side) for side in sides
        )
        constants = tuple(map(_constant_of, sides[1]))
        last = spare[0] if spare else None
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        fields = bases, coefficients, constants, self.shared, last, kernel
        frame = self._centred_frame(statistics)
        return SumOfProductsMap(frame, self.n_components, *fields)

    def _fit_parts(self, statistics: Statistics) -> HybridParts:
        """Return the fitted samplers, which follow from the statistics."""
        get_coupling(self.coupling, type(self).__name__)  # or ValueError
        streams = statistics.frequency_stream().spawn(4)
        base_rng, coefficient_rng, spare_rng, cluster_rng = streams
        samples = unit_samples(statistics, self._centred_frame(statistics))
        bases, unfitted = _unfitted_parts(self, samples, cluster_rng)
        base_seeds = base_rng.integers(2**31 - 1, size=len(bases))
        seeds = coefficient_rng.integers(2**31 - 1, size=len(bases))
        # the last base has the first seed: alone it is the map that it is in a hybrid
        base_seeds = base_seeds[[0] * len(bases)] if self.shared else base_seeds[::-1]
        pairs = zip(unfitted, seeds, strict=False)
        coefficients = [fit_part(part, samples, seed) for part, seed in pairs]
        split = _split_columns(self.n_components, bases, coefficients, samples)
        last = getattr(bases[-1], "fallback", bases[-1])
        if split is None:
            bases, coefficients, split = [last], [], ([self.n_components], 0)
        widths, rest = split
        parts = zip(bases, widths, base_seeds[-len(bases) :], strict=True)
        fitted = [fit_base(part, samples, width, seed) for part, width, seed in parts]
        seed = int(spare_rng.integers(2**31 - 1))
        spare = [fit_base(last, samples, rest, seed)] if rest else []
        return HybridParts(fitted, coefficients, spare, samples)

    def _centred_frame(self, statistics) -> Frame:
        return self._frame(statistics, middle(statistics) if self.center else None)

    @property
    def bases_(self) -> list[FeatureMap]:
        """The base maps."""
        return list(self.map_.bases)

    @property
    def coefficients_(self) -> list[FeatureMap]:
        """The maps of the coefficients less their constant parts."""
        return list(self.map_.coefficients)

    @property
    def spare_(self) -> FeatureMap | None:
        """The map of the columns that no layout fills, or None."""
        return self.map_.spare

    @property
    def a_(self) -> list[float]:
        """The constant parts of the coefficients."""
        return list(self.map_.constants)


# -------------------------------------------------- what a kind of hybrid stands for
def _constant_of(coefficient: Any) -> float:
    """Return the constant part of a fitted coefficient, 0 where it states none."""
    return float(getattr(coefficient, "a_", 0.0))


def _split_columns(
    n_components: int, bases: Sequence[Any], coefficients: list[Any], samples: Any
) -> tuple[list[int], int] | None:
    """Return the columns of the base maps and those left, or warn and return None.

    All have as many frequencies; what is left goes to one more of single maps, the
    last map first.
    """
    constants = [_constant_of(part) for part in coefficients]
    counts = [map_of(part, samples).n_components for part in coefficients]
    units = [columns_per_frequency(base, samples) for base in bases]
    plain = [int(a != 0) for a in (*constants, 1 - sum(constants))]
    # columns of the hybrid for one frequency of each base map
    each = zip(units, plain, [*counts, sum(counts)], strict=True)
    costs = [unit * (constant + count) for unit, constant, count in each]
    frequencies, rest = divmod(n_components, sum(costs))
    pairs = zip(bases, units, strict=True)
    least = max(-(-getattr(base, "min_components", 1) // unit) for base, unit in pairs)
    if frequencies < least:
        warn(
            f"This hybrid needs n_components={least * sum(costs)} or more, got "
            f"n_components={n_components}: the last base map is used alone.",
            UserWarning,
        )
        return None
    widths = [frequencies * unit for unit in units]
    for k in reversed(range(len(costs))):
        if 0 < costs[k] <= rest:
            widths[k] += units[k]
            rest -= costs[k]
    return widths, rest


def _unfitted_parts(
    sampler: Any, samples: list[Sample], rng: np.random.Generator
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the base maps and coefficients that the parameters of a hybrid ask for."""
    own = sampler.bases is None and sampler.coefficients is None
    mixture = own and sampler.kind == "clustered" and sampler.mixture == "gaussian"
    _check_effects(sampler, mixture)
    if mixture:
        return _mixture_parts(sampler, samples, rng)
    own_bases, own_coefficients = _parts_of_kind(sampler)
    bases, coefficients = sampler.bases, sampler.coefficients
    bases = own_bases if bases is None else bases
    coefficients = own_coefficients if coefficients is None else coefficients
    for part in (*bases, *coefficients):
        missing = [name for name in _NEEDED if not hasattr(part, name)]
        if missing or isinstance(part, type):
            lack = f"it lacks {', '.join(missing)}" if missing else "it is a class"
            raise ValueError(
                f"{part!r} is no sampler: {lack}. Give objects with "
                f"{', '.join(_NEEDED)} as bases and coefficients."
            )
    if len(bases) != len(coefficients) + 1:
        raise ValueError(
            f"{len(bases)} bases and {len(coefficients)} coefficients do not fit: "
            "each base but the last, which has what remains of one, needs one."
        )
    return bases, coefficients


def _check_effects(sampler: Any, mixture: bool) -> None:
    """Raise ValueError where a parameter that is not its default would not count."""
    kind, own = sampler.kind, sampler.coefficients is None
    clustered = kind == "clustered" and sampler.bases is None
    counts = {  # whether the parameter counts, and where it does
        "n_clusters": (clustered, "kind='clustered' without own bases"),
        "mixture": (mixture, "kind='clustered' without own bases and coefficients"),
        "diagonal": (
            clustered and not mixture,
            "kind='clustered' and mixture='zero-one' without own bases",
        ),
        "lambda_sigma": (
            mixture or (own and kind == "gaussian"),
            "kind='gaussian' or mixture='gaussian' without own coefficients",
        ),
        "n_coefficients": (
            mixture or (own and kind != "clustered"),
            "kinds but 'clustered', or mixture='gaussian', without own coefficients",
        ),
    }
    defaults = type(sampler)().get_params(deep=False)
    for name, (has_effect, where) in counts.items():
        value, default = getattr(sampler, name), defaults[name]
        # one cluster is none, which is true of every kind; scikit-learn's checks set it
        harmless = value == default or (name == "n_clusters" and value == 1)
        if not harmless and not has_effect:
            raise ValueError(
                f"{name}={value!r} has no effect with kind={kind!r} and the other "
                f"parameters given: it counts for {where}. Leave it at its default, "
                f"{default!r}, or change these."
            )


def _parts_of_kind(sampler: Any) -> tuple[list[Any], list[Any]]:
    """Return the base maps and the coefficients that a kind stands for."""
    kind, coupling, n = sampler.kind, sampler.coupling, sampler.n_coefficients
    if kind == "clustered":
        options = {"n_clusters": sampler.n_clusters, "diagonal": sampler.diagonal}
        return [ClusteredSampler(coupling=coupling, **options)], []
    pairs = get_coupling(coupling, type(sampler).__name__)
    exact = pairs if pairs.exact else "orthogonal"  # few directions need their law
    if not pairs.weight_dependent:  # angles that follow the norms make no pairs
        pairs = Antithetic(pairs)
    positive: Any = PositiveRBFSampler(coupling=pairs, center=False)
    if kind == "optimal":
        positive = OPRFSampler(coupling=pairs)
    coefficient: Any = AngularCoefficient(n_components=n, coupling=exact)
    if kind == "gaussian":
        options = {"sigma": sampler.lambda_sigma, "coupling": exact}
        coefficient = GaussianCoefficient(n_components=2 * n, **options)
    return [positive, TrigRBFSampler(coupling=coupling)], [coefficient]


def _mixture_parts(
    sampler: Any, samples: list[Sample], rng: np.random.Generator
) -> tuple[list[Any], list[Any]]:
    """Return base maps and coefficients for all pairs of clusters, and the rest."""
    queries, keys = cluster_sides(samples, sampler.n_clusters, None, rng)
    coupling, bases, coefficients = sampler.coupling, [], []
    options = {"n_components": sampler.n_coefficients, "coupling": coupling}
    for i, j in massive_pairs(queries, keys, None):
        a = pair_diagonal(queries, keys, i, j, real=True, moments=True).real
        bases.append(ComplexExponentialSampler(a, coupling=coupling))
        part = MixtureCoefficient(a, sigma=sampler.lambda_sigma, **options)
        coefficients.append(part)
    return [*bases, TrigRBFSampler(coupling=coupling)], coefficients
