"""Joint laws of frequencies: couplings and the laws of their norms."""

from ._coupling import BlockCoupling, Coupling, Independent, get_coupling, register
from ._orthogonal import Orthogonal
from ._projection import Projection
from ._radial import chi_law
from ._structured import StructuredOrthogonal, StructuredSimplex

__all__ = [
    "BlockCoupling",
    "Coupling",
    "Independent",
    "Orthogonal",
    "Projection",
    "StructuredOrthogonal",
    "StructuredSimplex",
    "chi_law",
    "get_coupling",
    "register",
]
