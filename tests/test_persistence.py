"""Stored estimators and the version of the package that stored them."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import InconsistentVersionWarning

import sklearn_crt

from .test_common import EACH_ESTIMATOR


@pytest.mark.parametrize("estimator", EACH_ESTIMATOR, ids=repr)
def test_another_version_warns_when_it_loads_an_estimator(estimator, monkeypatch):
    stored = pickle.dumps(clone(estimator))
    monkeypatch.setattr(sklearn_crt, "__version__", "99.0")
    with pytest.warns(InconsistentVersionWarning) as caught:
        pickle.loads(stored)
    messages = [str(each.message) for each in caught]
    assert all("version 99.0 of sklearn_crt" in message for message in messages)
    assert any(type(estimator).__name__ in message for message in messages)


def test_the_same_version_loads_a_fitted_model_without_a_warning():
    X = np.random.default_rng(0).normal(size=(30, 2))
    model = sklearn_crt.NadarayaWatsonRegressor().fit(X, X[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = pickle.loads(pickle.dumps(model))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert vars(loaded).keys() == vars(model).keys()  # the version is no attribute
