r"""Cross moments of two frequencies of one block, for the Gaussian kernel.

With q = |x + y|^2 (s = +1) or |x - y|^2 (s = -1), norms chi_d, and directions at an
angle of cosine c, a pair of products has the moment F_c(s q) in units of exp(-2 N):

.. math:: F_c(z) = \sum_k \frac{z^k}{k!} r_k m_k, \quad
          r_k = \prod_{j<k} \frac{d + j}{d + 2j}, \quad
          m_k = E (1 + c \sin\psi)^k

with psi of density ~ sin(psi)^(d-1) on (0, pi) (Reid et al. 2023, theorems 3.2, 4.3,
equation 21); sines and cosines have the mean of F_c(-q) and F_{-c}(-q). Independent
frequencies have exp(s q). The gaps below are what a coupled pair saves: series, and
for many values tables of these, to 1e-13 of their size near q = 0 and of 1 elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from scipy import special

from .._piecewise import Function, Table, tabulate

_BLOCK = 256  # pairs whose series share one window of terms
_LARGEST = 20  # log r_k m_k, which is above 0 for angles below 90 degrees only
_FEW = 4096  # values up to which the series cost less than a table of them


def _log_ratios(n_terms: int, n_features: int) -> np.ndarray:
    """Return log r_k for k = 0 ... n_terms - 1."""
    j = np.arange(n_terms - 1)
    return np.concatenate([[0.0], np.cumsum(-np.log1p(j / (n_features + j)))])


def _sines(n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes sin(psi) on (0, pi / 2) and the logs of weights that sum to 1."""
    n_nodes = int(max(128, 16 * np.sqrt(n_features)))
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    sines = np.sin(0.25 * np.pi * (nodes + 1))
    log_weights = np.log(weights) + (n_features - 1) * np.log(sines)
    return sines, log_weights - special.logsumexp(log_weights)


