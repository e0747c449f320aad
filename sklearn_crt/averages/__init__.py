"""Kernel averages of targets: classification and regression."""

from ._classifier import NadarayaWatsonClassifier
from ._local_linear import LocalLinearClassifier, LocalLinearRegressor
from ._prototypes import Prototypes
from ._regressor import NadarayaWatsonRegressor

__all__ = [
    "LocalLinearClassifier",
    "LocalLinearRegressor",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "Prototypes",
]
__dir__ = __all__.copy  # so that dir() shows only public names
