"""Monomials with random integer exponents: the base class, PoisRF and GeomRF."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from .._compat import Interval, RandomState, StrOptions, warn
from ..frequencies import Frequencies, Independent
from ..maps import (
    CountLaw,
    DiscreteMap,
    GaussianKernel,
    GaussianOrSoftmax,
    GeometricLaw,
    PoissonLaw,
)
from ..rows import Frame, Sigma, Statistics
from ._base import BaseFeatureSampler, centered, fitted
from ._exponential import middle

_EPSILON = 1e-8  # default for the smallest coordinate with positive features
_NEAR = 0.1  # assumed size of the scaled coordinates if all rows are equal


class DiscreteSampler(BaseFeatureSampler):
    r"""Base class of samplers whose features are monomials with random exponents.

    A subclass implements ``_make_law``, which returns the distribution of the exponents
    for rows of a given size. This class implements the rest: it shifts the rows, draws
    the exponents, and computes features, kernels and variances. ``PoissonSampler`` and
    ``GeometricSampler`` are examples.

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
        Number of features, one per frequency. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    positive : bool, default=False
        Whether to make all features positive. Each column is then shifted such that its
        minimum becomes ``epsilon``, instead of being centred at its mean. Values below
        the minima of the training rows are clipped to the minima, and estimates and
        variances refer to the clipped rows. Powers of coordinates close to ``epsilon``
        may underflow to zero; ``transform`` warns about rows for which half of the
        features do.
    epsilon : float, default=None
        Smallest coordinate with ``positive=True``, after multiplication by sigma; None
        means 1e-8. With ``positive=False``, ``fit`` raises ValueError unless
        ``epsilon`` is None.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel.
        With ``positive=True``, the minima are subtracted instead, and ``fit`` raises
        ValueError if ``center=False``.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows: the column means by default, the
        column minima minus ``epsilon / sigma`` if ``positive=True``, and zero if
        ``center=False``.
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
    CountLaw : Base class of the distributions, with the formulas.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`, section 3.2.

    Examples
    --------
    A sampler with a fixed distribution, negative binomial with half a success:

    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from scipy import stats
    >>> from sklearn_crt.extend import CountLaw, DiscreteSampler
    >>> @dataclass(frozen=True)
    ... class NegativeBinomial(CountLaw):
    ...     p: float
    ...
    ...     def log_probability(self, counts):
    ...         return stats.nbinom.logpmf(counts, 0.5, self.p)
    >>> class NegativeBinomialSampler(DiscreteSampler):
    ...     def _make_law(self, sizes):
    ...         return NegativeBinomial(p=1 / (1 + 2 * np.mean(sizes**2)))
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> NegativeBinomialSampler(random_state=0).fit_transform(X).shape
    (100, 100)
    """

    _parameter_constraints: dict = {
        **BaseFeatureSampler._parameter_constraints,
        "positive": ["boolean"],
        "epsilon": [Interval(Real, 0, None, closed="neither"), None],
        "center": ["boolean"],
        "kernel": [StrOptions({"gaussian", "softmax"})],
    }

    def __init__(
        self,
        *,
        sigma: Sigma | None = None,
        n_components: int | None = None,
        positive: bool = False,
        epsilon: float | None = None,
        center: bool = True,
        kernel: GaussianOrSoftmax = "gaussian",
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ):
        self.sigma = sigma
        self.n_components = n_components
        self.positive = positive
        self.epsilon = epsilon
        self.center = center
        self.kernel = kernel
        self.n_jobs = n_jobs
        self.random_state = random_state

    center_: np.ndarray = centered

    @property
    def _doubtful_below(self) -> float:  # type: ignore[override]
        # positive features are centred at the minima, which are far from most rows
        return math.inf if self.positive else 64

    @abstractmethod
    def _make_law(self, sizes: np.ndarray) -> CountLaw:
        """Return the distribution of the exponents for the sizes of the coordinates.

        ``sizes`` contains one positive number per column: the root mean square of the
        shifted column, multiplied by sigma, as a geometric mean over queries and keys.
        The distribution may depend on the parameters as well.
        """

    def _choose_law(self, statistics: Statistics, frame: Frame) -> CountLaw:
        """Return the distribution of the exponents."""
        center = 0.0 if frame.center is None else frame.center
        squares = (
            side.variance + (side.mean - center) ** 2
            for side in (statistics.query, statistics.key)
        )
        # roots are taken first, so that no product overflows or underflows
        sizes = frame.sigma * np.prod(np.power(list(squares), 0.25), axis=0)
        return self._make_law(sizes)

    def _make_map(self, statistics, drawn):
        frame, epsilon = self._frame(statistics), self._least_coordinate()
        if epsilon is not None:
            minimum = np.minimum(statistics.query.minimum, statistics.key.minimum)
            minimum = np.where(np.isfinite(minimum), minimum, 0)  # if there are no rows
            center = minimum - epsilon / np.asarray(frame.sigma)
            frame = replace(frame, center=center)
        elif self.center:
            frame = replace(frame, center=middle(statistics))
        rng = statistics.frequency_stream()
        if _are_all_alike(statistics, self.center):
            law = self._make_law(np.full(statistics.n_features, _NEAR))
            warn(
                "All rows are equal, so the distribution of the exponents of "
                f"{type(self).__name__} cannot be adapted to them. Instead, the "
                "distribution is chosen for rows at a distance of about "
                f"{_NEAR * math.sqrt(statistics.n_features):.2g} / sigma from the "
                "center.",
                UserWarning,
            )
        else:
            law = self._choose_law(statistics, frame)
        # drawn frequency by frequency: the first ones must not depend on n_components
        counts = law.draw((self.n_components, statistics.n_features), rng)
        return DiscreteMap(
            frame=frame,
            n_components=self.n_components,
            frequencies=Frequencies(counts.T.astype(np.float64)),
            coupling=Independent(),
            law=law,
            gaussian=GaussianKernel(softmax=self.kernel == "softmax"),
            least=epsilon,
        )

    def _least_coordinate(self) -> float | None:
        """Return the smallest coordinate, or None if features may be negative."""
        if not self.positive:
            if self.epsilon is not None:
                raise ValueError(
                    f"epsilon={self.epsilon} has no effect with positive=False: it is "
                    "the smallest coordinate after the column minima are subtracted. "
                    "Use epsilon=None, or positive=True."
                )
            return None
        if not self.center:
            raise ValueError(
                "center=False has no effect with positive=True, which subtracts the "
                "column minima in place of the means. Use center=True, or "
                "positive=False."
            )
        return _EPSILON if self.epsilon is None else self.epsilon


def _are_all_alike(statistics, shifted):
    """Return whether all rows are equal up to rounding (zero if not ``shifted``)."""
    squares = statistics.both.mean_square.sum()
    spread = statistics.both.variance.sum() if shifted else squares
    return bool(spread <= 1e-28 * squares)


_LAMBDA_RANGE = 1e-12, 1e15  # for lambda in this range, exponents are exact in float64


class PoissonSampler(DiscreteSampler):
    r"""Monomials with Poisson exponents (PoisRF) for the Gaussian or softmax kernel.

    ``fit`` chooses ``lambda_`` from the means and variances of the columns, in O(n d)
    operations. The variant with ``positive=True`` (PoisRF+) also uses the column
    minima.

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
        Number of features, one per frequency. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    positive : bool, default=False
        Whether to make all features positive. Each column is then shifted such that its
        minimum becomes ``epsilon``, instead of being centred at its mean. Values below
        the minima of the training rows are clipped to the minima, and estimates and
        variances refer to the clipped rows. Powers of coordinates close to ``epsilon``
        may underflow to zero; ``transform`` warns about rows for which half of the
        features do.
    epsilon : float, default=None
        Smallest coordinate with ``positive=True``, after multiplication by sigma; None
        means 1e-8. With ``positive=False``, ``fit`` raises ValueError unless
        ``epsilon`` is None.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel.
        With ``positive=True``, the minima are subtracted instead, and ``fit`` raises
        ValueError if ``center=False``.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    lambda_ : float
        Mean of the exponents, in [1e-12, 1e15].
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows: the column means by default, the
        column minima minus ``epsilon / sigma`` if ``positive=True``, and zero if
        ``center=False``.
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
    GeometricSampler : Monomials with geometric exponents.
    sklearn_crt.OPRFSampler : Positive exponential features.

    Notes
    -----
    Let w be one of m frequencies. Its d coordinates are independent Poisson variables
    with mean :math:`\lambda`. Let x be a row that is shifted by ``-center_`` and then
    multiplied by sigma ([1]_, equation 10 and section 3.2.1). Then

    .. math:: f(x) = \frac{e^{\lambda d / 2 - |x|^2 / 2}}{\sqrt m}
       \prod_{l=1}^d \left(\frac{x_l}{\sqrt\lambda}\right)^{w_l}, \qquad 0^0 = 1,

    .. math:: \operatorname{Var} = \frac{1}{m} \left(\exp\left(\lambda d
       + \frac{1}{\lambda} \sum_l x_l^2 y_l^2 - |x|^2 - |y|^2\right) - K^2\right)

    ([1]_, theorem 3.4). The logarithm of the first term of the variance, averaged over
    all pairs of rows, is minimal for

    .. math:: \lambda^* = \sqrt{\frac{1}{d} \sum_l
       \overline{x_l^2}\; \overline{y_l^2}}

    ([1]_, equation 12), where bars denote means over rows. The frequencies depend on
    ``lambda_``, so ``partial_fit`` draws new frequencies.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import PoissonSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = PoissonSampler(sigma=0.7, random_state=0).fit(X)
    >>> round(sampler.lambda_, 3)
    0.503
    >>> positive = PoissonSampler(sigma=0.7, positive=True, random_state=0)
    >>> bool((positive.fit_transform(X) > 0).all())
    True
    """

    def _make_law(self, sizes):
        return PoissonLaw(float(np.clip(math.sqrt(np.mean(sizes**4)), *_LAMBDA_RANGE)))

    lambda_: float = fitted("map_.law.lambda_", "Mean of the exponents.")


_P_RANGE = 1e-8, 1 - 1e-8  # bounds of p


def optimal_p(products: ArrayLike) -> float:
    """Return the p that minimises the log second moment; c_l is the mean of |x_l y_l|.

    The objective -d log p + sum_l log I0(2 c_l / sqrt(1 - p)) (CRT theorem 3.5) is
    convex in u = -log(1 - p), and the result is the root of its derivative.
    """
    products = np.asarray(products, dtype=np.float64)

    def slope(log_u):
        u = math.exp(log_u)
        z = 2 * products * math.exp(u / 2)
        bessel_ratio = special.i1e(z) / special.i0e(z)
        return 0.5 * np.sum(z * bessel_ratio) - products.size / math.expm1(u)

    low, high = (math.log(-math.log1p(-p)) for p in _P_RANGE)
    if slope(low) >= 0:
        return _P_RANGE[0]
    if slope(high) <= 0:
        return _P_RANGE[1]
    root = optimize.brentq(slope, low, high, xtol=1e-14)
    return -math.expm1(-math.exp(root))


class GeometricSampler(DiscreteSampler):
    r"""Monomials with geometric exponents (GeomRF) for Gaussian or softmax kernels.

    ``fit`` chooses ``p_`` from the mean absolute values of the shifted columns, in O(n
    d) operations. These means are computed from all rows with ``positive=True``
    (GeomRF+) or ``center=False``, and otherwise from samples of at most 1000 queries
    and 1000 keys.

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
        Number of features, one per frequency. None means 100, unless an estimator or a
        hybrid that uses the sampler sets a number.
    positive : bool, default=False
        Whether to make all features positive. Each column is then shifted such that its
        minimum becomes ``epsilon``, instead of being centred at its mean. Values below
        the minima of the training rows are clipped to the minima, and estimates and
        variances refer to the clipped rows. Powers of coordinates close to ``epsilon``
        may underflow to zero; ``transform`` warns about rows for which half of the
        features do.
    epsilon : float, default=None
        Smallest coordinate with ``positive=True``, after multiplication by sigma; None
        means 1e-8. With ``positive=False``, ``fit`` raises ValueError unless
        ``epsilon`` is None.
    center : bool, default=True
        Whether to subtract the column means first. This does not change the kernel.
        With ``positive=True``, the minima are subtracted instead, and ``fit`` raises
        ValueError if ``center=False``.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        The kernel to approximate. The softmax kernel is ``exp(sigma**2 * x.y)``; its
        features are those of the Gaussian kernel multiplied by ``exp(|sigma * x|**2 /
        2)``.
    n_jobs : int, default=None
        Number of threads that ``transform`` uses. -1 uses all processors; None uses as
        many threads as NumPy's linear algebra, or one thread inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the random frequencies. The frequencies are nested: with the same seed,
        a sampler with half as many features uses the first half of the frequencies.

    Attributes
    ----------
    p_ : float
        Probability that an exponent is 0, in [1e-8, 1 - 1e-8].
    center_ : ndarray of shape (n_features,)
        The vector that is subtracted from the rows: the column means by default, the
        column minima minus ``epsilon / sigma`` if ``positive=True``, and zero if
        ``center=False``.
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
    PoissonSampler : Monomials with Poisson exponents.
    sklearn_crt.OPRFSampler : Positive exponential features.

    Notes
    -----
    Let w be one of m frequencies. Its d coordinates are independent, with :math:`P(w_l
    = k) = p (1 - p)^k`. Let x be a row that is shifted by ``-center_`` and then
    multiplied by sigma ([1]_, equation 10 and section 3.2.2). Then

    .. math:: f(x) = \frac{e^{-|x|^2 / 2}}{p^{d/2} \sqrt m}
       \prod_{l=1}^d \frac{x_l^{w_l}}{(1 - p)^{w_l / 2} \sqrt{w_l!}},
       \qquad 0^0 = 1,

    .. math:: \operatorname{Var} = \frac{1}{m} \left(p^{-d} e^{-|x|^2 - |y|^2}
       \prod_l I_0\left(\frac{2 |x_l y_l|}{\sqrt{1 - p}}\right) - K^2\right)

    with the modified Bessel function :math:`I_0` ([1]_, theorem 3.5). ``p_`` minimises
    the logarithm of the first term of the variance, with :math:`|x_l y_l|` replaced by
    the product :math:`\overline{|x_l|}\; \overline{|y_l|}` of means over rows ([1]_,
    equation 14). This objective is convex in :math:`\log(1 - p)`. The frequencies
    depend on ``p_``, so ``partial_fit`` draws new frequencies.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import GeometricSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = GeometricSampler(sigma=0.7, random_state=0).fit(X)
    >>> round(sampler.p_, 3)
    0.748
    >>> positive = GeometricSampler(sigma=0.7, positive=True, random_state=0)
    >>> bool((positive.fit_transform(X) > 0).all())
    True
    """

    def _reads(self):
        # a sample is needed, because means of |x - c| cannot be merged
        return {"rows": 1000} if self.center and not self.positive else {}

    def _choose_law(self, statistics, frame):
        means = [
            self._magnitudes(moments, sample, frame)
            for moments, sample in (
                (statistics.query, statistics.query_sample),
                (statistics.key, statistics.key_sample or statistics.query_sample),
            )
        ]
        return GeometricLaw(optimal_p(means[0] * means[1]))

    def _make_law(self, sizes):
        return GeometricLaw(optimal_p(sizes**2))

    def _magnitudes(self, moments, sample, frame):
        """Return the mean of abs(sigma * x) for each shifted column."""
        if self.positive:
            return frame.sigma * np.maximum(moments.mean - frame.center, 0)
        if not self.center:
            return frame.sigma * moments.mean_abs
        rows, weights = frame.rows(sample.X.astype(np.float64)), sample.weights
        total = max(weights.sum(), np.finfo(np.float64).tiny)
        return np.array([weights @ np.abs(x) for x in rows.columns()]) / total

    p_: float = fitted("map_.law.p", "Probability that an exponent is 0.")
