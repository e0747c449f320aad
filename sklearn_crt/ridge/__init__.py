"""Ridge regression on random features, fitted from accumulated statistics."""

from ._classifier import RandomFeatureRidgeClassifier
from ._regressor import RandomFeatureRidge

__all__ = ["RandomFeatureRidge", "RandomFeatureRidgeClassifier"]
__dir__ = __all__.copy  # so that dir() shows only public names
