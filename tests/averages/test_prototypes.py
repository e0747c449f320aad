"""Prototypes: the exact estimator on few points, in batches and in parts."""

import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import train_test_split

from sklearn_crt import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
)
from sklearn_crt.rows import clustering

OCTAVES = 2.0 ** np.arange(-3, 6)  # of "scale", as the reference says
QUARTERS = 2.0 ** np.arange(-0.75, 1, 0.25)
MODELS = NadarayaWatsonClassifier, NadarayaWatsonRegressor
SLOW = pytest.mark.slow


def table(rng, n=600, d=3):
    X = rng.normal(size=(n, d))
    y = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 0.5)
    return X, y


def classes_of_prototypes(weights, n_prototypes):
    """Return the class of each prototype: shares of the weights, largest remainder."""
    quota = n_prototypes * weights / weights.sum()
    counts = np.floor(quota).astype(int)
    largest = np.argsort(counts - quota)[: n_prototypes - counts.sum()]
    counts[largest] += 1
    return np.repeat(np.arange(len(weights)), counts)


@pytest.fixture
def probabilities(frequencies_of):
    """Return a function that returns frequencies of the classes, or numbers."""
    return lambda model, X: (
        frequencies_of(model, X)
        if hasattr(model, "predict_proba")
        else model.predict(X)
    )


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kernel", ["gaussian", "matern", laplacian_kernel])
@pytest.mark.parametrize("sigma", ["auto", "scale", 2.0])
def test_as_many_as_rows_is_the_exact_estimator(
    model, kernel, sigma, rng, probabilities
):
    X, y = table(rng, 90)
    X = np.vstack([X, X[:10]])  # rows that come twice
    y, weights = np.r_[y, y[:10]], rng.exponential(size=100)
    options = {"kernel": kernel, "sigma": sigma}
    exact = model(**options).fit(X, y, weights)
    few = model(Prototypes(100, kernel=kernel), sigma=sigma).fit(X, y, weights)
    multiples = few.sigma_ / exact.sigma_
    if sigma == "auto":  # the path of prototypes has four smaller ones
        assert_allclose(multiples, 1)
    assert_allclose(probabilities(few, X + 0.1), probabilities(exact, X + 0.1))


def test_definition(rng, frequencies_of):
    """The kernel at the means of the rows of each prototype, times their weights."""
    X, y = table(rng)
    weights = rng.exponential(size=len(y))
    sigma = np.array([1.0, 2.0, 0.5])
    model = NadarayaWatsonClassifier(
        Prototypes(n_prototypes=20, random_state=0), sigma=sigma
    ).fit(X, y, weights)
    points = model.kernel_.prototypes_
    assert points.shape == (20, 3)
    codes = classes_of_prototypes(np.bincount(y, weights), 20)
    assert_allclose(
        np.bincount(codes, points.weights), np.bincount(y, weights), rtol=1e-12
    )
    for code in range(3):  # weighted means of the classes do not change
        own, rows = codes == code, y == code
        assert_allclose(
            np.average(points.points[own], axis=0, weights=points.weights[own]),
            np.average(X[rows], axis=0, weights=weights[rows]),
            atol=1e-12,
        )
    gaps = (X[:50, None] - points.points) * sigma
    kernel = points.weights * np.exp(-0.5 * np.sum(gaps**2, axis=-1))
    expected = kernel @ np.eye(3)[codes] / kernel.sum(axis=1, keepdims=True)
    assert_allclose(frequencies_of(model, X[:50]), expected)


def test_better_than_features_at_equal_numbers():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    few = NadarayaWatsonClassifier(Prototypes(128, random_state=0))
    assert few.fit(X_train, y_train).score(X_test, y_test) > 0.95
    features = [
        NadarayaWatsonClassifier(
            OPRFSampler(sigma=sigma, n_components=128, random_state=0)
        )
        for sigma in np.array([0.25, 0.5, 1, 2]) * few.sigma_
    ]
    scores = [m.fit(X_train, y_train).score(X_test, y_test) for m in features]
    assert max(scores) < 0.9


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sigma", ["auto", 1.5])
def test_batches_and_parts_are_fit(model, sigma, rng, probabilities):
    X, y = table(rng)
    options = {"n_prototypes": 30, "random_state": 0}
    whole = model(Prototypes(**options), sigma=sigma).fit(X, y)
    classes = {"classes": np.unique(y)} if model is NadarayaWatsonClassifier else {}
    batches = model(Prototypes(**options), sigma=sigma)
    for start in range(0, 600, 200):
        rows = slice(start, start + 200)
        batches.partial_fit(X[rows], y[rows], **(classes if start == 0 else {}))
    parts = [model(Prototypes(**options), sigma=sigma) for _ in range(2)]
    for part, rows in zip(parts, (slice(250), slice(250, 600)), strict=True):
        part.partial_fit(X[rows], y[rows], **classes)
    for found in (batches, batches.freeze(), parts[0].merge(parts[1])):
        assert_allclose(probabilities(found, X), probabilities(whole, X), rtol=1e-6)
        assert_allclose(found.sigma_, whole.sigma_)


