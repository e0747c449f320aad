"""Feature maps: immutable values that compute features, kernels and variances.

This module is private; ``sklearn_crt.extend`` exports what extensions need.
"""

from .anchored import AnchoredMap as AnchoredMap
from .anchored import AnchorMixture as AnchorMixture
from .base import FeatureMap as FeatureMap
from .base import FrequencyMap as FrequencyMap
from .base import PairedColumns as PairedColumns
from .composed import ClusterBlock as ClusterBlock
from .composed import ClusteredMap as ClusteredMap
from .composed import Clusters as Clusters
from .composed import ThirdPartyMap as ThirdPartyMap
from .composed import WeightedMap as WeightedMap
from .discrete import CountLaw as CountLaw
from .discrete import DiscreteMap as DiscreteMap
from .discrete import GeometricLaw as GeometricLaw
from .discrete import PoissonLaw as PoissonLaw
from .exponential import ExponentialMap as ExponentialMap
from .exponential import TrigonometricMap as TrigonometricMap
from .loops import iter_path as iter_path
from .loops import relative_error as relative_error
from .loops import transform as transform
from .loops import variance_in_blocks as variance_in_blocks
from .products import SumOfProductsMap as SumOfProductsMap
from .quadratic import AffineQuadratic as AffineQuadratic
from .quadratic import DenseQuadratic as DenseQuadratic
from .quadratic import DiagonalQuadratic as DiagonalQuadratic
from .quadratic import IsotropicQuadratic as IsotropicQuadratic
from .quadratic import Quadratic as Quadratic
from .quadratic import real_form as real_form
from .radial import Gaussian as Gaussian
from .radial import GaussianKernel as GaussianKernel
from .radial import GaussianOrSoftmax as GaussianOrSoftmax
from .radial import RadialKernel as RadialKernel
from .scale_mixtures import ExponentialPower as ExponentialPower
from .scale_mixtures import Laplacian as Laplacian
from .scale_mixtures import Matern as Matern
from .signs import SignMap as SignMap
from .variance import Numbers as Numbers
from .variance import log_conformity as log_conformity
from .variance import log_one_minus as log_one_minus
from .variance import log_rho as log_rho
from .variance import positive_block_covariance as positive_block_covariance
from .variance import scaled_variance as scaled_variance
from .variance import second_moment as second_moment
from .variance import trigonometric_block_covariance as trigonometric_block_covariance
