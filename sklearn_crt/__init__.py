"""Random features for kernel approximation, compatible with scikit-learn."""

from .nadaraya_watson import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
)
from .samplers import (
    GeometricSampler,
    GERFSampler,
    OPRFSampler,
    PoissonSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
    TrigRBFSampler,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "GERFSampler",
    "GeometricSampler",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonClassifierCV",
    "NadarayaWatsonRegressor",
    "OPRFSampler",
    "PoissonSampler",
    "PositiveRBFSampler",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "__version__",
]
