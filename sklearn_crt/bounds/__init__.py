"""Bounds on the error of optimal positive random features, and errors of hybrids.

x and y stand for rows already centred and multiplied by sigma, as the samplers see
them; A < 0 is ``OPRFSampler.A_``. The kernel is the Gaussian one,
``exp(-|x - y|^2 / 2)``; relative errors are those of the softmax kernel too.
"""

from ._hrf import (
    hrf_max_relative_error,
    hrf_max_relative_error_bound,
    hrf_relative_error,
)
from ._oprf import oprf_log_sup, oprf_tail_bound, oprf_uniform_n_frequencies

__all__ = [
    "hrf_max_relative_error",
    "hrf_max_relative_error_bound",
    "hrf_relative_error",
    "oprf_log_sup",
    "oprf_tail_bound",
    "oprf_uniform_n_frequencies",
]
