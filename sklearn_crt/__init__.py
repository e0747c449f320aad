"""Random features and kernel models for scikit-learn.

Kernel approximation for scikit-learn: the random features of *Chefs' Random Tables*
(the crt of the name), *Simplex Random Features*, *Hybrid Random Features* and papers on
Laplacian and Matérn kernels, for pipelines, kernel averages, ridge regression and
attention.
"""

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
    AngularCoefficient,
    CentersRBFSampler,
    ClusteredSampler,
    ComplexExponentialSampler,
    DERFSampler,
    ExponentialPowerSampler,
    GaussianCoefficient,
    GaussianMixtureSampler,
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
from .tables import AnovaSampler

__version__ = "0.1.0"

__all__ = [
    "AnchoredRBFSampler",
    "AngularCoefficient",
    "AnovaSampler",
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
