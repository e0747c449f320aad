"""Signs of monomials from the bits of their exponents."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_crt.frequencies import Independent
from sklearn_crt.maps import Counts, DiscreteMap, GaussianKernel, PoissonLaw, _parities
from sklearn_crt.maps._parities import Parities, flip_signs
from sklearn_crt.rows import Frame, UnitRows

SHAPES = [(1, 1), (7, 3), (8, 64), (9, 65), (20, 130)]  # coordinates, frequencies


def table(rng, n_rows, n_features):
    """Rows with zeros, one of them empty."""
    X = rng.normal(size=(n_rows, n_features))
    X *= rng.integers(0, 2, size=X.shape)
    X[n_rows // 2 : n_rows // 2 + 1] = 0
    return X


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("n_rows", [0, 1, 2, 30])
@pytest.mark.parametrize("centred", [False, True])
def test_odd_changes_of_the_sign(shape, n_rows, centred, rng, monkeypatch):
    counts = rng.poisson(2.0, shape)
    X = table(rng, n_rows, shape[0])
    center = rng.normal(size=shape[0]) if centred else None
    expected = (Frame(1.0, center).rows(X).dense < 0).astype(int) @ counts % 2
    assert n_rows < 30 or shape[0] == 1 or 0.2 < expected.mean() < 0.8
    parities = Parities(counts)
    for convert in (np.asarray, sparse.csr_array, sparse.csr_matrix):
        for dtype in (np.float64, np.float32):
            rows = Frame(1.0, center).rows(convert(X.astype(dtype)))
            assert_array_equal(parities.are_odd(rows), expected)
    monkeypatch.setattr(_parities, "_SCRATCH", 5)  # a few entries at a time
    assert_array_equal(parities.are_odd(rows), expected)


def test_stored_zeros_and_all_entries_below_the_centre(rng):
    X = sparse.csr_array(np.array([[0.0, 1.0, -1.0], [2.0, 0.0, 3.0]]))
    X.data[:] = [0.0, -1.0, 2.0, 3.0]  # the first is a stored zero
    counts = np.array([[1], [1], [1]])
    assert_array_equal(Parities(counts).are_odd(UnitRows(X)), [[1], [0]])
    shift = np.array([1.0, 1.0, 9.0])
    negative = X.toarray() - shift < 0
    expected = negative.sum(axis=1, keepdims=True) % 2
    assert_array_equal(Parities(counts).are_odd(UnitRows(X, shift)), expected)


def test_another_centre_is_another_row(rng):
    parities, X = Parities(rng.poisson(1.0, (6, 40))), sparse.csr_array(np.eye(6))
    for shift in (np.full(6, 0.5), np.full(6, -0.5), np.full(6, 0.5)):
        expected = Parities(parities_counts(parities)).are_odd(UnitRows(X, shift))
        assert_array_equal(parities.are_odd(UnitRows(X, shift)), expected)
        shift *= -1  # the kept row is a copy
        after = Parities(parities_counts(parities)).are_odd(UnitRows(X, shift))
        assert_array_equal(parities.are_odd(UnitRows(X, shift)), after)


def parities_counts(parities):
    """Return the counts modulo 2."""
    one = UnitRows(-np.eye(parities.n_features))
    return parities.are_odd(one)


def test_a_pickle_holds_the_bits_alone(rng):
    parities = Parities(rng.poisson(1.0, (64, 640)))
    small = len(pickle.dumps(parities))
    rows = UnitRows(rng.normal(size=(9, 64)))
    before = parities.are_odd(rows)
    assert len(pickle.dumps(parities)) == small < 64 * 640 / 4
    assert_array_equal(pickle.loads(pickle.dumps(parities)).are_odd(rows), before)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_flipped_signs(dtype):
    values = np.array([[1.5, -2.0, 0.0, -0.0, np.inf, -np.inf]], dtype)
    expected = -values
    wide = np.zeros((1, 12), dtype)
    wide[:, ::2] = values
    flip_signs(values, np.ones(values.shape, np.uint8))
    assert_array_equal(values, expected)
    assert_array_equal(np.signbit(values), np.signbit(expected))
    flip_signs(wide[:, ::2], np.ones(values.shape, np.uint8))  # not contiguous
    assert_array_equal(wide[:, ::2], expected)
    assert_array_equal(wide[:, 1::2], 0)


# --------------------------------------------------------------------- large counts
def one_column(counts, dtype):
    """Return the map of given counts of one coordinate."""
    weights = Counts(np.array([counts], dtype=np.float64))
    law, kernel = PoissonLaw(1e15), GaussianKernel()
    whole = DiscreteMap(Frame(), len(counts), weights, Independent(), law, kernel)
    return whole.to(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_signs_of_counts_beyond_float32(dtype, convert):
    counts = [2**24, 2**24 + 1, 2**40 + 1, 2**50, 2**50 + 1]
    feature_map = one_column(counts, dtype)
    rows = UnitRows(convert(np.array([[-1.0], [1.0]], dtype)))
    signs, _ = feature_map.log_features(rows)
    assert_array_equal(signs, [[1, -1, -1, 1, -1], [1] * 5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_powers_of_zero_with_counts_of_any_size(dtype, convert):
    feature_map = one_column([0, 1, 2**50], dtype)
    rows = UnitRows(convert(np.zeros((2, 1), dtype)))
    signs, logs = feature_map.log_features(rows)
    assert_array_equal(np.isneginf(logs), [[False, True, True]] * 2)
    assert_array_equal(signs, 1)
    features = np.full((2, 3), np.nan, dtype)
    with np.errstate(over="ignore"):
        feature_map.features(rows, features)
    assert_array_equal(features[:, 1:], 0)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_rows_whose_norm_overflows_are_an_error(convert):
    """In float32 |x|^2 is infinite there; no feature is nan."""
    counts = Counts(np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0]]))
    law, kernel = PoissonLaw(1.0), GaussianKernel()
    whole = DiscreteMap(Frame(), 3, counts, Independent(), law, kernel)
    rows = UnitRows(convert(np.array([[1e25, -1e25]], np.float32)))
    out = np.full((1, 3), np.nan, np.float32)
    with pytest.raises(ValueError, match="too large for float32"):
        whole.to(np.float32).features(rows, out)
