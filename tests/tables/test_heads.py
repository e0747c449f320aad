"""Ridge regression and classification on raw tables."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sklearn_crt import AnovaSampler, RandomFeatureRidge, RandomFeatureRidgeClassifier

from .test_anova_sampler import mixed_table

Regressor, Classifier = RandomFeatureRidge, RandomFeatureRidgeClassifier
SAMPLER = AnovaSampler(n_components=80, random_state=0)


@pytest.fixture(scope="module")
def table():
    return mixed_table(600, missing=0.05)


def test_ridge_reads_raw_tables(table):
    X, y = table
    model = Regressor(SAMPLER, clip=False).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.8
    assert model.kernel_.feature_importances_.argmax() == 0
    assert model.feature_names_in_.tolist() == X.columns.tolist()
    expected = model.kernel_.transform(X) @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(X), expected, atol=1e-9)
    alone = clone(SAMPLER).fit(X[:400], y[:400])
    np.testing.assert_array_equal(model.kernel_.transform(X), alone.transform(X))
    features = alone.transform(X)
    ridge = Ridge(model.alpha_).fit(features[:400], y[:400])
    np.testing.assert_allclose(model.predict(X), ridge.predict(features), atol=1e-6)


def test_intervals_and_probabilities_of_raw_tables(table):
    X, y = table
    model = Regressor(SAMPLER).fit(X[:400], y[:400])
    low, high = model.predict_interval(X[400:], coverage=0.8).T
    covered = np.mean((low <= y[400:]) & (y[400:] <= high))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.8 * 0.2 * (1 / 200 + 1 / 400))
    _, std = model.predict(X, return_std=True)
    assert np.all(std > 0)
    labels = np.where(y > 0, "yes", "no")
    classifier = Classifier(SAMPLER).fit(X[:400], labels[:400])
    assert classifier.score(X[400:], labels[400:]) > 0.85
    p = classifier.predict_proba(X[400:])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    loss = -np.log(p[np.arange(200), (labels[400:] == "yes").astype(int)]).mean()
    assert loss < 0.5


def test_intervals_where_training_rows_are_interpolated():
    """All rows are landmarks, whose features lack variance elsewhere."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(600, 3))
    y = np.sin(2 * X.sum(axis=1))
    model = Regressor(AnovaSampler(order="all", random_state=0)).fit(X[:200], y[:200])
    low, high = model.predict_interval(X[200:], coverage=0.8).T
    covered = np.mean((low <= y[200:]) & (y[200:] <= high))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.8 * 0.2 * (1 / 200 + 1 / 400))


def test_batches_and_halves_give_the_same_model(table):
    X, y = table
    expected = Regressor(SAMPLER).fit(X, y).predict(X)
    batches, halves = Regressor(SAMPLER), []
    for part in np.array_split(np.arange(len(y)), 2):
        batches.partial_fit(X.iloc[part], y[part])
        halves.append(Regressor(SAMPLER).partial_fit(X.iloc[part], y[part]))
    np.testing.assert_allclose(batches.predict(X), expected, atol=1e-7)
    merged = halves[0].merge(halves[1])
    np.testing.assert_allclose(merged.predict(X), expected, atol=1e-7)
    small = pickle.loads(pickle.dumps(merged.freeze()))
    np.testing.assert_allclose(small.predict(X), expected, atol=1e-7)
    other = Regressor(clone(SAMPLER).set_params(categories=["size"]))
    with pytest.raises(ValueError, match="merge requires equal parameters"):
        merged.fit(X, y).merge(other.fit(X, y))


def test_the_fitted_kernel_decides_what_is_read(table):
    X, y = table
    model = Regressor(SAMPLER).fit(X, y)
    expected = model.predict(X)
    model.set_params(kernel="gaussian")
    np.testing.assert_array_equal(model.predict(X), expected)
    numbers = X[["size"]].to_numpy()
    assert model.fit(numbers, y).predict(numbers).shape == y.shape
    with pytest.raises(ValueError, match="could not convert"):
        model.fit(X, y)


def test_frozen_sampler_and_cross_validation(table):
    X, y = table
    sampler = clone(SAMPLER).fit(X[:300], y[:300])
    model = Regressor(FrozenEstimator(sampler)).fit(X[300:], y[300:])
    expected = Regressor("linear").fit(sampler.transform(X[300:]), y[300:])
    np.testing.assert_allclose(
        model.predict(X), expected.predict(sampler.transform(X)), atol=1e-7
    )
    assert cross_val_score(Regressor(SAMPLER), X, y, cv=3).mean() > 0.8
    grid = {"kernel__order": [1, 2]}
    search = GridSearchCV(Regressor(SAMPLER), grid, cv=3).fit(X, y)
    assert search.best_params_ == {"kernel__order": 2}
    wide = Regressor(AnovaSampler(), n_components=30, random_state=0).fit(X, y)
    features = wide.kernel_.get_feature_names_out()
    assert wide.coef_.shape == features.shape
    assert 30 <= len(features) < 40  # and linear terms
    with pytest.raises(ValueError, match=r"sigma=1.0.*has no effect"):
        Regressor(SAMPLER, sigma=1.0).fit(X, y)


def test_pipelines_of_raw_tables(table):
    X, y = table
    model = make_pipeline(SAMPLER, Ridge(0.1)).fit(X[:400], y[:400])
    assert model.score(X[400:], y[400:]) > 0.8
