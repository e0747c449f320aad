"""Fits the parts of hybrids, which may be samplers of another package."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ...maps import FeatureMap, ThirdPartyMap
from ...rows import Frame, Rows, Statistics
from .._base import BaseFeatureSampler


class Sample(NamedTuple):
    """Distinct rows of one side at unit bandwidth, and their weights."""

    rows: Rows  # (n_rows, n_features)
    weights: np.ndarray  # (n_rows,)


def unit_samples(statistics: Statistics, frame: Frame) -> list[Sample]:
    """Return the samples of rows of each side, at unit bandwidth."""
    sides = (sample.distinct() for sample in statistics.side_samples)
    return [Sample(frame.rows(rows).matrix, weights) for rows, weights in sides]


def fit_part(part: Any, samples: list[Sample], seed: int, **params: Any) -> Any:
    """Return a fitted clone of a sampler, with the parameters that it has."""
    part, params = clone(part), {**params, "random_state": int(seed)}
    known = part.get_params(deep=False)
    part.set_params(**{name: value for name, value in params.items() if name in known})
    options, (rows, weights) = {}, samples[0]
    if np.any(weights != 1) and has_fit_parameter(part, "sample_weight"):
        options["sample_weight"] = weights
    if len(samples) > 1 and has_fit_parameter(part, "X_key"):
        options["X_key"] = samples[1].rows
    if not isinstance(part, BaseFeatureSampler):
        return part.fit(rows, **options)
    part._validate_params()
    part._fit(rows, options.get("X_key"), options.get("sample_weight"))
    return part


def fit_base(part: Any, samples: list[Sample], n_components: int, seed: int) -> Any:
    """Return a fitted map of the Gaussian kernel at unit bandwidth."""
    params = {"n_components": n_components, "sigma": 1.0, "kernel": "gaussian"}
    fitted = fit_part(part, samples, seed, **params)
    width = map_of(fitted, samples).n_components
    if width != n_components:
        raise ValueError(
            f"The base {fitted!r} has {width} columns, but the hybrid set "
            f"n_components={n_components}: a base must have exactly as many."
        )
    return fitted


def map_of(fitted: Any, samples: list[Sample]) -> FeatureMap:
    """Return the map of a fitted part."""
    if isinstance(fitted, BaseFeatureSampler):
        return fitted.map_
    return ThirdPartyMap.of(fitted, samples[0].rows)


def columns_per_frequency(part: Any, samples: list[Sample]) -> int:
    """Return the number of columns per frequency, 1 for third-party samplers."""
    if not isinstance(part, BaseFeatureSampler):
        return 1
    if hasattr(part, "min_components"):
        return 2
    return fit_part(part, samples, 0).map_.columns_per_frequency
