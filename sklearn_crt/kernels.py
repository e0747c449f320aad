"""Kernel objects for the ``kernel`` parameter of estimators, and kernel functions."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.metrics.pairwise import check_pairwise_arrays
from sklearn.utils import assert_all_finite, gen_batches

from ._compat import Interval, validated
from .arrays.validation import plain_sparse
from .maps import ExponentialPower, Gaussian, Laplacian, Matern, RadialKernel
from .rows import (
    DenseInputs,
    Frame,
    Rows,
    Sigma,
    TableLike,
    check_sigma,
    shape_factor,
)

__all__ = [
    "ExponentialPower",
    "Gaussian",
    "Laplacian",
    "Matern",
    "exponential_power_kernel",
    "matern_kernel",
]
__dir__ = __all__.copy  # so that dir() shows only public names

_BLOCK_ENTRIES = 2**17  # number of kernel values computed at a time (a megabyte)

_SHARED: dict[str, list[Any]] = {
    "X": ["array-like", "sparse matrix"],
    "Y": ["array-like", "sparse matrix", None],
    "sigma": [Interval(Real, 0, None, closed="neither"), "array-like"],
    "shape_matrix": ["array-like", None],
}


@validated(**_SHARED, nu=[Interval(Real, 0, None, closed="right")])
def matern_kernel(
    X: TableLike,
    Y: TableLike | None = None,
    *,
    nu: float = 1.5,
    sigma: Sigma = 1.0,
    shape_matrix: ArrayLike | None = None,
) -> np.ndarray:
    r"""Compute the Matern kernel with smoothness nu.

    .. math:: k(r) = \frac{2^{1-\nu}}{\Gamma(\nu)} \left(\sqrt{2\nu} r\right)^\nu
       K_\nu\left(\sqrt{2\nu} r\right), \qquad r = |\sigma (x - y)|_M

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_X, n_features) or (n_features,)
        First set of rows, or a single row of shape (n_features,).
    Y : {array-like, sparse matrix}, default=None
        Second set of rows, or a single row if X is a single row. None means X.
    nu : float, default=1.5
        Smoothness, which must be positive; infinity gives the Gaussian kernel
        exp(-r^2 / 2).
    sigma : float or array-like of shape (n_features,), default=1.0
        Inverse length scale, by which the rows are multiplied.
    shape_matrix : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M that defines the norm
        :math:`|u|_M = \sqrt{u' M u}`. None means the identity.

    Returns
    -------
    kernel : ndarray of shape (n_X, n_Y), or float for two single rows
        Kernel values in [0, 1]; float32 if X and Y are float32.

    Raises
    ------
    ValueError
        If a parameter is out of range, or if the shapes do not match.

    See Also
    --------
    sklearn_crt.MaternSampler : Random features of this kernel.
    sklearn.gaussian_process.kernels.Matern : The same kernel for Gaussian processes.

    Notes
    -----
    For a half-integer nu, the kernel is a polynomial times an exponential. If nu is at
    least 25, it is computed from the uniform expansion of the Bessel function for large
    orders, which is exact up to rounding. For any other nu, the Bessel function
    :data:`scipy.special.kve` is evaluated for each pair or, if there are many pairs,
    interpolated by polynomials, with an error below 1e-11. The matrix is computed in
    blocks of rows.

    References
    ----------
    .. [1] C. E. Rasmussen, C. K. I. Williams, "Gaussian Processes for Machine
       Learning", MIT Press 2006, section 4.2.1.
    .. [2] NIST Digital Library of Mathematical Functions, 10.29.1, 10.41.4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics import pairwise_kernels
    >>> from sklearn_crt.kernels import matern_kernel
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> matern_kernel(X, nu=4, sigma=0.2).round(6)
    array([[1.     , 0.55198],
           [0.55198, 1.     ]])

    Some scikit-learn functions call the kernel with two individual rows:

    >>> pairwise_kernels(X, metric=matern_kernel, nu=4, sigma=0.2).round(6)
    array([[1.     , 0.55198],
           [0.55198, 1.     ]])
    """
    return _radial(X, Y, sigma, shape_matrix, Matern(nu))


@validated(**_SHARED, alpha=[Interval(Real, 0, 2, closed="right")])
def exponential_power_kernel(
    X: TableLike,
    Y: TableLike | None = None,
    *,
    alpha: float = 1.0,
    sigma: Sigma = 1.0,
    shape_matrix: ArrayLike | None = None,
) -> np.ndarray:
    r"""Compute the exponential-power kernel.

    .. math:: k = \exp(-|\sigma (x - y)|_M^\alpha)

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_X, n_features) or (n_features,)
        First set of rows, or a single row of shape (n_features,).
    Y : {array-like, sparse matrix}, default=None
        Second set of rows, or a single row if X is a single row. None means X.
    alpha : float, default=1.0
        Exponent in (0, 2]. A value of 1 gives the Laplacian kernel, and 2 gives the
        Gaussian kernel exp(-r^2).
    sigma : float or array-like of shape (n_features,), default=1.0
        Inverse length scale, by which the rows are multiplied.
    shape_matrix : array-like of shape (n_features, n_features), default=None
        Symmetric positive definite matrix M that defines the norm
        :math:`|u|_M = \sqrt{u' M u}`. None means the identity.

    Returns
    -------
    kernel : ndarray of shape (n_X, n_Y), or float for two single rows
        Kernel values in [0, 1]; float32 if X and Y are float32.

    Raises
    ------
    ValueError
        If a parameter is out of range, or if the shapes do not match.

    See Also
    --------
    sklearn_crt.ExponentialPowerSampler : Random features of this kernel.

    References
    ----------
    .. [1] S. Ahir, P. Pandit, "Feature maps for the Laplacian kernel and its
       generalizations", :arxiv:`2502.15575`, equation 2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.kernels import exponential_power_kernel
    >>> X = np.array([[0.0, 0.0], [3.0, 4.0]])
    >>> round(np.log(exponential_power_kernel(X, alpha=0.5)[0, 1]) ** 2, 6)
    np.float64(5.0)
    """
    return _radial(X, Y, sigma, shape_matrix, ExponentialPower(alpha))


def _radial(
    X: TableLike,
    Y: TableLike | None,
    sigma: Sigma,
    shape_matrix: ArrayLike | None,
    kernel: RadialKernel,
) -> Any:
    """Return the kernel for the distances |sigma (x - y)|_M of all pairs of rows.

    If X and Y are single rows, the kernel is a float. Only scikit-learn functions that
    call a kernel on two rows need this case, so the annotations of the public functions
    ignore it.
    """
    if np.ndim(X) == 1:
        u = _difference(X, Y, sigma)
        row, zero = DenseInputs(u[None]), DenseInputs(np.zeros((1, u.size)))
        factor = shape_factor(shape_matrix, u.size)
        r = kernel.distances(row.times(factor), zero.times(factor))
        return math.exp(kernel.log_profile(r)[0, 0])
    checked = check_pairwise_arrays(X, Y, accept_sparse="csr")
    pair: tuple[Rows, Rows] = tuple(map(plain_sparse, checked))
    X, Y = pair
    same, dtype = checked[0] is checked[1], X.dtype
    factor = shape_factor(shape_matrix, X.shape[1])
    X, Y = (Z.astype(np.float64, copy=False) for Z in (X, Y))
    dense = not (sparse.issparse(X) or sparse.issparse(Y))
    # centring the rows makes their distances more accurate
    frame = Frame(check_sigma(sigma, X.shape[1]), Y.mean(axis=0) if dense else None)
    keys = frame.rows(Y).times(factor)
    out = np.empty((X.shape[0], Y.shape[0]), dtype=dtype)
    for rows in gen_batches(X.shape[0], max(16, _BLOCK_ENTRIES // Y.shape[0])):
        r = kernel.distances(frame.rows(X[rows]).times(factor), keys)
        if same:
            r[np.arange(len(r)), np.arange(rows.start, rows.stop)] = 0
        np.exp(kernel.log_profile(r), out=out[rows], casting="same_kind")
    return out


def _difference(X: ArrayLike, Y: ArrayLike | None, sigma: Sigma) -> np.ndarray:
    """Return sigma (x - y) for one row x and one row y."""
    x = np.asarray(X, np.float64)
    y = None if Y is None else np.asarray(Y, np.float64)
    if y is None or x.shape != y.shape:
        other = None if y is None else y.shape
        raise ValueError(
            f"Expected 2D array, got 1D array instead: a single row X of shape "
            f"{x.shape} needs a single row Y of that shape, got {other}; use "
            "X.reshape(1, -1) for the kernel of one row and a matrix."
        )
    u = check_sigma(sigma, x.size) * (x - y)
    if not np.all(np.isfinite(u)):
        for row, name in ((x, "X"), (y, "Y")):
            assert_all_finite(row, input_name=name)
    return u
