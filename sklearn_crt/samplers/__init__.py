"""Random feature maps as scikit-learn transformers."""

from typing import TYPE_CHECKING

from .._names import names_on_demand

if TYPE_CHECKING:
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

_HOMES = {
    "AnchoredRBFSampler": "_adapted",
    "AngularCoefficient": "_hybrid_parts",
    "BaseFeatureSampler": "_base",
    "CentersRBFSampler": "_centers_rbf",
    "ClusteredSampler": "_hybrid_clustered",
    "ComplexExponentialSampler": "_hybrid_clustered",
    "DERFSampler": "_adapted",
    "ExponentialPowerSampler": "_heavy_tailed",
    "GERFSampler": "_gerf",
    "GaussianCoefficient": "_hybrid_parts",
    "GeometricSampler": "_discrete",
    "HybridSampler": "_hybrid",
    "LaplacianSampler": "_heavy_tailed",
    "MaternSampler": "_heavy_tailed",
    "OPRFSampler": "_positive",
    "PoissonSampler": "_discrete",
    "PositiveRBFSampler": "_positive",
    "SimplexRBFSampler": "_positive",
    "TrigRBFSampler": "_trigonometric",
    "angular_hybrid": "_hybrid_combinations",
    "clustered_hybrid": "_hybrid_combinations",
    "gaussian_hybrid": "_hybrid_combinations",
}
__getattr__, __dir__ = names_on_demand(__name__, _HOMES)
