"""The classifier: ranges, priors, probabilities, pipelines."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_wine
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import NadarayaWatsonClassifier, NadarayaWatsonRegressor, OPRFSampler
from sklearn_crt.samplers import PositiveRBFSampler

POSITIVE = [PositiveRBFSampler, OPRFSampler]
SIGMAS = np.logspace(-2, 2, 10)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("standardised", [True, False])
@pytest.mark.parametrize("sampler", [*POSITIVE, "gaussian"])
@pytest.mark.parametrize("center", [True, False])
def test_finite_for_every_sigma(sampler, center, standardised, dtype, far):
    X, y = far
    X = (StandardScaler().fit_transform(X) if standardised else X).astype(dtype)
    for sigma in SIGMAS:
        if sampler == "gaussian":
            model = NadarayaWatsonClassifier(sigma=sigma)
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
    regressor = NadarayaWatsonRegressor(model.kernel)
    return regressor.fit(X[:300], y[:300]).predict(X)


def test_prior_and_one_warning_where_all_weights_vanish():
    X, y = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([5, 5, 2])
    empty = np.zeros((3, 2))
    model = NadarayaWatsonClassifier("linear").fit(X, y)
    queries = np.vstack([empty, X])
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.warns(
            RuntimeWarning, match="For 3 rows, the sum of the kernel"
        ) as record:
            method(queries)
        assert len(record) == 1
        assert record[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="the class prior partly or entirely"):
        probabilities = model.predict_proba(queries)
    assert_allclose(probabilities[:3], [[1 / 3, 2 / 3]] * 3)
    with pytest.warns(RuntimeWarning, match="For 3 rows"):
        assert_array_equal(model.predict(queries), [5, 5, 5, 5, 5, 2])
    regressor = NadarayaWatsonRegressor("linear").fit(X, [1.0, 3.0, 8.0])
    with pytest.warns(RuntimeWarning, match="mean of the targets partly or entirely"):
        assert_allclose(regressor.predict(queries), [4, 4, 4, 2, 2, 8])


@pytest.mark.each_value
@pytest.mark.parametrize("load", [load_wine, load_digits])
@pytest.mark.parametrize(
    ("last", "least"),
    [
        (NadarayaWatsonClassifier("linear"), 0.6),
        (RidgeClassifier(), 0.7),
        (LogisticRegression(C=1e3), 0.7),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:.* features of .* rows:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel:RuntimeWarning")
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


@pytest.mark.parametrize("sampler", [*POSITIVE, "gaussian"])
def test_binary_decision_is_the_difference_of_the_probabilities(sampler, iris):
    X, y = iris
    inside = sampler if sampler == "gaussian" else sampler(random_state=0)
    model = NadarayaWatsonClassifier(inside).fit(X[:100], y[:100])
    difference = np.diff(model.predict_proba(X))[:, 0]
    assert_allclose(model.decision_function(X), difference, atol=1e-12)