def integer_rows(rng, n):
    """Return rows of which many are equal, or at equal distances from others."""
    return np.round(rng.normal(size=(n, 3)))


def real_rows(rng, n):
    """Return rows of which no two are equal."""
    return rng.normal(size=(n, 3))


def repeated_rows(rng, n):
    """Return copies of few rows."""
    return rng.normal(size=(n // 5 + 1, 3))[rng.integers(n // 5 + 1, size=n)]


def in_batches(model, parts, classes):
    """Return the model after ``partial_fit`` of each part."""
    for k, (X, y, weights) in enumerate(parts):
        first = classes if k == 0 else {}
        model.partial_fit(X, y, sample_weight=weights, **first)
    return model


@pytest.mark.each_value
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sigma", ["scale", 1.0])
@pytest.mark.parametrize("rows", [integer_rows, real_rows, repeated_rows])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_tables", [3, pytest.param(8, marks=SLOW)])
def test_batches_and_merged_parts_have_the_points_of_one_fit(
    model, sigma, rows, kind, n_tables, probabilities
):
    """Neither does the unit of the weights change them."""
    options = {"n_prototypes": 16, "random_state": 0}
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(10, 250))
        X, counts = rows(rng, n), rng.integers(1, 4, size=n)
        y = np.round(np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=n), 1)
        if model is NadarayaWatsonClassifier:
            y = (y > 0).astype(int)
            y[:2] = 0, 1
        classes = {"classes": [0, 1]} if model is NadarayaWatsonClassifier else {}
        half = n // 2
        new = partial(clone, model(Prototypes(**options), sigma=sigma))
        whole, X = new().fit(X, y, counts.astype(float)), kind(X)
        parts = [(X[i], y[i], counts[i]) for i in np.array_split(np.arange(n), 3)]
        halves = [(X[i], y[i], counts[i]) for i in (slice(half), slice(half, None))]
        others = [
            new().fit(X, y, 0.1 * counts),
            in_batches(new(), parts, classes),
            in_batches(new(), halves[:1], classes).merge(
                in_batches(new(), halves[1:], classes)
            ),
        ]
        expected = whole.kernel_.prototypes_
        shares = expected.weights / expected.weights.sum()
        queries = rng.normal(size=(20, 3))
        for other in others:
            found = other.kernel_.prototypes_
            assert_allclose(other.sigma_, whole.sigma_)
            assert_allclose(found.points, expected.points, atol=1e-12)
            assert_allclose(found.weights / found.weights.sum(), shares)
            assert_allclose(
                probabilities(other, queries),
                probabilities(whole, queries),
                atol=1e-9,
            )


@pytest.mark.parametrize("rows", [integer_rows, real_rows])
def test_batches_of_large_tables_have_the_points_of_one_fit(rows, monkeypatch, rng):
    """Where k-means finds them on a sample of the rows, and then on all."""
    monkeypatch.setattr(clustering, "MOST_DISTANCES", 3000)
    X, order = rows(rng, 1500), np.arange(1500)
    y = np.sin(2 * X[:, 0])
    model = NadarayaWatsonRegressor(Prototypes(40, random_state=0), sigma=1.0)
    whole = clone(model).fit(X, y)
    points = whole.kernel_.prototypes_
    parts = [(X[i], y[i], None) for i in np.array_split(order, 4)]
    found = in_batches(clone(model), parts, {}).kernel_.prototypes_
    assert_allclose(found.points, points.points, atol=1e-12)
    assert_array_equal(found.weights, points.weights)
    monkeypatch.undo()
    small = clone(model).fit(X, y).kernel_.prototypes_
    costs = [
        np.sum((X[:, None] - few.points) ** 2, axis=2).min(axis=1).mean()
        for few in (points, small)
    ]
    assert costs[0] < 1.2 * costs[1]


