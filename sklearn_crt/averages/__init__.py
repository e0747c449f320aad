"""Kernel averages of targets: classification and regression."""

from __future__ import annotations

from ._classifier import NadarayaWatsonClassifier
from ._cv import (
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressorCV,
    learn_sigma,
)
from ._errors import ApproximationError
from ._regressor import NadarayaWatsonRegressor

__all__ = [
    "ApproximationError",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonClassifierCV",
    "NadarayaWatsonRegressor",
    "NadarayaWatsonRegressorCV",
    "learn_sigma",
]
