"""The ANOVA kernel, its weights and its features; what tables the sampler reads."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline

from sklearn_crt import AnovaSampler, RandomFeatureRidge
from sklearn_crt.rows.raw_table import TableReader
from sklearn_crt.tables import _anova_kernel

pd = pytest.importorskip("pandas")


def mixed_table(n=400, seed=0, missing=0.1):
    """Return a table with numbers, categories and missing values, and numbers."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "colour": rng.choice(["red", "green", "blue"], n),
            "noise": rng.normal(size=n),
            "shape": pd.Categorical(rng.choice(["round", "flat"], n)),
        }
    )
    up = np.where(X["colour"] == "red", 1.0, -1.0)
    y = up * np.sin(2 * X["size"]) + 0.5 * (X["shape"] == "flat")
    X.loc[rng.random(n) < missing, "noise"] = np.nan
    X.loc[rng.random(n) < missing, "colour"] = None
    return X, y.to_numpy() + 0.05 * rng.normal(size=n)


@pytest.fixture(scope="module")
def table():
    return mixed_table()


@pytest.fixture(scope="module")
def fitted(table):
    return AnovaSampler(n_components=60, random_state=0).fit(*table)


def plain_kernel(A, B, is_score, roughness):
    """Return the kernel of one term, written out."""
    if not any(is_score) and len(is_score) == 1:
        return (A == B.T).astype(float)
    squares = np.zeros((len(A), len(B)))
    for j, score in enumerate(is_score):
        difference = np.subtract.outer(A[:, j], B[:, j])
        squares += difference**2 if score else difference != 0
    rough, smooth = np.exp(-np.sqrt(squares)), np.exp(-squares / 2)
    return roughness * rough + (2 - roughness) * smooth


def plain_anova(learned, Z, Y):
    """Return the ANOVA kernel by a sum over all subsets of the columns."""
    kernel, own = learned.kernel, learned.kernel.columns
    terms = []
    for term, weight in zip(own.terms, kernel.weights, strict=True):
        columns = list(term)
        kind = own.is_score[columns], own.roughness
        points = own.points[:, columns]
        K = plain_kernel(points, points, *kind)
        m = len(K)
        centre = np.eye(m) - 1 / m
        scale = np.trace(centre @ K @ centre) / m
        left, right = (
            plain_kernel(rows[:, columns], points, *kind).mean(axis=1)
            for rows in (Z, Y)
        )
        raw = plain_kernel(Z[:, columns], Y[:, columns], *kind)
        centred = raw - left[:, None] - right + K.mean()
        terms.append(weight * centred / scale)
    most = {"all": len(terms)}.get(kernel.order, kernel.order)
    return sum(
        kernel.strength ** (size - 1) * np.prod([terms[q] for q in chosen], axis=0)
        for size in range(1, most + 1)
        for chosen in combinations(range(len(terms)), size)
    )


@pytest.mark.parametrize("order", [1, 2, "all"])
@pytest.mark.parametrize("groups", [None, [["size", "colour"]]])
@pytest.mark.parametrize("roughness", [1.0, 0.1])
def test_kernel_is_the_sum_over_subsets_of_columns(
    table, value_of, order, groups, roughness, monkeypatch
):
    X, _ = table
    y = X["size"].to_numpy() ** 2
    if roughness == 1.0:
        monkeypatch.setattr(_anova_kernel, "_SMOOTH", 1.0)
    options = {"n_components": 30, "random_state": 0}
    sampler = AnovaSampler(order=order, groups=groups, **options).fit(X, y)
    assert sampler.order_ == order
    assert sampler.roughness_ == roughness
    learned = value_of(sampler).solution.learned
    rows = X[:50]
    Z = learned.encoding.transform(TableReader.of(X).read(rows))
    expected = plain_anova(learned, Z, Z[:20])
    diagonal = learned.kernel.diagonal(Z[:20])
    np.testing.assert_allclose(diagonal, np.diag(expected), rtol=1e-9, atol=1e-9)
    found = sampler.exact_kernel(rows, rows[:20])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_features_are_those_of_nystroem(table, fitted, value_of):
    """The approximation is exact between a landmark and any row, up to the jitter."""
    X, _ = table
    learned = value_of(fitted).solution.learned
    Z = learned.encoding.transform(TableReader.of(X).read(X))
    points = learned.kernel.columns.points
    is_landmark = (Z[:, None] == points).all(axis=2).any(axis=1)
    assert is_landmark.sum() == 60
    exact = fitted.exact_kernel(X, X[is_landmark])
    found = fitted.approximate_kernel(X, X[is_landmark])
    size = np.abs(exact).max()
    np.testing.assert_allclose(found, exact, atol=1e-3 * size)
    elsewhere = fitted.exact_kernel(X) - fitted.approximate_kernel(X)
    assert np.diag(elsewhere).min() > -1e-6 * size  # Nystroem is never too large
    K = learned.kernel(points)
    np.testing.assert_allclose(K.mean(axis=0), 0, atol=0.2 * size)


