"""The inputs of the reference numbers of attention, and libraries of arrays."""

import json
import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler, angular_hybrid


@pytest.fixture(autouse=True)
def seed():
    """Let torch draw the same numbers in every run, where a test has imported it."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def attention_vectors():
    """Return the reference numbers, computed by a script outside this package."""
    return json.loads((Path(__file__).parent / "vectors.json").read_text())


@pytest.fixture(scope="session")
def case():
    """Return queries, keys, values and frequencies of the reference numbers."""
    L, d, e, m, n = 5, 4, 2, 6, 3
    row, column = np.arange(1, L + 1)[:, None], np.arange(1, d + 1)[None]
    return SimpleNamespace(
        q=1.5 * np.sin(row * column),
        k=1.5 * np.cos(row + 2 * column),
        v=np.sin(row + 3 * np.arange(1, e + 1)[None]),
        W=1.5 * np.sin(1.7 * np.arange(1, m + 1)[:, None] + column**2),
        T=np.cos(2.3 * np.arange(1, n + 1)[:, None] + 1.1 * column),
    )


@pytest.fixture(scope="session")
def samplers(case, given):
    """Return samplers fitted on the queries and keys, with the given frequencies."""
    m, n = len(case.W), len(case.T)
    common = {"sigma": 4**-0.25, "kernel": "softmax", "coupling": given(case.W, case.T)}
    positive = {"center": False, "n_components": m, **common}
    hybrid = {"n_components": 4 * m * (n + 1), "n_coefficients": n, "shared": True}
    return SimpleNamespace(
        **{
            name: sampler.fit(case.q, X_key=case.k)
            for name, sampler in {
                "favor": PositiveRBFSampler(**positive),
                "favor_optimal": OPRFSampler(**positive),
                "trigonometric": TrigRBFSampler(n_components=2 * m, **common),
                "angular": angular_hybrid(**hybrid, **common),
            }.items()
        }
    )


def masked_quadratic(queries, keys, v, causal):
    """Return attention as a matrix of all pairs, from features as numbers."""
    products = queries @ np.swapaxes(keys, -1, -2)
    if causal:
        products = np.tril(products)
    return products @ v / products.sum(axis=-1, keepdims=True)


@pytest.fixture(params=["numpy", "array_api_strict", "torch", "jax.numpy", "cupy"])
def xp(request):
    """Return a library of arrays, or skip where it is not installed."""
    if request.param != "numpy":
        pytest.importorskip("sklearn.externals.array_api_compat")
    return pytest.importorskip(request.param)


def relative_error(found, exact):
    """Return the error over the size, of all entries."""
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


SIGMOID_1 = 1 / (1 + math.exp(-1))
