"""Rows of a table at unit bandwidth, the only thing a mechanism sees of X."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot

_PAIRS = 4096  # whose differences are taken at a time


class UnitRows:
    """Rows x = sigma * (X - center), without densifying a sparse X.

    Parameters
    ----------
    X : ndarray or CSR of shape (n_rows, n_features)
        Raw rows.
    sigma : float or ndarray of shape (n_features,)
        Multiplier of the columns.
    center : ndarray of shape (n_features,) or None
        Subtracted first; None for zero.
    frequencies : Projection or None
        Those to apply, in the type of X; None where only kernels are wanted.
    stacked : ndarray or None
        What ``frequencies.stack`` returned, for ``affine``.
    """

    def __init__(self, X, sigma, center, frequencies=None, stacked=None):
        self.frequencies, self._stacked = frequencies, stacked
        sigma = np.asarray(sigma, dtype=X.dtype)
        if sparse.issparse(X):
            columns = np.broadcast_to(sigma, X.shape[1])
            self._shift = None if center is None else columns * center.astype(X.dtype)
            self._rows = X @ sparse.diags(columns).tocsr()
        else:
            self._shift = None  # subtracted here: no cancellation in w.x - w.c
            if center is None:
                plain = sigma.ndim == 0 and sigma == 1
                self._rows = X if plain else X * sigma
            else:
                self._rows = X - center.astype(X.dtype)
                self._rows *= sigma
        self._center = None if center is None else (sigma * center).astype(X.dtype)

    @property
    def matrix(self):
        """The rows, sparse where X is and nothing was subtracted."""
        if self._shift is None:
            return self._rows
        return np.asarray(self._rows.toarray() - self._shift)

    @cached_property
    def projection(self):
        """w.x for each row and frequency, (n_rows, n_frequencies)."""
        projection = self.frequencies.apply(self._rows)
        if self._shift is not None:
            projection -= self.frequencies.apply(self._shift[None, :])
        return projection

    def affine(self, scale, offsets, row_term, out):
        """Write scale * w.x + offset + row_term to out, and return it.

        ``scale`` and ``offsets`` are those of ``stacked``, where that is given: then
        all is one product.
        """
        if self._stacked is not None and not sparse.issparse(self._rows):
            rows = np.hstack([self._rows, np.ones_like(row_term), row_term])
            return np.matmul(rows, self._stacked, out=out)
        np.multiply(self.projection, scale, out=out)
        out += offsets
        out += row_term
        return out

    @cached_property
    def sq_norms(self):
        """Squared norms of the centred rows, (n_rows, 1)."""
        squares = row_norms(self._rows, squared=True)
        if self._shift is not None:
            squares = squares - 2 * (self._rows @ self._shift)
            squares = np.maximum(squares + self._shift @ self._shift, 0)
        return squares[:, None]

    @cached_property
    def raw_sq_norms(self):
        """Squared norms of the rows before centring, (n_rows, 1)."""
        if self._center is None:
            return self.sq_norms
        if self._shift is not None:
            return row_norms(self._rows, squared=True)[:, None]
        cross = (self._rows @ self._center)[:, None]
        return self.sq_norms + 2 * cross + self._center @ self._center

    def times(self, matrix):
        """Return the rows x' matrix, dense; these rows where the matrix is None."""
        if matrix is None:
            return self
        product = UnitRows.__new__(UnitRows)
        product.frequencies, product._center, product._shift = None, None, None
        product._rows = safe_sparse_dot(self._rows, matrix, dense_output=True)
        return product

    def project_in_double(self, index):
        """Return w.x in float64 for the frequencies of these numbers."""
        weights = self.frequencies.to_dense()[:, index].astype(np.float64)
        return safe_sparse_dot(self._rows.astype(np.float64), weights)

    def scaled(self, sigma):
        """Return sigma times these rows, for a number, from the products of these."""
        return _ScaledRows(self, sigma)

    def map(self, function, frequencies=None):
        """Return the rows of function(x), coordinate by coordinate.

        ``frequencies`` are those that its ``projection`` applies.
        """
        mapped = UnitRows.__new__(UnitRows)
        mapped.frequencies, mapped._stacked = frequencies, None
        mapped._center = mapped._shift = None
        if not sparse.issparse(self._rows):
            mapped._rows = function(self._rows)
            return mapped
        rows = mapped._rows = self._rows.copy()
        none = np.zeros(rows.shape[1], rows.dtype)
        shift = none if self._shift is None else self._shift
        at_zero = function(-shift)  # where nothing is stored
        stored = function(rows.data - shift[rows.indices])
        rows.data = stored - at_zero[rows.indices]
        mapped._shift = -at_zero
        return mapped

    def map_columns(self, factors):
        """Return these rows with the columns times factors, and the frequencies."""
        factors = np.asarray(factors, dtype=self._rows.dtype)
        return UnitRows(self.matrix, factors, None, self.frequencies)

    def columns(self):
        """Yield the columns of the centred rows, each dense, (n_rows,)."""
        if not sparse.issparse(self._rows):
            yield from self._rows.T
            return
        rows = self._rows.tocsc()
        for j, (start, stop) in enumerate(pairwise(rows.indptr)):
            shift = 0.0 if self._shift is None else self._shift[j]
            column = np.full(rows.shape[0], -shift, dtype=rows.dtype)
            column[rows.indices[start:stop]] += rows.data[start:stop]
            yield column

    def inner(self, other: UnitRows):
        """Inner products of the centred rows, (n_rows, n_other)."""
        product = safe_sparse_dot(self._rows, other._rows.T, dense_output=True)
        if self._shift is not None:  # both are sparse, with one shift
            product = product - (self._rows @ self._shift)[:, None]
            product = product - other._rows @ self._shift
            product = product + self._shift @ self._shift
        return product

    def sq_distances(self, other: UnitRows):
        """Return |x - y|^2 of all pairs, of close ones from the differences."""
        squares = self.inner(other)
        squares *= -2
        squares += self.sq_norms
        squares += other.sq_norms.T
        # |x|^2 + |y|^2 - 2 x.y has lost half of the digits or more there
        lost = squares < 1e-8 * (self.sq_norms + other.sq_norms.max(initial=0))
        if other is self:
            np.fill_diagonal(lost, False)
            np.fill_diagonal(squares, 0)
        i, j = np.nonzero(lost)
        for start in range(0, i.size, _PAIRS):
            part = slice(start, start + _PAIRS)
            differences = self._rows[i[part]] - other._rows[j[part]]
            squares[i[part], j[part]] = row_norms(differences, squared=True)
        return squares

    def l1_distances(self, other: UnitRows):
        """Return |x - y|_1 of all pairs."""
        return manhattan_distances(self._rows, other._rows)

    def pair_statistics(self, other: UnitRows):
        """Return N = |x|^2 + |y|^2, |x + y|^2 and |x - y|^2 of all pairs."""
        total = self.sq_norms + other.sq_norms.T
        twice = 2 * self.inner(other)
        sums, differences = np.maximum(total + twice, 0), np.maximum(total - twice, 0)
        if other is self:
            np.fill_diagonal(differences, 0)
        return total, sums, differences


class _ScaledRows(UnitRows):
    """A number times other rows; what the path over sigma is made of."""

    def __init__(self, base, sigma):
        self.frequencies, self._stacked = base.frequencies, None
        self._base, self._sigma = base, sigma
        self._center, self._shift = (
            None if vector is None else sigma * vector
            for vector in (base._center, base._shift)
        )

    @cached_property
    def _rows(self):
        return self._base._rows * self._sigma

    @cached_property
    def projection(self):
        return self._base.projection * self._sigma

    @cached_property
    def sq_norms(self):
        return self._base.sq_norms * self._sigma**2

    @cached_property
    def raw_sq_norms(self):
        return self._base.raw_sq_norms * self._sigma**2
