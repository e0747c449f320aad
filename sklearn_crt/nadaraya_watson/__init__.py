"""Kernel averages of targets: classification and regression."""

from ._answer_error import ApproximationError
from ._classifier import NadarayaWatsonClassifier
from ._cv import NadarayaWatsonClassifierCV, NadarayaWatsonRegressorCV
from ._learn_sigma import learn_sigma
from ._regressor import NadarayaWatsonRegressor

__all__ = [
    "ApproximationError",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonClassifierCV",
    "NadarayaWatsonRegressor",
    "NadarayaWatsonRegressorCV",
    "learn_sigma",
]
