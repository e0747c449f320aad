"""The samplers, with the parameters that the common tests go through."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.fixes import parse_version

import sklearn_crt
from sklearn_crt import samplers
from sklearn_crt.samplers import BaseFeatureSampler, clustered_hybrid, gaussian_hybrid

# for tests with arrays of other libraries than NumPy
array_libraries = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9.dev0"),
    reason="scikit-learn before 1.9",
)

# Parameters beside the defaults, which are always a case. A new sampler needs a line
# only if it has parameters of its own.
_CASES: dict[str, list[dict[str, object]]] = {
    "TrigRBFSampler": [
        {"coupling": "iid", "kernel": "softmax", "n_components": 7},
        {"random_phase": True},
    ],
    "PositiveRBFSampler": [{"center": False, "kernel": "softmax"}],
    "SimplexRBFSampler": [
        {"coupling": "simplex+", "kernel": "softmax", "n_jobs": 2},
    ],
    "OPRFSampler": [
        {"coupling": "simplex+"},
        {"sigma": "median", "coupling": "iid", "n_jobs": 2},
        {"coupling": "antithetic", "n_components": 7},
    ],
    "DERFSampler": [
        {"coupling": "antithetic", "kernel": "softmax", "n_components": 7},
        {"coupling": "iid", "center": False, "n_jobs": 2},
    ],
    "AnchoredRBFSampler": [
        {"coupling": "antithetic", "kernel": "softmax", "n_components": 7},
        {"coupling": "iid", "sigma": "median", "n_anchors": 500, "n_jobs": 2},
    ],
    "GERFSampler": [{"kernel": "softmax", "coupling": "iid", "n_components": 7}],
    "PoissonSampler": [{"positive": True}, {"center": False, "kernel": "softmax"}],
    "GeometricSampler": [
        {"positive": True, "sigma": "median"},
        {"center": False, "kernel": "softmax", "n_jobs": 2},
    ],
    "MaternSampler": [
        {"nu": 4, "coupling": "iid", "n_components": 7, "sigma": "median"},
    ],
    "LaplacianSampler": [{"norm": "l1", "random_phase": True, "n_jobs": 2}],
    "ExponentialPowerSampler": [{"alpha": 0.7, "random_phase": True}],
    "HybridSampler": [
        gaussian_hybrid(coupling="iid", kernel="softmax", n_components=37).get_params(
            deep=False
        ),
        clustered_hybrid(center=True, n_jobs=2).get_params(deep=False),
    ],
    "ComplexExponentialSampler": [{"diagonal": 1j, "kernel": "softmax"}],
    "ClusteredSampler": [{"diagonal": "real"}],
}


def sampler_classes(*, parts: bool = False) -> list[type[BaseFeatureSampler]]:
    """Return the public samplers of the package."""
    top = set(_classes(sklearn_crt))
    found = set(_classes(samplers)) - top if parts else top
    concrete = (cls for cls in found if not cls.__abstractmethods__)
    return sorted(concrete, key=lambda cls: cls.__name__)


def _classes(module: ModuleType) -> Iterator[type[BaseFeatureSampler]]:
    members = (getattr(module, name) for name in module.__all__)
    for member in members:
        if isinstance(member, type) and issubclass(member, BaseFeatureSampler):
            yield member


def sampler_cases(*, parts: bool = False) -> list[BaseEstimator]:
    """Return unfitted samplers with the parameters that common tests go through."""
    return [
        cls(**params)
        for cls in sampler_classes(parts=parts)
        for params in [{}, *_CASES.get(cls.__name__, [])]
    ]
