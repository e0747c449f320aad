"""Effects of columns and pairs: sums, means, single functions."""

import numpy as np
import pytest

from sklearn_crt import AnovaSampler, RandomFeatureRidge, RandomFeatureRidgeClassifier
from sklearn_crt.tables import EffectsDisplay, TableRegressor

from .test_anova_sampler import mixed_table

pd = pytest.importorskip("pandas")
plt = pytest.importorskip("matplotlib.pyplot")


@pytest.fixture(scope="module")
def table():
    return mixed_table(500)


def sampler(**options):
    return AnovaSampler(n_components=60, random_state=0, **options)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("order", [1, 2, "all"])
@pytest.mark.parametrize("outputs", [1, 2])
def test_effects_sum_to_predictions(table, order, clip, outputs):
    X, y = table
    y = y if outputs == 1 else np.c_[y, X["size"]]
    model = RandomFeatureRidge(sampler(order=order), clip=clip).fit(X[:300], y[:300])
    found = model.effects(X)
    total = found.values.sum(axis=1) + found.intercept
    np.testing.assert_allclose(total, model.predict(X), atol=1e-10, rtol=0)
    assert ("remainder" in found.names) == (clip or order == "all")
    assert found.values.shape[1] == len(found.names) == len(found.columns)
    pairs = [name for name in found.names if " & " in name]
    assert len(pairs) == (6 if order == 2 else 0)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_effects_of_a_classifier_sum_to_its_indicators(table, n_classes):
    X, y = table
    labels = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    model = RandomFeatureRidgeClassifier(sampler(order=2)).fit(X, labels)
    found = model.effects(X)
    total = found.values.sum(axis=1) + found.intercept
    raw = model.kernel_.transform(X) @ model.coef_.T + model.intercept_
    np.testing.assert_allclose(total.reshape(raw.shape), raw, atol=1e-10)


@pytest.mark.parametrize("order", [1, 2, "all"])
def test_effects_have_mean_zero_over_the_landmarks(table, order, value_of):
    X, y = table
    few, y = X[:80], y[:80] + X["size"][:80]  # all rows are landmarks
    kernel = AnovaSampler(n_components=80, order=order, random_state=0)
    model = RandomFeatureRidge(kernel, clip=False).fit(few, y)
    learned = value_of(model.kernel_).solution.learned
    assert len(learned.kernel.columns.points) == 80
    found = model.effects(few)
    np.testing.assert_allclose(found.values.mean(axis=0), 0, atol=1e-9)
    assert found.values.std(axis=0).max() > 0.1


def test_an_effect_depends_on_its_columns_only(table):
    X, y = table
    model = RandomFeatureRidge(sampler(order=2), clip=False).fit(X, y)
    other = X.assign(colour="blue", noise=np.nan)
    one, two = model.effects(X), model.effects(other)
    changed = {"colour", "noise"}
    for name, a, b in zip(one.names, one.values.T, two.values.T, strict=True):
        depends = bool(changed & set(name.split(" & ")))
        assert np.allclose(a, b, atol=1e-12) != depends, name


def test_effects_find_the_function(table):
    """A sum of a sine and a step gives these back, without an interaction."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.uniform(-2, 2, 600), "g": rng.choice(["a", "b"], 600)})
    y = np.sin(2 * X["x"]) + (X["g"] == "b")
    model = RandomFeatureRidge(AnovaSampler(random_state=0)).fit(X, y)
    found = model.effects(X)
    effects = dict(zip(found.names, found.values.T, strict=True))
    curve = np.sin(2 * X["x"])
    assert np.std(effects["x"] - curve) < 0.02
    assert np.std(effects["g"] - (X["g"] == "b")) < 0.02
    # the kernel may also leave out the pair, depending on rounding errors
    assert np.std(effects.get("x & g", 0.0)) < 0.02


def test_groups_have_one_effect(table):
    X, y = table
    model = RandomFeatureRidge(sampler(groups=[["size", "colour"]], order=1)).fit(X, y)
    assert model.effects(X).names == ["size & colour", "noise", "shape", "remainder"]
    assert model.score(X, y) > 0.7  # a function of both, which order 1 lacks
    importances = model.kernel_.feature_importances_
    assert importances[0] == importances[1] > importances[2]


def test_other_kernels_have_no_effects(table):
    X, y = table
    model = RandomFeatureRidge().fit(X[["size"]], y)
    assert not hasattr(model, "effects")
    with pytest.raises(AttributeError) as error:
        _ = model.effects
    assert "kernel=AnovaSampler()" in str(error.value.__cause__)


def test_effects_are_shown_briefly_and_as_a_table(rng):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rng.normal(size=(200, 8)), columns=list("abcdefgh"))
    y = 3 * X["c"] + np.sin(2 * X["a"])
    model = RandomFeatureRidge(AnovaSampler(n_components=60, random_state=0)).fit(X, y)
    effects = model.effects(X)
    assert repr(effects).startswith(
        f"<Effects: {len(effects.names)} effects on 200 rows, 'c', 'a', "
    )
    assert len(repr(effects)) < 200
    frame = effects.to_frame()
    assert [*frame.columns[:2]] == ["c", "a"]
    assert np.all(np.diff(frame.std()) <= 1e-12)
    np.testing.assert_allclose(frame.sum(axis=1) + effects.intercept, model.predict(X))


@pytest.mark.usefixtures("given_folds")
@pytest.mark.parametrize("parts", [["linear"], ["ANOVA", "linear"]])
def test_slopes_of_the_linear_part_are_effects(rng, parts):
    n = 600
    X = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.normal(size=n)})
    X["g"] = rng.choice(["u", "v", "w"], n)
    y = 3 * X["a"] - 2 * X["b"] + 1.5 * (X["g"] == "v") + 0.1 * rng.normal(size=n)
    model = TableRegressor(parts=parts, n_folds=2, random_state=0)
    model.fit(X[:500], y[:500])
    assert model.weights_["linear"] > 0.2
    new = X.assign(a=X["a"] * np.linspace(1, 3, n))  # many are outside of the range
    found = model.effects(new)
    total = found.values.sum(axis=1) + found.intercept
    np.testing.assert_allclose(total, model.predict(new), atol=1e-9)
    effects = dict(zip(found.names, found.values.T, strict=True))
    assert [*effects][:3] == ["a", "b", "g"]
    inside = np.abs(new["a"]) < 1
    for name, slope in {"a": 3, "b": -2}.items():
        own, known = effects[name], new[name]
        assert np.polyfit(known, own, 1)[0] == pytest.approx(slope, rel=0.02)
        expected = slope * (known[inside] - X[name].mean())
        np.testing.assert_allclose(own[inside], expected, atol=0.1)
    rows = {level: effects["g"][X["g"] == level] for level in "uvw"}
    assert rows["v"].mean() - rows["u"].mean() == pytest.approx(1.5, abs=0.05)
    assert np.std(effects["remainder"][inside]) < 0.02
    assert abs(np.mean(effects["remainder"][inside])) < 0.02
    display = EffectsDisplay.from_estimator(model, new, n_effects=3)
    curve = {ax.get_title(): ax for ax in display.axes_}["a"].lines[0]
    order = np.argsort(new["a"])
    values = np.interp(curve.get_xdata(), new["a"].iloc[order], effects["a"][order])
    np.testing.assert_allclose(curve.get_ydata(), values, atol=0.03)
    plt.close(display.figure_)
