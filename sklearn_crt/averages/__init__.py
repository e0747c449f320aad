"""Kernel averages of targets: classification and regression."""

from __future__ import annotations

from ._classifier import NadarayaWatsonClassifier
from ._features import ApproximationError
from ._local_linear import LocalLinearClassifier, LocalLinearRegressor
from ._prototypes import Prototypes
from ._regressor import NadarayaWatsonRegressor

__all__ = [
    "ApproximationError",
    "LocalLinearClassifier",
    "LocalLinearRegressor",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "Prototypes",
]
