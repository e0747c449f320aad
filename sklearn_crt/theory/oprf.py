"""Bounds on the error of optimal positive random features (OPRF)."""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import optimize, special

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
        :math:`q = |x + y|^2`. If only the norms are known and ``upper`` is False, pass
        the upper bound ``2 * sq_norms``.
    sq_norms : float or array-like
        :math:`N = |x|^2 + |y|^2`.
    n_features : int
        Dimension d of x and y.
    A : float
        Parameter A of the features, which must be negative.
    upper : bool, default=False
        If False, the bound applies to errors of either sign and to independent
        frequencies. If True, it applies to estimates that exceed the kernel by ``eps``
        or more, for independent frequencies and for orthogonal blocks, and is much
        smaller.

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
    oprf_legendre : The exponent of the bound with ``upper=True``.
    oprf_uniform_n_frequencies : Sufficient number of frequencies for all pairs.

    Notes
    -----
    Each product of features lies between 0 and S = exp(``oprf_log_sup``), so by
    Hoeffding's inequality

    .. math:: P\left(|\widehat K - K| \ge \epsilon\right)
       \le 2 \exp\left(-2 M \epsilon^2 / S^2\right) .

    This is the first part of theorem 4.2 of [1]_ with the factor :math:`(1 - 4A)^d`
    that is missing there. Without this factor, the bound is 5e-18 for d = 64, A = -1/2,
    x = y = 0, M = 100 and an error of 0.9, but such an error has probability 0.97.

    Orthogonal blocks do not increase the moment generating function of the estimate.
    With the Legendre transform :math:`\mathcal L` of the logarithm of this function for
    a single product (:func:`oprf_legendre`), the second part of the theorem is

    .. math:: P\left(\widehat K - K \ge \epsilon\right)
       \le \exp\left(-M \mathcal L(K + \epsilon)\right) .

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
        raise ValueError(f"eps must be positive, got {eps}.")
    if upper:
        kernel = np.exp(np.asarray(sq_sum) / 2 - np.asarray(sq_norms))
        exponent = _legendre(kernel + eps, sq_sum, sq_norms, n_features, A)
        return np.exp(-n_frequencies * exponent)
    log_sup = oprf_log_sup(sq_sum, sq_norms, n_features, A)
    with np.errstate(over="ignore"):
        exponent = -2.0 * n_frequencies * np.exp(2 * (np.log(eps) - log_sup))
    return np.minimum(2 * np.exp(exponent), 1.0)


@validated(value=[*_POSITIVE, "array-like"], **_PAIR, **_SHARED)
def oprf_legendre(
    value: ArrayLike, sq_sum: ArrayLike, sq_norms: ArrayLike, n_features: int, A: float
) -> float | np.ndarray:
    r"""Return the Legendre transform that bounds the upper tail of an OPRF estimate.

    Parameters
    ----------
    value : float or array-like
        Value a of the estimate, which must exceed the kernel.
    sq_sum : float or array-like
        :math:`q = |x + y|^2`.
    sq_norms : float or array-like
        :math:`N = |x|^2 + |y|^2`.
    n_features : int
        Dimension d of x and y.
    A : float
        Parameter A of the features, which must be negative.

    Returns
    -------
    legendre : float or ndarray
        The positive value of the transform at a; infinity if no estimate reaches a.

    Raises
    ------
    ValueError
        If an argument is out of range, or a does not exceed the kernel.

    See Also
    --------
    oprf_tail_bound : The bound on the probability, with ``upper=True``.

    Notes
    -----
    Let Z be the product of the features of x and y for one frequency, whose mean is the
    Gaussian kernel :math:`K = e^{q/2 - N}`. Then ([1]_, theorem 4.2)

    .. math:: \mathcal L(a) = \sup_{\theta > 0}
       \left( \theta a - \log E\, e^{\theta Z} \right) .

    The expectation is the series of the moments of Z, which are

    .. math:: E Z^k = (1 - 4A)^{kd/2} (1 - 4kA)^{-d/2}
       \exp\left( \frac{k^2 (1 - 4A)}{2 (1 - 4kA)} q - k N \right) .

    All terms are positive, so the series is accurate. For large M, the probability that
    the mean of M independent products exceeds a decreases like
    :math:`e^{-M \mathcal L(a)}`, up to a factor of the order of :math:`1 / \sqrt M`
    (Cramér's theorem), so no better exponent exists. For values of a very close to the
    supremum of Z, the search stops at a finite :math:`\theta`, and the result is a
    lower bound.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.theory import oprf_legendre
    >>> kernel = np.exp(0.5 / 2 - 0.7)
    >>> exponent = oprf_legendre(kernel + 0.1, 0.5, 0.7, n_features=4, A=-0.1)
    >>> f"{np.exp(-1000 * exponent):.1e}"  # of estimates from 1000 frequencies
    '1.2e-09'
    """
    log_kernel = np.asarray(sq_sum) / 2 - np.asarray(sq_norms)
    if not np.all(np.log(np.asarray(value)) > log_kernel):
        raise ValueError(
            "value must be greater than the kernel, exp(sq_sum / 2 - sq_norms), "
            "because the bound applies only to estimates that exceed the kernel."
        )
    return _legendre(value, sq_sum, sq_norms, n_features, A)


