"""The number of columns that an error of the kernel asks for."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_array

from .._compat import Interval, validate_params
from ..maps import TrigonometricMap
from ..samplers import BaseFeatureSampler

_SIDE = 8  # rows a side of the blocks of pairs
_MOST = 10**7  # frequencies


@validate_params(
    {
        "sampler": [BaseFeatureSampler],
        "X": ["array-like", "sparse matrix"],
        "rms_error": [Interval(Real, 0, None, closed="neither")],
        "n_pairs": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    },
    prefer_skip_nested_validation=True,
)
def n_components_for(
    sampler: BaseFeatureSampler,
    X: Any,
    *,
    rms_error: float,
    n_pairs: int = 4096,
    random_state: Any = None,
) -> int:
    r"""Return the number of columns for which the error of the kernel is as asked.

    For sines and cosines, from the closed form of their variance and without drawing
    any feature. Positive features are refused: their errors have heavy tails, so the
    mean is ruled by draws that one fit has not seen; :func:`compare_samplers` measures
    them instead.

    Parameters
    ----------
    sampler : sampler
        With the parameters to use, as ``TrigRBFSampler(sigma=0.3)`` or
        ``MaternSampler()``; ``n_components`` is ignored. It is not changed.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Rows; at least two.
    rms_error : float
        Square root of the mean of the squared differences between estimate and kernel,
        over pairs of distinct rows and over draws of the frequencies. The kernel is at
        most 1, so 0.01 is two digits.
    n_pairs : int, default=4096
        About as many random pairs of rows are averaged over.
    random_state : int, RandomState instance or None, default=None
        Seed of the choice of pairs.

    Returns
    -------
    n_components : int
        The least number that keeps the expected error, a multiple of the columns of a
        frequency.

    Raises
    ------
    ValueError
        If the sampler is none of sines and cosines, if there are fewer than two rows,
        or if more than 10 million frequencies were needed.

    Notes
    -----
    With m frequencies, p of whose ordered pairs share a block, the mean over the pairs
    of rows of the variance is :math:`(m \alpha - p \beta) / m^2`; alpha and beta follow
    from ``kernel_variance`` of one and of two frequencies. A coupling without a closed
    form counts as independent frequencies, so the answer is then too large.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt import TrigRBFSampler, n_components_for
    >>> X = np.random.default_rng(0).normal(size=(500, 8))
    >>> D = n_components_for(TrigRBFSampler(), X, rms_error=0.02, random_state=0)
    >>> sampler = TrigRBFSampler(n_components=D, random_state=0).fit(X)
    >>> error = sampler.approximate_kernel(X) - sampler.exact_kernel(X)
    >>> D, round(float(np.sqrt(np.mean(error**2))), 3)
    (1422, 0.022)
    """
    rng = check_random_state(random_state)
    X = check_array(X, accept_sparse="csr", ensure_min_samples=2)
    seed = rng.randint(2**31 - 1)
    one, two = (_fit(sampler, X, count, seed) for count in (1, 2))
    blocks = list(_pair_blocks(X, n_pairs, rng))

    def mean_variance(fitted):
        variances = (fitted.kernel_variance(a, b) for a, b in blocks)
        return float(np.mean([block.mean() for block in variances]))

    coupling, d = one.map_.coupling, one.map_.n_features
    alpha, beta = mean_variance(one), 0.0
    pairs_of_two = coupling.n_pairs(2, d)
    if pairs_of_two > 0:
        beta = (2 * alpha - 4 * mean_variance(two)) / pairs_of_two

    def is_enough(m):
        return m * alpha - coupling.n_pairs(m, d) * beta <= (m * rms_error) ** 2

    n_frequencies = _least(is_enough)
    return n_frequencies * one.columns_per_frequency


def _fit(sampler, X, n_frequencies, seed):
    """Fit with as many frequencies; refuse maps of other kinds."""
    fitted = clone(sampler).set_params(random_state=seed)
    width = n_frequencies * fitted.columns_per_frequency
    fitted.set_params(n_components=width).fit(X)
    if not isinstance(fitted.map_, TrigonometricMap):
        raise ValueError(
            f"n_components_for knows sines and cosines only; the errors of "
            f"{type(sampler).__name__} have heavy tails or no closed form, and one fit "
            "would differ from the answer. Measure them with compare_samplers, or use "
            "TrigRBFSampler, LaplacianSampler, MaternSampler, ExponentialPowerSampler."
        )
    return fitted


def _pair_blocks(X, n_pairs, rng):
    """Yield pairs of disjoint sets of a few rows."""
    side = min(_SIDE, X.shape[0] // 2)
    for _ in range(math.ceil(n_pairs / side**2)):
        chosen = rng.choice(X.shape[0], 2 * side, replace=False)
        yield X[chosen[:side]], X[chosen[side:]]


def _least(is_enough):
    """Return the least number that is enough, by bisection."""
    high = 1
    while not is_enough(high):
        high *= 2
        if high > _MOST:
            raise ValueError(
                f"More than {_MOST} frequencies would be needed; ask for a larger "
                "rms_error."
            )
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high
