"""Contract checks that judge any sampler or coupling, also third-party ones.

A sampler says what it estimates (``exact_kernel``) and how well
(``kernel_variance``); the checks compare both with draws of frequencies. Thresholds
follow from probability: a correct sampler fails one call with a chance of about
1e-6, whatever the number of pairs compared. All randomness is seeded.
"""

from .attention import check_attention
from .checks import (
    assert_coupling,
    assert_invariant,
    assert_nested,
    assert_unbiased,
    assert_variance,
    check_sampler,
)
from .estimates import assert_mean as assert_mean  # private, as the names below
from .estimates import block_estimates as block_estimates
from .estimates import contract_rows as contract_rows
from .estimates import seed_estimates as seed_estimates
from .threads import assert_thread_safe

__all__ = [
    "assert_coupling",
    "assert_invariant",
    "assert_nested",
    "assert_thread_safe",
    "assert_unbiased",
    "assert_variance",
    "check_attention",
    "check_sampler",
]


def __dir__() -> list[str]:
    return __all__
