"""Support for array libraries, and conversion of arrays between them.

With ``sklearn.config_context(array_api_dispatch=True)``, an estimator accepts arrays of
other libraries and returns arrays of the same library. The arrays are processed in one
of two ways:

- Arrays in main memory are viewed as NumPy arrays through DLPack, without a copy, and
  results are returned in the same way. NumPy does all computations.
- Arrays on a device remain there. ``fit`` copies only statistics to main memory, where
  the parameters of the feature map are selected and its frequencies are drawn. The
  arrays of the map are then copied to the device once.

Without this option, and with scikit-learn before 1.9, every array is converted to a
NumPy array, as scikit-learn's own estimators do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn import get_config

from .._compat import (
    array_device,
    array_namespace,
    is_array_api_obj,
    move_to,
    supported_float_dtypes,
)

Array = Any  # an array of any library that follows the array API standard
Namespace = Any
DType = Any  # a data type of any library


def namespace_of(*arrays: Array) -> Namespace:
    """Return the array API namespace to which all the arrays belong."""
    if len(arrays) == 1 and isinstance(arrays[0], np.ndarray):
        return _NUMPY  # calling array_namespace is slower than a small operation
    for kind, namespace in _REGISTERED:
        if all(isinstance(array, kind) for array in arrays):
            return namespace
    return array_namespace(*arrays)


def register_namespace(kind: type, namespace: Namespace) -> None:
    """Register a namespace to use for a library instead of array_api_compat."""
    _REGISTERED.append((kind, namespace))


def device_of(array: Array) -> Any:
    """Return the device of an array."""
    known = any(isinstance(array, kind) for kind, _ in _REGISTERED)
    return array.device if known else array_device(array)


def values_are_known(array: Array) -> bool:
    """Return whether Python code may read the values of an array without waiting.

    Values do not exist yet while a program is being compiled. Reading values from a
    device has to wait until the device has finished its work.
    """
    if isinstance(array, np.ndarray):
        return True
    ask = getattr(namespace_of(array), "values_are_known", None)
    return ask is None or ask(array)


_REGISTERED: list[tuple[type, Namespace]] = []
_NUMPY = array_namespace(np.empty(0))


def on_host(rows: Any) -> bool:
    """Return whether rows are a NumPy array or scalar, or a sparse matrix."""
    return isinstance(rows, (np.ndarray, np.generic)) or issparse(rows)


def place_of(X: Any) -> Any:
    """Return a dictionary key for the library, device and dtype of an array."""
    if on_host(X):
        return X.dtype
    return namespace_of(X).__name__, str(array_device(X)), str(X.dtype)


def like_table(X: Any) -> Array:
    """Return a small array with the library, device and dtype of rows."""
    return np.empty(0, X.dtype) if on_host(X) else X[:1, ...]


def asarray_like(values: Any, like: Array) -> Array:
    """Convert numbers to the library, device and dtype of another array.

    If no conversion is necessary, the same array is returned without a copy, so the
    result must not be modified.
    """
    if isinstance(like, (np.ndarray, np.generic)):
        return np.asarray(values, like.dtype)
    xp = namespace_of(like)
    if not on_host(values) and hasattr(values, "shape"):
        return xp.astype(values, like.dtype, copy=False)
    # values are copied, because some libraries warn about read-only memory
    return xp.asarray(np.array(values), dtype=like.dtype, device=device_of(like))


def constant(shape: tuple[int, ...], value: float, like: Array) -> Array:
    """Return an array filled with a number, in the library and dtype of ``like``."""
    if isinstance(like, np.ndarray):
        return np.full(shape, value, like.dtype)
    xp = namespace_of(like)
    return xp.full(shape, value, dtype=like.dtype, device=device_of(like))


def positions(n: int, like: Array) -> Array:
    """Return the integers 0, 1, ... n - 1, in the library of ``like``."""
    if isinstance(like, np.ndarray):
        return np.arange(n)
    return namespace_of(like).arange(n, device=device_of(like))


def clipped(array: Array, least: float, most: float) -> Array:
    """Clip the values of an array to a range."""
    if isinstance(array, np.ndarray):  # faster than the clip of array_api_compat
        return np.clip(array, least, most)
    return namespace_of(array).clip(array, least, most)


def at_least(array: Array, least: Array | float) -> Array:
    """Return the element-wise maximum of an array and a lower bound."""
    if isinstance(array, np.ndarray):
        return np.maximum(array, least)
    xp = namespace_of(array)
    return xp.where(array > least, array, xp.zeros_like(array) + least)


def transposed(array: Array) -> Array:
    """Swap the last two axes: (..., n, m) -> (..., m, n)."""
    if isinstance(array, np.ndarray):
        return np.swapaxes(array, -1, -2)
    return namespace_of(array).matrix_transpose(array)


def sq_norms(rows: Array) -> Array:
    """Return the squared norms of rows: (..., n, d) -> (..., n, 1)."""
    if isinstance(rows, np.ndarray):  # a product with ones is faster than np.sum
        return np.square(rows) @ np.ones((rows.shape[-1], 1), rows.dtype)
    return namespace_of(rows).sum(rows * rows, axis=-1, keepdims=True)


def without_gradient(array: Array) -> Array:
    """Return the array detached from the computation of gradients."""
    return array.detach() if hasattr(array, "detach") else array


def taken(rows: Array, index: Array) -> Array:
    """Return the rows with given indices; the array may have any number of axes."""
    if on_host(rows):
        return rows[index if isinstance(index, np.ndarray) else to_host(index)]
    xp = namespace_of(rows)
    return xp.take(rows, xp.asarray(index, device=device_of(rows)), axis=0)


LEAST_CHUNK, _MOST_ROWS = 256, 1024  # limits on the number of rows in a chunk
_MOST_IN_PLACE = 8192  # the upper limit if features are written to the final output
# number of bytes of features that fit into the cache and make products efficient
_CHUNK_BYTES = 2**21
# the same on a device, where a call takes as long as processing 1 MiB of features
_DEVICE_BYTES = 2**27


def within_working_memory(n_bytes: int) -> int:
    """Limit a number of bytes to the ``working_memory`` of scikit-learn."""
    return min(n_bytes, int(get_config()["working_memory"] * 2**20))


def row_slices(n_rows: int, size: int) -> Iterator[slice]:
    """Yield slices that divide rows into blocks of at most ``size``.

    ``gen_batches`` of scikit-learn does the same, but validates its arguments, which
    takes longer than computing the features of a single row.
    """
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def row_chunks(X: Any, width: int, *, in_place: bool = False) -> Iterator[slice]:
    """Return slices of rows for a computation that needs ``width`` numbers per row.

    For NumPy, a chunk has 256 to 1024 rows, so that its features remain in the cache.
    It has up to 8192 rows if the features are written directly to the final output.
    """
    n_rows, d = X.shape
    if on_host(X):
        # sparse rows need less memory per column, because most entries are zero
        width = max(width, d if isinstance(X, np.ndarray) else d // 32, 1)
        size = max(LEAST_CHUNK, _CHUNK_BYTES // (width * X.dtype.itemsize))
        size = min(size, _MOST_IN_PLACE if in_place else _MOST_ROWS)
    else:
        size = max(1, within_working_memory(_DEVICE_BYTES) // (8 * max(1, width)))
    return row_slices(n_rows, size)


def joined(blocks: Sequence[Any], axis: int = 0) -> Any:
    """Concatenate blocks of rows; the result is sparse if one of them is sparse."""
    if len(blocks) == 1:
        return blocks[0]
    kind = next((type(block) for block in blocks if issparse(block)), None)
    if kind is not None:
        return vstack([kind(block) for block in blocks], format="csr")
    return namespace_of(blocks[0]).concat(blocks, axis=axis)


def columns(array: Array, index: Array) -> Array:
    """Return the columns with given indices: (..., n, m) -> (..., n, n_index)."""
    if isinstance(array, np.ndarray):
        return array[..., index]
    xp = namespace_of(array)
    if isinstance(index, np.ndarray):
        index = xp.asarray(index, device=device_of(array))
    return xp.take(array, index, axis=-1)


_NO_VIEW = AttributeError, BufferError, RuntimeError, TypeError, ValueError


def to_host(array: Array) -> Any:
    """Copy a small array, such as a statistic, to a NumPy array."""
    if isinstance(array, np.ndarray) or issparse(array):
        return array
    array = without_gradient(array)
    for name in ("cpu", "get"):  # torch, CuPy
        if hasattr(array, name):
            array = getattr(array, name)()
            break
    try:
        return np.from_dlpack(array)
    except _NO_VIEW:
        return np.asarray(array)


def is_foreign(X: Any) -> bool:
    """Return whether the results for X must be arrays of a library other than NumPy."""
    if isinstance(X, (np.ndarray, np.generic)):
        return False
    return bool(get_config()["array_api_dispatch"]) and is_array_api_obj(X)


def host_view(X: Array) -> np.ndarray | None:
    """Return a NumPy view of an array, or None if the array is on a device."""
    if isinstance(X, np.ndarray):
        return X
    try:
        # the device that represents main memory in this library
        host = array_device(namespace_of(X).from_dlpack(np.empty(1, np.float32)))
        return np.from_dlpack(X) if array_device(X) == host else None
    except _NO_VIEW:
        return None


def to_namespace_of(values: Any, rows: Any) -> Any:
    """Convert targets, weights or results to the library and device of the rows."""
    if values is None or rows is values:
        return values
    if isinstance(rows, np.ndarray) and isinstance(values, np.ndarray):
        return values
    if not is_foreign(rows):
        if not is_foreign(values):
            return values
        view = host_view(without_gradient(values))
        return to_host(values) if view is None else view
    if not is_foreign(values):
        values = np.asarray(values)
        if values.dtype.kind not in "fiub":
            return values  # strings cannot be converted
    xp, device = namespace_of(rows), array_device(rows)
    return move_to(without_gradient(values), xp=xp, device=device)


def float_types(X: Array) -> list[Any]:
    """Return the floating-point dtypes that rows may keep, widest first."""
    if on_host(X):
        return [np.float64, np.float32]
    xp: Namespace = namespace_of(X)
    known = supported_float_dtypes(xp, array_device(X))
    return [dtype for dtype in known if dtype in (xp.float64, xp.float32)]


def float_type_of(table: Any) -> type[np.floating]:
    """Return float32 if all columns of a table have this dtype, and else float64.

    This is the type of the results for a table of any library.
    """
    types = getattr(table, "dtypes", [getattr(table, "dtype", None)])
    single = all(str(dtype).lower().endswith("float32") for dtype in types)
    return np.float32 if single else np.float64


def type_name(rows: Any) -> str:
    """Return the NumPy name of the floating-point dtype of validated rows."""
    if isinstance(rows.dtype, np.dtype):
        return str(np.dtype(rows.dtype).name)
    return "float32" if rows.dtype == namespace_of(rows).float32 else "float64"
