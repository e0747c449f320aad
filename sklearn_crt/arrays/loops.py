"""Elementary computations for all array libraries, done in reused memory for NumPy.

Each function computes one formula. ``out``, and the arrays that the function ``buffer``
returns, are NumPy memory that may be overwritten. Both arguments are ignored for other
libraries. Arrays may have leading axes, such as an axis for the heads of attention.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy.sparse import issparse
from sklearn.utils import assert_all_finite
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from .namespaces import (
    Array,
    namespace_of,
    sq_norms,
    taken,
    to_host,
    transposed,
    without_gradient,
)
from .sincos import Buffer, has_fast_tangent

_PAIRS = 4096  # number of pairs of rows whose differences are computed at a time
_PAIR_ROWS = 2**6  # number of queries that are subtracted from all keys at a time
_KEPT_BYTES = 2**20  # maximum size of a buffer that is kept after a loop


# --------------------------------------------------------------------- reused memory


class Workspace:
    """Reusable memory for arrays that are only needed until the next chunk of rows.

    An allocator may request new pages from the operating system for each large array
    and return them afterwards, as glibc does with the settings of Dask workers. In this
    case, allocating an array for each chunk takes longer than the computation itself.
    A workspace must only be used by one loop in one thread.
    """

    def __init__(self) -> None:
        self._memory: dict[str, np.ndarray] = {}
        self._last: dict[str, np.ndarray] = {}  # the last array returned for each name
        self._lent: tuple[str, np.ndarray] | None = None

    def buffer(self, name: str, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray:
        """Return an array with arbitrary content, in memory that later calls reuse."""
        if self._lent is not None and self._lent[0] == name:
            array, self._lent = self._lent[1], None
            if array.shape == shape and array.dtype == dtype:
                return array
        last = self._last.get(name)
        if last is not None and last.shape == shape and last.dtype == dtype:
            return last
        dtype = np.dtype(dtype)
        n_bytes = math.prod(shape) * dtype.itemsize
        memory = self._memory.get(name)
        if memory is None or memory.size < n_bytes:
            memory = self._memory[name] = np.empty(n_bytes, np.uint8)
        self._last[name] = memory[:n_bytes].view(dtype).reshape(shape)
        return self._last[name]

    def lend(self, name: str, array: np.ndarray) -> None:
        """Make ``buffer`` return this array next time, to be filled with results."""
        self._lent = name, array

    def drop_large(self) -> None:
        """Delete buffers larger than 1 MiB."""
        for name in [*self._memory]:
            if self._memory[name].size > _KEPT_BYTES:
                del self._memory[name], self._last[name]
        self._lent = None


_kept = threading.local()


@contextmanager
def kept_workspace() -> Iterator[Workspace]:
    """Provide the workspace of this thread, which is kept to save allocations."""
    workspace = getattr(_kept, "workspace", None) or Workspace()
    _kept.workspace = None
    try:
        yield workspace
    finally:
        workspace.drop_large()
        _kept.workspace = workspace


# ------------------------------------------------------------------------- features
def exp_features(
    mantissa: Array | None, exponent: Array | None, out: np.ndarray | None = None
) -> Array:
    """Return mantissa * exp(exponent), and overwrite the exponent.

    A mantissa of None means 1, and an exponent of None means 0.
    """
    like = mantissa if exponent is None else exponent
    if not isinstance(like, np.ndarray):
        if exponent is None:
            return mantissa
        xp = namespace_of(exponent)
        features = xp.exp(exponent)
        if mantissa is None:
            return features
        lost = mantissa == 0
        # keep the finite products, whose gradients are needed
        if exponent.shape[-1] == 1:
            lost = lost & xp.isinf(features)
        features = mantissa * features
        # define zero times infinity as zero
        return xp.where(lost, xp.zeros_like(features), features)
    if exponent is None:
        if out is None or mantissa is out:
            return mantissa
        out[...] = mantissa
        return out
    if mantissa is None:
        return np.exp(exponent, out=out)
    scale = np.exp(exponent, out=exponent)
    if scale.shape[-1] == 1 and math.isinf(scale.max(initial=0)):
        # define zero times infinity as zero, because all columns share one scale
        mantissa = np.broadcast_to(mantissa, (*scale.shape[:-1], mantissa.shape[-1]))
        scale = np.where(mantissa == 0, 1, scale)
    return np.multiply(mantissa, scale, out=out)


def dense_product(rows: Any, weights: Array, out: np.ndarray | None = None) -> Array:
    """Return rows @ weights as a dense array, for dense and sparse rows."""
    if isinstance(rows, np.ndarray):
        return np.matmul(rows, weights, out=out)
    if issparse(rows):
        return safe_sparse_dot(rows, weights, dense_output=True)
    return namespace_of(rows).matmul(rows, weights)


def with_terms(
    rows: np.ndarray, row_term: np.ndarray, buffer: Buffer | None = None
) -> np.ndarray:
    """Return (x, 1, row_term) for each row x, the left factor of affine functions."""
    *leading, d = rows.shape
    shape = (*leading, d + 2)
    whole = np.empty(shape, rows.dtype) if buffer is None else buffer("stacked", shape)
    whole[..., :d] = rows
    whole[..., d] = 1
    # clip row terms, which may be infinite in float32, because 0 * inf would be NaN
    least = np.finfo(row_term.dtype).min / 4
    np.maximum(row_term, least, out=whole[..., d + 1 :])
    return whole


@cache
def fast_exponential() -> tuple[np.ufunc, float]:
    """Return the fastest exponential function of NumPy, and a factor for its argument.

    On machines where NumPy computes powers of two with vector instructions, computing
    them in float32 takes a third less time than computing exponentials.
    """
    return (np.exp2, 1 / math.log(2)) if has_fast_tangent() else (np.exp, 1.0)


def exp_products(
    left: np.ndarray, right: np.ndarray, out: np.ndarray, logs: np.ndarray | None = None
) -> np.ndarray:
    """Write exponentials of left @ right.T to ``out``, and the products to ``logs``.

    ``left`` must already be multiplied by the factor that ``fast_exponential`` returns.
    Results that would be subnormal or zero are replaced by approximately the smallest
    normal number, because computing them takes 7 to 40 times as long.
    """
    # left (n, d), right (m, d) -> (n, m)
    exponential, factor = fast_exponential()
    logs = np.matmul(left, right.T, out=out if logs is None else logs)
    least = _LEAST_NORMAL[logs.itemsize] * factor
    if logs.min() < least:
        np.maximum(logs, logs.dtype.type(least), out=logs)
    return exponential(logs, out=out)


def with_opposites(
    plus: Array, even: tuple[Array, Array], n_pairs: int, out: np.ndarray | None = None
) -> Array:
    """Return the exponents for w and for -w of pairs, then those of single frequencies.

    The exponent for -w is twice the part that is even in w (row term plus offset) minus
    the exponent for w. For NumPy, ``plus`` occupies the first columns of ``out``.
    """
    # plus (..., n, m), even (..., n, 1) and (..., 1, m) -> (..., n, m + n_pairs)
    row_term, offsets = even
    offsets = offsets[..., :n_pairs]
    if out is None or not isinstance(plus, np.ndarray):
        minus = 2 * (row_term + offsets) - plus[..., :n_pairs]
        parts = [plus[..., :n_pairs], minus, plus[..., n_pairs:]]
        return namespace_of(plus).concat(parts, axis=-1)
    out[..., 2 * n_pairs :] = plus[..., n_pairs:]
    minus = out[..., n_pairs : 2 * n_pairs]
    np.subtract(2 * row_term, out[..., :n_pairs], out=minus)
    minus += 2 * offsets
    return out


def log_magnitudes(x: Array, log_scale: float, of_zero: float) -> Array:
    """Return log|x| - log_scale, or the finite number ``of_zero`` where x = 0."""
    if isinstance(x, np.ndarray):
        magnitudes = np.abs(x)
        with np.errstate(divide="ignore"):
            logs = np.log(magnitudes, out=magnitudes)
        logs -= log_scale
        logs[logs == -np.inf] = of_zero
        return logs
    xp, zero = namespace_of(x), x == 0
    logs = xp.log(xp.where(zero, xp.ones_like(x), xp.abs(x))) - log_scale
    return xp.where(zero, xp.full_like(x, of_zero), logs)


# ----------------------------------------------------------------- sums in log space
_LEAST_LOG = {4: -1e37, 8: -1e300}  # finite substitute for log(0), by item size
# approximately the log of the smallest normal number, by item size
_LEAST_NORMAL = {4: -87.0, 8: -708.0}


def itemsize(array: Array) -> int:
    """Return the number of bytes per entry: 4 or 8."""
    if isinstance(array, np.ndarray):
        return array.itemsize
    return 8 if "float64" in str(array.dtype) else 4


def least_log(array: Array) -> float:
    """Return the finite number that represents log(0), so that no difference is NaN."""
    return _LEAST_LOG[itemsize(array)]


def least_normal_log(array: Array) -> float:
    """Return approximately the log of the smallest normal number."""
    return _LEAST_NORMAL[itemsize(array)]


class LogSum(NamedTuple):
    """Weighted sums of targets, each row of which is divided by exp(log_scale)."""

    values: Array  # (..., r, k)
    log_scale: Array  # (..., r, 1)

    def plus(self, other: LogSum) -> LogSum:
        """Return the sums of both objects, added with a common scale."""
        xp = namespace_of(self.values)
        log_scale = xp.maximum(self.log_scale, other.log_scale)
        mine, theirs = (
            part.values * xp.exp(part.log_scale - log_scale) for part in (self, other)
        )
        return LogSum(mine + theirs, log_scale)


def weights_from_logs(
    logs: Array,
    mantissa: Array | None = None,
    *,
    overwrite: bool = False,
    normal: bool = False,
) -> tuple[Array, Array]:
    """Return mantissa * exp(logs - maximum of each row), and the maxima.

    If ``overwrite`` is True, the result is written to the memory of one of the inputs.
    If ``normal`` is True, weights that would be subnormal or zero are replaced by the
    smallest normal number, because computations with subnormal numbers are slow. Rows
    in which all weights are zero are not changed.
    """
    # logs (..., r, s) -> (..., r, s), (..., r, 1)
    # The maxima are finite, even if all logs are minus infinity. No gradients flow
    # through them.
    if not isinstance(logs, np.ndarray):
        xp = namespace_of(logs)
        peak = without_gradient(xp.max(logs, axis=-1, keepdims=True))
        log_scale = xp.clip(peak, least_log(peak), None)
        weights = xp.exp(logs - log_scale)
        return weights if mantissa is None else mantissa * weights, log_scale
    log_scale = logs.max(axis=-1, keepdims=True)
    np.maximum(log_scale, _LEAST_LOG[logs.itemsize], out=log_scale)
    weights = np.subtract(logs, log_scale, out=logs if overwrite else None)
    if normal:
        size = weights.itemsize
        least = np.where(log_scale > _LEAST_LOG[size], _LEAST_NORMAL[size], -np.inf)
        np.maximum(weights, least.astype(weights.dtype), out=weights)
    np.exp(weights, out=weights)
    if mantissa is None:
        return weights, log_scale
    larger = mantissa if mantissa.size > weights.size else weights
    return np.multiply(mantissa, weights, out=larger if overwrite else None), log_scale


def log_sum(
    logs: Array,
    targets: Array,
    mantissa: Array | None = None,
    *,
    overwrite: bool = False,
    normal: bool = False,
    workspace: Workspace | None = None,
) -> LogSum:
    """Return sum_s mantissa exp(logs) targets, without overflow or underflow.

    Products are computed in the floating-point dtype of the targets.
    """
    # logs, mantissa (..., r, s), targets (..., s, k)
    options = {"overwrite": overwrite, "normal": normal}
    weights, log_scale = weights_from_logs(logs, mantissa, **options)
    return LogSum(in_type(weights, targets.dtype, workspace) @ targets, log_scale)


def in_type(
    values: Array, dtype: DTypeLike, workspace: Workspace | None = None
) -> Array:
    """Convert values to another dtype; for NumPy, write them to the workspace."""
    if values.dtype == dtype:
        return values
    if workspace is None or not isinstance(values, np.ndarray):
        return namespace_of(values).astype(values, dtype)
    out = workspace.buffer("cast", values.shape, dtype)
    np.copyto(out, values)
    return out


# ------------------------------------------------------------------------ distances
def sq_distances(
    rows: Array,
    keys: Array,
    products: Array | None = None,
    norms: tuple[Array, Array] | None = None,
) -> Array:
    """Return |x - y|^2 for all pairs of rows, from their products and squared norms.

    For close pairs, the squared distance is computed from the difference of the rows,
    because ``|x|^2 + |y|^2 - 2 x.y`` would lose half of the digits. For NumPy,
    ``products`` is overwritten. ``products`` is required if the rows are sparse.
    """
    # rows (n, d), keys (m, d) -> (n, m)
    own, other = (sq_norms(rows), sq_norms(keys)) if norms is None else norms
    if products is None:
        products = rows @ transposed(keys)
    if isinstance(products, np.ndarray):
        products *= -2
        products += own
        products += other.T
        return _mend_pairs(products, rows, keys, own, other)
    xp = namespace_of(rows)
    squares = own + transposed(other) - 2 * products
    share = math.sqrt(float(xp.finfo(rows.dtype).eps))
    close = xp.any(squares < share * (own + xp.max(other)), axis=1)
    mend = np.flatnonzero(to_host(close))  # indices of rows close to a key
    if mend.size == 0:
        return squares
    blocks = []
    for i in range(0, mend.size, _PAIR_ROWS):
        some = taken(rows, mend[i : i + _PAIR_ROWS])
        gaps = some[:, None, :] - keys[None, :, :]
        blocks.append(xp.sum(gaps * gaps, axis=2))
    rest = np.setdiff1d(np.arange(rows.shape[0]), mend)
    order = np.argsort(np.concatenate([rest, mend]))
    return taken(xp.concat([taken(squares, rest), *blocks]), order)


def _mend_pairs(squares, rows, keys, own, other):
    share = math.sqrt(np.finfo(squares.dtype).eps)
    largest = own + other.max(initial=0)
    if rows is keys:
        np.fill_diagonal(squares, 0)
    if squares.min(initial=math.inf) >= share * largest.max(initial=0):
        return squares
    lost = squares < share * largest
    if rows is keys:
        np.fill_diagonal(lost, False)
    i, j = np.nonzero(lost)
    for start in range(0, i.size, _PAIRS):
        pairs = slice(start, start + _PAIRS)
        gaps = rows[i[pairs]] - keys[j[pairs]]
        squares[i[pairs], j[pairs]] = row_norms(gaps, squared=True)
    return squares


# ------------------------------------------------------------------ finite numbers
def refuse_not_finite(rows: Array, name: str) -> None:
    """Raise ValueError if a NumPy array contains numbers that are not finite.

    Arrays of other libraries are not checked, because reading their values may have to
    wait for the device. Instead, the output for such a row is NaN (see
    ``nan_where_not_finite``).
    """
    if isinstance(rows, np.ndarray):
        assert_all_finite(rows, input_name=name)


def nan_where_not_finite(rows: Array) -> Array | None:
    """Return a column that is 0 for rows of finite numbers and NaN for other rows.

    The result is None for NumPy arrays, which ``refuse_not_finite`` checks.
    """
    if isinstance(rows, np.ndarray):
        return None
    # this is one pass over the rows, whereas all(isfinite(rows)) takes several
    return namespace_of(rows).sum(rows * 0, axis=-1, keepdims=True)
