"""Levels with few rows, and many columns with small slopes."""

import tracemalloc

import numpy as np
import pytest
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge, RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_crt import AnovaSampler, RandomFeatureRidge
from sklearn_crt.tables import TableClassifier, TableRegressor

pd = pytest.importorskip("pandas")


def rmse(model, X, y):
    return np.sqrt(np.mean((model.predict(X) - y) ** 2))


def ridge(**options):
    return RandomFeatureRidge(AnovaSampler(random_state=0, **options))


def one_hot_ridge(column):
    encoder = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((encoder, [column]), remainder="passthrough")
    return make_pipeline(columns, Ridge())


@pytest.mark.parametrize(
    "n_levels, n", [(300, 4000), pytest.param(600, 9000, marks=pytest.mark.slow)]
)
def test_many_levels(n_levels, n, rng):
    level, effect = rng.integers(0, n_levels, n + 2000), rng.normal(size=n_levels)
    X = pd.DataFrame({"shop": [f"s{i}" for i in level], "x": rng.normal(size=n + 2000)})
    y = effect[level] + X["x"].to_numpy() + 0.3 * rng.normal(size=n + 2000)
    model, peer = ridge(n_components=200), one_hot_ridge("shop")
    found, best = (rmse(m.fit(X[:n], y[:n]), X[n:], y[n:]) for m in (model, peer))
    assert found < 1.1 * best
    assert model.kernel_.feature_importances_[0] > 0.4
    effects = model.effects(X[:500])
    own = effects.values[:, effects.names.index("shop")]
    assert np.corrcoef(own, effect[level[:500]])[0, 1] > 0.97
    new = X[n:].assign(shop="new")[:5]  # the mean of the levels
    centre = new["x"] + effect.mean()
    assert np.abs(model.predict(new) - centre).max() < 0.6


@pytest.mark.parametrize("n_levels, n", [(150, 450), (600, 1500)])
def test_levels_with_one_row(n_levels, n, rng):
    """Some levels have a single row, whose target tells much about further rows."""
    level, effect = rng.integers(0, n_levels, n + 1000), rng.normal(size=n_levels)
    X = pd.DataFrame({"shop": [f"s{i}" for i in level], "x": rng.normal(size=n + 1000)})
    y = effect[level] + X["x"].to_numpy() + 0.3 * rng.normal(size=n + 1000)
    best = rmse(one_hot_ridge("shop").fit(X[:n], y[:n]), X[n:], y[n:])
    assert rmse(ridge(n_components=100).fit(X[:n], y[:n]), X[n:], y[n:]) < 1.1 * best
    linear = TableRegressor(parts=["linear"], random_state=0).fit(X[:n], y[:n])
    assert rmse(linear, X[n:], y[n:]) < 1.03 * best


@pytest.mark.parametrize(
    "n_levels, n", [(100, 1000), pytest.param(400, 1200, marks=pytest.mark.slow)]
)
def test_labels_and_levels_with_few_rows(n_levels, n, rng):
    level, effect = rng.integers(0, n_levels, n + 2000), 2 * rng.normal(size=n_levels)
    X = pd.DataFrame({"shop": [f"s{i}" for i in level], "x": rng.normal(size=n + 2000)})
    p = expit(effect[level] + X["x"].to_numpy())
    y = np.where(rng.random(n + 2000) < p, "yes", "no")
    encoder = OneHotEncoder(handle_unknown="ignore")
    columns = make_column_transformer((encoder, ["shop"]), remainder="passthrough")
    best = make_pipeline(columns, LogisticRegression()).fit(X[:n], y[:n])
    model = TableClassifier(random_state=0).fit(X[:n], y[:n])
    losses = [log_loss(y[n:], each.predict_proba(X[n:])) for each in (model, best)]
    assert losses[0] < 1.01 * losses[1]
    alone = TableClassifier(parts=["linear"], random_state=0).fit(X[:n], y[:n])
    assert log_loss(y[n:], alone.predict_proba(X[n:])) < 1.01 * losses[1]
    assert alone.feature_importances_[0] > 0.5


def test_many_levels_need_little_memory(rng):
    """Only the linear part has columns for all levels, which are sparse."""
    level, effect = rng.integers(0, 2000, 22_000), rng.normal(size=2000)
    X = pd.DataFrame({"shop": [f"s{i}" for i in level]})
    y = effect[level] + 0.3 * rng.normal(size=len(X))
    tracemalloc.start()
    model = TableRegressor(parts=["linear"], random_state=0)
    model.fit(X[:20_000], y[:20_000])
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 200 * 2**20  # 2000 dense columns would have 320 MB
    assert rmse(model, X[20_000:], y[20_000:]) < 0.36  # .315 with a known variance


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize(
    "levels, rows",
    [(6, 8), (40, 5), pytest.param(130, 5, marks=pytest.mark.slow)],
)
def test_levels_with_few_rows(levels, rows, rng):
    mean = 3 * rng.normal(size=levels)
    k = np.tile(np.repeat(np.arange(levels), rows), 2)
    X = pd.DataFrame({"treatment": [f"t{i}" for i in k], "x": rng.uniform(size=k.size)})
    y, n = mean[k] + 0.3 * rng.normal(size=k.size), k.size // 2
    best = one_hot_ridge("treatment").fit(X[:n], y[:n]).score(X[n:], y[n:])
    model = TableRegressor(n_folds=2, random_state=0).fit(X[:n], y[:n])
    assert 1 - model.score(X[n:], y[n:]) < 1.5 * (1 - best)
    labels = TableClassifier(n_folds=2, random_state=0).fit(X[:n], y[:n] > 0)
    assert labels.score(X[n:], y[n:] > 0) > 0.9


def test_keys_have_no_effect(rng):
    X = pd.DataFrame({"id": [f"i{i}" for i in range(600)], "x": rng.normal(size=600)})
    y = np.sin(2 * X["x"].to_numpy()) + 0.1 * rng.normal(size=600)
    model = ridge(n_components=100).fit(X, y)
    assert model.kernel_.feature_importances_[0] == 0
    assert not len(model.kernel_._value.solution.linear.owners)


@pytest.mark.slow
def test_many_columns_with_small_slopes(rng):
    X = rng.normal(size=(2000, 100))
    y = X @ np.linspace(-1, 1, 100) * np.sqrt(3 / 100) + 0.3 * rng.normal(size=2000)
    model, peer = ridge(n_components=300), RidgeCV()
    found, best = (
        rmse(m.fit(X[:1200], y[:1200]), X[1200:], y[1200:]) for m in (model, peer)
    )
    assert found < 1.15 * best
    effects = model.effects(X[:50])
    np.testing.assert_allclose(
        effects.values.sum(axis=1) + effects.intercept, model.predict(X[:50])
    )
    singles = [name for name in effects.names if "&" not in name]
    assert len(singles) >= 100
    np.testing.assert_allclose(model.kernel_.feature_importances_.sum(), 1)
    sampler = model.kernel_
    assert len(sampler.get_feature_names_out()) == sampler.transform(X[:2]).shape[1]
    exact, found = sampler.exact_kernel(X[:40]), sampler.approximate_kernel(X[:40])
    assert np.diag(exact - found).min() > -1e-6 * exact.max()
