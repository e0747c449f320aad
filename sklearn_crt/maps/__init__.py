"""Drawn feature maps: immutable values that know frequencies and rows."""

from ._base import FeatureMap, FrequencyMap
from ._columns import PairedColumns
from ._exponential import ExponentialMap
from ._gaussian import GaussianKernel
from ._loop import iter_log_features, iter_path
from ._radial import (
    ExponentialPowerRadial,
    GaussianRadial,
    LaplacianRadial,
    MaternRadial,
    RadialKernel,
)
from ._trigonometric import TrigonometricMap

__all__ = [
    "ExponentialMap",
    "ExponentialPowerRadial",
    "FeatureMap",
    "FrequencyMap",
    "GaussianKernel",
    "GaussianRadial",
    "LaplacianRadial",
    "MaternRadial",
    "PairedColumns",
    "RadialKernel",
    "TrigonometricMap",
    "iter_log_features",
    "iter_path",
]
