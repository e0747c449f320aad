"""The Mahalanobis norm |u|_M = sqrt(u' M u) as a product with a matrix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array


def metric_factor(metric: ArrayLike | None, n_features: int) -> np.ndarray | None:
    """Return the L of M = L L', so ``|u|_M = |L'u|``.

    Parameters
    ----------
    metric : array-like of shape (n_features, n_features) or None
        The matrix M, symmetric and positive definite.
    n_features : int
        Number of columns of the rows.

    Returns
    -------
    factor : ndarray of shape (n_features, n_features) or None
        Lower triangular; None where ``metric`` is None.

    Raises
    ------
    ValueError
        If the matrix has another shape, or is not symmetric positive definite.
    """
    if metric is None:
        return None
    M = check_array(metric, dtype=np.float64, input_name="metric")
    if M.shape != (n_features, n_features):
        raise ValueError(
            f"metric has shape {M.shape}, but X has {n_features} features; give a "
            f"symmetric positive definite matrix of shape ({n_features}, {n_features})."
        )
    if not np.allclose(M, M.T, rtol=1e-10, atol=1e-12 * np.abs(M).max()):
        raise ValueError(
            "metric must be symmetric; (metric + metric.T) / 2 is the symmetric matrix "
            "with the same norm."
        )
    try:
        return np.linalg.cholesky((M + M.T) / 2)
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(M)[0]
        raise ValueError(
            f"metric must be positive definite, but its smallest eigenvalue is "
            f"{smallest:.3g}; add a multiple of the identity."
        ) from error
