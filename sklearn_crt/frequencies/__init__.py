"""Couplings (joint distributions of frequencies) and distributions of their norms.

This module is private; ``sklearn_crt.extend`` exports the names that extensions need.
"""

from .base import (
    Affine,
    Coupling,
    Frequencies,
    JointFrequencies,
    PairSample,
    coupling_names,
    get_coupling,
    register,
)
from .couplings import (
    Antithetic,
    BlockCoupling,
    Halton,
    Independent,
    Orthogonal,
    Sobol,
)
from .radial_laws import RadialLaw, chi_law, stable_law, stable_nodes, student_law
from .simplex import Simplex, SimplexPlus
from .structured import StructuredOrthogonal, StructuredSimplex
