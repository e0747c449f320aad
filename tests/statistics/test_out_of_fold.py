"""Predictions by models of folds: few rows, a metric that is learned, and groups."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    AnovaSampler,
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.life_cycle.out_of_fold import (
    Recalibration,
    conformal_quantiles,
    fold_numbers,
)
from sklearn_crt.tables import TableClassifier, TableRegressor

METRIC = LearnedMetric(method="evidence", columns="linear", random_state=0)
RIDGE = RandomFeatureRidge(n_components=40, random_state=0)
REGRESSORS = [NadarayaWatsonRegressor(), LocalLinearRegressor(), RIDGE]
CLASSIFIERS = [
    NadarayaWatsonClassifier(),
    NadarayaWatsonClassifier(OPRFSampler(n_components=400, random_state=0)),
    LocalLinearClassifier(),
    RandomFeatureRidgeClassifier(n_components=40, random_state=0),
]


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=60)
    return X, y, rng.normal(size=(20, 3))


# -------------------------------------------------------------------------- quantiles
def test_quantiles_are_those_of_weibull_with_infinite_ends(rng):
    values = rng.normal(size=(3, 2, 23))
    levels = np.array([0.0, 0.03, 0.05, 0.3, 0.5, 0.7, 0.95, 0.97, 1.0])
    found = conformal_quantiles(values, np.ones(23), 1.0, levels)
    expected = np.quantile(values, levels, axis=-1, method="weibull")
    inside = (levels >= 1 / 24) & (levels <= 23 / 24)
    expected = np.moveaxis(expected, 0, -1)[..., inside]
    assert_allclose(found[..., inside], expected, atol=1e-9)
    assert np.isneginf(found[..., levels < 1 / 24]).all()
    assert np.isposinf(found[..., levels > 23 / 24]).all()
    unit = conformal_quantiles(values, np.full(23, 7.0), 7.0, levels)
    assert_allclose(unit, found, atol=1e-9)


@pytest.mark.parametrize("labels", [None, np.arange(103) % 3])
def test_folds_are_balanced(labels):
    found = fold_numbers(103, labels, None)
    sizes = np.bincount(found)
    assert len(sizes) == 10
    assert np.ptp(sizes) <= 1
    if labels is not None:
        of_class = np.array([np.bincount(found[labels == k]) for k in range(3)])
        assert np.ptp(of_class, axis=1).max() <= 1


def test_folds_of_groups_keep_groups_together():
    groups = np.repeat(np.arange(25), np.arange(1, 26))
    found = fold_numbers(len(groups), None, groups)
    assert all(len(np.unique(found[groups == g])) == 1 for g in range(25))
    sizes = np.bincount(found)
    assert len(sizes) == 10
    assert sizes.max() < 1.5 * sizes.min()
    assert len(np.unique(fold_numbers(30, None, np.arange(30) // 10))) == 3


# -------------------------------------------------------------------------- few rows
def test_intervals_of_few_rows_are_those_of_the_definition(table):
    """CV+ with errors that are divided by their relative standard deviations."""
    X, y, Q = table
    y = np.c_[y, X[:, 2] + y]
    model = clone(RIDGE).set_params(sigma=0.5, alpha=0.5, clip=False).fit(X, y)
    folds, values = fold_numbers(60, None, None), []
    for fold in range(10):
        own = clone(model).fit(X[folds != fold], y[folds != fold])

        def parts(rows, own=own):
            mean, std = own.predict(rows, return_std=True)
            return mean, std / np.sqrt(own.noise_variance_)

        mean, scale = parts(X[folds == fold])
        ratios = (y[folds == fold] - mean) / scale
        mean, scale = parts(Q)
        values.append(mean[:, None] + ratios * scale[:, None])
    levels = [0.04, 0.3, 0.5, 0.95]
    expected = np.quantile(np.concatenate(values, 1), levels, axis=1, method="weibull")
    found = model.predict_quantiles(Q, levels)
    assert_allclose(found, np.moveaxis(expected, 0, -1), rtol=1e-6)


@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_levels_that_few_rows_cannot_have_are_infinite(model, table):
    X, y, Q = table
    for n in (1, 2, 5, 18):
        ends = clone(model).fit(X[:n], y[:n]).predict_interval(Q, 0.9)
        assert_array_equal(ends, [[-np.inf, np.inf]] * 20)
    model = clone(model).fit(X[:20], y[:20])
    assert np.isfinite(model.predict_interval(Q, 0.9)).all()
    assert np.isinf(model.predict_interval(Q, 0.99)).all()


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_few_rows_in_batches_and_frozen(model, table):
    X, y, Q = table
    whole = clone(model).fit(X, y)
    expected = whole.predict_interval(Q)
    batches = clone(model).partial_fit(X[:25], y[:25]).partial_fit(X[25:], y[25:])
    assert_allclose(batches.predict_interval(Q), expected, rtol=1e-6)
    frozen = pickle.loads(pickle.dumps(clone(model).fit(X, y).freeze()))
    assert_array_equal(frozen.predict_interval(Q), expected)
    before = whole.predict(Q, return_std=True)
    for a, b in zip(before, frozen.predict(Q, return_std=True), strict=True):
        assert_allclose(a, b, rtol=1e-6)
    # parameters that are set later are those of the next fit
    assert_array_equal(whole.set_params(sigma=9.0).predict_interval(Q), expected)


def test_a_random_state_is_not_changed_by_queries(table):
    X, y, Q = table
    state = np.random.RandomState(0)
    model = RandomFeatureRidge(n_components=30, random_state=state).fit(X, y)
    before = state.get_state()[1].copy()
    model.predict_interval(Q)
    assert_array_equal(state.get_state()[1], before)


# --------------------------------------------------------------------- learned metric
@pytest.mark.usefixtures("few_folds")
@pytest.mark.each_value
@pytest.mark.parametrize("n_rows", [60, 240])
@pytest.mark.parametrize("model", REGRESSORS, ids=str)
def test_numbers_in_a_metric(model, n_rows, rng):
    X = rng.normal(size=(n_rows, 5)) * [1, 10, 0.1, 1, 1]
    y = np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=n_rows)
    Q = X[:30] + 0.01
    found = clone(model).set_params(metric=METRIC).fit(X, y)
    metric = clone(METRIC).fit(X, y)
    plain = clone(model).fit(metric.transform(X), y).predict(metric.transform(Q))
    changes, expected = found.predict(Q) - y.mean(), plain - y.mean()
    slope = changes @ expected / (expected @ expected)
    assert 0.5 < slope <= 1
    assert_allclose(changes, slope * expected, atol=1e-9)
    mean, std = found.predict(Q, return_std=True)
    assert_array_equal(mean, found.predict(Q))
    assert np.all(std > 0)
    low, high = found.predict_interval(Q).T
    assert np.all((low < mean) & (mean < high))
    assert np.all(found.score_samples(Q) >= 0)
    frozen = pickle.loads(pickle.dumps(clone(found).fit(X, y).freeze()))
    assert_allclose(frozen.predict_interval(Q), np.c_[low, high], rtol=1e-6)
    with sklearn.config_context(transform_output="pandas"):
        assert_allclose(clone(found).fit(X, y).predict(Q), mean)
    single = clone(found).fit(X.astype(np.float32), y)
    assert_allclose(single.predict(Q.astype(np.float32)), mean, atol=0.05)


@pytest.mark.parametrize("columns", ["linear", "hats"])
def test_slopes_in_a_metric_are_derivatives(columns, rng):
    """For a wide kernel, slopes are the derivatives of the predictions."""
    X = rng.normal(size=(220, 3)) * [1, 10, 1]
    y = 2 * X[:, 0] + 0.1 * rng.normal(size=220)
    metric = LearnedMetric(method="agop", columns=columns, random_state=0)
    model = LocalLinearRegressor(sigma=1e-3, alpha=0.0, metric=metric).fit(X, y)
    rows, step = X[:20] + 1e-3, 1e-5
    for j in range(3):
        moved = rows.copy()
        moved[:, j] += step
        expected = (model.predict(moved) - model.predict(rows)) / step
        assert_allclose(model.slopes(rows)[:, j, 0], expected, atol=1e-3)


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("model", CLASSIFIERS, ids=str)
def test_labels_in_a_metric(model):
    X, y = load_iris(return_X_y=True)
    names = np.array(list("abc"))[y]
    model = clone(model).set_params(metric=METRIC).fit(X[::2], names[::2])
    found = model.predict_proba(X[1::2])
    assert_allclose(found.sum(axis=1), 1)
    assert np.all((found > 0) & (found < 1))
    labels = model.predict(X[1::2])
    assert_array_equal(labels, model.classes_[found.argmax(axis=1)])
    assert np.mean(labels == names[1::2]) > 0.9
    assert model.decision_function(X[1::2]).shape == (75, 3)


@pytest.mark.usefixtures("few_folds")
def test_nothing_learned_from_noise(rng):
    """Probabilities are those of the classes, and predictions are the mean target."""
    X = rng.normal(size=(240, 15))
    y = (rng.random(240) < 0.25).astype(int)
    for model in (LocalLinearClassifier(), NadarayaWatsonClassifier()):
        model.set_params(metric=METRIC).fit(X, y)
        found = model.predict_proba(rng.normal(size=(500, 15)))[:, 1]
        assert np.ptp(np.quantile(found, [0.05, 0.95])) < 0.25
    noise = rng.normal(size=240)
    model = LocalLinearRegressor(metric=METRIC).fit(X, noise)
    assert model.predict(rng.normal(size=(500, 15))).std() < 0.3


def test_a_metric_needs_all_rows_and_numbers(table):
    X, y, _ = table
    model = RandomFeatureRidge(n_components=30, metric=METRIC)
    with pytest.raises(ValueError, match="batches of rows cannot be added with metric"):
        model.partial_fit(X, y)
    model.fit(X, y)
    with pytest.raises(ValueError, match="need all rows at once"):
        model.merge(clone(model).fit(X, y))
    with pytest.raises(ValueError, match="must be None or a LearnedMetric"):
        NadarayaWatsonRegressor(metric=StandardScaler()).fit(X, y)
    with pytest.raises(ValueError, match="processes raw tables"):
        RandomFeatureRidge(AnovaSampler(), metric=METRIC).fit(X, y)


# ---------------------------------------------------------------------------- groups
def dependent(rng, n_groups, n_rows=8):
    """Return rows with a random intercept for each group, which columns identify."""
    groups = np.repeat(np.arange(n_groups), n_rows)
    place = 2 * rng.normal(size=(n_groups, 2))
    X = np.c_[rng.normal(size=(len(groups), 1)), place[groups]]
    y = X[:, 0] + rng.normal(size=n_groups)[groups] + 0.3 * rng.normal(size=len(groups))
    return X, y, groups


@pytest.mark.parametrize(
    "model",
    [
        REGRESSORS[0],
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in (*REGRESSORS[1:], TableRegressor(random_state=0))
        ),
    ],
    ids=str,
)
def test_intervals_cover_rows_of_new_groups(model):
    """The bounds are six standard errors, of 40 groups and five draws, from 0.9."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y, groups = dependent(rng, 40, 6)
        new, target, _ = dependent(rng, 200, 2)
        low, high = clone(model).fit(X, y, groups=groups).predict_interval(new).T
        found.append(np.mean((low <= target) & (target <= high)))
    margin = 6 * np.sqrt(0.09 / 42 / 5)
    assert 0.86 - margin < np.mean(found) < 0.94 + margin


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize(
    "model",
    [
        *CLASSIFIERS,
        pytest.param(TableClassifier(random_state=0), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_labels_of_new_groups(model, rng):
    """The labels of a group are equal, and its columns say nothing of other groups."""
    groups = np.repeat(np.arange(40), 6)
    X = rng.normal(size=(240, 3)) * 0.1 + rng.normal(size=(40, 3))[groups]
    y = rng.integers(0, 2, 40)[groups]
    new = rng.normal(size=(500, 3))
    certain = clone(model).fit(X, y).predict_proba(new)[:, 1]
    found = clone(model).fit(X, y, groups=groups).predict_proba(new)[:, 1]
    assert np.std(found) < 0.6 * np.std(certain)


@pytest.mark.usefixtures("few_folds")
def test_groups_are_checked_and_follow_dropped_rows(table):
    X, y, Q = table
    groups = np.array(list("abcde"))[np.arange(60) % 5]
    weights = np.where(np.arange(60) < 20, 0.0, 1.0)
    model = clone(RIDGE)
    found = model.fit(X, y, weights, groups).predict_quantiles(Q, [0.2, 0.8])
    other = clone(RIDGE).fit(X[20:], y[20:], groups=groups[20:])
    assert_allclose(found, other.predict_quantiles(Q, [0.2, 0.8]), rtol=1e-6)
    with pytest.raises(ValueError, match="groups has 59 labels, but X has 60 rows"):
        model.fit(X, y, groups=groups[1:])
    with pytest.raises(ValueError, match="at least two different labels"):
        model.fit(X, y, groups=np.zeros(60))
    table = TableRegressor().fit(X[:30], y[:30], groups=groups[:30])
    for other in (model, table):
        with pytest.raises(ValueError, match="need all rows at once"):
            other.merge(clone(other).fit(X, y))


def test_groups_are_routed_to_fits_and_splitters(table):
    X, y, _ = table
    groups = np.arange(60) // 3
    with sklearn.config_context(enable_metadata_routing=True):
        model = clone(RIDGE).set_fit_request(groups=True, sample_weight=False)
        found = cross_validate(
            model,
            X,
            y,
            cv=GroupKFold(4),
            params={"groups": groups},
            return_estimator=True,
        )
    assert all(each._value.folds is not None for each in found["estimator"])


def test_recalibration_of_useless_probabilities(rng):
    """The slope is 0 if the labels do not depend on the probabilities."""

    class Rows:
        y = np.tile([0, 0, 0, 1], 100)
        weights = np.ones(400)
        groups = None

    p = rng.uniform(0.001, 0.999, 400)
    p[Rows.y == 1] = np.sort(p[Rows.y == 1])[::-1]
    both = np.c_[1 - p, p]
    found = Recalibration.of(both, Rows)(both)
    assert found[:, 1].std() < 0.05
    assert_allclose(found.mean(axis=0), [0.75, 0.25], atol=0.02)
    labels = (rng.random(400) < p).astype(int)
    Rows.y = labels
    found = Recalibration.of(both, Rows)(both)
    assert abs(found[:, 1] - p).max() < 0.15


def test_models_of_folds_are_stored_in_single_precision(table):
    """The models of ten folds are the largest part of a frozen model of few rows.

    None of them is larger than the model that predicts.
    """
    X, y, Q = table
    model = RandomFeatureRidge(random_state=0).fit(X, y).freeze()
    value = model._value
    size, of_predictions = (
        len(pickle.dumps(each)) for each in (value, replace(value, folds_of_few=None))
    )
    assert size < 11 * of_predictions
    assert_allclose(model.predict_interval(Q), precise_interval(X, y, Q), rtol=1e-4)


def precise_interval(X, y, Q):
    """Return 90 % intervals from models of folds that are fitted one by one."""
    folds, values = fold_numbers(len(y), None, None), []
    for fold in range(10):
        own, rest = folds == fold, folds != fold
        model = RandomFeatureRidge(random_state=0).fit(X[rest], y[rest])
        mean, std = model.predict(X[own], return_std=True)
        ratios = (y[own] - mean) / std
        mean, std = model.predict(Q, return_std=True)
        values.append(mean[:, None] + ratios * std[:, None])
    levels = [0.05, 0.95]
    found = np.quantile(np.concatenate(values, 1), levels, axis=1, method="weibull")
    return found.T
