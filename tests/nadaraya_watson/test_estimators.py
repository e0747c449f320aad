"""Nadaraya-Watson: values, ranges, batches, merging, weights, errors, pipelines."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process.kernels import Matern
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    HybridSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)

POSITIVE = [PositiveRBFSampler, OPRFSampler]
SIGMAS = np.logspace(-2, 2, 10)


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["a", "b", "c"])[y]


@pytest.fixture(scope="module")
def far():
    """Return rows around -60 in seven columns, as the raw wifi table has."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, size=400)
    X = rng.normal(-60.0, 5.0, size=(400, 7)) + 5.0 * y[:, None]
    return X, y


def by_hand(kernel, y, weights=None):
    """Return class probabilities from the definition."""
    weights = np.ones(len(y)) if weights is None else weights
    sums = np.stack([kernel @ (weights * (y == c)) for c in np.unique(y)], axis=1)
    return sums / sums.sum(axis=1, keepdims=True)


# ------------------------------------------------------------- against definition
@pytest.mark.parametrize("n_train", [150, 7])
@pytest.mark.parametrize(
    ("options", "kernel"),
    [
        ({"kernel": "gaussian"}, lambda X, Y: rbf_kernel(X, Y, gamma=0.5)),
        ({"kernel": "laplacian"}, Matern(nu=0.5)),
        ({"kernel": "matern"}, Matern(nu=1.5)),
        ({"kernel": "matern", "nu": 2.5}, Matern(nu=2.5)),
        ({"kernel": "matern", "nu": 0.8}, Matern(nu=0.8)),
        ({"kernel": "matern", "nu": np.inf}, Matern(nu=np.inf)),
        ({"kernel": laplacian_kernel}, laplacian_kernel),
    ],
)
def test_exact(options, kernel, n_train, iris, rng):
    X, y = iris
    keep = rng.permutation(150)[:n_train]
    weights = rng.exponential(size=n_train)
    model = NadarayaWatsonClassifier("exact", sigma=1.7, **options)
    model.fit(X[keep], y[keep], weights)
    expected = by_hand(kernel(1.7 * X, 1.7 * X[keep]), y[keep], weights)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-7, atol=1e-12)
    assert model.sigma_ == 1.7


def test_exact_regression_of_several_outputs(iris):
    X, _ = iris
    y = X[:, :2] ** 2 + 1e6
    kernel = rbf_kernel(X, gamma=0.5 * 2.0**2)
    expected = kernel @ y / kernel.sum(axis=1, keepdims=True)
    model = NadarayaWatsonRegressor("exact", sigma=2.0).fit(X, y)
    assert_allclose(model.predict(X), expected, rtol=1e-12)
    one = NadarayaWatsonRegressor("exact", sigma=2.0).fit(X, y[:, 0])
    assert_allclose(one.predict(X), expected[:, 0], rtol=1e-12)


def test_exact_blocks_do_not_matter(rng):
    X, y = rng.normal(size=(5000, 3)), rng.integers(0, 3, size=5000)
    queries = rng.normal(size=(700, 3))
    expected = by_hand(rbf_kernel(queries, X, gamma=0.5), y)
    model = NadarayaWatsonClassifier("exact", sigma=1.0).fit(X, y)
    assert_allclose(model.predict_proba(queries), expected, rtol=1e-9)
    in_single = model.predict_proba(queries.astype(np.float32))
    assert in_single.dtype == np.float32
    assert_allclose(in_single, expected, atol=1e-5)


