"""Levels with few rows, and many columns with small slopes."""

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge, RidgeCV
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
