"""The transformers for the ``kernel`` parameter of ridge estimators."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.gaussian_process.kernels import Kernel
from sklearn.kernel_approximation import Nystroem

from .._fitted import LifeCycle
from .._kernel_parameter import is_auto, is_row_kernel, resolve_sampler, row_kernel
from ..maps import ExponentialPower, Gaussian, Laplacian, Matern, RadialKernel
from ..samplers import (
    ExponentialPowerSampler,
    LaplacianSampler,
    MaternSampler,
    TrigRBFSampler,
)
from ._sums import FEWEST

_SAMPLERS: dict[type, Any] = {
    Gaussian: TrigRBFSampler,
    Laplacian: LaplacianSampler,
    Matern: MaternSampler,
    ExponentialPower: ExponentialPowerSampler,
}


def transformer_for(estimator: Any) -> tuple[Any, bool, bool]:
    """Return the transformer, and whether ``fit`` chooses its sigma and its size.

    The transformer is None if the rows are the features.
    """
    kernel, sigma = estimator.kernel, estimator.sigma
    if isinstance(kernel, str) and kernel == "linear":
        _check_without_effect(estimator, "the rows are features already")
        return None, False, False
    name = type(estimator).__name__
    if not is_row_kernel(kernel):
        sampler = _with_random_state(_with_n_components(kernel, estimator), estimator)
        return *resolve_sampler(sampler, sigma, name), False
    kernel, resizes = row_kernel(kernel), is_auto(estimator.n_components)
    own = {
        "n_components": FEWEST if resizes else estimator.n_components,
        "random_state": estimator.random_state,
    }
    if isinstance(kernel, RadialKernel):
        sampler = _sampler_of(kernel).set_params(**own)
        return *resolve_sampler(sampler, sigma, name), resizes
    if not is_auto(sigma):
        raise ValueError(
            f"sigma={sigma!r} has no effect with kernel={estimator.kernel!r}, which "
            "has a length scale of its own. Leave sigma='auto', and set the parameters "
            "of the kernel."
        )
    if not isinstance(kernel, Kernel):
        kernel = FunctionKernel(kernel)
    return Nystroem(kernel=kernel, **own), False, resizes


def _sampler_of(kernel: RadialKernel) -> Any:
    """Return the sampler whose random features approximate a kernel."""
    if type(kernel) not in _SAMPLERS:
        names = ", ".join(kind.__name__ for kind in _SAMPLERS)
        raise ValueError(
            f"There is no sampler for kernel={kernel!r}, only for {names}. Pass a "
            "sampler of your own as kernel."
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


def _with_n_components(sampler: Any, estimator: Any) -> Any:
    """Return a transformer with the estimator's number of features, if set."""
    wanted = estimator.n_components
    if is_auto(wanted):
        return sampler
    if not (isinstance(sampler, LifeCycle) and hasattr(sampler, "n_components")):
        _check_without_effect(estimator, "only samplers of sklearn_crt are adjusted")
    name = type(sampler).__name__
    default = inspect.signature(type(sampler)).parameters["n_components"].default
    if sampler.n_components not in (default, wanted):
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


class FunctionKernel(Kernel):
    """Wrapper that lets ``Nystroem`` use a function of two arrays of rows as a kernel.

    Without it, ``Nystroem`` would call the function for one pair of rows at a time.
    """

    def __init__(self, function: Callable[..., Any]):
        self.function = function

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """Return the kernel values for all pairs of rows, (n_X, n_Y)."""
        return self.function(X, X if Y is None else Y)

    def diag(self, X: Any) -> Any:
        """Return the kernel value of each row with itself, (n_X,)."""
        return np.array([self(row, row)[0, 0] for row in X[:, None]])

    def is_stationary(self) -> bool:
        """Return False, because values may depend on more than differences of rows."""
        return False

    def __repr__(self) -> str:
        """Return the name of the function."""
        return f"{type(self).__name__}({self.function!r})"