@pytest.mark.parametrize("sampler", [*POSITIVE, TrigRBFSampler])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_features_inside_equal_the_product_of_features(sampler, kernel, iris):
    X, y = iris
    inside = sampler(sigma=0.5, kernel=kernel, n_components=200, random_state=0)
    model = NadarayaWatsonClassifier(inside).fit(X, y)
    estimate = model.sampler_.approximate_kernel(X)
    scores = np.stack([estimate @ (y == c) for c in np.unique(y)], axis=1)
    assert_allclose(model.decision_function(X), scores, rtol=1e-7, atol=1e-9)
    clipped = np.maximum(scores, 0)
    clipped /= clipped.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X), clipped, rtol=1e-7, atol=1e-9)
    assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    regression = NadarayaWatsonRegressor(inside).fit(X, X[:, 0])
    expected = estimate @ X[:, 0] / estimate.sum(axis=1)
    assert_allclose(regression.predict(X), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("sampler", POSITIVE)
def test_features_in_front_equal_features_inside(sampler, iris):
    X, y = iris
    map_ = sampler(sigma=0.5, random_state=0)
    front = make_pipeline(map_, NadarayaWatsonClassifier()).fit(X, y)
    inside = NadarayaWatsonClassifier(map_).fit(X, y)
    assert_allclose(front.predict_proba(X), inside.predict_proba(X), rtol=1e-8)


@pytest.mark.parametrize(
    "sampler", [RBFSampler(gamma=0.1, n_components=500, random_state=0), Nystroem()]
)
def test_samplers_of_scikit_learn(sampler, iris):
    X, y = iris
    front = make_pipeline(sampler, NadarayaWatsonClassifier()).fit(X, y)
    assert front.score(X, y) > 0.8
    inside = NadarayaWatsonClassifier(sampler, random_state=0).fit(X, y)
    assert inside.score(X, y) > 0.8


def test_many_features_reach_the_exact_estimator(iris):
    X, y = iris
    exact = NadarayaWatsonClassifier("exact", sigma=0.7).fit(X, y).predict_proba(X)
    sampler = OPRFSampler(sigma=0.7, n_components=20_000, random_state=0)
    features = NadarayaWatsonClassifier(sampler).fit(X, y).predict_proba(X)
    assert_allclose(features, exact, atol=0.05)


# ---------------------------------------------------------------------- ranges
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("sampler", [*POSITIVE, "exact"])
@pytest.mark.parametrize("center", [True, False])
def test_finite_for_all_bandwidths(sampler, center, standardised, dtype, far):
    X, y = far
    X = (StandardScaler().fit_transform(X) if standardised else X).astype(dtype)
    for sigma in SIGMAS:
        if sampler == "exact":
            model = NadarayaWatsonClassifier("exact", sigma=sigma)
        else:
            inside = sampler(sigma=sigma, center=center, random_state=0)
            model = NadarayaWatsonClassifier(inside)
        model.fit(X[:300], y[:300])
        probabilities = model.predict_proba(X)
        assert probabilities.dtype == dtype
        assert np.all(probabilities >= 0)
        assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
        assert np.all(np.isfinite(model.decision_function(X)))
        assert np.all(np.isfinite(sampled_regression(model, X, y)))


def sampled_regression(model, X, y):
    regressor = NadarayaWatsonRegressor(model.sampler, sigma=model.sigma)
    return regressor.fit(X[:300], y[:300]).predict(X)


def test_raw_wifi_like_columns_keep_their_accuracy(far):
    X, y = far
    raw = NadarayaWatsonClassifier(
        OPRFSampler(sigma=0.1, n_components=1000, random_state=0)
    )
    moved = NadarayaWatsonClassifier(
        OPRFSampler(sigma=0.1, n_components=1000, random_state=0)
    )
    raw.fit(X[:300], y[:300])
    moved.fit(X[:300] + 60, y[:300])
    assert raw.score(X[300:], y[300:]) == moved.score(X[300:] + 60, y[300:])
    assert raw.score(X[300:], y[300:]) > 0.5


def test_prior_and_one_warning_where_all_weights_vanish():
    X, y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([5, 5, 2])
    empty = np.zeros((3, 2))
    model = NadarayaWatsonClassifier().fit(X, y)
    queries = np.vstack([empty, X])
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.warns(RuntimeWarning, match="For 3 rows all the kernel") as record:
            method(queries)
        assert len(record) == 1
        assert record[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="the class prior is predicted"):
        probabilities = model.predict_proba(queries)
    assert_allclose(probabilities[:3], [[1 / 3, 2 / 3]] * 3)
    with pytest.warns(RuntimeWarning, match="For 3 rows"):
        assert_array_equal(model.predict(queries), [5, 5, 5, 5, 5, 2])
    regressor = NadarayaWatsonRegressor().fit(X, [1.0, 3.0, 8.0])
    with pytest.warns(RuntimeWarning, match="the mean of the targets is predicted"):
        assert_allclose(regressor.predict(queries), [4, 4, 4, 2, 2, 8])


def test_negative_denominators_give_the_mean_of_the_targets(rng):
    X, y = rng.normal(size=(100, 3)), rng.normal(size=100)
    sampler = TrigRBFSampler(sigma=20.0, n_components=10, random_state=0)
    model = NadarayaWatsonRegressor(sampler).fit(X, y)
    queries = rng.normal(size=(50, 3))
    weights = model.sampler_.approximate_kernel(queries, X).sum(axis=1)
    n_bad = int(np.sum(weights <= 0))
    assert n_bad > 5
    with pytest.warns(RuntimeWarning, match=f"For {n_bad} rows"):
        predicted = model.predict(queries)
    assert_allclose(predicted[weights <= 0], y.mean())


# ------------------------------------------------- batches, weights and merging
def estimators():
    samplers = [
        "exact",
        OPRFSampler(random_state=0),
        PositiveRBFSampler(sigma=0.6, kernel="softmax", random_state=0),
        TrigRBFSampler(random_state=0),
        RBFSampler(gamma=0.2, random_state=0),
    ]
    for sampler in samplers:
        yield NadarayaWatsonClassifier(sampler)
        yield NadarayaWatsonRegressor(sampler)


def outputs(model, X):
    if hasattr(model, "predict_proba"):
        return model.predict_proba(X)
    return model.predict(X)


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel:RuntimeWarning")
@pytest.mark.parametrize("model", list(estimators()), ids=repr)
def test_batches_in_any_order_equal_fit(model, iris):
    X, y = iris
    targets = y if hasattr(model, "predict_proba") else X[:, 0]
    expected = outputs(model.fit(X, targets), X)
    parts = np.array_split(np.random.default_rng(0).permutation(150), 4)
    first = {"classes": np.unique(y)} if hasattr(model, "predict_proba") else {}
    for order in itertools.islice(itertools.permutations(range(4)), 0, 24, 5):
        batched = type(model)(model.sampler)
        for k in order:
            batched.partial_fit(X[parts[k]], targets[parts[k]], **first)
            outputs(batched, X)  # a look in between changes nothing
        assert_allclose(outputs(batched, X), expected, rtol=1e-7, atol=1e-10)


def test_map_is_frozen_once_there_are_enough_rows(monkeypatch, iris):
    monkeypatch.setattr("sklearn_crt.nadaraya_watson._features._PENDING_ENTRIES", 300)
    X, y = iris
    model = NadarayaWatsonClassifier(OPRFSampler(random_state=0))
    model.partial_fit(X[:50], y[:50], classes=np.unique(y))
    before = model.sampler_.A_
    model.partial_fit(X[50:100], y[50:100])
    fixed = model.sampler_.A_
    assert fixed != before
    model.partial_fit(X[100:], y[100:])
    assert fixed == model.sampler_.A_
    frozen = FrozenEstimator(OPRFSampler(random_state=0).fit(X[:100]))
    expected = NadarayaWatsonClassifier(frozen).fit(X, y).predict_proba(X)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-8)