def test_functions_of_single_columns_have_mean_zero(table, value_of):
    sampler = AnovaSampler(order=1, n_components=50, random_state=0).fit(*table)
    kernel = value_of(sampler).solution.learned.kernel
    K = kernel(kernel.columns.points)
    np.testing.assert_allclose(K.mean(axis=0), 0, atol=1e-10)
    np.testing.assert_allclose(K, K.T, atol=1e-10)


def test_weights_find_the_columns_that_matter(fitted):
    size, colour, noise, shape = fitted.feature_importances_
    assert fitted.feature_importances_.sum() == pytest.approx(1)
    assert min(size, colour) > 2 * shape
    assert shape > 2 * noise


def test_effects_are_constant_outside_of_the_range(rng):
    """The kernel vanishes at large distances, where functions would have mean zero."""
    X = rng.uniform(0, 1, (300, 2))
    y = 10 * np.tanh(3 * X[:, 0]) + 0.1 * rng.normal(size=300)
    model = RandomFeatureRidge(AnovaSampler(random_state=0), clip=False).fit(X, y)
    rows = np.repeat(X[:1], 3, axis=0)
    rows[:, 0] = X[:, 0].max(), 1.5, 3.0
    at_end, *beyond = model.predict(rows)
    assert at_end == pytest.approx(10 * np.tanh(3), abs=0.3)
    np.testing.assert_allclose(beyond, at_end, atol=1.0)  # slopes are small


def test_smooth_targets_get_a_smooth_kernel(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1300, 3))
    noise = 0.1 * rng.normal(size=1300)
    smooth = X[:, 0] + X[:, 1] * X[:, 2] + noise
    steps = np.sign(X[:, 0]) + np.sign(X[:, 1] - 0.5) + noise
    train, new = slice(300), slice(300, None)

    def fitted_and_error(y):
        model = RandomFeatureRidge(AnovaSampler(random_state=0))
        model.fit(X[train], y[train])
        return model.kernel_, np.mean((model.predict(X[new]) - y[new]) ** 2)

    sampler, error = fitted_and_error(smooth)
    assert sampler.roughness_ == 0.1
    assert fitted_and_error(steps)[0].roughness_ == 1.0
    monkeypatch.setattr(_anova_kernel, "_SMOOTH", 1.0)
    sampler, error_of_rough = fitted_and_error(smooth)
    assert sampler.roughness_ == 1.0
    assert error < 0.8 * error_of_rough


def test_rows_with_little_weight_hardly_count_for_the_roughness():
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 3))
        y = X[:, 0] + X[:, 1] + 0.3 * rng.normal(size=400)
        for weights in (np.ones(400), np.exp(2 * rng.normal(size=400))):
            sampler = AnovaSampler(order=1, n_components=60, random_state=0)
            sampler.fit(X, y, sample_weight=weights)
            found.append(sampler.roughness_)
    # the weights are those of about 30 rows, which are too few for a choice
    assert found[::2].count(0.1) >= found[1::2].count(0.1) + 2


def test_pairs_are_found_where_columns_interact():
    X, y = mixed_table(missing=0)
    train, test = slice(None, 300), slice(300, None)
    scores = {}
    for order in (1, 2):
        model = make_pipeline(AnovaSampler(order=order, random_state=0), Ridge(0.01))
        scores[order] = model.fit(X[train], y[train]).score(X[test], y[test])
    assert scores[1] < 0.6
    assert scores[2] > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_a_pure_interaction_among_many_columns_is_found(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(900, 38))
    y = np.tanh(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=900)
    sampler = AnovaSampler(order=2, n_components=200, random_state=0)
    model = make_pipeline(sampler, Ridge(0.01)).fit(X[:400], y[:400])
    # the error does not decrease in the first rounds; the weights are then useless
    assert sampler.feature_importances_[:2].min() > 0.2
    assert model.score(X[400:], y[400:]) > 0.5


