"""Scores of similarity to the training rows, by hand and for rows that are unlike."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist
from scipy.stats import kstest
from sklearn.base import clone

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
)

KINDS = [
    NadarayaWatsonRegressor(sigma=1.5),
    NadarayaWatsonClassifier("laplacian", sigma=1.5),
    LocalLinearRegressor(sigma=1.5, alpha=0.1),
    LocalLinearClassifier(sigma=1.5, alpha=0.1),
]


def share_at_most(values, new):
    return np.mean(values <= new[:, None], axis=1)


def test_definition(rng):
    X, Q = rng.normal(size=(200, 3)), 2 * rng.normal(size=(50, 3))
    model = NadarayaWatsonRegressor(sigma=1.5).fit(X, X[:, 0])
    squares, deviations = cdist(X, X, "sqeuclidean"), X.std(axis=0)
    weights = np.exp(-0.5 * 1.5**2 * squares).sum(axis=1) - 1
    near = np.sort(cdist(X / deviations, X / deviations), axis=1)[:, 1:6].mean(axis=1)
    logs = np.log(np.exp(-0.5 * 1.5**2 * cdist(Q, X, "sqeuclidean")).sum(axis=1))
    far = np.sort(cdist(Q / deviations, X / deviations), axis=1)[:, :5].mean(axis=1)
    own, new = (
        np.minimum(share_at_most(np.log(weights), a), share_at_most(-near, -b))
        for a, b in ((np.log(weights), near), (logs, far))
    )
    expected = share_at_most(own, new)
    assert 0 == expected.min() < expected.max() < 1
    assert_allclose(model.score_samples(Q), expected, atol=1e-12)


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_scores_of_new_rows_are_uniform(model, rng):
    X, Q = np.split(rng.normal(size=(4000, 4)), 2)
    fitted = clone(model).fit(X, X[:, 0] > 0)
    # the scores of the training rows, of which they are quantiles, vary as much
    assert kstest(fitted.score_samples(Q), "uniform").pvalue > 1e-9
    assert_array_equal(fitted.score_samples(9 + Q), 0)


def test_a_change_in_a_column_that_the_metric_ignores(rng):
    """It has no effect on the targets of the training rows, but it is a change."""
    X = rng.normal(size=(900, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    # with hat functions, directions that hardly matter are left out
    metric = LearnedMetric(columns="linear", random_state=0).fit(X[:400], y[:400])
    assert metric.feature_importances_[4] < 0.01
    model = LocalLinearRegressor().fit(metric.transform(X[:400]), y[:400])
    Q = X[400:].copy()
    assert model.score_samples(metric.transform(Q)).mean() > 0.4
    Q[:, 4] += 8
    assert np.median(model.score_samples(metric.transform(Q))) < 0.01


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_scores_do_not_depend_on_batches(model, rng):
    X = np.round(rng.normal(size=(150, 3)), 1)
    y, Q = (X[:, 0] > 0).astype(int), rng.normal(size=(40, 3))
    counts = rng.integers(1, 4, 150)
    whole = clone(model).fit(X, y, counts)
    expected = whole.score_samples(Q)
    first = {"classes": [0, 1]} if hasattr(model, "predict_proba") else {}
    parts = [clone(model).partial_fit(X[:1], y[:1], **first) for _ in range(2)]
    parts[0] = clone(model).partial_fit(
        X[:90], y[:90], sample_weight=counts[:90], **first
    )
    parts[1] = clone(model).partial_fit(
        X[90:], y[90:], sample_weight=counts[90:], **first
    )
    parts[0].score_samples(Q)
    merged = parts[0].merge(parts[1])
    assert_allclose(merged.score_samples(Q), expected, atol=1e-9)
    again = pickle.loads(pickle.dumps(merged.freeze()))
    assert_allclose(again.score_samples(Q), expected, atol=1e-9)
    table = clone(model).fit(sparse.csr_array(X), y, counts)
    assert_allclose(table.score_samples(sparse.csr_array(Q)), expected, atol=1e-9)
    single = whole.score_samples(Q.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, expected, atol=0.02)


def test_few_rows_and_equal_ones():
    for X in (np.zeros((1, 2)), np.zeros((5, 2)), np.eye(2)):
        model = NadarayaWatsonRegressor().fit(X, np.arange(len(X)))
        found = model.score_samples(np.eye(2))
        assert np.all((found >= 0) & (found <= 1))


def test_what_keeps_no_rows_has_no_scores(rng):
    X = 0.1 * rng.normal(size=(50, 3))
    for kernel in (OPRFSampler(random_state=0), Prototypes(9, random_state=0)):
        model = NadarayaWatsonRegressor(kernel).fit(X, X[:, 0])
        assert not hasattr(model, "score_samples")


@pytest.mark.usefixtures("few_folds")
def test_new_rows_are_as_similar_as_training_rows_in_a_metric():
    """Its columns are principal components, which make training rows too similar."""
    medians = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(550, 20))
        y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=550)
        metric = LearnedMetric(method="evidence", columns="linear", random_state=0)
        model = LocalLinearRegressor(metric=metric).fit(X[:50], y[:50])
        medians.append(np.median(model.score_samples(X[50:])))
        assert np.median(model.score_samples(4 * X[50:])) == 0
    assert 0.4 < np.mean(medians) < 0.75
