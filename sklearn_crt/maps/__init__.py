"""Feature maps: immutable values that compute features, kernels and variances.

This module is private; ``sklearn_crt.extend`` exports what extensions need.
"""

from .anchored import AnchoredMap, AnchorMixture
from .base import FeatureMap, FrequencyMap, PairedColumns
from .composed import (
    ClusterBlock,
    ClusteredMap,
    Clusters,
    ThirdPartyMap,
    WeightedMap,
)
from .discrete import CountLaw, DiscreteMap, GeometricLaw, PoissonLaw
from .exponential import ExponentialMap, TrigonometricMap
from .loops import relative_error, transform, variance_in_blocks
from .products import SumOfProductsMap
from .quadratic import (
    AffineQuadratic,
    DenseQuadratic,
    DiagonalQuadratic,
    IsotropicQuadratic,
    Quadratic,
    real_form,
)
from .radial import Gaussian, GaussianKernel, GaussianOrSoftmax, RadialKernel
from .scale_mixtures import ExponentialPower, Laplacian, Matern
from .signs import SignMap
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
