"""Blends of ANOVA, logistic and local linear models."""

import pickle
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from joblib import parallel_config
from scipy.optimize import minimize_scalar
from scipy.stats import entropy
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from sklearn_crt import (
    AnovaSampler,
    LearnedMetric,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.life_cycle.fitted import with_value
from sklearn_crt.rows.raw_table import TableReader
from sklearn_crt.tables import EffectsDisplay, TableClassifier, TableRegressor
from sklearn_crt.tables._blend import blend_weights
from sklearn_crt.tables._parts import Part, TableRows, TargetRange

from .test_anova_sampler import mixed_table

pd = pytest.importorskip("pandas")
plt = pytest.importorskip("matplotlib.pyplot")

pytestmark = pytest.mark.usefixtures("few_folds_in_module")

FEW = 120  # rows, which is enough for two folds


@pytest.fixture(scope="module")
def table(few_folds_in_module):
    return mixed_table(400)


@pytest.fixture(scope="module")
def model(table):
    X, y = table
    return TableRegressor(n_folds=2, random_state=0).fit(X[:300], y[:300])


@pytest.fixture(scope="module")
def small(table):
    X, y = table
    return TableRegressor(n_folds=2, random_state=0).fit(X[:FEW], y[:FEW])


@pytest.fixture(scope="module")
def classifier(table):
    X, y = table
    labels = np.where(y > 0, "yes", "no")
    return TableClassifier(n_folds=2, random_state=0).fit(X[:300], labels[:300])


def test_blend_is_the_weighted_average_of_its_parts(table, model, value_of):
    X, y = table
    assert sum(model.weights_.values()) == pytest.approx(1)
    assert model.weights_.keys() == {"ANOVA", "linear", "local linear", "trees"}
    assert model.score(X[300:], y[300:]) > 0.7
    blend, V = value_of(model).solution, TableReader.of(X).read(X)
    inputs = {
        "ANOVA": blend.anova.features(V),
        "linear": V,
        "local linear": blend.encoding.one_hot(V),
        "trees": V,
    }
    total = sum(
        weight * blend.parts[name].predict(inputs[name])
        for name, weight in model.weights_.items()
        if weight
    )
    np.testing.assert_allclose(model.predict(X), total[:, 0], atol=1e-12)


def test_logistic_part_has_features_and_columns(table, value_of, rng):
    X, y = table
    y = y + 0.8 * rng.normal(size=len(y))
    names = np.where(y > 0, "yes", "no")
    parts = ["ANOVA", "logistic"]
    classifier = TableClassifier(parts=parts, random_state=0).fit(X[:300], names[:300])
    value, V = value_of(classifier), TableReader.of(X).read(X)
    blend, seed = value.solution, value.choices.seed
    categories = [
        j for j, kind in enumerate(TableReader.of(X).kinds) if kind == "category"
    ]
    rows = TableRows.of(V[:300], np.where(y > 0, 1, 0)[:300], np.ones(300), None, seed)
    sampler = AnovaSampler(categories=categories, random_state=seed)
    features = sampler.fit(rows.V, rows.y).transform(V)
    columns = np.hstack([features, blend.encoding.one_hot(V)])
    labels = np.where(y > 0, 1, 0)
    model = LogisticRegression(C=0.3, tol=1e-6, max_iter=1000)
    expected = model.fit(columns[:300], labels[:300]).predict_proba(columns)
    own = np.hstack([blend.anova.features(V), blend.encoding.one_hot(V)])
    found = blend.parts["logistic"].predict(own)
    np.testing.assert_allclose(found, expected, atol=0.004)  # probabilities have limits


@pytest.mark.parametrize("n_columns", [3, 5])
def test_losses_of_a_table_with_few_distinct_rows(rng, n_columns):
    # If all copies of a row are in one fold, its prediction is learned from rows that
    # have equal columns but another target.
    X = rng.integers(0, 2, (1600, n_columns)).astype(float)
    X[:, 1:] *= rng.random((1600, 1)) < 0.3  # most rows are equal to many others
    p = np.where(X[:, 0] > 0, 0.9, 0.1)
    y = (rng.random(1600) < p).astype(int)
    model = TableClassifier(random_state=0).fit(X[:800], y[:800])  # without warning
    assert model.losses_
    deviation = np.sqrt(0.09) * np.log(9)  # of the loss of one row
    for loss in model.losses_.values():
        assert loss == pytest.approx(entropy([0.1, 0.9]), abs=5 * deviation / 800**0.5)


def test_weights_have_the_least_loss(rng):
    y = rng.normal(size=200)
    found = [y[:, None] + rng.normal(0, s, (200, 1)) for s in (0.5, 1.0)]
    rows = TableRows(np.empty((200, 0)), y, rng.integers(1, 4, 200).astype(float))

    def loss(w, found=found):
        blended = w * found[0] + (1 - w) * found[1]
        return rows.weights @ (blended[:, 0] - y) ** 2

    best = minimize_scalar(loss, bounds=(0, 1), method="bounded").x
    weights = blend_weights(found, rows, TargetRange.of(y, rows.weights, None))
    np.testing.assert_allclose(weights, [best, 1 - best], atol=1e-4)

    codes = rng.integers(0, 2, 200)
    right = np.clip(0.5 + 0.3 * rng.normal(size=(2, 200)) + 0.2, 0.05, 0.95)
    ps = [
        np.where(np.c_[codes == 0, codes == 1], p[:, None], 1 - p[:, None])
        for p in right
    ]
    rows = rows._replace(y=codes, weights=np.where(right[0] > right[1], 2.0, 1.0))

    def log_loss_of(w):
        blended = w * ps[0] + (1 - w) * ps[1]
        return -rows.weights @ np.log(blended[np.arange(200), codes])

    best = minimize_scalar(log_loss_of, bounds=(0, 1), method="bounded").x
    weights = blend_weights(ps, rows, TargetRange.of(codes, rows.weights, 2))
    np.testing.assert_allclose(weights[0], best, atol=0.02)


def test_intervals_cover(table, model):
    X, y = table
    low, high = model.predict_interval(X[300:], coverage=0.8).T
    covered = np.mean((low <= y[300:]) & (y[300:] <= high))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.8 * 0.2 * (1 / 100 + 1 / 300))
    median = model.predict_quantiles(X, 0.5)
    ends = model.predict_quantiles(X, [0.5 - 0.4, 0.5 + 0.4])
    np.testing.assert_array_equal(model.predict_interval(X, coverage=0.8), ends)
    assert np.all((ends[:, 0] < median) & (median < ends[:, 1]))


