"""Comparing and copying the state of fitted estimators."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from types import FunctionType
from typing import Any

import numpy as np
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


def copied(estimator: Any) -> Any:
    """Return a shallow copy of an estimator, with the same attributes."""
    other = object.__new__(type(estimator))
    vars(other).update(vars(estimator))
    return other
