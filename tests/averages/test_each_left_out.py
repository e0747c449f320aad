"""Leave-one-out cross-validation of the exact estimators, in one pass."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV, KFold, LeaveOneOut

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonClassifierCV,
    NadarayaWatsonRegressor,
    NadarayaWatsonRegressorCV,
)

SIGMAS = [0.3, 3.0, 300.0]


def scores(search):
    results, n_splits = search.cv_results_, search.n_splits_
    return np.stack([results[f"split{k}_test_score"] for k in range(n_splits)])


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
def test_to_a_tolerance(bound, rng):
    """Of rows that are put in clusters."""
    centres = 3 * rng.standard_normal((30, 6))
    labels = rng.integers(30, size=6000)
    X = centres[labels] + 0.7 * rng.standard_normal((6000, 6))
    y = labels % 3 + (X[:, 0] > centres[labels, 0])
    options = {"sigmas": [1.0, 4.0], "cv": LeaveOneOut(), "refit": False}
    exact = NadarayaWatsonClassifierCV("exact", **options).fit(X, y)
    search = NadarayaWatsonClassifierCV("exact", tol=0.01, bound=bound, **options)
    tables = [scores(each) for each in (search.fit(X, y), exact)]
    assert np.mean(tables[0] != tables[1]) < 0.01


def test_one_pass_over_the_pairs_of_rows(rng):
    """A fit for each of a thousand rows takes longer than for a hundred parts."""
    X = rng.standard_normal((1000, 4))
    y, seconds = (X[:, 0] > 0).astype(int), []
    for cv in (LeaveOneOut(), KFold(100)):
        options = {"sigmas": SIGMAS, "cv": cv, "refit": False}
        start = time.process_time()
        NadarayaWatsonClassifierCV("exact", **options).fit(X, y)
        seconds.append(time.process_time() - start)
    print(seconds)
    assert seconds[0] < seconds[1]
