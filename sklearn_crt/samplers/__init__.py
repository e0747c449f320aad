"""Random feature maps as scikit-learn transformers."""

from ._base import BaseFeatureSampler
from ._clustered import ClusteredSampler
from ._coefficients import AngularCoefficient, GaussianCoefficient
from ._complex_exponential import ComplexExponentialSampler, best_diagonal
from ._discrete import DiscreteSampler
from ._exponential import ExponentialSampler
from ._exponential_power import ExponentialPowerSampler
from ._geometric import GeometricSampler
from ._gerf import GERFSampler
from ._hybrid import HybridSampler
from ._isotropic import IsotropicSampler
from ._laplacian import LaplacianSampler
from ._matern import MaternSampler
from ._mixture import MixtureCoefficient
from ._oprf import OPRFSampler
from ._poisson import PoissonSampler
from ._positive import PositiveRBFSampler
from ._positive_pair import PositivePairSampler
from ._simplex_rbf import SimplexRBFSampler
from ._trig_rbf import TrigRBFSampler
from ._trigonometric import TrigonometricSampler

__all__ = [
    "AngularCoefficient",
    "BaseFeatureSampler",
    "ClusteredSampler",
    "ComplexExponentialSampler",
    "DiscreteSampler",
    "ExponentialPowerSampler",
    "ExponentialSampler",
    "GERFSampler",
    "GaussianCoefficient",
    "GeometricSampler",
    "HybridSampler",
    "IsotropicSampler",
    "LaplacianSampler",
    "MaternSampler",
    "MixtureCoefficient",
    "OPRFSampler",
    "PoissonSampler",
    "PositivePairSampler",
    "PositiveRBFSampler",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "TrigonometricSampler",
    "best_diagonal",
]
