"""Methods of fitted estimators, applied to Dask collections lazily."""

from __future__ import annotations

import math
import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from .blocks import as_rows, check_columns, declared_columns, is_frame


def map_rows(method: Any, X: Any) -> Any:
    """Apply a method of a fitted estimator to the rows of a Dask collection, lazily.

    Use it to compute features or predictions for tables that do not fit into memory.

    Parameters
    ----------
    method : callable
        Method that takes rows and returns one row or one number per input row, such as
        ``sampler.transform`` or ``model.predict_proba``. Its estimator is sent to each
        worker once.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Input rows. Columns that are split into several blocks are joined. Nothing is
        computed by this call.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, ...)
        Lazy array of the results, with the correct shape and dtype, in the same blocks
        of rows as X. If the lengths of the blocks are known, blocks whose results would
        exceed Dask's ``array.chunk-size`` (128 MiB) are split first.

    Raises
    ------
    TypeError
        If X is in memory, or if the method returns several arrays.
    ValueError
        If the columns of a block differ from those that X declares; this is checked
        when the block is computed.

    See Also
    --------
    fit : Fit an estimator to Dask collections.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn_crt import OPRFSampler
    >>> from sklearn_crt import dask as crt_dask
    >>> X = da.random.default_rng(0).normal(size=(10_000, 4), chunks=(1000, 2))
    >>> sampler = crt_dask.fit(OPRFSampler(n_components=64, random_state=0), X)
    >>> Z = crt_dask.map_rows(sampler.transform, X)
    >>> Z.shape, Z.chunksize, Z.dtype
    ((10000, 64), (1000, 64), dtype('float64'))
    >>> Z[:3].compute().shape
    (3, 64)
    """
    X = as_rows(X)
    probe = _probe(method, X)
    owner, name = getattr(method, "__self__", None), getattr(method, "__name__", "")
    if owner is None:
        owner, name = method, "__call__"
    owner = dask.delayed(owner, pure=False, traverse=False)
    empty, columns = probe[:0], declared_columns(X)
    if is_frame(X):
        call = dask.delayed(_call, pure=False)
        shape = (math.nan, *empty.shape[1:])
        parts = [
            da.from_delayed(
                call(part, owner, name, empty, columns, number), shape, meta=empty
            )
            for number, part in enumerate(X.to_delayed())
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)
    X = _split(X, empty)
    return da.map_blocks(
        _call,
        X,
        owner,
        name,
        empty,
        columns,
        meta=empty,
        dtype=empty.dtype,
        drop_axis=[1] if empty.ndim == 1 else None,
        new_axis=[2] if empty.ndim == 3 else None,  # additional axis of slopes
        chunks=(X.chunks[0], *((n,) for n in empty.shape[1:])),
    )


def _probe(method, X):
    """Return a method's result for two artificial rows with the dtypes of X."""
    if is_frame(X):
        rows = X._meta_nonempty
    else:
        rows = np.ones((2, X.shape[1]), X.dtype)
    with warnings.catch_warnings():
        # warnings about artificial rows would be misleading
        warnings.simplefilter("ignore")
        found = method(rows)
    if isinstance(found, tuple):
        raise TypeError(
            f"map_rows requires a method that returns one array, but {method.__name__} "
            f"returns {len(found)}. Select one of them: lambda rows: "
            f"estimator.{method.__name__}(rows)[0]."
        )
    return np.asarray(found)


def _split(X, empty):
    """Split X such that results of blocks do not exceed Dask's maximum chunk size."""
    most = parse_bytes(dask.config.get("array.chunk-size", "128MiB"))
    width = math.prod(empty.shape[1:]) * empty.dtype.itemsize
    size = max(1, most // max(width, 1))
    sizes = X.chunks[0]
    if any(map(math.isnan, sizes)) or max(sizes, default=0) <= size:
        return X
    chunks = []
    for n in sizes:
        n_parts = max(1, math.ceil(n / size))
        chunks += [n // n_parts + (i < n % n_parts) for i in range(n_parts)]
    return X.rechunk({0: tuple(chunks)})


def _call(X, owner, name, empty, columns, number=None, block_info=None):
    if block_info:
        number = block_info[0]["chunk-location"][0]
    check_columns(X, "X", columns, number)
    if X.shape[0] == 0:
        return empty
    return np.asarray(getattr(owner, name)(X))
