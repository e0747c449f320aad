"""One reader of targets and weights: the same values give the same model."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from sklearn_crt import (
    LearnedMetric,
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
)

from ..cases import array_libraries

pytestmark = pytest.mark.usefixtures("few_folds")

METRIC = LearnedMetric(method="evidence", columns="linear", random_state=0)
CLASSIFIERS = [
    NadarayaWatsonClassifier(sigma=2.0),
    NadarayaWatsonClassifier(OPRFSampler(random_state=0)),
    LocalLinearClassifier(alpha=1.0),
    RandomFeatureRidgeClassifier("linear"),
    METRIC,
]
REGRESSORS = [
    NadarayaWatsonRegressor(sigma=2.0),
    NadarayaWatsonRegressor(OPRFSampler(random_state=0)),
    NadarayaWatsonRegressor(Prototypes(8, random_state=0)),
    LocalLinearRegressor(alpha=1.0),
    RandomFeatureRidge("linear"),
    METRIC,
]
MISSING = np.arange(80) == 3


def name_of(model):
    return type(model).__name__ + type(getattr(model, "kernel", None)).__name__


every_classifier = pytest.mark.parametrize("model", CLASSIFIERS, ids=name_of)
every_regressor = pytest.mark.parametrize("model", REGRESSORS, ids=name_of)
every_estimator = pytest.mark.parametrize(
    "model", CLASSIFIERS + REGRESSORS[:-1], ids=name_of
)


@pytest.fixture(autouse=True)
def _dispatch_may_be_asked_for(monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")


@pytest.fixture
def X(rng):
    return rng.normal(size=(80, 3))


def learned(model, X, y, sample_weight=None):
    """Return what a model does with its training rows."""
    return answers(clone(model).fit(X, y, sample_weight=sample_weight), X)


def answers(fitted, X):
    """Return what a fitted model does with some rows."""
    for method in ("predict_proba", "decision_function", "predict", "transform"):
        if hasattr(fitted, method):
            return getattr(fitted, method)(X)
    raise AssertionError(fitted)


def import_arrow():
    """Return pyarrow, or skip if it is missing or needs a newer NumPy."""
    return pytest.importorskip("pyarrow", exc_type=ImportError)


def containers(values):
    """Yield the same values in every container that users have."""
    kind = values.dtype.kind
    nullable = {"i": "Int64", "b": "boolean", "f": "Float64", "U": "string"}[kind]
    yield "object", values.astype(object)
    yield "list", values.tolist()
    yield nullable, pd.Series(values, dtype=nullable)
    yield "category", pd.Series(values, dtype="category")
    pa = import_arrow()
    pl = pytest.importorskip("polars")
    arrow = {"i": "int64", "b": "bool", "f": "double", "U": "string"}[kind]
    yield f"{arrow}[pyarrow]", pd.Series(values, dtype=f"{arrow}[pyarrow]")
    yield "pyarrow", pa.array(values)
    yield "chunked", pa.chunked_array([pa.array(values[:9]), pa.array(values[9:])])
    yield "polars", pl.Series(values)
    yield "polars object", pl.Series(values.tolist())
    if kind == "U":
        yield "polars categories", pl.Series(values).cast(pl.Categorical)


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["integers", "booleans", "strings"])
@every_classifier
def test_labels_in_every_container(model, kind, X):
    codes = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    values = {
        "integers": 3 * codes,
        "booleans": codes > 0,
        "strings": np.array(["b", "a", "c"])[codes],
    }[kind]
    expected = learned(model, X, values)
    for name, y in containers(values):
        fitted = clone(model).fit(X, y)
        assert_array_equal(answers(fitted, X), expected, err_msg=name)
        if model is not METRIC:
            assert fitted.classes_.tolist() == np.unique(values).tolist(), name
            kinds = {"integers": "i", "booleans": "b", "strings": "UO"}[kind]
            assert fitted.classes_.dtype.kind in kinds, name


@every_regressor
def test_numbers_in_every_container(model, X):
    values = X[:, 0] + X[:, 1] ** 2
    expected = learned(model, X, values)
    for name, y in containers(values):
        assert_array_equal(learned(model, X, y), expected, err_msg=name)
    decimals = np.array([Decimal(value) for value in values], dtype=object)
    assert_array_equal(learned(model, X, decimals), expected)


@every_regressor
def test_several_outputs_in_every_container(model, X):
    pa, pl = import_arrow(), pytest.importorskip("polars")
    a, b = X[:, 0] + X[:, 1], np.arange(80) % 7
    expected = learned(model, X, np.column_stack([a, b]))
    for y in (
        np.column_stack([a, b]).astype(object),
        pd.DataFrame({"a": pd.Series(a, dtype="Float64"), "b": b}),
        pd.DataFrame({"a": a, "b": pd.Series(b, dtype="int64[pyarrow]")}),
        pl.DataFrame({"a": a, "b": b}),
        pa.table({"a": a, "b": b}),
    ):
        assert_array_equal(learned(model, X, y), expected)


@array_libraries
@pytest.mark.parametrize("kind", ["array api", "torch"])
@every_estimator
def test_arrays_of_other_libraries(model, kind, X):
    from sklearn import config_context

    if kind == "torch":
        library = pytest.importorskip("torch")
    else:
        library = pytest.importorskip("array_api_strict")
    values = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    expected = learned(model, X, values)
    with config_context(array_api_dispatch=True):
        found = learned(model, library.asarray(X), library.asarray(values))
    assert_allclose(np.asarray(found), expected, rtol=1e-9, atol=1e-12)


@every_estimator
def test_missing_targets(model, X):
    numbers = (X[:, 0] > 0).astype(int)
    pl = pytest.importorskip("polars")
    for y in (
        pd.Series(numbers, dtype="Int64").mask(MISSING),
        pd.Series(numbers > 0, dtype="boolean").mask(MISSING),
        pd.Series(X[:, 0], dtype="Float64").mask(MISSING),
        np.array([None, *numbers[1:]], dtype=object),
        pl.Series([None, *numbers[1:].tolist()]),
        pl.Series([None, *(numbers[1:] > 0).tolist()]),
    ):
        with pytest.raises(ValueError, match="Input y contains NaN"):
            clone(model).fit(X, y)


@every_classifier
def test_missing_and_mixed_labels(model, X):
    strings = np.array(["a", "b"])[(X[:, 0] > 0).astype(int)].astype(object)
    for missing in (None, np.nan, pd.NA):
        y = strings.copy()
        y[3] = missing
        with pytest.raises(ValueError, match=r"y has missing values.* fill in a label"):
            clone(model).fit(X, y)
    strings[3] = 7
    with pytest.raises(ValueError, match=r"Mix of label input types.*astype\(str\)"):
        clone(model).fit(X, strings)
    strings[3] = ("a", "b")
    with pytest.raises(ValueError, match="y has values of type tuple"):
        clone(model).fit(X, strings)


@every_estimator
def test_dates_are_no_targets(model, X):
    pa, pl = import_arrow(), pytest.importorskip("polars")
    days = np.datetime64("2026-01-01") + np.arange(80) % 3
    for y in (
        days,
        days - days[0],
        pd.Series(days),
        pd.Series(days).dt.tz_localize("UTC"),
        pd.Series(pd.PeriodIndex(pd.Series(days).dt.to_period("D"))),
        pd.Series(days).astype(object),
        [datetime.date(2026, 1, 1)] * 80,
        pl.Series(days),
        pa.array(days),
        pd.Series(days, dtype="timestamp[ms][pyarrow]"),
    ):
        with pytest.raises(TypeError, match=r"y contains dates or times.*to numbers"):
            clone(model).fit(X, y)


@every_regressor
def test_a_date_among_outputs_or_columns(model, X):
    y = X[:, 0]
    for library in ("pandas", "polars", "pyarrow"):
        module = pytest.importorskip(library, exc_type=ImportError)
        make = module.table if library == "pyarrow" else module.DataFrame
        table = make({"a": y, "when": [datetime.datetime(2026, 1, 1)] * 80})
        with pytest.raises(TypeError, match=r"y contains dates or times in .*'when'"):
            clone(model).fit(X, table)
        if library != "pyarrow":  # which scikit-learn does not take as rows
            with pytest.raises(TypeError, match=r"X contains dates or .*'when'"):
                clone(model).fit(table, y)


def test_labels_or_numbers_in_nullable_columns(X):
    """The metric tells labels from numbers by their values, in any container."""
    import_arrow()
    order = np.array([2, 5, 0, 4, 1, 3])
    labels = order[np.clip((X[:, 0] * 1.5 + 3).astype(int), 0, 5)]
    as_labels = METRIC.fit(X, labels).metric_
    as_numbers = METRIC.fit(X, labels.astype(float)).metric_
    assert np.abs(as_labels - as_numbers).max() > 0.01
    for dtype in ("Int64", "int64[pyarrow]", "category"):
        found = METRIC.fit(X, pd.Series(labels, dtype=dtype)).metric_
        assert_array_equal(found, as_labels)
    found = METRIC.fit(X, pd.Series(labels, dtype="Float64")).metric_
    assert_array_equal(found, as_numbers)
    many = np.arange(80)
    few = METRIC.fit(np.repeat(X, 2, axis=0), np.repeat(many, 2)).metric_
    counts = np.r_[many, many + 80]
    found = METRIC.fit(np.repeat(X, 2, axis=0), pd.Series(counts, dtype="Int64"))
    expected = clone(METRIC).fit(np.repeat(X, 2, axis=0), counts.astype(float))
    assert_array_equal(found.metric_, expected.metric_)
    assert np.abs(few - expected.metric_).max() > 1e-3


# ------------------------------------------------------------------- sizes of targets
@pytest.mark.parametrize("size", [1e155, 1e124, 1e-125, 1e-160])
@every_regressor
def test_targets_whose_squares_are_no_numbers(model, size, X):
    y = (X[:, 0] + X[:, 1] ** 2) * size
    for targets in (y, np.column_stack([X[:, 0], y])):
        with pytest.raises(
            ValueError,
            match=r"value of y must be 0 or between 9e-124 and 2e\+123",
        ):
            clone(model).fit(X, targets)


@pytest.mark.parametrize("size", [2.0**400, 2.0**-400])
@every_regressor
def test_targets_of_any_allowed_size(model, size, X):
    y = X[:, 0] + X[:, 1] ** 2
    y[y < -1] = 0
    expected = learned(model, X, y)
    found = learned(model, X, y * size)
    unit = 1.0 if model is METRIC else size
    assert_allclose(found / unit, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("size", [1e120, 1e-120])
@every_regressor
def test_squares_of_targets_times_weights(model, size, X):
    with pytest.raises(
        ValueError, match=r"With sample weights up to 1e[+-]120, the largest"
    ):
        clone(model).fit(X, X[:, 0] * size, sample_weight=np.full(80, size))


# ----------------------------------------------------------------------------- weights
@pytest.mark.filterwarnings("ignore:The mean of the sample weights")
@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_estimator
def test_weights_of_any_size(model, dtype, X):
    """Their unit does not matter, nor the type of the rows."""
    if "RidgeClassifier" in name_of(model):  # fewer rows than 200 are recalibrated
        X = np.random.default_rng(500001).normal(size=(240, X.shape[1]))
    X, n_rows = X.astype(dtype), len(X)
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    weights = 1.0 + np.arange(n_rows) % 3
    weights /= weights.mean()
    if "Ridge" in name_of(model):  # large weights count rows: a fixed penalty follows
        model = clone(model).set_params(alpha=1.0)
    tolerance = 1e-4 if dtype == np.float32 else 1e-8
    expected = learned(model, X, y, weights)
    for unit in (2.0**-180, 2.0**180):
        if "Ridge" in name_of(model):
            model = clone(model).set_params(alpha=unit)
        found = learned(model, X, y, weights * unit)
        if unit > 1 and "RidgeClassifier" in name_of(model):
            # Weights of so many rows leave no room for one more row of every label.
            shares = np.bincount(y, weights) / n_rows
            proportion = 1 / (1 + n_rows)
            shares += proportion * (1 / 3 - shares)
            found = found + proportion * (shares - found)
        assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_estimator
def test_small_weights_are_no_zeros(model, dtype, X):
    """A row counts if its weight is not zero, however small beside the others."""
    X = X.astype(dtype)
    y = (X[:, 0] > 0).astype(int)
    # 1 on average, so that ridge regression does not divide the weights by their mean
    weights = np.where(np.arange(80) % 2, 2.0, np.exp(-120.0))
    tolerance = 1e-4 if dtype == np.float32 else 1e-8
    kept = clone(model)
    if name_of(model).startswith(("LocalLinearC", "RandomFeatureRidgeC")):
        # the folds by which few rows are recalibrated depend on the number of rows
        kept = kept.set_params(calibrate=False)
    if "Prototypes" in name_of(model):  # of which there is one for each row
        kept = kept.set_params(kernel=Prototypes(100, random_state=0), sigma=1.0)
    found = learned(kept, X, y, weights)
    assert np.isfinite(found).all()
    if model is not METRIC and "Prototypes" not in name_of(model):
        gone = np.where(weights == 2, 2.0, 0.0)
        rows = slice(1, None, 2)
        expected = learned(kept, X, y, gone)
        assert_allclose(found[rows], expected[rows], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kernel_weights_name_the_rows_that_have_them(dtype):
    X = np.random.default_rng(500000).normal(size=(6, 1)).astype(dtype)
    y = np.arange(6.0)
    for smallest in (0.0, np.exp(-120), np.exp(-40)):
        weights = np.array([1, smallest, 1, 1, 0, 1])
        model = NadarayaWatsonRegressor(sigma=1.0)
        model.fit(X, y, sample_weight=weights)
        found = model.kernel_weights(X)
        assert found.shape == (6, 6)
        assert_allclose(found @ y, model.predict(X), rtol=1e-5)
        assert found[:, [4]].nnz == 0
        more = model.partial_fit(X, y, sample_weight=weights[::-1])
        found = more.kernel_weights(X)
        assert found.shape == (6, 12)
        assert_allclose(found @ np.tile(y, 2), more.predict(X), rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "kernel",
    ["gaussian", OPRFSampler(center=False)],
    ids=name_of,
)
def test_sums_of_weights_are_in_the_units_of_the_user(kernel, dtype, X):
    """Parts with weights of different sizes merge to the model of all rows."""
    X = X.astype(dtype)
    y = (X[:, 0] > 0).astype(int)
    weights = np.where(np.arange(80) < 40, 1e-30, 3e-33)
    if kernel != "gaussian":
        kernel = clone(kernel).set_params(random_state=0)
    model = NadarayaWatsonClassifier(kernel, sigma=1.0).fit(X, y, weights)
    counts = np.bincount(y, weights)
    assert_allclose(model.class_count_, counts, rtol=1e-12)
    assert model.class_count_.dtype == np.float64
    parts = [
        NadarayaWatsonClassifier(kernel, sigma=1.0).partial_fit(
            X[s], y[s], [0, 1], weights[s]
        )
        for s in (slice(40), slice(40, None))
    ]
    merged = parts[0].merge(parts[1])
    assert_allclose(merged.class_count_, counts, rtol=1e-12)
    expected = model.predict_proba(X)
    assert expected.std() > 0.01
    tolerance = 1e-4 if dtype == np.float32 else 1e-9
    assert_allclose(merged.predict_proba(X), expected, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_parts_of_different_weights_merge_to_the_ridge_of_all_rows(dtype, X, value_of):
    X, y = X.astype(dtype), X[:, 0] + X[:, 1]
    weights = np.where(np.arange(80) < 40, 2.0, 1e-30)
    whole = RandomFeatureRidge("linear").fit(X, y, weights)
    parts = [
        RandomFeatureRidge("linear").partial_fit(X[s], y[s], weights[s])
        for s in (slice(40, None), slice(40))
    ]
    merged = parts[0].merge(parts[1])
    assert_allclose(merged.coef_, whole.coef_, rtol=1e-4)
    assert_allclose(merged.alpha_, whole.alpha_, rtol=1e-4)
    alone = RandomFeatureRidge("linear").fit(X[:40], y[:40], weights[:40])
    assert_allclose(whole.coef_, alone.coef_, rtol=1e-4)
    assert_allclose(whole.alpha_, alone.alpha_, rtol=1e-4)


@every_estimator
def test_weights_in_every_container(model, X):
    y = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    weights = 1 + np.arange(80) % 3
    expected = learned(model, X, y, weights)
    for name, given in containers(weights):
        if name != "category":
            assert_array_equal(learned(model, X, y, given), expected, err_msg=name)
    with pytest.raises(TypeError, match="sample_weight contains dates or times"):
        clone(model).fit(X, y, sample_weight=np.zeros(80, "M8[D]"))
    with pytest.raises(ValueError, match="at least one non-zero number"):
        clone(model).fit(X, X[:, 0] if model in REGRESSORS else y, np.zeros(80))
    for smallest in (1e-130, 1e-300):
        given = np.where(np.arange(80) == 7, smallest, 1.0)
        with pytest.raises(ValueError, match="Sample weights must be 0 or between"):
            clone(model).fit(X, y, sample_weight=given)
