"""Comparing, copying and storing the state of fitted estimators.

A skops file lists the types of the objects that it contains, and the user who loads it
must trust each of them. To keep this list short, the only types of this package in such
files are its estimators. What an estimator has learned is stored in dictionaries, lists
and arrays.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

_PACKAGE = __name__.partition(".")[0]
_TYPE = f"type of {_PACKAGE}"
_COMPLEX = f"complex number of {_PACKAGE}"


# ------------------------------------------------------------------------ comparing
def same(a: Any, b: Any) -> bool:
    """Return whether two parameters, maps or fitted estimators are equal."""
    if a is b:
        return True
    if type(a) is not type(b) or isinstance(a, FunctionType):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[name], b[name]) for name in a)
    if isinstance(a, BaseEstimator):
        return same(*({**vars(e), "random_state": 0, "n_jobs": 0} for e in (a, b)))
    if is_dataclass(a) or (type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__")):
        return same(_content(a), _content(b))
    if hasattr(a, "shape"):  # arrays of any library, and sparse tables
        return a.shape == b.shape and bool((a != b).sum() == 0)
    return bool(a == b)


def check_same_columns(one: Any, other: Any) -> None:
    """Raise ValueError if two estimators were not fitted on the same columns."""
    pair = one, other
    counts = [estimator.n_features_in_ for estimator in pair]
    if counts[0] != counts[1]:
        raise ValueError(
            f"merge needs the same columns on both sides, but one has {counts[0]} "
            f"features and the other {counts[1]}."
        )
    names = _names_of_columns(*pair)
    if names and not np.array_equal(names[0], names[1]):
        raise ValueError(
            "merge needs the same feature names in the same order, got "
            f"{names[0].tolist()} and {names[1].tolist()}."
        )


def check_same_params(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise ValueError if two models to be merged have different parameters.

    Seeds and ``n_jobs`` may differ.
    """
    for name, value in mine.items():
        may_differ = name in ("n_jobs", "random_state", "seed")
        if not (may_differ or same(value, theirs[name])):
            raise ValueError(
                f"merge needs the same parameters on both sides, but {name} is "
                f"{value!r} in one and {theirs[name]!r} in the other."
            )


def check_names(estimator: Any, sampler: Any) -> None:
    """Raise ValueError if column names differ from those of a fitted sampler."""
    names = _names_of_columns(estimator, sampler)
    if names and not np.array_equal(names[0], names[1]):
        raise ValueError(
            "The feature names should match those that were passed during fit of the "
            f"sampler, {names[1].tolist()}, in this order; got {names[0].tolist()}."
        )


def _names_of_columns(*pair: Any) -> list[np.ndarray]:
    """Return the column names of two estimators, or an empty list if one has none."""
    names = [getattr(one, "feature_names_in_", None) for one in pair]
    return names if all(each is not None for each in names) else []  # type: ignore[return-value]


# -------------------------------------------------------------------------- storing


def get_state(estimator: Any) -> dict[str, Any]:
    """Return the state of an estimator for ``pickle`` and ``skops``."""
    known: dict[int, Any] = {}  # objects already packed, which are stored only once
    return {
        name: _packed(value, known)
        for name, value in BaseEstimator.__getstate__(estimator).items()
    }


def set_state(estimator: Any, state: dict[str, Any]) -> None:
    """Restore an estimator from its stored state."""
    known: dict[int, Any] = {}
    unpacked = {name: _unpacked(value, known) for name, value in state.items()}
    BaseEstimator.__setstate__(estimator, unpacked)


def copied(estimator: Any) -> Any:
    """Return a shallow copy of an estimator, with the same attributes."""
    other = object.__new__(type(estimator))
    vars(other).update(vars(estimator))
    return other


def _packed(value: Any, known: dict[int, Any]) -> Any:
    """Replace objects of this package in a value by plain containers."""
    kind = type(value)
    if isinstance(value, complex):  # skops does not support complex numbers
        return {_COMPLEX: [value.real, value.imag]}
    if kind in (list, tuple):
        return kind(_packed(each, known) for each in value)
    if kind is dict:
        return {name: _packed(each, known) for name, each in value.items()}
    own = kind.__module__.partition(".")[0] == _PACKAGE
    if not own or isinstance(value, (BaseEstimator, type)):
        return value
    if id(value) not in known:
        content = list(value) if isinstance(value, tuple) else _content(value)
        packed = {_TYPE: [kind.__module__, kind.__qualname__]}
        known[id(value)] = packed
        packed["content"] = _packed(content, known)
    return known[id(value)]


def _content(value: Any) -> Any:
    """Return the state of an object, without attributes computed from its fields."""
    if is_dataclass(value) and type(value).__getstate__ is object.__getstate__:
        return {field.name: getattr(value, field.name) for field in fields(value)}
    return value.__getstate__()


def _unpacked(value: Any, known: dict[int, Any]) -> Any:
    """Undo ``_packed``: return the original value."""
    if type(value) in (list, tuple):
        return type(value)(_unpacked(each, known) for each in value)
    if type(value) is not dict:
        return value
    if _COMPLEX in value:
        return complex(*value[_COMPLEX])
    if _TYPE not in value:
        return {name: _unpacked(each, known) for name, each in value.items()}
    if id(value) not in known:
        module, name = value[_TYPE]
        # for security, only types of this package are restored from a file
        if module.partition(".")[0] != _PACKAGE:
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
