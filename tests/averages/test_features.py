"""Kernel sums through features: products of features, frozen maps, seeds."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.samplers import PositiveRBFSampler

POSITIVE = [PositiveRBFSampler, OPRFSampler]
SIGMAS = np.logspace(-2, 2, 10)


@pytest.mark.parametrize("sampler", [*POSITIVE, TrigRBFSampler])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_features_inside_equal_the_product_of_features(sampler, kernel, iris):
    X, y = iris
    inside = sampler(sigma=0.5, kernel=kernel, n_components=200, random_state=0)
    model = NadarayaWatsonClassifier(inside).fit(X, y)
    estimate = model.kernel_.approximate_kernel(X)
    scores = np.stack([estimate @ (y == c) for c in np.unique(y)], axis=1)
    clipped = np.maximum(scores, 0)
    total = clipped.sum(axis=1, keepdims=True)
    clipped /= total
    assert_allclose(model.decision_function(X), scores / total, rtol=1e-7, atol=1e-9)
    assert_allclose(model.predict_proba(X), clipped, rtol=1e-7, atol=1e-9)
    assert_array_equal(model.predict(X), model.classes_[scores.argmax(axis=1)])
    regression = NadarayaWatsonRegressor(inside).fit(X, X[:, 0])
    expected = estimate @ X[:, 0] / estimate.sum(axis=1)
    assert_allclose(regression.predict(X), expected, rtol=1e-7, atol=1e-9)


def test_few_columns_are_spoken_of(iris, value_of):
    """Of the digits, 100 columns of OPRF reach .66 where the kernel has .84."""
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for cls in (NadarayaWatsonClassifier, NadarayaWatsonRegressor):
        few = cls(OPRFSampler(random_state=0), sigma="scale")
        message = rf"depends on about 2\d of 100 features.*{cls.__name__}\(\)"
        with pytest.warns(ApproximationWarning, match=message) as record:
            few.fit(X, y)
        assert len(record) == 1
        assert record[0].filename == __file__
    many = OPRFSampler(n_components=1000, random_state=0)
    for kernel in (
        many,
        "gaussian",
        "matern",
        Prototypes(20),
        Nystroem(random_state=0),
    ):
        with warnings.catch_warnings(action="error"):
            NadarayaWatsonClassifier(kernel).fit(*iris)
    counted = NadarayaWatsonClassifier(many, sigma="scale").fit(X, y)
    n_effective = counted.approximation_error(X[:50]).n_effective
    assert_allclose(
        value_of(counted).solution.effective_features(X[:50]), n_effective, rtol=1e-9
    )


@pytest.mark.parametrize("sampler", POSITIVE)
def test_features_in_front_equal_features_inside(sampler, iris):
    X, y = iris
    map_ = sampler(sigma=0.5, random_state=0)
    front = make_pipeline(map_, NadarayaWatsonClassifier("linear")).fit(X, y)
    inside = NadarayaWatsonClassifier(map_).fit(X, y)
    assert_allclose(front.predict_proba(X), inside.predict_proba(X), rtol=1e-8)


@pytest.mark.parametrize(
    "sampler",
    [RBFSampler(gamma=0.1, n_components=500, random_state=0), Nystroem(random_state=0)],
)
def test_samplers_of_scikit_learn(sampler, iris):
    X, y = iris
    front = make_pipeline(sampler, NadarayaWatsonClassifier("linear")).fit(X, y)
    assert front.score(X, y) > 0.8
    inside = NadarayaWatsonClassifier(sampler).fit(X, y)
    assert inside.score(X, y) > 0.8


def test_many_features_reach_the_exact_estimator(frequencies_of, iris):
    X, y = iris
    exact = frequencies_of(NadarayaWatsonClassifier(sigma=0.7).fit(X, y), X)
    sampler = OPRFSampler(sigma=0.7, n_components=20_000, random_state=0)
    features = NadarayaWatsonClassifier(sampler).fit(X, y).predict_proba(X)
    assert_allclose(features, exact, atol=0.05)


def test_map_is_frozen_once_there_are_enough_rows(rng):
    """Four million entries of X are kept until then."""
    X = rng.standard_normal((6000, 1000), np.float32)
    y = (X[:, 0] > 0).astype(int)
    sampler = OPRFSampler(sigma=0.1, n_components=20, random_state=0)
    model, sizes, parameters = NadarayaWatsonClassifier(sampler), [], []
    for rows in np.split(np.arange(6000), [2000, 5000]):
        model.partial_fit(X[rows], y[rows], classes=[0, 1])
        parameters.append(model.kernel_.A_)
        sizes.append(len(pickle.dumps(model)))
    assert parameters[0] != parameters[1] == parameters[2]
    assert sizes[0] > X[:2000].nbytes > X[:100].nbytes > max(sizes[1:])
    frozen = FrozenEstimator(clone(sampler).fit(X[:5000]))
    expected = NadarayaWatsonClassifier(frozen).fit(X, y).predict_proba(X[:100])
    assert_allclose(model.predict_proba(X[:100]), expected, rtol=1e-4)


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


def test_rows_of_weight_zero_do_not_shift_the_exponents(iris):
    X, y = iris
    far_away = np.vstack([X, np.full((1, 4), 1e3)])
    weights = np.r_[np.ones(150), 0.0]
    sampler = FrozenEstimator(OPRFSampler(sigma=1.0, random_state=0).fit(X))
    expected = NadarayaWatsonClassifier(sampler).fit(X, y).predict_proba(X)
    with_row = NadarayaWatsonClassifier(sampler)
    with_row.fit(far_away, np.r_[y, ["a"]], sample_weight=weights)
    assert_allclose(with_row.predict_proba(X), expected, rtol=1e-10)
