"""Hybrid features: base maps that are combined by coefficients or clusters."""

from .clustered import ClusteredSampler
from .coefficients import AngularCoefficient, GaussianCoefficient
from .combinations import angular_hybrid, clustered_hybrid, gaussian_hybrid
from .complex_exponential import ComplexExponentialSampler
from .mixture import GaussianMixtureSampler
from .sampler import HybridSampler
