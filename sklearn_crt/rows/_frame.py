"""From raw rows to rows at unit bandwidth: the only place where sigma multiplies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse

from ._chunks import row_chunks
from ._scratch import Scratch
from ._unit_rows import Rows, UnitRows, times_columns

_NARROW, _MANY = 16, 2048  # columns and rows: the loop takes longer than the sums


@dataclass(frozen=True, eq=False)
class Frame:
    """The affine map sigma * (X - center) of the rows.

    Parameters
    ----------
    sigma : float or ndarray of shape (n_features,), default=1.0
        Multiplier of the columns, one over a length.
    center : ndarray of shape (n_features,) or None, default=None
        Subtracted first; None for zero.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.rows import Frame
    >>> frame = Frame(sigma=2.0, center=np.array([1.0, 0.0]))
    >>> frame.rows(np.array([[1.5, 3.0]])).matrix
    array([[1., 6.]])
    """

    sigma: float | np.ndarray = 1.0
    center: np.ndarray | None = None

    @cached_property
    def is_identity(self) -> bool:
        """Whether rows at unit bandwidth are the raw rows."""
        return self.center is None and np.ndim(self.sigma) == 0 and self.sigma == 1

    def rows(self, X: Rows, scratch: Scratch | None = None) -> UnitRows:
        """Return the rows at unit bandwidth; sparse ones stay sparse.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Raw rows, float32 or float64.
        scratch : Scratch, default=None
            Memory for dense rows and for products with them, which are gone with the
            next rows.

        Returns
        -------
        rows : UnitRows
            In the type of X.
        """
        sigma, center = np.asarray(self.sigma, dtype=X.dtype), self.center
        origin = None if center is None else (sigma * center).astype(X.dtype)
        if sparse.issparse(X):
            shift = None if center is None else sigma * center.astype(X.dtype)
            rows = times_columns(_canonical(X), sigma)
            return UnitRows(rows, shift, origin, scratch)
        if self.is_identity:
            return UnitRows(X, scratch=scratch)
        if scratch is None:
            rows = np.empty(X.shape, X.dtype)
        else:
            rows = scratch.array("rows", X.shape, X.dtype)
        if center is None:
            return UnitRows(_each_row(np.multiply, X, sigma, rows), scratch=scratch)
        # subtracted here: no cancellation in w.x - w.c
        _each_row(np.subtract, X, center.astype(X.dtype), rows)
        _each_row(np.multiply, rows, sigma, rows)
        return UnitRows(rows, None, origin, scratch)

    def holds(self, X: Rows) -> bool:
        """Return whether all numbers are finite, and plainly all squares of rows.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Raw rows, float32 or float64.

        Returns
        -------
        in_range : bool
            Where it is False, ``check`` looks closer.
        """
        values = X.data if sparse.issparse(X) else X.ravel(order="K")
        with np.errstate(all="ignore"):
            squares = float(np.dot(values, values)) * self._largest**2
        return squares < 0.1 * float(np.finfo(X.dtype).max)

    def check(self, X: Rows) -> None:
        """Raise an error where the square of a row is too large for its type.

        Parameters
        ----------
        X : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Raw rows, float32 or float64.

        Raises
        ------
        ValueError
            If it is, at unit bandwidth.
        """
        if not self.holds(X):
            for rows in row_chunks(X.shape[0], X.shape[1], X.dtype.itemsize):
                _ = self.rows(X[rows]).sq_norms

    @cached_property
    def _largest(self) -> float:
        return max(1.0, float(np.max(self.sigma)))

    def pair(self, X: Rows, Y: Rows | None) -> tuple[UnitRows, UnitRows]:
        """Return two sets of rows in float64, one and the same where Y is None.

        Parameters
        ----------
        X, Y : {ndarray, sparse matrix} of shape (n_rows, n_features)
            Raw rows; both sparse or both dense, or made so.

        Returns
        -------
        queries, keys : UnitRows
            In float64.
        """
        X, Y = (None if Z is None else Z.astype(np.float64, copy=False) for Z in (X, Y))
        if Y is not None and sparse.issparse(X) != sparse.issparse(Y):
            # sparse rows are not centred until their products are taken
            kind: type[sparse.csr_array] = type(X) if sparse.issparse(X) else type(Y)
            X, Y = (Z if sparse.issparse(Z) else kind(Z) for Z in (X, Y))
        queries = self.rows(X)
        return queries, queries if Y is None else self.rows(Y)

    def inside(self, rows: UnitRows) -> UnitRows:
        """Return the rows of this frame for rows of another: maps of maps.

        Parameters
        ----------
        rows : UnitRows
            Rows at unit bandwidth, which are the raw rows of this frame.

        Returns
        -------
        rows : UnitRows
            The same object where this frame changes nothing.
        """
        return rows if self.is_identity else self.rows(rows.matrix)

    def with_sigma(self, sigma: float | np.ndarray) -> Frame:
        """Return the frame of another sigma.

        Parameters
        ----------
        sigma : float or ndarray of shape (n_features,)
            The multiplier.

        Returns
        -------
        frame : Frame
            A new value.
        """
        return replace(self, sigma=sigma)


def _canonical(X: sparse.csr_array) -> sparse.csr_array:
    """Return the table with one entry for each place: squares need their sums."""
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _each_row(
    operation: np.ufunc, X: np.ndarray, vector: np.ndarray, out: np.ndarray
) -> np.ndarray:
    """Return operation(X, vector); NumPy takes several narrow rows as a long one."""
    n_rows, d = X.shape
    few = d > _NARROW or n_rows < _MANY
    if vector.ndim == 0 or few or not X.flags.c_contiguous:
        return operation(X, vector, out=out)
    n = 8 * _NARROW // d
    whole, wide = n_rows - n_rows % n, (-1, n * d)
    several = X[:whole].reshape(wide), np.tile(vector, n)
    operation(*several, out=out[:whole].reshape(wide))
    operation(X[whole:], vector, out=out[whole:])
    return out
