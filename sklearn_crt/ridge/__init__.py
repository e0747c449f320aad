"""Ridge regression on random features, from sums over the rows."""

from __future__ import annotations

from ._classifier import RandomFeatureRidgeClassifier
from ._regressor import RandomFeatureRidge

__all__ = ["RandomFeatureRidge", "RandomFeatureRidgeClassifier"]
