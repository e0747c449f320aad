"""Couplings (joint distributions of frequencies) and distributions of their norms.

This module is private; ``sklearn_crt.extend`` exports the names that extensions need.
"""

from .base import Affine as Affine
from .base import Coupling as Coupling
from .base import Frequencies as Frequencies
from .base import JointFrequencies as JointFrequencies
from .base import coupling_names as coupling_names
from .base import get_coupling as get_coupling
from .base import register as register
from .blocks import Antithetic as Antithetic
from .blocks import BlockCoupling as BlockCoupling
from .blocks import Halton as Halton
from .blocks import Independent as Independent
from .blocks import Orthogonal as Orthogonal
from .blocks import Sobol as Sobol
from .radial import RadialLaw as RadialLaw
from .radial import chi_law as chi_law
from .radial import stable_law as stable_law
from .radial import stable_nodes as stable_nodes
from .radial import student_law as student_law
from .simplex import Simplex as Simplex
from .simplex import SimplexPlus as SimplexPlus
from .structured import StructuredOrthogonal as StructuredOrthogonal
from .structured import StructuredSimplex as StructuredSimplex
