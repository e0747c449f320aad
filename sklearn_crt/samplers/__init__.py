"""Random feature maps as scikit-learn transformers."""

from ._anchored_rbf import AnchoredRBFSampler
from ._base import BaseFeatureSampler
from ._centers_rbf import CentersRBFSampler
from ._derf import DERFSampler
from ._discrete import DiscreteSampler
from ._exponential import ExponentialSampler
from ._exponential_power import ExponentialPowerSampler
from ._geometric import GeometricSampler
from ._gerf import GERFSampler
from ._heavy_tailed import HeavyTailedSampler
from ._hybrid import (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    GaussianCoefficient,
    HybridSampler,
    MixtureCoefficient,
    PositivePairSampler,
    best_diagonal,
)
from ._laplacian import LaplacianSampler
from ._matern import MaternSampler
from ._oprf import OPRFSampler
from ._poisson import PoissonSampler
from ._positive import PositiveRBFSampler
from ._simplex_rbf import SimplexRBFSampler
from ._trig_rbf import TrigRBFSampler

__all__ = [
    "AnchoredRBFSampler",
    "AngularCoefficient",
    "BaseFeatureSampler",
    "CentersRBFSampler",
    "ClusteredSampler",
    "ComplexExponentialSampler",
    "DERFSampler",
    "DiscreteSampler",
    "ExponentialPowerSampler",
    "ExponentialSampler",
    "GERFSampler",
    "GaussianCoefficient",
    "GeometricSampler",
    "HeavyTailedSampler",
    "HybridSampler",
    "LaplacianSampler",
    "MaternSampler",
    "MixtureCoefficient",
    "OPRFSampler",
    "PoissonSampler",
    "PositivePairSampler",
    "PositiveRBFSampler",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "best_diagonal",
]
