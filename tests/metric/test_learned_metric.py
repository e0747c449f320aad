"""The estimator: directions, invariance, batches, merging, choice, edge cases."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from sklearn_crt import LearnedMetric, LocalLinearClassifier

METHODS = "evidence", "agop", "nca"
# "auto" learns the metrics of the others for labels: the evidence is where AGOP begins
AUTO_FIRST = ["auto", *(pytest.param(each, marks=pytest.mark.slow) for each in METHODS)]


@pytest.fixture
def sampled(monkeypatch):
    """Return a function that sets the largest number of rows in the sample."""
    return partial(
        monkeypatch.setattr, "sklearn_crt.metric._learned.MetricValue.most_rows"
    )


def noisy(rng, n=400, d=6):
    """Return labels that two of the columns tell."""
    X = rng.normal(size=(n, d))
    return X, (X[:, 0] * X[:, 1] > 0).astype(int)


def three_directions(rng, n, d):
    X, B = rng.normal(size=(n, d)), np.linalg.qr(rng.normal(size=(d, 3)))[0]
    Z = X @ B
    y = np.sin(Z[:, 0]) + np.cos(Z[:, 1]) + 0.5 * Z[:, 2] ** 2
    return X, y + 0.3 * y.std() * rng.normal(size=n), B


def angle(metric, B):
    return np.degrees(subspace_angles(metric.components_.T, B)[0])


# --------------------------------------------------------------------- what it finds
@pytest.mark.parametrize("n_rows", [89, 90, 179, 180])
def test_hats_need_five_or_ten_rows_each(n_rows, rng):
    """Three columns have 18 functions, of which three are scores."""
    X = rng.normal(size=(n_rows, 3))
    metric = LearnedMetric(random_state=0).fit(X, X[:, 0] ** 2)
    assert ("evidence, hats" in metric.scores_) == (n_rows >= 90)
    metric = LearnedMetric(random_state=0).fit(X, X[:, 0] ** 2 > 1)
    assert ("agop, hats" in metric.scores_) == (n_rows >= 180)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_directions(seed):
    """Of 12 columns; rounds of AGOP draw frequencies in the metric of the evidence."""
    X, y, B = three_directions(np.random.default_rng(seed), 500, 12)
    metric = LearnedMetric(3, method="agop", random_state=seed).fit(X, y)
    assert metric.components_.shape == (3, 12)
    start = LearnedMetric(3, method="evidence", columns="linear").fit(X, y)
    assert angle(metric, B) < 10
    assert angle(start, B) > 1.5 * angle(metric, B)


@pytest.mark.slow
def test_directions_of_many_columns(rng):
    """The largest angle was 6 degrees, and 55 degrees with scales of columns alone."""
    X, y, B = three_directions(rng, 20_000, 76)
    metric = LearnedMetric(3, random_state=0).fit(X, y)
    assert metric.method_ == "agop"
    assert angle(metric, B) < 10


def test_sparse_structure_in_batches(rng):
    """Three of 24 columns have effects, as two of them do together."""
    X = rng.normal(size=(400, 24))
    y = X[:, 3] * np.sin(X[:, 7]) + 0.5 * X[:, 20] + 0.1 * rng.normal(size=400)
    metric = LearnedMetric(random_state=0)
    for part in np.array_split(np.arange(400), 6):
        metric.partial_fit(X[part], y[part])
    assert metric.feature_importances_[[3, 7, 20]].sum() > 0.95


def test_hats_represent_effects_that_rise_and_fall(rng):
    """The distance of rows with opposite effects is large, and else it is small."""
    X = rng.uniform(-1, 1, size=(400, 2))
    y = np.where(np.abs(X[:, 0]) < 0.5, 1.0, 0.0) + 0.1 * rng.normal(size=400)
    metric = LearnedMetric(random_state=0).fit(X, y)
    assert metric.columns_ == "hats"
    a, b, c = metric.transform([[-0.9, 0.0], [0.9, 0.0], [0.1, 0.0]])
    assert np.linalg.norm(a - b) < 0.3 * np.linalg.norm(a - c)
    linear = LearnedMetric(columns="linear", random_state=0).fit(X, y)
    a, b, c = linear.transform([[-0.9, 0.0], [0.9, 0.0], [0.1, 0.0]])
    assert np.linalg.norm(a - b) > np.linalg.norm(a - c)


def test_hats_separate_classes_by_several_intervals(rng):
    """A class is likely if many of six columns are near 0, on either side of it."""
    X = rng.uniform(-1, 1, size=(1500, 6))
    y = np.sum(np.abs(X) < 0.5, axis=1) > 3
    correct = {}
    for columns, method in (("linear", "agop"), ("auto", "auto")):
        metric = LearnedMetric(method=method, columns=columns, random_state=0)
        rows = metric.fit(X[:520], y[:520]).transform(X)
        model = LocalLinearClassifier().fit(rows[:520], y[:520])
        correct[columns] = model.score(rows[520:], y[520:])
    assert (metric.method_, metric.columns_) == ("agop", "hats")
    assert 1 - correct["auto"] < 0.7 * (1 - correct["linear"])


@pytest.mark.parametrize(
    ("seed", "noise", "octaves"), [(3, 0.5, 1), (2, 2.0, 0), (4, 0.5, None)]
)
def test_metrics_for_labels_are_averaged(seed, noise, octaves):
    """Weights decrease by a factor of e for every 5 % by which the error is larger.

    They are multiplied by the square of the best sigma of each metric, which for NCA is
    larger by some octaves: the errors of other sigmas are larger by 5 % or more. NCA is
    left out if its weight is below 2 %.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(160, 4))
    y = (X[:, 0] + noise * rng.normal(size=160) > 0).astype(int)
    options, methods = {"columns": "linear", "random_state": 0}, ("agop", "nca")
    metric = LearnedMetric(**options).fit(X, y)
    errors = [1.0, 1.03] * -np.array([metric.scores_[name] for name in methods])
    assert metric.method_ == methods[errors.argmin()]
    single = [LearnedMetric(method=m, **options).fit(X, y).metric_ for m in methods]
    columns, whole = np.reshape(single, (2, -1)).T, metric.metric_.ravel()
    found = np.linalg.lstsq(columns, whole, rcond=None)[0]
    assert_allclose(columns @ found, whole, atol=1e-8 * whole.max())
    shares = np.exp((1 - errors / errors.min()) / 0.05)
    if octaves is None:
        assert shares[1] < 0.02
        assert_allclose(found, [1, 0], atol=1e-8)
    else:
        expected = 4.0**octaves * shares[1] / shares[0]
        assert_allclose(found[1] / found[0], expected, rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_columns_that_tell_nothing_are_shrunk(method, rng):
    X, y = noisy(rng)
    metric = LearnedMetric(method=method, random_state=0).fit(X, y)
    assert metric.feature_importances_[:2].sum() > 0.7
    assert_allclose(metric.feature_importances_.sum(), 1)
    model = KNeighborsClassifier().fit(metric.transform(X), y)
    new, labels = noisy(rng)
    assert model.score(metric.transform(new), labels) > 0.87
    assert KNeighborsClassifier().fit(X, y).score(new, labels) < 0.85


def test_auto_takes_the_candidate_of_the_lowest_error(rng):
    X, y = noisy(rng, 200)
    metric = LearnedMetric(random_state=0).fit(X, y)
    assert set(metric.scores_) == {"agop", "nca"}
    assert metric.method_ == max(metric.scores_, key=metric.scores_.get)
    assert metric.columns_ == "linear"
    X = rng.normal(size=(250, 6))
    y = X[:, 0] + 0.1 * X[:, 1]
    numbers = LearnedMetric(random_state=0).fit(X, y)
    assert set(numbers.scores_) == {"evidence", "agop", "evidence, hats"}
    best = max(numbers.scores_, key=numbers.scores_.get)
    assert best == numbers.method_ + (", hats" if numbers.columns_ == "hats" else "")
    assert numbers.scores_[best] > 0.95
    linear = LearnedMetric(random_state=0, columns="linear").fit(X, y)
    assert linear.columns_ == "linear"
    assert linear.scores_.items() <= numbers.scores_.items()
    hats = LearnedMetric(random_state=0, columns="hats").fit(X, y)
    assert (hats.columns_, hats.scores_) == ("hats", {})


def test_candidates_are_judged_by_rows_that_they_have_not_seen(rng):
    """A target without any relation to the columns has no score above 0 on average.

    A score is one minus a ratio of mean squares over 40 rows, whose standard deviation
    is sqrt(2 / 40), so that of the mean is .08. Judged by rows from which they were
    learned, the candidates have mean scores of about .35.
    """
    metric, scores = LearnedMetric(columns="linear", random_state=0), []
    for _ in range(8):
        metric.fit(rng.normal(size=(100, 60)), rng.normal(size=100))
        scores.append(max(metric.scores_.values()))
    assert np.mean(scores) < 0.2


@pytest.mark.each_value
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("n_components", [None, 2])
def test_scale_is_that_of_standardised_columns(method, n_components, rng):
    X, y = noisy(rng, 150, 5)
    X[:, 4] = 3.0  # constant
    metric = LearnedMetric(n_components, method=method, random_state=0).fit(X, y)
    assert_allclose(metric.transform(X).var(axis=0).sum(), 4)
    assert metric.feature_importances_[4] == 0
    n_columns = metric.transform(X).shape[1]
    assert n_columns == (n_components or (24 if metric.columns_ == "hats" else 4))
    assert len(metric.get_feature_names_out()) == n_columns


def test_attributes_are_derivatives_at_the_training_rows(rng):
    X, y = rng.normal(size=(150, 4)) * [1, 10, 0.1, 1] + 5, rng.normal(size=150)
    y = y + np.sin(X[:, 0]) + X[:, 1] * X[:, 2]
    X[:, 3] = 2.0
    for columns in ("linear", "hats"):
        metric = LearnedMetric(columns=columns, random_state=0).fit(X, y)
        J, steps = [], 1e-6 * X.std(axis=0) + 1e-9
        for step in np.diag(steps):
            found = metric.transform(X + step) - metric.transform(X)
            J.append(found / step.sum())  # to the right, as knots are training rows
        J = np.array(J)  # (n_features, n_rows, n_columns)
        assert_allclose(metric.components_, J.mean(axis=1).T, rtol=0.02, atol=1e-3)
        expected = np.einsum("inc,jnc->ij", J, J) / 150
        size = np.sqrt(np.outer(expected.diagonal(), expected.diagonal()))
        assert np.all(np.abs(metric.metric_ - expected) <= 0.02 * size + 1e-9)
        shares = expected.diagonal() * X.var(axis=0)
        found = metric.feature_importances_
        assert_allclose(found, shares / shares.sum(), atol=0.02)


# ------------------------------------------------------------------------ invariance
@pytest.mark.parametrize("method", METHODS)
def test_units_of_columns_do_not_matter(method, rng):
    X, y = noisy(rng, 120)
    units = np.array([1.0, 1e-3, 1e3, 1.0, 10.0, 1.0])
    metrics = [
        LearnedMetric(method=method, random_state=0).fit(table, y)
        for table in (X, X * units + 5)
    ]
    expected = metrics[0].transform(X)
    found = metrics[1].transform(X * units + 5)
    gap = found.mean(axis=0) - expected.mean(axis=0)
    assert_allclose(found - gap, expected, atol=1e-3)


@pytest.mark.each_value
@pytest.mark.parametrize("method", ["auto", *METHODS])
def test_weights(method, rng):
    """Rows without weight count nothing, and the unit of the weights is arbitrary."""
    X, y = noisy(rng, 150)
    weights = rng.integers(0, 3, size=150)
    metric = LearnedMetric(method=method, random_state=0)
    expected = clone(metric).fit(X, y, weights)
    counted = weights > 0
    found = clone(metric).fit(X[counted], y[counted], weights[counted])
    assert_array_equal(found.metric_, expected.metric_)
    found = clone(metric).fit(X, y, 8.0 * weights)
    size = expected.metric_.max()
    assert_allclose(found.metric_, expected.metric_, atol=1e-6 * size)
    plain = clone(metric).fit(X[counted], y[counted])
    assert np.abs(plain.metric_ - expected.metric_).max() > 1e-3 * size


@pytest.mark.parametrize("method", AUTO_FIRST)
def test_kinds_of_rows(method, rng):
    X, y = noisy(rng, 120)
    X[X < -0.5] = 0
    options = {"method": method, "random_state": 0}
    metric = LearnedMetric(**options).fit(X, y)
    expected = metric.transform(X)
    for kind in (sparse.csr_array, sparse.csc_matrix):
        found = LearnedMetric(**options).fit(kind(X), y)
        assert found.method_ == metric.method_
        assert_allclose(found.transform(kind(X)), expected, atol=1e-4)
    single = LearnedMetric(**options).fit(X.astype(np.float32), y)
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.transform(X).dtype == np.float64
    assert single.method_ == metric.method_
    assert_allclose(single.metric_, metric.metric_, atol=0.1 * metric.metric_.max())


def test_labels_of_all_kinds(rng):
    X, y = noisy(rng, 80)
    options = {"method": "nca", "random_state": 0}
    expected = LearnedMetric(**options).fit(X, y).components_
    for labels in (
        y.astype(bool),
        np.array(["a", "b"])[y],
        y.astype(object),
        5 - y[:, None],
    ):
        found = LearnedMetric(**options).fit(X, labels).components_
        if labels.ndim == 1:
            assert_allclose(found, expected, rtol=1e-6)


def test_several_outputs(rng):
    X = rng.normal(size=(200, 6))
    Y = np.stack([X[:, 0], 100 * X[:, 1] ** 2], axis=1)
    for targets in (Y, Y.astype(int)):
        metric = LearnedMetric(method="agop", random_state=0).fit(X, targets)
        assert metric.feature_importances_[:2].min() > 0.1
        assert metric.feature_importances_[2:].sum() < 0.2


# ------------------------------------------------------------------ batches and parts
def parts(X, y, n=4):
    return [*zip(np.array_split(X, n), np.array_split(y, n), strict=True)]


@pytest.mark.parametrize("labels", [True, False], ids=["labels", "numbers"])
def test_batches_and_merged_parts_are_all_rows(labels, rng):
    X, y = noisy(rng, 120)
    y = y if labels else y + X[:, 2]
    options = {"method": "agop", "columns": "linear", "random_state": 0}
    expected = LearnedMetric(**options).fit(X, y).metric_
    batches = LearnedMetric(**options)
    for part in parts(X, y):
        batches.partial_fit(*part)
    first, *others = (LearnedMetric(**options).partial_fit(*p) for p in parts(X, y))
    for other in others:
        first.merge(other)
    for found in (batches, first):
        assert_array_equal(found.metric_, expected)


def table_for(method, rng):
    """Return rows with a constant column, and targets and weights for the method."""
    X, y = noisy(rng, 120)
    X[:, 3] = 7.0
    return X, (y if method in ("auto", "nca") else y + X[:, 2]), rng.integers(1, 3, 120)


@pytest.mark.each_value
@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize("n_last", [1, 60])
def test_batches_after_fit_equal_fit_on_all_rows(method, n_last, rng):
    X, y, weights = table_for(method, rng)
    metric = LearnedMetric(method=method, random_state=0)
    expected = clone(metric).fit(X, y, weights)
    metric.fit(X[:-n_last], y[:-n_last], weights[:-n_last])
    before = metric.metric_
    metric.partial_fit(X[-n_last:], y[-n_last:], weights[-n_last:])
    assert metric.method_ == expected.method_
    assert metric.scores_ == pytest.approx(expected.scores_)
    size = expected.metric_.max()
    assert_allclose(metric.metric_, expected.metric_, atol=1e-6 * size)
    assert np.abs(metric.metric_ - before).max() > 1e-4 * size


@pytest.mark.parametrize("method", AUTO_FIRST)
def test_merged_halves_equal_fit_on_all_rows(method, rng):
    X, y, weights = table_for(method, rng)
    metric = LearnedMetric(2, method=method, random_state=0)
    expected = clone(metric).fit(X, y, weights).transform(X)
    halves = slice(70), slice(70, None)
    parts = [clone(metric).fit(X[k], y[k], weights[k]) for k in halves]
    kept = parts[1].metric_
    found = parts[0].merge(parts[1]).transform(X)
    assert_array_equal(found, expected)
    assert_array_equal(parts[1].metric_, kept)


def test_integers_are_labels_or_numbers_by_all_rows(rng):
    """The first 60 rows alone have few different integers, all 240 have many."""
    X, y = rng.normal(size=(240, 4)), rng.permutation(240)
    metric = LearnedMetric(method="agop", columns="linear", random_state=0)
    expected = clone(metric).fit(X, y.astype(float)).metric_
    batches = clone(metric).fit(X[:60], y[:60]).partial_fit(X[60:], y[60:])
    merged = clone(metric).fit(X[:60], y[:60]).merge(clone(metric).fit(X[60:], y[60:]))
    for found in (batches, merged):
        assert_allclose(found.metric_, expected, atol=1e-9 * expected.max())


def test_nca_takes_many_integers_as_labels(rng):
    X, y = rng.normal(size=(204, 3)), np.arange(204) // 2
    metric = LearnedMetric(method="nca", columns="linear", random_state=0)
    names = np.char.zfill(y.astype(str), 3)  # in the same order
    expected = clone(metric).fit(X, names).metric_
    for labels in (y, y.astype(float)):
        assert_array_equal(clone(metric).fit(X, labels).metric_, expected)


def test_a_sample_of_many_rows(rng, sampled):
    """It is the same in all batches."""
    sampled(100)
    X, y = noisy(rng, 480)
    metric = LearnedMetric(method="evidence", columns="linear", random_state=0)
    whole = clone(metric).fit(X, y)
    sizes, batches = [], clone(metric)
    for part in parts(X, y, 6):
        batches.partial_fit(*part)
        sizes.append(len(pickle.dumps(batches)))
    assert sizes[0] < sizes[1] == pytest.approx(sizes[-1], rel=1e-2)
    assert_array_equal(batches.metric_, whole.metric_)
    halves = [clone(metric).fit(X[k], y[k]) for k in (slice(240), slice(240, None))]
    merged = halves[0].merge(halves[1])
    assert merged._value.sample.X.shape == (100, 6)
    sampled(480)
    assert np.abs(clone(metric).fit(X, y).metric_ - whole.metric_).max() > 1e-3


@pytest.mark.each_value
@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize(
    "options",
    [
        {"n_components": 2},
        {"method": "evidence", "columns": "hats"},
        {"method": "agop", "columns": "linear"},
        {"method": "nca", "columns": "linear", "n_components": 2},
    ],
    ids=str,
)
def test_a_frozen_metric_is_small_and_cannot_be_extended(options, first, rng):
    X = rng.normal(size=(250, 40))
    y = (X[:, 0] > 0).astype(int)
    metric = getattr(LearnedMetric(random_state=0, **options), first)(X, y)
    names = "components_", "metric_", "feature_importances_", "columns_", "scores_"
    expected = [getattr(metric, name) for name in names]
    features, whole = metric.transform(X), len(pickle.dumps(metric))
    other = copy.copy(metric)
    assert metric.freeze().freeze() is metric
    dumped = pickle.dumps(metric)
    restored = pickle.loads(dumped)
    assert_array_equal(restored.transform(X), features)
    for name, value in zip(names, expected, strict=True):
        assert_array_equal(getattr(restored, name), value)
    assert len(dumped) < X.nbytes < whole
    for call in (
        lambda: restored.partial_fit(X, y),
        lambda: restored.merge(other),
        lambda: other.merge(restored),
    ):
        with pytest.raises(ValueError, match=r"is frozen: freeze\(\) .*fit again"):
            call()
    assert restored.fit(X, y).partial_fit(X, y) is restored


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
@pytest.mark.parametrize("convert", [np.array, sparse.csr_array])
def test_what_is_kept_is_no_array_of_the_caller(first, convert, rng):
    X, y = noisy(rng, 100)
    buffer, labels, weights = convert(X), y + 0.5 * X[:, 2], rng.random(100)
    metric = LearnedMetric(method="agop", random_state=0)
    expected = clone(metric).fit(X, labels.copy(), weights.copy())
    expected.partial_fit(X[:9], y[:9] + 0.5)
    getattr(metric, first)(buffer, labels, weights)
    labels[:], weights[:] = 0, 1
    (buffer if convert is np.array else buffer.data)[:] = 0
    metric.partial_fit(X[:9], y[:9] + 0.5)
    assert_allclose(metric.metric_, expected.metric_, atol=1e-9)


def test_state(rng):
    """A failed fit changes nothing, and parameters count at the next one."""
    X, y = noisy(rng, 100)
    metric = LearnedMetric(method="agop", random_state=0).fit(X, y)
    expected = metric.components_
    with pytest.raises(ValueError, match="n_components=9 must be at most"):
        metric.set_params(n_components=9).fit(X, y)
    assert_array_equal(metric.components_, expected)
    again = pickle.loads(pickle.dumps(metric))
    assert_array_equal(again.components_, expected)
    assert_array_equal(again.transform(X), metric.transform(X))


# ---------------------------------------------------------------------- edges, errors
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", ["auto", *METHODS])
@pytest.mark.parametrize(
    "table",
    [
        (np.arange(38.0).reshape(19, 2) % 7, np.r_[0, np.ones(18, int)]),
        (np.arange(38.0).reshape(19, 2) % 7, np.arange(19)),
        (np.arange(38.0).reshape(19, 2) % 7, np.ones(19, int)),
        (np.ones((19, 2)), np.arange(19) % 2),
        (np.array([[0.0, 1.0], [1.0, 3.0]]), np.array([0, 1])),
        (np.arange(38.0).reshape(19, 2) % 7, np.full(19, 2.5)),
        (np.eye(2)[np.arange(19) % 2], np.arange(19) % 3),
    ],
    ids=[
        "one apart",
        "each apart",
        "one class",
        "one row",
        "two rows",
        "constant",
        "2",
    ],
)
def test_small_tables(method, table):
    X, y = table
    if method == "nca" and y.dtype == float:
        return
    metric = LearnedMetric(method=method, random_state=0).fit(X, y)
    assert np.all(np.isfinite(metric.transform(X)))
    assert np.all(np.isfinite(metric.feature_importances_))
    if len(np.unique(y)) == 1 or np.ptp(X) == 0:
        assert metric.method_ == "none"
    if np.ptp(X) == 0:  # later steps of a pipeline need a column
        assert_array_equal(metric.transform(X), np.zeros((len(X), 1)))


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_that_vary_little_about_a_large_mean(dtype, rng):
    """Times in seconds since 1970, for instance, which vary by a few seconds."""
    X = rng.normal(size=(120, 2)).astype(dtype)
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    origin = 1e9 if dtype is np.float64 else 1e3
    expected = LearnedMetric(random_state=0).fit(X, y).feature_importances_
    found = LearnedMetric(random_state=0).fit(X + dtype(origin), y)
    assert_allclose(found.feature_importances_, expected, atol=0.05)
    # differences of one unit in the last place are rounding errors
    noise = np.where(rng.random(120) < 0.5, dtype(0.1), np.nextafter(dtype(0.1), 1))
    X[:, 0] = noise
    assert LearnedMetric(random_state=0).fit(X, y).feature_importances_[0] == 0


def test_many_columns(rng):
    X = rng.normal(size=(60, 250))
    y = (X[:, 0] > 0).astype(int)
    for method in METHODS:
        metric = LearnedMetric(5, method=method, columns="linear", random_state=0)
        metric.fit(X, y)
        assert metric.components_.shape == (5, 250)
        assert np.linalg.matrix_rank(metric.components_) == 5


def test_errors(rng):
    X, y = noisy(rng, 60)
    for text, call in (
        (
            "requires class labels, but y contains fractional",
            lambda: LearnedMetric(method="nca").fit(X, X[:, 0]),
        ),
        (
            "requires class labels, but y contains fractional",
            lambda: (
                LearnedMetric(method="nca").partial_fit(X, y).partial_fit(X, X[:, 0])
            ),
        ),
        (
            "several outputs are only supported for numbers",
            lambda: LearnedMetric().fit(X, np.array([["a", "b"]] * 60)),
        ),
        ("at least one non-zero", lambda: LearnedMetric().fit(X, y, np.zeros(60))),
        # as floats, the labels would be equal
        ("integers beyond 2.53", lambda: LearnedMetric().fit(X, 2**60 + y)),
        (
            "n_components=7 must be at most the number of features, 6",
            lambda: LearnedMetric(7).fit(X, y),
        ),
        ("minimum of 2 is required", lambda: LearnedMetric().fit(X[:1], y[:1])),
        ("The 'method' parameter", lambda: LearnedMetric(method="lda").fit(X, y)),
        (
            "merge requires another LearnedMetric",
            lambda: LearnedMetric().partial_fit(X, y).merge(1),
        ),
        (
            "columns is 'auto' in one object and 'linear'",
            lambda: (
                LearnedMetric()
                .partial_fit(X, y)
                .merge(LearnedMetric(columns="linear").partial_fit(X, y))
            ),
        ),
        (
            r"but the earlier rows had 1 column\(s\) of labels",
            lambda: (
                LearnedMetric().partial_fit(X, y.astype(str)).partial_fit(X, X[:, 0])
            ),
        ),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_in_a_pipeline(rng):
    X, y = noisy(rng, 400)
    metric = LearnedMetric(method="agop", columns="linear", random_state=0)
    model = make_pipeline(metric, KNeighborsClassifier())
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9


# ------------------------------------------------------------------------------ Dask
@pytest.mark.parametrize("n_different", [3, 150])
def test_integers_in_blocks_of_dask(n_different, rng):
    """Up to 100 are labels, more are numbers, however few a block has."""
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    crt_dask = pytest.importorskip("sklearn_crt.dask", reason="needs the extra dask")
    X = rng.normal(size=(300, 4))
    y = np.argsort(np.argsort(X[:, 0])) * n_different // 300
    options = {"method": "agop", "columns": "linear", "random_state": 0}
    expected = LearnedMetric(**options).fit(X, y).metric_
    tables = da.from_array(X, chunks=(60, 4)), da.from_array(y, chunks=60)
    found = crt_dask.fit(LearnedMetric(**options), *tables).metric_
    assert_allclose(found, expected, atol=1e-10 * expected.max())


@pytest.mark.parametrize("method", ["auto", "nca"])
def test_blocks_of_dask(method, rng, sampled):
    """The metric is that of all rows, also if a sample of them is kept."""
    da = pytest.importorskip("dask.array", reason="needs the extra dask")
    crt_dask = pytest.importorskip("sklearn_crt.dask", reason="needs the extra dask")

    X, y = noisy(rng, 300)
    labels, weights = np.array(["a", "b"])[y], rng.integers(0, 3, size=300)
    tables = da.from_array(X, chunks=(130, 6)), da.from_array(labels, chunks=130)
    metric = LearnedMetric(method=method, columns="linear", random_state=0)
    for most in (10_000, 80):
        sampled(most)
        expected = clone(metric).fit(X, labels, weights)
        found = crt_dask.fit(metric, *tables, sample_weight=da.from_array(weights, 130))
        assert_array_equal(found.metric_, expected.metric_)
        assert found.scores_ == expected.scores_
    with pytest.raises(ValueError, match="requires the targets y"):
        crt_dask.fit(metric, tables[0])
    with pytest.raises(TypeError, match=r"sklearn_crt\.dask\.fit"):
        metric.fit(*tables)


def test_steps_are_reported(rng):
    pytest.importorskip("sklearn.callback", reason="came with scikit-learn 1.9")

    class Recorder:
        ended = ()

        def setup(self, estimator, context):
            pass

        teardown = setup

        def on_fit_task_begin(self, estimator, context, **kwargs):
            pass

        def on_fit_task_end(self, estimator, context, **kwargs):
            self.ended += (context.task_name,)

    recorder = Recorder()
    X, y = noisy(rng, 120)
    LearnedMetric(random_state=0).set_callbacks(recorder).fit(X, y)
    # two candidates, and 100 of the steps of NCA
    assert recorder.ended.count("candidate") >= 3
    assert recorder.ended[-1] == "fit"


def test_many_integers_are_numbers(rng):
    X = rng.normal(size=(160, 3))
    y = np.round(200 * X[:, 0]).astype(int)
    found = LearnedMetric(method="agop", random_state=0).fit(X, y)
    same = LearnedMetric(method="agop", random_state=0).fit(X, y.astype(float))
    assert_allclose(found.metric_, same.metric_)
    parts = LearnedMetric(method="agop", random_state=0)
    parts.partial_fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
    assert_allclose(parts.metric_, same.metric_, rtol=1e-6)
    few = LearnedMetric(method="agop", random_state=0).fit(X, y // 100)
    as_numbers = clone(few).fit(X, (y // 100).astype(float))
    assert not np.allclose(few.metric_, as_numbers.metric_)


def test_equal_columns_add_no_direction_of_rounding_errors(rng):
    """Behind a scaler these would count like the others."""
    X = rng.normal(size=(300, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1]
    Z = (
        LearnedMetric(columns="linear", random_state=0)
        .fit(X[:, [0, 1, 2, 0, 1]], y)
        .transform(X[:, [0, 1, 2, 0, 1]])
    )
    deviations = Z.std(axis=0)
    assert np.count_nonzero(deviations) == 3
    assert deviations[deviations > 0].min() > 1e-6 * deviations.max()
