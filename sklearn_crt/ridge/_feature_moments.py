"""Features of rows, computed chunk by chunk in threads, and their moments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._values import Value
from ..arrays.loops import Workspace, exp_features
from ..arrays.threads import blas_within_processors, effective_n_threads, in_threads
from ..maps import FeatureMap
from ..rows import Rows, type_for_weights
from ..rows.row_sample import distinct_rows
from ..sums.map_sums import map_of, third_party_features

# The Gram matrix is accumulated block by block. A block has _ROWS_A_COLUMN times as
# many rows as columns, or fewer if the block would exceed _BLOCK_BYTES, but at least
# _LEAST_ROWS. If blocks were smaller, adding their products would take longer than
# computing them.
_LEAST_ROWS, _ROWS_A_COLUMN, _BLOCK_BYTES = 256, 2, 2**25
# Equal rows are merged if at most this proportion of rows, estimated from a sample of
# this size, is distinct.
_MOST_DISTINCT, _SAMPLED = 0.5, 1000


# ------------------------------------------------------------------------- features
def width_of(path: Sequence[Any]) -> int | None:
    """Return the number of features, or None if unknown until they are computed."""
    source = map_of(path[0])
    return source.n_components if isinstance(source, FeatureMap) else None


def by_threads(function: Any, path: Sequence[Any], X: Rows) -> list[Any]:
    """Return a function's results for consecutive parts of the rows, using threads."""
    width = width_of(path)
    if path[0] is not None and width is None:
        # transformers of other packages manage their own threads
        return [blas_within_processors(X.shape[0])(function, slice(None))]
    n_threads = effective_n_threads(None, X.shape[0], width or X.shape[1])
    return in_threads(function, X.shape[0], n_threads)


def chunks_of(
    path: Sequence[Any], X: Rows
) -> Iterator[tuple[slice, Iterator[np.ndarray]]]:
    """Yield chunks of rows, and the features that each sampler computes from them."""
    sources = [map_of(member) for member in path]
    if not isinstance(sources[0], FeatureMap):
        for rows, features, _ in third_party_features(sources[0], X):
            yield rows, iter((features,))
        return
    for source in sources:
        source.frame.check(X)
    with np.errstate(over="ignore"):  # the callers check for infinite values
        paths = [s.iter_log_features(X, workspace=Workspace()) for s in sources]
        for chunk in zip(*paths, strict=True):
            yield chunk[0][0], (exp_features(*features) for _, *features in chunk)


def features_of(path: Sequence[Any], X: Rows) -> list[np.ndarray]:
    """Return the features that each sampler computes from all rows."""
    blocks: list[list[np.ndarray]] = [[] for _ in path]
    for _, features in chunks_of(path, X):
        for found, Z in zip(blocks, features, strict=True):
            found.append(Z.copy())  # the next chunk overwrites Z
    return [np.concatenate(found) for found in blocks]


def apply_to_features(
    sampler: Any,
    X: Rows,
    function: Callable[[np.ndarray, Rows], tuple[np.ndarray, ...]],
) -> list[np.ndarray]:
    """Return the arrays that a function computes from features (float64) and rows."""
    path = (sampler,)

    def of_part(part: slice) -> list[tuple[np.ndarray, ...]]:
        found, own = [], X[part]
        for rows, (Z,) in chunks_of(path, own):
            if not np.isfinite(Z).all():
                raise ValueError(
                    f"Features of some rows are too large for {Z.dtype}. Scale the "
                    "columns, or use float64."
                )
            wide = Z.astype(np.float64, copy=False)
            found.append(function(wide, own[rows]))
        return found

    blocks = [block for part in by_threads(of_part, path, X) for block in part]
    return [np.concatenate(each) for each in zip(*blocks, strict=True)]


# -------------------------------------------------------------------------- moments
def block_size(n_columns: int, dtype: np.dtype) -> int:
    """Return the number of rows whose products are computed at once."""
    most = _BLOCK_BYTES // max(1, n_columns * dtype.itemsize)
    return max(_LEAST_ROWS, min(_ROWS_A_COLUMN * n_columns, most))