@pytest.mark.parametrize("model", list(estimators()), ids=repr)
def test_weights_count_as_repeated_rows(model, iris, rng):
    X, y = iris
    targets = y if hasattr(model, "predict_proba") else X[:, 0]
    weights = rng.integers(0, 4, size=150)
    weighted = type(model)(model.sampler).fit(X, targets, sample_weight=weights)
    repeated = type(model)(model.sampler)
    repeated.fit(np.repeat(X, weights, axis=0), np.repeat(targets, weights))
    assert_allclose(outputs(weighted, X), outputs(repeated, X), rtol=1e-6, atol=1e-9)


def test_rows_of_weight_zero_do_not_shift_the_exponents(iris):
    X, y = iris
    far_away = np.vstack([X, np.full((1, 4), 1e3)])
    weights = np.r_[np.ones(150), 0.0]
    sampler = FrozenEstimator(OPRFSampler(sigma=1.0, random_state=0).fit(X))
    expected = NadarayaWatsonClassifier(sampler).fit(X, y).predict_proba(X)
    with_row = NadarayaWatsonClassifier(sampler)
    with_row.fit(far_away, np.r_[y, ["a"]], sample_weight=weights)
    assert_allclose(with_row.predict_proba(X), expected, rtol=1e-10)


def frozen_and_free(X):
    yield FrozenEstimator(OPRFSampler(random_state=0).fit(X))
    yield PositiveRBFSampler(sigma=0.5, center=False, random_state=0)
    yield "exact"
    yield None


@pytest.mark.parametrize("index", range(4))
@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
def test_merge_equals_fit(cls, index, iris):
    X, y = iris
    X = X - X.min() if index == 3 else X
    sampler = list(frozen_and_free(X))[index]
    targets = y if cls is NadarayaWatsonClassifier else X[:, 0]
    expected = outputs(cls(sampler).fit(X, targets), X)
    halves = [np.arange(0, 150, 2), np.arange(1, 150, 2)]
    for i, j in ((0, 1), (1, 0)):
        left = cls(sampler).fit(X[halves[i]], targets[halves[i]])
        right = cls(sampler).fit(X[halves[j]], targets[halves[j]])
        before = outputs(right, X)
        merged = left.merge(right)
        assert merged is left
        assert_allclose(outputs(merged, X), expected, rtol=1e-9)
        assert_allclose(outputs(right, X), before)


