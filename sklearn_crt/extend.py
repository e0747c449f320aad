"""Base classes for your own couplings, feature maps, kernels and samplers.

All other contents of ``sklearn_crt.frequencies``, ``sklearn_crt.maps`` and
``sklearn_crt.rows`` are private and may change in any release.
"""

from .frequencies import (
    Antithetic,
    BlockCoupling,
    Coupling,
    Frequencies,
    Independent,
    Orthogonal,
    RadialLaw,
    Simplex,
    SimplexPlus,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
    get_coupling,
    register,
)
from .maps import FeatureMap, FrequencyMap, RadialKernel
from .samplers import BaseFeatureSampler

__all__ = [
    "Antithetic",
    "BaseFeatureSampler",
    "BlockCoupling",
    "Coupling",
    "FeatureMap",
    "Frequencies",
    "FrequencyMap",
    "Independent",
    "Orthogonal",
    "RadialKernel",
    "RadialLaw",
    "Simplex",
    "SimplexPlus",
    "StructuredOrthogonal",
    "StructuredSimplex",
    "chi_law",
    "get_coupling",
    "register",
]
__dir__ = __all__.copy  # so that dir() shows only public names
