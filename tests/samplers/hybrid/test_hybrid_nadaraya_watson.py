"""Hybrids in the Nadaraya-Watson estimators, which read both of their sides."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
)
from sklearn_crt.testing.estimates import assert_mean

from ...hybrids import KINDS, hybrid


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
def test_nadaraya_watson_at_extreme_sigmas(kind, wine):
    X, y = wine
    for kernel in ("gaussian", "softmax"):
        for sigma in (1e-2, 1e2):
            sampler = hybrid(kind, sigma=sigma, kernel=kernel, n_components=60)
            model = NadarayaWatsonClassifier(sampler).fit(X, y)
            assert np.isfinite(model.decision_function(X)).all()
            probabilities = NadarayaWatsonRegressor(sampler).fit(X, y).predict(X)
            assert np.isfinite(probabilities).all()


@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
def test_nadaraya_watson_uses_both_sides(wine):
    """With the map of one side for both, t is 11, where the limit is 8."""
    X, y = wine
    targets = y[:, None] == np.arange(3)

    def scores(seed):
        sampler = hybrid(sigma=0.2, n_components=200, random_state=seed)
        model = NadarayaWatsonClassifier(sampler).fit(X, y)
        sums = model.kernel_.transform_key(X).T @ targets
        result = model.kernel_.transform(X) @ sums
        decisions = model.decision_function(X)
        assert_array_equal(decisions.argmax(axis=1), result.argmax(axis=1))
        return result[::20]

    exact = hybrid(sigma=0.2).fit(X).exact_kernel(X[::20], X) @ targets
    assert_mean(np.stack([scores(seed) for seed in range(24)]), exact)
