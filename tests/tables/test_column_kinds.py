"""Columns whose values are not what their types say, or change their type."""

import datetime
import warnings

import numpy as np
import pytest

from sklearn_crt import AnovaSampler, RandomFeatureRidge
from sklearn_crt.exceptions import ColumnWarning
from sklearn_crt.rows.raw_table import codes_of
from sklearn_crt.tables import TableRegressor

pd = pytest.importorskip("pandas")

pytestmark = pytest.mark.usefixtures("few_folds")


def ridge(**options):
    sampler = AnovaSampler(n_components=100, random_state=0, **options)
    return RandomFeatureRidge(sampler)


@pytest.fixture(scope="module")
def numbers():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2)).round(3)
    y = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.normal(size=400)
    return pd.DataFrame(X, columns=["power", "weight"]), y


@pytest.fixture(scope="module")
def codes():
    rng = np.random.default_rng(0)
    k, x = rng.integers(0, 4, 400), rng.normal(size=400)
    y = np.array([0.0, 3, -3, 6])[k] + np.sin(x) + 0.1 * rng.normal(size=400)
    return pd.DataFrame({"x": x, "code": k}), y


@pytest.mark.parametrize("mark", ["?", "n/a", " - "])
@pytest.mark.parametrize("objects", [False, True])
def test_numbers_with_a_mark_of_missing_values(numbers, mark, objects):
    X, y = numbers
    expected = ridge().fit(X.assign(power=X["power"].where(X.index != 5)), y)
    values = X["power"].astype(object if objects else str).tolist()
    values[5] = mark
    text = X.assign(power=pd.Series(values, dtype=object))
    warned = rf"'power' of X contains text .* numbers, except for 1 of 400 .*'{mark}'"
    with pytest.warns(ColumnWarning, match=warned.replace("?", r"\?")):
        model = ridge().fit(text, y)
    np.testing.assert_allclose(model.predict(X), expected.predict(X))
    np.testing.assert_allclose(
        model.predict(text),
        expected.predict(X.assign(power=X["power"].where(X.index != 5))),
    )


@pytest.mark.parametrize(
    "form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%m/%d/%Y", "%d.%m.%Y"]
)
def test_dates_as_text(numbers, form):
    X, y = numbers
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta((100 * X["power"]).round(), "D")
    expected = ridge().fit(X.assign(power=days), y)
    text = X.assign(power=days.dt.strftime(form))
    with pytest.warns(
        ColumnWarning, match="'power' of X contains text that is .* dates"
    ):
        model = ridge().fit(text, y)
    for rows in (text, X.assign(power=days)):
        np.testing.assert_allclose(
            model.predict(rows), expected.predict(X.assign(power=days))
        )
    assert model.score(text, y) > 0.9


@pytest.mark.parametrize("text", ["${:,.2f}", "{:.1f} kg", "{:.0f}%", "EUR {:.2f}"])
def test_numbers_with_other_characters(text, rng):
    x = rng.uniform(0, 99_999, 300)
    y = x + rng.normal(size=300)
    X = pd.DataFrame({"price": [text.format(each) for each in x], "z": y})
    message = r"'price' of X contains \d+ different texts in 300 cells, .* convert the"
    with pytest.warns(ColumnWarning, match=message):
        AnovaSampler(random_state=0).fit(X, y)
    # without warnings: a declared category, few codes, words, and keys
    words = ["".join(rng.choice([*"abcde"], 6)) for _ in range(300)]
    keys = [f"id{number}" for number in range(300)]
    for values in X["price"].astype("category"), ["1 a", "2 b"] * 150, words, keys:
        AnovaSampler(random_state=0).fit(X.assign(price=values), y)


def test_text_that_remains_categories(codes):
    X, y = codes
    for text in (
        X["code"].astype(str),  # few integers
        "0" + X["code"].astype(str),  # postcodes
        X["code"].map({0: "1/2", 1: "a-b", 2: "3.", 3: "x"}),
        X["code"].map("{:05}".format),
    ):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model = ridge().fit(X.assign(code=text), y)
        assert model.score(X.assign(code=text), y) > 0.95
        assert model._reader.kinds[1] == "category"


