"""From the parameters ``sigma`` and ``metric`` to what multiplies the inputs."""

from __future__ import annotations

import math
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from .statistics import Statistics

_LARGEST = 1e154  # of a sigma, whose square is a number
Sigma: TypeAlias = float | str | ArrayLike


def resolve_sigma(sigma: Sigma, statistics: Statistics) -> float | np.ndarray:
    """Return the multiplier of the inputs: a number, or one for each column."""
    moments = statistics.both
    if isinstance(sigma, str):
        if sigma == "median":
            if statistics.sample is None:
                raise ValueError(
                    "sigma='median' needs a sample of the rows, which only an "
                    "estimator fitted with sigma='median' keeps, and none that was "
                    "frozen."
                )
            return _in_range(sigma, 1.0 / statistics.sample.median_distance())
        variance = moments.mean.size * moments.total_variance
        if variance <= 1e-28 * moments.mean_square.sum():  # constant up to rounding
            return math.sqrt(2.0)  # gamma = sigma^2 / 2 = 1, as in scikit-learn
        return _in_range(sigma, math.sqrt(2.0 / variance))
    return check_sigma(sigma, moments.mean.size)


def _in_range(name: str, sigma: float) -> float:
    """Return a sigma made of rows, whose square is a number, or raise ValueError."""
    if sigma > _LARGEST:
        raise ValueError(
            f"Input X contains values too small for sigma={name!r}: it would be "
            f"{sigma:.2g}, and its square must be finite in float64. Scale the "
            "columns, for instance with StandardScaler."
        )
    return sigma


def check_sigma(sigma: Sigma, n_features: int) -> float | np.ndarray:
    """Return a sigma that is a number, or one for each column, or raise ValueError."""
    # sigma (n_features,) -> (n_features,)
    values = np.asarray(sigma, dtype=np.float64)
    if not np.all((values <= _LARGEST) & (values > 0)):
        raise ValueError(
            f"sigma={sigma!r} must be positive and finite, and at most {_LARGEST:g}: a "
            "number, one number for each feature, 'scale' or 'median'."
        )
    if isinstance(sigma, Real):
        return float(sigma)
    if values.shape != (n_features,):
        raise ValueError(
            f"sigma has shape {values.shape}, but X has {n_features} features; "
            f"give a number or an array of shape ({n_features},)."
        )
    return values


def metric_factor(metric: ArrayLike | None, n_features: int) -> np.ndarray | None:
    """Return the L of M = L L', so ``|u|_M = |L'u|``."""
    # metric (n_features, n_features) -> (n_features, n_features)
    if metric is None:
        return None
    M = check_array(metric, dtype=np.float64, input_name="metric")
    if M.shape != (n_features, n_features):
        raise ValueError(
            f"metric has shape {M.shape}, but X has {n_features} features; give a "
            f"symmetric positive definite matrix of shape ({n_features}, {n_features})."
        )
    if not np.allclose(M, M.T, rtol=1e-10, atol=1e-12 * np.abs(M).max()):
        raise ValueError(
            "metric must be symmetric; (metric + metric.T) / 2 is the symmetric matrix "
            "with the same norm."
        )
    try:
        return np.linalg.cholesky((M + M.T) / 2)
    except np.linalg.LinAlgError as error:
        smallest = np.linalg.eigvalsh(M)[0]
        raise ValueError(
            f"metric must be positive definite, but its smallest eigenvalue is "
            f"{smallest:.3g}; add a multiple of the identity."
        ) from error
