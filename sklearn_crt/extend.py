"""Base classes for your own couplings, feature maps, laws, kernels and samplers.

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
from .maps import CountLaw, FeatureMap, FrequencyMap, RadialKernel
from .samplers import BaseFeatureSampler
from .samplers._discrete import DiscreteSampler

__all__ = [
    "Antithetic",
    "BaseFeatureSampler",
    "BlockCoupling",
    "CountLaw",
    "Coupling",
    "DiscreteSampler",
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
