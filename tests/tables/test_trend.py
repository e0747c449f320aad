"""Predictions outside of the range of numeric columns, and the linear part."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import RidgeCV

from sklearn_crt.tables import TableClassifier, TableRegressor
from sklearn_crt.tables._extrapolation import Trend, _line


@pytest.fixture(scope="module")
def trend():
    """A line in the first of six columns, of which the last rows are the largest."""
    rng = np.random.default_rng(0)
    t = np.arange(1500.0)
    X = np.c_[t, rng.normal(size=(1500, 5))]
    y = 0.01 * t + np.sin(2 * X[:, 1]) + 0.1 * rng.normal(size=1500)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_crt.tables._blend._LEAST_FOLDS", {})  # only two folds
        parts = ["ANOVA", "linear", "trees"]
        model = TableRegressor(parts=parts, n_folds=2, random_state=0)
        model.fit(X[:1000], y[:1000])
    return model, X, y


def test_trends_continue(trend):
    model, X, y = trend
    new = slice(1000, None)
    assert np.sqrt(np.mean((model.predict(X[new]) - y[new]) ** 2)) < 0.4
    low, high = model.predict_interval(X[new], coverage=0.9).T
    assert np.mean((low <= y[new]) & (y[new] <= high)) > 0.85
    width = high - low
    assert width[-50:].mean() > 1.5 * width[:50].mean()
    _, std = model.predict(X[new], return_std=True)
    assert std[-50:].mean() > 1.5 * std[:50].mean()
    effects = model.effects(X[new])
    total = effects.values.sum(axis=1) + effects.intercept
    np.testing.assert_allclose(total, model.predict(X[new]), atol=1e-9)


def test_predictions_are_continuous_and_bounded(trend):
    model, X, _ = trend
    rows = np.repeat(X[500:501], 4, axis=0)
    rows[:, 0] = [998.9, 999.1, 1e5, 1e300]
    found = model.predict(rows)
    assert abs(found[1] - found[0]) < 0.1
    assert found[2] == found[3] < 60  # three ranges of the column
    rows[:, 0] = np.nan
    assert np.isfinite(model.predict(rows)).all()


def test_functions_that_level_off_are_not_continued(rng, value_of):
    X = rng.uniform(-4, 4, (1200, 3))
    y = np.tanh(2 * X[:, 0]) + np.sin(3 * X[:, 1]) + 0.1 * rng.normal(size=1200)
    model = TableRegressor(parts=["ANOVA", "linear"], n_folds=2, random_state=0)
    model.fit(X, y)
    trend = value_of(model).solution.trend
    assert trend is None or not {0, 1} & {*trend.sources.tolist()}


@pytest.mark.slow
@pytest.mark.usefixtures("few_folds")
def test_linear_targets_are_fitted_by_the_linear_part(rng):
    X = rng.normal(size=(2000, 40))
    y = X @ np.linspace(-1, 1, 40) + 2 * rng.normal(size=2000)
    model = TableRegressor(n_folds=2, random_state=0).fit(X[:1000], y[:1000])
    assert model.weights_["linear"] > 0.5
    best = RidgeCV().fit(X[:1000], y[:1000])
    errors = [np.mean((m.predict(X[1000:]) - y[1000:]) ** 2) for m in (model, best)]
    assert errors[0] < 1.03 * errors[1]
    np.testing.assert_allclose(model.feature_importances_.sum(), 1)
    alone = TableRegressor(parts=["linear"], random_state=0).fit(X[:1000], y[:1000])
    sizes = np.abs(best.coef_) / np.abs(best.coef_).sum()
    np.testing.assert_allclose(alone.feature_importances_, sizes, atol=0.005)


def test_slopes_that_nothing_contradicts_are_not_biased(rng):
    """The slope at the edge has a large error, and is smaller in half of the tables."""
    v, slopes = np.arange(300.0), []
    for _ in range(100):
        line = _line(v, 0.01 * v + 0.1 * rng.normal(size=300), np.ones(300), side=1)
        slopes += [] if line is None else [line[0]]
    assert len(slopes) > 80
    np.testing.assert_allclose(np.mean(slopes), 0.01, rtol=0.01)


@pytest.mark.usefixtures("few_folds")
def test_slopes_of_noise_are_not_continued_far(value_of):
    """A running number is irrelevant, and larger in all new rows."""
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(size=(1500, 3)), np.arange(1500.0)]
    y = X[:, 0] ** 2 + X[:, 1] + 0.3 * rng.normal(size=1500)
    train, new = slice(0, 500), slice(500, None)
    parts = ["local linear"]
    model = TableRegressor(parts=parts, random_state=0).fit(X[train], y[train])
    inside = X[new].copy()
    inside[:, 3] %= 500
    errors = [
        np.sqrt(np.mean((model.predict(V) - y[new]) ** 2)) for V in (X[new], inside)
    ]
    assert errors[0] < 1.25 * errors[1]
    low, high = model.predict_interval(X[new], coverage=0.9).T
    assert np.mean((low <= y[new]) & (y[new] <= high)) > 0.8
    ends = np.where([[0, 0, 0, 1]], [[600.0], [1e300]], X[:1])
    np.testing.assert_array_equal(*model.predict(ends))
    labels = (y > np.median(y[train])).astype(int)
    classifier = TableClassifier(parts=parts, random_state=0).fit(
        X[train], labels[train]
    )
    np.testing.assert_array_equal(*classifier.predict_proba(ends))
    limits = value_of(classifier).solution.limits
    np.testing.assert_allclose(limits[:, 3], [-0.2 * 499, 1.2 * 499])


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("noise", [0.03, 0.3])
def test_the_linear_part_leaves_the_range_of_the_targets(noise):
    """Some new rows have larger targets than all training rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 4))
    y = X @ [3.0, -1.0, 0.0, 0.0] + 7 + noise * rng.normal(size=4000)
    train, new = slice(0, 300), slice(300, None)
    assert np.mean((y[new] > y[train].max()) | (y[new] < y[train].min())) > 0.01
    parts = ["ANOVA", "linear"]
    model = TableRegressor(parts=parts, random_state=0).fit(X[train], y[train])
    best = RidgeCV(np.logspace(-5, 3, 9)).fit(X[train], y[train])
    errors = [np.mean((m.predict(X[new]) - y[new]) ** 2) for m in (model, best)]
    assert errors[0] < 1.03 * errors[1]


