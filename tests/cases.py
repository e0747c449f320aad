"""The samplers, with the parameters that the common tests go through."""

from __future__ import annotations

import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.utils.fixes import parse_version

from sklearn_crt import samplers
from sklearn_crt.samplers import (
    AngularCoefficient,
    BaseFeatureSampler,
    ClusteredSampler,
    ComplexExponentialSampler,
    GaussianCoefficient,
    clustered_hybrid,
    gaussian_hybrid,
)

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
    "GERFSampler": [
        {"kernel": "softmax", "coupling": "iid", "n_components": 7},
        {"A": -0.05 + 0.1j, "s": -1},
    ],
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
    "ComplexExponentialSampler": [{"matrix": 1j, "kernel": "softmax"}],
    "ClusteredSampler": [{"diagonal": "real"}, {"n_pairs": 2}],
    "GaussianMixtureSampler": [{"n_pairs": 1, "positive": True, "n_components": 37}],
}


# factors of hybrids, and the samplers of hybrids over groups of columns
_PARTS = (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    GaussianCoefficient,
)
# Tests over a list that has lost a class would pass.
N_SAMPLERS, N_PARTS = 14, len(_PARTS)


def sampler_classes(*, parts: bool = False) -> list[type[BaseFeatureSampler]]:
    """Return the public samplers of the package, or else the parts of hybrids."""
    members = (getattr(samplers, name) for name in samplers.__all__)
    classes = [
        member
        for member in members
        if isinstance(member, type)
        and issubclass(member, BaseFeatureSampler)
        and not member.__abstractmethods__
    ]
    found = [cls for cls in classes if (cls in _PARTS) == parts]
    expected = N_PARTS if parts else N_SAMPLERS
    if len(found) != expected:
        names = ", ".join(cls.__name__ for cls in found)
        raise AssertionError(
            f"sklearn_crt.samplers has {len(found)} classes in place of {expected}: "
            f"{names}. Change the number if that is meant."
        )
    return sorted(found, key=lambda cls: cls.__name__)


_UNUSED = {*_CASES} - {
    cls.__name__ for parts in (False, True) for cls in sampler_classes(parts=parts)
}
assert not _UNUSED, _UNUSED


def sampler_cases(*, parts: bool = False) -> list[BaseEstimator]:
    """Return unfitted samplers with the parameters that common tests go through."""
    return [
        cls(**params)
        for cls in sampler_classes(parts=parts)
        for params in [{}, *_CASES.get(cls.__name__, [])]
    ]
