"""Products with random signs and Walsh-Hadamard matrices, in place of a rotation."""

from __future__ import annotations

import copy
import math
from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg

from ..rows import Rows
from ._frequencies import Frequencies
from ._simplex import apply_simplex

_SCRATCH = 2**16  # numbers in flight, which stay in the cache
_DENSE = 2**19  # numbers of sparse rows written out


@lru_cache
def _factors(size: int, dtype: np.dtype) -> list[np.ndarray]:
    """Return orthonormal Hadamard matrices whose Kronecker product has this size."""
    bits = size.bit_length() - 1
    n_factors = 1 + (bits > 5) + (bits > 9)  # larger waste work, smaller calls
    sizes = (2 ** ((bits + i) // n_factors) for i in range(n_factors))
    return [(linalg.hadamard(n) / math.sqrt(n)).astype(dtype) for n in sizes]


def hadamard_transform(
    values: np.ndarray, scratch: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Multiply rows by the orthonormal Walsh-Hadamard matrix, as small products.

    Parameters
    ----------
    values, scratch : ndarray of shape (n_rows, size), contiguous
        Rows, of a size that is a power of two, and room; both are overwritten.

    Returns
    -------
    product, rest : ndarray of shape (n_rows, size)
        The product, which is one of the two arrays, and the other.
    """
    size = right = values.shape[1]
    for matrix in _factors(size, values.dtype):
        n = len(matrix)
        right //= n
        if right == 1:
            np.matmul(values.reshape(-1, n), matrix, out=scratch.reshape(-1, n))
        else:
            shape = (-1, n, right)
            np.matmul(matrix, values.reshape(shape), out=scratch.reshape(shape))
        values, scratch = scratch, values
    return values, scratch


class HadamardFrequencies(Frequencies):
    """Blocks of frequencies that are applied by fast transforms, never written out.

    A block maps x, padded with zeros, to norms * S H D_3 H D_2 H D_1 x, with diagonal
    matrices D of random signs, H the orthonormal Walsh-Hadamard matrix, and S the
    identity or the simplex matrix.

    Parameters
    ----------
    signs : ndarray of shape (n_products, n_blocks, padded_size)
        Ones and minus ones, those applied first in front.
    norms : ndarray of shape (n_frequencies,)
        Norms of the frequencies in the padded dimension.
    n_features : int
        Number of columns of the rows.
    simplex : bool
        Whether S is the simplex matrix.

    Attributes
    ----------
    sq_norms : ndarray of shape (n_frequencies,)
        Squared norms of the frequencies without the padded coordinates.
    """

    def __init__(
        self, signs: np.ndarray, norms: np.ndarray, n_features: int, simplex: bool
    ):
        self._signs, self._norms = signs, norms
        self._n_features, self._simplex = n_features, simplex
        if n_features == signs.shape[2]:
            self.sq_norms = norms**2
            return
        self.sq_norms = np.zeros_like(norms)
        for start in range(0, n_features, 16):
            part = self.apply(np.eye(min(16, n_features - start), n_features, start))
            self.sq_norms += np.einsum("lm,lm->m", part, part)

    @property
    def n_frequencies(self) -> int:
        return self._norms.size

    @property
    def n_features(self) -> int:
        return self._n_features

    def apply(self, X: Rows, out: np.ndarray | None = None) -> np.ndarray:
        n_rows, dtype = X.shape[0], np.result_type(X.dtype, self._norms.dtype)
        if out is None:
            out = np.empty((n_rows, self.n_frequencies), dtype=dtype)
        # sparse rows are written out, more at a time than are in flight
        step = n_rows if isinstance(X, np.ndarray) else _DENSE // X.shape[1]
        for start in range(0, n_rows, max(1, step)):
            rows = slice(start, start + max(1, step))
            part = X[rows]
            dense = part if isinstance(part, np.ndarray) else part.toarray()
            self._write(dense, out[rows])
        return out

    def _write(self, X: np.ndarray, out: np.ndarray) -> None:
        """Write the products of dense rows to out."""
        _, n_blocks, size = self._signs.shape
        chunk = max(1, _SCRATCH // size)
        for start in range(0, len(X), chunk):
            rows = slice(start, min(start + chunk, len(X)))
            part = X[rows]
            group = max(1, chunk // len(part))  # blocks at once
            for first in range(0, n_blocks, group):
                columns = slice(first * size, (first + group) * size)
                norms = self._norms[columns]  # fewer in a last partial block
                signs = self._signs[:, first : first + group]
                unit = self._unit_products(part, signs, out.dtype)
                np.multiply(unit[:, : norms.size], norms, out=out[rows, columns])

    def _unit_products(
        self, X: np.ndarray, signs: np.ndarray, dtype: np.dtype
    ) -> np.ndarray:
        """Return the products of the rows with the directions of some blocks."""
        n_rows, (_, n_blocks, size) = len(X), signs.shape
        values = np.empty((2, n_rows, n_blocks, size), dtype)
        values, scratch = values.reshape(2, n_rows * n_blocks, size)
        for product, sign in enumerate(signs):
            blocks = values.reshape(n_rows, n_blocks, size)
            if product == 0:
                used = blocks[:, :, : self._n_features]
                np.multiply(X[:, None], sign[:, : self._n_features], out=used)
                blocks[:, :, self._n_features :] = 0
            else:
                blocks *= sign
            values, scratch = hadamard_transform(values, scratch)
        if self._simplex:
            values = apply_simplex(values)
        return values.reshape(n_rows, n_blocks * size)

    def stack(self, scale: float, offsets: np.ndarray) -> np.ndarray | None:
        return None

    def to(self, dtype: DTypeLike) -> Frequencies:
        if self.dtype == dtype:
            return self
        moved = copy.copy(self)
        for name in ("_signs", "_norms", "sq_norms"):
            setattr(moved, name, getattr(self, name).astype(dtype))
        return moved

    def to_dense(self) -> np.ndarray:
        return self.apply(np.eye(self._n_features, dtype=self._norms.dtype))
