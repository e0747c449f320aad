"""Moments of columns, against direct computation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_crt.rows import Moments, _moments


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_moments(convert, dtype, weighted, rng, monkeypatch):
    monkeypatch.setattr(_moments, "_CHUNK_BYTES", 8 * 3 * 7)  # seven rows at a time
    X = rng.normal([0.0, 5.0, -3.0], size=(50, 3)).astype(dtype)
    X[rng.random(X.shape) < 0.3] = 0
    w = rng.integers(0, 3, size=50).astype(float) if weighted else None
    moments = Moments.of(convert(X), w)
    rows = np.repeat(X.astype(float), 1 if w is None else w.astype(int), axis=0)
    assert moments.weight == len(rows)
    assert_allclose(moments.mean, rows.mean(axis=0), rtol=1e-12)
    assert_allclose(moments.variance, rows.var(axis=0), rtol=1e-10)
    assert_allclose(moments.mean_abs, np.abs(rows).mean(axis=0), rtol=1e-12)
    assert_allclose(moments.mean_square, (rows**2).mean(axis=0), rtol=1e-10)
    assert_allclose(moments.total_variance, rows.var(), rtol=1e-10)


def test_moments_of_two_sets_against_reference_numbers(vectors):
    X = Moments.of(np.array([[1, 0.5], [-0.5, 2], [0.3, -1]]))
    Y = Moments.of(np.array([[0.2, 1], [-1, 0.4]]))
    squares, numbers = X.mean_square + Y.mean_square, vectors["sets"]
    for sign in "+-":
        products = 2 * float(f"{sign}1") * X.mean * Y.mean
        expected = numbers[f"mean |x{sign}y|^2"]
        assert_allclose(np.sum(squares + products), expected, rtol=1e-12)
    for k in range(2):
        expected = numbers[f"mean x^2 y^2 [{k}]"]
        assert_allclose(X.mean_square[k] * Y.mean_square[k], expected, rtol=1e-12)
        expected = numbers[f"mean |x y| [{k}]"]
        assert_allclose(X.mean_abs[k] * Y.mean_abs[k], expected, rtol=1e-12)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_moments_of_rows_without_weight(convert):
    X = np.array([[1.0, 2.0], [3.0, 5.0]])
    none = Moments.of(convert(X), np.zeros(2))
    assert none.weight == 0
    merged = none + Moments.of(convert(X))
    assert_allclose(merged.mean, [2, 3.5])
    assert_allclose((Moments.of(convert(X)) + none).variance, [1, 2.25])


def test_moments_merge_in_any_order_far_from_zero(rng):
    X = 1e8 + rng.normal(size=(60, 2))
    parts = [Moments.of(part) for part in np.array_split(X, 4)]
    forward = parts[0] + parts[1] + parts[2] + parts[3]
    backward = parts[3] + (parts[2] + parts[1]) + parts[0]
    for moments in (forward, backward):
        assert_allclose(moments.variance, X.var(axis=0), rtol=1e-6)
