"""Displays of intervals: what they compute, and what they draw."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_crt import LocalLinearRegressor, RandomFeatureRidge
from sklearn_crt.inspection import (
    CoverageDisplay,
    PredictionIntervalDisplay,
    predict_interval,
)

pyplot = pytest.importorskip("matplotlib.pyplot")

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.fixture(autouse=True)
def figures():
    pyplot.switch_backend("agg")
    yield
    pyplot.close("all")


@pytest.fixture
def table(rng):
    X = rng.uniform(-2, 2, size=(600, 2))
    return X, np.sin(2 * X[:, 1]) + X[:, 0] + 0.2 * rng.normal(size=600)


MODELS = [
    LocalLinearRegressor(),
    make_pipeline(StandardScaler(), LocalLinearRegressor()),
    RandomFeatureRidge(random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_bands_along_a_column(model, table):
    X, y = table
    model.fit(X, y)
    display = PredictionIntervalDisplay.from_estimator(
        model, X, y, feature=1, coverages=[0.9, 0.5]
    )
    grid = np.full((200, 2), np.median(X[:, 0]))
    grid[:, 1] = np.linspace(X[:, 1].min(), X[:, 1].max(), 200)
    last, rows = model, grid
    if hasattr(model, "steps"):
        last, rows = model[-1], model[:-1].transform(grid)
    assert list(display.coverages) == [0.5, 0.9]
    assert_allclose(display.line_.get_xydata(), np.c_[grid[:, 1], model.predict(grid)])
    assert_allclose(display.intervals[1], last.predict_interval(rows, 0.9))
    assert len(display.bands_) == 2
    assert display.ax_.get_xlabel() == "x1"
    assert display.figure_ is display.ax_.figure
    _, ax = pyplot.subplots()
    assert display.plot(ax).ax_ is ax


def test_columns_by_name(table):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(table[0], columns=["a", "b"])
    model = LocalLinearRegressor().fit(frame, table[1])
    found = PredictionIntervalDisplay.from_estimator(model, frame, feature="b")
    expected = PredictionIntervalDisplay.from_estimator(model, frame, feature=1)
    assert_allclose(found.intervals, expected.intervals)
    assert found.ax_.get_xlabel() == "b"
    with pytest.raises(ValueError, match="feature='c' is not a column of X"):
        PredictionIntervalDisplay.from_estimator(model, frame, feature="c")


@pytest.mark.parametrize("model", MODELS, ids=str)
def test_coverage_by_similarity(model, table):
    X, y = table
    model.fit(X[:300], y[:300])
    X, y = X[300:], y[300:]
    display = CoverageDisplay.from_estimator(model, X, y, coverages=[0.8])
    last, rows = model, X
    if hasattr(model, "steps"):
        last, rows = model[-1], model[:-1].transform(X)
    low, high = last.predict_interval(rows, 0.8).T
    inside, order = (low <= y) & (y <= high), np.argsort(last.score_samples(rows))
    assert_allclose(display.observed, [inside.mean()])
    groups = inside[order].reshape(10, 30).mean(axis=1)
    assert_allclose(display.by_similarity[:, 0].mean(), groups.mean())
    assert_allclose(display.by_similarity[:, 0], groups, atol=0.07)  # ties of scores
    assert len(display.lines_) == 11


def test_options_are_checked(table):
    X, y = table
    model = LocalLinearRegressor().fit(X, y)
    for display in (PredictionIntervalDisplay, CoverageDisplay):
        with pytest.raises(ValueError, match="coverage"):
            display.from_estimator(model, X, y, coverages=[90])
        with pytest.raises(ValueError, match="inconsistent numbers"):
            display.from_estimator(model, X, y[1:])
    with pytest.raises(ValueError, match="feature"):
        PredictionIntervalDisplay.from_estimator(model, X, feature=2)


def test_intervals_of_pipelines_and_searches(rng):
    """Rows pass through the steps ahead, also inside a search."""
    X = rng.standard_normal((100, 2))
    y = X[:, 0] + rng.standard_normal(100)
    model = RandomFeatureRidge(n_components=20, random_state=0)
    pipeline = make_pipeline(StandardScaler(), model).fit(X, y)
    rows = pipeline[0].transform(X)
    expected = pipeline[-1].predict_interval(rows, 0.8)
    assert_array_equal(predict_interval(pipeline[-1], rows, coverage=0.8), expected)
    assert_array_equal(predict_interval(pipeline, X, coverage=0.8), expected)
    grid = {"randomfeatureridge__fit_intercept": [True]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, y)
    assert_array_equal(predict_interval(search, X, coverage=0.8), expected)
    nested = make_pipeline("passthrough", search).fit(X, y)
    assert_array_equal(predict_interval(nested, X, coverage=0.8), expected)
    with pytest.raises(NotFittedError, match="not fitted"):
        predict_interval(GridSearchCV(pipeline, grid), X)
    with pytest.raises(TypeError, match="has no method predict_interval"):
        predict_interval(LinearRegression(), X)
