r"""Closed forms for moments, and for covariances between frequencies in one block.

Let q = |x + y|^2 (s = +1) or |x - y|^2 (s = -1), and N = |x|^2 + |y|^2. Each frequency
contributes a product of a feature of x and a feature of y. For two frequencies with
chi_d norms whose directions are at an angle with cosine c, the mean of the product of
these two products is F_c(s q), in units of exp(-2 N):

.. math:: F_c(z) = \sum_k \frac{z^k}{k!} r_k m_k, \quad
          r_k = \prod_{j<k} \frac{d + j}{d + 2j}, \quad
          m_k = E (1 + c \sin\psi)^k

where psi has a density proportional to sin(psi)^(d-1) on (0, pi) (Reid et al. 2023,
theorems 3.2, 4.3, equation 21). For random Fourier features, this cross moment is the
mean of F_c(-q) and F_{-c}(-q). For independent frequencies it is exp(s q), so the
covariance is the cross moment minus exp(s q). The functions below never compute it as a
difference of nearly equal numbers.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev, polynomial
from scipy import special
from scipy.interpolate import PPoly
from sklearn.utils import gen_batches

from ..frequencies import PairSample, stable_nodes

# A piecewise polynomial interpolant is faster from about 256 values on: 2000 x 2000
# pairs take 0.2 s, and more than a minute if the series is summed for each pair.
_MANY = 256
_DEGREE = 11  # degree of the polynomials of an interpolant
_PER_OCTAVE = 8  # number of intervals per doubling of 1 + q
_BATCH = 2**13  # number of values per batch, few enough for the cache (3 times faster)
# limit on log(r_k m_k), which is positive only for angles below 90 degrees
_LARGEST = 20

Numbers = float | np.ndarray
Function = Callable[[np.ndarray], np.ndarray]
Series = Callable[[np.ndarray, int, float], np.ndarray]
# quadrature rule: the logs of the nodes, and the weights
Factor = tuple[np.ndarray, np.ndarray]


# --------------------------------------------------------------------- interpolants
def tabulate(function: Function, edges: np.ndarray) -> PPoly:
    """Interpolate a smooth function by one polynomial per piece, at Chebyshev nodes."""
    # edges (n_pieces + 1,), function of (n_pieces, n_nodes) -> (n_pieces, n_nodes)
    nodes = 0.5 + 0.5 * chebyshev.chebpts1(_DEGREE + 1)
    widths = np.diff(edges)
    values = function(edges[:-1, None] + widths[:, None] * nodes)
    powers = np.linalg.solve(np.vander(nodes), values.T)
    return PPoly(powers / widths ** np.arange(_DEGREE, -1, -1)[:, None], edges)


def _evaluate(
    series: Series, q: np.ndarray, power: int, n_features: int, cosine: float
) -> np.ndarray:
    """Evaluate a series at an array q, by interpolation if that is faster.

    The series divided by (q / (1 + q))^power is interpolated, so that small values of
    the series are accurate. The interval that contains each value is read off the
    leading bits of 1 + q, which is faster than a binary search over the breakpoints.
    """
    if q.size <= _MANY:
        return series(q, n_features, cosine)
    n_octaves = int(np.frexp(1 + np.nanmax(q, initial=1.0))[1])
    table = _table(series, power, n_features, cosine, n_octaves)
    flat, values = q.ravel(), np.empty(q.size)
    for batch in gen_batches(q.size, _BATCH):
        some = flat[batch]
        above = 1 + some
        mantissa, exponent = np.frexp(above)  # mantissas in [1/2, 1)
        piece = (2 * _PER_OCTAVE * mantissa).astype(np.int32)
        piece += _PER_OCTAVE * (exponent - 2)
        step = some - table.x.take(piece, mode="clip")
        value = table.c[0].take(piece, mode="clip")
        for row in table.c[1:]:
            value *= step
            value += row.take(piece, mode="clip")
        values[batch] = value * (some / above) ** power
    return values.reshape(q.shape)


@lru_cache(maxsize=64)
def _table(
    series: Series, power: int, n_features: int, cosine: float, n_octaves: int
) -> PPoly:
    def quotient(q: np.ndarray) -> np.ndarray:
        return series(q, n_features, cosine) * (1 + 1 / q) ** power

    octaves = np.ldexp(1.0, np.arange(n_octaves))[:, None]
    starts = octaves * (1 + np.arange(_PER_OCTAVE) / _PER_OCTAVE) - 1
    return tabulate(quotient, np.append(starts, 2 * octaves[-1] - 1))


# ------------------------------------------------------------- the Gaussian kernel
@lru_cache(maxsize=32)
def _sines(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes sin(psi) on (0, pi / 2) and the logs of weights that sum to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(
        int(max(128, 16 * np.sqrt(n_features)))
    )
    sines = np.sin(0.25 * np.pi * (nodes + 1))
    log_weights = np.log(weights) + (n_features - 1) * np.log(sines)
    return sines, log_weights - special.logsumexp(log_weights)


def _log_ratios(n_terms: int, n_features: int) -> np.ndarray:
    """Return log r_k for k = 0 ... n_terms - 1."""
    j = np.arange(n_terms - 1)
    return np.concatenate([[0.0], np.cumsum(-np.log1p(j / (n_features + j)))])


def _log_factors(n_terms: int, n_features: int, cosine: float) -> np.ndarray:
    """Return log r_k + log m_k for k = 0 ... n_terms - 1."""
    size = 1 << (n_terms - 1).bit_length()
    return _new_log_factors(size, n_features, cosine)[:n_terms]


@lru_cache(maxsize=32)
def _new_log_factors(n_terms: int, n_features: int, cosine: float) -> np.ndarray:
    log_ratios = _log_ratios(n_terms, n_features)
    if cosine == 0:
        return log_ratios
    sines, log_weights = _sines(n_features)
    log_base = np.log1p(cosine * sines)
    parts = [
        special.logsumexp(np.outer(k, log_base) + log_weights, axis=1)
        for k in np.array_split(np.arange(n_terms), 1 + n_terms // 1000)
    ]
    # expm1 and log1p are used, as rounding errors would otherwise dominate a small log
    # m_k
    few = np.arange(min(n_terms, 1 + int(0.5 / abs(cosine)), 1000))
    excess = np.expm1(np.outer(few, log_base)) @ np.exp(log_weights)
    log_means = np.concatenate([np.log1p(excess), np.concatenate(parts)[few.size :]])
    return log_ratios + log_means


def log_conformity(q: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
    """Return log F_c(q) for an array q >= 0."""
    q = np.asarray(q, dtype=np.float64)
    n_terms = int(np.ceil(2 * q.max(initial=0) + 12 * np.sqrt(q.max(initial=0)) + 80))
    factors, k = _log_factors(n_terms, n_features, cosine), np.arange(n_terms)
    factors = factors - special.gammaln(k + 1)
    values = [special.logsumexp(special.xlogy(k, one) + factors) for one in q.ravel()]
    return np.reshape(values, q.shape)


def positive_block_covariance(
    q: np.ndarray, n_features: int, cosine: float = 0.0
) -> np.ndarray:
    """Return (F_c(q) - exp(q)) exp(-q) for positive features, in (-1, 0] for c <= 0.

    This is the mean of r_k m_k - 1 if k has a Poisson distribution with mean q.
    """
    q, reach = np.asarray(q, dtype=np.float64), 500 + 8 * n_features
    factors = _log_factors(reach, n_features, cosine)
    if factors[reach // 2 :].max() < -46:
        q = np.minimum(q, reach)  # for larger q, the relevant r_k m_k are below 1e-20
    if factors.max() > _LARGEST:
        return _positive_series(q, n_features, cosine)
    return _evaluate(_positive_series, q, 1 if cosine else 2, n_features, cosine)


def _positive_series(q: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
    """Return ``positive_block_covariance`` as a sum over the relevant k for each q."""
    windows = np.ceil(12 * np.sqrt(q) + 80)
    n_terms = int((q + windows).max(initial=0)) + 1
    factors = _log_factors(n_terms, n_features, cosine)
    if factors.max() > _LARGEST:  # terms outside the window may be the largest
        return np.expm1(log_conformity(q, n_features, cosine) - q)
    excess, values = np.expm1(factors), []
    for mean, window in zip(q.ravel(), windows.ravel(), strict=True):
        k = np.arange(max(0, int(mean - window)), int(mean + window) + 1)
        # sums of log(mean / k), because differences of log factorials would lose digits
        with np.errstate(divide="ignore"):
            log_weights = np.append(0.0, np.cumsum(np.log(mean / k[1:])))
        weights = np.exp(log_weights - log_weights.max())
        values.append(weights @ excess[k] / weights.sum())
    return np.reshape(values, q.shape)


_LARGEST_SAMPLED = 25.0  # larger q, where hardly any draw determines the mean
_N_POWERS = 120


def sampled_block_covariance(
    q: np.ndarray, n_features: int, pairs: PairSample, A: float
) -> np.ndarray:
    """Return the covariance of positive features, estimated from pairs of frequencies.

    It is in units of exp(q), as ``positive_block_covariance``. For two frequencies w
    and w', averaged over rotations, the cross moment is (1 - 4A)^d exp(2A (|w|^2 +
    |w'|^2)) 0F1(; d/2; (1 - 4A) q |w + w'|^2 / 4) (Reid et al. 2023, equation 10). Its
    mean is that for a fixed angle, which is known, plus the mean of the differences.
    """
    known = positive_block_covariance(q, n_features, pairs.cosine)
    coefficients = _differences(n_features, pairs, A)
    near = np.minimum(q, _LARGEST_SAMPLED)
    return known + np.exp(-q) * polynomial.polyval(near, coefficients)


@lru_cache(maxsize=16)
def _differences(n_features: int, pairs: PairSample, A: float) -> np.ndarray:
    """Return the coefficients of the mean difference as a power series in q."""
    spread = 1 - 4 * A
    weights = np.exp(n_features * math.log(spread) + 2 * A * pairs.sq_norms)
    sums = [spread * (pairs.sq_norms + 2 * p) for p in (pairs.inner, pairs.reference)]
    sampled, reference = (0.25 * np.maximum(s, 0) for s in sums)
    powers, others, coefficients = weights.copy(), weights.copy(), [0.0]
    for k in range(1, _N_POWERS):
        scale = k * (0.5 * n_features + k - 1)
        powers *= sampled / scale
        others *= reference / scale
        coefficients.append(float(np.mean(powers - others)))
    return np.array(coefficients)


def trigonometric_block_covariance(
    q: np.ndarray, n_features: int, cosine: float = 0.0
) -> np.ndarray:
    """Return (F_c(-q) + F_{-c}(-q)) / 2 - exp(-q), which may have either sign."""
    q = np.asarray(q, dtype=np.float64)
    return _evaluate(_trigonometric_series, q, 2, n_features, abs(cosine))


def _trigonometric_series(q: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
    """Return ``trigonometric_block_covariance`` as a mean over psi.

    F_c(-q) is the mean of F_0(-q (1 + c sin(psi))). The covariance is therefore the
    mean of the covariances for right angles at q (1 + c sin(psi)) and at q (1 - c
    sin(psi)), plus the mean of exp(-q) (cosh(q c sin(psi)) - 1).
    """
    if cosine == 0:
        return _right_angle_series(q, n_features)
    sines, log_weights = _sines(n_features)
    a, q = cosine * sines[log_weights > -40], q[..., None]
    excess = 0.5 * np.exp(q * (a - 1)) * np.expm1(-q * a) ** 2
    right = trigonometric_block_covariance(q * (1 + a), n_features)
    right = right + trigonometric_block_covariance(q * (1 - a), n_features)
    return (0.5 * right + excess) @ np.exp(log_weights[log_weights > -40])


def _right_angle_series(q: np.ndarray, n_features: int) -> np.ndarray:
    """Return F_0(-q) - exp(-q).

    The power series is used for q <= 4, and F_0(-q) = exp(-q/2) 1F1(-d/2; d/2; q/2) for
    larger q. The function 1F1 overflows for q above about 1400, so the asymptotic form
    is used for q > 1000.
    """
    d, k = n_features, np.arange(60)
    coefficients = (-1.0) ** k * np.expm1(_log_ratios(60, d)) / special.factorial(k)
    value = np.asarray(polynomial.polyval(np.minimum(q, 4), coefficients))
    middle, far = (q > 4) & (q <= 1000), q > 1000
    z = q[middle] / 2
    value[middle] = np.exp(-z) * special.hyp1f1(-d / 2, d / 2, z) - np.exp(-2 * z)
    value[far] = 0.0
    if d % 2 and d < 20:  # for all other d the result is below 1e-30
        z, k = q[far] / 2, np.arange(12)
        terms = np.cumprod((d + k) * (d / 2 + 1 + k) / (k + 1))
        leading = special.gamma(d / 2) * special.rgamma(-d / 2) * z ** -float(d)
        value[far] = leading * polynomial.polyval(1 / z, np.append(1.0, terms))
    return value


# ------------------------------------------------------------------ scale mixtures
# Two orthogonal frequencies have the squared norms S_1 A_1 and S_2 A_2, where the S_i
# are random scales and the A_i have chi-square distributions with d degrees of freedom.
# The fraction t = A_1 / (A_1 + A_2) has the distribution Beta(d/2, d/2) and does not
# depend on the sum A_1 + A_2. At distance r, the cross moment is therefore the mean of
# F_0(-r^2 Q), where Q = t S_1 + (1 - t) S_2. For both families of kernels, Q = c T with
# independent c >= 1 and T:
# - Student: S_i = nu / G_i, where G_1 and G_2 have the same gamma distribution. Then
#   T = nu / (G_1 + G_2), and c = t / b + (1 - t) / (1 - b) for b = G_1 / (G_1 + G_2).
# - Stable with index a: T has the distribution of S_1, and
#   c = (t^a + (1 - t)^a)^(1/a).
_STEP = 0.4  # step of trapezoidal rules on a log scale


def student_factors(nu: float, n_features: int) -> tuple[Factor, Factor]:
    """Return quadrature rules for T and c if frequencies have Student distributions."""
    t, t_weights = _beta_nodes(n_features / 2)
    b, b_weights = _beta_nodes(nu)
    c = t[:, None] / b + t[::-1, None] / b[::-1]
    # y = log(G / 2 nu) for G = G_1 + G_2
    step = _STEP * min(1.0, 1 / math.sqrt(2 * nu))
    reach = 10 / math.sqrt(2 * nu)
    y = np.arange(-min(30 / nu + reach, 60), math.log1p(reach + 45 / (2 * nu)), step)
    log_total = 2 * nu * (math.log(2 * nu) - 1) - special.gammaln(2 * nu)
    weights = step * np.exp(2 * nu * (y - np.expm1(y)) + log_total)
    mixing = -math.log(2) - y, _with_sum_1(weights, nu)
    return mixing, (np.log(c), t_weights[:, None] * b_weights)


def stable_factors(alpha: float, n_features: int) -> tuple[Factor, Factor]:
    """Return quadrature rules for T and c if frequencies have stable distributions."""
    t, weights = _beta_nodes(n_features / 2)
    logs = alpha / 2 * np.log(t)
    return stable_nodes(alpha), (np.logaddexp(logs, logs[::-1]) * 2 / alpha, weights)


def _beta_nodes(a: float) -> Factor:
    """Return quadrature nodes (ascending, symmetric) and weights for Beta(a, a)."""
    step = _STEP * min(1.0, math.sqrt(2 / a))
    reach = min(2 * math.acosh(math.exp(min(20 / a, 20))), 36)
    x = step * np.arange(-math.ceil(reach / step), math.ceil(reach / step) + 1)
    log_density = -2 * a * np.logaddexp(0.5 * x, -0.5 * x) - special.betaln(a, a)
    return special.expit(x), _with_sum_1(step * np.exp(log_density), a)


def _with_sum_1(weights: np.ndarray, shape: float) -> np.ndarray:
    """Normalise the weights to a sum of 1 if the nodes cover the whole distribution."""
    return weights / weights.sum() if shape > 2 else weights


def _mean_over(factor: Factor, function: Function, x: np.ndarray) -> np.ndarray:
    """Return the mean of function(x + log T) over a random factor T."""
    # x (n_pieces, n_nodes) -> (n_pieces, n_nodes)
    logs, weights = (side[factor[1] > 1e-16] for side in factor)
    return np.stack([function(np.add.outer(row, logs)) @ weights for row in x])


def mixture_block_covariance(
    log_kernel: Function,
    log_laplace: Function,
    factors: tuple[Factor, Factor],
    n_features: int,
    ends: tuple[float, float],
) -> PPoly:
    """Interpolate the covariance of two orthogonal frequencies as a function of log r.

    ``log_laplace(q)`` is log E exp(-q T). For fixed c, the mean of exp(-r^2 Q) over T
    has a closed form, so quadrature over T is only needed for the remaining terms,
    which are of order r^4.
    """
    mixing, share = factors
    normal = tabulate(
        lambda x: trigonometric_block_covariance(np.exp(x), n_features),
        np.linspace(-50, 50, 501),
    )

    def of_square(x: np.ndarray) -> np.ndarray:  # E F_0(-q T) - 1 at x = log q
        coupled = _mean_over(mixing, lambda y: normal(np.clip(y, -50, 50)), x)
        return np.expm1(log_laplace(np.exp(x))) + coupled

    start, stop = 2 * math.log(ends[0]), 2 * math.log(ends[1]) + 8
    table = tabulate(of_square, np.linspace(start, stop, 41))
    # The weights of c may sum to less than 1; the values of c that are left out are so
    # large that F_0 vanishes.
    rest = 1 - share[1].sum()

    def covariance(log_r: np.ndarray) -> np.ndarray:
        mean = _mean_over(share, lambda x: table(np.minimum(x, stop)), 2 * log_r)
        return mean - rest - np.expm1(2 * log_kernel(np.exp(log_r)))

    return tabulate(covariance, np.linspace(math.log(ends[0]), math.log(ends[1]), 21))


# ---------------------------------------------- generalised exponential features
# For one frequency w, the product of the features of x and y is
# f g = D^2 exp(2A|w|^2 + B w.(x + sy) + C(|x|^2 + |y|^2)). With rho = 1 / (1 - 8A),
# log rho = lam + i phi and q = |x + sy|^2, its moments are, relative to K^2,
#     E |fg|^2 / K^2 = exp(u + v),    E (fg)^2 / K^2 = exp(u - v + i theta).
# The second moment of Re(fg) is the mean of E |fg|^2 and the real part of E (fg)^2.
def log_one_minus(z: complex) -> complex:
    """Return log(1 - z), accurate even if z is small."""
    if z.imag == 0:
        return complex(math.log1p(-z.real))
    modulus = 0.5 * math.log1p(z.real * (z.real - 2) + z.imag * z.imag)
    return complex(modulus, cmath.phase(1 - z))


def log_rho(A: complex) -> tuple[float, float]:
    """Return the real part and the magnitude of the imaginary part of log rho.

    The sign of the imaginary part is irrelevant, because A and its conjugate give the
    same estimate.
    """
    log_inverse = log_one_minus(8 * A)
    return -log_inverse.real, abs(log_inverse.imag)


def second_moment(
    lam: Numbers, phi: Numbers, s: int, q: Numbers, n_features: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return u + v, u, v and theta as defined above, where v >= 0.

    All terms are computed without cancellation as rho tends to 1 or 0, and as q tends
    to 0. The sum u + v is returned as well, because digits would cancel in the sum of u
    and v if u is far below zero, which is possible for s = -1.
    """
    sin_phi, rest = np.sin(phi), 2 * np.sin(phi / 2) ** 2
    c = 1 - rest
    root, modulus = np.sqrt(c), np.exp(lam)
    modulus_of_sum = np.hypot(1 + modulus * c, modulus * sin_phi)  # |1 + rho|
    excess = 2 * np.sinh(lam / 2) ** 2 + (rest / (1 + root)) ** 2
    u = 0.5 * n_features * np.log1p(excess / (2 * root))
    v = -0.25 * n_features * np.log1p(-rest)
    theta = n_features * np.arctan(np.tanh(lam / 2) * np.tan(phi / 2))
    theta = theta + s * modulus * sin_phi * q
    # coefficients of q in the logs of both moments, and their sum
    if s > 0:
        left = modulus * (1 + (modulus + 2 * c) / (modulus_of_sum + 1)) + rest
        left, right = left / (2 * c), modulus * c
        total = left + right
    else:  # the coefficients are 1 + above and -1 - drop; above and drop may be tiny
        above = sin_phi**2 * (1 + 2 * modulus * c)
        above /= (
            (1 + modulus * c + c * modulus_of_sum) * 2 * c * (modulus_of_sum + modulus)
        )
        drop = c * np.expm1(lam) - rest
        left, right, total = 1 + above, -1 - drop, above - drop
    size = u + v + left * q
    return size, u + 0.5 * total * q, np.maximum(v + 0.5 * (left - right) * q, 0), theta


def scaled_variance(
    size: Numbers, u: Numbers, v: Numbers, theta: Numbers
) -> tuple[np.ndarray, np.ndarray]:
    """Return the variance of one product as factor * exp(exponent) K^2.

    The results are the factor and the exponent.
    """
    log_scale = np.maximum(size, 0)
    # expm1(u) + e^u (2 sinh(v/2)^2 - e^-v sin(theta/2)^2), relative to exp(log_scale)
    variance = np.sign(u) * -np.expm1(-np.abs(u))
    variance = variance * np.exp(np.maximum(u, 0) - log_scale)
    variance = variance + 0.5 * np.exp(size - log_scale) * np.expm1(-v) ** 2
    variance = variance - np.exp(u - v - log_scale) * np.sin(theta / 2) ** 2
    return np.maximum(variance, 0), log_scale