def test_labels_and_several_outputs(table):
    X, y = table
    labels = np.where(y > 0, "yes", "no")
    model = make_pipeline(AnovaSampler(random_state=0), LogisticRegression(C=10))
    assert model.fit(X[:300], labels[:300]).score(X[300:], labels[300:]) > 0.85
    several = np.c_[y, 1e6 * X["noise"].fillna(0)]
    both = AnovaSampler(random_state=0).fit(X, several).feature_importances_
    assert both[2] > 0.2  # the column of the second output
    one = AnovaSampler(random_state=0).fit(X, y).feature_importances_
    other_unit = AnovaSampler(random_state=0).fit(X, 1e9 * y + 7).feature_importances_
    np.testing.assert_allclose(one, other_unit, rtol=1e-3)


def test_batches_and_merged_parts_are_all_rows(table):
    X, y = table
    sampler = AnovaSampler(n_components=50, random_state=0)
    features = sampler.fit(X, y).transform(X)
    batches = clone(sampler)
    for part in np.array_split(np.arange(len(y)), 3):
        batches.partial_fit(X.iloc[part], y[part])
    np.testing.assert_array_equal(batches.transform(X), features)
    halves = [clone(sampler).partial_fit(X[s], y[s]) for s in np.s_[:150, 150:]]
    np.testing.assert_array_equal(halves[0].merge(halves[1]).transform(X), features)
    one_by_one = [sampler.transform(X[i : i + 1]) for i in range(20)]
    np.testing.assert_allclose(np.concatenate(one_by_one), features[:20], atol=1e-12)
    seed = clone(sampler).set_params(random_state=1).fit(X, y)
    assert not np.allclose(seed.transform(X), features)


def test_weights(table):
    """Rows without weight count nothing, and the unit of the weights is arbitrary."""
    X, y = table
    weights = np.random.default_rng(0).integers(0, 3, len(y))
    sampler = AnovaSampler(n_components=50, random_state=0)
    expected = sampler.fit(X, y, sample_weight=weights).transform(X)
    counted = weights > 0
    found = clone(sampler).fit(X[counted], y[counted], weights[counted]).transform(X)
    np.testing.assert_array_equal(found, expected)
    found = clone(sampler).fit(X, y, 4.0 * weights).transform(X)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    plain = clone(sampler).fit(X[counted], y[counted]).transform(X)
    assert np.abs(plain - expected).max() > 1e-3


def test_a_column_of_targets_is_a_vector(table):
    """Of numbers and of labels, which may be strings."""
    X, y = table
    bins = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    sampler = AnovaSampler(n_components=50, random_state=0)
    for targets in (y, np.array([0, 2, 1])[bins], np.array(["a", "c", "b"])[bins]):
        expected = clone(sampler).fit(X, targets).transform(X)
        for column in (targets[:, None], pd.DataFrame({"y": targets})):
            found = clone(sampler).fit(X, column)
            np.testing.assert_array_equal(found.transform(X), expected)
        found = clone(sampler).partial_fit(X[:150], targets[:150])
        found.partial_fit(X[150:], targets[150:, None])
        np.testing.assert_array_equal(found.transform(X), expected)


def test_frozen_sampler_is_small_and_the_same(table, fitted):
    X, y = table
    frozen = AnovaSampler(n_components=60, random_state=0).fit(X, y).freeze()
    restored = pickle.loads(pickle.dumps(frozen))
    np.testing.assert_array_equal(restored.transform(X), fitted.transform(X))
    assert len(pickle.dumps(frozen)) < len(pickle.dumps(fitted))
    with pytest.raises(ValueError, match="frozen"):
        frozen.partial_fit(X, y)


def test_fit_that_fails_changes_nothing(table, fitted):
    X, y = table
    before = fitted.transform(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted.fit(X, y[:-1])
    np.testing.assert_array_equal(fitted.transform(X), before)


# ------------------------------------------------------------------ tables of all kinds
def same_features(one, other):
    """Return whether two tables give the same features of the same rows."""
    y = np.sin(np.arange(len(one)))
    options = {"n_components": 20, "random_state": 0}
    found = (AnovaSampler(**options).fit(X, y).transform(X) for X in (one, other))
    np.testing.assert_allclose(*found, atol=1e-10)


def frame_of_types(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "integer": rng.integers(0, 9, n),
            "yes": rng.random(n) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(n), "D"),
            "name": rng.choice(["a", "b"], n),
        }
    )


def test_types_of_columns_do_not_matter():
    X = frame_of_types()
    plain = X.assign(
        integer=X["integer"].astype(float),
        yes=X["yes"].astype(float),
        day=18262.0 + np.arange(len(X)),  # since 1970
    )
    same_features(X, plain)
    nullable = X.astype({"integer": "Int64", "yes": "boolean", "name": "category"})
    same_features(X, nullable.assign(day=X["day"].dt.tz_localize("UTC")))
    objects = X.astype(object).assign(day=[day.date() for day in X["day"]])
    same_features(X, objects)
    same_features(X, objects.to_numpy(dtype=object))
    days = plain["day"].to_numpy()
    same_features(plain, X.assign(day=pd.to_timedelta(days, "D")))


