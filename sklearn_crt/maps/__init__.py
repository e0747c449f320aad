"""Drawn feature maps: immutable values that know frequencies and rows.

Private: what extensions need is in ``sklearn_crt.extend``.
"""

from .anchored import AnchoredMap, AnchorMixture
from .base import (
    FeatureMap,
    FrequencyMap,
    GaussianKernel,
    PairedColumns,
    map_arrays,
    with_ones,
)
from .composed import Block, ClusteredMap, Clusters, SumOfProductsMap
from .discrete import CountLaw, DiscreteMap, GeometricLaw, PoissonLaw
from .exponential import ExponentialMap
from .loops import iter_path, relative_error, transform, variance_in_blocks
from .parts import SignMap, ThirdPartyMap, WeightedMap
from .quadratic import (
    AffineQuadratic,
    DenseQuadratic,
    DiagonalQuadratic,
    IsotropicQuadratic,
    Quadratic,
    ScaledQuadratic,
    real_form,
)
from .radial import (
    ExponentialPowerRadial,
    GaussianRadial,
    LaplacianRadial,
    MaternRadial,
    RadialKernel,
)
from .trigonometric import TrigonometricMap
from .variance import (
    log_conformity,
    log_one_minus,
    log_rho,
    positive_block_covariance,
    scaled_variance,
    second_moment,
    trigonometric_block_covariance,
)

__all__ = [
    "AffineQuadratic",
    "AnchorMixture",
    "AnchoredMap",
    "Block",
    "ClusteredMap",
    "Clusters",
    "CountLaw",
    "DenseQuadratic",
    "DiagonalQuadratic",
    "DiscreteMap",
    "ExponentialMap",
    "ExponentialPowerRadial",
    "FeatureMap",
    "FrequencyMap",
    "GaussianKernel",
    "GaussianRadial",
    "GeometricLaw",
    "IsotropicQuadratic",
    "LaplacianRadial",
    "MaternRadial",
    "PairedColumns",
    "PoissonLaw",
    "Quadratic",
    "RadialKernel",
    "ScaledQuadratic",
    "SignMap",
    "SumOfProductsMap",
    "ThirdPartyMap",
    "TrigonometricMap",
    "WeightedMap",
    "iter_path",
    "log_conformity",
    "log_one_minus",
    "log_rho",
    "map_arrays",
    "positive_block_covariance",
    "real_form",
    "relative_error",
    "scaled_variance",
    "second_moment",
    "transform",
    "trigonometric_block_covariance",
    "variance_in_blocks",
    "with_ones",
]
