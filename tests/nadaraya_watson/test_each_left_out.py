"""Leave-one-out cross-validation of the exact estimators, in one pass."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, LeaveOneOut
from sklearn.utils import shuffle

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
)
from sklearn_crt.nadaraya_watson import _clustered, _search, _tolerance

SIGMAS = [0.3, 3.0, 300.0]


@pytest.fixture(autouse=True)
def no_folds(monkeypatch):
    monkeypatch.setattr(_search, "score_fold", None)


def scores(search):
    return np.stack([search.cv_results_[f"split{k}_test_score"] for k in range(60)])


def test_labels_as_in_a_grid_search(rng, iris):
    X, y = iris
    keep = rng.permutation(150)[:60]
    X, y = X[keep], y[keep]
    weights = rng.exponential(size=60)
    search = NadarayaWatsonClassifierCV("exact", sigmas=SIGMAS, cv=LeaveOneOut())
    grid = GridSearchCV(
        NadarayaWatsonClassifier("exact"), {"sigma": SIGMAS}, cv=LeaveOneOut()
    )
    search.fit(X, y, weights)
    grid.fit(X, y, sample_weight=weights)
    assert_array_equal(scores(search), scores(grid))
    assert search.best_params_ == grid.best_params_
    assert not np.all(scores(search) == 1)  # a row left in would be right at 300


@pytest.mark.parametrize(
    "scoring", ["neg_mean_squared_error", "neg_mean_absolute_error"]
)
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_numbers_as_in_a_grid_search(scoring, n_outputs, rng):
    X = rng.standard_normal((60, 3))
    y = X[:, 0] ** 2 if n_outputs == 1 else X[:, :2] ** 2
    options = {"scoring": scoring, "cv": LeaveOneOut()}
    search = NadarayaWatsonRegressorCV("exact", sigmas=SIGMAS, **options).fit(X, y)
    grid = GridSearchCV(NadarayaWatsonRegressor("exact"), {"sigma": SIGMAS}, **options)
    assert_allclose(scores(search), scores(grid.fit(X, y)), rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("bound", ["estimated", "certified"])
def test_to_a_tolerance(bound, monkeypatch):
    monkeypatch.setattr(_clustered, "_LEAST_ROWS", 100)
    X, y = shuffle(*load_digits(return_X_y=True), random_state=0)
    sigmas = [0.05, 0.1, 0.2, 1.0]
    options = {"sigmas": sigmas, "cv": LeaveOneOut(), "refit": False}
    exact = NadarayaWatsonClassifierCV("exact", **options).fit(X, y)
    for most in (np.inf, 0.0):  # all are visited, or summed exactly
        monkeypatch.setattr(_tolerance, "_MOST", most)
        search = NadarayaWatsonClassifierCV("exact", tol=0.01, bound=bound, **options)
        tables = [scores(each) for each in (search.fit(X, y), exact)]
        assert np.mean(tables[0] != tables[1]) < 0.01


def test_no_kernel_weight_is_left(rng):
    """Far from all others a row has the prior of the others, or their mean."""
    X = 1e3 * np.arange(60.0)[:, None]
    y = np.arange(60) % 2

    def box(rows, others):
        return (np.abs(rows - others.T) < 1).astype(float)

    model = NadarayaWatsonClassifierCV("exact", sigmas=[1.0], cv=LeaveOneOut())
    model._make_model = lambda sampler, **rest: NadarayaWatsonClassifier(
        sampler, kernel=box, **rest
    )
    model.fit(X, y)
    assert_array_equal(scores(model), 0)  # the other class has one more row
