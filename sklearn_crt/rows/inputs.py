"""Centred and scaled rows: dense, sparse, or arrays of other libraries.

Maps access rows only through this interface, which hides the differences between array
libraries.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.metrics.pairwise import manhattan_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from .._compat import cached_property
from ..arrays import loops
from ..arrays.loops import Workspace, with_terms
from ..arrays.namespaces import (
    Array,
    asarray_like,
    columns,
    float_types,
    namespace_of,
    sq_norms,
    transposed,
)
from ..arrays.validation import with_data

if TYPE_CHECKING:
    from ..frequencies import Affine, Frequencies

Rows: TypeAlias = np.ndarray | sparse.csr_matrix | sparse.csr_array
TableLike: TypeAlias = ArrayLike | sparse.spmatrix | sparse.sparray  # user input


class Inputs(ABC):
    """Rows multiplied by sigma, from which the origin sigma * center is subtracted."""

    _rows: Any  # rows as they are stored
    _origin: Any = None  # (1, n_features); None stands for zero
    _shift: np.ndarray | None = None  # still to be subtracted from sparse rows
    _workspace: Workspace | None = None
    _is_numpy = True  # whether the rows are a NumPy array or a SciPy matrix
    is_sparse = False  # whether the rows are stored as a sparse matrix
    shape: tuple[int, ...]  # leading axes, number of rows, number of columns
    dtype: Any  # the floating-point dtype

    @property
    @abstractmethod
    def matrix(self) -> Any:
        """The rows; sparse if the input is sparse and nothing was subtracted."""

    @property
    @abstractmethod
    def dense(self) -> Array:
        """The rows as a dense array."""

    def buffer(self, name: str, shape: tuple[int, ...]) -> Any:
        """Return an array that may be overwritten when the next rows are processed.

        The result is None for arrays of libraries other than NumPy.
        """
        if self._workspace is not None:
            return self._workspace.buffer(name, shape, self.dtype)
        return np.empty(shape, self.dtype) if self._is_numpy else None

    def output(self, width: int) -> Any:
        """Return the array into which the features of these rows may be written."""
        return self.buffer("features", (*self.shape[:-1], width))

    # ----------------------------------------------------------------- products
    @abstractmethod
    def project(self, frequencies: Frequencies) -> Array:
        """Return w.x for all rows and frequencies; later calls may overwrite it."""

    @abstractmethod
    def affine(self, form: Affine, row_term: Array, out: Any = None) -> Array:
        """Return scale * w.x + offset + row_term for each row and frequency."""

    @abstractmethod
    def project_in_double(self, frequencies: Frequencies, index: np.ndarray) -> Array:
        """Return w.x for some frequencies, in the widest floating-point dtype."""

    def project_in_order(self, frequencies: Frequencies, index: np.ndarray) -> Array:
        """Return w.x in the widest floating-point dtype, summed over columns in order.

        BLAS, in contrast, sums in another order for one row than for many rows.
        """
        weights = self._in_double(frequencies, index)
        xp = namespace_of(weights)
        total: Any = 0.0
        for j, column in enumerate(self.columns()):
            total = total + xp.astype(column, weights.dtype)[..., None] * weights[j, :]
        return total

    def _in_double(self, frequencies: Frequencies, index: np.ndarray) -> Array:
        """Return some frequencies in the widest floating-point dtype of a library."""
        weights = columns(frequencies.to_dense(), index)
        xp, wide = namespace_of(weights), float_types(weights)[0]
        return xp.astype(weights, wide)

    @cached_property
    @abstractmethod
    def sq_norms(self) -> Array:
        """Squared norms of the rows, (..., n_rows, 1)."""

    @cached_property
    @abstractmethod
    def raw_sq_norms(self) -> Array:
        """Squared norms of the rows before centring, (..., n_rows, 1)."""

    def zeros(self) -> Any:
        """Return a zero for each row, (..., n_rows, 1)."""
        return np.zeros((self.shape[0], 1), self.dtype)

    def sums_of_squares(self, factors: Array) -> Array:
        """Return sums of x^2 times factors: (n_features, k) -> (..., n_rows, k)."""
        return self.dense * self.dense @ factors

    # --------------------------------------------------------------- other rows
    @abstractmethod
    def take(self, index: Any) -> Inputs:
        """Return the rows with the given indices."""

    @abstractmethod
    def shifted(self, vector: Any) -> Inputs:
        """Return these rows minus a vector (..., 1, n_features)."""

    @abstractmethod
    def map(self, function: Callable[[Array], Array]) -> Inputs:
        """Apply a function to each coordinate of the rows."""

    @abstractmethod
    def scaled(self, sigma: float) -> Inputs:
        """Return these rows times sigma."""

    @abstractmethod
    def part_of_map(self) -> Inputs:
        """Return these rows with a zero origin, for a part of a composed map."""

    # ----------------------------------------------------- pairs, on the host alone
    @abstractmethod
    def inner(self, other: Inputs, out: np.ndarray | None = None) -> np.ndarray:
        """Return the inner products with other rows, (n_rows, n_other)."""

    def sq_distances(self, other: Inputs, out: np.ndarray | None = None) -> np.ndarray:
        """Return |x - y|^2 for all pairs of rows, accurate even for close pairs."""
        # norms are computed first, which raises an error for rows that are too large
        norms = self.sq_norms, other.sq_norms
        products = self.inner(other, out)
        return loops.sq_distances(self._rows, other._rows, products, norms)

    def equal(self, other: Inputs) -> np.ndarray:
        """Return which pairs of rows are equal, apart from rounding errors."""
        # -> (n_rows, n_other); equal rows may differ after a product with a matrix
        rounding = float(np.finfo(self.dtype).eps) ** 0.75
        return self.sq_distances(other) <= rounding**2 * self.sq_norms

    def l1_distances(self, other: Inputs) -> np.ndarray:
        """Return the sums of ``|x_l - y_l|`` for all pairs of rows."""
        # csr_matrix uses 32-bit indices, which the loop over sparse rows needs
        sides = (
            sparse.csr_matrix((rows.data, rows.indices, rows.indptr), rows.shape)
            if sparse.issparse(rows)
            else rows
            for rows in (self._rows, other._rows)
        )
        return manhattan_distances(*sides)

    def pair_statistics(self, other: Inputs) -> tuple[np.ndarray, ...]:
        """Return |x|^2 + |y|^2, |x + y|^2 and |x - y|^2 for all pairs of rows."""
        total = self.sq_norms + other.sq_norms.T
        sums = total + 2 * self.inner(other)
        return total, np.maximum(sums, 0), self.sq_distances(other)

    def times(self, matrix: np.ndarray | None) -> Inputs:
        """Return the rows times a matrix; any centre is ignored, because it cancels."""
        if matrix is None:
            return self
        return DenseInputs(safe_sparse_dot(self._rows, matrix, dense_output=True))

    @abstractmethod
    def columns(self) -> Iterator[Array]:
        """Yield the columns of the rows as dense arrays (..., n_rows)."""

    def _checked(self, squares: np.ndarray) -> np.ndarray:
        """Return squared norms, or raise an error if one is too large for its dtype."""
        if not math.isfinite(squares.max(initial=0)):
            raise ValueError(
                "Input X contains values whose squares, after multiplication by sigma, "
                f"are too large for {self.dtype}. Scale the columns, for instance with "
                "StandardScaler."
            )
        return squares


class DenseInputs(Inputs):
    """Rows as an array of any library, with any number of leading axes."""

    def __init__(
        self, rows: Array, origin: Any = None, workspace: Workspace | None = None
    ):
        self._rows, self._origin, self._workspace = rows, origin, workspace
        self.shape, self.dtype = rows.shape, rows.dtype
        self._is_numpy = isinstance(rows, np.ndarray)

    @property
    def matrix(self) -> Array:
        return self._rows

    @property
    def dense(self) -> Array:
        return self._rows

    def project(self, frequencies: Frequencies) -> Array:
        shape = (*self.shape[:-1], frequencies.n_frequencies)
        return frequencies.apply(self._rows, self.buffer("projection", shape))

    def affine(self, form: Affine, row_term: Array, out: Any = None) -> Array:
        stacked, rows = form.stacked, self._rows
        if stacked is None:
            return _add_terms(self.project(form.frequencies), form, row_term, out)
        # one product: (..., n, d + 2), (..., d + 2, m) -> (..., n, m)
        if self._is_numpy:
            return np.matmul(with_terms(rows, row_term, self.buffer), stacked, out=out)
        xp = namespace_of(rows)
        whole = xp.concat([rows, xp.ones_like(row_term), row_term], axis=-1)
        return xp.matmul(whole, stacked)

    def zeros(self) -> Any:
        return namespace_of(self._rows).zeros_like(self._rows[..., :1])

    def project_in_double(self, frequencies: Frequencies, index: np.ndarray) -> Array:
        weights = self._in_double(frequencies, index)
        return namespace_of(weights).astype(self._rows, weights.dtype) @ weights

    @cached_property
    def sq_norms(self) -> Array:
        if not self._is_numpy:
            return sq_norms(self._rows)
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.square(self._rows, out=self.buffer("squares", self.shape))
            squares = squares @ np.ones((self.shape[-1], 1), self.dtype)
        return self._checked(squares)

    @cached_property
    def raw_sq_norms(self) -> Array:
        if self._origin is None:
            return self.sq_norms
        cross = self._rows @ transposed(self._origin)
        return self.sq_norms + 2 * cross + sq_norms(self._origin)

    def take(self, index: Any) -> Inputs:
        rows = DenseInputs(self._rows[index, ...], self._origin, self._workspace)
        if "sq_norms" in self.__dict__:  # already computed
            rows.__dict__["sq_norms"] = self.sq_norms[index, ...]
        return rows

    def shifted(self, vector: Any) -> Inputs:
        return DenseInputs(self._rows - asarray_like(vector, self._rows))

    def scaled(self, sigma: float) -> Inputs:
        return DenseInputs(self._rows * sigma)

    def map(self, function: Callable[[Array], Array]) -> Inputs:
        return DenseInputs(function(self._rows), workspace=self._workspace)

    def part_of_map(self) -> Inputs:
        return DenseInputs(self._rows)

    def inner(self, other: Inputs, out: np.ndarray | None = None) -> np.ndarray:
        if other.is_sparse:
            return safe_sparse_dot(self._rows, other._rows.T, dense_output=True)
        if not self._is_numpy:
            return self._rows @ transposed(other._rows)
        return np.matmul(self._rows, other._rows.T, out=out)

    def columns(self) -> Iterator[Array]:
        for j in range(self.shape[-1]):
            yield self._rows[..., j]


class SparseInputs(Inputs):
    """Rows of a CSR matrix, whose centre is stored separately."""

    is_sparse = True

    def __init__(
        self,
        rows: sparse.csr_array,
        shift: np.ndarray | None = None,
        workspace: Workspace | None = None,
    ):
        self._rows, self._shift, self._origin = rows, shift, shift
        self.shape, self.dtype = rows.shape, rows.dtype
        self._workspace = workspace

    @property
    def matrix(self) -> Rows:
        return self._rows if self._shift is None else self.dense

    @property
    def dense(self) -> np.ndarray:
        rows = self._rows.toarray()
        return rows if self._shift is None else rows - self._shift

    @property
    def stored(self) -> tuple[sparse.csr_array, np.ndarray]:
        """The stored rows, and the vector that is still to be subtracted."""
        if self._shift is None:
            return self._rows, np.zeros(self.shape[1], self.dtype)
        return self._rows, self._shift

    def project(self, frequencies: Frequencies) -> np.ndarray:
        shape = self.shape[0], frequencies.n_frequencies
        projection = frequencies.apply(self._rows, self.buffer("projection", shape))
        if self._shift is not None:
            projection -= frequencies.of_shift(self._shift)
        return projection

    def affine(self, form: Affine, row_term: np.ndarray, out: Any = None) -> np.ndarray:
        # scaling the sparse entries is cheaper than scaling dense products
        offsets, scale = form.offsets, self.dtype.type(form.scale)
        if self._shift is not None:
            offsets = offsets - scale * form.frequencies.of_shift(self._shift)
        rows = with_data(self._rows, scale * self._rows.data)
        shape = self.shape[0], form.frequencies.n_frequencies
        buffer = self.buffer("projection", shape)
        out = np.add(form.frequencies.apply(rows, buffer), offsets, out=out)
        out += row_term
        return out

    def project_in_double(self, frequencies: Frequencies, index: np.ndarray) -> Array:
        weights = self._in_double(frequencies, index)
        products = safe_sparse_dot(self._rows.astype(np.float64), weights)
        if self._shift is not None:
            products -= self._shift.astype(np.float64) @ weights
        return products

    @cached_property
    def sq_norms(self) -> np.ndarray:
        if self._shift is None:
            return self._checked(row_norms(self._rows, squared=True)[:, None])
        # in float32, cancellation of the three terms would be severe far from zero
        rows, shift = (a.astype(np.float64) for a in (self._rows, self._shift))
        with np.errstate(over="ignore", invalid="ignore"):
            squares = row_norms(rows, squared=True) - 2 * (rows @ shift)
            squares = np.maximum(squares + shift @ shift, 0).astype(self.dtype)
        return self._checked(squares[:, None])

    @cached_property
    def raw_sq_norms(self) -> np.ndarray:
        return row_norms(self._rows, squared=True)[:, None]

    def sums_of_squares(self, factors: Array) -> Array:
        if self._shift is not None:
            return super().sums_of_squares(factors)
        return self._rows.multiply(self._rows).tocsr() @ factors

    def take(self, index: Any) -> Inputs:
        return SparseInputs(self._rows[index], self._shift, self._workspace)

    def shifted(self, vector: Any) -> Inputs:
        vector = np.ravel(vector).astype(self.dtype)
        shift = vector if self._shift is None else self._shift + vector
        return SparseInputs(self._rows, shift)

    def scaled(self, sigma: float) -> Inputs:
        shift = None if self._shift is None else sigma * self._shift
        return SparseInputs(self._rows * sigma, shift)

    def map(self, function: Callable[[np.ndarray], np.ndarray]) -> Inputs:
        rows, shift = self.stored
        at_zero = function(-shift)  # function value for entries that are not stored
        stored = function(rows.data - shift[rows.indices])
        data = stored - at_zero[rows.indices]
        return SparseInputs(with_data(rows, data), -at_zero)

    def part_of_map(self) -> Inputs:
        return (
            SparseInputs(self._rows) if self._shift is None else DenseInputs(self.dense)
        )

    def inner(self, other: Inputs, out: np.ndarray | None = None) -> np.ndarray:
        product = safe_sparse_dot(self._rows, other._rows.T, dense_output=True)
        if self._shift is not None:  # both are sparse, with the same shift
            product = product - (self._rows @ self._shift)[:, None]
            product = product - other._rows @ self._shift
            product = product + self._shift @ self._shift
        return product

    def columns(self) -> Iterator[np.ndarray]:
        rows, shift = self._rows.tocsc(), self.stored[1]
        for j, (start, stop) in enumerate(pairwise(rows.indptr)):
            column = np.full(rows.shape[0], -shift[j], dtype=rows.dtype)
            column[rows.indices[start:stop]] += rows.data[start:stop]
            yield column


def _add_terms(projection: Array, form: Affine, row_term: Array, out: Any) -> Array:
    """Return scale * projection + offsets + row_term."""
    if not isinstance(projection, np.ndarray):
        return projection * form.scale + form.offsets + row_term
    out = np.multiply(projection, form.scale, out=out)
    out += form.offsets
    out += row_term
    return out
