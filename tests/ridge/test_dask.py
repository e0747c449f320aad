"""Ridge regression on Dask's collections, against fitting on the rows in memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
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


@pytest.mark.parametrize(
    "model",
    [
        RandomFeatureRidge(),
        RandomFeatureRidge(SAMPLER),
        RandomFeatureRidge(SAMPLER, sigmas=[0.1, "scale", 2.0], alphas=[0.1, 1]),
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
    assert found.gcv_scores_.shape == expected.gcv_scores_.shape
    for one, other in zip(*(m.predict(X, return_std=True) for m in (found, expected))):
        assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    assert type(found.sampler_) is type(expected.sampler_)
    if model.sampler is not None:  # which takes longest
        again = crt_dask.fit(model, *lazy, sample_weight=weights)
        assert_array_equal(again.coef_, found.coef_)


def test_labels_as_in_memory(table):
    X, y, _ = table
    labels = np.array(["a", "b", "c"])[(y > -0.5).astype(int) + (y > 0.5)]
    model = RandomFeatureRidgeClassifier(SAMPLER, sigmas=[0.2, 0.5])
    found = crt_dask.fit(model, da.from_array(X, chunks=ODD), labels)
    expected = model.fit(X, labels)
    assert found.sigma_ == expected.sigma_
    scores = expected.decision_function(X)
    assert_allclose(found.decision_function(X), scores, atol=1e-8)


def test_a_transformer_must_be_fitted(table):
    X, y, _ = table
    lazy = da.from_array(X, chunks=ODD)
    with pytest.raises(TypeError, match="no statistics that blocks could exchange"):
        crt_dask.fit(RandomFeatureRidge(Nystroem()), lazy, y)
    frozen = FrozenEstimator(Nystroem(n_components=20, random_state=0).fit(X))
    model = RandomFeatureRidge(frozen)
    found = crt_dask.fit(model, lazy, y)
    assert_allclose(found.predict(X), model.fit(X, y).predict(X), rtol=1e-6)
    with pytest.raises(TypeError, match=r"Call sklearn_crt\.dask\.fit"):
        model.fit(lazy, y)
