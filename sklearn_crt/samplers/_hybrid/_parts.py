"""Fits the parts of a hybrid, which may be samplers written elsewhere."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ...maps import FeatureMap, OutsideMap
from ...rows import Frame, Rows, Statistics, UnitRows
from .._base import BaseFeatureSampler

_PAIR_ROWS = 32  # rows of each side on which variances are averaged


class Sample(NamedTuple):
    """Distinct rows of one side at unit bandwidth, and their weights.

    Attributes
    ----------
    rows : {ndarray, sparse matrix} of shape (n_rows, n_features)
        The rows.
    weights : ndarray of shape (n_rows,)
        Their weights.
    """

    rows: Rows
    weights: np.ndarray


def unit_samples(statistics: Statistics, frame: Frame) -> list[Sample]:
    """Return the samples of rows of each side, at unit bandwidth.

    Parameters
    ----------
    statistics : Statistics
        With samples of rows.
    frame : Frame
        Centre and sigma.

    Returns
    -------
    samples : list of Sample
        Of the queries and, where they differ, of the keys.
    """
    sides = (sample.distinct() for sample in statistics.side_samples)
    return [Sample(frame.rows(rows).matrix, weights) for rows, weights in sides]


def fit_part(
    part: Any, samples: list[Sample], n_components: int | None, seed: int, **params: Any
) -> Any:
    """Return a fitted clone of a sampler.

    Parameters
    ----------
    part : sampler
        With ``fit``, ``transform`` and, where that is another map, ``transform_key``.
    samples : list of Sample
        Of the queries and, where they differ, of the keys.
    n_components, seed : int
        Its width, or None for its own, and its seed.
    **params
        Further parameters to set where the sampler has them.

    Returns
    -------
    fitted : sampler
        The clone.
    """
    part = clone(part)
    params |= {"random_state": int(seed)}
    if n_components is not None:
        params["n_components"] = n_components
    known = part.get_params(deep=False)
    part.set_params(**{name: value for name, value in params.items() if name in known})
    options, (rows, weights) = {}, samples[0]
    if np.any(weights != 1) and has_fit_parameter(part, "sample_weight"):
        options["sample_weight"] = weights
    if len(samples) > 1 and has_fit_parameter(part, "X_key"):
        options["X_key"] = samples[1].rows
    return part.fit(rows, **options)


def fit_base(part: Any, samples: list[Sample], n_components: int, seed: int) -> Any:
    """Return a fitted map of the Gaussian kernel at unit bandwidth.

    Parameters
    ----------
    part : sampler
        A base map of a hybrid, unfitted.
    samples : list of Sample
        Of each side.
    n_components, seed : int
        Its width and its seed.

    Returns
    -------
    fitted : sampler
        The clone.

    Raises
    ------
    ValueError
        If it has another width.
    """
    params = {"sigma": 1.0, "kernel": "gaussian"}
    fitted = fit_part(part, samples, n_components, seed, **params)
    width = map_of(fitted, samples).n_components
    if width != n_components:
        raise ValueError(
            f"The base {fitted!r} has {width} columns, but the hybrid set "
            f"n_components={n_components}: a base must have exactly as many."
        )
    return fitted


def map_of(fitted: Any, samples: list[Sample]) -> FeatureMap:
    """Return the map of a fitted part.

    Parameters
    ----------
    fitted : sampler
        Of this package or written elsewhere.
    samples : list of Sample
        Of each side; a row shows the width of a map from elsewhere.

    Returns
    -------
    map : FeatureMap
        Its map.
    """
    if isinstance(fitted, BaseFeatureSampler):
        return fitted.map_
    return OutsideMap.of(fitted, samples[0].rows)


def constant_of(fitted: Any) -> float:
    """Return the constant part of a fitted coefficient, 0 where it states none.

    Parameters
    ----------
    fitted : sampler
        The coefficient.

    Returns
    -------
    a : float
        The attribute ``a_``.
    """
    return float(getattr(fitted, "a_", 0.0))


def columns_per_frequency(part: Any) -> int:
    """Return the number of columns of a frequency, 1 for samplers from elsewhere.

    Parameters
    ----------
    part : sampler
        Unfitted.

    Returns
    -------
    n_columns : int
        1 or 2.
    """
    return part.columns_per_frequency if isinstance(part, BaseFeatureSampler) else 1


def few_rows(samples: list[Sample]) -> tuple[UnitRows, UnitRows]:
    """Return some rows of both sides, other rows of the two where they are one.

    Parameters
    ----------
    samples : list of Sample
        Of each side.

    Returns
    -------
    queries, keys : UnitRows
        In float64, as raw rows of the parts.
    """
    sides = (samples[0], 0.25), (samples[-1], 0.75)
    return Frame().pair(*(_spread(*sample, offset) for sample, offset in sides))


def _spread(rows, weights, offset):
    """Return rows at even steps of the cumulated weight, in their order."""
    steps = (np.arange(_PAIR_ROWS) + offset) / _PAIR_ROWS
    cumulated = np.cumsum(weights)
    places = np.searchsorted(cumulated, steps * cumulated[-1])
    return rows[np.minimum(places, rows.shape[0] - 1)]
