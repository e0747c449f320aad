"""Random features for kernel approximation, compatible with scikit-learn."""

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
