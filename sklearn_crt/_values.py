"""Comparing and pickling the state of fitted estimators."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

from sklearn.base import BaseEstimator


class Value:
    """Base class of immutable dataclasses, whose cached properties are not pickled."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields, without what is computed from them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]


# attributes of estimators that do not affect what they compute
_WITHOUT_EFFECT = {"random_state": 0, "n_jobs": 0, "_map_use": None}


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
        return same(*({**vars(e), **_WITHOUT_EFFECT} for e in (a, b)))
    if is_dataclass(a) or (type(a).__eq__ is object.__eq__ and hasattr(a, "__dict__")):
        return same(a.__getstate__(), b.__getstate__())
    if hasattr(a, "shape"):  # arrays of any library, and sparse tables
        return a.shape == b.shape and bool((a != b).sum() == 0)
    return bool(a == b)


def check_same_params(mine: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Raise ValueError if two models to be merged have different parameters.

    Seeds and ``n_jobs`` may differ.
    """
    for name, value in mine.items():
        may_differ = name in ("n_jobs", "random_state", "seed")
        if not (may_differ or same(value, theirs[name])):
            raise ValueError(
                f"merge requires equal parameters, but {name} is {value!r} in one "
                f"object and {theirs[name]!r} in the other."
            )
