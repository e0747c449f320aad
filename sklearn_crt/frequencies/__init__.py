"""Joint laws of frequencies: couplings and the laws of their norms."""

from ._antithetic import Antithetic
from ._blocks import BlockCoupling, Independent, check_quantiles
from ._coupling import Coupling
from ._frequencies import Affine, Frequencies
from ._joint import JointFrequencies
from ._orthogonal import Orthogonal
from ._quasi import Halton, Sobol
from ._radial import RadialLaw, chi_law, stable_law, stable_nodes, student_law
from ._registry import coupling_names, get_coupling, register
from ._simplex import Simplex
from ._simplex_plus import SimplexPlus
from ._structured import StructuredOrthogonal, StructuredSimplex

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
    "check_quantiles",
    "chi_law",
    "coupling_names",
    "get_coupling",
    "register",
    "stable_law",
    "stable_nodes",
    "student_law",
]
