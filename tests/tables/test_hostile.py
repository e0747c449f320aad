"""Tables that break models: each has an answer, or an error that says what to do."""

import datetime
import warnings

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.frozen import FrozenEstimator

from sklearn_crt import AnovaSampler, RandomFeatureRidge, RandomFeatureRidgeClassifier
from sklearn_crt.exceptions import ColumnWarning
from sklearn_crt.tables import TableRegressor

from .test_anova_sampler import mixed_table

pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.usefixtures("few_folds")


@pytest.fixture(autouse=True)
def warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="module")
def table():
    return mixed_table(400)


def regressor(**options):
    options = {"n_components": 100, "random_state": 0, **options}
    return RandomFeatureRidge(AnovaSampler(**options))


def classifier(**options):
    options = {"n_components": 100, "random_state": 0, **options}
    return RandomFeatureRidgeClassifier(AnovaSampler(**options))


def score(X, y, model=None):
    return (model or regressor()).fit(X[:300], y[:300]).score(X[300:], y[300:])


def test_constant_target(table):
    X, y = table
    np.testing.assert_allclose(regressor().fit(X, np.full(len(y), 7.0)).predict(X), 7)
    model = classifier().fit(X, np.full(len(y), "only"))
    assert (model.predict(X) == "only").all()
    np.testing.assert_array_equal(regressor().fit(X, 0 * y).effects(X).values, 0)


def test_columns_without_information_change_nothing(table):
    X, y = table
    expected = score(X, y)
    empty = {"none": None, "nan": np.nan, "one": 1.0, "same": "same", "NaT": pd.NaT}
    wide = X.assign(**empty)
    assert score(wide, y) == pytest.approx(expected, abs=0.02)
    model = regressor().fit(wide, y)
    np.testing.assert_array_equal(model.kernel_.feature_importances_[4:], 0)
    filled = wide.assign(none="text", nan=3.0)
    np.testing.assert_allclose(model.predict(filled), model.predict(wide))
    alone = regressor().fit(wide[["none", "one"]], y)
    np.testing.assert_allclose(alone.predict(wide[["none", "one"]]), y.mean())


def test_numbers_in_a_column_that_was_empty_are_ignored(rng):
    X = np.array([[x, None] for x in rng.normal(size=80)], dtype=object)
    y = np.sin(3 * X[:, 0].astype(float))
    model = TableRegressor(random_state=0).fit(X, y)
    new = np.c_[rng.normal(size=20), np.full(20, np.nan)]
    expected = model.score_samples(new)
    new[:, 1] = rng.normal(size=20)
    np.testing.assert_array_equal(model.score_samples(new), expected)


@pytest.mark.parametrize("value", [1e12, -1e300])
def test_one_huge_value_costs_a_column_nothing(table, value):
    X, y = table
    expected = score(X, y)
    hit = X.copy()
    hit.loc[5, "size"] = value
    assert score(hit, y) > expected - 0.03
    units = X.assign(size=X["size"] * 1e200, noise=X["noise"] * 1e-200)
    assert score(units, y) == pytest.approx(expected, abs=0.03)


def test_names_that_occur_twice(table):
    X, y = table
    twice = X.set_axis(["a", "b", "b", "a"], axis=1)
    with pytest.raises(ValueError, match="different names, but 'a' occurs 2 times"):
        regressor().fit(twice, y)
    expected = regressor().fit(X, y).predict(X)
    values = X.to_numpy()
    found = regressor().fit(values, y).predict(values)
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_mixed_types_in_a_column(table):
    def score(X, y):  # the mean over draws of the landmarks, which depend on the rows
        models = (regressor(random_state=seed) for seed in range(8))
        return np.mean(
            [model.fit(X[:300], y[:300]).score(X[300:], y[300:]) for model in models]
        )

    X, y = table
    expected = score(X, y)
    mixed = {"red": 1, "green": "g", "blue": (2, 3)}
    values = [mixed.get(value) for value in X["colour"]]
    assert score(X.assign(colour=pd.Series(values, dtype=object)), y) > expected - 0.02
    numbers = X["size"].astype(object)
    numbers[:3] = [True, 2, np.float32(1.5)]
    assert score(X.assign(size=numbers), y) > expected - 0.05


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_an_error_that_names_the_column(table, value):
    X, y = table
    model = regressor().fit(X, y)
    X = X.copy()
    X.loc[3, "noise"] = value
    with pytest.raises(ValueError, match=r"'noise'.*contains infinity"):
        regressor().fit(X, y)
    with pytest.raises(ValueError, match=r"'noise'.*contains infinity"):
        model.predict(X)
    with pytest.raises(ValueError, match="contains infinity"):
        model.fit(np.array([[1.0], [value]]), [0, 1])


