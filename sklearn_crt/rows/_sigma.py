"""From the parameter ``sigma`` to the number that multiplies the inputs."""

from __future__ import annotations

import math
from numbers import Real
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from ._statistics import Statistics

Sigma: TypeAlias = float | str | ArrayLike


def resolve_sigma(sigma: Sigma, statistics: Statistics) -> float | np.ndarray:
    """Return the multiplier of the inputs.

    Parameters
    ----------
    sigma : float, {"scale", "median"} or array-like of shape (n_features,)
        The parameter of an estimator.
    statistics : Statistics
        Of the rows of both sides; with a sample of rows where ``"median"`` is asked
        for.

    Returns
    -------
    sigma : float or ndarray of shape (n_features,)
        Positive and finite.

    Raises
    ------
    ValueError
        If the parameter is out of range or does not fit the columns.
    """
    moments = statistics.both
    if isinstance(sigma, str):
        if sigma == "median":
            if statistics.sample is None:
                raise ValueError(
                    "sigma='median' needs a sample of the rows, which only an "
                    "estimator fitted with sigma='median' keeps, and none that was "
                    "frozen."
                )
            return 1.0 / statistics.sample.median_distance()
        variance = moments.mean.size * moments.total_variance
        if variance <= 1e-28 * moments.mean_square.sum():  # constant up to rounding
            return math.sqrt(2.0)  # gamma = sigma^2 / 2 = 1, as in scikit-learn
        return math.sqrt(2.0 / variance)
    return check_sigma(sigma, moments.mean.size)


def check_sigma(sigma: Sigma, n_features: int) -> float | np.ndarray:
    """Return a sigma that is a number, or one for each column, or raise ValueError.

    Parameters
    ----------
    sigma : float or array-like of shape (n_features,)
        The parameter.
    n_features : int
        Number of columns.

    Returns
    -------
    sigma : float or ndarray of shape (n_features,)
        Positive and finite.

    Raises
    ------
    ValueError
        If a number is not positive and finite, or their number does not fit.
    """
    values = np.asarray(sigma, dtype=np.float64)
    if not np.all(np.isfinite(values) & (values > 0)):
        raise ValueError(
            f"sigma={sigma!r} must be positive and finite: a number, one number for "
            "each feature, 'scale' or 'median'."
        )
    if isinstance(sigma, Real):
        return float(sigma)
    if values.shape != (n_features,):
        raise ValueError(
            f"sigma has shape {values.shape}, but X has {n_features} features; "
            f"give a number or an array of shape ({n_features},)."
        )
    return values
