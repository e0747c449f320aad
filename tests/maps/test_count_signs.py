"""Signs of monomials, from exponents of any size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from sklearn_crt.samplers import PoissonSampler

SHAPES = [(1, 1), (7, 3), (8, 64), (9, 65), (20, 130)]  # coordinates, frequencies
KINDS = [np.asarray, sparse.csr_array, sparse.csr_matrix]


def table(rng, n_rows, n_features):
    """Return rows with zeros, one of them empty."""
    X = rng.normal(size=(n_rows, n_features))
    X *= rng.random(X.shape) > 0.1
    X[n_rows // 2 : n_rows // 2 + 1] = 0
    return X


def signs_of(fitted, rows):
    """Return the signs of the features, 0 where these are 0."""
    parts = [
        (1 if mantissa is None else mantissa) * np.isfinite(exponent)
        for _, mantissa, exponent in fitted.map_.iter_log_features(rows)
    ]
    return np.vstack(parts)


@pytest.mark.each_value
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n_rows", [1, 2, 30, 3000])
@pytest.mark.parametrize("center", [False, True])
def test_odd_powers_of_negative_coordinates(shape, n_rows, center, rng):
    d, m = shape
    options = {"sigma": 0.7, "n_components": m, "center": center, "random_state": 0}
    fitted = PoissonSampler(**options).fit(1 + rng.normal(size=(100, d)))
    X = table(rng, n_rows, d)
    x, counts = X - fitted.center_, fitted.frequencies_
    expected = 1 - 2 * ((x < 0) @ counts % 2)
    expected[(x == 0) @ counts > 0] = 0  # a power of zero
    assert n_rows < 30 or d == 1 or {-1, 1} <= set(expected.ravel())
    for convert in KINDS:
        for dtype in (np.float64, np.float32):
            assert_array_equal(signs_of(fitted, convert(X.astype(dtype))), expected)


def test_stored_zeros_and_entries_below_the_centre():
    X = sparse.csr_array(np.array([[7.0, 1.0, -1.0], [2.0, 0.0, 3.0]]))
    X.data[0] = 0  # stored
    shifts = np.array([0.0, 0.0, 0.0]), np.array([1.0, 1.0, 9.0])
    for shift in shifts:
        fitted = PoissonSampler(sigma=2.0, random_state=0)
        fitted.fit(np.vstack([shift - 1, shift + 1]))
        assert_allclose(fitted.center_, shift)
        assert_array_equal(signs_of(fitted, X), signs_of(fitted, X.toarray()))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", KINDS[:2])
@pytest.mark.parametrize("power", [20, 30, 49])
def test_counts_beyond_what_the_type_can_count(power, convert, dtype):
    """Of the last bit of 2^49 a float32 knows nothing."""
    X = np.array([[-1.0], [1.0]])
    options = {"sigma": 2.0 ** (power / 2), "center": False, "n_components": 200}
    fitted = PoissonSampler(random_state=0, **options).fit(X)
    counts = fitted.frequencies_
    assert_allclose(counts, 2.0**power, rtol=0.01)
    odd = counts[0] % 2
    assert 0.3 < odd.mean() < 0.7
    expected = np.vstack([1 - 2 * odd, np.ones(200)])
    assert_array_equal(signs_of(fitted, convert(X.astype(dtype))), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", KINDS[:2])
@pytest.mark.filterwarnings("ignore:.* features of .* rows are too small")
def test_powers_of_zero_with_counts_of_any_size(dtype, convert):
    for power in (-2, 20, 49):
        options = {"sigma": 2.0 ** (power / 2), "center": False, "n_components": 200}
        fitted = PoissonSampler(random_state=0, **options).fit([[-1.0], [1.0]])
        rows = convert(np.zeros((2, 1), dtype))
        zero = fitted.frequencies_[0] > 0
        ((_, _, logs),) = fitted.map_.iter_log_features(rows)
        assert_array_equal(np.isneginf(logs), [zero] * 2)
        assert_array_equal(fitted.transform(rows)[:, zero], 0)
        assert not np.isnan(fitted.transform(rows)).any()