@pytest.mark.parametrize("n_rows", [20, 30])
def test_few_rows_of_a_linear_target(n_rows):
    """The kernel of the ANOVA part alone has errors that are half as large again."""
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(1000, 4))
        y = X[:, 0] - X[:, 1] + 0.3 * rng.normal(size=1000)
        few, new = slice(0, n_rows), slice(n_rows, None)
        models = TableRegressor(random_state=0), RidgeCV(np.logspace(-3, 3, 13))
        found = [model.fit(X[few], y[few]).predict(X[new]) for model in models]
        errors.append([np.mean((each - y[new]) ** 2) for each in found])
    ours, best = np.sqrt(np.mean(errors, axis=0))
    assert ours < 1.2 * best


@pytest.mark.usefixtures("given_folds")
def test_the_linear_part_has_columns_that_are_not_clipped(rng, value_of):
    X = rng.standard_t(3, size=(1500, 4))  # with values far from the others
    y = X @ [1.0, -2.0, 3.0, 0.5] + 0.1 * rng.normal(size=1500)
    parts = ["ANOVA", "linear", "trees"]
    model = TableRegressor(parts=parts, n_folds=2, random_state=0)
    model.fit(X[:1000], y[:1000])
    assert model.weights_["linear"] > 0.9
    inside = np.abs(X[1000:]).max(axis=1) < np.abs(X[:1000]).max(axis=0).min()
    errors = model.predict(X[1000:]) - y[1000:]
    assert np.sqrt(np.mean(errors[inside] ** 2)) < 0.12


@pytest.mark.parametrize("huge", [1e160, -1e300])
def test_huge_values_give_no_line_and_no_warning(rng, huge):
    v = rng.normal(size=300)
    target = 3 * v + 0.1 * rng.normal(size=300)
    v[7] = huge
    scores, none = np.clip(v, -4, 4)[:, None], np.zeros((300, 0))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trend = Trend.of(v[:, None], target, np.ones(300), scores, none, np.array([0]))
    assert trend is None or np.isfinite([trend.slopes, trend.deviations]).all()