def test_rows_that_come_twice_are_one_point(rng, frequencies_of):
    """With as many points as distinct rows the kernel is the exact one."""
    X, y = table(rng, 60)
    counts = rng.integers(1, 5, size=60)
    copies = np.repeat(np.arange(60), counts)
    exact = NadarayaWatsonClassifier(sigma=2.0).fit(X, y, counts)
    few = NadarayaWatsonClassifier(Prototypes(n_prototypes=60), sigma=2.0)
    few.fit(X[copies], y[copies])
    points = few.kernel_.prototypes_
    order = np.lexsort(points.points.T)
    expected = np.lexsort(X.T)
    assert_array_equal(points.points[order], X[expected])
    assert_array_equal(points.weights[order], counts[expected])
    assert_allclose(frequencies_of(few, X), frequencies_of(exact, X))


@pytest.mark.each_value
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sigma", ["auto", "median"])
def test_a_long_stream_stays_small(model, sigma, rng, kept_entries):
    """Beyond a number of entries, four million or here fewer, points stand for rows."""
    kept_entries(6990 * 60)
    X = 0.1 * rng.normal(size=(9000, 60)).astype(np.float32)
    X[:, 0] += 4 * rng.integers(0, 3, size=9000)
    y = np.rint(X[:, 0] / 4).astype(int)
    X, X_test, y, y_test = X[:8000], X[8000:], y[:8000], y[8000:]
    options = {"n_prototypes": 6, "random_state": 0}
    stream, sizes = model(Prototypes(**options), sigma=sigma), []
    classes = {"classes": [0, 1, 2]} if model is NadarayaWatsonClassifier else {}
    for rows in np.split(np.arange(16_000) % 8000, 16):
        stream.partial_fit(X[rows], y[rows], **({} if sizes else classes))
        n_bytes = X[rows].nbytes + 2 * y[rows].nbytes  # with targets and weights
        sizes.append(len(pickle.dumps(stream)) / n_bytes)
    kept = 2.1 if sigma == "auto" else 0  # rows to choose a factor with
    kept += 1.1 if sigma == "median" else 0  # rows whose distances are taken
    assert sizes[5] > 6
    # 6990 rows, and fewer than a quarter of them that are not merged yet
    assert max(sizes) < kept + 6.99 * 1.25 + 0.1
    stream.freeze()
    assert len(pickle.dumps(stream)) < 0.1 * X[:1000].nbytes
    whole = model(Prototypes(**options), sigma=sigma).fit(X, y)
    for found in (whole, stream):
        assert found.kernel_.prototypes_.shape == (6, 60)
        n_rows = 8000 if found is whole else 16_000
        assert found.kernel_.prototypes_.weights.sum() == pytest.approx(n_rows)
        least = 0.5 if sigma == "median" else 0.9  # which is wide
        assert found.score(X_test, y_test) > least


@pytest.mark.each_value
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "model", [*MODELS, partial(LocalLinearRegressor, alpha=0.1)], ids=str
)
@pytest.mark.parametrize("sigma", ["auto", 1.0])
def test_batches_of_a_long_stream_do_not_count(
    kind, model, sigma, few_rows_at_a_time, rng
):
    """Rows in the same order have the same points, whatever the batches."""
    X, y = table(rng, 2500)
    X = kind(X)
    classes = {"classes": [0, 1, 2]} if model is NadarayaWatsonClassifier else {}
    new = partial(model, Prototypes(16, random_state=0), sigma=sigma)
    whole = new().fit(X, y)
    expected, points = whole.predict(X), whole.kernel_.prototypes_
    assert points.weights.sum() == pytest.approx(2500)
    for size in (170, 1100):
        parts = [
            (X[start : start + size], y[start : start + size], None)
            for start in range(0, 2500, size)
        ]
        found = in_batches(new(), parts, classes)
        assert_allclose(found.sigma_, whole.sigma_)
        assert_allclose(found.kernel_.prototypes_.points, points.points, atol=1e-9)
        assert_allclose(found.predict(X), expected, atol=1e-9)


@pytest.mark.parametrize("model", [NadarayaWatsonRegressor, LocalLinearRegressor])
def test_no_call_merges_many_rows(model, few_rows_at_a_time, rng):
    """A call of 250 rows merges about twice as many, never all that were stored."""
    X, y = table(rng, 6000)
    stream, calls = model(Prototypes(16, random_state=0), sigma=1.0), few_rows_at_a_time
    for start in range(0, 6000, 250):
        calls.clear()
        stream.partial_fit(X[start : start + 250], y[start : start + 250])
        assert sum(calls) <= 3 * 250
        assert bool(calls) == (start >= 2500) or 2000 <= start < 2500