@dataclass(frozen=True, eq=False)
class Gram(Value):
    """A sum of products of rows, F'F, where F has one row per training row.

    F is stored instead of the D x D sum of products as long as it has fewer than D
    rows, because it takes less memory, and decompositions of its Gram matrix FF' take
    less time.
    """

    root: np.ndarray | None = None  # F, (n, D) in float64, with n < D
    products: np.ndarray | None = None  # F'F, (D, D); None if F is stored

    @classmethod
    def of_rows(cls, rows: np.ndarray) -> Gram:
        """Return the Gram matrix of weighted rows in float64."""
        if len(rows) < rows.shape[1]:
            return cls(root=rows)
        return cls(products=rows.T @ rows)

    @property
    def trace(self) -> float:
        """The sum of squares of all entries of F."""
        if self.root is not None:
            return float(np.vdot(self.root, self.root))
        assert self.products is not None
        return float(np.trace(self.products))

    def matrix(self) -> np.ndarray:
        """Return F'F, which must not be modified."""
        if self.root is not None:
            return self.root.T @ self.root
        assert self.products is not None
        return self.products

    def __add__(self, other: Gram) -> Gram:
        """Return the Gram matrix of the rows of both."""
        if self.root is not None and other.root is not None:
            return Gram.of_rows(np.concatenate([self.root, other.root]))
        full = self.matrix().copy() if self.root is None else self.matrix()
        full += other.matrix()
        return Gram(products=full)

    def with_row(self, row: np.ndarray) -> Gram:
        """Return the Gram matrix that includes another row of F."""
        if self.root is not None:
            return Gram.of_rows(np.vstack([self.root, row]))
        return Gram(products=np.outer(row, row) + self.matrix())

    def divided_by(self, unit: float) -> Gram:
        """Return the Gram matrix for weights that are divided by ``unit``."""
        if unit == 1:
            return self
        if self.root is not None:
            return Gram(root=self.root / np.sqrt(unit))
        return Gram(products=self.matrix() / unit)


