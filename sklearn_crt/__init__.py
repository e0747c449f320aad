"""Random features for kernel approximation, compatible with scikit-learn."""

from .nadaraya_watson import NadarayaWatsonClassifier, NadarayaWatsonRegressor
from .samplers import OPRFSampler, PositiveRBFSampler, TrigRBFSampler

__version__ = "0.1.0.dev0"

__all__ = [
    "NadarayaWatsonClassifier",
    "NadarayaWatsonRegressor",
    "OPRFSampler",
    "PositiveRBFSampler",
    "TrigRBFSampler",
    "__version__",
]
