"""Rows that are no features: the most natural first call must be good or speak."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    TrigRBFSampler,
)

TABLES = [load_iris, load_wine, load_breast_cancer, load_digits]


@pytest.mark.parametrize("load", TABLES)
@pytest.mark.parametrize("scaler", [None, StandardScaler(), MinMaxScaler()], ids=repr)
@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
def test_raw_rows_are_spoken_of(load, scaler, cls):
    X, y = load(return_X_y=True)
    X = X if scaler is None else scaler.fit_transform(X)
    message = rf"kernel='linear' requires features of a kernel.*use {cls.__name__}\(\)"
    with pytest.warns(UserWarning, match=message) as record:
        cls("linear").fit(X, y)
    assert len(record) == 1
    assert record[0].filename == __file__


@pytest.mark.each_value
@pytest.mark.parametrize("load", TABLES)
@pytest.mark.parametrize(
    "sampler",
    [
        OPRFSampler(random_state=0),
        OPRFSampler(sigma=0.01, random_state=0),
        OPRFSampler(sigma=0.1, random_state=0),
        OPRFSampler(kernel="softmax", random_state=0),
        TrigRBFSampler(sigma=10.0, random_state=0),
        TrigRBFSampler(sigma=0.01, random_state=0),
        RBFSampler(random_state=0),
        Nystroem(random_state=0, n_components=50),
    ],
    ids=repr,
)
def test_features_are_taken_as_they_are(load, sampler):
    X, y = load(return_X_y=True)
    with warnings.catch_warnings(action="error"):
        make_pipeline(
            StandardScaler(), sampler, NadarayaWatsonClassifier("linear")
        ).fit(X, y)


def test_rows_of_norm_one_are_features_of_their_cosines(rng):
    X = normalize(rng.random((50, 20)))
    with warnings.catch_warnings(action="error"):
        NadarayaWatsonClassifier("linear").fit(X, np.arange(50) % 2)