def _legendre(
    value: ArrayLike, sq_sum: ArrayLike, sq_norms: ArrayLike, n_features: int, A: float
) -> float | np.ndarray:
    log_sup = oprf_log_sup(sq_sum, sq_norms, n_features, A)
    cases = np.broadcast(value, sq_sum, sq_norms, log_sup)
    found = [_legendre_of_pair(*map(float, case), d=n_features, A=A) for case in cases]
    return np.array(found).reshape(cases.shape)[()]


_LARGEST_TILT = 2e4  # largest theta times the supremum of Z


def _legendre_of_pair(
    value: float, q: float, N: float, log_sup: float, *, d: int, A: float
) -> float:
    """Return the Legendre transform for one pair; 0 if the kernel is not exceeded."""
    log_value = math.log(value) - log_sup
    if log_value >= 0:
        return math.inf

    def log_means(log_tilt: float) -> tuple[float, float]:
        """Return log E exp(tilt Z), and log E Z exp(tilt Z), where Z is at most 1."""
        tilt = math.exp(log_tilt)
        k = np.arange(int(tilt + 12 * math.sqrt(tilt)) + 60, dtype=np.float64)
        spread = 1 - 4 * k * A
        moments = 0.5 * d * (k * math.log1p(-4 * A) - np.log(spread))
        moments += k**2 * (1 - 4 * A) * q / (2 * spread) - k * (N + log_sup)
        terms = k * log_tilt - special.gammaln(k + 1)
        both = np.stack([moments[:-1], moments[1:]]) + terms[:-1]
        top = both.max(axis=1)
        total, weighted = top + np.log(np.exp(both - top[:, None]).sum(axis=1))
        return float(total), float(weighted)

    def gap(log_tilt: float) -> float:
        total, weighted = log_means(log_tilt)
        return weighted - total - log_value

    low, high = math.log(1e-12), math.log(1e-3)
    if gap(low) >= 0:
        return 0.0
    while gap(high) < 0 and high < math.log(_LARGEST_TILT):
        low, high = high, high + 1
    best = optimize.brentq(gap, low, high, xtol=1e-10) if gap(high) > 0 else high
    return max(math.exp(best + log_value) - log_means(best)[0], 0.0)