@dataclass(frozen=True, eq=False, kw_only=True)
class Moments:
    """Weight, means and centred products of features Z and targets Y, in float64.

    ``a + b`` combines the moments of two sets of rows by the formula of Chan, Golub and
    LeVeque (1979). Rows are centred before products are computed, which avoids
    cancellation.
    """

    weight: float
    z_mean: np.ndarray  # (D,)
    y_mean: np.ndarray  # (k,)
    gram: Gram  # products of Z with Z
    cross: np.ndarray  # (D, k), products of Z with Y
    squares: np.ndarray  # (k,), sums of squares of Y
    least: np.ndarray  # (k,), minima of Y
    most: np.ndarray  # (k,), maxima of Y
    eps: float  # machine epsilon of the dtype of the features
    n_rows: int  # number of rows, regardless of their weights
    # rounding error of the Gram matrix, relative to its largest eigenvalue, if products
    # were computed in single precision although the features are in double precision;
    # otherwise 0
    gram_eps: float = 0.0

    def __add__(self, other: Moments) -> Moments:
        """Return the moments of the combined rows."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight else 0.0
        z, y = other.z_mean - self.z_mean, other.y_mean - self.y_mean
        gram = self.gram + other.gram
        if share * self.weight > 0:
            gram = gram.with_row(np.sqrt(share * self.weight) * z)
        return Moments(
            weight=weight,
            z_mean=self.z_mean + share * z,
            y_mean=self.y_mean + share * y,
            gram=gram,
            cross=self.cross + other.cross + np.outer(z, y * (share * self.weight)),
            squares=self.squares + other.squares + share * self.weight * y**2,
            least=np.minimum(self.least, other.least),
            most=np.maximum(self.most, other.most),
            eps=max(self.eps, other.eps),
            n_rows=self.n_rows + other.n_rows,
            gram_eps=max(self.gram_eps, other.gram_eps),
        )

    def about_zero(self) -> Moments:
        """Return the uncentred moments, for models without an intercept."""
        z, y, weight = self.z_mean, self.y_mean, self.weight
        return replace(
            self,
            z_mean=np.zeros_like(z),
            y_mean=np.zeros_like(y),
            gram=self.gram.with_row(np.sqrt(weight) * z),
            cross=self.cross + weight * np.outer(z, y),
            squares=self.squares + weight * y**2,
        )

    def divided_by(self, unit: float) -> Moments:
        """Return the moments for weights that are divided by ``unit``."""
        names = "weight", "cross", "squares"
        divided = {name: getattr(self, name) / unit for name in names}
        return replace(self, gram=self.gram.divided_by(unit), **divided)


class MomentSums:
    """Accumulator of moments of rows, centred at the mean of the first chunk.

    Products are computed in the dtype of the features, for blocks of several chunks,
    and accumulated in float64. If all rows are in one block and there are fewer rows
    than features, the rows themselves are kept instead of their products.

    If ``gram_eps`` is given, products are computed in single precision although the
    features are in double precision. It is then the rounding error of the Gram matrix,
    relative to its largest eigenvalue.
    """

    def __init__(self, gram_eps: float | None = None) -> None:
        self._weight, self._eps, self._n_rows = 0.0, 0.0, 0
        self._gram_eps = gram_eps
        self._workspace = Workspace()
        self._n_in_block = 0

    def add(self, Z: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        """Add a chunk of rows with positive weights, which may be empty."""
        # Z (n, D), Y (n, k), weights (n,)
        known = Z.dtype in (np.float32, np.float64)
        dtype = Z.dtype if known else np.dtype(np.float64)
        dtype = type_for_weights(weights, dtype) if len(weights) else dtype
        Z = Z.astype(dtype, copy=False)
        if self._gram_eps is not None and len(weights):
            dtype = type_for_weights(weights, np.dtype(np.float32))
        if self._weight == 0:
            self._start(Z, Y, weights / (weights.sum() or 1.0))
        self._eps = max(self._eps, float(np.finfo(Z.dtype).eps))
        self._weight += float(weights.sum())
        self._n_rows += len(weights)
        centred, targets, roots = self._space_for(len(Z), dtype)
        np.subtract(Z, self._z_shift.astype(Z.dtype), out=centred)
        residuals = Y - self._y_shift
        self._z_sum += weights.astype(dtype) @ centred
        self._y_sum += weights @ residuals
        np.minimum(self._least, Y.min(axis=0, initial=np.inf), out=self._least)
        np.maximum(self._most, Y.max(axis=0, initial=-np.inf), out=self._most)
        with np.errstate(over="ignore"):
            self._squares += weights @ np.square(residuals)
        roots[:] = np.sqrt(weights)
        if np.any(weights != 1):
            centred *= roots[:, None].astype(dtype)
            residuals *= roots[:, None]
        targets[:] = residuals

    def _start(self, Z: np.ndarray, Y: np.ndarray, share: np.ndarray) -> None:
        n_columns, n_outputs = Z.shape[1], Y.shape[1]
        # the shift is rounded to the dtype of the features, in which it is subtracted
        self._z_shift = (share @ Z).astype(Z.dtype).astype(np.float64)
        self._y_shift = share @ Y
        self._z_sum, self._y_sum = np.zeros(n_columns), np.zeros(n_outputs)
        self._gram: np.ndarray | None = None  # before the first block is added
        self._cross = np.zeros((n_columns, n_outputs))
        self._squares = np.zeros(n_outputs)
        self._least, self._most = self._y_shift + np.inf, self._y_shift - np.inf
        self._new_block(0, Z.dtype)

    def _new_block(self, n_rows: int, dtype: np.dtype) -> None:
        """Allocate memory for the features and targets of a block of rows."""
        n_columns, n_outputs = self._cross.shape
        n_rows = max(n_rows, block_size(n_columns, dtype))
        self._block = np.empty((n_rows, n_columns), dtype)
        self._targets = np.empty((n_rows, n_outputs))
        self._roots = np.empty(n_rows)  # square roots of the weights

    def _space_for(
        self, n_rows: int, dtype: np.dtype
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return views of the block for features, targets and roots of more rows."""
        if dtype != self._block.dtype or self._n_in_block + n_rows > len(self._block):
            self._add_products()
        if dtype != self._block.dtype or n_rows > len(self._block):
            self._new_block(n_rows, dtype)
        rows = slice(self._n_in_block, self._n_in_block + n_rows)
        self._n_in_block += n_rows
        return self._block[rows], self._targets[rows], self._roots[rows]

    def _add_products(self) -> None:
        """Add the products of the rows in the block to the sums, and empty it."""
        centred = self._block[: self._n_in_block]
        targets = self._targets[: self._n_in_block]
        self._n_in_block = 0
        n_columns = centred.shape[1]
        if self._gram is None:
            self._gram = np.zeros((n_columns, n_columns))
        product = self._workspace.buffer("product", self._gram.shape, centred.dtype)
        # Targets are divided by powers of two, which is exact, because those of other
        # units could be too small or too large for the dtype of the features.
        _, exponents = np.frexp(np.abs(targets).max(axis=0, initial=0))
        units = np.ldexp(1.0, exponents)
        scaled = (targets / units).astype(centred.dtype, copy=False)
        # moments() reports overflow
        with np.errstate(over="ignore", invalid="ignore"):
            self._gram += np.matmul(centred.T, centred, out=product)
            self._cross += (centred.T @ scaled) * units

    def moments(self) -> Moments:
        """Return the moments of all rows; call it once, as sums are overwritten."""
        weight = self._weight or 1.0  # there may be no rows
        z, y = self._z_sum / weight, self._y_sum / weight
        with np.errstate(over="ignore", invalid="ignore"):
            gram = self._centred_gram(z)
            self._cross -= np.outer(z, self._y_sum)
        size = gram.trace if gram.root is not None else gram.matrix()
        sums = size, self._cross, self._squares
        if not all(np.isfinite(each).all() for each in sums):
            raise ValueError(
                "Products of features, or of features and targets, are too large for "
                "their type. Scale the columns and the targets, or use float64."
            )
        squares = np.maximum(self._squares - y * self._y_sum, 0)
        return Moments(
            weight=self._weight,
            z_mean=self._z_shift + z,
            y_mean=self._y_shift + y,
            gram=gram,
            cross=self._cross,
            squares=squares,
            least=self._least,
            most=self._most,
            eps=self._eps,
            n_rows=self._n_rows,
            gram_eps=self._gram_eps or 0.0,
        )

    def _centred_gram(self, z: np.ndarray) -> Gram:
        """Add the last block to the products, and return the centred Gram matrix.

        ``z`` is the mean of the features relative to the shift.
        """
        if self._gram is None and self._n_in_block < len(z):
            part = slice(self._n_in_block)
            rows = self._block[part].astype(np.float64)
            self._cross += rows.T @ self._targets[part]
            rows -= self._roots[part, None] * z
            return Gram(root=rows)
        self._add_products()
        assert self._gram is not None
        self._gram -= np.multiply.outer(z, self._z_sum)
        return Gram(products=self._gram)


