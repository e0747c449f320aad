"""Methods of fitted estimators, applied to Dask collections lazily."""

from __future__ import annotations

import warnings
from typing import Any

import dask
import dask.array as da
import numpy as np

from .blocks import artificial_rows, check_lazy, is_frame


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
        Input rows. Nothing is computed by this call.

    Returns
    -------
    result : dask.array.Array of shape (n_samples, ...)
        Lazy array of the results, with the correct shape and dtype, in the same blocks
        of rows as X.

    Raises
    ------
    TypeError
        If X is in memory, or if the method returns several arrays.

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
    """
    check_lazy(X)
    with warnings.catch_warnings(action="ignore"):  # of artificial rows
        found = method(artificial_rows(X))
    if isinstance(found, tuple):
        raise TypeError(
            f"map_rows requires a method that returns one array, but {method.__name__} "
            f"returns {len(found)}. Select one of them: lambda rows: "
            f"estimator.{method.__name__}(rows)[0]."
        )
    empty = np.asarray(found)[:0]
    once = dask.delayed(method, pure=False, traverse=False)
    if is_frame(X):
        return X.map_partitions(_result, once, empty, meta=empty)
    rows, columns, *others = range(empty.ndim + 1)
    axes = dict(zip(others, empty.shape[1:], strict=True))
    pairs = X, (rows, columns), once, None, empty, None
    options = {"new_axes": axes, "concatenate": True, "meta": empty}
    return da.blockwise(_result, (rows, *others), *pairs, **options)


def _result(X, method, empty):
    return np.asarray(method(X)) if X.shape[0] else empty
