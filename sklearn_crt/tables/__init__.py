"""Estimators for raw tables with numbers, categories and missing values."""

from typing import TYPE_CHECKING

from .._names import names_on_demand

if TYPE_CHECKING:
    from ._display import EffectsDisplay
    from ._models import KernelClassifier, KernelRegressor
    from ._sampler import AnovaSampler

__all__ = [
    "AnovaSampler",
    "EffectsDisplay",
    "KernelClassifier",
    "KernelRegressor",
]

_HOMES = {
    "_display": ["EffectsDisplay"],
    "_models": ["KernelClassifier", "KernelRegressor"],
    "_sampler": ["AnovaSampler"],
}
__getattr__, __dir__ = names_on_demand(__name__, _HOMES)
