"""Moments of features from few rows, or from equal rows, are those of all rows."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from sklearn_crt import RandomFeatureRidge, RandomFeatureRidgeClassifier
from sklearn_crt.ridge import _feature_moments
from sklearn_crt.ridge._feature_moments import MomentSums
from sklearn_crt.ridge._ridge_solution import Solution


@pytest.mark.parametrize("sizes", [(3, 4), (5, 9), (30, 2), (4, 40)])
def test_sums_of_few_and_many_rows(rng, sizes):
    """Moments are the same whether rows or their products are stored."""
    D, parts = 12, []
    Z, Y = rng.normal(size=(sum(sizes), D)) + 3, rng.normal(size=(sum(sizes), 2))
    w = rng.uniform(0.5, 2, sum(sizes))
    for rows in np.split(np.arange(len(Z)), [sizes[0]]):
        sums = MomentSums()
        sums.add(Z[rows], Y[rows], w[rows])
        parts.append(sums.moments())
    found = parts[0] + parts[1]
    mean = w @ Z / w.sum()
    centred, targets = Z - mean, Y - w @ Y / w.sum()
    assert (found.gram.root is None) == (sum(sizes) + 1 >= D)
    assert_allclose(found.gram.matrix(), (centred.T * w) @ centred, atol=1e-11)
    assert_allclose(found.cross, (centred.T * w) @ targets, atol=1e-11)
    assert_allclose(found.gram.trace, w @ (centred**2).sum(axis=1))
    zero, half = found.about_zero(), found.divided_by(2.0)
    assert_allclose(zero.gram.matrix(), (Z.T * w) @ Z)
    assert_allclose(2 * half.gram.matrix(), found.gram.matrix())


def test_fits_to_few_rows_need_little_memory(rng):
    """A fit to 40 rows does not store products of all pairs of 1024 features."""
    X = rng.normal(size=(40, 5))
    model = RandomFeatureRidge(random_state=0).fit(X, X[:, 0])
    assert len(pickle.dumps(model)) < 5e6


@pytest.mark.each_value
@pytest.mark.parametrize("noise", [0.1, 1e-3, 0.0])
@pytest.mark.parametrize("n_rows", [40, 210, 400])
def test_what_a_model_stores(n_rows, noise, rng, monkeypatch):
    X, D = rng.normal(size=(n_rows, 10)), 256
    y = np.sin(X[:, 0]) + noise * rng.normal(size=n_rows)
    ridge = RandomFeatureRidge(n_components=D, random_state=0)
    model = clone(ridge).fit(X, y)
    queries = 2 * rng.normal(size=(50, 10))
    with monkeypatch.context() as patch:  # without rounding
        patch.setattr(Solution, "rounded", lambda solution: solution)
        exact = clone(ridge).fit(X, y)
        limits, expected = exact.predict_interval(queries), exact.predict(queries)
    # a variance requires a triangular matrix of this size, besides the frequencies, the
    # mean features and the coefficients; intervals of few rows require ten models
    rank = min(n_rows, D)
    needed = 4 * (rank * D - rank * (rank - 1) // 2) + 8 * D * (10 // 2 + 2)
    needed *= 11 if n_rows < 200 else 1
    for size in (2.2, 1.2):
        assert_allclose(model.predict(queries), expected, atol=1e-6 * np.ptp(y))
        found = model.predict_interval(queries)
        assert_allclose(found, limits, atol=1e-6 * np.ptp(y))
        if noise == 0.1:
            assert len(pickle.dumps(model)) < size * needed + X.nbytes + 3e4
        model.freeze()


@pytest.mark.each_value
@pytest.mark.parametrize("task", ["numbers", "two numbers", "two labels", "labels"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_are_merged(rng, monkeypatch, task, weighted):
    """Models from merged rows equal those from all rows, up to rounding errors."""
    X = rng.integers(0, 3, size=(300, 2)).astype(float)
    noise = rng.normal(size=(300, 2))
    targets = {
        "numbers": X[:, 0] + noise[:, 0],
        "two numbers": X + noise,
        "two labels": X[:, 0] + noise[:, 0] > 1,
        "labels": np.digitize(X[:, 0] + noise[:, 0], [0.5, 1.5]),
    }
    y, labels = targets[task], "labels" in task
    weights = rng.exponential(size=300) if weighted else None
    kind = RandomFeatureRidgeClassifier if labels else RandomFeatureRidge
    models = []
    for most in (_feature_moments._MOST_DISTINCT, 0.0):
        monkeypatch.setattr(_feature_moments, "_MOST_DISTINCT", most)
        model = kind(n_components=64, random_state=0)
        models.append(model.fit(X, y, sample_weight=weights))
    found, expected = (
        m.predict_proba(X) if labels else m.predict_interval(X) for m in models
    )
    assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    assert_allclose(models[0].loo_errors_, models[1].loo_errors_, rtol=1e-6)
    moments = [m._value.summed().moments[0] for m in models]
    for one, other in zip(*moments, strict=True):
        assert (one.n_rows, one.weight) == (other.n_rows, pytest.approx(other.weight))
        assert_allclose(one.squares, other.squares, atol=1e-9)
        assert_allclose([one.least, one.most], [other.least, other.most])
