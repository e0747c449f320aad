"""Hybrids, and the samplers that serve as their parts."""

from .clustered import ClusteredSampler
from .coefficients import AngularCoefficient, GaussianCoefficient, MixtureCoefficient
from .complex_exponential import ComplexExponentialSampler, best_diagonal
from .sampler import HybridSampler

__all__ = [
    "AngularCoefficient",
    "ClusteredSampler",
    "ComplexExponentialSampler",
    "GaussianCoefficient",
    "HybridSampler",
    "MixtureCoefficient",
    "best_diagonal",
]
