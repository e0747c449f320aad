r"""Cross moments of two frequencies of one block, for the Gaussian kernel.

With q = |x + y|^2 (s = +1) or |x - y|^2 (s = -1), norms chi_d, and orthogonal
directions, a pair of products has the moment F(s q) in units of exp(-2 N):

.. math:: F(z) = \sum_k \frac{z^k}{k!} r_k, \quad
          r_k = \prod_{j<k} \frac{d + j}{d + 2j}

where independent frequencies have exp(s q) (Reid et al. 2023, theorem 3.2). The
gaps below are what a coupled pair saves.
"""

from __future__ import annotations

import numpy as np
from scipy import special

_BLOCK = 256  # pairs whose series share one window of terms


def _log_ratios(n_terms, n_features):
    """Return log r_k for k = 0 ... n_terms - 1."""
    j = np.arange(n_terms - 1)
    return np.concatenate([[0.0], np.cumsum(-np.log1p(j / (n_features + j)))])


def positive_gap(q, n_features):
    """Return (exp(q) - F(q)) exp(-q), in [0, 1), for positive features.

    It is the mean of 1 - r_k over k of the Poisson law of mean q: summed over a
    window of k, never taken as a difference.
    """
    q = np.asarray(q, dtype=np.float64)
    q = np.minimum(q, 500 + 8 * n_features)  # r_k < 1e-20 there: the gap is 1
    order = np.argsort(q, axis=None)
    sorted_q = q.ravel()[order]
    window = np.ceil(12 * np.sqrt(sorted_q) + 80).astype(int)
    last = (sorted_q + window).astype(int)
    gaps = -np.expm1(_log_ratios(last[-1] + 1, n_features))
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


def trigonometric_gap(q, n_features):
    """Return exp(-q) - F(-q) for sines and cosines; it may be negative.

    A series for q <= 4, above it F(-q) = exp(-q/2) 1F1(-d/2; d/2; q/2), which
    overflows beyond q of about 1400: from 1000 its asymptotic form.
    """
    q, d = np.asarray(q, dtype=np.float64), n_features
    k = np.arange(60)
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
