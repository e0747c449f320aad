"""Estimators for raw tables with numbers, categories and missing values."""

from ._anova_sampler import AnovaSampler
from ._display import EffectsDisplay
from ._models import TableClassifier, TableRegressor

__all__ = [
    "AnovaSampler",
    "EffectsDisplay",
    "TableClassifier",
    "TableRegressor",
]
__dir__ = __all__.copy  # so that dir() shows only public names