def test_parts_that_were_fitted_merge(rng):
    X, y = table(rng, 2000)
    X_test, y_test = table(rng, 1000)
    options = {"n_prototypes": 60, "random_state": 0}
    whole = NadarayaWatsonClassifier(Prototypes(**options), sigma=3.0).fit(X, y)
    parts = [
        NadarayaWatsonClassifier(Prototypes(**options), sigma=3.0).fit(X[k::4], y[k::4])
        for k in range(4)
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part)
    assert merged.kernel_.prototypes_.shape == (60, 3)
    assert merged.kernel_.prototypes_.weights.sum() == pytest.approx(2000)
    assert_array_equal(merged.class_count_, whole.class_count_)
    gap = whole.score(X_test, y_test) - merged.score(X_test, y_test)
    assert abs(gap) < 0.05


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(i, marks=SLOW) for i in (2, 3, 4))]
)
def test_sigma_is_that_of_rows_left_out(seed):
    """Predictions of each row by prototypes without it, done one by one."""
    X, y = table(np.random.default_rng(seed), 80)
    model = NadarayaWatsonClassifier(Prototypes(n_prototypes=12, random_state=0)).fit(
        X, y
    )
    points = model.kernel_.prototypes_
    codes = classes_of_prototypes(np.bincount(y), 12)
    gaps = X[:, None] - points.points
    squares = np.where(y[:, None] == codes, np.sum(gaps**2, axis=-1), np.inf)
    own = np.argmin(squares, axis=1)
    assert_array_equal(np.bincount(own), points.weights)
    scale = NadarayaWatsonClassifier(sigma="scale").fit(X, y).sigma_

    def error(sigma):
        total = 0.0
        for i in range(80):
            centers, weights = points.points.copy(), points.weights.copy()
            k = own[i]
            weights[k] -= 1
            if weights[k]:
                centers[k] = (centers[k] * (weights[k] + 1) - X[i]) / weights[k]
            D = sigma**2 * np.sum((X[i] - centers) ** 2, axis=1)
            with np.errstate(divide="ignore"):
                logs = np.log(weights) - 0.5 * D
            shares = np.exp(logs - logsumexp(logs)) @ np.eye(3)[codes]
            # effective number of rows behind the prediction, and a smoothed log loss
            sums = np.exp(2 * logsumexp(logs) - logsumexp(logs - 0.5 * D))
            n_rows = sums * 80 / np.sum(points.weights**2)
            own_share = (n_rows * shares[y[i]] + 0.1) / (n_rows + 0.3)
            total += (np.argmax(shares) != y[i]) - 0.5 * np.log(own_share)
        return total

    octave = min(scale * OCTAVES, key=error)
    assert_allclose(model.sigma_, min(octave * QUARTERS, key=error))


def test_sparse_and_single_precision(rng):
    X = rng.random((300, 6)) * (rng.random((300, 6)) < 0.5)
    y = (X[:, 0] > X[:, 1]).astype(int)
    options = {"n_prototypes": 20, "random_state": 0}
    dense = NadarayaWatsonClassifier(Prototypes(**options), sigma=2.0).fit(X, y)
    expected = dense.predict_proba(X)
    assert expected.dtype == np.float64
    for kind in (sparse.csr_array, sparse.csr_matrix):
        model = NadarayaWatsonClassifier(Prototypes(**options), sigma=2.0).fit(
            kind(X), y
        )
        assert model.kernel_.prototypes_.weights.sum() == 300
        for rows in (kind(X), X):
            assert model.predict_proba(rows).shape == expected.shape
        assert_allclose(model.predict_proba(kind(X)), model.predict_proba(X))
        model = NadarayaWatsonClassifier(Prototypes(n_prototypes=300), sigma="auto")
        assert model.fit(kind(X), y).score(X, y) > 0.8
    single = NadarayaWatsonClassifier(Prototypes(**options), sigma=2.0)
    found = single.fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    assert found.dtype == np.float32
    assert single.kernel_.prototypes_.points.dtype == np.float32
    assert np.mean(np.abs(found - expected)) < 0.05


@pytest.mark.parametrize("sigma", [1e-2, 1.0, 1e2])
def test_log_space(sigma, rng):
    X, y = table(rng, 400, 50)
    model = NadarayaWatsonClassifier(Prototypes(n_prototypes=10), sigma=sigma).fit(X, y)
    for rows in (X, X.astype(np.float32), 1e3 * X):
        assert_allclose(model.predict_proba(rows).sum(axis=1), 1, rtol=1e-5)


