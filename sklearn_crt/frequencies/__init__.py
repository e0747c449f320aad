"""Joint distributions of frequencies: couplings, and distributions of the norm.

Private: what extensions need is in ``sklearn_crt.extend``.
"""

from .base import (
    Affine,
    Coupling,
    Frequencies,
    JointFrequencies,
    coupling_names,
    get_coupling,
    register,
)
from .blocks import Antithetic, BlockCoupling, Independent, Orthogonal
from .quasi import Halton, Sobol
from .radial import RadialLaw, chi_law, stable_law, stable_nodes, student_law
from .simplex import Simplex, SimplexPlus
from .structured import StructuredOrthogonal, StructuredSimplex

__all__ = [
    "Affine",
    "Antithetic",
    "BlockCoupling",
    "Coupling",
    "Frequencies",
    "Halton",
    "Independent",
    "JointFrequencies",
    "Orthogonal",
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
    "stable_law",
    "stable_nodes",
    "student_law",
]
