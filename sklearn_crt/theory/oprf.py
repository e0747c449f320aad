"""Bounds on the error of optimal positive random features (OPRF)."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .._compat import Interval, validated

_POSITIVE = [Interval(Real, 0, None, closed="neither")]
_COUNT = [Interval(Integral, 1, None, closed="left")]
_SHARED: dict[str, list[object]] = {
    "n_features": _COUNT,
    "A": [Interval(Real, None, 0, closed="neither")],
}
_PAIR: dict[str, list[object]] = {
    "sq_sum": [Interval(Real, 0, None, closed="left"), "array-like"],
    "sq_norms": [Interval(Real, 0, None, closed="left"), "array-like"],
}


@validated(**_PAIR, **_SHARED)
def oprf_log_sup(
    sq_sum: ArrayLike, sq_norms: ArrayLike, n_features: int, A: float
) -> float | np.ndarray:
    r"""Return the log of the largest value that one product of OPRF features can take.

    Parameters
    ----------
    sq_sum : float or array-like
        :math:`q = |x + y|^2`. Pass the upper bound ``2 * sq_norms`` if only the norms
        are known.
    sq_norms : float or array-like
        :math:`N = |x|^2 + |y|^2`.
    n_features : int
        Dimension d of x and y.
    A : float
        Parameter A of the features, which must be negative; for A = 0, the products are
        unbounded.

    Returns
    -------
    log_sup : float or ndarray
        Logarithm of the supremum of the product over all frequencies.

    Raises
    ------
    ValueError
        If an argument is out of range, or ``sq_sum`` exceeds twice ``sq_norms``.

    See Also
    --------
    oprf_tail_bound : A tail bound for the mean of many such products.

    Notes
    -----
    The product of the features of x and y for the frequency w is largest at
    :math:`w = -\sqrt{1 - 4A}\,(x + y) / (4A)`. Its maximum S is given by

    .. math:: \log S = \frac d2 \log(1 - 4A) - \frac{q}{8A} + \frac q2 - N .

    The proof of theorem 4.2 of [1]_ omits the first term.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn_crt.theory import oprf_log_sup
    >>> round(float(oprf_log_sup(0.5, 0.7, n_features=4, A=-0.1)), 3)
    0.848
    """
    q, N = _non_negative(sq_sum, "sq_sum"), _non_negative(sq_norms, "sq_norms")
    if np.any(q > 2 * N * (1 + 1e-9) + 1e-300):
        raise ValueError(
            "sq_sum = |x + y|^2 must be at most twice sq_norms = |x|^2 + |y|^2."
        )
    return 0.5 * n_features * math.log1p(-4 * A) + q * (0.5 - 1 / (8 * A)) - N


@validated(
    eps=[*_POSITIVE, "array-like"],
    n_frequencies=_COUNT,
    **_PAIR,
    **_SHARED,
    upper=["boolean"],
)
def oprf_tail_bound(
    eps: ArrayLike,
    n_frequencies: int,
    sq_sum: ArrayLike,
    sq_norms: ArrayLike,
    n_features: int,
    A: float,
    *,
    upper: bool = False,
) -> float | np.ndarray:
    r"""Return a bound on the probability of an OPRF estimation error of eps or more.

    Parameters
    ----------
    eps : float or array-like
        Absolute error, which must be positive.
    n_frequencies : int
        Number M of frequencies.
    sq_sum : float or array-like
        :math:`q = |x + y|^2`. Pass the upper bound ``2 * sq_norms`` if only the norms
        are known.
    sq_norms : float or array-like
        :math:`N = |x|^2 + |y|^2`.
    n_features : int
        Dimension d of x and y.
    A : float
        Parameter A of the features, which must be negative.
    upper : bool, default=False
        If False, the bound applies to errors of either sign and to independent
        frequencies. If True, it applies to estimates that exceed the kernel by ``eps``
        or more, for independent frequencies and for orthogonal blocks.

    Returns
    -------
    bound : float or ndarray
        Upper bound on the probability, at most 1.

    Raises
    ------
    ValueError
        If an argument is out of range, or ``sq_sum`` exceeds twice ``sq_norms``.

    See Also
    --------
    oprf_uniform_n_frequencies : Sufficient number of frequencies for all pairs.

    Notes
    -----
    Each product of features lies between 0 and S = exp(``oprf_log_sup``), so by
    Hoeffding's inequality

    .. math:: P\left(|\widehat K - K| \ge \epsilon\right)
       \le 2 \exp\left(-2 M \epsilon^2 / S^2\right) .

    For errors of one sign, the factor 2 is not needed. Orthogonal blocks do not
    increase the moment generating function of the estimate, so for them the bound also
    holds for estimates that are too large. This is theorem 4.2 of [1]_ with the factor
    :math:`(1 - 4A)^d` that is missing there. Without this factor, the bound is 5e-18
    for d = 64, A = -1/2, x = y = 0, M = 100 and an error of 0.9, but such an error has
    probability 0.97.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn_crt.theory import oprf_tail_bound
    >>> bound = oprf_tail_bound(0.1, 2000, 0.5, 0.7, n_features=4, A=-0.1)
    >>> f"{bound:.1e}"
    '1.3e-03'
    """
    eps = np.asarray(eps, dtype=np.float64)
    if not np.all(eps > 0):
        raise ValueError("eps must be positive.")
    log_sup = oprf_log_sup(sq_sum, sq_norms, n_features, A)
    with np.errstate(over="ignore"):
        exponent = -2.0 * n_frequencies * np.exp(2 * (np.log(eps) - log_sup))
    return np.minimum((1 if upper else 2) * np.exp(exponent), 1.0)


@validated(
    eps=_POSITIVE,
    delta=[Interval(Real, 0, 1, closed="neither")],
    radius=_POSITIVE,
    **_SHARED,
)
def oprf_uniform_n_frequencies(
    eps: float, delta: float, radius: float, n_features: int, A: float
) -> int | float:
    r"""Return a number of frequencies that keeps the error below eps for all pairs.

    Parameters
    ----------
    eps : float
        Absolute error, which must be positive.
    delta : float
        Permitted probability, between 0 and 1, that the error exceeds ``eps`` for some
        pair.
    radius : float
        Radius R > 0 of a ball around the centre that contains all x and y.
    n_features : int
        Dimension d of x and y.
    A : float
        Parameter A of the features, which must be negative.

    Returns
    -------
    n_frequencies : int or float
        A sufficient number of independent frequencies; infinite if it exceeds 1e300.

    Raises
    ------
    ValueError
        If an argument is out of range.

    See Also
    --------
    oprf_tail_bound : The bound for a single pair.

    Notes
    -----
    The number of independent frequencies is the smallest M with

    .. math:: M \ge \frac{2 S_R^2}{\epsilon^2} \left[ \log \frac 4\delta
       + 2 d \log\left(1 + \frac{2 \sqrt 2 R}{r}\right) \right], \qquad
       S_R = (1 - 4A)^{d/2} e^{-R^2 / (2A)}, \qquad r = \frac{\delta \epsilon}{4 L} .

    Then :math:`P(\sup_{|x|, |y| \le R} |\widehat K - K| > \epsilon) \le \delta`. In the
    proof, Hoeffding's inequality bounds the error by :math:`\epsilon / 2` on a net of
    pairs with mesh r, and Markov's inequality bounds its variation between the points
    of the net by :math:`\epsilon / 2`. The mean Lipschitz constant of the error is at
    most :math:`L = G + \sqrt2 e^{-1/2}`. Here G bounds the mean Lipschitz constant of
    a product of features, and does not depend on A:

    .. math:: G = \frac{2^{(3 - d)/2}}{\Gamma(d/2)} \left( (2R)^{d+1}
       \left(\frac1d + \frac1{d+1}\right)
       + \int_0^\infty (t + 4R) (t + 2R)^{d-1} e^{-t^2/2} dt \right) .

    This is theorem 4.3 of [1]_ with explicit constants. The resulting number of
    frequencies always suffices, but it is very large in more than a few dimensions.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn_crt.theory import oprf_uniform_n_frequencies
    >>> oprf_uniform_n_frequencies(0.1, 0.05, radius=0.5, n_features=2, A=-0.3)
    94239
    """
    d = n_features
    log_sup = 0.5 * d * math.log1p(-4 * A) - radius**2 / (2 * A)
    log_lipschitz = np.logaddexp(log_mean_gradient(radius, d), 0.5 * (math.log(2) - 1))
    log_mesh = math.log(delta) + math.log(eps) - math.log(4) - log_lipschitz
    log_ratio = 1.5 * math.log(2) + math.log(radius) - log_mesh
    entropy = math.log(4 / delta) + 2 * d * float(np.logaddexp(0.0, log_ratio))
    log_number = math.log(2 * entropy) + 2 * (log_sup - math.log(eps))
    return math.ceil(math.exp(log_number)) if log_number < 690 else math.inf


def log_mean_gradient(radius: float, n_features: int) -> float:
    """Return the log of G, a sum of partial moments of a normal distribution."""
    d, width = n_features, 2 * radius
    log_width = math.log(width)
    k = np.arange(d)
    # terms of the expansion of (t + width)^(d - 1), multiplied by t and by 2 width
    log_binomial = special.gammaln(d) - special.gammaln(k + 1) - special.gammaln(d - k)
    log_power = log_binomial + (d - 1 - k) * log_width
    higher = log_power + _log_half_moment(k + 1)
    lower = log_power + _log_half_moment(k) + math.log(2) + log_width
    near = (d + 1) * log_width + math.log(1 / d + 1 / (d + 1))
    total = special.logsumexp(np.concatenate([higher, lower, [near]]))
    return float(total + 0.5 * (3 - d) * math.log(2) - special.gammaln(0.5 * d))


def _log_half_moment(k: np.ndarray) -> np.ndarray:
    """Return the log of the integral of t^k exp(-t^2 / 2) over t > 0."""
    return 0.5 * (k - 1) * math.log(2) + special.gammaln(0.5 * (k + 1))


def _non_negative(value: ArrayLike, name: str) -> float | np.ndarray:
    value = np.asarray(value, dtype=np.float64)[()]
    if not np.all(value >= 0):
        raise ValueError(f"{name} must not be negative, and must not be NaN.")
    return value
