"""Geometric random features of the Gaussian kernel (GeomRF)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from ..maps import GeometricLaw
from ._base import fitted
from ._discrete import DiscreteSampler

_RANGE = 1e-8, 1 - 1e-8  # of p


def optimal_p(products: ArrayLike) -> float:
    """Return the p of least log second moment for the means c_l of abs(x_l y_l).

    The objective -d log p + sum_l log I0(2 c_l / sqrt(1 - p)) (CRT theorem 3.5) is
    convex in u = -log(1 - p); this is the root of its derivative.
    """
    products = np.asarray(products, dtype=np.float64)

    def slope(log_u):
        u = math.exp(log_u)
        z = 2 * products * math.exp(u / 2)
        bessel_ratio = special.i1e(z) / special.i0e(z)
        return 0.5 * np.sum(z * bessel_ratio) - products.size / math.expm1(u)

    low, high = (math.log(-math.log1p(-p)) for p in _RANGE)
    if slope(low) >= 0:
        return _RANGE[0]
    if slope(high) <= 0:
        return _RANGE[1]
    root = optimize.brentq(slope, low, high, xtol=1e-14)
    return -math.expm1(-math.exp(root))


class GeometricSampler(DiscreteSampler):
    r"""Gaussian or softmax kernel from monomials with geometric exponents (GeomRF).

    From the mean magnitudes of the shifted columns ``fit`` chooses the one parameter of
    the map, in O(n d). With ``center=True`` these are taken from a sample of at most
    1000 rows of each side; with ``center=False`` or ``positive=True`` (GeomRF+) from
    all rows.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like, default="scale"
        Inverse length scale that multiplies the inputs: one number, or one per column.
        ``"scale"`` is scikit-learn's ``gamma="scale"`` with ``gamma = sigma**2 / 2``;
        ``"median"`` is one over the median distance of up to 1000 rows.
    n_components : int, default=100
        Number of columns, one per frequency.
    positive : bool, default=False
        Whether to subtract the column minima, less ``epsilon``, instead of the means,
        so that all features are positive. Values below the minima seen by ``fit`` are
        raised to them, and estimate and variance are those of the raised rows.
    epsilon : float, default=None
        Smallest coordinate with ``positive=True``, after multiplication by sigma; None
        means 1e-8. With ``positive=False`` it has no effect, and ``fit`` raises
        ValueError where it is set.
    center : bool, default=True
        Whether to subtract the column means first, which changes no kernel value. With
        ``positive=True`` the minima are subtracted in place of the means, and ``fit``
        raises ValueError for ``center=False``.
    kernel : {"gaussian", "softmax"}, default="gaussian"
        ``"softmax"`` is ``exp(sigma**2 * x.y)``, by features of the Gaussian kernel
        times ``exp(|sigma * x|**2 / 2)``.
    n_jobs : int, default=None
        Number of threads of ``transform``; -1 uses all processors. None uses as many as
        NumPy's linear algebra would, and one inside joblib workers.
    random_state : int, RandomState instance or None, default=None
        Seed of the frequencies, which are nested: with the same seed, a sampler with
        half as many columns uses the first half of them.

    Attributes
    ----------
    p_ : float
        The probability of the exponent 0, in [1e-8, 1 - 1e-8].
    center_ : ndarray of shape (n_features,)
        The vector subtracted from the rows: the mean, or with ``positive=True`` the
        minimum less ``epsilon / sigma``, or zero.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : Frequencies
        The frequencies of the map, for rows that are multiplied by ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    PoissonSampler : The same with Poisson exponents.
    OPRFSampler : Positive features from exponentials.

    Notes
    -----
    With m frequencies w of d independent counts, :math:`P(w_l = k) = p (1 - p)^k`, and
    x already shifted by ``center_`` and multiplied by sigma ([1]_, equation 10 and
    section 3.2.2),

    .. math:: f(x) = \frac{e^{-|x|^2 / 2}}{p^{d/2} \sqrt m}
       \prod_{l=1}^d \frac{x_l^{w_l}}{(1 - p)^{w_l / 2} \sqrt{w_l!}},
       \qquad 0^0 = 1,

    .. math:: \operatorname{Var} = \frac{1}{m} \left(p^{-d} e^{-|x|^2 - |y|^2}
       \prod_l I_0\left(\frac{2 |x_l y_l|}{\sqrt{1 - p}}\right) - K^2\right)

    with the modified Bessel function :math:`I_0` ([1]_, theorem 3.5). ``p_`` minimises
    the logarithm of the first term with :math:`\overline{|x_l|}\; \overline{|y_l|}`,
    where bars are means over rows, in place of :math:`|x_l y_l|` ([1]_, equation 14);
    it is convex in :math:`\log(1 - p)`. The frequencies depend on ``p_``, so
    ``partial_fit`` draws them again.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import GeometricSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = GeometricSampler(sigma=0.7, random_state=0).fit(X)
    >>> round(sampler.p_, 3)
    0.748
    >>> positive = GeometricSampler(sigma=0.7, positive=True, random_state=0)
    >>> bool((positive.fit_transform(X) > 0).all())
    True
    """

    def _reads(self):
        # the mean of |x - c| does not merge
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

    def _law_of(self, sizes):
        return GeometricLaw(optimal_p(sizes**2))

    def _magnitudes(self, moments, sample, frame):
        """Return the mean of abs(x) for each column, multiplied by sigma."""
        if self.positive:
            return frame.sigma * np.maximum(moments.mean - frame.center, 0)
        if not self.center:
            return frame.sigma * moments.mean_abs
        rows, weights = frame.rows(sample.rows.astype(np.float64)), sample.weights
        total = max(weights.sum(), np.finfo(np.float64).tiny)
        return np.array([weights @ np.abs(x) for x in rows.columns()]) / total

    p_: float = fitted("map_.law.p", "Probability of the exponent 0.")
