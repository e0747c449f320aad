"""Methods of estimators over the rows of collections of Dask."""

from __future__ import annotations

import math
import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.utils import parse_bytes

from ._blocks import as_rows, is_frame


def map_rows(method: Any, X: Any) -> Any:
    """Return what a method of a fitted estimator gives for the rows, lazily.

    Parameters
    ----------
    method : callable
        Takes rows and returns as many rows or numbers: ``sampler.transform``,
        ``model.predict_proba``. The object that it belongs to goes to each worker once.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Rows; blocks of columns are joined. Nothing of it is computed.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, n_columns) or (n_samples,)
        Of the right type, in the blocks of X; blocks whose results would be larger than
        Dask's ``array.chunk-size`` (128 MiB) are split first, where their lengths are
        known.

    Raises
    ------
    TypeError
        If X is in memory.

    See Also
    --------
    fit : Fitting on collections of Dask.

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
    empty = probe[:0]
    if is_frame(X):
        call = dask.delayed(_call, pure=False)
        shape = (math.nan, *empty.shape[1:])
        parts = [
            da.from_delayed(call(part, owner, name, empty), shape, meta=empty)
            for part in X.to_delayed()
        ]
        return da.concatenate(parts, allow_unknown_chunksizes=True)
    X = _split(X, empty)
    return da.map_blocks(
        _call,
        X,
        owner,
        name,
        empty,
        meta=empty,
        dtype=empty.dtype,
        drop_axis=[1] if empty.ndim == 1 else None,
        chunks=(X.chunks[0], *((n,) for n in empty.shape[1:])),
    )


def _probe(method, X):
    """Return what the method gives for two rows of the kind of X."""
    if is_frame(X):
        rows = X._meta_nonempty
    else:
        rows = np.ones((2, X.shape[1]), X.dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows that nobody asked for
        return np.asarray(method(rows))


def _split(X, empty):
    """Return X in blocks whose results are no larger than Dask's blocks are."""
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


def _call(X, owner, name, empty):
    if X.shape[0] == 0:
        return empty
    return np.asarray(getattr(owner, name)(X))