def test_several_outputs(rng):
    X, _ = table(rng, 1000)
    y = np.stack([np.sin(2 * X[:, 0]), 1e3 + 100 * X[:, 1]], axis=1)
    model = NadarayaWatsonRegressor(Prototypes(n_prototypes=100, random_state=0))
    assert model.fit(X[:800], y[:800]).score(X[800:], y[800:]) > 0.7
    one = NadarayaWatsonRegressor(Prototypes(n_prototypes=100, random_state=0))
    assert one.fit(X[:800], y[:800, 0]).score(X[800:], y[800:, 0]) > 0.6


def test_rows_all_alike():
    X, y = np.ones((50, 2)), np.arange(50) % 2
    model = NadarayaWatsonClassifier(Prototypes(n_prototypes=4)).fit(X, y)
    assert model.kernel_.prototypes_.shape == (2, 2)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]])


def prototypes_of_classes(sizes, n_prototypes, weights=None):
    """Return how many prototypes stand for each of some classes, far apart."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(y.size, 2)) + 100 * y[:, None]
    options = {"n_prototypes": n_prototypes, "random_state": 0}
    model = NadarayaWatsonClassifier(Prototypes(**options), sigma=1.0)
    sample_weight = None if weights is None else (weights / sizes)[y]
    points = model.fit(X, y, sample_weight).kernel_.prototypes_.points
    return np.bincount(np.rint(points[:, 0] / 100).astype(int))


def test_shares_of_points():
    assert_array_equal(prototypes_of_classes([50, 30, 20], 10), [5, 3, 2])
    assert_array_equal(prototypes_of_classes([100, 5, 1], 8), [6, 1, 1])
    assert_array_equal(prototypes_of_classes([3, 3, 3], 2), [1, 1, 1])
    weights = np.random.default_rng(0).pareto(1.0, size=20)
    counts = prototypes_of_classes(np.full(20, 100), 100, weights)
    assert counts.sum() == 100
    quota = 100 * weights / weights.sum()
    large = quota > 1
    assert np.all(counts[~large] == 1)
    assert np.all(np.abs(counts - quota)[large] <= np.sum(~large))


def means_of_targets(y, n_prototypes, sample_weight=None):
    """Return means of the targets behind prototypes, and their weights.

    The targets are columns of the rows, too small to matter for what is near.
    """
    y = np.asarray(y, dtype=float).reshape(len(y), -1)
    X = np.hstack([np.random.default_rng(0).normal(size=(len(y), 2)), 1e-9 * y])
    options = {"n_prototypes": n_prototypes, "random_state": 0}
    model = NadarayaWatsonRegressor(Prototypes(**options), sigma=1.0)
    points = model.fit(X, y, sample_weight).kernel_.prototypes_
    return points.points[:, 2:] * 1e9, points.weights


def test_bins_of_numbers(rng):
    """Eight bins of equal weight, with prototypes of their own."""
    y, weights = rng.exponential(size=4000), rng.exponential(size=4000)
    means, of_points = means_of_targets(y, 128, weights)
    order = np.argsort(y)
    levels = np.cumsum(weights[order]) / weights.sum()
    edges = y[order][np.searchsorted(levels, np.arange(1, 8) / 8)]
    bins = np.searchsorted(edges, means[:, 0])
    shares = np.bincount(bins, of_points) / weights.sum()
    assert_allclose(shares, 1 / 8, atol=2e-3)
    y = rng.integers(0, 3, size=200)
    for targets in (y, np.stack([y, -y], axis=1)):
        means, _ = means_of_targets(targets, 60)
        assert_allclose(means, np.rint(means), atol=1e-6)  # equal targets are together
    means, _ = means_of_targets(y, 4)  # too few for bins
    # the mean of mixed targets is an integer only by chance
    assert np.count_nonzero(np.abs(means - np.rint(means)) > 1e-3) >= 3


def test_only_prototypes_have_prototypes(iris):
    X, y = iris
    assert not hasattr(NadarayaWatsonClassifier().fit(X, y).kernel_, "prototypes_")
    model = NadarayaWatsonClassifier(Prototypes(n_prototypes=5))
    loss = log_loss(y, model.fit(X, y).predict_proba(X))
    assert loss < log_loss(y, np.full((150, 3), 1 / 3)) / 2
