"""Arrays of any library: NumPy, torch, JAX, CuPy, array-api-strict."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from ._compat import array_device, array_namespace

Array = Any  # of any library that follows the array API standard
Namespace = Any


def namespace_of(*arrays: Array) -> Namespace:
    """Return the functions of the library of some arrays.

    Parameters
    ----------
    *arrays : array
        All of one library.

    Returns
    -------
    xp : module
        With the names of the array API standard.

    Raises
    ------
    TypeError
        If they belong to several libraries, or to one that is not known.
    """
    return array_namespace(*arrays)


def moved(values: np.ndarray | float, like: Array) -> Array:
    """Return numbers in the library, on the device and in the type of another array.

    Parameters
    ----------
    values : ndarray or float
        The numbers.
    like : array
        Of floating type.

    Returns
    -------
    moved : array
        A copy.
    """
    values = np.array(values)
    if isinstance(like, np.ndarray):
        return values.astype(like.dtype)
    xp = namespace_of(like)
    return xp.asarray(values, dtype=like.dtype, device=array_device(like))


def constant(shape: tuple[int, ...], value: float, like: Array) -> Array:
    """Return an array of one number, beside another array.

    Parameters
    ----------
    shape : tuple of int
        Its shape.
    value : float
        The number.
    like : array
        Whose library, device and type are taken.

    Returns
    -------
    array : array
        Of that shape.
    """
    if isinstance(like, np.ndarray):
        return np.full(shape, value, like.dtype)
    xp = namespace_of(like)
    return xp.full(shape, value, dtype=like.dtype, device=array_device(like))


def positions(n: int, like: Array) -> Array:
    """Return 0, 1, ... n - 1 as integers, beside another array.

    Parameters
    ----------
    n : int
        How many.
    like : array
        Whose library and device are taken.

    Returns
    -------
    positions : array of int of shape (n,)
        The numbers.
    """
    if isinstance(like, np.ndarray):
        return np.arange(n)
    return namespace_of(like).arange(n, device=array_device(like))


def transposed(array: Array) -> Array:
    """Swap the last two axes.

    Parameters
    ----------
    array : array of shape (..., n, m)
        Matrices.

    Returns
    -------
    transposed : array of shape (..., m, n)
        Their transposes.
    """
    if isinstance(array, np.ndarray):
        return np.swapaxes(array, -1, -2)
    return namespace_of(array).matrix_transpose(array)


def without_gradient(array: Array) -> Array:
    """Return an array as a constant, where its library follows gradients.

    Parameters
    ----------
    array : array
        Of any library.

    Returns
    -------
    constant : array
        Detached from the graph of torch, itself elsewhere.
    """
    return array.detach() if hasattr(array, "detach") else array


def taken(rows: Array, index: np.ndarray) -> Array:
    """Return some of the rows of a table.

    Parameters
    ----------
    rows : array or sparse matrix of shape (n_rows, ...)
        The table.
    index : ndarray of int
        Numbers of rows.

    Returns
    -------
    rows : array or sparse matrix
        These rows, in this order.
    """
    if isinstance(rows, np.ndarray) or issparse(rows):
        return rows[index]
    xp = namespace_of(rows)
    return xp.take(rows, xp.asarray(index, device=array_device(rows)), axis=0)


def columns(array: Array, index: np.ndarray) -> Array:
    """Return some of the columns of matrices.

    Parameters
    ----------
    array : array of shape (..., n, m)
        Matrices.
    index : ndarray of int
        Numbers of columns.

    Returns
    -------
    columns : array of shape (..., n, n_index)
        In this order.
    """
    if isinstance(array, np.ndarray):
        return array[..., index]
    xp = namespace_of(array)
    return xp.take(array, xp.asarray(index, device=array_device(array)), axis=-1)


def to_host(array: Array) -> np.ndarray:
    """Return an array as a NumPy array: statistics, never rows of a table.

    Parameters
    ----------
    array : array
        Of any library, on any device.

    Returns
    -------
    array : ndarray
        A copy where it stands elsewhere; not to be written to.
    """
    if isinstance(array, np.ndarray):
        return array
    array = without_gradient(array)
    for name in ("cpu", "get"):  # torch, CuPy
        if hasattr(array, name):
            array = getattr(array, name)()
            break
    try:
        return np.from_dlpack(array)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError):
        return np.asarray(array)
