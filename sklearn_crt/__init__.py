"""Random features for kernel approximation, compatible with scikit-learn."""

from .accuracy import compare_samplers, n_components_for
from .nadaraya_watson import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
    learn_sigma,
)
from .samplers import (
    AnchoredRBFSampler,
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
)

__version__ = "0.1.0.dev0"

__all__ = [
    "AnchoredRBFSampler",
    "DERFSampler",
    "ExponentialPowerSampler",
    "GERFSampler",
    "GeometricSampler",
    "HybridSampler",
    "LaplacianSampler",
    "MaternSampler",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonClassifierCV",
    "NadarayaWatsonRegressor",
    "NadarayaWatsonRegressorCV",
    "OPRFSampler",
    "PoissonSampler",
    "PositiveRBFSampler",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "__version__",
    "compare_samplers",
    "learn_sigma",
    "n_components_for",
]
