"""The best diagonal of a complex exponential map for two clusters of rows."""

from __future__ import annotations

import numpy as np


def best_diagonal(
    query: np.ndarray,
    key: np.ndarray,
    query_spread: np.ndarray | float = 0.0,
    key_spread: np.ndarray | float = 0.0,
    *,
    real: bool = False,
) -> np.ndarray:
    r"""Return the diagonal a of least mean :math:`|a x + y / a|^2` for two clusters.

    Parameters
    ----------
    query, key : ndarray of shape (n_features,)
        Centres of the clusters.
    query_spread, key_spread : ndarray of shape (n_features,), default=0.0
        Second moments about the centres; without them centres alone count.
    real : bool, default=False
        Whether a has to be real.

    Returns
    -------
    a : ndarray of shape (n_features,), complex
        Imaginary where the centres have the same sign, which makes the two terms
        cancel, real elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.samplers import best_diagonal
    >>> a = best_diagonal(np.array([1.0, 1.0]), np.array([4.0, -4.0]))
    >>> a.tolist()
    [2j, (2+0j)]
    """
    floor = 1e-12  # both sums at the floor: modulus 1
    squares = np.maximum(query**2 + query_spread, floor)
    key_squares = np.maximum(key**2 + key_spread, floor)
    modulus = np.clip((key_squares / squares) ** 0.25, 1e-6, 1e6)
    imaginary = (query * key > 0) & (not real)
    a = np.zeros(np.shape(modulus), dtype=complex)
    a.real, a.imag = np.where(imaginary, 0, modulus), np.where(imaginary, modulus, 0)
    return a
