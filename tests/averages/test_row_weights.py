"""Which training rows answers rest on, and how many."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn import config_context
from sklearn.datasets import load_iris

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
)


def near(A, B):
    """Return a kernel that ends, so that far rows have no weight."""
    return (cdist(A, B) < 0.5).astype(A.dtype)


KERNELS = (
    {},
    {"kernel": "laplacian"},
    {"kernel": "matern"},
    {"sigma": [0.5, 1, 2]},
    {"kernel": near, "sigma": 1.0},
)


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(300, 3))
    y = np.stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 2]], axis=1)
    return X, y, rng.integers(0, 3, 300).astype(float), rng.normal(size=(40, 3))


@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
@pytest.mark.parametrize("kernel", KERNELS, ids=range(5))
@pytest.mark.parametrize("model", [NadarayaWatsonRegressor, LocalLinearRegressor])
def test_weights_make_the_answers(model, kernel, rows):
    fits = model is LocalLinearRegressor
    X, y, weights, Q = rows
    made = model(**kernel, **({"alpha": 0.01} if fits else {})).fit(X, y, weights)
    with config_context(working_memory=0.025):  # blocks of ten queries
        found = made.kernel_weights(Q)
    assert found.shape == (40, 300)  # rows of weight 0 too
    assert not found[:, weights == 0].nnz
    assert_allclose(found.sum(axis=1), 1, atol=1e-12)
    assert_allclose(found @ y, made.predict(Q), atol=1e-10)
    assert (found.data.min() < 0) == fits


def test_blocks_of_queries_respect_the_working_memory_of_scikit_learn(rows):
    sizes = []

    def counted(A, B):
        sizes.append(len(A))
        return near(A, B)

    X, y, _, Q = rows
    model = NadarayaWatsonRegressor(counted, sigma=1.0).fit(X, y)
    sizes.clear()
    with config_context(working_memory=8 * 300 * 12 / 2**20):
        model.kernel_weights(Q)
    assert sizes == [12, 12, 12, 4]


@pytest.mark.parametrize("model", [NadarayaWatsonClassifier, LocalLinearClassifier])
def test_weights_make_the_probabilities(frequencies_of, model):
    X, y = load_iris(return_X_y=True)
    made = model().fit(X[::2], y[::2])
    found = made.kernel_weights(X[1::2]) @ np.eye(3)[y[::2]]
    found /= np.maximum(found, 0).sum(axis=1, keepdims=True)
    assert_allclose(found, frequencies_of(made, X[1::2]), atol=1e-10)


@pytest.mark.parametrize("sparse_rows", [False, True])
def test_batches_and_merged_rows_keep_their_columns(sparse_rows, rows):
    X, y, weights, Q = rows
    table = sparse.csr_array(X) if sparse_rows else X
    parts = slice(0, 100), slice(100, 180), slice(180, 300)
    whole = NadarayaWatsonRegressor(sigma=1.5).fit(table, y, weights)
    models = [NadarayaWatsonRegressor(sigma=1.5) for _ in range(2)]
    for model, part in zip((models[0], models[0], models[1]), parts, strict=True):
        model.partial_fit(table[part], y[part], weights[part])
    merged = models[0].merge(models[1])
    expected = whole.kernel_weights(Q)
    assert_allclose(merged.kernel_weights(Q).toarray(), expected.toarray(), atol=1e-12)
    again = merged.fit(table, y, weights)  # starts anew
    assert_allclose(again.kernel_weights(Q).toarray(), expected.toarray(), atol=1e-12)


def test_the_largest_weights(rows):
    X, y, _, Q = rows
    model = NadarayaWatsonRegressor().fit(X, y)
    whole = model.kernel_weights(Q).toarray()
    few = model.kernel_weights(Q, n_largest=5).toarray()
    assert_array_equal(np.count_nonzero(few, axis=1), 5)
    assert_array_equal(few[few > 0], whole[few > 0])
    assert_array_equal(np.sort(few, axis=1)[:, -5:], np.sort(whole, axis=1)[:, -5:])
    assert model.kernel_weights(Q, n_largest=10**6).nnz > 5 * len(Q)
    for wrong, kind in ((0, ValueError), (2.5, TypeError)):
        with pytest.raises(kind, match="n_largest"):
            model.kernel_weights(Q, n_largest=wrong)


def test_prototypes_count_for_their_rows(rows, value_of):
    X, y, weights, Q = rows
    model = NadarayaWatsonRegressor(Prototypes(30, random_state=0)).fit(X, y, weights)
    found = model.kernel_weights(Q)
    assert found.shape == (40, 30)
    ((_, targets, *_),) = value_of(model).solution.parts
    assert_allclose(found @ targets, model.predict(Q), atol=1e-10)
    wide = NadarayaWatsonRegressor(Prototypes(30, random_state=0), sigma=1e-6)
    assert_allclose(wide.fit(X, y, weights).effective_sample_size(Q), weights.sum())


def test_effective_sample_size_are_the_perplexity(rows):
    X, y, weights, Q = rows
    model = NadarayaWatsonRegressor(sigma=1.5).fit(X, y)
    shares = model.kernel_weights(Q).toarray()
    logs = np.log(np.where(shares > 0, shares, 1))
    assert_allclose(
        model.effective_sample_size(Q), np.exp(-(shares * logs).sum(axis=1))
    )
    copies = np.repeat(np.arange(300), weights.astype(int))
    found = model.fit(X, y, weights).effective_sample_size(Q)
    assert_allclose(found, model.fit(X[copies], y[copies]).effective_sample_size(Q))
    assert_allclose(model.effective_sample_size(Q + 1e4), 1)


def test_where_no_row_has_a_weight(rows):
    X, y, weights, Q = rows
    model = NadarayaWatsonRegressor(near, sigma=1.0).fit(X, y, weights)
    far = Q + 100
    expected = np.tile(weights / weights.sum(), (40, 1))
    assert_allclose(model.kernel_weights(far).toarray(), expected)
    assert_allclose(model.effective_sample_size(far), weights.sum())


@pytest.mark.parametrize("method", ["kernel_weights", "effective_sample_size"])
def test_sums_cannot_tell_rows(method, rows):
    X, y, *_ = rows
    for kernel in (OPRFSampler(random_state=0), "linear"):
        model = NadarayaWatsonRegressor(kernel).fit(0.1 * X, y)
        assert not hasattr(model, method)
        with pytest.raises(AttributeError, match="has no attribute") as caught:
            getattr(model, method)
        assert "only sums over the training rows are stored" in str(
            caught.value.__cause__
        )


def test_single_precision_comes_back(rows):
    X, y, _, Q = rows
    for model in (NadarayaWatsonRegressor(), LocalLinearRegressor()):
        model.fit(X.astype(np.float32), y)
        few = Q.astype(np.float32)
        assert model.kernel_weights(few).dtype == np.float32
        assert model.effective_sample_size(few).dtype == np.float32
        assert_allclose(model.kernel_weights(few).sum(axis=1), 1, atol=1e-6)


def test_weights_are_held_in_blocks(rng):
    """All of them would take 40 MB."""
    X = rng.normal(size=(5000, 2))
    model = NadarayaWatsonRegressor(sigma=1.0).fit(X, X[:, 0])
    tracemalloc.start()
    with config_context(working_memory=4):
        model.kernel_weights(X[:1000], n_largest=3)
        model.predict_quantiles(X[:1000], 0.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 30e6  # seven arrays of the size of a block


def test_effective_sample_size_where_a_weight_is_the_smallest_number():
    """Divided by the sample weight it would vanish, and have no logarithm."""
    X = np.r_[0.0, np.linspace(38, 39, 300)][:, None]
    weights = np.r_[1000.0, np.full(300, 4.0)]
    model = NadarayaWatsonRegressor(sigma=1.0).fit(X, X[:, 0], weights)
    assert_allclose(model.effective_sample_size([[0.0]]), 1000)
