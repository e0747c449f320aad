"""Drawn feature maps: immutable values that know frequencies and rows."""

from ._anchor_law import AnchorLaw
from ._anchored import AnchoredMap
from ._base import FeatureMap, FrequencyMap
from ._clustered import Block, ClusteredMap, Clusters
from ._columns import N_ERRORS, N_GROUPS, PairedColumns
from ._complex_exponential import ComplexExponentialMap
from ._count_laws import CountLaw, GeometricLaw, PoissonLaw
from ._dense import AffineQuadratic, DenseQuadratic
from ._derived import ColumnFactorsMap, DerivedMap, WeightedMap
from ._device import chunks_on_device, features_on_device, iter_on_device
from ._diagonal_exponential import DiagonalExponentialMap
from ._discrete import Counts, DiscreteMap
from ._exponential import ExponentialMap
from ._gaussian import GaussianKernel
from ._loop import iter_log_features, iter_path, variance_in_blocks
from ._outside import OutsideMap
from ._ported import (
    PortedMap,
    PortedPositive,
    arrays_of,
    port,
    port_frame,
    stack_maps,
    with_arrays,
)
from ._ported_circles import PortedComplex
from ._ported_hybrids import PortedSum
from ._ported_others import PortedClusters, PortedColumnFactors, PortedCounts
from ._ported_positive import PortedAffine
from ._positive import PositiveMap
from ._quadratic import IsotropicQuadratic, Quadratic
from ._radial import (
    ExponentialPowerRadial,
    GaussianRadial,
    LaplacianRadial,
    MaternRadial,
    RadialKernel,
)
from ._second_moment import log_one_minus, log_rho, scaled_variance, second_moment
from ._signs import SignMap
from ._sum_of_products import SumOfProductsMap
from ._trigonometric import TrigonometricMap

__all__ = [
    "N_ERRORS",
    "N_GROUPS",
    "AffineQuadratic",
    "AnchorLaw",
    "AnchoredMap",
    "Block",
    "ClusteredMap",
    "Clusters",
    "ColumnFactorsMap",
    "ComplexExponentialMap",
    "CountLaw",
    "Counts",
    "DenseQuadratic",
    "DerivedMap",
    "DiagonalExponentialMap",
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
    "OutsideMap",
    "PairedColumns",
    "PoissonLaw",
    "PortedAffine",
    "PortedClusters",
    "PortedColumnFactors",
    "PortedComplex",
    "PortedCounts",
    "PortedMap",
    "PortedPositive",
    "PortedSum",
    "PositiveMap",
    "Quadratic",
    "RadialKernel",
    "SignMap",
    "SumOfProductsMap",
    "TrigonometricMap",
    "WeightedMap",
    "arrays_of",
    "chunks_on_device",
    "features_on_device",
    "iter_log_features",
    "iter_on_device",
    "iter_path",
    "log_one_minus",
    "log_rho",
    "port",
    "port_frame",
    "scaled_variance",
    "second_moment",
    "stack_maps",
    "variance_in_blocks",
    "with_arrays",
]
