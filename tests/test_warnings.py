"""Warnings about the quality of an approximation have one class, and are few."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklearn_crt import (
    DERFSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    TrigRBFSampler,
)
from sklearn_crt.exceptions import ApproximationWarning
from sklearn_crt.samplers import (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
    GeometricSampler,
    HybridSampler,
    MaternSampler,
)

SIGMAS = [0.1, 1.0, 10.0, 100.0]


@pytest.fixture
def table(rng):
    X = rng.standard_normal((120, 5))
    return X, (X[:, 0] > 0).astype(int)


@pytest.mark.parametrize("sampler", [TrigRBFSampler, OPRFSampler], ids=repr)
@pytest.mark.parametrize("model", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
def test_a_grid_search_warns_by_one_class(model, sampler, table):
    model = model(sampler(n_components=20, random_state=0))
    search = GridSearchCV(model, {"kernel__sigma": SIGMAS}, cv=3)
    with pytest.warns(ApproximationWarning) as record:
        search.fit(*table)
    assert {each.category for each in record} == {ApproximationWarning}
    with warnings.catch_warnings(action="error"):
        warnings.simplefilter("ignore", ApproximationWarning)
        search.fit(*table)


@pytest.mark.parametrize("sampler", [TrigRBFSampler, OPRFSampler], ids=repr)
def test_a_query_warns_once_with_the_number_of_rows(sampler, table):
    X, y = table
    model = NadarayaWatsonClassifier(sampler(sigma=0.3, random_state=0)).fit(X, y)
    far = np.concatenate([X, 1e6 * np.ones((3000, 5))])  # several chunks of rows
    for method in (model.predict, model.predict_proba, model.decision_function):
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            method(far)
        assert len(record) == (sampler is TrigRBFSampler)
        for each in record:
            assert each.category is ApproximationWarning
            n_rows = int(str(each.message).split()[1])  # "For 2987 rows ..."
            assert 2000 < n_rows <= 3120


def test_transform_warns_by_this_class(table):
    X, _ = table
    with pytest.warns(
        ApproximationWarning, match="Half or more of the features of 7 rows are too"
    ):
        OPRFSampler(sigma=1.0, random_state=0).fit(X).transform(1e3 * np.ones((7, 5)))
    with pytest.warns(ApproximationWarning, match="phases"):
        TrigRBFSampler(sigma=1.0, random_state=0).fit(X).transform(1e17 * X[:7])
    with pytest.warns(ApproximationWarning, match="their sines and cosines are noise"):
        MaternSampler(nu=0.01, random_state=0).fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_transform_warns_where_most_positive_features_underflow(rng, dtype):
    X = rng.standard_normal((300, 4)).astype(dtype)
    below = X.min(axis=0) - np.arange(3, dtype=dtype)[:, None]
    rows = np.concatenate([X[:10] + 1, below])
    sigma = 1.0 if dtype == np.float32 else 1.5
    sampler = GeometricSampler(
        sigma=sigma, positive=True, n_components=1000, random_state=0
    ).fit(X)
    message = r"Half or more of the features of 3 rows .* a larger epsilon"
    with pytest.warns(ApproximationWarning, match=message):
        features = sampler.transform(rows)
    zeros = np.mean(features == 0, axis=1)
    assert np.all((zeros >= 0.5) == (np.arange(13) >= 10))
    assert zeros[-3:].max() < 1
    with warnings.catch_warnings(action="error"):
        sampler.transform(rows[:10])


@pytest.mark.parametrize(
    "sampler",
    [HybridSampler(), ComplexExponentialSampler(0.5), ClusteredSampler()],
    ids=lambda sampler: type(sampler).__name__,
)
def test_a_pipeline_that_takes_features_of_queries_for_keys_warns(table, sampler):
    X, y = table
    sampler = clone(sampler).set_params(sigma=0.3, random_state=0)
    model = make_pipeline(sampler, NadarayaWatsonClassifier("linear"))
    with pytest.warns(ApproximationWarning, match="different features for queries"):
        model.fit(X, y)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*different features for queries")
        NadarayaWatsonClassifier(sampler).fit(X, y)
        OPRFSampler().fit_transform(X)
        AngularCoefficient().fit_transform(X)


def test_adapted_features_of_queries_and_keys_warn_in_a_pipeline(table):
    X, _ = table
    with pytest.warns(ApproximationWarning, match="different features for queries"):
        DERFSampler(random_state=0).fit_transform(X, X_key=2 * X[:50] + 1)
    with warnings.catch_warnings(action="error"):
        DERFSampler(random_state=0).fit_transform(X)
