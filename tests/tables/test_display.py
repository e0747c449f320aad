"""Pictures of effects."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

from sklearn_crt import AnovaSampler, RandomFeatureRidge, RandomFeatureRidgeClassifier
from sklearn_crt.tables import EffectsDisplay, TableRegressor

from .test_anova_sampler import mixed_table

matplotlib = pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def no_window():
    from matplotlib import pyplot as plt

    matplotlib.use("agg")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def table():
    return mixed_table(400)


@pytest.fixture(scope="module")
def model(table):
    kernel = AnovaSampler(order=2, n_components=60, random_state=0)
    return RandomFeatureRidge(kernel).fit(*table)


def test_panels_show_the_largest_effects(table, model):
    X, _ = table
    display = EffectsDisplay.from_estimator(model, X, n_effects=3)
    effects = model.effects(X)
    largest = np.argsort(-effects.values.std(axis=0))[:3]
    titles = [ax.get_title() for ax in display.axes_]
    assert titles == [effects.names[e] for e in largest]
    assert "size & colour" in titles
    assert all(ax.get_xlabel() and ax.get_ylabel() for ax in display.axes_)
    assert display.axes_[0].figure is display.figure_


def test_curves_and_points_are_the_effects_of_the_model(table, model):
    X, _ = table
    display = EffectsDisplay.from_estimator(model, X, n_effects=10)
    axes = {ax.get_title(): ax for ax in display.axes_}
    effects = model.effects(X)
    column = effects.names.index("size")
    curve = axes["size"].lines[0]
    order = np.argsort(X["size"])
    found = np.interp(
        curve.get_xdata(), X["size"][order], effects.values[order, column]
    )
    size = np.ptp(effects.values[:, column])
    np.testing.assert_allclose(curve.get_ydata(), found, atol=0.02 * size)
    assert axes["size"].collections  # the band
    ticks = [text.get_text() for text in axes["colour"].get_xticklabels()]
    assert sorted(ticks) == ["blue", "green", "missing", "red"]
    heights = axes["colour"].lines[0].get_ydata()
    for label, height in zip(ticks, heights, strict=True):
        rows = X["colour"].fillna("missing") == label
        own = effects.values[rows, effects.names.index("colour")]
        np.testing.assert_allclose(own, height, atol=1e-10)


@pytest.mark.usefixtures("few_folds")
def test_curves_of_a_blend_are_its_effects():
    X, y = (rows[:250] for rows in load_diabetes(return_X_y=True))
    parts = ["ANOVA", "local linear"]
    blend = TableRegressor(parts=parts, n_folds=2, random_state=2).fit(X, y)
    assert 0 < blend.weights_["ANOVA"] < 1
    column = 2
    values = blend.effects(X).values[:, column]
    display = EffectsDisplay.from_estimator(blend, X, n_effects=10)
    curve = {ax.get_title(): ax for ax in display.axes_}[f"x{column}"].lines[0]
    order = np.argsort(X[:, column])
    found = np.interp(curve.get_xdata(), X[order, column], values[order])
    np.testing.assert_allclose(curve.get_ydata(), found, atol=0.02 * np.ptp(values))


@pytest.mark.slow
def test_bands_shrink_with_the_number_of_rows():
    widths = []
    # with 100 rows and 60 landmarks the noise is underestimated, and so are bands
    for n in (400, 3200):
        X, y = mixed_table(n)
        kernel = AnovaSampler(order=2, n_components=60, random_state=0)
        model = RandomFeatureRidge(kernel).fit(X, y)
        display = EffectsDisplay.from_estimator(model, X, n_effects=10)
        panel = next(p for p in display.panels if p.name == "shape")
        widths.append(panel.deviation.mean())
    assert widths[1] < 0.5 * widths[0]


def test_bars_of_a_row_are_its_effects(table, model):
    X, _ = table
    display = EffectsDisplay.from_estimator(model, X, row=7, n_effects=4)
    effects = dict(
        zip(*[model.effects(X).names, model.effects(X).values[7]], strict=True)
    )
    assert len(display.bars) == 4
    for shown, value in display.bars:  # such as "size = 0.9 & colour = blue"
        name = " & ".join(part.split(" = ")[0] for part in shown.split(" & "))
        assert effects[name] == pytest.approx(value, abs=1e-12)
    widths = [bar.get_width() for bar in display.axes_[0].patches]
    assert widths == [value for _, value in display.bars[::-1]]
    assert f"{model.predict(X[7:8])[0]:.4g}" in display.title


def test_classes_arrays_and_axes_of_the_user(table):
    from matplotlib import pyplot as plt

    X, y = table
    X, labels = X[["size", "noise"]].to_numpy(), np.digitize(y, [-0.5, 0.5])
    kernel = AnovaSampler(order=1, n_components=60, random_state=0)
    model = RandomFeatureRidgeClassifier(kernel).fit(X, labels)
    _, axes = plt.subplots(2)
    display = EffectsDisplay.from_estimator(model, X, output=2, n_effects=2, ax=axes)
    assert [ax.get_title() for ax in axes] == ["x0", "x1"]
    assert display.panels[0].deviation is None
    with pytest.raises(ValueError, match="1 axes, but there are 2 panels"):
        display.plot(ax=axes[0])


def test_a_row_is_given_by_its_label_or_position(rng):
    from matplotlib import pyplot as plt

    pd = pytest.importorskip("pandas")
    labels = [f"r{i}" for i in range(100)]
    X = pd.DataFrame({"size": rng.normal(size=100), "kind": ["a", None] * 50}, labels)
    sampler = AnovaSampler(n_components=40, random_state=0)
    model = RandomFeatureRidge(sampler).fit(X, X["size"])
    show = EffectsDisplay.from_estimator
    by_label, by_position = (show(model, X, row=row) for row in ("r7", 7))
    assert by_label.bars == by_position.bars
    names = [name for name, _ in by_label.bars]
    assert f"size = {X['size'].iloc[7]:.4g}" in names
    assert "kind = missing" in names
    with pytest.raises(ValueError, match="row='s' must be a position from 0 to 99"):
        show(model, X, row="s")
    with pytest.raises(ValueError, match="row=100 must be a position"):
        show(model, X, row=100)
    with pytest.raises(ValueError, match="label of 2 rows"):
        show(model, X.set_axis(["a", "a", *labels[2:]]), row="a")
    plt.close("all")
