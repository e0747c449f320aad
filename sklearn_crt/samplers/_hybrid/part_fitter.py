"""A class that fits samplers as parts of a map."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ...life_cycle.fitted import read_rows, with_value
from ...maps import FeatureMap, ThirdPartyMap
from ...rows import Frame, Rows, Statistics
from .._base import BaseFeatureSampler


class ScaledRows(NamedTuple):
    """Distinct sampled queries or keys, multiplied by sigma, and their weights."""

    rows: Rows  # (n_rows, n_features)
    weights: np.ndarray  # (n_rows,)


class PartFitter:
    """Fits the parts of a map, all of them on the same sampled and scaled rows."""

    def __init__(self, statistics: Statistics, frame: Frame):
        distinct = (sample.distinct() for sample in statistics.side_samples)
        self.sides = [
            ScaledRows(frame.rows(rows).matrix, weights) for rows, weights in distinct
        ]

    def fit(self, part: Any, seed: int, **params: Any) -> Any:
        """Return a fitted clone of a sampler; unknown parameters are ignored."""
        params = {**params, "random_state": int(seed)}
        known = part.get_params(deep=False)
        params = {name: value for name, value in params.items() if name in known}
        _check_not_overridden(part, known, params)
        part, options = clone(part).set_params(**params), {}
        rows, weights = self.sides[0]
        if np.any(weights != 1) and has_fit_parameter(part, "sample_weight"):
            options["sample_weight"] = weights
        if len(self.sides) > 1 and has_fit_parameter(part, "X_key"):
            options["X_key"] = self.sides[1].rows
        if not isinstance(part, BaseFeatureSampler):
            return part.fit(rows, **options)
        # without the warnings of ``fit``, which are about the error of the part alone
        part._validate_params()
        X_key, sample_weight = options.get("X_key"), options.get("sample_weight")
        part, batch = read_rows(part, rows, None, X_key, sample_weight)
        return with_value(part, part._empty_value(batch).plus(batch))

    def fit_base(self, part: Any, seed: int, n_components: int) -> Any:
        """Return a fitted base sampler with this many columns and a Gaussian kernel."""
        params = {"n_components": n_components, "sigma": 1.0, "kernel": "gaussian"}
        fitted = self.fit(part, seed, **params)
        width = self.map_of(fitted).n_components
        if width != n_components:
            raise ValueError(
                f"The base {fitted!r} has {width} columns, but the hybrid has set "
                f"n_components={n_components}. A base must have exactly this number of "
                "columns."
            )
        return fitted

    def map_of(self, fitted: Any) -> FeatureMap:
        """Return the map of a fitted part."""
        if isinstance(fitted, BaseFeatureSampler):
            return fitted.map_
        return ThirdPartyMap.of(fitted, self.sides[0].rows)

    def columns_per_frequency(self, part: Any) -> int:
        """Return the number of columns per frequency, 1 for third-party samplers."""
        if not isinstance(part, BaseFeatureSampler):
            return 1
        if hasattr(part, "_min_components"):
            return 2
        part._validate_params()
        known = part._columns_per_frequency(self.sides[0].rows.shape[1])
        return self.fit(part, 0).map_.columns_per_frequency if known is None else known


def spread_columns(
    n_components: int, units: list[int], costs: list[int]
) -> tuple[list[int], int]:
    """Divide columns among maps so that all have the same number of frequencies.

    A frequency of map k has ``units[k]`` columns, which take up ``costs[k]`` columns of
    the hybrid. If enough columns remain, individual maps get one more frequency each,
    in the given order. Return the number of columns of each map, and the number that
    remains.
    """
    frequencies, rest = divmod(n_components, sum(costs))
    widths = [frequencies * unit for unit in units]
    for k, cost in enumerate(costs):
        if 0 < cost <= rest:
            widths[k] += units[k]
            rest -= cost
    return widths, rest


def _check_not_overridden(part: Any, own: dict[str, Any], params: dict) -> None:
    """Raise ValueError if the hybrid would override a parameter set on a part."""
    signature = inspect.signature(type(part)).parameters
    for name in params.keys() & signature.keys():
        default = signature[name].default
        harmless = default, params[name]
        if not any(np.array_equal(own[name], value) for value in harmless):
            raise ValueError(
                f"{name}={own[name]!r} of {part!r} has no effect in a hybrid, which "
                f"sets this parameter of its parts. Leave it at its default, "
                f"{default!r}, and set sigma, n_components, n_coefficients, kernel or "
                "random_state of the HybridSampler."
            )