def _log_powers(n_terms: int, n_features: int, cosine: float) -> np.ndarray:
    """Return log m_k for k = 0 ... n_terms - 1, small ones with all their digits."""
    sines, log_weights = _sines(n_features)
    log_base = np.log1p(cosine * sines)
    parts = [
        special.logsumexp(np.outer(k, log_base) + log_weights, axis=1)
        for k in np.array_split(np.arange(n_terms), 1 + n_terms // 1000)
    ]
    few = np.arange(min(n_terms, 1 + int(0.5 / abs(cosine)), 1000))
    excess = np.expm1(np.outer(few, log_base)) @ np.exp(log_weights)
    return np.concatenate([np.log1p(excess), np.concatenate(parts)[few.size :]])


def _log_factors(n_terms: int, n_features: int, cosine: float) -> np.ndarray:
    """Return log r_k + log m_k for k = 0 ... n_terms - 1."""
    if n_terms > 2**15:
        return _new_log_factors.__wrapped__(n_terms, n_features, cosine)
    size = 1 << (n_terms - 1).bit_length()
    return _new_log_factors(size, n_features, cosine)[:n_terms]


@lru_cache(maxsize=32)
def _new_log_factors(n_terms: int, n_features: int, cosine: float) -> np.ndarray:
    factors = _log_ratios(n_terms, n_features)
    if cosine != 0:
        factors = factors + _log_powers(n_terms, n_features, cosine)
    factors.setflags(write=False)
    return factors


def log_conformity(q: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
    """Return log F_c(q) for an array q >= 0.

    Parameters
    ----------
    q : ndarray
        Squared lengths, not negative.
    n_features : int
        Dimension d of the frequencies.
    cosine : float
        The c of their angle.

    Returns
    -------
    log_moment : ndarray of the shape of q
        Not negative.
    """
    q = np.asarray(q, dtype=np.float64)
    n_terms = int(np.ceil(2 * q.max(initial=0) + 12 * np.sqrt(q.max(initial=0)) + 80))
    factors, k = _log_factors(n_terms, n_features, cosine), np.arange(n_terms)
    factors = factors - special.gammaln(k + 1)
    values = [special.logsumexp(special.xlogy(k, one) + factors) for one in q.ravel()]
    return np.reshape(values, q.shape)


def positive_gap(q: np.ndarray, n_features: int, cosine: float = 0.0) -> np.ndarray:
    """Return (exp(q) - F_c(q)) exp(-q), in [0, 1) for c <= 0, for positive features.

    It is the mean of 1 - r_k m_k over k of the Poisson law of mean q, never taken as
    a difference.

    Parameters
    ----------
    q : ndarray
        Squared lengths, not negative.
    n_features : int
        Dimension d of the frequencies.
    cosine : float, default=0.0
        The c of their angle.

    Returns
    -------
    gap : ndarray of the shape of q
        What a pair saves, in units of exp(q).
    """
    q = np.asarray(q, dtype=np.float64)
    reach = 500 + 8 * n_features
    factors = _log_factors(reach, n_features, cosine)
    if factors[reach // 2 :].max() < -46:
        q = np.minimum(q, reach)  # r_k m_k < 1e-20 there: the gap is 1
    else:
        reach *= 16

    def gap(q: np.ndarray) -> np.ndarray:
        return _positive_series(q, n_features, cosine)

    if factors.max() > _LARGEST:
        return gap(q)
    return _look_up(q, gap, _positive_table, (n_features, cosine, reach))


def _look_up(
    q: np.ndarray,
    series: Function,
    make_table: Callable[..., Table],
    arguments: tuple[float, ...],
    few: int = _FEW,
) -> np.ndarray:
    """Return the values of a series for an array q, more than a few from a table.

    The table ends at the last of the arguments.
    """
    if q.size <= few:
        return series(q)
    stop = arguments[-1]
    if q.max() <= stop:
        return make_table(*arguments)(q)
    far = q > stop
    values = make_table(*arguments)(np.where(far, 0.0, q))
    values[far] = series(q[far])
    return values


@lru_cache(maxsize=64)
def _positive_table(n_features: int, cosine: float, stop: float) -> Table:
    def gap(q: np.ndarray) -> np.ndarray:
        return _positive_series(q, n_features, cosine)

    return tabulate(gap, stop, power=1 if cosine else 2)


def _positive_series(q: np.ndarray, n_features: int, cosine: float) -> np.ndarray:
    """Return ``positive_gap`` as a sum over a window of k for each q."""
    order = np.argsort(q, axis=None)
    sorted_q = q.ravel()[order]
    window = np.ceil(12 * np.sqrt(sorted_q) + 80).astype(int)
    last = (sorted_q + window).astype(int)
    factors = _log_factors(int(last.max(initial=0)) + 1, n_features, cosine)
    if factors.max() > _LARGEST:  # the window does not hold F, which exceeds exp(q)
        return -np.expm1(log_conformity(q, n_features, cosine) - q)
    gaps = -np.expm1(factors)
    result = np.empty_like(sorted_q)
    start = 0
    while start < sorted_q.size:
        similar = np.searchsorted(sorted_q, 2 * sorted_q[start] + 10, side="right")
        block = slice(start, min(start + _BLOCK, similar))
        low = max(0, int(sorted_q[start]) - window[start])
        k = np.arange(low, last[block.stop - 1] + 1)
        weights = _poisson_weights(k, sorted_q[block])
        result[block] = (weights @ gaps[k]) / weights.sum(axis=1)
        start = block.stop
    result[sorted_q == 0] = 0
    unsorted = np.empty_like(result)
    unsorted[order] = result
    return unsorted.reshape(q.shape)


def _poisson_weights(k: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Return multiples of the Poisson law for similar means, (n_means, n_k).

    Logs are taken relative to one k near the means, where they are small, so that
    nothing cancels.
    """
    middle = 1 + int(means[0])
    place = middle - k[0]
    steps = np.log(np.maximum(k, 1) / middle)
    log_factorials = np.concatenate(
        [-np.cumsum(steps[place:0:-1])[::-1], [0.0], np.cumsum(steps[place + 1 :])]
    )
    log_means = np.log(np.maximum(means, 1e-300) / middle)
    log_weights = np.multiply.outer(log_means, k - middle) - log_factorials
    log_weights -= log_weights.max(axis=1, keepdims=True)
    return np.exp(log_weights)


def trigonometric_gap(
    q: np.ndarray, n_features: int, cosine: float = 0.0
) -> np.ndarray:
    """Return exp(-q) - (F_c(-q) + F_{-c}(-q)) / 2; it may be negative.

    F_c(-q) is the mean over psi of F_0(-q (1 + c sin(psi))), so the gap is the mean of
    those of right angles, less exp(-q) (cosh(q c sin(psi)) - 1).

    Parameters
    ----------
    q : ndarray
        Squared lengths, not negative.
    n_features : int
        Dimension d of the frequencies.
    cosine : float, default=0.0
        The c of their angle.

    Returns
    -------
    gap : ndarray of the shape of q
        What a pair saves.
    """
    q = np.asarray(q, dtype=np.float64)

    def gap(q: np.ndarray) -> np.ndarray:
        return _trigonometric_series(q, n_features, cosine, _right_series)

    arguments = n_features, abs(cosine), 1e5 if cosine else 1e3
    return _look_up(q, gap, _trigonometric_table, arguments)


@lru_cache(maxsize=64)
def _trigonometric_table(n_features: int, cosine: float, stop: float) -> Table:
    right_gap = _right_series if cosine == 0 else _right_from_table

    def gap(q: np.ndarray) -> np.ndarray:
        return _trigonometric_series(q, n_features, cosine, right_gap)

    return tabulate(gap, stop, power=2, atol=3e-16)


def _right_from_table(q: np.ndarray, n_features: int) -> np.ndarray:
    def gap(q: np.ndarray) -> np.ndarray:
        return _right_series(q, n_features)

    return _look_up(q, gap, _trigonometric_table, (n_features, 0.0, 1e3), few=0)


def _trigonometric_series(
    q: np.ndarray,
    n_features: int,
    cosine: float,
    right_gap: Callable[[np.ndarray, int], np.ndarray],
) -> np.ndarray:
    """Return ``trigonometric_gap`` as a mean over psi of gaps of right angles."""
    if cosine == 0:
        return _right_series(q, n_features)
    gap = np.zeros_like(q)
    for sine, log_weight in zip(*_sines(n_features), strict=True):
        if log_weight > -40:
            a = abs(cosine) * sine
            loss = 0.5 * np.exp(q * (a - 1)) * np.expm1(-q * a) ** 2
            right = right_gap(q * (1 + a), n_features)
            right += right_gap(q * (1 - a), n_features)
            gap += np.exp(log_weight) * (0.5 * right - loss)
    return gap


def _right_series(q: np.ndarray, n_features: int) -> np.ndarray:
    """Return exp(-q) - F_0(-q).

    A series for q <= 4, above it F_0(-q) = exp(-q/2) 1F1(-d/2; d/2; q/2), which
    overflows beyond q of about 1400: from 1000 its asymptotic form.
    """
    d, k = n_features, np.arange(60)
    coefficients = -((-1.0) ** k) * np.expm1(_log_ratios(60, d)) / special.factorial(k)
    gap = np.asarray(np.polynomial.polynomial.polyval(np.minimum(q, 4), coefficients))
    middle, far = (q > 4) & (q <= 1000), q > 1000
    z = q[middle] / 2
    gap[middle] = np.exp(-2 * z) - np.exp(-z) * special.hyp1f1(-d / 2, d / 2, z)
    gap[far] = 0.0
    if d % 2 and d < 20:  # elsewhere below 1e-30
        z, k = q[far] / 2, np.arange(12)
        terms = np.cumprod((d + k) * (d / 2 + 1 + k) / (k + 1))
        series = np.polynomial.polynomial.polyval(1 / z, np.append(1.0, terms))
        leading = special.gamma(d / 2) * special.rgamma(-d / 2) * z ** -float(d)
        gap[far] = -leading * series
    return gap
