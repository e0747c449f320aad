"""What samplers read of the rows: moments and minima, in batches and in any order."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone

from sklearn_crt import DERFSampler, OPRFSampler, TrigRBFSampler
from sklearn_crt.rows import ColumnMoments
from sklearn_crt.rows.statistics import Covariance
from sklearn_crt.samplers import GeometricSampler, GERFSampler, PoissonSampler

# the names of what each makes of the moments of the columns, of one side and of two
SAMPLERS = [
    (OPRFSampler(sigma="scale"), ["center_", "sigma_", "A_"]),
    (DERFSampler(), ["center_", "sigma_", "A_"]),
    (PoissonSampler(sigma=0.5, center=False), ["lambda_"]),
    (PoissonSampler(sigma=0.5, positive=True), ["center_", "lambda_"]),
    (GeometricSampler(sigma=0.5, center=False), ["p_"]),
]
every_sampler = pytest.mark.parametrize("sampler, names", SAMPLERS, ids=str)


@every_sampler
@pytest.mark.each_value
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_rows", [50, 30_000])  # of which few are read at a time
def test_weights_are_repeated_rows(sampler, names, convert, dtype, n_rows, rng):
    X = rng.normal([0.0, 5.0, -3.0], size=(n_rows, 3)).astype(dtype)
    X[rng.random(X.shape) < 0.3] = 0
    weights = rng.integers(0, 3, size=n_rows).astype(float)
    found = clone(sampler).fit(convert(X), sample_weight=weights)
    repeated = np.repeat(X.astype(float), weights.astype(int), axis=0)
    expected = clone(sampler).fit(repeated)
    for name in names:
        pair = (getattr(fitted, name) for fitted in (found, expected))
        assert_allclose(*pair, rtol=1e-5 if dtype == np.float32 else 1e-8)


@every_sampler
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_rows_without_weight_count_nothing(sampler, names, convert, rng):
    X = rng.exponential(size=(60, 3))
    X[:20] -= 100  # the least and the largest
    weights = np.repeat([0.0, 1.0], [20, 40])
    whole = clone(sampler).fit(convert(X), sample_weight=weights)
    merged = clone(sampler).fit(convert(X[:40]), sample_weight=weights[:40])
    merged.merge(clone(sampler).fit(convert(X[40:])))
    expected = clone(sampler).fit(X[20:])
    for name in names:
        for fitted in (whole, merged):
            found = getattr(fitted, name)
            assert_allclose(found, getattr(expected, name), rtol=1e-8)


@every_sampler
@pytest.mark.each_value
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("first", [True, False])
def test_batches_without_weight_count_nothing(sampler, names, convert, first, rng):
    """Of more rows than are read at a time: a mean of none of them is no number."""
    n, d = 300_000, 2  # 2^18 are read for a covariance
    X, weights = rng.exponential(size=(n, d)), np.zeros(n)
    counted = slice(-200, None) if first else slice(200)
    weights[counted] = 1
    X[weights == 0] -= 100  # the least
    found = clone(sampler).fit(convert(X), sample_weight=weights)
    expected = clone(sampler).fit(X[counted])
    for name in names:
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-8)


@every_sampler
def test_rows_far_from_zero_merge_in_any_order(sampler, names, rng):
    X = 1e4 + rng.normal(size=(60, 2))
    if "positive" in sampler.get_params() and not sampler.positive:
        X -= 1e4  # powers of numbers as large have no other parameter
    whole = clone(sampler).fit(X)
    for order in ([0, 1, 2, 3], [3, 1, 0, 2]):
        parts = [clone(sampler).fit(part) for part in np.array_split(X, 4)]
        merged, *others = (parts[k] for k in order)
        for part in others:
            merged.merge(part)
        for name in names:
            found, expected = (getattr(fitted, name) for fitted in (merged, whole))
            assert_allclose(found, expected, rtol=1e-6, atol=1e-9)


def test_variance_of_rows_far_from_zero(rng):
    X = 1e8 + rng.normal(size=(60, 2))
    for order in (1, -1):
        sampler = TrigRBFSampler(sigma="scale")
        for part in np.array_split(X, 4)[::order]:
            sampler.partial_fit(part)
        assert_allclose(sampler.sigma_, np.sqrt(1 / X.var()), rtol=1e-6)


def test_only_those_who_ask_read_the_covariance(rng):
    """A table of all pairs of columns, which a pickle would hold."""
    X = rng.normal(size=(9, 300))
    sizes = [
        len(pickle.dumps(kind(n_components=1).fit(X)))
        for kind in (OPRFSampler, DERFSampler)
    ]
    assert sizes[0] < 8 * 300**2 / 4 < 8 * 300**2 < sizes[1]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 3.3, -1e3 - 0.1])
def test_constant_sparse_columns_vary_by_nothing(value, weighted, rng):
    """Sums of squares less a squared sum would be a little below zero."""
    for n_rows in range(2, 30):
        X = np.full((n_rows, 3), value)
        X[:, 1] = rng.normal(size=n_rows)
        weights = rng.random(n_rows) if weighted else None
        table = sparse.csr_array(X)
        moments = ColumnMoments.of(table, weights)
        np.testing.assert_array_equal(moments.mean[[0, 2]], value)
        assert_allclose(moments.variance[[0, 2]], 0, atol=1e-30)
        assert moments.variance[1] > 0
        found = Covariance.of(table, weights).matrix
        np.testing.assert_array_equal(found[[0, 2]], 0)
        expected = Covariance.of(X, weights).matrix
        assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("spread", [0, 1e-6, 1.0, 1e6])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.8])
def test_median_distance_of_sparse_rows_is_that_of_dense_ones(spread, share, rng):
    """Far from zero too, where inner products have lost it."""
    X = 6.4 + spread * rng.normal(size=(40, 3))
    X[rng.random(X.shape) < share] = 0
    dense, table = (
        TrigRBFSampler(sigma="median").fit(rows) for rows in (X, sparse.csr_array(X))
    )
    assert_allclose(table.sigma_, dense.sigma_, rtol=1e-14)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_batches_far_from_zero_lose_nothing(convert, rng):
    """Neither the mean nor the spread, and the variance is that of whole numbers."""
    steps = rng.integers(-1000, 1000, size=(60, 2)).astype(float)
    steps[:, 1] = 0
    X = steps - 9984312.67988534
    whole = ColumnMoments.of(convert(X))
    parts = ColumnMoments.of(convert(X[:1]))
    for i in range(1, 60):
        parts += ColumnMoments.of(convert(X[i : i + 1]))
    exact = np.var(X - X[0], axis=0)  # of differences that are exact
    for found in (whole, parts):
        assert_allclose(found.variance, exact, rtol=1e-14, atol=1e-30)
        assert found.mean[1] == X[0, 1]
    assert_allclose(parts.total_variance, whole.total_variance, rtol=1e-14)


def test_phases_of_rows_far_from_zero_are_those_of_one_batch():
    """A rounding of sigma is one of w.x, here of 2e4."""
    X = -9984312.67988534 + 1000.0 * np.array([0, 1, 1, 0, 0, 0, -1, -1])[:, None]
    model = GERFSampler(center=False, n_components=4, random_state=0)
    found = clone(model).partial_fit(X[:3]).partial_fit(X[3:]).transform(X)
    assert_allclose(found, clone(model).fit(X).transform(X), rtol=0, atol=1e-10)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_equal_rows_have_one_centre_in_any_batches(convert):
    X = convert(np.full((8, 1), 21961.0))
    model = GeometricSampler(n_components=1, random_state=0, sigma="median")
    with pytest.warns(UserWarning, match="All rows are equal"):
        whole = clone(model).fit(X)
    with pytest.warns(UserWarning, match="All rows are equal"):
        parts = clone(model).partial_fit(X[:1]).merge(clone(model).partial_fit(X[1:]))
    assert parts.center_ == whole.center_ == 21961
    assert_array_equal(parts.transform(X), whole.transform(X))
