"""Boosting as a part of the models for raw tables, and the parameter parts."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from sklearn_crt.exceptions import ColumnWarning
from sklearn_crt.tables import TableClassifier, TableRegressor

from .test_anova_sampler import mixed_table

pd = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def table():
    return mixed_table(400)


def box(n, seed=0):
    """A target with sharp edges in two columns, and a smooth one."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 4))
    inside = (np.abs(X[:, 0]) < 0.4) & (np.abs(X[:, 1]) < 0.4)
    noise = 0.1 * rng.normal(size=n)
    return X, inside + noise, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + noise


@pytest.mark.usefixtures("given_folds")
def test_trees_take_over_at_sharp_edges_only():
    X, edges, smooth = box(1800)
    train, new = slice(800), slice(800, None)
    parts = ["ANOVA", "linear", "trees"]
    blend = TableRegressor(parts=parts, n_folds=2, random_state=0)
    model = clone(blend).fit(X[train], edges[train])
    peer = HistGradientBoostingRegressor(random_state=0).fit(X[train], edges[train])
    errors = [np.square(m.predict(X[new]) - edges[new]) for m in (model, peer)]
    assert np.mean(errors[0]) < 1.05**2 * np.mean(errors[1])
    assert model.weights_["trees"] > 0.5
    covered = [
        np.mean((low <= edges[new]) & (edges[new] <= high))
        for low, high in [model.predict_interval(X[new], coverage=0.9).T]
    ]
    assert abs(covered[0] - 0.9) < 4 * np.sqrt(0.09 * (1 / 1000 + 1 / 800))
    found = model.effects(X[:50])
    np.testing.assert_allclose(
        found.values.sum(axis=1) + found.intercept, model.predict(X[:50]), atol=1e-10
    )
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)
    assert (
        model.feature_importances_[:2].min() > 2 * model.feature_importances_[2:].max()
    )

    other = clone(blend).fit(X[train], smooth[train])
    assert other.weights_["trees"] < 0.05


@pytest.mark.usefixtures("given_folds")
def test_trees_of_categories_and_missing_values(rng):
    n = 1200
    a, b = (rng.choice(["u", "v", "w", None], n) for _ in range(2))
    x = np.where(rng.random(n) < 0.2, np.nan, rng.normal(size=n))
    same = (pd.Series(a).fillna("-") == pd.Series(b).fillna("-")).to_numpy()
    y = same ^ np.isnan(x) ^ (np.nan_to_num(x) > 0.5)
    X = pd.DataFrame({"x": x, "a": a, "b": b})
    model = TableClassifier(parts=["trees"], n_folds=2, random_state=0)
    model.fit(X[:800], y[:800])
    assert model.weights_ == {"trees": 1.0}
    assert model.score(X[800:], y[800:]) > 0.95
    new = X.assign(a="new", b=None, x=None)
    with pytest.warns(ColumnWarning, match="'a' of X are categories that were not"):
        p = model.predict_proba(new)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    restored = pickle.loads(pickle.dumps(clone(model).fit(X[:200], y[:200]).freeze()))
    assert len(restored.predict(X[:1])) == 1


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("part", ["ANOVA", "linear", "local linear", "trees"])
@pytest.mark.parametrize("n", [1, 20, 45, 210])
def test_single_parts(table, part, n):
    X, y = table
    if part == "local linear":
        n = max(n, 4)  # a metric needs two rows, also without one fold
    options = {"parts": [part], "n_folds": 2, "random_state": 0}
    model = TableRegressor(**options).fit(X[:n], y[:n])
    assert model.weights_ == {part: 1.0}
    assert np.isfinite(model.predict(X)).all()
    assert model.predict_interval(X[:3]).shape == (3, 2)
    assert model.feature_importances_.shape == (4,)
    assert model.effects(X[:5]).names[-1] == "remainder"
    if part == "linear":  # of regressors only
        return
    labels = TableClassifier(**options).fit(X[:n], y[:n] > 0)
    assert labels.predict_proba(X).shape == (400, len(labels.classes_))


@pytest.mark.usefixtures("few_folds")
def test_parts_that_are_left_out(table):
    X, y = (part[:210] for part in table)
    without = ["ANOVA", "logistic", "local linear"]
    blend = TableClassifier(n_folds=2, random_state=0)
    model = clone(blend).set_params(parts=without).fit(X, y > 0)
    assert model.weights_.keys() == {*without}
    model = blend.set_params(parts=["trees", "logistic"]).fit(X, y > 0)
    assert model.weights_.keys() == {"logistic", "trees"}
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    for wrong in (["tree"], [], ["trees", "trees"], ["logistic"]):
        with pytest.raises(ValueError, match=r"parts=.*list of different names"):
            TableRegressor(parts=wrong).fit(X, y)


@pytest.mark.usefixtures("few_folds")
def test_trees_are_deterministic(monkeypatch):
    monkeypatch.setattr("sklearn_crt.arrays.threads._FEW_ROWS_OF_TREES", 50)
    X, edges, _ = box(150)
    parts = ["ANOVA", "trees"]  # whose threads are not tested elsewhere
    model = TableRegressor(n_folds=2, parts=parts, random_state=3)
    first, second = (clone(model).fit(X, edges).predict(X) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    with threadpool_limits(2, user_api="openmp"):
        other = clone(model).fit(X, edges).predict(X)
    np.testing.assert_array_equal(other, first)


def test_weights_of_rows_in_trees():
    """Rows with a large weight decide between two targets."""
    X, edges, _ = box(1000)
    both = np.r_[X, X], np.r_[edges, edges + 5]
    heavy = np.repeat([1.0, 1e-6], 1000)
    model = TableRegressor(parts=["trees"], n_folds=2, random_state=0)
    assert np.abs(model.fit(*both, heavy).predict(X) - edges).mean() < 0.3
