"""Warnings about features that are unreliable, with advice on what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from .._compat import warn
from ..arrays.namespaces import taken, to_host
from ..exceptions import ApproximationWarning
from ..maps import FeatureMap, relative_error

if TYPE_CHECKING:
    from ._base import BaseFeatureSampler, SamplerBatch

_ERROR_ROWS = 16  # number of queries, and of keys, used to estimate the error
_LIGHT_TAIL = 0.3  # smallest tail index for which fit does not warn


def warn_of_error(sampler: BaseFeatureSampler, batch: SamplerBatch) -> None:
    """Warn if the predicted error exceeds the kernel value for half the pairs."""
    name, feature_map = type(sampler).__name__, sampler.map_
    n = feature_map.n_components
    sides = batch.X, batch.X if batch.X_key is None else batch.X_key
    sizes = [side.shape[0] for side in sides]
    if min(sizes) < 2 * _ERROR_ROWS:
        return
    steps = (np.arange(_ERROR_ROWS) + offset for offset in (0.25, 0.75))
    rows = [
        to_host(taken(side, (step * size / _ERROR_ROWS).astype(int)))
        for side, size, step in zip(sides, sizes, steps, strict=True)
    ]
    for side in rows:
        feature_map.frame.check(side)
    ratio = relative_error(feature_map, *feature_map.frame.pair(*rows))
    if not 1 < ratio < np.inf:
        return
    enough, sines = 4 * ratio**2 * n, name == "TrigRBFSampler"
    advice = "A smaller sigma" + ("" if sines else " or TrigRBFSampler")
    advice += " needs fewer columns."
    if enough < 1e5:
        half = f"About n_components={enough:.0f} would reduce it to half;"
        advice = f"{half} a{advice[1:]}"
    warn(
        f"{name}(n_components={n}): for half of the sampled pairs of rows, the "
        f"predicted error of the kernel estimate is at least {ratio:.2g} times the "
        f"kernel value, so the features are mostly noise. {advice} "
        "sklearn_crt.compare_samplers measures the error of samplers on your rows.",
        ApproximationWarning,
    )


def warn_of_tail(sampler: BaseFeatureSampler, index: float, advice: str) -> None:
    """Warn if many frequencies are too large, given b such that P(|w| > R) ~ R^-b."""
    if index < _LIGHT_TAIL:
        warn(
            f"The frequencies of {type(sampler).__name__} have heavy tails: a norm "
            f"exceeds R with a probability of about R^-{index:.2g}. Many phases w.x "
            "are therefore too large for the precision of floating-point numbers (2^24 "
            "in float32, 2^53 in float64), and their sines and cosines are noise; "
            f"norms are limited to 1e15. Use float64, {advice}, or the exact kernel of "
            "sklearn_crt.kernels.",
            ApproximationWarning,
        )


def warn_of_changed_map(sampler: BaseFeatureSampler) -> None:
    """Warn that features of an earlier map have been used."""
    name = type(sampler).__name__
    warn(
        f"partial_fit changed the feature map of this {name} after transform had been "
        "called, so the earlier features belong to a different map. Call partial_fit "
        "on all batches (or fit on a sample of rows), then freeze(), and then "
        "transform. Alternatively, use "
        f"NadarayaWatsonClassifier({name}(...)).partial_fit, which handles this.",
        UserWarning,
    )


def warn_of_phases(
    sampler: BaseFeatureSampler, rows: Any, feature_map: FeatureMap
) -> None:
    """Warn about phases that are too large for the precision of their dtype."""
    frame = feature_map.frame
    n_rows, most = frame.count_unresolved(rows, feature_map.phase_rate)
    if n_rows:
        warn(
            f"For {n_rows} rows, {type(sampler).__name__} computes features from "
            f"phases above {most:.2g}, which exceed the precision of {rows.dtype}, so "
            "these features are noise. Use a smaller sigma or float64, or scale the "
            "columns, for instance with StandardScaler.",
            ApproximationWarning,
        )


def warn_of_queries_as_keys(sampler: BaseFeatureSampler) -> None:
    """Warn that a pipeline uses the features of queries for the keys, too."""
    name = type(sampler).__name__
    warn(
        f"{name} has different features for queries and for keys, and fit_transform "
        "returns those of queries: their inner products do not estimate the kernel. "
        f"Pass the sampler to the estimator, as in NadarayaWatsonClassifier({name}()), "
        "instead of putting it in front of kernel='linear'. A linear model may use the "
        "features as columns.",
        ApproximationWarning,
    )


def warn_of_infinite_kernel(sampler: BaseFeatureSampler, kernel: np.ndarray) -> None:
    """Warn about kernel values that are too large for their dtype."""
    n_pairs = int(np.count_nonzero(np.isinf(kernel)))
    if n_pairs:
        warn(
            f"Kernel values of {type(sampler).__name__} for {n_pairs} pairs of rows "
            f"are too large for {kernel.dtype} and became infinite. Use a smaller "
            "sigma or float64.",
            ApproximationWarning,
        )


def warn_of_range(
    sampler: BaseFeatureSampler, dtype: DTypeLike, n_lost: int, overflows: bool
) -> None:
    """Warn about rows whose features became zero, and about infinite features."""
    name = type(sampler).__name__
    if n_lost:
        share = "Half or more of the" if sampler.map_.is_positive else "All"
        epsilon = ", a larger epsilon" if hasattr(sampler, "epsilon") else ""
        warn(
            f"{share} features of {n_lost} rows are too small for {dtype} and became "
            f"0. Use a smaller sigma{epsilon}, float64, or "
            f"NadarayaWatsonClassifier({name}(...)), which works with the logarithms "
            "of the features.",
            ApproximationWarning,
        )
    if overflows:
        warn(
            f"Features of {name} are too large for {dtype} and became infinite. Use a "
            "smaller sigma or float64.",
            ApproximationWarning,
        )
