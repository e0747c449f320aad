"""Poisson random features of the Gaussian kernel (PoisRF)."""

from __future__ import annotations

import math

import numpy as np

from .._docs import fill_doc
from ..maps import PoissonLaw
from ._base import fitted
from ._discrete import DiscreteSampler

_RANGE = 1e-12, 1e15  # of lambda: counts stay exact in float64


@fill_doc
class PoissonSampler(DiscreteSampler):
    r"""Gaussian or softmax kernel from monomials with Poisson exponents (PoisRF).

    ``fit`` reads the mean and variance of the columns (and the minimum for
    ``positive=True``, PoisRF+) and chooses from them the one parameter of the map, in
    O(n d).

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
    lambda_ : float
        The mean of the exponents, in [1e-12, 1e15].
    %(center_discrete_)s
    %(fitted)s

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

    ([1]_, equation 12), bars for means over rows. The frequencies of one seed depend
    on ``lambda_``: ``partial_fit`` draws them again.

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

    lambda_ = fitted("map_.law.lambda_", "Mean of the exponents.")
