"""The parts of models for raw tables: exactness of short cuts, weights, and sizes."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss

from sklearn_crt import (
    LearnedMetric,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)
from sklearn_crt.datasets import fetch_uci
from sklearn_crt.tables import AnovaSampler, TableClassifier, TableRegressor
from sklearn_crt.tables._blend import Blend, Folds, _with_weights, geometric_weights
from sklearn_crt.tables._encoding import Encoding
from sklearn_crt.tables._parts import (
    AnovaModel,
    LinearModel,
    TableRows,
    TargetRange,
    Trees,
    ridge_without_folds,
)

from .test_anova_sampler import mixed_table

pd = pytest.importorskip("pandas")


@pytest.fixture
def rows(rng):
    Z = rng.normal(size=(300, 8))
    y = Z[:, 0] - 2 * Z[:, 1] + 0.5 * rng.normal(size=300)
    return TableRows(Z, y, rng.integers(1, 4, 300) / 2.0)


# ------------------------------------------------------------------------ ridge
def test_folds_of_ridge_equal_fits_to_the_other_rows(rows):
    weights = rows.weights / rows.weights.mean()
    rows = rows._replace(weights=weights)
    model = RandomFeatureRidge("linear").fit(rows.V, rows.y, weights)
    folds = Folds.of(rows, 4, None, stratified=False)
    found = ridge_without_folds(model, rows.V, rows, folds.pairs)
    expected = []
    for train, test in folds.pairs:
        fold = Ridge(model.alpha_).fit(rows.V[train], rows.y[train], weights[train])
        expected.append(fold.predict(rows.V[test]))
    limits = rows.y.min(), rows.y.max()
    np.testing.assert_allclose(found[:, 0], np.clip(np.concatenate(expected), *limits))


@pytest.mark.parametrize("cuts", [[0.0], [3.5], [-1.0, 1.0]])
def test_folds_of_ridge_classification(rows, cuts):
    """Also if both classes have the same total weight, and for three classes."""
    codes = np.digitize(rows.y, cuts)
    rows = rows._replace(y=codes, weights=np.ones(300))
    model = RandomFeatureRidgeClassifier("linear").fit(rows.V, codes)
    solution = model._value.solution
    folds = Folds.of(rows, 4, None, stratified=True)
    found = ridge_without_folds(model, rows.V, rows, folds.pairs)
    k = len(cuts) + 1
    T = 2.0 * codes[:, None] - 1 if k == 2 else (codes[:, None] == range(k)) * 1.0
    weights = np.ones(300)
    if solution.is_balanced:
        weights = 300 / (2 * np.bincount(codes))[codes]
    for number, (train, test) in enumerate(folds.pairs):
        fold = Ridge(model.alpha_).fit(rows.V[train], T[train], weights[train])
        scores = fold.predict(rows.V[test]).reshape(len(test), -1)
        expected = solution.calibration.probabilities(scores)
        own = found[sum(len(each) for _, each in folds.pairs[:number]) :][: len(test)]
        np.testing.assert_allclose(own, expected, atol=1e-9)


def test_anova_model_predicts_as_ridge_and_logistic_regression(rng):
    X, y = mixed_table(300)
    codes = (y > 0).astype(int)
    sampler = AnovaSampler(random_state=0).fit(X, y)
    anova, P = sampler._value.solution, sampler.transform(X)
    V = sampler._validated_queries(X)
    ridge = RandomFeatureRidge("linear", clip=False).fit(P, y)
    model, none = AnovaModel.of(anova, ridge, None)
    assert none is None
    found = model.predict(model.features(V))[:, 0]
    np.testing.assert_allclose(found, np.clip(ridge.predict(P), y.min(), y.max()))
    assert model.map.root.shape[1] == 1
    values, columns, intercept = model.effects(V)
    total = values.sum(axis=(1, 2)) + intercept
    if sampler.order_ != "all":
        np.testing.assert_allclose(total, ridge.predict(P), atol=1e-8)
    assert columns[0] == (0,)

    from sklearn.linear_model import LogisticRegression

    more = rng.normal(size=(300, 2))
    logistic = LogisticRegression().fit(np.hstack([P, more]), codes)
    classifier = RandomFeatureRidgeClassifier("linear").fit(P, codes)
    model, own = AnovaModel.of(anova, classifier, logistic)
    features = model.features(V)
    np.testing.assert_allclose(
        model.predict(features),
        classifier._value.solution.calibration.probabilities(
            classifier._value.solution.predict(P)
        ),
        atol=1e-9,
    )
    np.testing.assert_allclose(
        own.predict_proba(np.hstack([features, more])),
        logistic.predict_proba(np.hstack([P, more])),
        atol=1e-9,
    )


@pytest.mark.parametrize("n_levels", [5, 300])
def test_linear_model(rng, n_levels):
    """Columns of many categories are sparse, and the solver is iterative."""
    n, effect = 600, rng.normal(size=n_levels)
    V = np.c_[rng.normal(3, 2, n), rng.integers(0, n_levels, n), rng.normal(size=n)]
    V[::7, 2] = np.nan
    y = 2 * V[:, 0] + effect[V[:, 1].astype(int)] + 0.2 * rng.normal(size=n)
    weights = rng.uniform(0.5, 1.5, n)
    rows = TableRows(V, y, weights / weights.mean())
    encoding = Encoding.of(V, rows.weights, ("number", "category", "number"), ())
    encoding = encoding.with_all_levels(V)
    folds = [(np.arange(200, n), np.arange(200)), (np.arange(400), np.arange(400, n))]
    targets = TargetRange.of(y, rows.weights, None)
    model, found = LinearModel.of(encoding, rows, folds, targets)

    # by brute force
    columns = encoding.linear(V)
    assert sparse.issparse(columns) == (n_levels > 256)
    scores = (columns.toarray() if n_levels > 256 else columns)[:, :2]
    levels, known = np.unique(V[:, 1]), ~np.isnan(V[:, [2]])
    Z = np.hstack([scores, V[:, [1]] == levels, ~known, known])
    outs = []
    for alpha in np.logspace(-2, 5, 15):
        fits = (Ridge(alpha).fit(Z[a], y[a], rows.weights[a]) for a, _ in folds)
        outs.append(
            [fit.predict(Z[b]) for fit, (_, b) in zip(fits, folds, strict=True)]
        )
    outs = [np.clip(np.concatenate(o), targets.low, targets.high) for o in outs]
    tested = np.concatenate([test for _, test in folds])
    errors = [rows.weights[tested] @ (out - y[tested]) ** 2 for out in outs]
    best = int(np.argmin(errors))
    # at each end, predictions stay in the range of the training targets if this helps
    expected, limits = outs[best], [targets.low, targets.high]
    for side, (end, clip) in enumerate([("min", np.maximum), ("max", np.minimum)]):
        ranges = [np.full(len(b), getattr(y[a], end)()) for a, b in folds]
        limited = clip(expected, np.concatenate(ranges))
        gains = (expected - y[tested]) ** 2 - (limited - y[tested]) ** 2
        gains *= rows.weights[tested]
        if gains.sum() > 2 * np.linalg.norm(gains):
            expected, limits[side] = limited, getattr(y, end)()
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-3)
    np.testing.assert_allclose(model.limits, limits)
    expected = Ridge(np.logspace(-2, 5, 15)[best]).fit(Z, y, rows.weights).predict(Z)
    predicted = np.clip(expected, *limits)
    np.testing.assert_allclose(model.predict(V), predicted, atol=1e-3)
    effects, intercept = model.effects(V)
    np.testing.assert_allclose(effects.sum(axis=1) + intercept, expected, atol=1e-3)
    np.testing.assert_allclose(rows.weights @ effects / n, 0, atol=1e-9)
    np.testing.assert_allclose(
        model.importances(3)[0],
        np.sqrt(np.cov(effects[:, 0], aweights=weights, ddof=0)),
    )
    new = V[:5].copy()
    new[:, 1] = n_levels  # unknown categories have no effect
    assert np.ptp(model.effects(new)[0][:, 1]) == 0
    np.testing.assert_allclose(model.effects(new)[0][:, 0], effects[:5, 0])


def test_a_natural_bound_of_the_targets_is_kept(rng):
    """Counts are not negative, but may be larger than those of the training rows."""
    V = rng.normal(size=(400, 2))
    y = rng.poisson(np.exp(V[:, 0])).astype(float)
    rows = TableRows(V, y, np.ones(400))
    encoding = Encoding.of(V, rows.weights, ("number", "number"), ())
    targets = TargetRange.of(y, rows.weights, None)
    folds = [
        (np.arange(200, 400), np.arange(200)),
        (np.arange(200), np.arange(200, 400)),
    ]
    model, found = LinearModel.of(encoding, rows, folds, targets)
    assert model.limits == (0.0, targets.high)
    assert found.min() == model.predict(V).min() == 0.0


# ------------------------------------------------------------------------ trees
@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("n_classes", [None, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_trees_predict_as_boosting(rng, n_classes, weighted):
    """The short cut for predictions, with categories that are new or were rare."""
    n = 500
    V = np.c_[rng.integers(0, 5, n), rng.normal(size=(n, 2)), rng.integers(0, 40, n)]
    V = V.astype(float)
    V[rng.random(V.shape) < 0.05] = np.nan
    y = np.nan_to_num(V[:, 1]) + (V[:, 0] == 2) + (V[:, 3] > 30)
    y = y if n_classes is None else np.digitize(y, [0.5, 1.5][: n_classes - 1])
    weights = rng.integers(1, 5, n) * 1.0 if weighted else np.ones(n)
    trees = Trees((0, 3), n_classes).fit(V, y, weights)
    new = np.r_[V, [[9.0, 0.0, 0.0, 99.0], [np.nan] * 4]]
    codes = trees._codes(new)
    if n_classes is None:
        expected = trees._scale * trees._model.predict(codes) + trees._shift
        np.testing.assert_allclose(trees.predict(new)[:, 0], expected)
    else:
        expected = trees._model.predict_proba(codes)
        np.testing.assert_allclose(trees.predict(new), expected)
    *_, last = trees.staged(new)
    np.testing.assert_allclose(last, trees.predict(new))
    np.testing.assert_array_equal(trees.predict(new[:1]), trees.predict(new)[:1])


def box_table(rng, n=700):
    X = rng.uniform(-1, 1, (n, 3))
    inside = (np.abs(X[:, 0]) < 0.6) & (np.abs(X[:, 1]) < 0.6)
    return pd.DataFrame(X, columns=["a", "b", "c"]), inside


@pytest.mark.usefixtures("few_folds")
def test_trees_of_groups(rng):
    """Rows of a group share an offset, which trees must not learn from the group."""
    X, inside = box_table(rng)
    group = np.repeat(np.arange(70), 10)
    X["a"] += 1e-3 * group  # the group can be recognised
    y = inside + 0.5 * rng.normal(size=70)[group]
    model = TableRegressor(parts=["trees"], random_state=0)
    alone = clone(model).fit(X, y).losses_["trees"]
    grouped = clone(model).fit(X, y, groups=group)
    assert grouped.losses_["trees"] > alone
    low, high = grouped.predict_interval(X[:5], coverage=0.8).T
    assert np.all(low < high)
    with pytest.raises(ValueError, match=r"frozen|freeze"):
        grouped.freeze().merge(grouped)


@pytest.mark.usefixtures("few_folds")
def test_trees_with_class_weights_and_weights_of_rows(rng):
    X, inside = box_table(rng)
    y = np.where(inside ^ (rng.random(700) < 0.05), "in", "out")
    rare = (y == "out") | (rng.random(700) < 0.3)
    X, y = X[rare], y[rare]
    model = TableClassifier(parts=["trees"], random_state=0)
    plain = clone(model).fit(X, y).predict_proba(X)[:, 0].mean()
    share = (y == "in").mean()
    assert abs(plain - share) < 0.03
    balanced = clone(model).set_params(class_weight="balanced").fit(X, y)
    weights = np.where(y == "in", 0.5 / share, 0.5 / (1 - share))
    weighted = clone(model).fit(X, y, sample_weight=weights)
    p = balanced.predict_proba(X)
    np.testing.assert_allclose(p, weighted.predict_proba(X), atol=1e-6)
    assert p[:, 0].mean() > plain + 0.02
    loaded = pickle.loads(pickle.dumps(balanced.freeze()))
    np.testing.assert_array_equal(loaded.predict_proba(X), p)


# ---------------------------------------------------------------------- weights
def test_geometric_means_of_probabilities(rng):
    """Evidence that two parts see in different columns adds up."""
    score = rng.normal(size=(1500, 2))
    p = 1 / (1 + np.exp(-3 * score.sum(axis=1)))
    y = (rng.random(1500) < p).astype(int)
    found = np.stack([np.c_[1 - q, q] for q in 1 / (1 + np.exp(-3 * score.T))])
    rows = TableRows(np.empty((1500, 0)), y, np.ones(1500))
    weights, power = geometric_weights(found, rows)
    np.testing.assert_allclose(weights, 0.5, atol=0.05)
    assert power == pytest.approx(2, abs=0.2)
    blend = Blend(TargetRange.of(y, rows.weights, 2), None, {})
    both = _with_weights(blend, dict(zip("ab", found, strict=True)), rows)
    assert both.power == pytest.approx(power)
    # where one part is wrong and certain, the arithmetic mean is better
    wrong = found.copy()
    wrong[1, ::10] = np.c_[y, 1 - y][::10] * 0.998 + 0.001
    both = _with_weights(blend, dict(zip("ab", wrong, strict=True)), rows)
    assert both.power is None
    zero = found.copy()
    zero[0, :, 1] = 0  # a class without weight
    zero[0, :, 0] = 1
    weights, power = geometric_weights(zero, rows)
    assert np.isfinite([*weights, power]).all()


@pytest.mark.usefixtures("given_folds")
def test_classifiers_choose_the_better_mean(rng, value_of):
    """Where models are nearly certain, geometric means have smaller log losses."""
    X, y = fetch_uci("wifi", return_X_y=True)
    order = rng.permutation(len(y))
    (X, V), (y, truth) = ((each[order[:1200]], each[order[1200:]]) for each in (X, y))
    parts = ["ANOVA", "logistic", "local linear"]
    model = TableClassifier(parts=parts, n_folds=4, random_state=0).fit(X, y)
    p = model.predict_proba(V)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert sum(model.weights_.values()) == pytest.approx(1)
    arithmetic = value_of(model).solution._replace(power=None)
    assert log_loss(truth, p) < 0.95 * log_loss(truth, arithmetic.predict(V))


# ------------------------------------------------------------------------- size
@pytest.mark.usefixtures("given_folds")
def test_frozen_models_are_small(rng):
    """No matrix with a row and a column per landmark, nor one copy per fold."""
    X = rng.normal(size=(900, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + (X[:, 3] > 0)
    model = TableRegressor(parts=["ANOVA", "trees"], n_folds=2, random_state=0)
    model.fit(X, y + 0.1 * rng.normal(size=900))
    assert model.weights_["ANOVA"] > 0
    assert len(pickle.dumps(model.freeze())) < 500_000


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("kind", [TableRegressor, TableClassifier])
def test_one_warning_of_repeated_rows(rng, kind):
    X = np.repeat(rng.normal(size=(60, 2)), 2, axis=0)
    y = X[:, 0] if kind is TableRegressor else X[:, 0] > 0
    with pytest.warns(UserWarning, match="copies of other rows") as found:
        kind(random_state=0).fit(X, y)
    assert len(found) == 1, [str(each.message) for each in found]
    assert f"{kind.__name__} selects its parameters" in str(found[0].message)
    kind(parts=["ANOVA"]).fit(X, y, groups=np.repeat(np.arange(60), 2))


def test_the_power_of_few_certain_rows_is_cautious():
    """Rows that are all predicted correctly would have an infinite power."""
    n = 100
    codes = np.arange(n) % 2
    p = np.full((2, n, 2), 0.05)
    p[:, np.arange(n), codes] = 0.95
    rows = TableRows(np.zeros((n, 0)), codes, np.ones(n))
    weights, power = geometric_weights(p, rows)
    assert 1 < power < 2
    np.testing.assert_allclose(weights, 0.5, atol=0.01)
    many = TableRows(np.zeros((100 * n, 0)), np.tile(codes, 100), np.ones(100 * n))
    assert geometric_weights(np.tile(p, (1, 100, 1)), many)[1] > 2


@pytest.mark.parametrize("noise, share", [(0.1, 7 / 8), (3.0, 3 / 4)])
def test_more_noise_requires_more_rows_to_judge_a_metric(
    rng, monkeypatch, noise, share
):
    sizes, fit = [], LearnedMetric.fit

    def counted(self, X, *args, **options):
        sizes.append(len(X))
        return fit(self, X, *args, **options)

    monkeypatch.setattr(LearnedMetric, "fit", counted)
    X = rng.normal(size=(640, 3))
    y = X[:, 0] + noise * rng.normal(size=640)
    TableRegressor(parts=["linear", "local linear"], random_state=0).fit(X, y)
    assert sizes[0] == share * 640


@pytest.mark.parametrize("part", ["ANOVA", "linear", "trees"])
def test_one_row(part):
    for kind, y in ((TableRegressor, [2.0]), (TableClassifier, ["a"])):
        model = kind(parts=[part], random_state=0).fit([[1.0]], y)
        assert model.predict([[3.0]])[0] == y[0]
