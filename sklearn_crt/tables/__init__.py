"""Estimators for raw tables with numbers, categories and missing values."""

from ._display import EffectsDisplay
from ._models import KernelClassifier, KernelRegressor
from ._sampler import AnovaSampler

__all__ = [
    "AnovaSampler",
    "EffectsDisplay",
    "KernelClassifier",
    "KernelRegressor",
]
__dir__ = __all__.copy  # so that dir() shows only public names
