"""Random feature maps as scikit-learn transformers."""

from ._base import BaseFeatureSampler
from ._exponential import ExponentialSampler
from ._exponential_power import ExponentialPowerSampler
from ._laplacian import LaplacianSampler
from ._matern import MaternSampler
from ._oprf import OPRFSampler
from ._positive import PositiveRBFSampler
from ._simplex_rbf import SimplexRBFSampler
from ._trig_rbf import TrigRBFSampler
