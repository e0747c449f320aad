"""Maps that are composed of other maps, for hybrid features."""

from .clustered import ClusterBlock, ClusteredMap, Clusters
from .coefficients import LinearImagesMap, SignMap, WeightedMap
from .complex_exponential import DiagonalQuadratic, MatrixQuadratic
from .parts import ThirdPartyMap
from .sum_of_products import SumOfProductsMap
