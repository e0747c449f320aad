"""Geometric random features of the Gaussian kernel (GeomRF)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

from .._docs import fill_doc
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


@fill_doc
class GeometricSampler(DiscreteSampler):
    r"""Gaussian or softmax kernel from monomials with geometric exponents (GeomRF).

    ``fit`` reads the mean magnitude of the columns, after the shift, and chooses from
    it the one parameter of the map, in O(n d). With ``center=True`` that is taken from
    a sample of at most 1000 rows a side; it is exact up to 1000 rows, with
    ``center=False`` and with ``positive=True`` (GeomRF+).

    Parameters
    ----------
    %(sigma)s
    n_components : int, default=100
        Number of columns of the output, one a frequency.
    %(positive)s
    %(center_discrete)s
    %(kernel)s
    %(n_jobs)s
    %(random_state)s

    Attributes
    ----------
    p_ : float
        The probability of the exponent 0, in [1e-8, 1 - 1e-8].
    %(center_discrete_)s
    %(fitted)s

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
    bars for means over rows, in place of :math:`|x_l y_l|` ([1]_, equation 14); it is
    convex in :math:`\log(1 - p)`. The frequencies of one seed depend on ``p_``:
    ``partial_fit`` draws them again.

    ``kernel_variance`` is this formula; for rows below the minimum seen by ``fit``,
    under ``positive=True``, at the raised rows.
    %(discrete_errors)s

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

    def _reads_rows(self):
        return self.center and not self.positive  # mean |x - c| does not merge

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
        """Return the mean of abs(x) for each column, at unit bandwidth."""
        if self.positive:
            return frame.sigma * np.maximum(moments.mean - frame.center, 0)
        if not self.center:
            return frame.sigma * moments.mean_abs
        rows, weights = frame.rows(sample.rows.astype(np.float64)), sample.weights
        total = max(weights.sum(), np.finfo(np.float64).tiny)
        return np.array([weights @ np.abs(x) for x in rows.columns()]) / total

    p_ = fitted("map_.law.p", "Probability of the exponent 0.")