def test_merge_of_batches_equals_fit(iris):
    X, y = iris
    sampler = OPRFSampler(random_state=0)
    expected = NadarayaWatsonClassifier(sampler).fit(X, y).predict_proba(X)
    one, two = (
        NadarayaWatsonClassifier(sampler).partial_fit(X[k::2], y[k::2], np.unique(y))
        for k in (0, 1)
    )
    assert_allclose(one.merge(two).predict_proba(X), expected, rtol=1e-8)
    assert_allclose(one.class_prior_, 1 / 3)


def test_merge_of_a_fixed_map_into_batches(iris):
    X, y = iris
    sampler = OPRFSampler(random_state=0)
    batched = NadarayaWatsonClassifier(sampler)
    batched.partial_fit(X[:50], y[:50], classes=np.unique(y))
    fitted = NadarayaWatsonClassifier(sampler)
    fitted.partial_fit(X[50:], y[50:], classes=np.unique(y))
    fitted._engine.freeze()  # as after 4 million entries
    map_ = FrozenEstimator(OPRFSampler(random_state=0).fit(X[50:]))
    expected = NadarayaWatsonClassifier(map_).fit(X, y).predict_proba(X)
    assert_allclose(batched.merge(fitted).predict_proba(X), expected, rtol=1e-8)


def test_merge_that_does_not_fit(iris):
    X, y = iris
    one = NadarayaWatsonClassifier(OPRFSampler(random_state=0)).fit(X[::2], y[::2])
    two = NadarayaWatsonClassifier(OPRFSampler(random_state=1)).fit(X[1::2], y[1::2])
    with pytest.raises(ValueError, match="merge needs the same fitted sampler"):
        one.merge(two)
    with pytest.raises(ValueError, match="merge needs another NadarayaWatsonClassif"):
        one.merge(NadarayaWatsonRegressor("exact").fit(X, X[:, 0]))
    with pytest.raises(ValueError, match="merge needs the same classes"):
        one.merge(NadarayaWatsonClassifier(one.sampler).fit(X[:60], y[:60]))
    with pytest.raises(ValueError, match="has 4 features and the other 2"):
        one.merge(NadarayaWatsonClassifier(one.sampler).fit(X[:, :2], y))
    with pytest.raises(NotFittedError):
        one.merge(NadarayaWatsonClassifier())


# --------------------------------------------------------------- kinds of input
@pytest.mark.parametrize("sampler", ["exact", None, OPRFSampler(random_state=0)])
def test_sparse_equals_dense(sampler, rng):
    X = sparse.csr_array(rng.random((80, 30)) * (rng.random((80, 30)) < 0.5))
    y = rng.integers(0, 3, size=80)
    dense = NadarayaWatsonClassifier(sampler, sigma=0.5).fit(X.toarray(), y)
    model = NadarayaWatsonClassifier(sampler, sigma=0.5).fit(X, y)
    expected = dense.predict_proba(X.toarray())
    assert_allclose(model.predict_proba(X), expected, rtol=1e-8)
    model.partial_fit(X, y)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-8)


@pytest.mark.parametrize(
    ("sampler", "options"),
    [
        ("exact", {"kernel": "gaussian"}),
        ("exact", {"kernel": "laplacian", "sigma": "median"}),
        (OPRFSampler(random_state=0), {}),
        (HybridSampler(random_state=0, sigma=0.2), {}),
    ],
    ids=str,
)
def test_sparse_and_dense_rows_together(sampler, options, iris):
    X, y = iris[0] + [3, 0, -1, 0], iris[1]
    expected = NadarayaWatsonClassifier(sampler, **options).fit(X, y).predict_proba(X)
    for rows, others in ((sparse.csr_array(X), X), (X, sparse.csr_array(X))):
        model = NadarayaWatsonClassifier(sampler, **options).fit(rows, y)
        assert_allclose(model.predict_proba(others), expected, atol=1e-8)
        if sampler == "exact":
            model = NadarayaWatsonClassifier(sampler, **options)
            model.partial_fit(rows[:70], y[:70], classes=np.unique(y))
            model.partial_fit(others[70:], y[70:])
            for queries in (rows, others):
                assert_allclose(model.predict_proba(queries), expected, atol=1e-8)


