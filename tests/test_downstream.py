"""Samplers in pipelines of other packages, where these are installed."""

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier, SGDClassifier

from sklearn_crt import OPRFSampler, TrigRBFSampler


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
    """skrub makes numbers of a table, and takes the sampler before its model."""
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
