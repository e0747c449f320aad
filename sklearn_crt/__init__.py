"""Random features for kernel approximation, compatible with scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._names import names_on_demand

if TYPE_CHECKING:
    from . import accuracy as accuracy
    from . import attention as attention
    from . import averages as averages
    from . import dask as dask
    from . import datasets as datasets
    from . import exceptions as exceptions
    from . import extend as extend
    from . import inspection as inspection
    from . import kernels as kernels
    from . import metric as metric
    from . import ridge as ridge
    from . import samplers as samplers
    from . import tables as tables
    from . import testing as testing
    from . import theory as theory
    from .accuracy import compare_samplers, n_components_for
    from .averages import (
        LocalLinearClassifier,
        LocalLinearRegressor,
        NadarayaWatsonClassifier,
        NadarayaWatsonRegressor,
        Prototypes,
    )
    from .metric import LearnedMetric
    from .ridge import RandomFeatureRidge, RandomFeatureRidgeClassifier
    from .samplers import (
        AnchoredRBFSampler,
        CentersRBFSampler,
        DERFSampler,
        ExponentialPowerSampler,
        GeometricSampler,
        GERFSampler,
        HybridSampler,
        LaplacianSampler,
        MaternSampler,
        OPRFSampler,
        PoissonSampler,
        PositiveRBFSampler,
        SimplexRBFSampler,
        TrigRBFSampler,
        angular_hybrid,
        clustered_hybrid,
        gaussian_hybrid,
    )
    from .tables import AnovaSampler, KernelClassifier, KernelRegressor

__version__ = "0.1.0"

__all__ = [
    "AnchoredRBFSampler",
    "AnovaSampler",
    "CentersRBFSampler",
    "DERFSampler",
    "ExponentialPowerSampler",
    "GERFSampler",
    "GeometricSampler",
    "HybridSampler",
    "KernelClassifier",
    "KernelRegressor",
    "LaplacianSampler",
    "LearnedMetric",
    "LocalLinearClassifier",
    "LocalLinearRegressor",
    "MaternSampler",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "OPRFSampler",
    "PoissonSampler",
    "PositiveRBFSampler",
    "Prototypes",
    "RandomFeatureRidge",
    "RandomFeatureRidgeClassifier",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "__version__",
    "angular_hybrid",
    "clustered_hybrid",
    "compare_samplers",
    "gaussian_hybrid",
    "n_components_for",
]

_HOMES = {
    "AnchoredRBFSampler": "samplers",
    "AnovaSampler": "tables",
    "CentersRBFSampler": "samplers",
    "DERFSampler": "samplers",
    "ExponentialPowerSampler": "samplers",
    "GERFSampler": "samplers",
    "GeometricSampler": "samplers",
    "HybridSampler": "samplers",
    "KernelClassifier": "tables",
    "KernelRegressor": "tables",
    "LaplacianSampler": "samplers",
    "LearnedMetric": "metric",
    "LocalLinearClassifier": "averages",
    "LocalLinearRegressor": "averages",
    "MaternSampler": "samplers",
    "NadarayaWatsonClassifier": "averages",
    "NadarayaWatsonRegressor": "averages",
    "OPRFSampler": "samplers",
    "PoissonSampler": "samplers",
    "PositiveRBFSampler": "samplers",
    "Prototypes": "averages",
    "RandomFeatureRidge": "ridge",
    "RandomFeatureRidgeClassifier": "ridge",
    "SimplexRBFSampler": "samplers",
    "TrigRBFSampler": "samplers",
    "angular_hybrid": "samplers",
    "clustered_hybrid": "samplers",
    "compare_samplers": "accuracy",
    "gaussian_hybrid": "samplers",
    "n_components_for": "accuracy",
}
_SUBMODULES = [
    "accuracy",
    "attention",
    "averages",
    "dask",
    "datasets",
    "exceptions",
    "extend",
    "inspection",
    "kernels",
    "metric",
    "ridge",
    "samplers",
    "tables",
    "testing",
    "theory",
]
__getattr__, __dir__ = names_on_demand(__name__, _HOMES, _SUBMODULES)
