"""Rows at unit bandwidth: products, distances, samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from sklearn_crt.frequencies import Affine, Frequencies
from sklearn_crt.rows import Frame, RowSample, Statistics, UnitRows

both_kinds = pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, 4)) * rng.integers(0, 2, size=(30, 4))


@both_kinds
@pytest.mark.parametrize("center", [None, np.arange(4.0)], ids=["raw", "centred"])
@pytest.mark.parametrize("sigma", [1.0, 0.3, np.array([1.0, 2.0, 0.5, 3.0])], ids=str)
def test_a_frame_is_sigma_times_rows_minus_centre(convert, center, sigma, X, rng):
    frame, unit = Frame(sigma, center), sigma * (X - (0 if center is None else center))
    rows = frame.rows(convert(X))
    W = Frequencies(rng.normal(size=(4, 7)))
    assert_allclose(rows.dense, unit, atol=1e-12)
    assert_allclose(rows.project(W), unit @ W.weights, atol=1e-12)
    assert_allclose(rows.sq_norms[:, 0], (unit**2).sum(axis=1), atol=1e-12)
    raw = (sigma * X) ** 2
    assert_allclose(rows.raw_sq_norms[:, 0], raw.sum(axis=1), atol=1e-11)
    form, term = Affine(W, -0.7, rng.normal(size=7)), rng.normal(size=(30, 1))
    expected = -0.7 * unit @ W.weights + form.offsets + term
    assert_allclose(rows.affine(form, term, np.empty((30, 7))), expected, atol=1e-12)
    twice = rows.scaled(2.0)
    assert_allclose(twice.project(W), 2 * unit @ W.weights, atol=1e-12)
    expected = -1.4 * unit @ W.weights + form.offsets + term
    assert_allclose(twice.affine(form, term, np.empty((30, 7))), expected, atol=1e-12)
    keys = frame.rows(convert(X[:5]))
    assert_allclose(rows.sq_distances(keys), cdist(unit, unit[:5]) ** 2, atol=1e-11)
    total, sums, differences = rows.pair_statistics(keys)
    assert_allclose(sums, cdist(unit, -unit[:5]) ** 2, atol=1e-11)
    assert_allclose(sums + differences, 2 * total, atol=1e-10)
    plain = frame.inside(UnitRows(X))
    assert_allclose(plain.dense, unit, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_of_close_rows_far_from_the_origin(dtype, rng):
    """All digits that the differences of the stored rows have."""
    x = (100 * rng.normal(size=(20, 3))).astype(dtype)
    y = (x + 0.01 * rng.normal(size=(20, 3))).astype(dtype)
    exact = ((x.astype(np.longdouble) - y) ** 2).sum(axis=1)
    near = UnitRows(x).sq_distances(UnitRows(y))[np.arange(20), np.arange(20)]
    assert_allclose(near, exact.astype(dtype), rtol=20 * np.finfo(dtype).eps)
    products = (x**2).sum(axis=1) + (y**2).sum(axis=1) - 2 * (x * y).sum(axis=1)
    lost = np.abs(products / exact.astype(dtype) - 1).max()
    assert lost > 1e4 * np.finfo(dtype).eps  # what the test is there for


def test_times_leaves_nothing_unset(X):
    rows = Frame(2.0, np.ones(4)).rows(X).times(np.eye(4)[:, :2])
    assert_allclose(rows.raw_sq_norms, rows.sq_norms)
    assert rows.times(None) is rows


@both_kinds
def test_a_sample_in_batches_is_that_of_all_rows(convert, rng):
    X, weights = rng.normal(size=(3000, 2)), rng.integers(0, 3, 3000).astype(float)
    empty = Statistics((1, 2))
    whole = empty.read(convert(X), None, weights, median=True, rows=True)
    batches = empty
    for rows in np.split(np.arange(3000), [500, 501, 2200]):
        part = convert(X[rows]), None, weights[rows]
        batches = batches.read(*part, median=True, rows=True)
    for name in ("sample", "query_sample"):
        one, other = getattr(whole, name), getattr(batches, name)
        assert_array_equal(one.priorities, other.priorities)
        assert_array_equal(one.weights, other.weights)
        assert one.median_distance() == other.median_distance()
        assert one.rows.shape == (1000, 2)
    assert whole.key_sample is None
    assert whole.without_rows().side_samples == []


def test_statistics_are_not_changed_by_sums(rng):
    X, Y = rng.normal(size=(2, 50, 3))
    one = Statistics((1,)).read(X, Y, median=True)
    other = Statistics((2,)).read(Y, X, median=True)
    before = one.sample.median_distance(), one.both.mean.copy()
    total = one + other
    assert total.seed == (1,)
    assert_allclose(total.both.mean, (X.mean(axis=0) + Y.mean(axis=0)) / 2)
    assert total.sample.n_seen == 200
    assert one.sample.median_distance() == before[0]
    assert_array_equal(one.both.mean, before[1])
    with pytest.raises(AttributeError, match="cannot assign"):
        one.query = other.query


def test_distinct_rows_do_not_depend_on_the_order(rng):
    X = np.repeat(rng.normal(size=(5, 2)), [1, 2, 3, 1, 4], axis=0)
    places = rng.permutation(len(X))
    samples = [
        RowSample.of(rows, None, np.random.default_rng(0)) for rows in (X, X[places])
    ]
    (rows, weights), (others, other_weights) = (s.distinct() for s in samples)
    assert_array_equal(rows, others)
    assert_array_equal(weights, other_weights)
    assert sorted(weights) == [1, 1, 2, 3, 4]
