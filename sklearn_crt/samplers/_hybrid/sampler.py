"""Hybrid random features: base maps mixed with random coefficients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import Literal

from sklearn.base import BaseEstimator

from ..._compat import Interval, StrOptions
from ..._types import GaussianOrSoftmax, RandomState
from ...frequencies import Coupling
from ...maps import FeatureMap, GaussianKernel, SumOfProductsMap
from ...rows import Frame, Sigma, Statistics
from .._base import BaseFeatureSampler
from .._exponential import middle
from .fit import HybridParts, fit_hybrid


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
        ``"median"`` is one over the median distance between up to 1000 rows.
    n_components : int, default=100
        Number of columns. All are used: by the largest layout that fits, then by
        further frequencies of single base maps, then by a spare map like the last
        base, which counts in the estimate by its share of the columns. Where not even
        the smallest layout fits, the last base map is used alone, and a warning says
        how many columns the hybrid needs.
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
        The drawn map, an immutable value that works without the sampler.
    frequencies_ : Frequencies
        Frequencies of the map, for rows multiplied by sigma.
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

    The parameters of the maps, the clusters and the variances of layouts come from up
    to 1000 rows of each side.

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
    >>> options = {"sigma": 1.0, "n_components": 200, "random_state": 0}
    >>> sampler = HybridSampler(**options).fit(X)
    >>> sampler.transform(X).shape
    (100, 200)
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
        parts = self._fit_parts(statistics)
        whole = parts.joint_map(self.n_components, self.shared)
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        return replace(whole, frame=self._centred_frame(statistics), factor=kernel)

    def _fit_parts(self, statistics: Statistics) -> HybridParts:
        """Return the fitted maps of parts, which follow from the statistics."""
        return fit_hybrid(self, statistics, self._centred_frame(statistics))

    def _centred_frame(self, statistics) -> Frame:
        return self._frame(statistics, middle(statistics) if self.center else None)

    # --------------------------------------------------------------- attributes
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
