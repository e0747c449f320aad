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
    if len(arrays) == 1 and isinstance(arrays[0], np.ndarray):
        return _NUMPY  # array_namespace takes longer than a short operation
    return array_namespace(*arrays)


_NUMPY = array_namespace(np.empty(0))


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


def like(values: np.ndarray, array: Array) -> Array:
    """Return numbers beside an array and in its type, without a copy where they are.

    Parameters
    ----------
    values : ndarray
        Numbers.
    array : array
        Of floating type.

    Returns
    -------
    values : array
        Not to be written to.
    """
    if isinstance(array, np.ndarray):
        return values.astype(array.dtype, copy=False)
    return moved(values, array)


def clipped(array: Array, least: float, most: float) -> Array:
    """Return numbers moved into a range.

    Parameters
    ----------
    array : array
        Numbers.
    least, most : float
        The range.

    Returns
    -------
    clipped : array
        Of the same shape.
    """
    if isinstance(array, np.ndarray):  # the function of the standard takes longer
        return np.clip(array, least, most)
    return namespace_of(array).clip(array, least, most)


def at_least(array: Array, least: Array | float) -> Array:
    """Return the larger of two numbers, element by element.

    Parameters
    ----------
    array : array
        Numbers.
    least : array or float
        Other ones, of a shape that can be that of the first.

    Returns
    -------
    larger : array
        Of the shape of the first.
    """
    if isinstance(array, np.ndarray):
        return np.maximum(array, least)
    xp = namespace_of(array)
    return xp.where(array > least, array, xp.zeros_like(array) + least)


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


def joined(blocks: list[Array]) -> Array:
    """Return blocks of rows as one array.

    Parameters
    ----------
    blocks : list of array of shape (n_i, ...)
        At least one.

    Returns
    -------
    whole : array of shape (n, ...)
        The block itself where there is one.
    """
    return blocks[0] if len(blocks) == 1 else namespace_of(blocks[0]).concat(blocks)


def part(rows: Array, chunk: slice) -> Array:
    """Return rows that follow each other, of an array with any number of axes.

    Parameters
    ----------
    rows : array or sparse matrix of shape (n_rows, ...)
        The table.
    chunk : slice
        Within its rows.

    Returns
    -------
    rows : array or sparse matrix
        A view where the library has them.
    """
    if isinstance(rows, np.ndarray) or issparse(rows):
        return rows[chunk]
    return rows[(chunk, ...)]


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
    if isinstance(array, np.ndarray) or issparse(array):
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
