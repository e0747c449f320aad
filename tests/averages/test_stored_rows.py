"""Training rows that are scaled and encoded once, and products that use them."""

import pickle
import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    Prototypes,
)

MODELS = [
    NadarayaWatsonClassifier(sigma=1.0),
    NadarayaWatsonRegressor(kernel="laplacian", sigma=1.0),
    LocalLinearRegressor(sigma=1.0, alpha=0.1),
    LocalLinearClassifier(sigma=1.0, alpha=0.1),
    LocalLinearRegressor(Prototypes(300, random_state=0), sigma=1.0, alpha=0.1),
]


def peak_of(function, *arguments):
    """Return the largest number of bytes that a call allocates."""
    tracemalloc.start()
    function(*arguments)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def size_of_stored(model, X):
    """Return the bytes that a call needs in order to store the rows in another type."""
    return peak_of(model.predict, X[:1].astype(np.float32))


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_rows_are_stored_by_fit_and_not_by_predictions(model, rng):
    X = rng.normal(size=(600 if isinstance(model.kernel, Prototypes) else 3000, 20))
    model.fit(X, np.where(X[:, 0] > 0, 2.0, 1.0))
    size, after_fit = len(pickle.dumps(model)), peak_of(model.predict, X[:1])
    stored = size_of_stored(model, X)
    assert max(after_fit, size_of_stored(model, X)) < 0.5 * stored
    expected = model.predict(X[:9])
    for row, prediction in zip(X[:9], expected, strict=True):
        assert_allclose(model.predict(row[None]), [prediction], rtol=1e-12)
    assert len(pickle.dumps(model)) == size
    again = pickle.loads(pickle.dumps(model))
    assert_allclose(again.predict(X[:9]), expected, rtol=1e-12)


def test_slopes_and_row_weights_use_the_stored_rows(rng):
    X = rng.normal(size=(3000, 20))
    model = LocalLinearRegressor(sigma=1.0, alpha=0.1).fit(X, X[:, 0])
    methods = model.slopes, model.kernel_weights, model.effective_sample_size
    peaks = [peak_of(method, X[:1]) for method in methods]
    assert max(peaks) < 0.5 * size_of_stored(model, X)


@pytest.mark.parametrize(("sigma", "are_most"), [(0.7, True), (2.0, False)])
@pytest.mark.parametrize("weighted", [False, True])
def test_local_fits_of_one_row_are_those_of_many(
    sigma, are_most, weighted, rng, monkeypatch
):
    """Rows are gathered for one query, or multiplied by weights of which some are 0."""
    X, queries = rng.normal(size=(2000, 3)), rng.normal(size=(100, 3))
    weights = rng.exponential(size=2000) if weighted else None
    monkeypatch.setattr("sklearn_crt.averages._local_linear._REMAINDER", 1e-2)
    model = LocalLinearRegressor(sigma=sigma, alpha=0.1)
    model.fit(X, np.sin(X[:, 0]), weights)
    expected = model.predict(queries)
    shares = (model.kernel_weights(queries) != 0).mean(axis=1)
    assert (np.mean((shares > 0.75) & (shares < 1)) > 0.5) == are_most
    for row, prediction in zip(queries, expected, strict=True):
        assert_allclose(model.predict(row[None]), [prediction], rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_kernel_value_is_subnormal(dtype, rng):
    """Computing such values would take up to 40 times as long."""
    X = rng.normal(size=(1000, 3)).astype(dtype)
    near, far = np.repeat(X[:40], 2, axis=0), 30 * X[:40]
    model = NadarayaWatsonRegressor(sigma=9.0).fit(X, np.ones(1000))
    with np.errstate(under="raise"):
        assert_allclose(model.predict(np.vstack([near, far])), 1, rtol=1e-5)


@pytest.mark.parametrize("n_rows", [901, 2001])
def test_rows_with_vanishing_kernel_values_are_not_used(n_rows, rng):
    """Gathering them would take memory."""
    X = rng.uniform(size=(n_rows, 20)) + 100 * np.arange(n_rows)[:, None]
    peaks = []
    for sigma in (1e-6, 1.0):
        model = LocalLinearRegressor(sigma=sigma, alpha=0.1).fit(X, X[:, 0])
        peaks.append(peak_of(model.predict, X[n_rows // 2 :][:1]))  # at the mean
    assert peaks[1] < 0.5 * peaks[0]


def test_rows_added_later_are_stored_too(rng):
    X, y = rng.normal(size=(300, 3)), rng.normal(size=300)
    model = LocalLinearRegressor(sigma=1.0, alpha=0.1).fit(X[:200], y[:200])
    model.predict(X)
    whole = LocalLinearRegressor(sigma=1.0, alpha=0.1).fit(X, y)
    model.partial_fit(X[200:], y[200:])
    assert_allclose(model.predict(X), whole.predict(X), rtol=1e-10)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("distance", [0, 3, 9, 20, 60, 300, 1e4])
@pytest.mark.parametrize("weighted", [False, True])
def test_averages_near_and_far(dtype, distance, weighted, rng):
    """Weights of 1 down to 0, of which the largest decide the average."""
    X, y = rng.normal(size=(2500, 4)), rng.normal(size=2500)
    weights = rng.exponential(size=2500) if weighted else np.ones(2500)
    queries = rng.normal(size=(700, 4))
    queries[::3] += distance  # near and distant queries in one batch
    X, queries = X.astype(dtype), queries.astype(dtype)
    model = NadarayaWatsonRegressor(sigma=1.5).fit(X, y, weights)
    gaps = queries[:, None].astype(float) - X
    logs = -0.5 * 1.5**2 * np.sum(gaps**2, axis=2)
    shares = weights * np.exp(logs - logs.max(axis=1, keepdims=True))
    expected = (shares @ y) / shares.sum(axis=1)
    # a log weight has the rounding error of the squared norms
    size = 1 + np.max(np.sum((1.5 * queries.astype(float)) ** 2, axis=1))
    atol = 8 * np.finfo(dtype).eps * size * np.ptp(y)
    assert_allclose(model.predict(queries), expected, rtol=0, atol=atol)


def test_close_rows_far_from_the_others(rng):
    """Distances much smaller than norms, which products of rows would round away."""
    X = np.concatenate([rng.normal(size=(50, 2)), 1e5 + rng.normal(size=(50, 2))])
    y = rng.normal(size=100)
    model = NadarayaWatsonRegressor(sigma=1.0).fit(X, y)
    kernel = np.exp(-0.5 * np.sum((X[:, None] - X) ** 2, axis=2))
    assert_allclose(model.predict(X), kernel @ y / kernel.sum(axis=1), atol=1e-9)


def test_sparse_rows_are_those_of_dense_ones(rng):
    X = rng.normal(size=(5000, 6)) * (rng.random((5000, 6)) < 0.3)
    y = X[:, 0] + rng.normal(size=5000)
    for model in MODELS[1:3]:
        dense = model.fit(X, y).predict(X[:300])
        table = sparse.csr_array(X)
        assert_allclose(model.fit(table, y).predict(table[:300]), dense, rtol=1e-9)
