"""Hybrids in the Nadaraya-Watson estimators, which read both of their sides."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    HybridSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
)
from sklearn_crt.testing import assert_mean

from ...hybrids import KINDS, hybrid


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
def test_nadaraya_watson_at_extreme_sigmas(kind, wine):
    X, y = wine
    for kernel in ("gaussian", "softmax"):
        for sigma in (1e-2, 1.0, 1e2):
            sampler = hybrid(kind, sigma=sigma, kernel=kernel, n_components=60)
            model = NadarayaWatsonClassifier(sampler).fit(X, y)
            assert np.isfinite(model.decision_function(X)).all()
            probabilities = NadarayaWatsonRegressor(sampler).fit(X, y).predict(X)
            assert np.isfinite(probabilities).all()


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
def test_nadaraya_watson_uses_both_sides(wine):
    X, y = wine
    targets = y[:, None] == np.arange(3)

    def scores(seed):
        sampler = hybrid(sigma=0.2, n_components=200, random_state=seed)
        model = NadarayaWatsonClassifier(sampler).fit(X, y)
        sums = model.kernel_.transform_key(X).T @ targets
        result = model.decision_function(X)
        assert_allclose(result, model.kernel_.transform(X) @ sums)
        return result[::20]

    exact = hybrid(sigma=0.2).fit(X).exact_kernel(X[::20], X) @ targets
    assert_mean(np.stack([scores(seed) for seed in range(64)]), exact)


@pytest.mark.filterwarnings("ignore:For .* rows all the kernel weights:RuntimeWarning")
def test_grid_over_sigmas_and_widths(wine):
    X, y = wine
    sampler = HybridSampler(random_state=0)
    options = {"sigmas": [0.2, 0.4], "n_components": [24, 40], "cv": 3}
    search = NadarayaWatsonClassifierCV(sampler, **options).fit(X, y)
    for params, score in zip(
        search.cv_results_["params"],
        search.cv_results_["mean_test_score"],
        strict=True,
    ):
        model = NadarayaWatsonClassifier(clone(sampler).set_params(**params))
        expected = cross_val_score(model, X, y, cv=3).mean()
        assert_allclose(score, expected)
