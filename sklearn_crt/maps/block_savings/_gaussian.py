r"""Cross moments of two frequencies of one block, for the Gaussian kernel.

With q = |x + y|^2 (s = +1) or |x - y|^2 (s = -1), norms chi_d, and directions at an
angle of cosine c, a pair of products has the moment F_c(s q) in units of exp(-2 N):

.. math:: F_c(z) = \sum_k \frac{z^k}{k!} r_k m_k, \quad
          r_k = \prod_{j<k} \frac{d + j}{d + 2j}, \quad
          m_k = E (1 + c \sin\psi)^k

with psi of density ~ sin(psi)^(d-1) on (0, pi) (Reid et al. 2023, theorems 3.2, 4.3,
equation 21); sines and cosines have the mean of F_c(-q) and F_{-c}(-q). Independent
frequencies have exp(s q). The gaps below are what a coupled pair saves.
"""

from __future__ import annotations

import numpy as np
from scipy import special

_BLOCK = 256  # pairs whose series share one window of terms


def _log_ratios(n_terms, n_features):
    """Return log r_k for k = 0 ... n_terms - 1."""
    j = np.arange(n_terms - 1)
    return np.concatenate([[0.0], np.cumsum(-np.log1p(j / (n_features + j)))])


def _sines(n_features):
    """Return nodes sin(psi) on (0, pi / 2) and the logs of weights that sum to 1."""
    n_nodes = int(max(128, 16 * np.sqrt(n_features)))
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    sines = np.sin(0.25 * np.pi * (nodes + 1))
    log_weights = np.log(weights) + (n_features - 1) * np.log(sines)
    return sines, log_weights - special.logsumexp(log_weights)


def _log_powers(n_terms, n_features, cosine):
    """Return log m_k for k = 0 ... n_terms - 1."""
    sines, log_weights = _sines(n_features)
    log_base = np.log1p(cosine * sines)
    parts = [
        special.logsumexp(np.outer(k, log_base) + log_weights, axis=1)
        for k in np.array_split(np.arange(n_terms), 1 + n_terms // 1000)
    ]
    return np.concatenate(parts)


def _log_factors(n_terms, n_features, cosine):
    """Return log r_k + log m_k."""
    factors = _log_ratios(n_terms, n_features)
    if cosine != 0:
        factors = factors + _log_powers(n_terms, n_features, cosine)
    return factors


def log_conformity(q, n_features, cosine):
    """Return log F_c(q) for an array q >= 0."""
    q = np.asarray(q, dtype=np.float64)
    n_terms = int(np.ceil(2 * q.max(initial=0) + 12 * np.sqrt(q.max(initial=0)) + 80))
    factors, k = _log_factors(n_terms, n_features, cosine), np.arange(n_terms)
    factors = factors - special.gammaln(k + 1)
    values = [special.logsumexp(special.xlogy(k, one) + factors) for one in q.ravel()]
    return np.reshape(values, q.shape)


def positive_gap(q, n_features, cosine=0.0):
    """Return (exp(q) - F_c(q)) exp(-q), in [0, 1) for c <= 0, for positive features.

    It is the mean of 1 - r_k m_k over k of the Poisson law of mean q: summed over a
    window of k, never taken as a difference.
    """
    q = np.asarray(q, dtype=np.float64)
    if cosine > 0:  # the window does not hold F, which may exceed exp(q)
        return -np.expm1(log_conformity(q, n_features, cosine) - q)
    q = np.minimum(q, 500 + 8 * n_features)  # r_k < 1e-20 there: the gap is 1
    order = np.argsort(q, axis=None)
    sorted_q = q.ravel()[order]
    window = np.ceil(12 * np.sqrt(sorted_q) + 80).astype(int)
    last = (sorted_q + window).astype(int)
    gaps = -np.expm1(_log_factors(last[-1] + 1, n_features, cosine))
    result = np.empty_like(sorted_q)
    for start in range(0, sorted_q.size, _BLOCK):
        block = slice(start, min(start + _BLOCK, sorted_q.size))
        low = max(0, int(sorted_q[start]) - window[start])
        k = np.arange(low, last[block.stop - 1] + 1)
        means = sorted_q[block, None]
        log_weights = special.xlogy(k, means) - means - special.gammaln(k + 1)
        result[block] = np.exp(log_weights) @ gaps[k]
    unsorted = np.empty_like(result)
    unsorted[order] = result
    return unsorted.reshape(q.shape)


def trigonometric_gap(q, n_features, cosine=0.0):
    """Return exp(-q) - (F_c(-q) + F_{-c}(-q)) / 2; it may be negative.

    F_c(-q) is the mean over psi of F_0(-q (1 + c sin(psi))), so the gap is the mean of
    those of right angles, less exp(-q) (cosh(q c sin(psi)) - 1).
    """
    q = np.asarray(q, dtype=np.float64)
    if cosine == 0:
        return _right_gap(q, n_features)
    gap = np.zeros_like(q)
    for sine, log_weight in zip(*_sines(n_features), strict=True):
        if log_weight > -40:
            a = abs(cosine) * sine
            loss = 0.5 * np.exp(q * (a - 1)) * np.expm1(-q * a) ** 2
            right = _right_gap(q * (1 + a), n_features)
            right += _right_gap(q * (1 - a), n_features)
            gap += np.exp(log_weight) * (0.5 * right - loss)
    return gap


def _right_gap(q, n_features):
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
        z = q[far] / 2
        leading = special.gamma(d / 2) * special.rgamma(-d / 2) * z ** -float(d)
        gap[far] = -leading * (1 + d * (d / 2 + 1) / z)
    return gap