@validated(
    n_frequencies=_COUNT,
    n_features=_COUNT,
    mean=[*_POSITIVE, "array-like"],
    mean_at_zero=[*_POSITIVE, "array-like"],
)
def orthogonal_gain_bound(
    n_frequencies: int,
    n_features: int,
    mean: ArrayLike,
    mean_at_zero: ArrayLike,
) -> float | np.ndarray:
    r"""Return a lower bound on the variance that orthogonal frequencies save.

    Parameters
    ----------
    n_frequencies : int
        Number M of frequencies, in orthogonal blocks of size d.
    n_features : int
        Dimension d of the frequencies.
    mean : float or array-like
        Mean of a function g(w.z, \|w\|) of one frequency w, such as a product of
        positive features, whose mean is the kernel.
    mean_at_zero : float or array-like
        Mean of g(0, \|w\|). For positive features of the Gaussian kernel, including
        OPRF, z = x + y, the mean is exp(-\|x - y\|^2 / 2), and the mean at zero is
        exp(-\|x\|^2 - \|y\|^2).

    Returns
    -------
    gain : float or ndarray
        Lower bound on the difference between the variances of the mean of g over
        independent and over orthogonal frequencies.

    Raises
    ------
    ValueError
        If an argument is out of range.

    See Also
    --------
    rf_conformity_gap : The exact difference for positive features.

    Notes
    -----
    Let g be a power series in its first argument with non-negative coefficients, and w
    an isotropic frequency. Then ([1]_, theorem 9.1; theorem 4.1 is the case of OPRF)

    .. math:: \operatorname{Var}_{iid} - \operatorname{Var}_{ort}
       \ge \frac{p}{M^2} \frac{2}{d + 2} F(z)^2, \qquad
       F(z) = E\, g(w \cdot z, |w|) - E\, g(0, |w|),

    where p is the number of ordered pairs of frequencies in the same block. In [1]_,
    F is the mean of :math:`(g(a, b) + g(-a, b)) / 2 - g(0, b)`, which is the same,
    because w and -w have the same distribution, and :math:`p / M^2 = 1 - 1/M`, which
    holds for :math:`M \le d`.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    The bound, and what orthogonal frequencies actually save:

    >>> import numpy as np
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt.theory import orthogonal_gain_bound
    >>> x, y = np.array([[0.5, 0.2, 0.1, 0.0]]), np.array([[0.3, 0.4, 0.0, 0.2]])
    >>> zero = np.exp(-np.sum(x**2) - np.sum(y**2))
    >>> mean = np.exp(-np.sum((x - y) ** 2) / 2)
    >>> float(orthogonal_gain_bound(4, 4, mean, zero).round(4))
    0.0366
    >>> independent, orthogonal = (
    ...     OPRFSampler(sigma=1.0, n_components=4, coupling=coupling, center=False)
    ...     .fit(x, X_key=y)
    ...     .kernel_variance(x, y)
    ...     for coupling in ("iid", "orthogonal")
    ... )
    >>> (independent - orthogonal).round(4)
    array([[0.0466]])
    """
    M, d = n_frequencies, n_features
    full, rest = divmod(M, d)
    pairs = full * d * (d - 1) + rest * (rest - 1)
    excess = np.asarray(mean, dtype=np.float64) - np.asarray(mean_at_zero)
    return pairs / M**2 * 2 / (d + 2) * excess[()] ** 2


@validated(
    eps=_POSITIVE,
    delta=[Interval(Real, 0, 1, closed="neither")],
    radius=_POSITIVE,
    **_SHARED,
    attention=["boolean"],
)
def oprf_uniform_n_frequencies(
    eps: float,
    delta: float,
    radius: float,
    n_features: int,
    A: float,
    *,
    attention: bool = False,
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
        Radius R > 0 of a ball around the centre that contains all x and y, or all
        queries and keys if ``attention`` is True.
    n_features : int
        Dimension d of x and y.
    A : float
        Parameter A of the features, which must be negative.
    attention : bool, default=False
        If False, the error is that of the Gaussian kernel. If True, it is that of the
        unnormalised weights exp(q.k / sqrt(d)) of attention.

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

    For attention, :math:`x = q / d^{1/4}` and :math:`y = k / d^{1/4}` have at most the
    norm :math:`R d^{-1/4}`, and the weight is the Gaussian kernel multiplied by
    :math:`e^{(|x|^2 + |y|^2)/2} \le e^{R^2 / \sqrt d}`. So R is replaced by :math:`R
    d^{-1/4}`, and :math:`\epsilon` by :math:`\epsilon\, e^{-R^2 / \sqrt d}`. This is
    theorem 4.3 of [1]_ with explicit constants: in its notation, the bound grows like
    :math:`\Gamma \frac{d}{\epsilon^2} \log \frac{\gamma\rho}{\epsilon}` with
    :math:`\rho = \sqrt2 R d^{-1/4}`, where :math:`\Gamma = S_R^2 e^{2 R^2 / \sqrt d}`.
    The resulting number of frequencies always suffices, but it is very large in more
    than a few dimensions.

    References
    ----------
    .. [1] V. Likhosherstov et al., "Chefs' Random Tables: Non-Trigonometric Random
       Features", NeurIPS 2022, :arxiv:`2205.15317`.

    Examples
    --------
    >>> from sklearn_crt.theory import oprf_uniform_n_frequencies
    >>> oprf_uniform_n_frequencies(0.1, 0.05, radius=0.5, n_features=2, A=-0.3)
    94239
    >>> oprf_uniform_n_frequencies(
    ...     0.1, 0.05, radius=0.5, n_features=2, A=-0.3, attention=True
    ... )
    103095
    """
    d = n_features
    if attention:
        radius /= d**0.25
        eps *= math.exp(-(radius**2))
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
        raise ValueError(f"{name} must not contain negative numbers or NaN.")
    return value
