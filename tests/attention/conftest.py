"""The inputs of the reference numbers of attention, and libraries of arrays."""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_crt.frequencies import Frequencies, get_coupling
from sklearn_crt.maps import (
    GaussianKernel,
    GaussianRadial,
    IsotropicQuadratic,
    PairedColumns,
    PositiveMap,
    SignMap,
    SumOfProductsMap,
    TrigonometricMap,
)
from sklearn_crt.rows import Frame


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


def exponential_map(W, A, center=None):
    """Return the positive map of given frequencies, one a row."""
    frequencies = Frequencies(np.ascontiguousarray(W.T))
    coupling, kernel = get_coupling("iid", "test"), GaussianKernel(softmax=True)
    columns = PairedColumns.of(W.shape[0], single=True)
    options = (Frame(1.0, center), W.shape[0], frequencies, coupling)
    return PositiveMap(*options, IsotropicQuadratic(A), columns, kernel)


def trigonometric_map(W):
    """Return sines and cosines of given frequencies."""
    frequencies = Frequencies(np.ascontiguousarray(W.T))
    return TrigonometricMap(
        Frame(),
        2 * W.shape[0],
        frequencies,
        get_coupling("iid", "test"),
        GaussianRadial(),
        PairedColumns.of(2 * W.shape[0]),
        0.0,
        gaussian=GaussianKernel(softmax=True),
    )


def angular_hybrid(W, T):
    """Return the angular hybrid of given frequencies and directions."""
    coupling = get_coupling("iid", "test")
    frequencies, directions = (Frequencies(np.ascontiguousarray(Z.T)) for Z in (W, T))
    columns, plain = PairedColumns.of(2 * len(W)), GaussianKernel()
    options = (Frame(), 2 * len(W), frequencies, coupling)
    bases = (
        PositiveMap(*options, IsotropicQuadratic(0.0), columns, plain),
        TrigonometricMap(*options, GaussianRadial(), columns, 0.0, gaussian=plain),
    )
    signs = SignMap(Frame(), len(T), directions, coupling)
    return SumOfProductsMap(
        Frame(),
        4 * len(W) * (len(T) + 1),
        bases,
        (signs,),
        (0.5,),
        shared=True,
        factor=GaussianKernel(softmax=True),
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
