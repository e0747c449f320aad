"""Random feature maps as scikit-learn transformers."""

from ._base import BaseFeatureSampler, IsotropicSampler
from ._exponential import ExponentialSampler
from ._oprf import OPRFSampler
from ._positive import PositiveRBFSampler
from ._trig_rbf import TrigRBFSampler
from ._trigonometric import TrigonometricSampler

__all__ = [
    "BaseFeatureSampler",
    "ExponentialSampler",
    "IsotropicSampler",
    "OPRFSampler",
    "PositiveRBFSampler",
    "TrigRBFSampler",
    "TrigonometricSampler",
]
