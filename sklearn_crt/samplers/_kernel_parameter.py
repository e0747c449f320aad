"""The ``kernel`` and ``sigma`` parameters, with the same meaning for all estimators."""

from __future__ import annotations

import sys
from collections.abc import Callable
from numbers import Real
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.kernel_approximation import Nystroem
from sklearn.utils import get_tags

from .._compat import HasMethods, Interval, StrOptions
from ..life_cycle.fitted import LifeCycle
from ..maps import ExponentialPower, Gaussian, Laplacian, Matern, RadialKernel
from ..rows import Sigma
from ..samplers import (
    ExponentialPowerSampler,
    LaplacianSampler,
    MaternSampler,
    TrigRBFSampler,
)

KERNELS: dict[str, type[RadialKernel]] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "matern": Matern,
}
_SAMPLERS: dict[type, Any] = {
    Gaussian: TrigRBFSampler,
    Laplacian: LaplacianSampler,
    Matern: MaternSampler,
    ExponentialPower: ExponentialPowerSampler,
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


def resolve_sampler(
    sampler: Any, sigma: Any, owner: str, *, reads_tables: bool = False
) -> tuple[Any, bool]:
    """Return a sampler with the ``sigma`` of the estimator that uses it.

    The second result is True if ``fit`` has to select ``sigma``, that is, if ``sigma``
    of the estimator is ``"auto"`` and ``sigma`` of the sampler was not set. Samplers
    that learn from targets are refused, unless they read tables for an owner that does.
    """
    reads_tables = reads_tables and getattr(sampler, "_reads_tables", False)
    learns = isinstance(sampler, LifeCycle) and get_tags(sampler).target_tags.required
    if learns and not reads_tables:
        raise TypeError(
            f"kernel={sampler!r} of {owner} learns from the targets, so its features "
            "do not estimate a kernel of the rows. Pass a LearnedMetric as the "
            "parameter metric, and an AnovaSampler as the kernel of RandomFeatureRidge "
            "or RandomFeatureRidgeClassifier."
        )
    has_sigma = isinstance(sampler, LifeCycle) and hasattr(sampler, "sigma")
    own = sampler.sigma if has_sigma else None
    if is_auto(sigma):
        is_free = has_sigma and own is None
        return sampler, is_free and hasattr(sampler, "with_sigma")
    if not has_sigma:
        raise ValueError(
            f"sigma={sigma!r} of {owner} has no effect with kernel={sampler!r}, which "
            "computes features without it. Use sigma='auto', and set the "
            "parameters of the transformer instead."
        )
    if own is not None and not np.array_equal(own, sigma):
        raise ValueError(
            f"sigma={sigma!r} of {owner} and sigma={own!r} of {type(sampler).__name__} "
            "contradict each other. Set only one of them."
        )
    return clone(sampler).set_params(sigma=sigma), False


def copied_sigma(sigma: Sigma) -> Sigma:
    """Return ``sigma``, as a copy if it is an array."""
    return sigma if isinstance(sigma, (str, Real)) else np.array(sigma)


# ------------------------------------------------------ transformers of ridge models
def is_process_kernel(kernel: Any) -> bool:
    """Return whether a kernel is one of scikit-learn's Gaussian process kernels."""
    module = sys.modules.get("sklearn.gaussian_process.kernels")
    return module is not None and isinstance(kernel, module.Kernel)


def transformer_for(estimator: Any, n_components: int) -> tuple[Any, bool, bool]:
    """Return a ridge model's transformer, and whether ``fit`` selects sigma and size.

    The transformer is None if the rows are the features. It has ``n_components``
    features if ``fit`` selects the size.
    """
    kernel, sigma = estimator.kernel, estimator.sigma
    if isinstance(kernel, str) and kernel == "linear":
        _check_without_effect(estimator, "the rows are already features")
        return None, False, False
    name = type(estimator).__name__
    if not is_row_kernel(kernel):
        sampler = _with_random_state(_with_set_size(kernel, estimator), estimator)
        return *resolve_sampler(sampler, sigma, name, reads_tables=True), False
    kernel, resizes = row_kernel(kernel), is_auto(estimator.n_components)
    own = {
        "n_components": n_components if resizes else estimator.n_components,
        "random_state": estimator.random_state,
    }
    if isinstance(kernel, RadialKernel):
        sampler = _sampler_of(kernel).set_params(**own)
        return *resolve_sampler(sampler, sigma, name), resizes
    if not is_auto(sigma):
        raise ValueError(
            f"sigma={sigma!r} has no effect with kernel={estimator.kernel!r}, which "
            "has a length scale of its own. Use sigma='auto', and set the parameters "
            "of the kernel instead."
        )
    if not is_process_kernel(kernel):
        # imported here, because only a few users need Gaussian process kernels
        from ._function_kernel import FunctionKernel

        kernel = FunctionKernel(kernel)
    return Nystroem(kernel=kernel, **own), False, resizes


def _sampler_of(kernel: RadialKernel) -> Any:
    """Return the sampler whose random features approximate a kernel."""
    if type(kernel) not in _SAMPLERS:
        names = ", ".join(kind.__name__ for kind in _SAMPLERS)
        raise ValueError(
            f"There is no sampler for kernel={kernel!r}; use one of {names}, or pass a "
            "sampler as kernel."
        )
    return _SAMPLERS[type(kernel)](**kernel.get_params())


def _check_without_effect(estimator: Any, reason: str) -> None:
    """Raise ValueError if a parameter of random features is set but not used."""
    for name in ("sigma", "n_components"):
        value = getattr(estimator, name)
        if not is_auto(value):
            raise ValueError(
                f"{name}={value!r} has no effect with kernel={estimator.kernel!r}, "
                f"because {reason}. Leave {name}='auto', and set the parameters of "
                "the transformer that computes the features."
            )


def _with_set_size(sampler: Any, estimator: Any) -> Any:
    """Return a transformer with the estimator's number of features, if set."""
    wanted = estimator.n_components
    if is_auto(wanted):
        return sampler
    if not (isinstance(sampler, LifeCycle) and hasattr(sampler, "n_components")):
        _check_without_effect(estimator, "only samplers of sklearn_crt are adjusted")
    name = type(sampler).__name__
    if sampler.n_components not in (None, wanted):
        raise ValueError(
            f"n_components={wanted} of {type(estimator).__name__} and n_components="
            f"{sampler.n_components} of {name} contradict each other. Set only one "
            "of them."
        )
    return clone(sampler).set_params(n_components=wanted)


def _with_random_state(transformer: Any, estimator: Any) -> Any:
    """Return a transformer with the estimator's seed, unless it has its own."""
    params = transformer.get_params(deep=False)
    if estimator.random_state is None or params.get("random_state", 0) is not None:
        return transformer
    return clone(transformer).set_params(random_state=estimator.random_state)
