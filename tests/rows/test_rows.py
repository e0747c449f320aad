"""Rows of every kind of table, centred and scaled, through samplers."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from sklearn_crt import (
    CentersRBFSampler,
    DERFSampler,
    NadarayaWatsonClassifier,
    OPRFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.samplers import (
    AnchoredRBFSampler,
    GERFSampler,
    LaplacianSampler,
    PoissonSampler,
    PositiveRBFSampler,
)

SAMPLERS = [
    TrigRBFSampler(sigma=[1.0, 2.0, 0.5, 3.0]),
    OPRFSampler(sigma=[1.0, 2.0, 0.5, 3.0]),
    OPRFSampler(coupling="antithetic", center=False),
    OPRFSampler(coupling="structured-orthogonal"),
    GERFSampler(sigma=0.1),
    PoissonSampler(),
    PoissonSampler(positive=True),
    LaplacianSampler(norm="l1"),
    CentersRBFSampler(n_components=7, sigma=1.0),
]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS, ids=str)


@pytest.fixture
def X(rng):
    X = rng.normal(size=(30, 4)) * rng.integers(0, 2, size=(30, 4))
    X[3], X[:, 2] = 0, 0  # an empty row, an empty column
    return X


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 3), (70, 3), (3001, 3), (2999, 1), (2050, 17)])
def test_rows_of_any_shape(shape, dtype, order, rng):
    """Features by hand: narrow rows are taken several at a time, the last few alone."""
    X = np.asarray(rng.normal(size=shape), dtype, order)
    before, d = X.copy(), shape[1]
    for sigma in (0.3, rng.uniform(0.1, 0.4, size=d)):
        for center in (False, True):
            options = {"sigma": sigma, "center": center, "n_components": 9}
            fitted = PositiveRBFSampler(random_state=0, **options).fit(X)
            x = sigma * (X.astype(float) - fitted.center_)
            W = fitted.frequencies_.astype(float)
            expected = np.exp(x @ W - np.sum(x**2, axis=1, keepdims=True)) / 3
            rtol = 1e-4 if dtype == np.float32 else 1e-10
            assert_allclose(fitted.transform(X), expected, rtol=rtol)
    assert_array_equal(X, before)


# -------------------------------------------------------------------- sparse tables
def with_duplicates(X, dtype=np.float64):
    """Return the table with each number as a sum of two entries, out of order."""
    i, j = np.nonzero(X)
    order = np.argsort(-j, kind="stable")
    order = order[np.argsort(i[order], kind="stable")]
    i, j = (np.repeat(index[order], 2) for index in (i, j))
    values = np.repeat(X[i[::2], j[::2]], 2) * np.tile([3.0, -2.0], i.size // 2)
    indptr = np.searchsorted(i, np.arange(len(X) + 1))
    parts = values.astype(dtype), j.astype(np.int32), indptr.astype(np.int32)
    return sparse.csr_array(parts, shape=X.shape)


@every_sampler
def test_entries_of_one_place_are_summed(sampler, X):
    table = with_duplicates(X)
    assert_allclose(table.toarray(), X)
    assert not table.has_canonical_format
    data = table.data.copy()
    fitted = sampler.set_params(random_state=0).fit(X)
    found, expected = fitted.transform(table), fitted.transform(X)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert_array_equal(table.data, data)  # that of the caller


@pytest.mark.parametrize(
    "sampler",
    [
        OPRFSampler(),
        DERFSampler(sigma="median"),
        PoissonSampler(sigma=0.5, center=False),
        CentersRBFSampler(n_components=30, whiten=False),
    ],
    ids=str,
)
def test_entries_of_one_place_are_summed_by_fit_too(sampler, X):
    table, sampler = with_duplicates(X), sampler.set_params(random_state=0)
    data, indices = table.data.copy(), table.indices.copy()
    expected = sampler.fit(sparse.csr_array(X)).transform(X)
    found = sampler.fit(table)
    assert_allclose(found.transform(X), expected, rtol=1e-9, atol=1e-12)
    assert_array_equal(table.data, data)  # that of the caller
    assert_array_equal(table.indices, indices)


def with_long_indices(X):
    """Return a sparse table with indices of 64 bits."""
    table = sparse.csr_array(X)
    index = (part.astype(np.int64) for part in (table.indices, table.indptr))
    return sparse.csr_array((table.data, *index), shape=X.shape)


LONG = [
    CentersRBFSampler(n_components=7, whiten=False),
    OPRFSampler(sigma="median"),
    AnchoredRBFSampler(sigma="median"),
    LaplacianSampler(norm="l1"),
]


@pytest.mark.parametrize("sampler", LONG, ids=str)
def test_indices_may_be_long(sampler, X):
    table, sampler = with_long_indices(X), sampler.set_params(random_state=0)
    assert table.indices.dtype == np.int64
    expected = sampler.fit(sparse.csr_array(X)).transform(X)
    assert_allclose(sampler.fit(table).transform(table), expected, rtol=1e-9)
    assert table.indices.dtype == np.int64  # that of the caller


def test_indices_of_rows_that_become_prototypes_may_be_long(X):
    table, y = with_long_indices(X), X[:, 0] > 0
    model = NadarayaWatsonClassifier(Prototypes(6, random_state=0))
    expected = model.fit(sparse.csr_array(X), y).predict_proba(X)
    assert_allclose(model.fit(table, y).predict_proba(table), expected, rtol=1e-9)


@every_sampler
def test_stored_zeros_are_zeros(sampler, X):
    table = sparse.csr_array(np.where(X == 0, 7.0, X))
    table.data[table.data == 7.0] = 0
    fitted = sampler.set_params(random_state=0).fit(X)
    expected = fitted.transform(sparse.csr_array(X))
    assert_allclose(fitted.transform(table), expected, rtol=1e-9, atol=1e-12)


@every_sampler
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.filterwarnings("ignore:Half or more of the features")
def test_empty_rows_and_columns(sampler, dtype, X):
    X = X.astype(dtype)
    tolerance = 1e-3 if dtype == np.float32 else 1e-9
    fitted = sampler.set_params(random_state=0).fit(X)
    for rows in (X, X[:1], X[3:4]):
        found, expected = (
            fitted.transform(sparse.csr_array(rows)),
            fitted.transform(rows),
        )
        assert found.dtype == expected.dtype == dtype
        assert_allclose(found, expected, rtol=tolerance, atol=1e-2 * tolerance)


@pytest.mark.parametrize("coupling", ["orthogonal", "structured-orthogonal"])
def test_each_centre_of_sparse_rows_has_its_own_products(coupling, X):
    """Maps of several sigmas share frequencies, but not what is subtracted."""
    table, options = sparse.csr_array(X), {"coupling": coupling, "random_state": 0}
    one = OPRFSampler(sigma=0.5, **options).fit(table)
    other = one.with_sigma(2.0)
    expected = [
        OPRFSampler(sigma=sigma, **options).fit(X).transform(X) for sigma in (0.5, 2.0)
    ]
    for _ in range(2):
        for sampler, features in zip((one, other), expected, strict=True):
            assert_allclose(sampler.transform(table), features, rtol=1e-9)


def test_wide_sparse_rows_are_not_written_out_together(rng):
    """All of them would take 120 MB."""
    n, d, each = 1500, 10_000, 5
    places = rng.integers(d, size=(n, each))
    parts = rng.normal(size=n * each), places.ravel(), np.arange(n + 1) * each
    table = sparse.csr_array(parts, shape=(n, d))
    table.sum_duplicates()
    sampler = TrigRBFSampler(sigma=1.0, n_components=64, coupling="iid")
    tracemalloc.start()
    try:
        features = sampler.fit(table).transform(table)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30e6  # the frequencies take 3
    expected = np.cos(table @ sampler.frequencies_) / np.sqrt(32)
    assert_allclose(features[:, :32], expected, atol=1e-10)