def test_frames(iris):
    X, y = iris
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = NadarayaWatsonClassifier(OPRFSampler(random_state=0)).fit(frame, y)
    assert list(model.feature_names_in_) == list("abcd")
    assert_allclose(model.predict_proba(frame).sum(axis=1), 1)


def test_pickle_keeps_the_predictions(iris):
    X, y = iris
    for model in estimators():
        targets = y if hasattr(model, "predict_proba") else X[:, 0]
        model.fit(X, targets)
        restored = pickle.loads(pickle.dumps(model))
        assert_array_equal(outputs(restored, X), outputs(model, X))


def test_random_state_seeds_the_sampler(iris):
    X, y = iris
    probabilities = [
        NadarayaWatsonClassifier(sampler, random_state=seed).fit(X, y).predict_proba(X)
        for seed, sampler in (
            (0, OPRFSampler()),
            (0, OPRFSampler()),
            (1, OPRFSampler()),
            (1, OPRFSampler(random_state=7)),
            (2, OPRFSampler(random_state=7)),
        )
    ]
    assert_array_equal(probabilities[0], probabilities[1])
    assert not np.allclose(probabilities[0], probabilities[2])
    assert_array_equal(probabilities[3], probabilities[4])


# -------------------------------------------------------------------- pipelines
@pytest.mark.parametrize("load", [load_wine, load_digits])
@pytest.mark.parametrize(
    ("last", "least"),
    [
        (NadarayaWatsonClassifier(), 0.6),
        (RidgeClassifier(), 0.7),
        (LogisticRegression(C=1e3), 0.7),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:All features of .* rows:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:lbfgs failed to converge")
def test_grid_search(load, last, least):
    X, y = load(return_X_y=True)
    X, y = X[:400], y[:400]
    pipeline = make_pipeline(StandardScaler(), OPRFSampler(random_state=0), last)
    grid = {
        "oprfsampler__sigma": ["scale", 0.1, 1.0],
        "oprfsampler__n_components": [32, 128],
    }
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert np.all(np.isfinite(search.cv_results_["mean_test_score"]))
    assert search.best_score_ > least


# ----------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "approximate"}, "'sampler' parameter of .* must be a str among"),
        (
            {"sampler": 3},
            "'sampler' parameter of .* implementing 'fit' and 'transform'",
        ),
        ({"sampler": "exact", "kernel": "cubic"}, "'kernel' parameter of"),
        ({"sampler": "exact", "sigma": -1.0}, "'sigma' parameter of .*0.0, inf"),
        ({"sampler": "exact", "sigma": [1.0, 2.0]}, r"sigma has shape \(2,\), but X"),
        ({"sampler": "exact", "kernel": "matern", "nu": 0}, "'nu' parameter of"),
        ({"sampler": OPRFSampler(sigma=-1)}, "'sigma' parameter of OPRFSampler"),
    ],
)
def test_parameters_out_of_range(options, message, iris):
    X, y = iris
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonClassifier(**options).fit(X, y)


def test_wrong_input(iris):
    X, y = iris
    model = NadarayaWatsonClassifier(OPRFSampler())
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(NotFittedError, match="is not fitted yet"):
            method(X)
    with pytest.raises(ValueError, match="must contain at least one non-zero number"):
        model.fit(X, y, sample_weight=np.zeros(150))
    with pytest.raises(ValueError, match="Negative values in data passed to"):
        model.fit(X, y, sample_weight=-np.ones(150))
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        NadarayaWatsonClassifier().partial_fit(X, y)
    model.partial_fit(X, y, classes=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"y has the labels \['d'\], which are not"):
        model.partial_fit(X[:2], ["d", "a"])
    with pytest.raises(ValueError, match=r"X has 2 features, but .* expecting 4"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="contains NaN"):
        model.predict(np.full((1, 4), np.nan))
    with pytest.raises(ValueError, match="y has 2 outputs, but the first batch had 1"):
        NadarayaWatsonRegressor().fit(X, X[:, 0]).partial_fit(X, X[:, :2])


@pytest.mark.parametrize("sampler", [*POSITIVE, "exact"])
def test_binary_decision_is_the_difference_of_the_probabilities(sampler, iris):
    X, y = iris
    inside = sampler if sampler == "exact" else sampler(random_state=0)
    model = NadarayaWatsonClassifier(inside).fit(X[:100], y[:100])
    difference = np.diff(model.predict_proba(X))[:, 0]
    assert_allclose(model.decision_function(X), difference, atol=1e-12)
