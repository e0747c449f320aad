"""Samplers as parts of a larger map: how they are fitted, and what map they give."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ...maps import FeatureMap, ThirdPartyMap
from ...rows import Frame, Rows, Statistics
from .._base import BaseFeatureSampler


class ScaledRows(NamedTuple):
    """Distinct sampled rows of one side, multiplied by sigma, and their weights."""

    rows: Rows  # (n_rows, n_features)
    weights: np.ndarray  # (n_rows,)


class PartFitter:
    """Fits samplers as parts of one map, all on the same sampled and scaled rows."""

    def __init__(self, statistics: Statistics, frame: Frame):
        distinct = (sample.distinct() for sample in statistics.side_samples)
        self.sides = [
            ScaledRows(frame.rows(rows).matrix, weights) for rows, weights in distinct
        ]

    def fit(self, part: Any, seed: int, **params: Any) -> Any:
        """Return a fitted clone of a sampler, with those of the parameters it has."""
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
        part._validate_params()
        part._fit(rows, options.get("X_key"), options.get("sample_weight"))
        return part

    def fit_base(self, part: Any, seed: int, n_components: int) -> Any:
        """Return a sampler of the Gaussian kernel, fitted with this many columns."""
        params = {"n_components": n_components, "sigma": 1.0, "kernel": "gaussian"}
        fitted = self.fit(part, seed, **params)
        width = self.map_of(fitted).n_components
        if width != n_components:
            raise ValueError(
                f"The base {fitted!r} has {width} columns, but the hybrid set "
                f"n_components={n_components}: a base must have exactly as many."
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
        if hasattr(part, "min_components"):
            return 2
        return self.fit(part, 0).map_.columns_per_frequency


def spread_columns(
    n_components: int, units: list[int], costs: list[int]
) -> tuple[list[int], int]:
    """Return the columns of maps with equally many frequencies, and those left over.

    A frequency of map k has ``units[k]`` columns, and ``costs[k]`` in the whole. What
    is left goes to one more frequency of single maps, in this order.
    """
    frequencies, rest = divmod(n_components, sum(costs))
    widths = [frequencies * unit for unit in units]
    for k, cost in enumerate(costs):
        if 0 < cost <= rest:
            widths[k] += units[k]
            rest -= cost
    return widths, rest


def _check_not_overridden(part: Any, own: dict[str, Any], params: dict) -> None:
    """Raise ValueError where a parameter that the user set on a part has no effect."""
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
