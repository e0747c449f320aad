"""Random features for kernel approximation, compatible with scikit-learn."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .accuracy import compare_samplers, n_components_for
    from .nadaraya_watson import (
        NadarayaWatsonClassifier,
        NadarayaWatsonClassifierCV,
        NadarayaWatsonRegressor,
        NadarayaWatsonRegressorCV,
        learn_sigma,
    )
    from .samplers import (
        AnchoredRBFSampler,
        CentersRBFSampler,
        DERFSampler,
        ExponentialPowerSampler,
        GeometricSampler,
        GERFSampler,
        HybridSampler,
        LaplacianSampler,
        MaternSampler,
        OPRFSampler,
        PoissonSampler,
        PositiveRBFSampler,
        SimplexRBFSampler,
        TrigRBFSampler,
    )

__version__ = "0.1.0.dev0"

__all__ = [
    "AnchoredRBFSampler",
    "CentersRBFSampler",
    "DERFSampler",
    "ExponentialPowerSampler",
    "GERFSampler",
    "GeometricSampler",
    "HybridSampler",
    "LaplacianSampler",
    "MaternSampler",
    "NadarayaWatsonClassifier",
    "NadarayaWatsonClassifierCV",
    "NadarayaWatsonRegressor",
    "NadarayaWatsonRegressorCV",
    "OPRFSampler",
    "PoissonSampler",
    "PositiveRBFSampler",
    "SimplexRBFSampler",
    "TrigRBFSampler",
    "__version__",
    "compare_samplers",
    "learn_sigma",
    "n_components_for",
]

# Where names are looked for, lowest layer first: what a name does not need is not
# imported for it.
_HOMES = ["samplers", "nadaraya_watson", "accuracy"]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name in __all__:
        for home in _HOMES:
            module = import_module(f"{__name__}.{home}")
            if name in module.__all__:
                value = globals()[name] = getattr(module, name)
                return value
    if name in _HOMES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the names of the module, imported or not yet."""
    return sorted({*globals(), *__all__, *_HOMES})
