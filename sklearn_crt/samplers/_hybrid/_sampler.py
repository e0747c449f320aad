"""Hybrid random features: base maps mixed with random coefficients."""

from __future__ import annotations

from dataclasses import replace
from numbers import Integral, Real

from ..._compat import Interval, StrOptions
from ..._docs import fill_doc
from ...frequencies import Coupling
from ...maps import FeatureMap, GaussianKernel, SumOfProductsMap
from ...rows import Frame, Statistics
from .._base import BaseFeatureSampler, fitted
from .._exponential import middle
from ._fit_hybrid import HybridParts, fit_hybrid


@fill_doc
class HybridSampler(BaseFeatureSampler):
    r"""Gaussian or softmax kernel from base maps mixed by coefficients (HRF).

    The estimate is :math:`\sum_k \hat\lambda_k \hat K_k + (1 - \sum_k \hat\lambda_k)
    \hat K_{last}` of base maps :math:`\hat K` and linearised coefficients
    :math:`\hat\lambda`, all random features, so that each base map counts where it is
    accurate.

    Parameters
    ----------
    kind : {"angular", "gaussian", "clustered"}, default="angular"
        Which coefficients and base maps are taken where ``coefficients`` and
        ``bases`` are None:

        - ``"angular"``: the angle over pi, from signs of projections, for
          PositivePairSampler; TrigRBFSampler has the rest. The variance is zero for
          rows of one length at angles 0 and pi.
        - ``"gaussian"``: one minus a Gaussian kernel, normalised, with the same maps.
        - ``"clustered"``: a map adapted to each pair of clusters of queries and keys
          (:class:`~sklearn_crt.samplers.ClusteredSampler`).
    bases : list of samplers, default=None
        Base maps, unfitted; the last has the rest of the coefficients. Their
        ``n_components``, ``sigma``, ``kernel`` and ``random_state`` are set here,
        where they have them. Any sampler with ``fit``, ``transform``,
        ``transform_key`` if asymmetric, ``exact_kernel`` and ``kernel_variance``.
    coefficients : list of samplers, default=None
        Coefficient maps, unfitted, one less than bases. Such a map is a sampler of
        the coefficient less the constant ``a_`` (0 without this attribute). It
        keeps its parameters except ``random_state``, and sees rows at unit bandwidth.
    n_coefficients : int or "auto", default="auto"
        Number of frequencies of each coefficient map that ``kind`` makes; ``"auto"``
        takes that of least mean variance on rows of the data.
    lambda_sigma : float, default=1.0
        Bandwidth of Gaussian coefficients, multiplies rows at unit bandwidth.
    shared : bool, default=False
        Whether base maps have one seed, so that maps with the same law share their
        frequencies. Coefficients never share with them.
    n_clusters : int or tuple of two int, default=2
        Number of clusters for ``kind="clustered"``, of queries and keys.
    mixture : {"zero-one", "gaussian"}, default="zero-one"
        Coefficients of ``kind="clustered"``: the map of the pair of clusters alone,
        or Gaussian kernels about the pairs of centres and TrigRBFSampler for the rest.
    diagonal : {"complex", "real"}, default="complex"
        Whether the maps of ``kind="clustered"`` may have imaginary diagonals.
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output. All are used: the largest layout that fits,
        then further frequencies of single base maps. Where not even the smallest
        layout fits, the last base map alone, with a warning that says how many
        columns the hybrid needs.
    %(coupling)s
        It is that of the maps that ``kind`` makes; coefficients are orthogonal where
        it is only nearly exact, as structured ones.
    center : bool, default=False
        Whether to subtract the mean of the columns first: angles and coefficients
        are those of centred rows then. Sparse rows are densified chunk by chunk.
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    bases_, coefficients_ : list of FeatureMap
        The fitted maps.
    a_ : list of float
        The constant parts of the coefficients.
    spare_ : FeatureMap or None
        A further map of the last base in columns that no layout fills.
    spare_weight_ : float
        The weight of its estimate.
    center_ : ndarray of shape (n_features,)
        The vector subtracted from the rows, zero without ``center``.
    %(fitted)s

    See Also
    --------
    TrigRBFSampler : Best for pairs of rows that are close.
    PositiveRBFSampler : Best for pairs of rows that are opposite.

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
    are left out. With 2m columns a base and n frequencies a coefficient that is
    4m(n + 1) columns for ``"angular"`` and 4m(2n + 1) for ``"gaussian"``, computed in
    O((n + m) d + m n) a row.

    The maps are independent, so the variance is ([1]_, theorem 3.1)

    .. math:: \sum_k E \hat\lambda_k^2 \operatorname{Var} \hat K_k
       + E\bigl(1 - \sum_k \hat\lambda_k\bigr)^2 \operatorname{Var} \hat K_{last} .

    Independent frequencies that are shared by the positive and the trigonometric map
    subtract :math:`\frac2m K^2 (1 - \cos(|x|^2 - |y|^2)) E \hat\lambda (1 -
    \hat\lambda)`. Where ``variance_is_exact_`` is false, ``kernel_variance`` is that
    of independent maps.

    Parameters of the maps, clusters and variances of layouts are those of up to 1000
    rows of each side.

    %(errors)s

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
    >>> sampler.transform(X).shape
    (100, 200)
    >>> bool(np.diag(sampler.kernel_variance(X)).max() < 1e-15)
    True
    """

    map_: SumOfProductsMap
    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "kernel": [StrOptions({"gaussian", "softmax"})],
        "kind": [StrOptions({"angular", "gaussian", "clustered"})],
        "bases": [list, tuple, None],
        "coefficients": [list, tuple, None],
        "n_coefficients": [
            Interval(Integral, 1, None, closed="left"),
            StrOptions({"auto"}),
        ],
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
        kind="angular",
        bases=None,
        coefficients=None,
        n_coefficients="auto",
        lambda_sigma=1.0,
        shared=False,
        n_clusters=2,
        mixture="zero-one",
        diagonal="complex",
        sigma="scale",
        n_components=100,
        coupling="orthogonal",
        center=False,
        kernel="gaussian",
        n_jobs=None,
        random_state=None,
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

    def _reads_rows(self):
        return True

    def _make_map(self, statistics, drawn):
        whole = self._fit_parts(statistics).joint_map(self.shared)
        kernel = GaussianKernel(softmax=self.kernel == "softmax")
        return replace(whole, frame=self._centred_frame(statistics), factor=kernel)

    def _fit_parts(self, statistics: Statistics) -> HybridParts:
        """Return the fitted maps of parts, which follow from the statistics."""
        return fit_hybrid(self, statistics, self._centred_frame(statistics))

    def _centred_frame(self, statistics) -> Frame:
        return self._frame(statistics, middle(statistics) if self.center else None)

    # --------------------------------------------------------------- attributes
    spare_ = fitted("map_.spare", "A further map of the last base, or None.")
    spare_weight_ = fitted("map_.spare_weight", "The weight of its estimate.")

    @property
    def bases_(self) -> list[FeatureMap]:
        """The base maps."""
        return list(self.map_.bases)

    @property
    def coefficients_(self) -> list[FeatureMap]:
        """The maps of the coefficients less their constant parts."""
        return list(self.map_.coefficients)

    @property
    def a_(self) -> list[float]:
        """The constant parts of the coefficients."""
        return list(self.map_.constants)
