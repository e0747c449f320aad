"""Rows at unit bandwidth: products, distances, samples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from sklearn_crt.frequencies import Affine, Frequencies
from sklearn_crt.rows import (
    Frame,
    RowSample,
    Statistics,
    UnitRows,
    row_chunks,
    width_of,
)

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


# ------------------------------------------------------------------- sparse tables
def with_duplicates(X, dtype=np.float64):
    """Return the table with each number as a sum of two entries, out of order."""
    i, j = np.nonzero(X)
    order = np.argsort(-j, kind="stable")
    order = order[np.argsort(i[order], kind="stable")]
    i, j = (np.repeat(index[order], 2) for index in (i, j))
    values = np.repeat(X[i[::2], j[::2]], 2) * np.tile([3.0, -2.0], i.size // 2)
    indptr = np.searchsorted(i, np.arange(len(X) + 1))
    return sparse.csr_array((values.astype(dtype), j, indptr), shape=X.shape)


@pytest.mark.parametrize("center", [None, np.arange(4.0)], ids=["raw", "centred"])
@pytest.mark.parametrize("sigma", [0.5, np.array([1.0, 2.0, 0.5, 3.0])], ids=str)
def test_entries_of_one_place_are_summed(center, sigma, X):
    table = with_duplicates(X)
    assert_allclose(table.toarray(), X)
    assert not table.has_canonical_format
    data, frame = table.data.copy(), Frame(sigma, center)
    one, other = frame.rows(table), frame.rows(X)
    assert_allclose(one.sq_norms, other.sq_norms)
    assert_allclose(one.map(np.exp).sq_norms, other.map(np.exp).sq_norms)
    assert_array_equal(table.data, data)  # that of the caller


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("center", [None, np.arange(4.0)], ids=["raw", "centred"])
def test_affine_of_sparse_rows(dtype, center, X, rng):
    X[3], X[:, 2] = 0, 0  # an empty row, an empty column
    X = X.astype(dtype)
    W = Frequencies(rng.normal(size=(4, 5)).astype(dtype))
    form = Affine(W, 1.7, rng.normal(size=5).astype(dtype))
    frame = Frame(np.array([1.0, 2.0, 0.5, 3.0]), center)
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    for n_rows in (30, 1, 0):
        row_term = rng.normal(size=(n_rows, 1)).astype(dtype)
        one, other = (
            frame.rows(convert(X[:n_rows])).affine(
                form, row_term, np.empty((n_rows, 5), dtype)
            )
            for convert in (np.asarray, sparse.csr_array)
        )
        assert other.dtype == dtype
        assert_allclose(other, one, rtol=tolerance, atol=10 * tolerance)


def test_products_with_a_shift_are_kept_until_another_comes(rng):
    W = Frequencies(rng.normal(size=(4, 3)))
    one, other = rng.normal(size=(2, 4))
    for shift in (one, other, one, one.copy()):
        assert_allclose(W.of_shift(shift), shift @ W.weights, rtol=1e-14)
    assert W.of_shift(one) is W.of_shift(one.copy())
    one += 1  # what is kept is a copy
    assert_allclose(W.of_shift(one), one @ W.weights, rtol=1e-14)
    assert "_of_shift" not in W.__getstate__()
    narrow = W.to(np.float32)
    for dtype in (np.float64, np.float32):  # of the same numbers
        assert narrow.of_shift(np.ones(4, dtype)).dtype == dtype


def test_chunks_of_sparse_rows_may_be_written_out():
    for n_features in (1, 1000, 10**5, 10**7):
        table = sparse.csr_array((1, n_features))
        for n_components in (1, 64, 4096):
            width = width_of(table, n_components)
            assert width >= max(1, n_components)
            chunk = next(row_chunks(10**6, width, 8, in_place=True))
            assert chunk.stop == 256 or chunk.stop * n_features * 8 <= 2**26
    assert width_of(np.empty((1, 1000)), 64) == 1000
    assert width_of(sparse.csr_array((1, 1000)), 64) == 64