def test_names_of_levels_do_not_matter():
    """With all rows as landmarks; a sample of them depends on the names."""
    X, y = frame_of_types(), np.sin(np.arange(60))
    renamed = X.assign(name=X["name"].map({"a": "left", "b": "right"}))
    kernels = [
        AnovaSampler().fit(table, y).exact_kernel(table) for table in (X, renamed)
    ]
    np.testing.assert_allclose(*kernels, rtol=1e-3, atol=1e-3)


def test_polars_frames_are_read_as_those_of_pandas():
    polars = pytest.importorskip("polars")
    X = frame_of_types()
    same_features(X, polars.DataFrame({name: X[name].to_numpy() for name in X}))
    X["integer"] = X["integer"].astype("Int64").mask(X.index < 5)
    X["name"] = X["name"].mask(X.index > 40)
    columns = {n: X[n].astype(object).where(X[n].notna(), None).tolist() for n in X}
    frame = polars.DataFrame(columns)
    assert frame["integer"].null_count() == 5
    same_features(X, frame)
    names = polars.col("name").cast(polars.Categorical)
    same_features(X, frame.with_columns(names))


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT])
def test_every_kind_of_missing_value_is_the_same_level(missing):
    X = frame_of_types()
    expected = X.assign(name=X["name"].astype(object).where(X.index > 20, None))
    same_features(expected, X.assign(name=[missing] * 21 + X["name"][21:].tolist()))


def test_numbers_can_be_categories():
    rng = np.random.default_rng(0)
    X = np.c_[rng.integers(0, 4, 300), rng.normal(size=300)]
    y = np.array([0.0, 5.0, -5.0, 1.0])[X[:, 0].astype(int)]
    sampler = AnovaSampler(order=1, categories=[0], random_state=0).fit(X, y)
    kernel = sampler.exact_kernel([[0, 0.0]], [[0, 0.0], [1, 0.0], [2, 0.0], [3, 0.0]])
    assert kernel[0, 0] > 0
    np.testing.assert_allclose(kernel[0, 1:], kernel[0, 1], rtol=0.5)
    with pytest.raises(
        ValueError, match="categories contains 'no', which is not a column"
    ):
        AnovaSampler(categories=["no"]).fit(X, y)
    with pytest.raises(ValueError, match=r"groups.*column twice"):
        AnovaSampler(groups=[[0, 1], [1]]).fit(X, y)


@pytest.mark.parametrize("kind", ["array", "frame", "categorical"])
def test_large_integers_are_different_categories(kind):
    """Identifiers beyond 2^53, and labels, which would be equal as floats."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 300)
    y = np.array([0.0, 5.0, -5.0])[codes]
    X = np.c_[2**60 + codes, rng.integers(0, 100, 300)]
    if kind != "array":
        X = pd.DataFrame(X, columns=["store", "noise"])
    if kind == "categorical":
        X = X.astype({"store": "category"})
    sampler = AnovaSampler(order=1, categories=[0], random_state=0).fit(X, y)
    assert sampler.feature_importances_[0] > 0.9
    for labels in (codes, 2**60 + codes):
        sampler.fit(X, labels)
        assert sampler.feature_importances_[0] > 0.9
    one = X[:1] if kind == "array" else X.iloc[:1]
    found, expected = sampler.transform(one)[0], sampler.transform(X)[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_names_and_data_frames_out(table):
    X, y = table
    sampler = AnovaSampler(n_components=5, random_state=0).set_output(
        transform="pandas"
    )
    out = sampler.fit(X, y).transform(X)
    assert out.columns.tolist() == sampler.get_feature_names_out().tolist()
    assert sampler.feature_names_in_.tolist() == X.columns.tolist()
    with pytest.raises(ValueError, match="feature names should match"):
        sampler.transform(X[X.columns[::-1]])


def test_many_equal_rows_without_noise():
    """They take no degrees of freedom, which leaves more for the noise of others."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(2400, 4))
    zero = rng.random(2400) < 0.5
    X[zero] = 0
    y = np.where(zero, 0, X[:, 0] + 0.3 * rng.normal(size=2400))
    train, test = slice(400), slice(400, None)
    model = RandomFeatureRidge(AnovaSampler(random_state=0), random_state=0)
    error = model.fit(X[train], y[train]).predict(X[test]) - y[test]
    linear = Ridge().fit(X[train], y[train]).predict(X[test]) - y[test]
    assert np.mean(error**2) < 1.6 * np.mean(linear**2)
