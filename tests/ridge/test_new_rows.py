"""Predictions of new rows and their variances, against the formulas of the Notes.

Ridge regression takes other steps if there are fewer rows than features, if outputs
have different penalties, or if a model is frozen. The results must not depend on this.
"""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem

from sklearn_crt import (
    AnovaSampler,
    CentersRBFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)

FEATURES = TrigRBFSampler(sigma=0.7, n_components=60, random_state=0)
KERNELS = {
    "random features": FEATURES,
    "linear": "linear",
    "centres": CentersRBFSampler(n_components=60, sigma=0.7, random_state=0),
    "kernel values": CentersRBFSampler(
        n_components=60, sigma=0.7, whiten=False, random_state=0
    ),
    "nystroem": Nystroem(n_components=15, random_state=0),
}
SIZES = [20, 40, 59, 60, 61, 150]  # fewer and more rows than the 60 features


def rows_and_targets(rng, n_rows, n_columns):
    X = rng.normal(size=(n_rows, n_columns))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n_rows)


def new_rows(rng, X):
    """Return rows like those of X, and rows farther and farther away."""
    return np.concatenate(
        [rng.normal(size=(20, X.shape[1])), 3 * X[:5], 10 * X[:5], 1e3 * X[:5], X[:5]]
    )


def solution_by_formula(model, X, y, queries, alpha, weights=None, intercept=True):
    """Return predictions for queries, their variances, and those of left-out rows."""
    weights = np.ones(len(X)) if weights is None else weights
    weights = weights / min(1, weights.mean())
    alpha = alpha / min(1, np.mean(weights))
    is_linear = isinstance(model.kernel_, str)
    Z, Q = (
        A if is_linear else np.asarray(model.kernel_.transform(A), float)
        for A in (X, queries)
    )
    K = getattr(model.kernel_, "penalty_", np.eye(Z.shape[1]))
    z_mean, y_mean = np.zeros(Z.shape[1]), 0.0
    if intercept:
        z_mean, y_mean = weights @ Z / weights.sum(), weights @ y / weights.sum()
    Z, Q = Z - z_mean, Q - z_mean
    inner = Z.T @ (weights[:, None] * Z) + alpha * K
    coef = np.linalg.solve(inner, Z.T @ (weights * (y - y_mean)))
    least = intercept / weights.sum()
    variance, own = (
        least + np.sum(A * np.linalg.solve(inner, A.T).T, axis=1) for A in (Q, Z)
    )
    return Q @ coef + y_mean, variance, own / (1 - weights * own)


def fitted_in(way, model, X, y, weights):
    """Return a model that is fitted at once, in batches, by merging, or frozen."""
    half = len(X) // 3
    parts = [(X[s], y[s], weights[s]) for s in (slice(half), slice(half, None))]
    options = {} if y.dtype.kind == "f" else {"classes": np.unique(y)}
    if way == "partial_fit":
        for rows, targets, own in parts:
            model.partial_fit(rows, targets, sample_weight=own, **options)
        return model
    if way == "merge":
        one, other = (
            clone(model).partial_fit(rows, targets, sample_weight=own, **options)
            for rows, targets, own in parts
        )
        return one.merge(other)
    model.fit(X, y, weights)
    if way == "freeze":
        model = pickle.loads(pickle.dumps(model.freeze()))
    return model