def test_complex_numbers_are_an_error(table):
    X, y = table  # the imaginary part was ignored silently, and the column with it
    with pytest.raises(ValueError, match="Complex data not supported: column 'z'"):
        regressor().fit(X.assign(z=X["size"] + 1j), y)


@pytest.mark.parametrize("frame", [False, True])
def test_durations_are_numbers_of_days(table, frame):
    X, y = table
    days = np.arange(400) % 7
    durations = [datetime.timedelta(days=int(value)) for value in days]
    if frame:
        # skipped, too, if the installed pyarrow needs a newer NumPy
        pytest.importorskip("pyarrow", exc_type=ImportError)
        column = pd.Series(durations, dtype="m8[us]").astype("duration[us][pyarrow]")
        found = X.assign(noise=column)
    else:
        found = X.to_numpy()
        found[:, list(X).index("noise")] = durations
    expected = X.assign(noise=days)
    np.testing.assert_array_equal(
        regressor().fit(found, y).predict(found),
        regressor().fit(expected, y).predict(expected),
    )


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_dates_listed_as_categories_have_no_unit(table, unit):
    X, y = table
    days = pd.Timestamp("2024-02-29") + pd.to_timedelta(np.arange(400) % 3, unit="D")
    dates = pd.Series(days, index=X.index).where(X["noise"] < 1)
    assert dates.isna().sum() > 10
    X = X.assign(noise=dates.astype("M8[ms]"))
    model = regressor(categories=["noise"]).fit(X, y + 3 * (np.arange(400) % 3))
    expected = model.predict(X)
    same = dates.astype(f"M8[{unit}]")
    types = (
        same,
        dates.astype(object),
        dates.map(pd.Timestamp.date, na_action="ignore").astype(object),
        pd.Series(list(same.to_numpy()), index=X.index, dtype=object),
        dates.dt.tz_localize("UTC"),
    )
    for column in types:
        np.testing.assert_array_equal(model.predict(X.assign(noise=column)), expected)


def test_durations_listed_as_categories_have_no_type(table):
    X, y = table
    days = pd.Series(pd.to_timedelta(np.arange(400) % 3, "D"), index=X.index)
    model = regressor(categories=["noise"]).fit(X.assign(noise=days), y)
    expected = model.predict(X.assign(noise=days))
    for values in (
        days,
        map(pd.Timedelta.to_pytimedelta, days),
        days.to_numpy().astype("m8[h]"),
    ):
        column = pd.Series(list(values), index=X.index, dtype=object)
        np.testing.assert_array_equal(model.predict(X.assign(noise=column)), expected)


def test_times_of_day_and_periods_are_categories_by_their_text(table):
    X, y = table
    times = [datetime.time(hour) for hour in np.arange(400) % 3]
    hours = pd.period_range("2024-01-01", periods=3, freq="h")[np.arange(400) % 3]
    for values in (times, hours.to_numpy(dtype=object)):
        found, expected = (
            regressor(categories=["noise"]).fit(rows, y).predict(rows)
            for rows in (X.assign(noise=values), X.assign(noise=list(map(str, values))))
        )
        np.testing.assert_array_equal(found, expected)


