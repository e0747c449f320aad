"""Errors for the names that other packages give to parameters and kernels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

# sigma as a function of parameters of other packages
SIGMA_OF = {
    "gamma": lambda gamma: math.sqrt(2 * gamma),
    "length_scale": lambda length_scale: 1 / length_scale,
}
_GAUSSIAN = "rbf", "squared_exponential", "sqexp", "se"
OTHER_KERNELS = {*_GAUSSIAN, "precomputed"}


def refuse_other_parameters(cls: Any, params: Mapping[str, Any]) -> None:
    """Raise TypeError for ``gamma`` and ``length_scale``, stating sigma instead."""
    known = cls._get_param_names()
    for name in params.keys() & SIGMA_OF.keys():
        if name in known or "sigma" not in known:
            continue
        value, example = params[name], ""
        if isinstance(value, Real) and 0 < float(value) < math.inf:
            sigma = SIGMA_OF[name](value)
            example = f"; {name}={value!r} corresponds to sigma={sigma:.6g}"
        raise TypeError(
            f"{cls.__name__} has no parameter {name!r}. Use sigma = sqrt(2 * gamma) = "
            f"1 / length_scale, by which the inputs are multiplied{example}."
        )


def refuse_other_kernels(estimator: Any) -> None:
    """Raise ValueError for a kernel that has another name, or is not available."""
    kernel, name = estimator.kernel, type(estimator).__name__
    if kernel in _GAUSSIAN:
        raise ValueError(
            f"kernel={kernel!r} is not supported by {name}. Use 'gaussian' with "
            "sigma = sqrt(2 * gamma) = 1 / length_scale."
        )
    own = ""
    if callable in estimator._parameter_constraints.get("kernel", ()):
        own = ", and a function of two arrays of rows as kernel"
    raise ValueError(
        f"{name} does not support kernel={kernel!r}, because it computes kernel values "
        f"itself; pass the rows as X{own}."
    )