@pytest.mark.parametrize("n_rows", SIZES)
@pytest.mark.parametrize("name", KERNELS)
def test_regression(name, n_rows, rng):
    X, y = rows_and_targets(rng, n_rows, 60 if name == "linear" else 4)
    queries = new_rows(rng, X)
    model = RandomFeatureRidge(KERNELS[name], alpha=0.1, clip=False).fit(X, y)
    mean, variance, own = solution_by_formula(model, X, y, queries, 0.1)
    found, std = model.predict(queries, return_std=True)
    assert_allclose(found, mean, rtol=1e-6, atol=1e-6)
    noise = model.noise_variance_
    assert_allclose(std, np.sqrt(noise * (1 + variance)), rtol=1e-6)
    assert_allclose(model.effective_sample_size(queries), 1 / variance, rtol=1e-5)
    expected = np.mean(own >= variance[:, None] * (1 - 1e-9), axis=1)
    # rounding may change the order of a row and of a query that equals it
    assert_allclose(model.score_samples(queries), expected, atol=1.5 / n_rows)


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("n_rows", [30, 150])
@pytest.mark.parametrize("name", ["random features", "linear"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("way", ["fit", "partial_fit", "merge", "freeze"])
def test_types_weights_and_ways_of_fitting(way, dtype, fit_intercept, name, n_rows):
    rng = np.random.default_rng(1)
    X, y = rows_and_targets(rng, n_rows, 60 if name == "linear" else 4)
    X = X.astype(dtype)
    queries = new_rows(rng, X).astype(dtype)
    weights = rng.integers(1, 5, n_rows).astype(float)
    options = {"alpha": 0.3, "fit_intercept": fit_intercept, "clip": False}
    kernel = KERNELS[name]
    if way == "merge" and name != "linear":
        kernel = FrozenEstimator(clone(kernel).fit(X))
    model = RandomFeatureRidge(kernel, **options)
    model = fitted_in(way, model, X, y, weights)
    # sums of squares of 1e3 in single precision
    rtol = {np.float32: 3e-3, np.float64: 1e-6}[dtype]
    given = model, X, y, queries, 0.3, weights, fit_intercept
    mean, variance, _ = solution_by_formula(*given)
    found, std = model.predict(queries, return_std=True)
    assert_allclose(found, mean, rtol=rtol, atol=rtol)
    expected = np.sqrt(model.noise_variance_ * (1 + variance))
    assert_allclose(std, expected, rtol=rtol)
    assert_allclose(model.effective_sample_size(queries), 1 / variance, rtol=3 * rtol)


@pytest.mark.parametrize("n_rows", [30, 150])
@pytest.mark.parametrize("way", ["fit", "freeze"])
def test_outputs_with_different_penalties(way, n_rows, rng):
    X, y = rows_and_targets(rng, n_rows, 4)
    Y = np.stack([y, 5 * rng.normal(size=n_rows)], axis=1)
    queries = new_rows(rng, X)
    model = RandomFeatureRidge(FEATURES, alpha=[0.1, 10.0], clip=False)
    model = fitted_in(way, model, X, Y, np.ones(n_rows))
    assert_allclose(model.alpha_, [0.1, 10.0])
    mean, std = model.predict(queries, return_std=True)
    sizes = []
    for k, alpha in enumerate(model.alpha_):
        expected = solution_by_formula(model, X, Y[:, k], queries, alpha)
        assert_allclose(mean[:, k], expected[0], rtol=1e-6, atol=1e-6)
        deviations = np.sqrt(model.noise_variance_[k] * (1 + expected[1]))
        assert_allclose(std[:, k], deviations, rtol=1e-6)
        sizes.append(1 / expected[1])
    found = model.effective_sample_size(queries)
    assert_allclose(found, np.min(sizes, axis=0), rtol=1e-5)


@pytest.mark.parametrize("n_rows", [30, 150])
def test_predictions_are_shrunk_and_clipped(n_rows, rng):
    X, y = rows_and_targets(rng, n_rows, 4)
    queries = new_rows(rng, X)
    model = RandomFeatureRidge(FEATURES, alpha=1e-3).fit(X, y)
    mean, variance, _ = solution_by_formula(model, X, y, queries, 1e-3)
    deviations = np.sqrt(model.noise_variance_ * variance)
    shares = np.minimum(1, y.std() / deviations)
    assert np.any(shares < 0.95)
    expected = y.mean() + shares * (mean - y.mean())
    found = model.predict(queries)
    assert_allclose(found, np.clip(expected, y.min(), y.max()), rtol=1e-6, atol=1e-6)


def test_predictions_are_shrunk_by_what_landmarks_do_not_explain(rng):
    X = rng.normal(size=(40, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=40)
    queries = np.concatenate([X[:5], rng.uniform(-3, 3, (40, 2))])
    model = RandomFeatureRidge(AnovaSampler(random_state=0), alpha=1e-3).fit(X, y)
    free = clone(model).set_params(clip=False).fit(X, y)
    mean, std = free.predict(queries, return_std=True)
    deviations = np.sqrt(std**2 - free.noise_variance_)
    shares = np.minimum(1, y.std() / deviations)
    expected = np.clip(y.mean() + shares * (mean - y.mean()), y.min(), y.max())
    assert_allclose(model.predict(queries), expected, rtol=1e-6, atol=1e-6)
    assert_allclose(
        model.effective_sample_size(queries),
        free.noise_variance_ / deviations**2,
        rtol=1e-6,
    )


@pytest.mark.parametrize("n_rows", [40, 400])
@pytest.mark.parametrize("n_components", [50, 300])  # exact and estimated variances
@pytest.mark.parametrize("way", ["fit", "partial_fit", "freeze"])
def test_classification(way, n_components, n_rows, rng):
    X, _ = rows_and_targets(rng, n_rows, 3)
    kernel = clone(FEATURES).set_params(n_components=n_components)
    queries = new_rows(rng, X)
    labels = (rng.random(n_rows) < 0.5).astype(int)
    labels[: n_rows // 2] = 1 - labels[n_rows // 2 :]  # as many of each class
    model = RandomFeatureRidgeClassifier(kernel, alpha=0.1)
    model = fitted_in(way, model, X, labels, np.ones(n_rows))
    _, variance, own = solution_by_formula(model, X, labels, queries, 0.1)
    sizes = model.effective_sample_size(queries)
    expected = np.mean(own >= variance[:, None], axis=1)
    scores = model.score_samples(queries)
    if n_components == 50:
        assert_allclose(sizes, 1 / variance, rtol=1e-4)
        assert_allclose(scores, expected, atol=1.5 / n_rows)
    else:  # relative errors of 18 percent
        assert np.all(np.abs(np.log(sizes * variance)) < 1)
        assert np.sqrt(np.mean(np.log(sizes * variance) ** 2)) < 0.3
        assert np.all(scores[(expected == 0) & (variance > 2 * own.max())] == 0)


@pytest.mark.each_value
@pytest.mark.parametrize("model", [RandomFeatureRidge, RandomFeatureRidgeClassifier])
@pytest.mark.parametrize("n_rows", [30, 100, 300])
def test_distant_rows_with_default_parameters(n_rows, model, rng):
    X = rng.normal(size=(n_rows, 3))
    y = X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n_rows)
    if model is RandomFeatureRidgeClassifier:
        y = (y > np.median(y)).astype(int)  # as many of each class
    model = model(random_state=0).fit(X, y)
    far = np.full((2, 3), [[20.0], [100.0]])
    _, variance, own = solution_by_formula(model, X, y, far, model.alpha_)
    # the variances of classifiers have standard errors of 18 percent
    most = np.mean(own >= np.exp(-0.8) * variance[:, None], axis=1)
    assert np.all(model.score_samples(far) <= most + 1.5 / n_rows)
    sizes = model.effective_sample_size(far)
    assert_allclose(np.log(sizes * variance), 0, atol=0.6)


def test_few_distinct_rows(rng):
    """Many rows of which few are distinct leave most directions undetermined."""
    distinct = rng.integers(0, 3, size=(40, 3)).astype(float)
    X = np.repeat(distinct, 50, axis=0)
    y = X[:, 0] ** 2
    queries = np.array([[0.5, 0.5, 0.5], [5, 5, 5], [30, 0, 0.0]])
    kernel = TrigRBFSampler(sigma=1.0, n_components=256, random_state=0)
    model = RandomFeatureRidge(kernel, alpha=1.0, clip=False).fit(X, y)
    _, variance, _ = solution_by_formula(model, X, y, queries, 1.0)
    assert_allclose(model.effective_sample_size(queries), 1 / variance, rtol=1e-6)


def test_intervals_cover_with_fewer_rows_than_columns():
    """The standard deviations of new rows include what the training rows lack."""
    inside = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        X, queries = rng.normal(size=(60, 200)), rng.normal(size=(400, 200))
        y, targets = (A[:, 0] + 0.5 * rng.normal(size=len(A)) for A in (X, queries))
        model = RandomFeatureRidge("linear").fit(X, y)
        low, high = model.predict_interval(queries).T
        inside.append(np.mean((low <= targets) & (targets <= high)))
    assert 0.82 < np.mean(inside) < 0.97