def test_dates_among_durations_are_an_error(table):
    X, y = table
    values = [np.datetime64("2024-01-01"), np.timedelta64(1, "D")] * 200
    mixed = X.assign(noise=pd.Series(values, index=X.index, dtype=object))
    with pytest.raises(
        ValueError, match=r"'noise' of X contains dates .* of different types"
    ):
        regressor().fit(mixed, y)


def test_integers_too_large_for_floats_are_an_error(table):
    X, y = table
    values = pd.Series([10**400] * 400, index=X.index, dtype=object)
    with pytest.raises(ValueError, match=r"'size' of X contained numbers.*too large"):
        regressor().fit(X.assign(size=values), y)


def test_signs_of_nan_do_not_matter(table):
    X, y = table
    hole = X["noise"] > 0.5
    expected = regressor().fit(X.assign(noise=X["noise"].mask(hole, np.nan)), y)
    negative = X.assign(noise=np.where(hole, -np.nan, X["noise"]))
    found = regressor().fit(negative, y).predict(negative)
    np.testing.assert_array_equal(found, expected.predict(negative))


@pytest.mark.parametrize("columns", [[True, False, False, False], [1.0], [None]])
def test_columns_are_listed_by_name_or_position(table, columns):
    X, y = table  # True would have been column 1
    with pytest.raises(ValueError, match="which is not a column of X"):
        regressor(categories=columns).fit(X, y)


def test_lazy_frames_are_an_error():
    polars = pytest.importorskip("polars")
    lazy = polars.LazyFrame({"a": [1.0, 2.0], "b": ["x", "y"]})
    for model in (TableRegressor(), regressor()):
        with pytest.raises(TypeError, match=r"collect\(\)"):
            model.fit(lazy, [1.0, 2.0])


def test_text_where_numbers_were(table):
    X, y = table
    model = regressor().fit(X, y)
    with pytest.raises(ValueError, match=r"'size' of X contained numbers.*'big'"):
        model.predict(X.assign(size="big"))


