"""The ``kernel`` and ``sigma`` parameters, with the same meaning for all estimators."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone

from ._compat import HasMethods, Interval, StrOptions
from ._fitted import LifeCycle
from .maps import Gaussian, Laplacian, Matern, RadialKernel
from .rows import Sigma

KERNELS: dict[str, type[RadialKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
}
RowKernel: TypeAlias = RadialKernel | Callable[..., Any]
RowKernelLike: TypeAlias = Literal["gaussian", "laplacian", "matern"] | RowKernel
KernelLike: TypeAlias = RowKernelLike | Literal["linear"] | BaseEstimator

SIGMA_CONSTRAINTS = [
    Interval(Real, 0, None, closed="neither"),
    StrOptions({"auto", "scale", "median"}),
    "array-like",
]
ROW_KERNEL_CONSTRAINTS: list[Any] = [StrOptions(set(KERNELS)), RadialKernel, callable]
KERNEL_CONSTRAINTS: list[Any] = [
    StrOptions({*KERNELS, "linear"}),
    RadialKernel,
    callable,
    HasMethods(["fit", "transform"]),
]


def is_auto(parameter: Any) -> bool:
    """Return whether ``fit`` selects the value of a parameter, because it is "auto"."""
    return isinstance(parameter, str) and parameter == "auto"


def is_row_kernel(kernel: Any) -> bool:
    """Return whether a kernel is a function of two rows, rather than a feature map."""
    if isinstance(kernel, str):
        return kernel != "linear"
    return isinstance(kernel, RadialKernel) or (
        callable(kernel) and not hasattr(kernel, "transform")
    )


def row_kernel(kernel: Any) -> RowKernel:
    """Return an independent copy of a kernel of two rows.

    A name stands for the kernel with default parameters. Functions are not copied.
    """
    if isinstance(kernel, str):
        return KERNELS[kernel]()
    if isinstance(kernel, RadialKernel):
        kernel.check_params()
    return clone(kernel) if hasattr(kernel, "get_params") else kernel


def resolve_sampler(sampler: Any, sigma: Any, owner: str) -> tuple[Any, bool]:
    """Return a sampler with the ``sigma`` of the estimator that uses it.

    The second result is True if ``fit`` has to select ``sigma``, that is, if ``sigma``
    of the estimator is ``"auto"`` and ``sigma`` of the sampler has its default value.
    """
    own = getattr(sampler, "sigma", None) if isinstance(sampler, LifeCycle) else None
    is_default = isinstance(own, str) and own == "scale"
    if is_auto(sigma):
        return sampler, is_default and hasattr(sampler, "with_sigma")
    if own is None:
        raise ValueError(
            f"sigma={sigma!r} of {owner} has no effect with kernel={sampler!r}, which "
            "computes features without it. Leave sigma='auto', and set the "
            "parameters of the transformer instead."
        )
    if not (is_default or np.array_equal(own, sigma)):
        raise ValueError(
            f"sigma={sigma!r} of {owner} and sigma={own!r} of {type(sampler).__name__} "
            "contradict each other. Set only one of them."
        )
    return clone(sampler).set_params(sigma=sigma), False


def copied_sigma(sigma: Sigma) -> Sigma:
    """Return ``sigma``, as a copy if it is an array."""
    return sigma if isinstance(sigma, (str, Real)) else np.array(sigma)
