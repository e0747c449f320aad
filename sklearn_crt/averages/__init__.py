"""Kernel averages of targets: classification and regression."""

from __future__ import annotations

from ._classifier import NadarayaWatsonClassifier
from ._cv import NadarayaWatsonClassifierCV, NadarayaWatsonRegressorCV
from ._errors import ApproximationError
from ._exact import ExactKernel
from ._prototypes import Prototypes
from ._regressor import NadarayaWatsonRegressor

__all__ = [
    "ApproximationError",
    "ExactKernel",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonClassifierCV",
    "NadarayaWatsonRegressor",
    "NadarayaWatsonRegressorCV",
    "Prototypes",
]
