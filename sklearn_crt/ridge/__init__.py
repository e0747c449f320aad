"""Ridge regression on random features, fitted from moments of the rows."""

from ._classifier import RandomFeatureRidgeClassifier
from ._regressor import RandomFeatureRidge

__all__ = ["RandomFeatureRidge", "RandomFeatureRidgeClassifier"]


def __dir__() -> list[str]:
    return __all__
