"""Random feature maps as scikit-learn transformers."""

from ._adapted import AnchoredRBFSampler, DERFSampler
from ._base import BaseFeatureSampler
from ._centers_rbf import CentersRBFSampler
from ._discrete import GeometricSampler, PoissonSampler
from ._gerf import GERFSampler
from ._heavy_tailed import ExponentialPowerSampler, LaplacianSampler, MaternSampler
from ._hybrid import HybridSampler
from ._hybrid_clustered import ClusteredSampler, ComplexExponentialSampler
from ._hybrid_combinations import angular_hybrid, clustered_hybrid, gaussian_hybrid
from ._hybrid_parts import AngularCoefficient, GaussianCoefficient
from ._positive import OPRFSampler, PositiveRBFSampler, SimplexRBFSampler
from ._trigonometric import TrigRBFSampler

__all__ = [
    "AnchoredRBFSampler",
    "AngularCoefficient",
    "BaseFeatureSampler",
    "CentersRBFSampler",
    "ClusteredSampler",
    "ComplexExponentialSampler",
    "DERFSampler",
    "ExponentialPowerSampler",
    "GERFSampler",
    "GaussianCoefficient",
    "GeometricSampler",
    "HybridSampler",
    "LaplacianSampler",
    "MaternSampler",
    "OPRFSampler",
    "PoissonSampler",
    "PositiveRBFSampler",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "angular_hybrid",
    "clustered_hybrid",
    "gaussian_hybrid",
]
__dir__ = __all__.copy  # so that dir() shows only public names
