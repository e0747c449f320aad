"""What couplings, maps, kernels and samplers of your own are built from.

The rest of ``sklearn_crt.frequencies``, ``sklearn_crt.maps`` and ``sklearn_crt.rows``
is private and may change with any release.
"""

from .frequencies import (
    Antithetic,
    BlockCoupling,
    Coupling,
    Frequencies,
    Halton,
    Independent,
    Orthogonal,
    RadialLaw,
    Simplex,
    SimplexPlus,
    Sobol,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
    coupling_names,
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
    "Halton",
    "Independent",
    "Orthogonal",
    "RadialKernel",
    "RadialLaw",
    "Simplex",
    "SimplexPlus",
    "Sobol",
    "StructuredOrthogonal",
    "StructuredSimplex",
    "chi_law",
    "coupling_names",
    "get_coupling",
    "register",
]


def __dir__() -> list[str]:
    return __all__