def test_standard_deviations_are_those_of_cross_validated_errors(table, model):
    X, y = table
    mean, std = model.predict(X[300:], return_std=True)
    np.testing.assert_array_equal(mean, model.predict(X[300:]))
    ratio = np.mean(((y[300:] - mean) / std) ** 2)
    # four standard errors for 100 and 300 squared errors, whose standard deviation is
    # assumed to be at most twice that of squared normal numbers
    assert abs(ratio - 1) < 4 * 2 * np.sqrt(2 / 100 + 2 / 300)
    few = TableRegressor(random_state=0).fit(X[:30], y[:30])
    low, high = few.predict_interval(X[300:]).T
    _, std = few.predict(X[300:], return_std=True)
    assert np.all((std > 0) & (std < high - low))


@pytest.mark.parametrize("name", ["model", "classifier"])
def test_similarity_is_a_quantile_of_left_out_rows(table, name, request):
    X, _ = table
    fitted = request.getfixturevalue(name)
    new = X[300:]
    scores = fitted.score_samples(new)
    assert np.all((scores >= 0) & (scores <= 1))
    # quantiles of 100 new rows among 300 have deviations below .5 sqrt(1/100 + 1/300)
    for level in 0.2, 0.5, 0.8:
        assert abs(np.mean(scores <= level) - level) < 4.5 * 0.5 * np.sqrt(1 / 75)
    numbers = new.select_dtypes("number").columns
    for column in numbers:  # beyond all training values
        shifted = new.assign(**{column: X[column].max() + 5 * X[column].std()})
        assert np.median(fitted.score_samples(shifted)) < 0.02
    np.testing.assert_array_equal(fitted.score_samples(new[:7]), scores[:7])


