"""Estimators for raw tables with numbers, categories and missing values."""

from ._display import EffectsDisplay
from ._models import TableClassifier, TableRegressor
from ._sampler import AnovaSampler

__all__ = [
    "AnovaSampler",
    "EffectsDisplay",
    "TableClassifier",
    "TableRegressor",
]
__dir__ = __all__.copy  # so that dir() shows only public names
