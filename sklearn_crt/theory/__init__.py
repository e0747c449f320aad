"""Published bounds on the error of random features and on the effect of couplings.

The rows x and y must be centred and multiplied by ``sigma``, as the samplers do
internally. The parameter A < 0 is the fitted attribute ``A_`` of
:class:`~sklearn_crt.OPRFSampler`. All functions refer to the Gaussian kernel
``exp(-|x - y|^2 / 2)``; relative errors are the same for the softmax kernel.
"""

from .conformity import (
    rf_conformity,
    rf_conformity_gap,
    rff_gap,
    sample_conformity,
)
from .hybrids import (
    hrf_max_relative_error,
    hrf_max_relative_error_bound,
    hrf_relative_error,
)
from .oprf import (
    oprf_legendre,
    oprf_log_sup,
    oprf_tail_bound,
    oprf_uniform_n_frequencies,
    orthogonal_gain_bound,
)

__all__ = [
    "hrf_max_relative_error",
    "hrf_max_relative_error_bound",
    "hrf_relative_error",
    "oprf_legendre",
    "oprf_log_sup",
    "oprf_tail_bound",
    "oprf_uniform_n_frequencies",
    "orthogonal_gain_bound",
    "rf_conformity",
    "rf_conformity_gap",
    "rff_gap",
    "sample_conformity",
]
__dir__ = __all__.copy  # so that dir() shows only public names
