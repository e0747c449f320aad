"""Drawn feature maps: immutable values that know frequencies and rows."""

from ._base import FeatureMap, FrequencyMap
from ._columns import PairedColumns
from ._complex_exponential import ComplexExponentialMap
from ._count_laws import CountLaw, GeometricLaw, PoissonLaw
from ._discrete import Counts, DiscreteMap
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
from ._second_moment import log_one_minus, log_rho, scaled_variance, second_moment
from ._trigonometric import TrigonometricMap

__all__ = [
    "ComplexExponentialMap",
    "CountLaw",
    "Counts",
    "DiscreteMap",
    "ExponentialMap",
    "ExponentialPowerRadial",
    "FeatureMap",
    "FrequencyMap",
    "GaussianKernel",
    "GaussianRadial",
    "GeometricLaw",
    "LaplacianRadial",
    "MaternRadial",
    "PairedColumns",
    "PoissonLaw",
    "RadialKernel",
    "TrigonometricMap",
    "iter_log_features",
    "iter_path",
    "log_one_minus",
    "log_rho",
    "scaled_variance",
    "second_moment",
]
