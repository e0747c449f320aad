"""Random feature maps as scikit-learn transformers."""

from ._anchored import AnchoredRBFSampler
from ._base import BaseFeatureSampler
from ._centers_rbf import CentersRBFSampler
from ._derf import DERFSampler
from ._discrete import GeometricSampler, PoissonSampler
from ._gerf import GERFSampler
from ._heavy_tailed import ExponentialPowerSampler, LaplacianSampler, MaternSampler
from ._hybrid import (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    GaussianCoefficient,
    GaussianMixtureSampler,
    HybridSampler,
    angular_hybrid,
    clustered_hybrid,
    gaussian_hybrid,
)
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
    "GaussianMixtureSampler",
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
