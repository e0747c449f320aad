r"""RF-conformity, which measures how a coupling of frequencies affects the error.

For positive features of the Gaussian kernel, the mean squared error of the estimate
from m frequencies in one block is ([1]_, theorem 3.2)

.. math:: e^{-2|x|^2 - 2|y|^2} \, \frac{e^{2 v^2} - e^{v^2} + (m - 1)
   (\rho(v) - e^{v^2})}{m}, \qquad v = |x + y|,

where x and y are already multiplied by sigma. The coupling affects only the conformity
:math:`\rho`, which is :math:`e^{v^2}` for independent frequencies. Smaller values are
better. For optimal positive features, the first two terms of the numerator change, but
the last term remains the same.

References
----------
.. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.
"""

from __future__ import annotations

import math
from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from .._compat import Interval, validated
from ..maps import (
    log_conformity,
    positive_block_covariance,
    trigonometric_block_covariance,
)

__all__ = ["rf_conformity", "rf_conformity_gap", "rff_gap", "sample_conformity"]


_LENGTH = [Interval(Real, 0, None, closed="left"), "array-like"]
_COUNT = [Interval(Integral, 1, None, closed="left")]
_COSINE = [Interval(Real, -1, 1, closed="both")]


def _squares(length: ArrayLike, name: str) -> np.ndarray:
    """Return the squares of norms, after checking their range."""
    length = np.asarray(length, dtype=np.float64)
    if not np.all(np.isfinite(length) & (length >= 0)):
        raise ValueError(f"{name} must be finite and at least 0, got {length}.")
    return length**2


@validated(v=_LENGTH, n_features=_COUNT, cosine=[*_COSINE, None], log=["boolean"])
def rf_conformity(
    v: ArrayLike, n_features: int, cosine: float | None = None, *, log: bool = False
) -> float | np.ndarray:
    r"""Return the RF-conformity of frequencies with equal angles between all pairs.

    Parameters
    ----------
    v : float or array-like
        Norm of x + y, in units of 1 / sigma.
    n_features : int
        Dimension d of the frequencies. Their norms follow independent chi
        distributions.
    cosine : float, default=None
        Cosine c of the angle between any two frequencies: 0 for orthogonal frequencies,
        and -1/(d - 1) for simplex frequencies. None means independent frequencies.
    log : bool, default=False
        Whether to return the logarithm of the conformity, which avoids overflow.

    Returns
    -------
    conformity : float or ndarray of the shape of v
        Let P(w) be the product of the features of x and y for a frequency w. The
        conformity is the mean of P(w_1) P(w_2) for two frequencies w_1 and w_2 in the
        same block, multiplied by exp(2|x|^2 + 2|y|^2).

    Raises
    ------
    ValueError
        If v is negative or not finite, the dimension is less than 1, or the cosine is
        not between -1 and 1.

    Notes
    -----
    This is equation 21 of [1]_. The sum is computed in log space, and the mean over psi
    by Gauss-Legendre quadrature:

    .. math:: \rho(v) = \sum_k \frac{v^{2k}}{k!} \prod_{j<k} \frac{d + j}{d + 2j}
       \; E (1 + c \sin\psi)^k, \qquad \psi \in (0, \pi), \;
       \text{density} \propto \sin^{d-1} \psi .

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> from sklearn_crt.theory.conformity import rf_conformity
    >>> for cosine in (None, 0.0, -1 / 5):
    ...     print(round(float(rf_conformity(1.0, 6, cosine)), 4))
    2.7183
    2.5796
    2.1818
    >>> round(float(rf_conformity(30.0, 1000, 0.0, log=True)), 3)
    730.057
    """
    q = _squares(v, "v")
    value = q if cosine is None else log_conformity(q, n_features, cosine)
    return value if log else np.exp(value)


@validated(v=_LENGTH, n_features=_COUNT, cosine=_COSINE, relative=["boolean"])
def rf_conformity_gap(
    v: ArrayLike, n_features: int, cosine: float, *, relative: bool = False
) -> float | np.ndarray:
    r"""Return exp(v^2) minus the conformity, which is the variance reduction per pair.

    Parameters
    ----------
    v : float or array-like
        Norm of x + y, in units of 1 / sigma.
    n_features : int
        Dimension d of the frequencies.
    cosine : float
        Cosine of the angle between any two frequencies.
    relative : bool, default=False
        Whether to divide the gap by exp(v^2), which avoids overflow.

    Returns
    -------
    gap : float or ndarray of the shape of v
        Conformity of independent frequencies minus conformity of coupled frequencies.
        If the cosine is zero or negative, the gap is computed without subtraction, so
        even a small gap is accurate.

    Raises
    ------
    ValueError
        For the same reasons as in :func:`rf_conformity`.

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`,
       corollary 4.4.

    Examples
    --------
    For small v, the reduction is of order v^2 for simplex frequencies, but only of
    order v^4 for orthogonal frequencies:

    >>> from sklearn_crt.theory.conformity import rf_conformity_gap
    >>> for cosine in (0.0, -1 / 63):
    ...     print(f"{rf_conformity_gap(1e-3, 64, cosine):.3e}")
    7.576e-15
    1.575e-08
    """
    q = _squares(v, "v")
    gap = 0.0 - positive_block_covariance(q, n_features, cosine)
    return gap if relative else gap * np.exp(q)


