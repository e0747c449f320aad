"""Poisson random features of the Gaussian kernel (PoisRF)."""

from __future__ import annotations

import math

import numpy as np

from ..maps import PoissonLaw
from ._base import fitted
from ._discrete import DiscreteSampler

_RANGE = 1e-12, 1e15  # of lambda: counts stay exact in float64


class PoissonSampler(DiscreteSampler):
    r"""Gaussian or softmax kernel from monomials with Poisson exponents (PoisRF).

    From the means and variances of the columns (and the minima for ``positive=True``,
    PoisRF+) ``fit`` chooses the one parameter of the map, in O(n d).

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
    lambda_ : float
        The mean of the exponents, in [1e-12, 1e15].
    center_ : ndarray of shape (n_features,)
        The vector subtracted from the rows: the mean, or with ``positive=True`` the
        minimum less ``epsilon / sigma``, or zero.
    sigma_ : float or ndarray of shape (n_features,)
        Inverse length scale by which the inputs are multiplied.
    map_ : FeatureMap
        The fitted feature map, which is immutable and can be used without the sampler.
    frequencies_ : ndarray of shape (n_features, n_frequencies)
        The frequencies of the map, for rows that are multiplied by ``sigma_``.
    n_features_in_ : int
        Number of columns seen by ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Column names seen by ``fit``; defined only if all of them are strings.

    See Also
    --------
    GeometricSampler : The same with geometric exponents.
    OPRFSampler : Positive features from exponentials.

    Notes
    -----
    With m frequencies w of d independent Poisson counts of mean :math:`\lambda` and x
    already shifted by ``center_`` and multiplied by sigma ([1]_, equation 10 and
    section 3.2.1),

    .. math:: f(x) = \frac{e^{\lambda d / 2 - |x|^2 / 2}}{\sqrt m}
       \prod_{l=1}^d \left(\frac{x_l}{\sqrt\lambda}\right)^{w_l}, \qquad 0^0 = 1,

    .. math:: \operatorname{Var} = \frac{1}{m} \left(\exp\left(\lambda d
       + \frac{1}{\lambda} \sum_l x_l^2 y_l^2 - |x|^2 - |y|^2\right) - K^2\right)

    ([1]_, theorem 3.4). The logarithm of the first term is least on average over the
    pairs of rows at

    .. math:: \lambda^* = \sqrt{\frac{1}{d} \sum_l
       \overline{x_l^2}\; \overline{y_l^2}}

    ([1]_, equation 12), where bars are means over rows. The frequencies depend on
    ``lambda_``, so ``partial_fit`` draws them again.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import PoissonSampler
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> sampler = PoissonSampler(sigma=0.7, random_state=0).fit(X)
    >>> round(sampler.lambda_, 3)
    0.503
    >>> positive = PoissonSampler(sigma=0.7, positive=True, random_state=0)
    >>> bool((positive.fit_transform(X) > 0).all())
    True
    """

    def _choose_law(self, statistics, frame):
        center = 0.0 if frame.center is None else frame.center
        squares = (
            side.variance + (side.mean - center) ** 2
            for side in (statistics.query, statistics.key)
        )
        # roots first: no square leaves the range of floats
        return self._law_of(
            frame.sigma * np.prod(np.power(list(squares), 0.25), axis=0)
        )

    def _law_of(self, sizes):
        return PoissonLaw(float(np.clip(math.sqrt(np.mean(sizes**4)), *_RANGE)))

    lambda_: float = fitted("map_.law.lambda_", "Mean of the exponents.")
