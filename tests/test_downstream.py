"""Samplers in pipelines of other packages, where these are installed."""

import numpy as np
import pytest
from sklearn.base import is_classifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import RidgeClassifier, SGDClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)

pytestmark = pytest.mark.usefixtures("few_folds")


def test_pipeline_that_resamples():
    """imbalanced-learn draws rows before the sampler, and only in fit."""
    pipeline = pytest.importorskip("imblearn.pipeline")
    sampling = pytest.importorskip("imblearn.under_sampling")
    rng = np.random.default_rng(20240607)
    y = np.repeat([0, 1], [180, 20])
    X = rng.normal(size=(200, 4)) + 3 * y[:, None]
    steps = [
        sampling.RandomUnderSampler(random_state=0),
        OPRFSampler(n_components=64, random_state=0),
        SGDClassifier(random_state=0),
    ]
    model = pipeline.make_pipeline(*steps).fit(X, y)
    kept = steps[0].sample_indices_
    assert sorted(y[kept]) == [0] * 20 + [1] * 20
    features = OPRFSampler(n_components=64, random_state=0).fit(X[kept])
    np.testing.assert_array_equal(model[1].transform(X), features.transform(X))
    assert model.predict(X).shape == (200,)
    assert model.score(X, y) > 0.9


def test_pipeline_of_a_table():
    """skrub encodes a data frame, and accepts a sampler in front of the last step."""
    skrub = pytest.importorskip("skrub")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(20240607)
    colour = rng.choice(["red", "green", "blue"], size=300)
    size = rng.normal(size=300)
    table = pd.DataFrame({"colour": colour, "size": size})
    y = (colour == "red") ^ (size > 0)  # no linear model of the table itself knows it
    sampler = TrigRBFSampler(n_components=256, random_state=0)
    scores = []
    for steps in ([RidgeClassifier()], [sampler, RidgeClassifier()]):
        model = skrub.tabular_pipeline(steps[-1])
        model.steps[-1:-1] = [("sampler", one) for one in steps[:-1]]
        scores.append(model.fit(table[:200], y[:200]).score(table[200:], y[200:]))
    assert scores[0] < 0.8 < 0.9 < scores[1]


@pytest.mark.each_value
@pytest.mark.parametrize(
    "estimator",
    [
        RandomFeatureRidge(n_components=200, random_state=0),
        NadarayaWatsonRegressor(),
        LocalLinearRegressor(),
        RandomFeatureRidgeClassifier(n_components=200, random_state=0),
        NadarayaWatsonClassifier(),
        LocalLinearClassifier(),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
@pytest.mark.parametrize("whole", [True, False], ids=["tabular", "vectorizer"])
def test_estimators_fit_data_frames_by_skrub(estimator, whole):
    """Numbers, categories, dates and missing values in front of each estimator."""
    skrub = pytest.importorskip("skrub")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(20240607)
    n = 400
    colour = rng.choice(["red", "green", "blue"], size=n)
    size = rng.normal(size=n)
    day = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    value = (colour == "red") * 2.0 + size
    table = pd.DataFrame({"colour": colour, "size": size, "day": day})
    table["size"] = table["size"].mask(rng.random(n) < 0.05)
    y = value > 0.5 if is_classifier(estimator) else value
    if whole:
        model = skrub.tabular_pipeline(estimator)
    else:
        steps = skrub.TableVectorizer(), SimpleImputer(), StandardScaler()
        model = make_pipeline(*steps, estimator)
    model.fit(table[:300], y[:300])
    baseline = max(np.mean(y), 1 - np.mean(y)) if is_classifier(estimator) else 0.0
    assert model.score(table[300:], y[300:]) > baseline + 0.15
    assert model.predict(table.iloc[[0]]).shape == (1,)
