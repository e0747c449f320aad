"""The frequencies of a map, ready to be applied."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import DTypeLike
from sklearn.utils.extmath import safe_sparse_dot

from ..rows import Rows


class Frequencies:
    """Frequencies as the columns of a matrix.

    Parameters
    ----------
    weights : ndarray of shape (n_features, n_frequencies)
        One frequency a column, at unit bandwidth.

    Attributes
    ----------
    sq_norms : ndarray of shape (n_frequencies,)
        Squared norms of the frequencies.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.frequencies import Frequencies
    >>> frequencies = Frequencies(np.array([[3.0, 0.0], [4.0, 1.0]]))
    >>> frequencies.apply(np.array([[1.0, 1.0]]))
    array([[7., 1.]])
    >>> frequencies.sq_norms
    array([25.,  1.])
    """

    def __init__(self, weights: np.ndarray):
        self.weights = np.ascontiguousarray(weights)  # products are twice as fast
        self.sq_norms = np.einsum("lm,lm->m", weights, weights)

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies."""
        return self.weights.shape[1]

    @property
    def n_features(self) -> int:
        """Dimension of the frequencies."""
        return self.weights.shape[0]

    @property
    def dtype(self) -> np.dtype:
        """The floating type."""
        return self.sq_norms.dtype

    def apply(self, X: Rows, out: np.ndarray | None = None) -> np.ndarray:
        """Apply the frequencies to rows.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_samples, n_features)
            Rows x.
        out : ndarray of shape (n_samples, n_frequencies), default=None
            Room that may be written to and returned.

        Returns
        -------
        projection : ndarray of shape (n_samples, n_frequencies)
            The inner products w.x.
        """
        if isinstance(X, np.ndarray):
            return np.matmul(X, self.weights, out=out)
        return safe_sparse_dot(X, self.weights, dense_output=True)

    def of_shift(self, shift: np.ndarray) -> np.ndarray:
        """Return the inner products with a vector that many rows are shifted by.

        Parameters
        ----------
        shift : ndarray of shape (n_features,)
            The vector.

        Returns
        -------
        products : ndarray of shape (n_frequencies,)
            Kept until another vector comes: they may cost more than the products with
            a chunk of sparse rows.
        """
        known, products = self.__dict__.get("_of_shift", (None, None))
        if known is None or known.dtype != shift.dtype or np.any(known != shift):
            products = self.apply(shift[None, :])[0]
            self.__dict__["_of_shift"] = shift.copy(), products
        return products

    def __getstate__(self) -> dict[str, object]:
        """Return the state without what is made again."""
        return {k: v for k, v in self.__dict__.items() if k != "_of_shift"}

    def stack(self, scale: float, offsets: np.ndarray) -> np.ndarray | None:
        """Return the matrix that maps (x, 1, r) to scale * w.x + offset + r, or None.

        Parameters
        ----------
        scale : float
            Multiplier of the inner products.
        offsets : ndarray of shape (n_frequencies,)
            Added to each column.

        Returns
        -------
        stacked : ndarray of shape (n_features + 2, n_frequencies) or None
            None where the frequencies are not applied as a matrix.
        """
        ones = np.ones_like(self.sq_norms)
        return np.vstack([scale * self.weights, offsets, ones])

    def to(self, dtype: DTypeLike) -> Frequencies:
        """Change the floating type.

        Parameters
        ----------
        dtype : dtype
            The type of the rows to come.

        Returns
        -------
        frequencies : Frequencies
            These, or a copy in that type; the squared norms keep the accuracy of these.
        """
        if self.dtype == dtype:
            return self
        moved = type(self).__new__(type(self))
        moved.weights = np.ascontiguousarray(self.weights, dtype=dtype)
        moved.sq_norms = self.sq_norms.astype(dtype)
        return moved

    def to_dense(self) -> np.ndarray:
        """Write the frequencies out.

        Returns
        -------
        weights : ndarray of shape (n_features, n_frequencies)
            One frequency a column.
        """
        return self.weights


@dataclass(frozen=True, eq=False)
class Affine:
    """The form scale * w.x + offset of each frequency, for ``UnitRows.affine``.

    Attributes
    ----------
    frequencies : Frequencies
        The w.
    scale : float
        Multiplier of the inner products.
    offsets : ndarray of shape (n_frequencies,)
        Added to each column, in the type of the frequencies.
    """

    frequencies: Frequencies
    scale: float
    offsets: np.ndarray

    @cached_property
    def stacked(self) -> np.ndarray | None:
        """What ``Frequencies.stack`` returns, made once."""
        return self.frequencies.stack(self.scale, self.offsets)
