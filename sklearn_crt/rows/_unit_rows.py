"""Rows of a table at unit bandwidth, the only thing a mechanism sees of X."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from ._linear import AffineForm, Linear
from ._scratch import Scratch

Rows: TypeAlias = np.ndarray | sparse.csr_matrix | sparse.csr_array
TableLike: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray  # X of users

_PAIRS = 4096  # whose differences are taken at a time


class UnitRows:
    """Rows x at unit bandwidth, without densifying a sparse table.

    A :class:`~sklearn_crt.rows.Frame` makes them. A mechanism reads from them what it
    needs: products with frequencies, norms, distances, columns.

    Parameters
    ----------
    rows : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The rows times sigma; centred ones where they are dense.
    shift : ndarray of shape (n_features,) or None, default=None
        What is still to be subtracted from sparse rows; None for zero.
    origin : ndarray of shape (n_features,) or None, default=None
        The centre times sigma, which raw rows have and these have not.
    scratch : Scratch or None, default=None
        Memory for products that are gone with the next rows.
    """

    _is_direct = True  # products with the rows are those with the stored matrix
    _scratch: Scratch | None = None

    def __init__(
        self,
        rows: Rows,
        shift: np.ndarray | None = None,
        origin: np.ndarray | None = None,
        scratch: Scratch | None = None,
    ):
        self._rows, self._shift, self._origin = rows, shift, origin
        self._scratch = scratch

    @property
    def dtype(self) -> np.dtype:
        """The floating type."""
        return self._rows.dtype

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self._rows.shape

    @property
    def scratch(self) -> Scratch | None:
        """Memory for products that are gone with the next rows."""
        return self._scratch

    @property
    def matrix(self) -> Rows:
        """The rows, sparse where the table is and nothing was subtracted."""
        if self._shift is None:
            return self._rows
        rows: sparse.csr_array = self._rows  # dense ones have no shift
        return np.asarray(rows.toarray() - self._shift)

    @property
    def stored(self) -> tuple[Rows, np.ndarray | None]:
        """The rows as they are held, and what is still to be subtracted from them."""
        return self._rows, self._shift

    @property
    def dense(self) -> np.ndarray:
        """The rows as an ndarray."""
        matrix = self.matrix
        return matrix if isinstance(matrix, np.ndarray) else matrix.toarray()

    def take(self, index: np.ndarray | slice) -> UnitRows:
        """Return some of the rows.

        Parameters
        ----------
        index : ndarray of int or slice
            Their numbers.

        Returns
        -------
        rows : UnitRows
            These rows, in the order of the numbers.
        """
        rest = self._shift, self._origin, self._scratch
        rows = UnitRows(self._rows[index], *rest)
        if "sq_norms" in self.__dict__:  # known already
            rows.__dict__["sq_norms"] = self.sq_norms[index]
        return rows

    def blocks(self, size: int) -> Iterator[tuple[slice, UnitRows]]:
        """Yield the rows in blocks, for products that stay in the cache.

        Parameters
        ----------
        size : int
            Number of rows of a block.

        Yields
        ------
        block : slice
            Which rows.
        rows : UnitRows
            These rows; all at once where parts of them cost more than they save.
        """
        n_rows = self.shape[0]
        if size >= n_rows or not self._is_direct or self._is_sparse:
            yield slice(None), self
            return
        for start in range(0, n_rows, size):
            block = slice(start, start + size)
            yield block, self.take(block)

    def room(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return an array for numbers that the next rows need no more.

        Parameters
        ----------
        name : str
            Of what it holds: rows with a scratch have one memory for each name.
        shape : tuple of int
            Its shape.

        Returns
        -------
        room : ndarray
            In the type of the rows, with any numbers in it.
        """
        if self._scratch is None:
            return np.empty(shape, self.dtype)
        return self._scratch.array(name, shape, self.dtype)

    def shifted(self, vector: np.ndarray) -> UnitRows:
        """Return these rows less a vector.

        Parameters
        ----------
        vector : ndarray of shape (n_features,)
            At unit bandwidth.

        Returns
        -------
        rows : UnitRows
            Sparse where these are.
        """
        vector = vector.astype(self.dtype)
        if self._is_sparse:
            shift = vector if self._shift is None else self._shift + vector
            return UnitRows(self._rows, shift)
        return UnitRows(self._rows - vector)

    def project(self, frequencies: Linear, *, brief: bool = False) -> np.ndarray:
        """Return the inner products with frequencies.

        Parameters
        ----------
        frequencies : Frequencies
            In the type of the rows.
        brief : bool, default=False
            Whether the next such call, on any rows, may overwrite the products.

        Returns
        -------
        projection : ndarray of shape (n_rows, n_frequencies)
            One w.x for each row and frequency, an array of the caller's own.
        """
        room = self._room(frequencies) if brief else None
        projection = frequencies.apply(self._rows, room)
        if self._shift is not None:
            projection -= frequencies.of_shift(self._shift)
        return projection

    def affine(
        self, form: AffineForm, row_term: np.ndarray, out: np.ndarray
    ) -> np.ndarray:
        """Write scale * w.x + offset + row_term to out, and return it.

        Parameters
        ----------
        form : Affine
            Frequencies with their scale and offsets; one product where they are
            stacked.
        row_term : ndarray of shape (n_rows, 1)
            Added to each row.
        out : ndarray of shape (n_rows, n_frequencies)
            Overwritten.

        Returns
        -------
        out : ndarray of shape (n_rows, n_frequencies)
            The argument.
        """
        if self._is_direct and form.stacked is not None and not self._is_sparse:
            rows = self._with_columns(row_term)
            return np.matmul(rows, form.stacked, out=out)
        if self._is_direct and self._is_sparse:
            return self._sparse_affine(form, row_term, out)
        projection = self.project(form.frequencies, brief=True)
        np.multiply(projection, form.scale, out=out)
        out += form.offsets
        out += row_term
        return out

    def _sparse_affine(
        self, form: AffineForm, row_term: np.ndarray, out: np.ndarray
    ) -> np.ndarray:
        """Write the same for sparse rows: what is dense in it is one row."""
        offsets, scale = form.offsets, self.dtype.type(form.scale)
        if self._shift is not None:
            offsets = offsets - scale * form.frequencies.of_shift(self._shift)
        rows = _with_data(self._rows, scale * self._rows.data)
        room = self._room(form.frequencies)
        np.add(form.frequencies.apply(rows, room), offsets, out=out)
        out += row_term
        return out

    def _room(self, frequencies: Linear) -> np.ndarray | None:
        """Return memory for products, where these rows have some."""
        if self._scratch is None:
            return None
        return self.room("projection", (self.shape[0], frequencies.n_frequencies))

    def _with_columns(self, row_term: np.ndarray) -> np.ndarray:
        """Return the rows (x, 1, r)."""
        n_rows, d = self.shape
        rows = self.room("stacked", (n_rows, d + 2))
        rows[:, :d] = self._rows
        rows[:, d] = 1
        # a product with minus infinity is invalid; squares may overflow in float32
        least = np.finfo(row_term.dtype).min / 4
        np.maximum(row_term, least, out=rows[:, d + 1 :])
        return rows

    @property
    def _is_sparse(self) -> bool:
        return sparse.issparse(self._rows)

    @cached_property
    def sq_norms(self) -> np.ndarray:
        """Squared norms of the centred rows, (n_rows, 1)."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = self._squares
        if not math.isfinite(squares.max(initial=0)):
            raise ValueError(
                "Input X contains values whose squares, at the bandwidth in use, are "
                f"too large for {self.dtype}. Scale the columns, for instance with "
                "StandardScaler."
            )
        return squares

    @property
    def _squares(self) -> np.ndarray:
        if isinstance(self._rows, np.ndarray):  # narrow ones twice as fast as row_norms
            squares = np.square(self._rows, out=self.room("squares", self.shape))
            return squares @ np.ones((self.shape[1], 1), self.dtype)
        squares = row_norms(self._rows, squared=True)
        if self._shift is not None:
            squares = squares - 2 * (self._rows @ self._shift)
            squares = np.maximum(squares + self._shift @ self._shift, 0)
        return squares[:, None]

    @property
    def norm_bound(self) -> float:
        """A number that no norm is above, sooner found than the largest."""
        known = "sq_norms" in self.__dict__
        if isinstance(self._rows, np.ndarray) and self._rows.size and not known:
            largest = max(float(self._rows.max()), -float(self._rows.min()))
            return math.sqrt(self.shape[1]) * largest
        return math.sqrt(self.sq_norms.max(initial=0))

    @cached_property
    def raw_sq_norms(self) -> np.ndarray:
        """Squared norms of the rows before centring, (n_rows, 1)."""
        if self._origin is None:
            return self.sq_norms
        if self._shift is not None:
            return row_norms(self._rows, squared=True)[:, None]
        cross = (self._rows @ self._origin)[:, None]
        return self.sq_norms + 2 * cross + self._origin @ self._origin

    def times(self, matrix: np.ndarray | None) -> UnitRows:
        """Return the rows x' matrix, dense, without a centre.

        Parameters
        ----------
        matrix : ndarray of shape (n_features, n_columns) or None
            None for these rows themselves.

        Returns
        -------
        rows : UnitRows
            For differences of rows: what is subtracted from all of them is left out.
        """
        if matrix is None:
            return self
        return UnitRows(safe_sparse_dot(self._rows, matrix, dense_output=True))

    def project_in_double(self, frequencies: Linear, index: np.ndarray) -> np.ndarray:
        """Return w.x in float64 for some of the frequencies.

        Parameters
        ----------
        frequencies : Frequencies
            In any type.
        index : ndarray of int
            Which of them.

        Returns
        -------
        projection : ndarray of shape (n_rows, n_index), float64
            The inner products.
        """
        weights = frequencies.to_dense()[:, index].astype(np.float64)
        return safe_sparse_dot(self._rows.astype(np.float64), weights)

    def scaled(self, sigma: float) -> UnitRows:
        """Return sigma times these rows, whose products are taken from these.

        Parameters
        ----------
        sigma : float
            The factor.

        Returns
        -------
        rows : UnitRows
            Products with the same frequencies are computed once for all factors.
        """
        return _ScaledRows(self, sigma)

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> UnitRows:
        """Return the rows of function(x), coordinate by coordinate.

        Parameters
        ----------
        function : callable
            Takes and returns an array; need not be zero at zero.

        Returns
        -------
        rows : UnitRows
            Sparse where these are.
        """
        if isinstance(self._rows, np.ndarray):
            return UnitRows(function(self._rows), scratch=self._scratch)
        rows = self._rows
        none = np.zeros(rows.shape[1], rows.dtype)
        shift = none if self._shift is None else self._shift
        at_zero = function(-shift)  # where nothing is stored
        stored = function(rows.data - shift[rows.indices])
        return UnitRows(_with_data(rows, stored - at_zero[rows.indices]), -at_zero)

    def map_columns(self, factors: np.ndarray | float) -> UnitRows:
        """Return these rows with the columns times factors.

        Parameters
        ----------
        factors : float or ndarray of shape (n_features,)
            One for each column.

        Returns
        -------
        rows : UnitRows
            Their raw rows are themselves.
        """
        return UnitRows(times_columns(self.matrix, np.asarray(factors, self.dtype)))

    def columns(self) -> Iterator[np.ndarray]:
        """Yield the columns of the rows, each dense.

        Yields
        ------
        column : ndarray of shape (n_rows,)
            One coordinate of all rows.
        """
        if isinstance(self._rows, np.ndarray):
            yield from self._rows.T
            return
        rows = self._rows.tocsc()
        for j, (start, stop) in enumerate(pairwise(rows.indptr)):
            shift = 0.0 if self._shift is None else self._shift[j]
            column = np.full(rows.shape[0], -shift, dtype=rows.dtype)
            column[rows.indices[start:stop]] += rows.data[start:stop]
            yield column

    def inner(self, other: UnitRows, out: np.ndarray | None = None) -> np.ndarray:
        """Return the inner products with other rows.

        Parameters
        ----------
        other : UnitRows
            Of the same frame.
        out : ndarray of shape (n_rows, n_other), default=None
            Room that may be written to and returned.

        Returns
        -------
        products : ndarray of shape (n_rows, n_other)
            All x.y of pairs of rows.
        """
        if isinstance(self._rows, np.ndarray) and isinstance(other._rows, np.ndarray):
            product = np.matmul(self._rows, other._rows.T, out=out)
        else:
            product = safe_sparse_dot(self._rows, other._rows.T, dense_output=True)
        if self._shift is not None:  # both are sparse, with one shift
            product = product - (self._rows @ self._shift)[:, None]
            product = product - other._rows @ self._shift
            product = product + self._shift @ self._shift
        return product

    def sq_distances(
        self, other: UnitRows, out: np.ndarray | None = None
    ) -> np.ndarray:
        """Return the squared distances to other rows.

        Those of close pairs are taken from the differences of the rows: of
        ``|x|^2 + |y|^2 - 2 x.y`` half of the digits would be lost there.

        Parameters
        ----------
        other : UnitRows
            Of the same frame.
        out : ndarray of shape (n_rows, n_other), default=None
            Room that may be written to and returned.

        Returns
        -------
        squares : ndarray of shape (n_rows, n_other)
            ``|x - y|^2`` for all pairs.
        """
        norms = self.sq_norms, other.sq_norms.T  # first: they look at the range
        squares = self.inner(other, out)
        squares *= -2
        for term in norms:
            squares += term
        return self._mend_close_pairs(squares, other)

    def _mend_close_pairs(self, squares: np.ndarray, other: UnitRows) -> np.ndarray:
        share = math.sqrt(np.finfo(squares.dtype).eps)
        largest = self.sq_norms + other.sq_norms.max(initial=0)
        if other is self:
            np.fill_diagonal(squares, 0)
        if squares.min(initial=math.inf) >= share * largest.max(initial=0):
            return squares
        lost = squares < share * largest
        if other is self:
            np.fill_diagonal(lost, False)
        i, j = np.nonzero(lost)
        for start in range(0, i.size, _PAIRS):
            part = slice(start, start + _PAIRS)
            differences = self._rows[i[part]] - other._rows[j[part]]
            squares[i[part], j[part]] = row_norms(differences, squared=True)
        return squares

    def l1_distances(self, other: UnitRows) -> np.ndarray:
        """Return the L1 distances to other rows.

        Parameters
        ----------
        other : UnitRows
            Of the same frame.

        Returns
        -------
        distances : ndarray of shape (n_rows, n_other)
            The sums of ``|x_l - y_l|`` for all pairs.
        """
        return manhattan_distances(self._rows, other._rows)

    def pair_statistics(
        self, other: UnitRows
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return what kernels and variances of pairs depend on.

        Parameters
        ----------
        other : UnitRows
            Of the same frame.

        Returns
        -------
        total, sums, differences : ndarray of shape (n_rows, n_other)
            ``N = |x|^2 + |y|^2``, ``|x + y|^2`` and ``|x - y|^2`` of all pairs.
        """
        total = self.sq_norms + other.sq_norms.T
        twice = 2 * self.inner(other)
        differences = self._mend_close_pairs(total - twice, other)
        return total, np.maximum(total + twice, 0), differences


