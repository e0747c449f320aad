"""Warnings of ``fit`` about rows repeated on purpose, and about too few features."""

import re
import warnings

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss

from sklearn_crt import (
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
)
from sklearn_crt.exceptions import ApproximationWarning


def test_oversampling(rng):
    X, y = rng.normal(size=(400, 3)), (rng.uniform(size=400) < 0.1).astype(int)
    rare = np.flatnonzero(y)
    index = np.r_[np.arange(400), np.repeat(rare, 8)]
    with pytest.warns(UserWarning, match=f"{8 * len(rare)} of {len(index)} rows are"):
        NadarayaWatsonClassifier().fit(X[index], y[index])
    with pytest.warns(UserWarning, match="use class_weight or sample_weight"):
        LocalLinearRegressor().fit(X[index].astype(np.float32), 1.0 * y[index])


def test_tables_of_few_distinct_rows_are_not_repeated_on_purpose(rng):
    X = rng.integers(0, 4, size=(500, 3)).astype(float)
    y = rng.integers(0, 2, size=500)
    some = np.c_[X, rng.normal(size=500)]
    few = np.r_[np.arange(500), np.arange(20)]  # a few repetitions are usual
    with warnings.catch_warnings(action="error"):
        NadarayaWatsonClassifier().fit(X, y)
        NadarayaWatsonClassifier().fit(np.zeros((500, 2)), y)
        NadarayaWatsonClassifier().fit(some[few], y[few])
        # rounded to two decimals, equal rows have different targets
        NadarayaWatsonRegressor().fit(some[:, 3:].round(2), rng.normal(size=500))


def test_features_that_are_too_few(rng):
    X, y = load_digits(return_X_y=True)
    sampler = OPRFSampler(n_components=30, random_state=0)
    with pytest.warns(ApproximationWarning, match="30 features are too few") as caught:
        NadarayaWatsonClassifier(sampler).fit(X, y)
    (message,) = (str(each.message) for each in caught)
    assert "accuracy" in message
    assert "NadarayaWatsonClassifier(Prototypes(30))" in message
    t = X[:, :2] + rng.normal(size=(len(X), 2))
    with pytest.warns(ApproximationWarning, match=r"leave-one-out R\^2"):
        NadarayaWatsonRegressor(sampler).fit(X, X[:, 20] + X[:, 30])
    with warnings.catch_warnings(action="error"):
        sampler.set_params(n_components=300)
        NadarayaWatsonRegressor(sampler).fit(t, rng.normal(size=len(t)))
        simple = rng.normal(size=(500, 1))
        NadarayaWatsonRegressor(sampler).fit(simple, simple[:, 0] + 1)


def test_features_whose_probabilities_are_too_coarse(rng):
    X = rng.integers(0, 4, (1000, 3))
    p = 1 / (1 + np.exp(-1.5 * rng.normal(size=64)))
    y = rng.random(1000) < p[X @ [16, 4, 1]]
    sampler = OPRFSampler(n_components=100, random_state=0)
    with pytest.warns(ApproximationWarning, match="100 features are too") as caught:
        NadarayaWatsonClassifier(sampler).fit(X, y)
    (message,) = (str(each.message) for each in caught)
    ours, exact = map(float, re.findall(r"(?:log loss is|and) (\.?\d+\.\d+)", message))
    exact_model = NadarayaWatsonClassifier().fit(X, y)
    new = rng.integers(0, 4, (5000, 3))
    truth = rng.random(5000) < p[new @ [16, 4, 1]]
    assert exact == pytest.approx(
        log_loss(truth, exact_model.predict_proba(new)), abs=0.1
    )
    assert ours > exact + 0.02
    with warnings.catch_warnings(action="error"):
        sampler.set_params(n_components=2000)
        NadarayaWatsonClassifier(sampler).fit(X, y)
