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
    from .samplers import CentersRBFSampler, DERFSampler, OPRFSampler, TrigRBFSampler
    from .tables import AnovaSampler, KernelClassifier, KernelRegressor

__version__ = "0.1.0"

__all__ = [
    "AnovaSampler",
    "CentersRBFSampler",
    "DERFSampler",
    "KernelClassifier",
    "KernelRegressor",
    "LearnedMetric",
    "LocalLinearClassifier",
    "LocalLinearRegressor",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "OPRFSampler",
    "Prototypes",
    "RandomFeatureRidge",
    "RandomFeatureRidgeClassifier",
    "TrigRBFSampler",
    "__version__",
    "compare_samplers",
    "n_components_for",
]

_HOMES = {
    "accuracy": ["compare_samplers", "n_components_for"],
    "averages": [
        "LocalLinearClassifier",
        "LocalLinearRegressor",
        "NadarayaWatsonClassifier",
        "NadarayaWatsonRegressor",
        "Prototypes",
    ],
    "metric": ["LearnedMetric"],
    "ridge": ["RandomFeatureRidge", "RandomFeatureRidgeClassifier"],
    "samplers": ["CentersRBFSampler", "DERFSampler", "OPRFSampler", "TrigRBFSampler"],
    "tables": ["AnovaSampler", "KernelClassifier", "KernelRegressor"],
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
