"""Ridge regression on random features, fitted from accumulated statistics."""

from ._classifier import RandomFeatureRidgeClassifier
from ._regressor import RandomFeatureRidge

__all__ = ["RandomFeatureRidge", "RandomFeatureRidgeClassifier"]


def __dir__() -> list[str]:
    return __all__