def test_effects_and_remainder_sum_to_predictions(table, model):
    X, _ = table
    found = model.effects(X)
    total = found.values.sum(axis=1) + found.intercept
    np.testing.assert_allclose(total, model.predict(X), atol=1e-10)
    assert found.names[0] == "size"
    assert found.names[-1] == "remainder"
    assert model.feature_importances_.argmax() in (0, 1)


def test_probabilities(table, classifier):
    X, y = table
    p = classifier.predict_proba(X[300:])
    np.testing.assert_allclose(p.sum(axis=1), 1)
    labels = np.where(y > 0, "yes", "no")[300:]
    assert log_loss(labels, p) < 0.5
    assert classifier.score(X[300:], labels) > 0.85
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert [*classifier.weights_] == [
        *("ANOVA", "logistic", "linear", "local linear", "trees")
    ]
    losses = classifier.losses_
    assert losses.pop("linear") < np.log(2)  # the targets are hardly linear
    assert max(losses.values()) < 0.5


@pytest.mark.parametrize(
    "backend", ["threading", pytest.param("loky", marks=pytest.mark.slow)]
)
def test_batches_and_workers_do_not_matter(backend, table, small):
    X, y = (part[:FEW] for part in table)
    model = clone(small).fit(X, y)
    with parallel_config(backend=backend):  # two processes take seconds to start
        other = clone(model).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_allclose(other.predict(X), model.predict(X), atol=1e-6)
    merged = clone(model).fit(X[:60], y[:60])
    merged.merge(clone(model).fit(X[60:], y[60:]))
    np.testing.assert_array_equal(merged.predict(X), model.predict(X))
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))


def test_units_of_targets_do_not_matter(table, small):
    """The folds do not depend on the targets, which determine the weights."""
    X, y = (part[:FEW] for part in table)
    for scale, shift in ((1, 1000), (-0.3, 0)):
        other = clone(small).fit(X, scale * y + shift)
        assert other.weights_ == pytest.approx(small.weights_, abs=1e-4)
        found = (other.predict(X) - shift) / scale
        np.testing.assert_allclose(found, small.predict(X), atol=1e-4)


def test_folds_do_not_warn_of_many_classes(table):
    X, _ = table
    labels = np.arange(80) % 40  # half as many as rows, more than half of a fold's
    probabilities = TableClassifier(random_state=0).fit(X[:80], labels).predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)


def test_class_weights_move_probabilities(table, classifier):
    X, y = table
    labels = np.where(y > 0, "yes", "no")
    heavy = TableClassifier(class_weight={"yes": 10.0}, random_state=0)
    p = heavy.fit(X[:300], labels[:300]).predict_proba(X)[:, 1]
    assert p.mean() > classifier.predict_proba(X)[:, 1].mean() + 0.03


def test_balanced_classes_have_equal_total_weights(rng):
    """After multiplication by the sample weights; repeated rows are the same."""
    X = rng.normal(size=(FEW, 3))
    y = (X[:, 0] + rng.normal(size=FEW) > 0.8).astype(int)
    weights = np.where(y == 1, 4.0, 1.0)
    parts = ["ANOVA", "logistic"]  # the weights of rows are those of all parts
    model = TableClassifier(
        class_weight="balanced", n_folds=2, parts=parts, random_state=0
    )
    plain = clone(model).fit(X, y)
    weighted = clone(model).fit(X, y, weights)
    np.testing.assert_allclose(
        weighted.predict_proba(X), plain.predict_proba(X), atol=1e-9
    )
    shares = np.bincount(y) / FEW
    factors = dict(enumerate(0.5 / shares))
    given = clone(model).set_params(class_weight=factors).fit(X, y)
    np.testing.assert_allclose(
        given.predict_proba(X), plain.predict_proba(X), atol=1e-9
    )
    # parts with other proportions: the classes of all rows are balanced
    order = np.argsort(-y, kind="stable")
    parts = np.r_[order[:30], order[-8:]], order[30:-8]
    order = np.concatenate(parts)
    whole = clone(model).fit(X[order], y[order])
    halves = [clone(model).fit(X[k], y[k]) for k in parts]
    merged = halves[0].merge(halves[1])
    np.testing.assert_array_equal(merged.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonClassifier(class_weight="balanced"),
        RandomFeatureRidgeClassifier(class_weight="balanced", n_components=20),
    ],
    ids=str,
)
def test_other_classifiers_refuse_to_merge_balanced_parts(model, rng):
    X = rng.normal(size=(100, 2))
    y = (X[:, 0] > 0.5).astype(int)
    parts = [clone(model).fit(X[k::2], y[k::2]) for k in (0, 1)]
    with pytest.raises(ValueError, match="merge cannot balance"):
        parts[0].merge(parts[1])