# ---------------------------------------------------------------------- equal rows


class MergedRows(NamedTuple):
    """The distinct rows of a batch, with the mean targets of the rows equal to each."""

    X: Rows  # (n_distinct, n_features)
    Y: np.ndarray  # (n_distinct, k)
    weights: np.ndarray  # (n_distinct,)
    # what the moments of distinct rows lack: sums of squares about the mean targets,
    # and the bounds of the targets
    squares: np.ndarray  # (k,)
    least: np.ndarray  # (k,)
    most: np.ndarray  # (k,)
    counts: np.ndarray  # (n_distinct,), numbers of rows

    def completed(self, moments: Moments, group: slice | np.ndarray) -> Moments:
        """Return the moments of all rows, given those of some of the distinct rows.

        If not all rows are in the group, equal rows must have equal targets.
        """
        n_rows = int(self.counts[group].sum())
        if not isinstance(group, slice):
            return replace(moments, n_rows=n_rows)
        return replace(
            moments,
            squares=moments.squares + self.squares,
            least=self.least,
            most=self.most,
            n_rows=n_rows,
        )


def merged_rows(
    X: Rows, Y: np.ndarray, weights: np.ndarray, *, by_sign: bool
) -> MergedRows | None:
    """Return the distinct rows, or None if most rows are distinct.

    With ``by_sign``, rows count as equal only if their targets have the same sign.
    """
    # Y (n, k), weights (n,)
    n_rows = len(Y)
    if not isinstance(X, np.ndarray) or n_rows < 2:
        return None
    few = X[:: max(1, n_rows // _SAMPLED)]
    if len(distinct_rows(few)[0]) > _MOST_DISTINCT * len(few):
        return None
    first, places = distinct_rows(X, Y[:, 0] > 0 if by_sign else None)
    totals = np.bincount(places, weights)
    entries = weights / totals[places], (places, np.arange(n_rows))
    means = csr_array(entries, shape=(len(first), n_rows)) @ Y
    return MergedRows(
        X=X[first],
        Y=means,
        weights=totals,
        squares=weights @ (Y - means[places]) ** 2,
        least=Y.min(axis=0),
        most=Y.max(axis=0),
        counts=np.bincount(places),
    )
