"""Prototypes: the exact estimator on few points, in batches and in parts."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.special import logsumexp, softmax
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import laplacian_kernel
from sklearn.model_selection import train_test_split

from sklearn_crt import NadarayaWatsonClassifier, NadarayaWatsonRegressor, OPRFSampler

MULTIPLES = 2.0 ** np.arange(-3, 6, 0.5)  # of "scale", as the reference says
MODELS = NadarayaWatsonClassifier, NadarayaWatsonRegressor


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


def probabilities(model, X):
    return getattr(model, "predict_proba", model.predict)(X)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("kernel", ["gaussian", "matern", laplacian_kernel])
@pytest.mark.parametrize("sigma", ["auto", "scale", 2.0])
def test_as_many_as_rows_is_the_exact_estimator(model, kernel, sigma, rng):
    X, y = table(rng, 90)
    X = np.vstack([X, X[:10]])  # rows that come twice
    y, weights = np.r_[y, y[:10]], rng.exponential(size=100)
    options = {"kernel": kernel, "sigma": sigma}
    exact = model("exact", **options).fit(X, y, weights)
    few = model("prototypes", n_prototypes=100, **options).fit(X, y, weights)
    multiples = few.sigma_ / exact.sigma_
    if sigma == "auto":  # the path of prototypes has four smaller ones
        assert_allclose(multiples, 1)
    assert_allclose(probabilities(few, X + 0.1), probabilities(exact, X + 0.1))


def test_definition(rng):
    """The kernel at the means of the rows of each prototype, times their weights."""
    X, y = table(rng)
    weights = rng.exponential(size=len(y))
    sigma = np.array([1.0, 2.0, 0.5])
    model = NadarayaWatsonClassifier(
        "prototypes", n_prototypes=20, sigma=sigma, random_state=0
    ).fit(X, y, weights)
    points = model.prototypes_
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
    assert_allclose(model.predict_proba(X[:50]), expected)


def test_clouds_are_averages_over_gaussians(rng):
    """Numbers of the design, and the definition by Monte Carlo."""
    X = np.array([[0, 0], [0.4, 0], [2, 1], [2.2, 1.4]])
    y, query = np.array([0, 0, 1, 1]), np.array([[1.0, 0.5]])
    model = NadarayaWatsonClassifier(
        "prototypes", n_prototypes=2, clouds=True, sigma=1.0
    ).fit(X, y)
    weights = softmax([0.237070043460, -0.160813724713])
    assert_allclose(model.predict_proba(query), [weights], rtol=1e-10)
    drawn = []
    for pair in (X[:2], X[2:]):
        spread = np.sqrt(pair.var(axis=0).mean())
        points = pair.mean(axis=0) + spread * rng.normal(size=(200_000, 2))
        drawn.append(np.exp(-0.5 * np.sum((query - points) ** 2, axis=1)))
    means = np.mean(drawn, axis=1)
    error = np.sqrt(np.sum(np.var(drawn, axis=1) / means**2) / 200_000)
    z = (np.log(weights[0] / weights[1]) - np.log(means[0] / means[1])) / error
    assert abs(z) < 4.9  # 1e-6


def test_clouds_bring_probabilities_closer():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, _ = train_test_split(X, y, random_state=0)
    options = {"sigma": 0.02, "n_prototypes": 60, "random_state": 0}
    exact = NadarayaWatsonClassifier("exact", sigma=0.02).fit(X_train, y_train)
    expected = exact.predict_proba(X_test)
    gaps = []
    for clouds in (False, True):
        model = NadarayaWatsonClassifier("prototypes", clouds=clouds, **options)
        found = model.fit(X_train, y_train).predict_proba(X_test)
        gaps.append(np.abs(found - expected).sum(axis=1).mean())
    assert gaps[1] < 0.7 * gaps[0]


def test_spread_is_the_variance_of_the_rows(rng):
    """Also of groups of groups: variances inside and between add up."""
    X, y = table(rng)
    whole = NadarayaWatsonRegressor(
        "prototypes", n_prototypes=1, clouds=True, sigma=1.0
    )
    parts = [whole.fit(X[rows], y[rows]) for rows in (slice(200), slice(200, 600))]
    assert_allclose(parts[1].prototypes_.variances[0], X[200:].var(axis=0))
    first = NadarayaWatsonRegressor(**whole.get_params()).fit(X[:200], y[:200])
    merged = first.merge(parts[1])
    assert_allclose(merged.prototypes_.variances[0], X.var(axis=0))
    assert_allclose(merged.prototypes_.points[0], X.mean(axis=0), atol=1e-12)
    assert_allclose(merged.predict(X[:3]), y.mean())


def test_better_than_features_at_equal_numbers():
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    few = NadarayaWatsonClassifier("prototypes", random_state=0)
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
@pytest.mark.parametrize("sigma", ["auto", "learned", 1.5])
def test_batches_and_parts_are_fit(model, sigma, rng):
    X, y = table(rng)
    options = {"n_prototypes": 30, "sigma": sigma, "random_state": 0}
    whole = model("prototypes", **options).fit(X, y)
    classes = {"classes": np.unique(y)} if model is NadarayaWatsonClassifier else {}
    batches = model("prototypes", **options)
    for start in range(0, 600, 200):
        rows = slice(start, start + 200)
        batches.partial_fit(X[rows], y[rows], **(classes if start == 0 else {}))
    parts = [model("prototypes", **options) for _ in range(2)]
    for part, rows in zip(parts, (slice(250), slice(250, 600)), strict=True):
        part.partial_fit(X[rows], y[rows], **classes)
    for found in (batches, batches.freeze(), parts[0].merge(parts[1])):
        assert_allclose(probabilities(found, X), probabilities(whole, X), rtol=1e-6)
        assert_allclose(found.sigma_, whole.sigma_)


CLASSIFIER, REGRESSOR = MODELS
SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("model", "sigma"),
    [
        (CLASSIFIER, "auto"),
        (REGRESSOR, "median"),
        pytest.param(CLASSIFIER, "learned", marks=SLOW),
        pytest.param(REGRESSOR, "learned", marks=SLOW),
        pytest.param(CLASSIFIER, "median", marks=SLOW),
        pytest.param(REGRESSOR, "auto", marks=SLOW),
    ],
)
def test_a_long_stream_stays_small(model, sigma, rng):
    """From four million entries on, points stand for the rows."""
    X = 0.1 * rng.normal(size=(9000, 600)).astype(np.float32)
    X[:, 0] += 4 * rng.integers(0, 3, size=9000)
    y = np.rint(X[:, 0] / 4).astype(int)
    X, X_test, y, y_test = X[:8000], X[8000:], y[:8000], y[8000:]
    options = {"n_prototypes": 6, "sigma": sigma, "random_state": 0}
    stream, sizes = model("prototypes", **options), []
    classes = {"classes": [0, 1, 2]} if model is CLASSIFIER else {}
    for rows in np.split(np.arange(8000), 8):
        stream.partial_fit(X[rows], y[rows], **(classes if rows[0] == 0 else {}))
        sizes.append(len(pickle.dumps(stream)) / X[rows].nbytes)
    kept = 2.1 if sigma in ("auto", "learned") else 0  # rows to choose a factor with
    kept += 1.1 if sigma == "median" else 0  # rows whose distances are taken
    assert sizes[5] > 6
    assert sizes[6] < kept + 0.2
    assert sizes[7] < kept + 1.2
    stream.freeze()
    assert len(pickle.dumps(stream)) < 0.1 * X[:1000].nbytes
    whole = model("prototypes", **options).fit(X, y)
    for found in (whole, stream):
        assert found.prototypes_.shape == (6, 600)
        assert found.prototypes_.weights.sum() == pytest.approx(8000)
        least = 0.5 if sigma == "median" else 0.9  # which is wide
        assert found.score(X_test, y_test) > least


def test_parts_that_were_fitted_merge(rng):
    X, y = table(rng, 2000)
    X_test, y_test = table(rng, 1000)
    options = {"n_prototypes": 60, "sigma": 3.0, "random_state": 0}
    whole = NadarayaWatsonClassifier("prototypes", **options).fit(X, y)
    parts = [
        NadarayaWatsonClassifier("prototypes", **options).fit(X[k::4], y[k::4])
        for k in range(4)
    ]
    merged = parts[0]
    for part in parts[1:]:
        merged.merge(part)
    assert merged.prototypes_.shape == (60, 3)
    assert merged.prototypes_.weights.sum() == pytest.approx(2000)
    assert_array_equal(merged.class_count_, whole.class_count_)
    gap = whole.score(X_test, y_test) - merged.score(X_test, y_test)
    assert abs(gap) < 0.05


@pytest.mark.parametrize("seed", range(5))
def test_sigma_is_that_of_rows_left_out(seed):
    """Predictions of each row by prototypes without it, done one by one."""
    X, y = table(np.random.default_rng(seed), 80)
    model = NadarayaWatsonClassifier(
        "prototypes", n_prototypes=12, random_state=0, clouds=True
    ).fit(X, y)
    points = model.prototypes_
    codes = classes_of_prototypes(np.bincount(y), 12)
    gaps = X[:, None] - points.points
    squares = np.where(y[:, None] == codes, np.sum(gaps**2, axis=-1), np.inf)
    own = np.argmin(squares, axis=1)
    assert_array_equal(np.bincount(own), points.weights)
    scale = NadarayaWatsonClassifier("exact", sigma="scale").fit(X, y).sigma_
    errors = np.zeros(MULTIPLES.size)
    prior = np.eye(3)[y].mean(axis=0)
    for i in range(80):
        centers, weights = points.points.copy(), points.weights.copy()
        k = own[i]
        weights[k] -= 1
        if weights[k]:
            centers[k] = (centers[k] * (weights[k] + 1) - X[i]) / weights[k]
        for j, multiple in enumerate(MULTIPLES):
            sigma = scale * multiple
            spread = sigma**2 * points.variances.mean(axis=1)
            D = sigma**2 * np.sum((X[i] - centers) ** 2, axis=1)
            with np.errstate(divide="ignore"):
                logs = -0.5 * D / (1 + spread) - 1.5 * np.log1p(spread)
                logs += np.log(weights)
            shares = np.exp(logs - logsumexp(logs)) @ np.eye(3)[codes]
            gap = (shares - (y[i] == np.arange(3))) ** 2
            errors[j] += gap @ (1 / (prior * (1 - prior)))
    assert_allclose(model.sigma_, scale * MULTIPLES[np.argmin(errors)])


def test_sparse_and_single_precision(rng):
    X = rng.random((300, 6)) * (rng.random((300, 6)) < 0.5)
    y = (X[:, 0] > X[:, 1]).astype(int)
    options = {"n_prototypes": 20, "random_state": 0, "sigma": 2.0, "clouds": True}
    dense = NadarayaWatsonClassifier("prototypes", **options).fit(X, y)
    expected = dense.predict_proba(X)
    assert expected.dtype == np.float64
    for kind in (sparse.csr_array, sparse.csr_matrix):
        model = NadarayaWatsonClassifier("prototypes", **options).fit(kind(X), y)
        assert model.prototypes_.weights.sum() == 300
        for rows in (kind(X), X):
            assert model.predict_proba(rows).shape == expected.shape
        assert_allclose(model.predict_proba(kind(X)), model.predict_proba(X))
        model = NadarayaWatsonClassifier("prototypes", n_prototypes=300, sigma="auto")
        assert model.fit(kind(X), y).score(X, y) > 0.8
    single = NadarayaWatsonClassifier("prototypes", **options)
    found = single.fit(X.astype(np.float32), y).predict_proba(X.astype(np.float32))
    assert found.dtype == np.float32
    assert single.prototypes_.points.dtype == np.float32
    assert np.mean(np.abs(found - expected)) < 0.05


@pytest.mark.parametrize("sigma", [1e-2, 1.0, 1e2])
@pytest.mark.parametrize("clouds", [False, True])
def test_log_space(sigma, clouds, rng):
    X, y = table(rng, 400, 50)
    model = NadarayaWatsonClassifier(
        "prototypes", sigma=sigma, clouds=clouds, n_prototypes=10
    ).fit(X, y)
    for rows in (X, X.astype(np.float32), 1e3 * X):
        assert_allclose(model.predict_proba(rows).sum(axis=1), 1, rtol=1e-5)


def test_several_outputs(rng):
    X, _ = table(rng, 1000)
    y = np.stack([np.sin(2 * X[:, 0]), 1e3 + 100 * X[:, 1]], axis=1)
    model = NadarayaWatsonRegressor("prototypes", n_prototypes=100, random_state=0)
    assert model.fit(X[:800], y[:800]).score(X[800:], y[800:]) > 0.7
    one = NadarayaWatsonRegressor("prototypes", n_prototypes=100, random_state=0)
    assert one.fit(X[:800], y[:800, 0]).score(X[800:], y[800:, 0]) > 0.6


def test_rows_all_alike():
    X, y = np.ones((50, 2)), np.arange(50) % 2
    model = NadarayaWatsonClassifier("prototypes", n_prototypes=4).fit(X, y)
    assert model.prototypes_.shape == (2, 2)
    assert_allclose(model.predict_proba(X[:1]), [[0.5, 0.5]])


def prototypes_of_classes(sizes, n_prototypes, weights=None):
    """Return how many prototypes stand for each of some classes, far apart."""
    y = np.repeat(np.arange(len(sizes)), sizes)
    X = np.random.default_rng(0).normal(size=(y.size, 2)) + 100 * y[:, None]
    options = {"n_prototypes": n_prototypes, "sigma": 1.0, "random_state": 0}
    model = NadarayaWatsonClassifier("prototypes", **options)
    sample_weight = None if weights is None else (weights / sizes)[y]
    points = model.fit(X, y, sample_weight).prototypes_.points
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
    options = {"n_prototypes": n_prototypes, "sigma": 1.0, "random_state": 0}
    model = NadarayaWatsonRegressor("prototypes", **options)
    points = model.fit(X, y, sample_weight).prototypes_
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
    assert np.all(np.abs(means - np.rint(means)) > 1e-3)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"sampler": "exact", "n_prototypes": 5}, "n_prototypes=5 belongs to sampler="),
        ({"sampler": None, "clouds": True}, "clouds=True belongs to sampler='protot"),
        (
            {"sampler": "prototypes", "clouds": True, "kernel": "laplacian"},
            "clouds=True needs kernel='gaussian'",
        ),
        ({"sampler": "prototypes", "n_prototypes": 0}, "'n_prototypes' parameter"),
        ({"sampler": "prototypes", "sigma": [1.0, 2.0]}, "sigma has shape"),
    ],
)
def test_errors(options, message, rng):
    X, y = table(rng, 20)
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifier(**options).fit(X, y)


def test_only_prototypes_have_prototypes(iris):
    X, y = iris
    assert not hasattr(NadarayaWatsonClassifier("exact").fit(X, y), "prototypes_")
    model = NadarayaWatsonClassifier("prototypes", n_prototypes=5)
    loss = log_loss(y, model.fit(X, y).predict_proba(X))
    assert loss < log_loss(y, np.full((150, 3), 1 / 3)) / 2
