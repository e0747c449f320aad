"""Cross-fitted training rows, from which the next step of a pipeline learns."""

import os
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
)
from sklearn_crt.datasets import fetch_uci


def test_many_rows_are_transformed_as_new_rows(rng):
    X = rng.normal(size=(400, 3))
    metric = LearnedMetric(method="evidence", random_state=0)
    rows = metric.fit_transform(X, np.sin(X[:, 0]))
    assert_allclose(rows, metric.transform(X))


@pytest.mark.parametrize("labels", [False, True])
def test_a_row_does_not_depend_on_its_own_target(rng, labels):
    """It keeps its distances to the rows of its fold if its target changes."""
    X = rng.normal(size=(60, 12))
    y = X[:, 0] + 2 * rng.normal(size=60)
    y = y > 0 if labels else y
    options = {"method": "agop" if labels else "evidence", "columns": "linear"}
    metric = LearnedMetric(**options, random_state=0)
    whole = metric.fit(X, y).transform(X)
    rows = metric.fit_transform(X, y)
    assert rows.shape == whole.shape
    assert not np.allclose(rows, whole)
    # the fold of each row is found by changing one target
    changed = y.copy()
    changed[7] = not y[7] if labels else y[7] + 5
    other = metric.fit_transform(X, changed)

    def distances(rows):
        return np.linalg.norm(rows[7] - rows, axis=1)

    same = np.isclose(distances(rows), distances(other), rtol=1e-6)
    if not labels:  # folds are stratified by labels
        assert same.sum() == 6  # of ten folds, including the row itself


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("labels", [False, True])
def test_strong_signals_do_not_suffer_from_other_metrics(labels):
    """Differences between the metrics of folds would be most of the errors."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1150, 6))
    y = np.sin(X[:, 0]) + X[:, 1] ** 2
    y = y > 0.5 if labels else y
    metric = LearnedMetric(method="agop", columns="linear", random_state=0)
    kind = LocalLinearClassifier if labels else LocalLinearRegressor
    rows = metric.fit(X[:150], y[:150]).transform(X)
    expected = kind().fit(rows[:150], y[:150]).score(rows[150:], y[150:])
    model = make_pipeline(metric, kind()).fit(X[:150], y[:150])
    assert 1 - model.score(X[150:], y[150:]) < 1.1 * (1 - expected)


@pytest.mark.parametrize(
    "columns, seed",
    [
        ("linear", 0),
        pytest.param("auto", 0, marks=pytest.mark.slow),
        pytest.param("auto", 1, marks=pytest.mark.slow),  # with the third fixed split
    ],
)
def test_cells_of_a_design(columns, seed):
    """Rows of few distinct values, where the metrics of folds are not comparable."""
    path = Path(os.environ.get("SKLEARN_CRT_DATA", ""), "ucireg", "energy.csv.gz")
    if not path.exists():
        pytest.skip("SKLEARN_CRT_DATA has no ucireg/energy.csv.gz")
    table = np.loadtxt(path, delimiter=",")
    X, y = table[:, :-1], table[:, -1] / table[:, -1].std()
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:650], order[650:]
    if seed:
        mask = np.loadtxt(path.with_name("energy.mask.csv.gz"), delimiter=",")[:, 2]
        test, train = np.flatnonzero(mask), np.flatnonzero(mask == 0)
    metric = LearnedMetric(columns=columns, random_state=seed)
    rows = metric.fit(X[train], y[train]).transform(X)
    model = LocalLinearRegressor().fit(rows[train], y[train])
    expected = np.sqrt(np.mean((model.predict(rows[test]) - y[test]) ** 2))
    model = make_pipeline(metric, LocalLinearRegressor()).fit(X[train], y[train])
    error = np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))
    assert error < 1.1 * expected


@pytest.mark.slow
def test_many_classes_with_a_moderate_signal():
    """The metrics of folds differ too much to compare chess positions in them."""
    try:
        X, y = fetch_uci("chess", return_X_y=True, download_if_missing=False)
    except OSError:
        pytest.skip("the chess data are not here")
    order = np.random.default_rng(0).permutation(len(y))[:4000]
    X, y = OneHotEncoder(sparse_output=False).fit_transform(X)[order], y[order]
    metric = LearnedMetric(random_state=0)
    rows = metric.fit(X[:2100], y[:2100]).transform(X)
    model = NadarayaWatsonClassifier()
    expected = model.fit(rows[:2100], y[:2100]).score(rows[2100:], y[2100:])
    model = make_pipeline(metric, model).fit(X[:2100], y[:2100])
    assert model.score(X[2100:], y[2100:]) > expected - 0.02


def test_weights_and_types(rng):
    X = rng.normal(size=(80, 4)).astype(np.float32)
    y, weights = X[:, 0], rng.integers(0, 3, size=80)
    metric = LearnedMetric(method="evidence", random_state=0)
    rows = metric.fit_transform(X, y, sample_weight=weights)
    assert rows.dtype == np.float32
    assert_allclose(rows[weights == 0], metric.transform(X[weights == 0]), rtol=1e-5)
    constant = metric.fit_transform(X, np.ones(80))
    assert_allclose(constant, metric.transform(X))


@pytest.mark.parametrize(
    ("of_numbers", "of_labels", "n_rows", "n_columns", "n_tables"),
    [
        ("evidence", "agop", 60, 12, 5),
        pytest.param("evidence", "agop", 60, 12, 10, marks=pytest.mark.slow),
        pytest.param("auto", "auto", 100, 20, 10, marks=pytest.mark.slow),
    ],
)
def test_steps_of_a_pipeline_are_honest_on_noise(
    of_numbers, of_labels, n_rows, n_columns, n_tables, request, monkeypatch
):
    """Means over tables; with rows in the metric of all rows, they are far off."""
    if not request.node.get_closest_marker("slow"):
        monkeypatch.setattr("sklearn_crt.life_cycle.out_of_fold._MOST_FOLDS", 5)
    cover, ratios, losses = [], [], []
    columns = "auto" if of_numbers == "auto" else "linear"
    metric, of_labels = (
        LearnedMetric(method=method, columns=columns, random_state=0)
        for method in (of_numbers, of_labels)
    )
    train, test = slice(n_rows), slice(n_rows, None)
    for seed in range(n_tables):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(n_rows + 600, n_columns)), rng.normal(size=n_rows + 600)
        model = make_pipeline(metric, LocalLinearRegressor()).fit(X[train], y[train])
        low, high = model[-1].predict_interval(model[:-1].transform(X[test])).T
        cover.append(np.mean((low <= y[test]) & (y[test] <= high)))
        errors = model.predict(X[test]) - y[test]
        ratios.append(
            np.sqrt(np.mean(errors**2) / np.mean((y[test] - y[train].mean()) ** 2))
        )
        labels = y > 0.5
        steps = make_pipeline(of_labels, LocalLinearClassifier())
        found = steps.fit(X[train], labels[train]).predict_proba(X[test])
        share = np.full(600, labels[train].mean())
        losses.append(log_loss(labels[test], found) - log_loss(labels[test], share))
    assert 0.86 < np.mean(cover) < 0.94
    assert np.mean(ratios) < 1.03
    assert np.mean(losses) < 0.03
