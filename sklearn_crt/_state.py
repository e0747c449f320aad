"""The state of fitted estimators: set as a whole, compared, and stored.

A skops file names the types in it, and who opens it must trust each. Here they are the
estimators alone: what these have learned is stored as dictionaries, lists and arrays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import Any, TypeVar

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

_PACKAGE = __name__.partition(".")[0]
_TYPE = f"type of {_PACKAGE}"
E = TypeVar("E")


@contextmanager
def aside(estimator: E) -> Iterator[E]:
    """Lend a copy to be fitted, which the estimator becomes where nothing is raised.

    So a fit that fails leaves the estimator as it was, and other threads see one state
    or the other.
    """
    made = copied(estimator)
    yield made
    estimator.__dict__ = vars(made)


# ------------------------------------------------------------------------ comparing
def same(a: Any, b: Any) -> bool:
    """Return whether two parameters, maps or fitted estimators are equal."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.shape == b.shape and bool(np.all(a == b))
    if sparse.issparse(a):
        return a.shape == b.shape and (a != b).nnz == 0
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, BaseEstimator):
        return same(*({**vars(e), "random_state": 0, "n_jobs": 0} for e in (a, b)))
    if is_dataclass(a) and type(a).__getstate__ is object.__getstate__:
        # the fields alone, beside which an object may hold what it computed once
        names = [field.name for field in fields(a)]
        return all(same(getattr(a, name), getattr(b, name)) for name in names)
    if is_dataclass(a) or (type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__")):
        return same(a.__getstate__(), b.__getstate__())
    return bool(a == b)


def check_mergeable(one: Any, other: Any) -> None:
    """Raise ValueError unless both are fitted estimators of one class and columns."""
    check_is_fitted(one)
    if type(other) is not type(one):
        raise ValueError(f"merge needs another {type(one).__name__}, got {other!r}.")
    check_is_fitted(other)
    check_same_columns(one, other)


def check_same_columns(one: Any, other: Any) -> None:
    """Raise ValueError where two fitted estimators have not seen the same columns."""
    pair = one, other
    counts = [estimator.n_features_in_ for estimator in pair]
    if counts[0] != counts[1]:
        raise ValueError(
            f"merge needs the same columns on both sides, but one has {counts[0]} "
            f"features and the other {counts[1]}."
        )
    names: list[Any] = [
        getattr(estimator, "feature_names_in_", None) for estimator in pair
    ]
    if all(each is not None for each in names) and not np.array_equal(*names):
        raise ValueError(
            "merge needs the same feature names in the same order, got "
            f"{names[0].tolist()} and {names[1].tolist()}."
        )


def check_names(estimator: Any, sampler: Any) -> None:
    """Raise ValueError where rows have not the column names that a sampler has seen."""
    names: list[Any] = [
        getattr(e, "feature_names_in_", None) for e in (estimator, sampler)
    ]
    if all(each is not None for each in names) and not np.array_equal(*names):
        raise ValueError(
            "The feature names should match those that were passed during fit of the "
            f"sampler, {names[1].tolist()}, in this order; got {names[0].tolist()}."
        )


# -------------------------------------------------------------------------- storing


def get_state(estimator: Any) -> dict[str, Any]:
    """Return what ``pickle`` and ``skops`` store of an estimator."""
    known: dict[int, Any] = {}  # one object stays one
    return {
        name: _packed(value, known)
        for name, value in BaseEstimator.__getstate__(estimator).items()
    }


def set_state(estimator: Any, state: dict[str, Any]) -> None:
    """Restore an estimator from what was stored of it."""
    known: dict[int, Any] = {}
    unpacked = {name: _unpacked(value, known) for name, value in state.items()}
    BaseEstimator.__setstate__(estimator, unpacked)


def copied(estimator: Any) -> Any:
    """Return a copy that shares all attributes."""
    other = object.__new__(type(estimator))
    vars(other).update(vars(estimator))
    return other


STATE_METHODS = get_state, set_state, copied


def _packed(value: Any, known: dict[int, Any]) -> Any:
    """Return a value with plain containers in place of objects of this package."""
    kind = type(value)
    if kind in (list, tuple):
        return kind(_packed(each, known) for each in value)
    if kind is dict:
        return {name: _packed(each, known) for name, each in value.items()}
    own = kind.__module__.partition(".")[0] == _PACKAGE
    if not own or isinstance(value, (BaseEstimator, type)):
        return value
    if id(value) not in known:
        content = list(value) if isinstance(value, tuple) else value.__getstate__()
        packed = {_TYPE: [kind.__module__, kind.__qualname__]}
        known[id(value)] = packed
        packed["content"] = _packed(content, known)
    return known[id(value)]


def _unpacked(value: Any, known: dict[int, Any]) -> Any:
    """Return what ``_packed`` was given."""
    if type(value) in (list, tuple):
        return type(value)(_unpacked(each, known) for each in value)
    if type(value) is not dict:
        return value
    if _TYPE not in value:
        return {name: _unpacked(each, known) for name, each in value.items()}
    if id(value) not in known:
        module, name = value[_TYPE]
        if module.partition(".")[0] != _PACKAGE:  # a file may say anything
            raise ValueError(f"{module}.{name} is no type of {_PACKAGE}.")
        kind = getattr(import_module(module), name)
        content = _unpacked(value["content"], known)
        known[id(value)] = _rebuilt(kind, content)
    return known[id(value)]


def _rebuilt(kind: type, content: Any) -> Any:
    if issubclass(kind, tuple):
        return kind(*content)
    made: Any = object.__new__(kind)
    if hasattr(kind, "__setstate__"):
        made.__setstate__(content)
    elif content:
        vars(made).update(content)
    return made
