"""Bounds on the error of maps, and what couplings save: the theory of the papers.

x and y stand for rows already centred and multiplied by sigma, as the samplers see
them; A < 0 is ``OPRFSampler.A_``. The kernel is the Gaussian one,
``exp(-|x - y|^2 / 2)``; relative errors are those of the softmax kernel too.
"""

from .bounds import (
    hrf_max_relative_error,
    hrf_max_relative_error_bound,
    hrf_relative_error,
    oprf_log_sup,
    oprf_tail_bound,
    oprf_uniform_n_frequencies,
)
from .conformity import rf_conformity, rf_conformity_gap, rff_gap, sample_conformity

__all__ = [
    "hrf_max_relative_error",
    "hrf_max_relative_error_bound",
    "hrf_relative_error",
    "oprf_log_sup",
    "oprf_tail_bound",
    "oprf_uniform_n_frequencies",
    "rf_conformity",
    "rf_conformity_gap",
    "rff_gap",
    "sample_conformity",
]


def __dir__() -> list[str]:
    return __all__
