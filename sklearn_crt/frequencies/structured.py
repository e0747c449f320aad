"""Orthogonal and simplex frequencies from fast transforms instead of rotations."""

from __future__ import annotations

import copy
import math
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy import linalg, sparse

from ..arrays.namespaces import asarray_like, namespace_of
from .base import Coupling, Frequencies, register
from .radial_laws import Family
from .simplex import apply_simplex

_IN_FLIGHT = 2**16  # number of array elements in a chunk that fits in the CPU cache


@lru_cache
def _factors(size: int, dtype: np.dtype) -> list[np.ndarray]:
    """Return orthonormal Hadamard matrices whose Kronecker product has this size."""
    bits = size.bit_length() - 1
    # larger factors require more operations, and smaller factors require more calls
    n_factors = 1 + (bits > 5) + (bits > 9)
    sizes = (2 ** ((bits + i) // n_factors) for i in range(n_factors))
    return [(linalg.hadamard(n) / math.sqrt(n)).astype(dtype) for n in sizes]


def hadamard_transform(
    values: np.ndarray, buffer: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Multiply rows by the orthonormal Walsh-Hadamard matrix, factor by factor."""
    # values, buffer (n_rows, size) -> (n_rows, size)
    size = right = values.shape[1]
    for matrix in _factors(size, values.dtype):
        n = len(matrix)
        right //= n
        if right == 1:
            np.matmul(values.reshape(-1, n), matrix, out=buffer.reshape(-1, n))
        else:
            shape = (-1, n, right)
            np.matmul(matrix, values.reshape(shape), out=buffer.reshape(shape))
        values, buffer = buffer, values
    return values, buffer


class HadamardFrequencies(Frequencies):
    """Blocks of frequencies that are stored as fast transforms instead of a matrix.

    A block maps a row x, padded with zeros, to norms * S H D_3 H D_2 H D_1 x. Here S is
    the identity or the simplex matrix, H is the orthonormal Walsh-Hadamard matrix and
    the D_i are diagonal matrices of random signs.
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

    def apply(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        *leading, d = X.shape
        if out is None:
            dtype = np.result_type(X.dtype, self._norms.dtype)
            out = np.empty((*leading, self.n_frequencies), dtype=dtype)
        flat = X if sparse.issparse(X) else X.reshape(-1, d)
        self._write(flat, out.reshape(-1, self.n_frequencies))
        return out

    def _write(self, X: Any, out: np.ndarray) -> None:
        """Write the products to out; sparse rows are made dense chunk by chunk."""
        _, n_blocks, size = self._signs.shape
        chunk = max(1, _IN_FLIGHT // size)
        for start in range(0, X.shape[0], chunk):
            rows = slice(start, min(start + chunk, X.shape[0]))
            part = X[rows].toarray() if sparse.issparse(X) else X[rows]
            # number of blocks that are processed at once
            group = max(1, chunk // len(part))
            for first in range(0, n_blocks, group):
                columns = slice(first * size, (first + group) * size)
                norms = self._norms[columns]  # the last block may be incomplete
                unit = self._unit_products(part, slice(first, first + group), out.dtype)
                np.multiply(unit[:, : norms.size], norms, out=out[rows, columns])

    def _unit_products(
        self, X: np.ndarray, group: slice, dtype: np.dtype
    ) -> np.ndarray:
        """Return the inner products of rows with the unit vectors of some blocks."""
        signs = self._signs[:, group]
        n_rows, (_, n_blocks, size) = len(X), signs.shape
        values = np.empty((2, n_rows, n_blocks, size), dtype)
        values, buffer = values.reshape(2, n_rows * n_blocks, size)
        for product, sign in enumerate(signs):
            blocks = values.reshape(n_rows, n_blocks, size)
            if product == 0:
                used = blocks[:, :, : self._n_features]
                np.multiply(X[:, None], sign[:, : self._n_features], out=used)
                blocks[:, :, self._n_features :] = 0
            else:
                blocks *= sign
            values, buffer = hadamard_transform(values, buffer)
        if self._simplex:
            values = apply_simplex(values)
        return values.reshape(n_rows, n_blocks * size)

    def stack(self, scale: float, offsets: Any) -> None:
        return None

    def to(self, like: Any) -> Frequencies:
        if namespace_of(like) is not namespace_of(self._norms):
            return Frequencies(self.to_dense()).to(like)
        if self.dtype == like.dtype:
            return self
        moved = copy.copy(self)
        for name in ("_signs", "_norms", "sq_norms"):
            setattr(moved, name, asarray_like(getattr(self, name), like))
        return moved

    def to_dense(self) -> np.ndarray:
        return self.apply(np.eye(self._n_features, dtype=self._norms.dtype))


class GivensFrequencies(HadamardFrequencies):
    """Blocks of frequencies that are stored as products of Givens rotations.

    A block maps a row x to norms * S R x. Here R is a product of rounds, each of which
    rotates disjoint random pairs of coordinates by random angles.
    """

    def __init__(
        self, angles: np.ndarray, orders: np.ndarray, norms: np.ndarray, simplex: bool
    ):
        # angles, orders (n_rounds, n_blocks, n_features); the first half of the angles
        # are those of the pairs that the halves of an order form
        self._orders = orders
        super().__init__(angles, norms, angles.shape[2], simplex)

    def _unit_products(
        self, X: np.ndarray, group: slice, dtype: np.dtype
    ) -> np.ndarray:
        angles, orders = self._signs[:, group], self._orders[:, group]
        n_rows, (_, n_blocks, d) = len(X), angles.shape
        half, out = d // 2, np.empty((n_rows, n_blocks, d), dtype)
        step = max(1, _IN_FLIGHT // (2 * n_rows * d))
        for start in range(0, n_blocks, step):
            some = slice(start, min(start + step, n_blocks))
            size = some.stop - start
            # the coordinates in all these blocks, as contiguous rows
            values = np.tile(np.ascontiguousarray(X.T, dtype), (size, 1))
            places = orders[:, some] + d * np.arange(size)[:, None]
            first = places[:, :, :half].reshape(len(places), -1)
            second = places[:, :, half : 2 * half].reshape(len(places), -1)
            angle = angles[:, some, :half].reshape(len(places), -1, 1)
            cos, sin = np.cos(angle).astype(dtype), np.sin(angle).astype(dtype)
            for i, j, c, s in zip(first, second, cos, sin, strict=True):
                a, b = values[i], values[j]
                values[i], values[j] = c * a - s * b, s * a + c * b
            out[:, some] = values.T.reshape(n_rows, size, d)
        if self._simplex:
            out = apply_simplex(out)
        return out.reshape(n_rows, n_blocks * d)


_MIN_SIZE = 16  # for smaller sizes, the products are not close to random rotations


@register("structured-orthogonal")
class StructuredOrthogonal(Coupling):
    r"""Blocks of orthogonal frequencies that cost O(d log d) per block and row.

    The random rotation of ``Orthogonal`` is replaced by :math:`H D_3 H D_2 H D_1`,
    where the :math:`D_i` are diagonal matrices of random signs and H is the orthonormal
    Walsh-Hadamard matrix. Rows are padded with zeros to the dimension d', the smallest
    power of two that is at least d and at least 16. A block has d' frequencies, whose
    norms have the distribution for dimension d'. The frequencies are orthogonal in the
    padded dimension, that is, before their last d' - d coordinates are dropped [1]_.

    Parameters
    ----------
    rotation : {"hadamard", "givens"}, default="hadamard"
        The kind of fast rotation. With ``"givens"``, it is a product of random Givens
        rotations, each of which rotates two coordinates by a random angle [2]_. It
        needs no padding (d' = d), but takes longer than Hadamard products.

    Attributes
    ----------
    exact : bool
        Always False, because the directions are only approximately uniform.
    bias : float
        Always 0.01: for rows of norm 0.7 and every d, the relative bias of an estimate
        of the Gaussian kernel is less than 1 %. The bias decreases with d' and
        increases with the norm of the rows.

    Notes
    -----
    The product of Givens rotations consists of :math:`2 \lceil\log_2 d\rceil + 6`
    rounds, each of which rotates d/2 disjoint random pairs of coordinates.

    If d or m is at most 256, the frequencies are stored as a matrix, because a dense
    product is faster. Otherwise only the signs and norms are stored, about 5 m numbers
    in total. In both cases, memory use is O(m + d).

    References
    ----------
    .. [1] K. Choromanski, M. Rowland, A. Weller, "The Unreasonable Effectiveness of
       Structured Random Orthogonal Embeddings", NeurIPS 2017, :arxiv:`1703.00864`.
    .. [2] Reid et al., "Simplex Random Features", ICML 2023, section 4.2,
       :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import StructuredOrthogonal, chi_law
    >>> rng = np.random.default_rng(0)
    >>> frequencies = StructuredOrthogonal().draw(chi_law, 1000, 512, rng)
    >>> frequencies.apply(np.ones((3, 512))).shape
    (3, 1000)
    """

    exact = False
    bias = 0.01  # the bias is at most 0.007 in dimension 16, at distance 1.4
    _simplex = False
    _n_products = 3
    # number of columns, or of frequencies, up to which a dense product is faster
    _dense_up_to = 256

    def __init__(self, rotation: str = "hadamard"):
        if rotation not in ("hadamard", "givens"):
            raise ValueError(
                f"rotation={rotation!r} must be 'hadamard' or 'givens', the two kinds "
                "of fast rotations."
            )
        self.rotation = rotation

    def __repr__(self) -> str:
        other = "rotation='givens'" if self.rotation == "givens" else ""
        return f"{type(self).__name__}({other})"

    def _size(self, n_features: int) -> int:
        """Return the size d' of a block."""
        if self.rotation == "givens":
            return n_features
        return max(_MIN_SIZE, 1 << (n_features - 1).bit_length())

    def block_sizes(self, n_frequencies: int, n_features: int) -> np.ndarray:
        size = self._size(n_features)
        full, rest = divmod(n_frequencies, size)
        return np.array([size] * full + [rest] * (rest > 0))

    def cosine(self, n_features: int) -> float | None:
        return 0.0 if n_features == self._size(n_features) else None

    def draw(
        self, radial_law: Family, n_frequencies: int, n_features: int, rng: Generator
    ) -> Frequencies:
        signs_rng, norms_rng = rng.spawn(2)
        size = self._size(n_features)
        norms = radial_law(size).rvs(n_frequencies, random_state=norms_rng)
        if self.rotation == "givens":
            n_rounds = 2 * (size - 1).bit_length() + 6
            shape = (-(-n_frequencies // size), n_rounds, size)
            angles_rng, orders_rng = signs_rng.spawn(2)
            angles = 2 * math.pi * angles_rng.random(shape)
            orders = np.argsort(orders_rng.random(shape), axis=2)
            frequencies = GivensFrequencies(
                np.ascontiguousarray(np.swapaxes(angles, 0, 1)),
                np.ascontiguousarray(np.swapaxes(orders, 0, 1)),
                norms,
                self._simplex,
            )
            return self._stored(frequencies)
        # drawn block by block: the first signs must not depend on the number of blocks
        shape = (-(-n_frequencies // size), self._n_products, size)
        signs = 2.0 * signs_rng.integers(0, 2, shape, dtype=np.int8) - 1
        signs = np.ascontiguousarray(np.swapaxes(signs, 0, 1))
        products = HadamardFrequencies(signs, norms, n_features, self._simplex)
        return self._stored(products)

    def _stored(self, frequencies: HadamardFrequencies) -> Frequencies:
        """Return the frequencies as a matrix if a product with it is faster."""
        size = min(frequencies.n_features, frequencies.n_frequencies)
        if size > self._dense_up_to:
            return frequencies
        return Frequencies(frequencies.to_dense())


@register("structured-simplex")
class StructuredSimplex(StructuredOrthogonal):
    r"""Blocks of simplex frequencies that cost O(d log d) per block and row.

    The product of matrices in ``StructuredOrthogonal`` is also multiplied by the
    simplex matrix S, which takes O(d') operations per block and row. The frequencies of
    a block then point to the vertices of a simplex in the padded dimension d', and the
    cosine between any two of them is :math:`-1 / (d' - 1)` [1]_.

    Parameters
    ----------
    rotation : {"hadamard", "givens"}, default="hadamard"
        The kind of fast rotation, as in ``StructuredOrthogonal``.

    Attributes
    ----------
    exact, bias : bool, float
        ``exact`` is always False, and ``bias`` is always 0.01.

    References
    ----------
    .. [1] Reid et al., "Simplex Random Features", ICML 2023, section 3.3,
       :arxiv:`2301.13856`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_crt.extend import StructuredSimplex, chi_law
    >>> rng = np.random.default_rng(0)
    >>> W = StructuredSimplex().draw(chi_law, 16, 16, rng).to_dense()
    >>> unit = W / np.linalg.norm(W, axis=0)
    >>> round(float(unit[:, 0] @ unit[:, 1]), 4)  # -1 / 15
    -0.0667
    """

    _simplex = True

    def cosine(self, n_features: int) -> float | None:
        size = self._size(n_features)
        return -1 / (size - 1) if n_features == size else None