class _ScaledRows(UnitRows):
    """A number times other rows; what the path over sigma is made of."""

    _is_direct = False

    def __init__(self, base: UnitRows, sigma: float):
        self._base, self._sigma = base, sigma
        self._shift, self._origin = (
            None if vector is None else sigma * vector
            for vector in (base._shift, base._origin)
        )
        self._projections = base.__dict__.setdefault("_projections", {})

    @cached_property
    def _rows(self) -> Rows:  # type: ignore[override]  # made when asked for
        return self._base._rows * self._sigma

    def project(self, frequencies: Linear, *, brief: bool = False) -> np.ndarray:
        place = id(frequencies)
        if place not in self._projections:
            self._projections[place] = self._base.project(frequencies)
        return self._projections[place] * self._sigma

    @cached_property
    def sq_norms(self) -> np.ndarray:
        return self._base.sq_norms * self._sigma**2

    @cached_property
    def raw_sq_norms(self) -> np.ndarray:
        return self._base.raw_sq_norms * self._sigma**2


def times_columns(rows: Rows, factors: np.ndarray) -> Rows:
    """Return a table with the columns times factors.

    Parameters
    ----------
    rows : {ndarray, sparse matrix} of shape (n_rows, n_features)
        In CSR format where it is sparse.
    factors : ndarray of shape (n_features,) or ()
        In the type of the rows.

    Returns
    -------
    rows : {ndarray, sparse matrix} of shape (n_rows, n_features)
        Of the same kind.
    """
    if isinstance(rows, np.ndarray):
        return rows * factors
    of_entries = factors if factors.ndim == 0 else factors[rows.indices]
    return _with_data(rows, rows.data * of_entries)


def _with_data(rows: sparse.csr_array, data: np.ndarray) -> sparse.csr_array:
    """Return a sparse table with other numbers in the same places."""
    return type(rows)((data, rows.indices, rows.indptr), shape=rows.shape)