def test_very_many_levels():
    rng = np.random.default_rng(0)
    n = 40_000
    X = pd.DataFrame({"id": [f"id{i}" for i in range(n)], "x": rng.normal(size=n)})
    y = np.sin(2 * X["x"].to_numpy()) + 0.1 * rng.normal(size=n)
    train = X[: n // 2], y[: n // 2]
    model = regressor().fit(*train)
    assert model.score(X[n // 2 :], y[n // 2 :]) > 0.95
    importances = model.kernel_.feature_importances_
    assert importances[0] == 0  # no level has ten rows


def test_new_levels_and_newly_missing_values(table):
    """They are answered, near the mean over the levels."""
    X, y = table
    whole = X.dropna().reset_index(drop=True)
    y = y[X.notna().all(axis=1)]
    model = regressor(order=1).fit(whole, y)
    with pytest.warns(ColumnWarning, match="'colour' of X are categories that were"):
        effects = model.effects(whole.assign(colour="violet"))
    other = effects.values[:, effects.names.index("colour")]
    known = model.effects(whole)
    range_ = known.values[:, known.names.index("colour")]
    assert range_.min() < other[0] < range_.max()
    for column in ("colour", "size", "shape"):
        missing = model.predict(whole.assign(**{column: None}))
        assert np.isfinite(missing).all()
    with pytest.warns(ColumnWarning, match="'colour' of X are categories that were"):
        unknown = model.predict(whole.assign(colour="violet"))
    np.testing.assert_array_equal(model.predict(whole.assign(colour=None)), unknown)


def test_other_columns_are_an_error(table):
    X, y = table
    model = regressor().fit(X, y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X[X.columns[::-1]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(X.drop(columns="noise"))
    with pytest.raises(ValueError, match="X has 3 features, but RandomFeatureRidge"):
        regressor().fit(X.to_numpy(), y).predict(X.to_numpy()[:, :3])


@pytest.mark.parametrize("rows", [slice(0), slice(None)])
def test_empty_frames_are_an_error(table, rows):
    X, y = table
    few = X[rows] if rows == slice(0) else X[[]]
    what = "sample" if rows == slice(0) else "feature"
    with pytest.raises(ValueError, match=rf"Found array with 0 {what}\(s\)"):
        regressor().fit(few, y[rows])
    model = regressor().fit(X, y)
    with pytest.raises(ValueError, match="Found array with 0 sample"):
        model.predict(X[:0])


def test_few_rows(table):
    X, y = table
    model = regressor().fit(X[:20], y[:20])
    assert np.isfinite(model.predict(X)).all()
    assert y[:20].min() <= model.predict(X).min()
    assert regressor().fit(X[:1], y[:1]).predict(X) == pytest.approx(y[0])
    assert classifier().fit(X[:20], y[:20] > 0).predict_proba(X).shape == (400, 2)


def test_more_columns_than_rows_can_tell_apart():
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(1000, 80)), rng.normal(size=1000)
    y = 3 * X[:, 17] + 0.3 * noise
    model = regressor().fit(X[:100], y[:100])
    assert model.kernel_.feature_importances_.argmax() == 17
    assert np.count_nonzero(model.kernel_.feature_importances_) == 40
    assert model.score(X[100:], y[100:]) > 0.5
    boosting = HistGradientBoostingRegressor().fit(X[:100], y[:100])
    assert model.score(X[100:], y[100:]) > boosting.score(X[100:], y[100:]) - 0.1


def test_a_class_of_one_row():
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"x": rng.normal(size=300), "c": rng.choice(["a", "b"], 300)})
    y = np.digitize(X["x"], np.linspace(-2, 2, 9)).astype(str)
    y[0] = "alone"
    model = classifier().fit(X, y)
    assert model.classes_.size == 11
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert model.score(X, y) > 0.5


def test_targets_that_are_wrong(table):
    X, y = table
    with pytest.raises(ValueError, match="y contains NaN"):
        regressor().fit(X, np.where(np.arange(400) == 3, np.nan, y))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        regressor().fit(X, y[1:])
    with pytest.raises(ValueError, match="could not convert"):
        regressor().fit(X, np.where(y > 0, "yes", "no"))
    with pytest.raises(ValueError, match="Unknown label type"):
        classifier().fit(X, y)
    with pytest.raises(ValueError, match="requires y to be passed"):
        AnovaSampler().fit(X, None)


def test_batches_that_do_not_fit_the_first_one(table):
    X, y = table
    first, second = X[:200].assign(colour=None), X[200:]
    for model in (regressor(), AnovaSampler(random_state=0)):
        model.partial_fit(first, y[:200])
        with pytest.raises(
            ValueError, match="'colour' of X contained only missing values"
        ):
            model.partial_fit(second, y[200:])
        model.partial_fit(second.assign(colour=None), y[200:])
        as_category = first.assign(colour=first["colour"].astype("category"))
        model.fit(as_category, y[:200]).partial_fit(second, y[200:])
    expected = AnovaSampler(random_state=0).fit(pd.concat([as_category, second]), y)
    np.testing.assert_allclose(model.transform(X), expected.transform(X), atol=1e-9)
    frozen = FrozenEstimator(AnovaSampler(random_state=0).fit(first, y[:200]))
    ridge = RandomFeatureRidge(frozen).partial_fit(first, y[:200])
    ridge.partial_fit(second, y[200:])  # the kernel ignores the column
    model = AnovaSampler().partial_fit(X[:200], np.arange(200) % 3)
    for targets in (y[200:], np.ones((200, 2), int)):
        with pytest.raises(ValueError, match="but the first batch had labels"):
            model.partial_fit(second, targets)


def test_memory_does_not_grow_with_rows_times_columns():
    import tracemalloc

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20_000, 14)), rng.normal(size=20_000)
    model = regressor().fit(X[:500], y[:500])
    tracemalloc.start()
    model.kernel_.transform(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    features = 20_000 * 100 * 8
    assert peak < 4 * features  # not the kernels of 14 columns
