"""Arrays of other libraries at the edge of the estimators.

With ``sklearn.config_context(array_api_dispatch=True)`` an estimator takes arrays of
other libraries and returns arrays of that library. There are two ways in:

- Arrays in the memory of the host are seen as NumPy arrays through DLPack, without a
  copy, and so are the results on the way back: everything between is as for NumPy.
- Arrays on a device stay there. ``fit`` brings statistics to the host, where the map
  is chosen and drawn, and the tables of the map are copied to the device once.

Without dispatch, and before scikit-learn 1.9, all is made a NumPy array, as elsewhere
in scikit-learn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn import get_config
from sklearn.utils.validation import (
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from ._arrays import Array, Namespace, namespace_of, to_host, without_gradient
from ._compat import (
    array_device,
    check_same_namespace,
    is_array_api_obj,
    move_to,
    supported_float_dtypes,
)

_NO_VIEW = (
    AttributeError,
    BufferError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)
_ROWS = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}


def is_foreign(X: Any) -> bool:
    """Return whether X is an array of another library that is to stay one.

    Parameters
    ----------
    X : object
        What a user gave.

    Returns
    -------
    foreign : bool
        False without dispatch: then X is to become a NumPy array.
    """
    if isinstance(X, (np.ndarray, np.generic)):
        return False
    return bool(get_config()["array_api_dispatch"]) and is_array_api_obj(X)


def on_host(rows: Any) -> bool:
    """Return whether rows are those of the NumPy path.

    Parameters
    ----------
    rows : ndarray, sparse matrix or array
        Validated rows.

    Returns
    -------
    on_host : bool
        False for arrays on a device.
    """
    return isinstance(rows, np.ndarray) or sparse.issparse(rows)


def host_view(X: Array) -> np.ndarray | None:
    """Return the memory of an array as a NumPy array.

    Parameters
    ----------
    X : array
        Of any library.

    Returns
    -------
    view : ndarray or None
        Not to be written to. None where the memory is not that of the host.
    """
    if isinstance(X, np.ndarray):
        return X
    try:
        # the device where memory of NumPy belongs, in this library
        home = array_device(namespace_of(X).from_dlpack(np.empty(1, np.float32)))
        return np.from_dlpack(X) if array_device(X) == home else None
    except _NO_VIEW:
        return None


def beside(values: Any, X: Any) -> Any:
    """Return results in the library and on the device of the rows of a user.

    Parameters
    ----------
    values : ndarray or array
        Results.
    X : object
        The rows, as they came.

    Returns
    -------
    values : array
        The argument itself where nothing is to be done.
    """
    if isinstance(X, np.ndarray) or not is_foreign(X):
        return values
    if isinstance(values, np.ndarray) and values.dtype.kind not in "fiub":
        return values  # labels that are strings
    return move_to(values, xp=namespace_of(X), device=array_device(X))


def hosted(values: Any) -> Any:
    """Return targets or weights of any library for rows on the host.

    Parameters
    ----------
    values : object
        As they came.

    Returns
    -------
    values : object
        A NumPy array where it was an array of another library, else the argument.
    """
    if isinstance(values, np.ndarray) or not is_foreign(values):
        return values
    view = host_view(without_gradient(values))
    return to_host(values) if view is None else view


def follow(values: Any, rows: Any) -> Any:
    """Return targets, weights or keys where validated rows are.

    Parameters
    ----------
    values : object
        As they came.
    rows : ndarray, sparse matrix or array
        Validated rows.

    Returns
    -------
    values : object
        Labels that are strings stay on the host.
    """
    if values is None or on_host(rows):
        return hosted(values)
    if not is_foreign(values):
        values = np.asarray(values)
        if values.dtype.kind not in "fiub":
            return values
    xp, device = namespace_of(rows), array_device(rows)
    return move_to(without_gradient(values), xp=xp, device=device)


def float_types(X: Array) -> list[Any]:
    """Return the floating types of rows that are kept as they are, widest first.

    Parameters
    ----------
    X : array
        Of any library.

    Returns
    -------
    dtypes : list of dtype
        64 and 32 bits, as far as the device has them.
    """
    if isinstance(X, np.ndarray):
        return [np.float64, np.float32]
    xp: Namespace = namespace_of(X)
    known = supported_float_dtypes(xp, array_device(X))
    return [dtype for dtype in known if dtype in (xp.float64, xp.float32)]


def type_name(rows: Any) -> str:
    """Return the floating type of validated rows as NumPy calls it.

    Parameters
    ----------
    rows : ndarray, sparse matrix or array
        Rows.

    Returns
    -------
    name : {"float64", "float32"}
        Its name.
    """
    if on_host(rows):
        return str(np.dtype(rows.dtype).name)
    return "float32" if rows.dtype == namespace_of(rows).float32 else "float64"


def validated(
    estimator: Any, X: Any, *, reset: bool, stays: bool = False, **targets: Any
) -> Any:
    """Return rows as scikit-learn wants them, on the host or on their device.

    Parameters
    ----------
    estimator : estimator
        Whose rows they are.
    X : object
        As a user gave them.
    reset : bool
        Whether columns are noted, not compared.
    stays : bool, default=False
        Whether arrays of other libraries stay what they are also in the memory of the
        host.
    **targets : dict
        ``y`` and how it is checked, for those who take one.

    Returns
    -------
    rows : ndarray, CSR matrix or array
        float32 or float64.
    y : ndarray or array
        Beside the rows, where ``y`` was given.
    """
    view = X
    if not isinstance(X, np.ndarray) and is_foreign(X):
        X = without_gradient(X)
        view = None if stays else host_view(X)
    if view is not None:
        if "y" in targets:
            targets["y"] = hosted(targets["y"])
        return validate_data(estimator, view, reset=reset, **_ROWS, **targets)
    dtype = float_types(X)
    y = follow(targets.pop("y", None), X)
    if y is None and not targets:
        return validate_data(estimator, X, reset=reset, dtype=dtype)
    if not isinstance(y, np.ndarray):
        return validate_data(estimator, X, y, reset=reset, dtype=dtype, **targets)
    rows = validate_data(estimator, X, reset=reset, dtype=dtype)
    check_consistent_length(rows, y)
    return rows, column_or_1d(y, warn=True)


class ArrayAPIMixin:
    """What estimators need that are fitted on arrays of other libraries."""

    _home: Array | None = None  # tells where the rows of fit were, None for NumPy

    def __sklearn_array_api_convert__(self, converter: Callable[[Any], Any]) -> Any:
        """Return a copy for rows of another library, as scikit-learn asks for it."""
        other = copy.copy(self)
        other._home = converter(np.empty(0) if self._home is None else self._home)
        return other


def home_of(X: Any) -> Array | None:
    """Return an empty array that tells library and device of the rows of ``fit``.

    Parameters
    ----------
    X : object
        As a user gave them.

    Returns
    -------
    home : array or None
        None for NumPy. An attribute of the estimator, so that scikit-learn's functions
        move it with the estimator.
    """
    if isinstance(X, np.ndarray) or not is_foreign(X):
        return None
    xp, device = namespace_of(X), array_device(X)
    return xp.empty((0,), dtype=float_types(X)[0], device=device)


def check_home(estimator: Any, X: Any, method: str) -> None:
    """Raise scikit-learn's error where rows are not where those of ``fit`` were.

    Parameters
    ----------
    estimator : estimator
        With ``_home``.
    X : object
        As a user gave them.
    method : str
        The method that takes them.

    Raises
    ------
    ValueError
        If library or device differ, with dispatch.
    """
    if estimator._home is not None or not isinstance(X, np.ndarray):
        check_same_namespace(X, estimator, attribute="_home", method=method)


def at_home(estimator: Any, values: np.ndarray) -> Array:
    """Return an attribute in the library of the rows of ``fit``.

    Parameters
    ----------
    estimator : estimator
        With ``_home``.
    values : ndarray
        The attribute.

    Returns
    -------
    values : array
        The argument itself for NumPy.
    """
    home = estimator._home
    if home is None or isinstance(home, np.ndarray):
        return values
    return move_to(values, xp=namespace_of(home), device=array_device(home))
