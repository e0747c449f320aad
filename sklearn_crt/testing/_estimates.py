"""Draws of estimates of a kernel, and the test of their mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import stats
from sklearn import config_context
from sklearn.base import clone

from ..maps import FeatureMap
from ..samplers import BaseFeatureSampler

FAMILY = 1e-6  # chance that one call fails a correct sampler
_OF_FIT = "fit", "_begin", "_read", "_observe", "_settle"


def contract_rows(n_features: int = 4, random_state: int = 0) -> np.ndarray:
    """Return rows on the axes and in random directions, with mean zero.

    Faults of a rotation show on the axes; bandwidths show everywhere.

    Parameters
    ----------
    n_features : int, default=4
        Number of columns.
    random_state : int, default=0
        Seed of the random directions.

    Returns
    -------
    X : ndarray of shape (6, n_features)
        Rows of norm 0.7, in pairs x and -x.

    Examples
    --------
    >>> from sklearn_crt.testing import contract_rows
    >>> contract_rows(3).shape
    (6, 3)
    """
    rng = np.random.default_rng(random_state)
    rows = rng.standard_normal((3, n_features))
    rows[0] = np.eye(n_features)[0]
    rows[1] = np.eye(n_features)[-1]
    rows *= 0.7 / np.linalg.norm(rows, axis=1, keepdims=True)
    return np.concatenate([rows, -rows])


def fit_sides(
    sampler: BaseFeatureSampler, X: np.ndarray, Y: np.ndarray | None
) -> BaseFeatureSampler:
    """Fit a sampler on the rows of both sides, or on X alone where Y is None."""
    return sampler.fit(X) if Y is None else sampler.fit(X, X_key=Y)


def stated_bias(sampler: BaseFeatureSampler) -> float:
    """Return the relative bias that the coupling of a fitted sampler admits."""
    return _bias(getattr(sampler, "map_", None))


def _bias(feature_map: FeatureMap | None) -> float:
    """Return the largest bias of the couplings of a map, or of the maps in it."""
    coupling = getattr(feature_map, "coupling", None)
    own = 0.0 if coupling is None else coupling.bias
    return max([own, *map(_bias, getattr(feature_map, "parts", ()))])


def stated_variance(
    fitted: Any, X: np.ndarray, Y: np.ndarray | None
) -> tuple[np.ndarray, float | np.ndarray]:
    """Return what ``kernel_variance`` states, and its standard error, 0 if exact."""
    if hasattr(fitted.map_, "variance_with_error"):
        return fitted.kernel_variance(X, Y, return_error=True)
    return fitted.kernel_variance(X, Y), 0.0


def seed_estimates(
    sampler: BaseFeatureSampler,
    X: np.ndarray,
    Y: np.ndarray | None = None,
    *,
    n_draws: int = 64,
) -> np.ndarray:
    """Fit a sampler with many seeds and return its estimates of the kernel.

    Parameters
    ----------
    sampler : sampler
        Cloned, and fitted with each seed.
    X, Y : ndarray of shape (n_X, n_features), (n_Y, n_features)
        Rows of the two sides; Y is X if None.
    n_draws : int, default=64
        Number of seeds.

    Returns
    -------
    estimates : ndarray of shape (n_draws, n_X, n_Y)
        ``approximate_kernel`` of each fit.
    """
    drawn, estimates = clone(sampler), []
    for seed in range(n_draws):
        # what is valid for one seed is for all: a third of the time of narrow fits
        with config_context(skip_parameter_validation=seed > 0, assume_finite=seed > 0):
            drawn.random_state = seed
            if seed and _reads_the_same_for_any_seed(drawn):
                _draw_again(drawn)
            else:
                fit_sides(drawn, X, Y)
            estimates.append(drawn.approximate_kernel(X, Y))
    return np.stack(estimates)


def _reads_the_same_for_any_seed(fitted: Any) -> bool:
    """Whether ``fit`` is that of the base class, and no sample of rows is drawn."""
    kind = type(fitted)
    own = any(getattr(kind, f) is not getattr(BaseFeatureSampler, f) for f in _OF_FIT)
    sigma = getattr(fitted, "sigma", None)
    median = isinstance(sigma, str) and sigma == "median"
    return not (own or median or fitted._reads_rows())


def _draw_again(fitted: Any) -> None:
    """Do what ``fit`` does after it has read the rows, which are those of before."""
    statistics, dtype = fitted._statistics, fitted._dtype
    fitted._begin()
    fitted._settle(replace(statistics, seed=fitted._statistics.seed), dtype)


def assert_mean(
    estimates: np.ndarray, expected: np.ndarray, *, bias: float = 0.0
) -> None:
    """Assert that independent estimates have a mean, by t statistics.

    Parameters
    ----------
    estimates : ndarray of shape (n_draws, ...)
        Independent along the first axis.
    expected : ndarray of shape (...)
        The claimed mean.
    bias : float, default=0.0
        Relative error of the mean that is admitted, not counted in the statistics.

    Raises
    ------
    AssertionError
        If a t statistic is beyond the threshold of family-wise 1e-6.
    """
    n = estimates.shape[0]
    error = np.abs(estimates.mean(axis=0) - expected) - bias * np.abs(expected)
    standard = estimates.std(axis=0, ddof=1) / np.sqrt(n) + 1e-12
    t = np.maximum(error, 0) / standard
    limit = stats.t.isf(FAMILY / (2 * np.size(expected)), n - 1)
    worst = np.unravel_index(np.argmax(t), np.shape(t))
    mean, claim = estimates.mean(axis=0)[worst], np.asarray(expected)[worst]
    assert np.all(t < limit), (
        f"biased: t = {np.max(t):.1f} (limit {limit:.1f}) at {worst}, mean "
        f"{mean:.6g}, expected {claim:.6g}"
    )