def test_class_weights_of_zero_leave_out_a_class(rng):
    X = rng.normal(size=(90, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = TableClassifier(class_weight={1: 0.0}, random_state=0).fit(X, y)
    p = model.predict_proba(X)
    assert np.all(p[:, 1] < 1e-6)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_totals_of_rare_classes(rng):
    """About 10 of 1500 rows; a floor of .002 would add three expected events."""
    X = rng.normal(size=(1500, 2))
    y = (rng.random(1500) < 1 / (1 + np.exp(5.5 - X[:, 0]))).astype(int)
    model = TableClassifier(parts=["ANOVA", "logistic"], n_folds=2, random_state=0)
    p = model.fit(X, y).predict_proba(X)
    n_events = y.sum()
    assert abs(p[:, 1].sum() - n_events) < 3 * np.sqrt(n_events)
    rare = TargetRange.of(y, np.ones(1500), 2)
    certain = rare.bounded(np.array([[1.0, 0.0]]))
    np.testing.assert_allclose(certain[0, 1], n_events / 1500 / 1501)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_effects_of_a_classifier_sum_to_its_probabilities(table, n_classes):
    X, y = table
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = TableClassifier(n_folds=2, random_state=0).fit(X[:210], labels[:210])
    found = model.effects(X)
    total = found.values.sum(axis=1) + found.intercept
    expected = model.decision_function(X)
    np.testing.assert_allclose(total, expected, atol=1e-10)
    assert found.names[-1] == "remainder"
    display = EffectsDisplay.from_estimator(model, X[:60], n_effects=2)
    assert len(display.axes_) == 2
    plt.close(display.figure_)


def test_effects_of_a_part_without_weight_are_not_listed(table, model, value_of):
    """Then importances are those of the local linear part, too."""
    X, _ = table
    value = value_of(model)
    weights = {"ANOVA": 0.0, "local linear": 1.0}
    Z = value.solution.encoding.one_hot(value.sample.X)
    metric = LearnedMetric(random_state=0)
    part = Part(value.solution.targets, LocalLinearRegressor(), metric)
    part = part.fitted(TableRows.of(Z, value.sample.y, np.ones(300), None, 0))
    parts = {**value.solution.parts, "local linear": part}
    blend = value.solution._replace(weights=weights, parts=parts)
    other = with_value(model, replace(value, known=blend))
    found = other.effects(X)
    assert found.names == ["remainder"]
    np.testing.assert_allclose(found.values[:, 0] + found.intercept, other.predict(X))
    importances = other.feature_importances_
    np.testing.assert_allclose(importances.sum(), 1)
    own = np.bincount(
        blend.encoding.one_hot_sources, part.map.feature_importances_, len(importances)
    )
    np.testing.assert_allclose(importances, own)
    display = EffectsDisplay.from_estimator(other, X)
    assert [ax.get_title() for ax in display.axes_] == ["remainder"]
    plt.close(display.figure_)


@pytest.mark.parametrize(
    ("n", "parts"), [(1, {"ANOVA"}), (19, {"ANOVA"}), (39, {"ANOVA", "linear"})]
)
def test_few_rows_leave_few_parts(table, n, parts):
    X, y = table
    model = TableRegressor(random_state=0).fit(X[:n], y[:n])
    assert model.weights_.keys() == parts
    np.testing.assert_allclose(sum(model.weights_.values()), 1)
    only = TableRegressor(parts=["trees", "local linear"], random_state=0)
    if n > 1:  # the others are not available
        assert only.fit(X[:n], y[:n]).weights_.keys() == {"local linear"}
    assert np.isfinite(model.predict(X)).all()
    assert model.effects(X).values.shape[0] == len(X)
    assert model.predict_interval(X[:3]).shape == (3, 2)


def test_a_level_that_a_fold_lacks():
    X, y = mixed_table(600)  # enough that folds use the metric of all rows
    X.loc[3, "shape"] = None
    X["shape"] = X["shape"].astype(object).fillna("once")
    model = TableRegressor(n_folds=2, random_state=0).fit(X, y)
    assert np.isfinite(model.predict(X)).all()


def test_final_local_fit_has_the_metric_of_its_loss(monkeypatch, value_of):
    X, y = mixed_table(700)
    learned, fit = [], LearnedMetric.fit

    def counted(self, *given, **options):
        learned.append(fit(self, *given, **options))
        return learned[-1]

    monkeypatch.setattr(LearnedMetric, "fit", counted)
    parts = ["ANOVA", "local linear"]
    model = TableRegressor(parts=parts, n_folds=2, random_state=0).fit(X, y)
    assert model.weights_["local linear"] > 0
    assert len(learned) == 1
    metric = value_of(model).solution.parts["local linear"].map.estimator
    assert value_of(metric).solution is value_of(learned[0]).solution


def test_many_rows_are_cross_validated_in_part(monkeypatch):
    X, y = mixed_table(1000)
    parts = ["ANOVA", "linear"]
    model = TableRegressor(n_folds=2, parts=parts, random_state=0)
    whole = clone(model).fit(X[:700], y[:700])
    monkeypatch.setattr("sklearn_crt.tables._blend._MANY", 600)
    monkeypatch.setattr("sklearn_crt.tables._blend.MOST_TESTED", 300)
    part = model.fit(X[:700], y[:700])
    assert part.losses_.keys() == whole.losses_.keys() == {*parts}
    for name in parts:  # means of squares of 300 and 700 errors
        ratio = part.losses_[name] / whole.losses_[name]
        assert abs(ratio - 1) < 5 * np.sqrt(2 / 300 + 2 / 700)
    assert part.losses_["ANOVA"] != pytest.approx(whole.losses_["ANOVA"], rel=1e-6)
    assert part.score(X[700:], y[700:]) > whole.score(X[700:], y[700:]) - 0.02


def test_memory_of_predictions_is_bounded(classifier, value_of):
    X = mixed_table(15_000)[0]
    classifier.predict_proba(X[:100])
    tracemalloc.start()
    classifier.predict_proba(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    n_landmarks = len(value_of(classifier).solution.anova.map.root)
    assert peak < len(X) * n_landmarks * 8 / 2  # not the whole kernel matrix at once


def test_more_folds_than_rows_that_are_tested():
    rng = np.random.default_rng(3)  # a table of one column
    X = rng.normal(size=(40, 1))
    y = (X[:, 0] > 0) + 0.01 * rng.normal(size=40)
    many = TableRegressor(parts=["ANOVA", "linear"], n_folds=5000, random_state=0)
    model = clone(many).fit(X, y)
    other = many.set_params(n_folds=40).fit(X, y)
    assert "ANOVA" in model.losses_
    np.testing.assert_array_equal(model.predict(X), other.predict(X))


def test_targets_without_variation(table):
    X, y = (part[:150] for part in table)
    np.testing.assert_allclose(TableRegressor().fit(X, 0 * y + 3).predict(X), 3)
    one = TableClassifier().fit(X, np.full(len(y), "a"))
    assert (one.predict(X) == "a").all()
    rare = np.where(np.arange(len(y)) == 7, "rare", "often")
    assert TableClassifier().fit(X, rare).predict_proba(X).shape == (150, 2)
    eleven = np.append(np.digitize(y[1:], np.quantile(y, np.arange(1, 10) / 10)), 99)
    p = TableClassifier(n_folds=2, random_state=0).fit(X, eleven).predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)


def test_a_fit_that_fails_changes_nothing(table, model):
    X, _ = table
    before = model.predict(X)
    with pytest.raises(ValueError, match="y contains NaN"):
        model.fit(X[["size"]], np.full(len(X), np.nan))
    np.testing.assert_array_equal(model.predict(X), before)
