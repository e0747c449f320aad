"""Joint laws of frequencies: couplings and the laws of their norms."""

from ._coupling import BlockCoupling, Coupling, Independent, get_coupling, register
from ._joint import JointProjection
from ._orthogonal import Orthogonal
from ._projection import Projection
from ._quasi import Halton, Sobol
from ._radial import chi_law, stable_law, student_law
from ._simplex import Simplex
from ._simplex_plus import SimplexPlus
from ._structured import StructuredOrthogonal, StructuredSimplex

__all__ = [
    "BlockCoupling",
    "Coupling",
    "Halton",
    "Independent",
    "JointProjection",
    "Orthogonal",
    "Projection",
    "Simplex",
    "SimplexPlus",
    "Sobol",
    "StructuredOrthogonal",
    "StructuredSimplex",
    "chi_law",
    "get_coupling",
    "register",
    "stable_law",
    "student_law",
]
