"""Feature maps: immutable values that compute features, kernels and variances.

This module is private; ``sklearn_crt.extend`` exports what extensions need.
"""

from .anchored import AnchoredMap, AnchorMixture
from .base import FeatureMap, FrequencyMap, PairedColumns, transform
from .derf import AffineQuadratic, DenseQuadratic
from .discrete import CountLaw, DiscreteMap, GeometricLaw, PoissonLaw
from .estimation_error import relative_error, variance_in_blocks
from .exponential import ExponentialMap
from .heavy_tailed import ExponentialPower, Laplacian, Matern
from .hybrid import (
    ClusterBlock,
    ClusteredMap,
    Clusters,
    DiagonalQuadratic,
    LinearImagesMap,
    MatrixQuadratic,
    SignMap,
    SumOfProductsMap,
    ThirdPartyMap,
    WeightedMap,
)
from .quadratic import IsotropicQuadratic, Quadratic, real_form
from .radial_kernels import Gaussian, GaussianKernel, GaussianOrSoftmax, RadialKernel
from .trigonometric import TrigonometricMap
from .variance import (
    Numbers,
    log_conformity,
    log_one_minus,
    log_rho,
    positive_block_covariance,
    scaled_variance,
    second_moment,
    trigonometric_block_covariance,
)