def test_categories_are_compared_by_value(codes):
    X, y = codes
    forms = {
        "text": X["code"].astype(str),
        "int": X["code"],
        "float": X["code"].astype(float),
        "category": X["code"].astype("category"),
        "bytes": pd.Series([str(k).encode() for k in X["code"]], dtype=object),
        "text of floats": X["code"].astype(float).astype(str),
    }
    for first in ("text", "category", "bytes"):
        model = ridge().fit(X.assign(code=forms[first]), y)
        expected = model.predict(X.assign(code=forms[first]))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for form in forms.values():
                found = model.predict(X.assign(code=form))
                np.testing.assert_array_equal(found, expected)
    flag = X["code"] > 1
    model = ridge().fit(X.assign(code=flag.astype(str)), y)
    np.testing.assert_array_equal(
        model.predict(X.assign(code=flag)),
        model.predict(X.assign(code=flag.astype(str))),
    )


def test_most_categories_are_unknown(codes):
    X, y = codes
    model = TableRegressor(parts=["ANOVA"], random_state=0)
    model.fit(X.assign(code="k" + X["code"].astype(str)), y)
    with pytest.warns(ColumnWarning, match=r"400 of 400 values in column 'code' of X"):
        model.predict(X.assign(code="K" + X["code"].astype(str)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X.assign(code="new")[:1])  # a single row is no sign of an error


@pytest.fixture(scope="module")
def kinds():
    rng = np.random.default_rng(0)
    days = rng.integers(0, 1000, 300)
    date = pd.Timestamp("2020-01-01") + pd.to_timedelta(days, unit="D")
    columns = {
        "dates": pd.Series(date),
        "durations": pd.Series(pd.to_timedelta(days, unit="D")),
        "numbers": pd.Series(days),
        "times of day": pd.Series([datetime.time(k % 24) for k in days], dtype=object),
    }
    return pd.DataFrame({"x": rng.normal(size=300)}), np.sin(days / 100), columns


@pytest.mark.parametrize("kind", ["dates", "durations", "numbers", "times of day"])
@pytest.mark.parametrize("objects", [False, True])
def test_kinds_of_columns_do_not_replace_each_other(kinds, kind, objects):
    X, y, columns = kinds
    model = ridge().fit(X.assign(at=columns[kind]), y)
    assert np.isfinite(model.predict(X.assign(at=None))).all()
    for other, column in columns.items():
        rows = X.assign(at=column.astype(object) if objects else column)
        if other == kind:
            assert np.isfinite(model.predict(rows)).all()
            continue
        with pytest.raises(
            TypeError, match=f"Column 'at' of X contained {kind} .* {other}"
        ):
            model.predict(rows)
        with pytest.raises(TypeError, match="Column 'at'"):
            model.predict(rows[:3])


def test_dates_as_categories_do_not_replace_text(kinds):
    X, y, columns = kinds
    months = columns["dates"].dt.to_period("M").dt.to_timestamp()
    model = ridge(categories=["at"]).fit(X.assign(at=months), y)
    with pytest.raises(TypeError, match="categories in column 'at' of X were dates"):
        model.predict(X.assign(at="may"))
    model = ridge(categories=["at"]).fit(X.assign(at="may"), y)
    with pytest.raises(TypeError, match="in column 'at' of X were not dates"):
        model.predict(X.assign(at=months))


def test_times_of_day_and_periods(kinds):
    X, y, columns = kinds
    times = columns["times of day"]
    hours = pd.Series([time.hour / 24 for time in times])
    found, expected = (ridge().fit(X.assign(at=c), y) for c in (times, hours))
    np.testing.assert_allclose(
        found.predict(X.assign(at=times)), expected.predict(X.assign(at=hours))
    )
    periods = columns["dates"].dt.to_period("M")
    found, expected = (
        ridge().fit(X.assign(at=c), y) for c in (periods, periods.dt.to_timestamp())
    )
    np.testing.assert_allclose(
        found.predict(X.assign(at=periods)),
        expected.predict(X.assign(at=periods.dt.to_timestamp())),
    )


def test_time_zones_are_read_as_arrays(kinds, monkeypatch):
    X, y, columns = kinds
    zoned = columns["dates"].dt.tz_localize("Europe/Berlin")
    model = ridge().fit(X.assign(at=zoned.dt.tz_convert("UTC").dt.tz_localize(None)), y)
    expected = model.predict(
        X.assign(at=zoned.dt.tz_convert("UTC").dt.tz_localize(None))
    )
    monkeypatch.setattr("sklearn_crt.rows.raw_table._as_dates", None)  # of objects
    np.testing.assert_array_equal(model.predict(X.assign(at=zoned)), expected)


def test_columns_are_listed_in_any_container(codes):
    X, y = codes
    X = X.assign(b=X["code"] % 2)
    expected = ridge(categories=["code", "b"]).fit(X, y).predict(X)
    for listed in (X.columns[1:], np.array(["code", "b"]), pd.Series(["code", "b"])):
        found = ridge(categories=listed).fit(X, y).predict(X)
        np.testing.assert_array_equal(found, expected)
    grouped = ridge(groups=np.array([["x", "b"]])).fit(X, y).predict(X)
    np.testing.assert_array_equal(
        grouped, ridge(groups=[["x", "b"]]).fit(X, y).predict(X)
    )
    one = ridge(categories=["code"]).fit(X, y).predict(X)
    for names in (
        [2020, 1, 0],  # names, not positions
        pd.MultiIndex.from_tuples([("m", "x"), ("m", "a"), ("m", "b")]),
        pd.date_range("2020", periods=3),
    ):
        renamed = X.set_axis(names, axis=1)
        model = ridge(categories=[renamed.columns[1]]).fit(renamed, y)
        np.testing.assert_array_equal(model.predict(renamed), one)


@pytest.mark.parametrize("names", [["x", "z", "w"], ["lat", "lon", "w"]])
def test_flat_groups_are_an_error(names, rng):
    X = pd.DataFrame(rng.normal(size=(100, 3)), columns=names)
    with pytest.raises(
        ValueError, match=r"must be a list of lists .*groups=\[\[...\]\]"
    ):
        ridge(groups=names[:2]).fit(X, X["w"])
    with pytest.raises(ValueError, match="must be a list of lists"):
        ridge(groups=[0, 1]).fit(X, X["w"])


@pytest.mark.parametrize("kind", ["dates", "durations"])
def test_dates_as_categories_are_converted_as_arrays(kind, monkeypatch):
    """Not one by one, in whatever form they are given."""

    def refuse(text):
        raise AssertionError(f"{text} is hashed")

    monkeypatch.setattr("sklearn_crt.rows.raw_table._hash", refuse)
    dates = pd.Series(pd.date_range("2020-02-28", periods=40, freq="36h"))
    dates = dates if kind == "dates" else dates - dates[3]
    dates[7] = pd.NaT
    codes = codes_of(dates.to_numpy())
    assert np.isnan(codes[7])
    assert len(np.unique(codes)) == 40
    objects = np.array([None if v is pd.NaT else v for v in dates], dtype=object)
    for other in (
        dates.to_numpy().astype("M8[s]" if kind == "dates" else "m8[s]"),
        objects,
        dates.astype("category"),
        pd.Series(objects, dtype=object),
    ):
        np.testing.assert_array_equal(codes_of(other), codes)
    alone = [codes_of(objects[[i]])[0] for i in range(5)]
    np.testing.assert_array_equal(alone, codes[:5])
    mixed = np.array([*objects[:5], "other"], dtype=object)
    monkeypatch.undo()
    np.testing.assert_array_equal(codes_of(mixed)[:5], codes[:5])
