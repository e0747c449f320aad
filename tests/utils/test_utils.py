"""Statistics, sums of features and profiles, against direct computation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_crt.utils import _moments
from sklearn_crt.utils._accumulator import FeatureSums
from sklearn_crt.utils._moments import Moments
from sklearn_crt.utils._profiles import LOG_PROFILES


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
    merged = none.merge(Moments.of(convert(X)))
    assert_allclose(merged.mean, [2, 3.5])
    assert_allclose(Moments.of(convert(X)).merge(none).variance, [1, 2.25])


def test_moments_merge_in_any_order_far_from_zero(rng):
    X = 1e8 + rng.normal(size=(60, 2))
    parts = [Moments.of(part) for part in np.array_split(X, 4)]
    forward = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3])
    backward = parts[3].merge(parts[2].merge(parts[1])).merge(parts[0])
    for moments in (forward, backward):
        assert_allclose(moments.variance, X.var(axis=0), rtol=1e-6)


@pytest.mark.parametrize("signed", [False, True])
def test_feature_sums_beyond_the_range_of_floats(signed, rng):
    """Exponents of thousands, checked in shifted arithmetic."""
    exponent = rng.normal(scale=3, size=(40, 5)) + 1000 * np.arange(-2, 3)
    mantissa = rng.choice([-1.0, 1.0], size=(40, 5)) if signed else None
    targets = rng.normal(size=(40, 2))
    sums = FeatureSums()
    assert sums.empty
    for rows in np.array_split(np.arange(40), 3):
        part = None if mantissa is None else mantissa[rows]
        sums.add(part, exponent[rows], targets[rows])
    signs = 1.0 if mantissa is None else mantissa
    plain = (signs * np.exp(exponent - 1000 * np.arange(-2, 3))).T @ targets
    query = -1000.0 * np.arange(-2, 3) + rng.normal(size=(7, 5))
    expected = np.exp(query + 1000 * np.arange(-2, 3)) @ plain
    scores, log_scale = sums.average(None, query)
    assert_allclose(scores * np.exp(log_scale), expected, rtol=1e-9)


def test_feature_sums_merge_equals_add(rng):
    exponent, targets = rng.normal(scale=50, size=(30, 4)), rng.normal(size=(30, 2))
    together, left, right = FeatureSums(), FeatureSums(), FeatureSums()
    together.add(None, exponent, targets)
    left.add(None, exponent[:10], targets[:10])
    right.add(None, exponent[10:], targets[10:])
    left.merge(right)
    assert_allclose(left.sums, together.sums, rtol=1e-12)
    assert_allclose(left.shift, together.shift)


def test_feature_sums_of_columns_of_zeros():
    exponent = np.array([[0.0, -np.inf], [1.0, -np.inf]])
    sums = FeatureSums()
    sums.add(None, exponent[:1], np.ones((1, 1)))
    sums.add(None, exponent[1:], np.ones((1, 1)))
    scores, log_scale = sums.average(None, np.array([[0.0, 5.0], [-np.inf, -np.inf]]))
    assert_allclose(scores * np.exp(log_scale), [[1 + np.e], [0.0]])


def test_profiles_against_reference_numbers(vectors):
    for name, value in vectors["kernels"].items():
        if name.startswith("Matern"):
            nu, r = (float(part.split("=")[1]) for part in name.split()[1:])
            log_kernel = LOG_PROFILES["matern"](np.array([r]), nu)
            assert_allclose(np.exp(log_kernel), value, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.8, 1.5, 2.5, 4.0, 30.0, np.inf])
def test_matern_profile_at_its_ends(nu):
    r = np.array([0.0, 1e-300, 1e-9, 1e4])
    log_kernel = LOG_PROFILES["matern"](r, nu)
    assert_allclose(log_kernel[:2], 0, atol=1e-12)
    assert np.all(np.isfinite(log_kernel))
    assert log_kernel[3] < -1e3
