"""Ridge regression on Dask's collections, against fitting on the rows in memory."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg
from sklearn.frozen import FrozenEstimator
from sklearn.kernel_approximation import Nystroem

from sklearn_crt import (
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)

dask = pytest.importorskip("dask", reason="needs the extra dask")
da = pytest.importorskip("dask.array", reason="needs the extra dask")
crt_dask = pytest.importorskip("sklearn_crt.dask", reason="needs the extra dask")

ODD = ((7, 0, 300, 93, 100), (2, 3))  # blocks: one empty, and of columns
SAMPLER = TrigRBFSampler(n_components=60, random_state=0)


@pytest.fixture
def table(rng):
    X = rng.standard_normal((500, 5))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(500), rng.integers(1, 4, 500)


@pytest.mark.usefixtures("few_features")
@pytest.mark.parametrize(
    "model",
    [
        RandomFeatureRidge(random_state=0),
        RandomFeatureRidge("matern", n_components=50, random_state=0),
        RandomFeatureRidge(SAMPLER),
        RandomFeatureRidge(SAMPLER, sigma=0.5, alpha=[0.1, 1]),
        RandomFeatureRidge("linear"),
    ],
    ids=repr,
)
def test_numbers_as_in_memory(model, table):
    X, y, weights = table
    lazy = da.from_array(X, chunks=ODD), da.from_array(y, chunks=77)
    found = crt_dask.fit(model, *lazy, sample_weight=weights)
    expected = model.fit(X, y, weights)
    assert repr(found) == repr(model)
    assert_allclose(found.alpha_, expected.alpha_, rtol=1e-9)
    assert found.loo_errors_.shape == expected.loo_errors_.shape
    if model.kernel != "linear":
        assert_allclose(found.sigma_, expected.sigma_)
    for one, other in zip(*(m.predict(X, return_std=True) for m in (found, expected))):
        assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    ends = crt_dask.map_rows(found.predict_interval, lazy[0]).compute()
    assert_allclose(ends, expected.predict_interval(X), rtol=1e-6, atol=1e-9)
    scores = crt_dask.map_rows(found.score_samples, lazy[0]).compute()
    # rounding may move a row past one other
    assert_allclose(scores, expected.score_samples(X), atol=8 / weights.sum())
    assert type(found.kernel_) is type(expected.kernel_)
    assert found.coef_.shape == expected.coef_.shape
    if model.kernel != "gaussian":  # which takes longest
        again = crt_dask.fit(model, *lazy, sample_weight=weights)
        assert_array_equal(again.coef_, found.coef_)


def test_labels_as_in_memory(table):
    X, y, _ = table
    labels = np.array(["a", "b", "c"])[(y > -0.5).astype(int) + (y > 0.5)]
    model = RandomFeatureRidgeClassifier(SAMPLER)
    found = crt_dask.fit(model, da.from_array(X, chunks=ODD), labels)
    expected = model.fit(X, labels)
    assert found.sigma_ == expected.sigma_
    scores = expected.decision_function(X)
    assert_allclose(found.decision_function(X), scores, atol=1e-8)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))]
)
@pytest.mark.parametrize("kind", [RandomFeatureRidge, RandomFeatureRidgeClassifier])
def test_sigma_as_in_memory(kind, seed):
    """It is selected on a sample of the rows, drawn by their positions."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1500, 3))
    y = X[:, 0] + 3 * rng.normal(size=1500)
    y = y if kind is RandomFeatureRidge else (y > 0).astype(int)
    for kernel in (TrigRBFSampler(n_components=64, random_state=0), "gaussian"):
        n_components = 64 if kernel == "gaussian" else "auto"
        model = kind(kernel, n_components=n_components, random_state=0).fit(X, y)
        lazy = da.from_array(X, chunks=(500, 3)), da.from_array(y, chunks=400)
        found = crt_dask.fit(model, *lazy)
        assert_allclose(found.sigma_, model.sigma_, rtol=1e-9)
        assert_allclose(found.loo_errors_, model.loo_errors_, rtol=1e-6)
        scores = [m.score_samples(X[:50]) for m in (found, model)]
        assert_allclose(*scores, atol=2 / 1500)


@pytest.mark.usefixtures("few_features")
def test_small_weights_count_rows(table):
    X, y, _ = table
    lazy = da.from_array(X, chunks=ODD), da.from_array(y, chunks=77)
    model = RandomFeatureRidge(random_state=0)
    found = crt_dask.fit(model, *lazy, sample_weight=np.full(500, 1e-3))
    expected = model.fit(X, y)
    assert found.kernel_.n_components == 128  # of 500 rows, not 64 of half a row
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-6, atol=1e-9)
    with pytest.warns(UserWarning, match="mean of the sample weights is 20"):
        crt_dask.fit(
            RandomFeatureRidge("linear"), *lazy, sample_weight=np.full(500, 20.0)
        )


def test_a_fitted_model_predicts_without_solving_again(table, monkeypatch):
    X, y, _ = table
    lazy = da.from_array(X, chunks=ODD), da.from_array(y, chunks=77)
    found = crt_dask.fit(RandomFeatureRidge(SAMPLER), *lazy)
    expected = found.predict(X)
    again = pickle.loads(pickle.dumps(found))
    monkeypatch.setattr(linalg, "eigh", None)
    assert_array_equal(again.predict(X), expected)


def test_a_transformer_must_be_fitted(table):
    X, y, _ = table
    lazy = da.from_array(X, chunks=ODD)
    with pytest.raises(TypeError, match="or its kernel, to a sample of the rows"):
        crt_dask.fit(RandomFeatureRidge(Nystroem()), lazy, y)
    frozen = FrozenEstimator(Nystroem(n_components=20, random_state=0).fit(X))
    model = RandomFeatureRidge(frozen)
    found = crt_dask.fit(model, lazy, y)
    assert_allclose(found.predict(X), model.fit(X, y).predict(X), rtol=1e-6)
    with pytest.raises(TypeError, match=r"Call sklearn_crt\.dask\.fit"):
        model.fit(lazy, y)
