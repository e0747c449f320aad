"""Hybrids, and the samplers that serve as their parts."""

from ._angular import AngularCoefficient
from ._clustered import ClusteredSampler
from ._complex_exponential import ComplexExponentialSampler
from ._diagonal import best_diagonal
from ._gaussian import GaussianCoefficient
from ._mixture import MixtureCoefficient
from ._positive_pair import PositivePairSampler
from ._sampler import HybridSampler

__all__ = [
    "AngularCoefficient",
    "ClusteredSampler",
    "ComplexExponentialSampler",
    "GaussianCoefficient",
    "HybridSampler",
    "MixtureCoefficient",
    "PositivePairSampler",
    "best_diagonal",
]