@validated(z=_LENGTH, n_features=_COUNT, cosine=_COSINE)
def rff_gap(z: ArrayLike, n_features: int, cosine: float = 0.0) -> float | np.ndarray:
    r"""Return the variance reduction per pair of coupled random Fourier features.

    Parameters
    ----------
    z : float or array-like
        Distance between x and y, in units of 1 / sigma.
    n_features : int
        Dimension d of the frequencies.
    cosine : float, default=0.0
        Cosine of the angle between any two frequencies.

    Returns
    -------
    gap : float or ndarray of the shape of z
        :math:`e^{-z^2}` minus the mean of :math:`\cos(w_1 \cdot u) \cos(w_2 \cdot u)`,
        where :math:`u = x - y`. The estimate from m frequencies in one block has the
        variance :math:`(1 - e^{-z^2})^2 / (2m)` minus (m - 1)/m times the gap.

    Raises
    ------
    ValueError
        For the same reasons as in :func:`rf_conformity`.

    Notes
    -----
    For orthogonal frequencies, the gap is positive for all distances in 2 dimensions,
    and up to a distance of 3.31 in 3 dimensions, 2.96 in 8 dimensions and 6.91 in 64
    dimensions. At larger distances it may be slightly negative ([1]_, theorem 4.5).

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> from sklearn_crt.theory.conformity import rff_gap
    >>> rff_gap([1.0, 3.0, 3.5], 3).round(5)
    array([ 0.04907,  0.00866, -0.00203])
    """
    q = _squares(z, "z")
    return 0.0 - trigonometric_block_covariance(q, n_features, cosine)


@validated(v=[Interval(Real, 0, None, closed="left")], frequencies=["array-like"])
def sample_conformity(v: float, frequencies: ArrayLike) -> float:
    r"""Return the RF-conformity of given frequencies, averaged over random rotations.

    Parameters
    ----------
    v : float
        Norm of x + y, in units of 1 / sigma.
    frequencies : ndarray of shape (n_features, n_frequencies)
        At least two frequencies as columns, as returned by ``Frequencies.to_dense``.

    Returns
    -------
    conformity : float
        The conformity of these frequencies. Its mean over random blocks of frequencies
        equals the result of :func:`rf_conformity`.

    Raises
    ------
    ValueError
        If v is negative or not finite, or there are fewer than two frequencies.

    Notes
    -----
    By equation 10 of [1]_, the conformity is the mean of the following expression over
    all pairs of different frequencies :math:`w_i` and :math:`w_j`:

    .. math:: \sum_k \frac{\Gamma(d/2)}{k! \, \Gamma(k + d/2)}
       \left(\frac{v |w_i + w_j|}{2}\right)^{2k}
       = {}_0F_1(; d/2; v^2 |w_i + w_j|^2 / 4) .

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.theory.conformity import sample_conformity
    >>> from sklearn_crt.extend import Orthogonal, chi_law
    >>> rng = np.random.default_rng(0)
    >>> draws = [Orthogonal().draw(chi_law, 6, 6, rng).to_dense() for _ in range(2000)]
    >>> print(f"{np.mean([sample_conformity(1.0, W) for W in draws]):.1f}")
    2.6
    """
    frequencies = np.asarray(frequencies, dtype=np.float64)
    if frequencies.ndim != 2 or frequencies.shape[1] < 2:
        raise ValueError(
            "frequencies must have the shape (n_features, n_frequencies) with at "
            f"least two columns, got {frequencies.shape}."
        )
    d, m = frequencies.shape
    gram = frequencies.T @ frequencies
    first, second = np.triu_indices(m, 1)
    squares = gram[first, first] + gram[second, second] + 2 * gram[first, second]
    values = special.hyp0f1(d / 2, _squares(v, "v") * np.maximum(squares, 0) / 4)
    return math.fsum(values) / values.size
