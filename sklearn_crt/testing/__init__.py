"""Checks for samplers, couplings and attention, including your own.

Each sampler states the kernel that it estimates (``exact_kernel``) and the variance of
the estimate (``kernel_variance``). The checks draw the frequencies many times, and
compare the mean and the variance of the estimates with the stated values. The
thresholds follow from probability theory: a check of a correct sampler fails with a
probability of about 1e-6, regardless of the number of pairs of rows. All random numbers
are seeded.
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

__all__ = [
    "assert_coupling",
    "assert_invariant",
    "assert_nested",
    "assert_unbiased",
    "assert_variance",
    "check_attention",
    "check_sampler",
]
__dir__ = __all__.copy  # so that dir() shows only public names
