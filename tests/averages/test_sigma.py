"""The parameter sigma of kernel averages: selected, prescribed, or set on a sampler."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.datasets import load_digits, load_iris
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import kernels as process
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils.class_weight import compute_sample_weight

from sklearn_crt import (
    LocalLinearClassifier,
    LocalLinearRegressor,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    Prototypes,
    TrigRBFSampler,
)
from sklearn_crt.kernels import Gaussian
from sklearn_crt.samplers import PoissonSampler, PositiveRBFSampler

# what the default sigma of a sampler is multiplied by, before the finer grid
OCTAVES = 2.0 ** np.arange(-2, 5)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(250, 2)) * [1, 0.1]
    X = np.vstack([X, X[:30]])  # equal rows predict each other
    y = np.sin(5 * X[:, 0]) + 0.3 * rng.normal(size=280)
    return X, y, rng.integers(1, 4, size=280).astype(float)


def predictions_without_the_row(cls, sampler, X, y, weights):
    """Predict each row by a model of the features, fitted without this row alone."""
    found = []
    for i, row in enumerate(X):
        others = np.arange(len(X)) != i
        kept = weights.copy()
        if cls is NadarayaWatsonClassifier:  # with the proportions of all rows
            for label in (0, 1):
                of_class = y == label
                kept[of_class] /= kept[of_class & others].sum() / kept[of_class].sum()
        model = cls(FrozenEstimator(sampler)).fit(X[others], y[others], kept[others])
        predict = getattr(model, "predict_proba", model.predict)
        found.append(predict(row[None])[0])
    return np.array(found)


def chosen(cls, sampler, X, y, weights, multiples):
    """Return the multiple that is best by the rules of the docstrings."""
    sampler = clone(sampler).fit(X, sample_weight=weights)
    first, found = sampler.sigma_, []
    for multiple in multiples:
        scaled = clone(sampler).set_params(sigma=first * multiple)
        scaled.fit(X, sample_weight=weights)
        found.append(predictions_without_the_row(cls, scaled, X, y, weights))

    def is_significant(gain, n_errors):
        centred = weights * (gain - np.average(gain, weights=weights))
        error = np.linalg.norm(centred)
        return weights @ gain > n_errors * error

    if cls is NadarayaWatsonRegressor:
        errors = (np.array(found) - y) ** 2
        best = (errors @ weights).argmin()
        default = multiples.index(1) if 1 in multiples else best
        kept = not is_significant(errors[default] - errors[best], 1)
        return multiples[default if kept else best]
    wrong = np.argmax(found, axis=2) != y
    brier = ((np.array(found) - np.eye(2)[y]) ** 2).sum(axis=2) @ weights
    gaps = wrong.astype(float) - wrong[(wrong @ weights).argmin()]
    few = np.array([not is_significant(gap, 0.5) for gap in gaps])
    return multiples[np.where(few, brier, np.inf).argmin()]


@pytest.mark.filterwarnings("ignore::sklearn_crt.exceptions.ApproximationWarning")
@pytest.mark.each_value
@pytest.mark.parametrize(
    "inside",
    [
        OPRFSampler(n_components=200, random_state=0),
        pytest.param(
            PositiveRBFSampler(n_components=200, random_state=0), marks=pytest.mark.slow
        ),
        pytest.param(
            TrigRBFSampler(n_components=200, random_state=0), marks=pytest.mark.slow
        ),
        TrigRBFSampler(n_components=20, random_state=0),  # rows are unreliable
    ],
    ids=["OPRF", "PosRF", "Fourier", "few Fourier"],
)
@pytest.mark.parametrize("cls", [NadarayaWatsonClassifier, NadarayaWatsonRegressor])
def test_auto_is_the_best_by_predictions_of_rows_left_out(cls, inside, table):
    X, y, weights = (array[-24:] for array in table)
    X = np.vstack([X, X[-8:]])  # with copies
    y, weights = np.r_[y, y[-8:]], np.r_[weights, weights[-8:]]
    y = y if cls is NadarayaWatsonRegressor else (y > 0).astype(int)
    scale = clone(inside).fit(X, sample_weight=weights).sigma_
    best = chosen(cls, inside, X, y, weights, OCTAVES.tolist())
    finer = (best * 2.0 ** np.array([-0.5, 0, 0.5])).tolist()
    best = chosen(cls, inside, X, y, weights, finer)
    model = cls(inside).fit(X, y, weights)
    assert_allclose(model.sigma_, scale * best)
    assert_allclose(model.kernel_.sigma_, model.sigma_)
    assert f"sigma={float(model.sigma_)!r}"[:12] in repr(model.kernel_)


def test_scale_is_kept_unless_another_sigma_is_significantly_better(rng):
    """With so much noise, another sigma often has the lowest error by chance."""
    sampler = OPRFSampler(n_components=200, random_state=0)
    multiples = []
    for _ in range(10):
        X = rng.normal(size=(40, 2))
        y = np.sin(2 * X[:, 0]) + 2 * rng.normal(size=40)
        model = NadarayaWatsonRegressor(sampler).fit(X, y)
        multiples.append(model.sigma_ / sampler.fit(X).sigma_)
    assert np.isclose(multiples, 1).sum() >= 5


@pytest.mark.parametrize("n_components", [100, 1000])
def test_auto_is_no_less_accurate_than_scale(n_components):
    """With more columns a larger sigma has better probabilities, but more mistakes."""
    X, y = load_digits(return_X_y=True)
    sampler = OPRFSampler(n_components=n_components, random_state=0)
    scores = [
        NadarayaWatsonClassifier(sampler, sigma=sigma)
        .fit(X[:1200], y[:1200])
        .score(X[1200:], y[1200:])
        for sigma in ("scale", "auto")
    ]
    assert scores[1] > scores[0] - 0.01


def test_few_rows_of_one_class_are_not_certain(rng):
    """A narrow kernel, with one row per prediction, repeats the mistakes at no loss."""
    X = rng.permutation(np.repeat(np.arange(60.0), 2))[:, None]
    X += rng.uniform(-1e-3, 1e-3, size=X.shape)
    y = (X[:, 0] > 29.5).astype(int)
    model = NadarayaWatsonClassifier().fit(X, y)
    assert model.effective_sample_size(X).min() > 3


def test_the_unit_of_weights_does_not_count(table):
    X, numbers, weights = table
    for model in (
        NadarayaWatsonRegressor(OPRFSampler(random_state=0)),
        NadarayaWatsonRegressor(),
        LocalLinearRegressor(),
        NadarayaWatsonRegressor(Prototypes(50, random_state=0)),
        NadarayaWatsonClassifier(),
        LocalLinearClassifier(),
        NadarayaWatsonClassifier(Prototypes(50, random_state=0)),
    ):
        y = (numbers > 0).astype(int) if is_classifier(model) else numbers
        expected = model.fit(X, y, weights).sigma_
        for unit in (1e-3, 1e3):
            assert_allclose(model.fit(X, y, unit * weights).sigma_, expected)


@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonRegressor(),
        LocalLinearRegressor(),
        NadarayaWatsonRegressor(OPRFSampler(random_state=0)),
    ],
    ids=["exact", "local linear", "OPRF"],
)
def test_choice_from_a_sample_of_the_rows_does_not_depend_on_batches(model, rng):
    """Of 10,000 rows for the exact kernel, of which 1000 are predicted, or of 2000."""
    X = rng.normal(size=(11_000, 2))
    y = np.sin(4 * X[:, 0]) + rng.standard_cauchy(11_000)
    counts = rng.integers(1, 4, 11_000)
    expected = clone(model).fit(X, y, counts)
    other = clone(model).fit(X[:4000], y[:4000], counts[:4000])
    other.partial_fit(X[4000:], y[4000:], counts[4000:])
    assert_allclose(other.sigma_, expected.sigma_, rtol=1e-9)


def test_sigma_grows_with_the_number_of_rows(rng):
    """It is chosen on 5000 of them."""
    X = rng.normal(size=(12_500, 2))
    y = np.sin(5 * X[:, 0])
    scale = NadarayaWatsonRegressor(sigma="scale").fit(X, y).sigma_
    multiple = LocalLinearRegressor(alpha=[0.1, 1.0]).fit(X, y).sigma_ / scale
    halves = 2 * np.log2(multiple / 2.5 ** (1 / 6))  # of octaves, which are compared
    assert abs(halves - np.rint(halves)) < 1e-9


# tables in which many rows are equal
CELLS = {
    "three columns of four levels": (4, 3, 0),
    "five binary columns": (2, 5, 0),
    "two columns, six cells": (2, 2, 3),
}
LABELS = [
    NadarayaWatsonClassifier(),
    NadarayaWatsonClassifier(OPRFSampler(n_components=3000, random_state=0)),
    NadarayaWatsonClassifier(Prototypes(random_state=0)),
    LocalLinearClassifier(),
]


@pytest.mark.each_value
@pytest.mark.parametrize("model", LABELS, ids=repr)
@pytest.mark.parametrize("levels", CELLS.values(), ids=CELLS)
def test_classes_in_tables_of_few_distinct_rows(model, levels, rng):
    """If the copies of a row were left out, its class would never be predicted."""
    n_levels, n_columns, n_last = levels
    X = rng.integers(0, n_levels, (4000, n_columns))
    if n_last:
        X[:, -1] = rng.integers(0, n_last, 4000)
    cell = X @ 4 ** np.arange(n_columns)
    chances = 1 / (1 + np.exp(-1.5 * rng.standard_normal(4**n_columns)))[cell]
    y = (rng.uniform(size=4000) < chances).astype(int)
    best = -np.mean(np.where(y == 1, np.log(chances), np.log(1 - chances)))
    X = X / X.std(axis=0)
    found = clone(model).fit(X[:2000], y[:2000]).predict_proba(X[2000:])
    loss = -np.mean(np.log(found[np.arange(2000), y[2000:]]))
    # 64 cells cost about 64 / (2 * 2000), and losses vary by about 0.01
    assert loss < best + 0.045


@pytest.mark.each_value
@pytest.mark.parametrize(
    "model",
    [
        NadarayaWatsonRegressor(),
        NadarayaWatsonRegressor(OPRFSampler(n_components=400, random_state=0)),
        NadarayaWatsonRegressor(Prototypes(random_state=0)),
        LocalLinearRegressor(),
    ],
    ids=repr,
)
def test_numbers_in_tables_of_few_distinct_rows(model, rng):
    x = rng.integers(0, 10, (2000, 1))
    y = (x[:, 0] % 2) * 2 - 1 + 0.3 * rng.standard_normal(2000)
    X = x / x.std()
    assert clone(model).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) > 0.89


@pytest.mark.parametrize("sigma", [0.7, "scale", "median", [0.5, 2.0]])
def test_sigma_of_the_estimator_equals_sigma_of_the_sampler(sigma, table):
    X, y, _ = table
    outside = NadarayaWatsonRegressor(OPRFSampler(random_state=0), sigma=sigma)
    inside = FrozenEstimator(OPRFSampler(sigma=sigma, random_state=0).fit(X))
    expected = NadarayaWatsonRegressor(inside).fit(X, y)
    assert_allclose(outside.fit(X, y).sigma_, expected.sigma_)
    assert_allclose(outside.predict(X), expected.predict(X), rtol=1e-9)


def test_a_sigma_that_was_set_on_the_sampler_is_kept(table):
    X, y, _ = table
    for sigma in (0.3, "scale", "median", np.array([1.0, 3.0])):
        sampler = OPRFSampler(sigma=sigma, random_state=0)
        found = NadarayaWatsonRegressor(sampler).fit(X, y).sigma_
        assert_allclose(found, clone(sampler).fit(X).sigma_)
    same = NadarayaWatsonRegressor(OPRFSampler(sigma=0.3, random_state=0), sigma=0.3)
    assert same.fit(X, y).sigma_ == 0.3


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (OPRFSampler(sigma=2.0), "sigma=1.0 of NadarayaWatsonRegressor and sigma=2.0 "),
        ("linear", "sigma=1.0 has no effect with kernel='linear'"),
        (RBFSampler(), "sigma=1.0 of NadarayaWatsonRegressor has no effect"),
        (FrozenEstimator(RBFSampler()), "has no effect with kernel=FrozenEstimator"),
    ],
    ids=str,
)
def test_sigma_without_effect_is_an_error(kernel, message, table):
    X, y, _ = table
    with pytest.raises(ValueError, match=message):
        NadarayaWatsonRegressor(kernel, sigma=1.0).fit(X, y)


def test_kernels_of_gaussian_processes(table):
    X, y, _ = table
    kernel = process.RBF(0.5)
    model = NadarayaWatsonRegressor(kernel, sigma=1.0).fit(X, y)
    expected = NadarayaWatsonRegressor(Gaussian(), sigma=2.0).fit(X, y)
    assert_allclose(model.predict(X), expected.predict(X))
    assert model.kernel_ == kernel
    assert model.kernel_ is not kernel
    automatic = NadarayaWatsonRegressor(kernel).fit(X, y)
    expected = NadarayaWatsonRegressor().fit(X, y)
    assert_allclose(2 * automatic.sigma_, expected.sigma_)


def test_methods_follow_the_fitted_kernel(table):
    X, y, _ = table
    exact = NadarayaWatsonRegressor().fit(X, y).set_params(kernel=OPRFSampler())
    assert not hasattr(exact, "approximation_error")
    assert exact.kernel_weights(X[:3]).shape == (3, 280)
    assert exact.predict_interval(X[:3]).shape == (3, 2)
    assert repr(exact.kernel_) == "Gaussian()"
    sums = NadarayaWatsonRegressor(OPRFSampler(random_state=0)).fit(X, y)
    sums.set_params(kernel="gaussian")
    with warnings.catch_warnings(action="ignore"):
        assert sums.approximation_error(X[:3]).std.shape == (3,)
    for method in ("kernel_weights", "effective_sample_size", "predict_quantiles"):
        assert not hasattr(sums, method)
    assert not hasattr(NadarayaWatsonRegressor("linear").fit(X, y), "sigma_")
    assert not hasattr(NadarayaWatsonRegressor(Nystroem()).fit(X, y), "sigma_")


@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel weights")
@pytest.mark.parametrize(
    "kernel", ["gaussian", OPRFSampler(random_state=0), TrigRBFSampler(random_state=0)]
)
def test_class_weight_multiplies_the_weights_of_rows(kernel):
    X, y = load_iris(return_X_y=True)
    X, y = X[:120], np.array(["a", "b", "c"])[y[:120]]
    for class_weight in ("balanced", {"a": 2.0, "c": 0.5}):
        own = compute_sample_weight(class_weight, y)
        model = NadarayaWatsonClassifier(kernel, class_weight=class_weight)
        found = model.fit(X, y).predict_proba(X)
        expected = NadarayaWatsonClassifier(kernel).fit(X, y, own)
        assert_allclose(found, expected.predict_proba(X))
        assert_allclose(model.class_prior_, expected.class_prior_)
    balanced = NadarayaWatsonClassifier(class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight='balanced' needs all rows"):
        balanced.partial_fit(X, y, ["a", "b", "c"])


@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel weights")
@pytest.mark.parametrize("sampler", [TrigRBFSampler, PoissonSampler, OPRFSampler])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_decision_function_is_normalised(sampler, n_classes):
    X, y = load_iris(return_X_y=True)
    X, y = X[: 50 * n_classes], y[: 50 * n_classes]
    kernel = sampler(n_components=30, sigma=1.0, random_state=0)
    model = NadarayaWatsonClassifier(kernel).fit(X, y)
    decisions, probabilities = model.decision_function(X), model.predict_proba(X)
    if n_classes == 2:
        assert_array_equal(model.predict(X), (decisions > 0).astype(int))
        assert np.all(np.abs(decisions) < 10)
    else:
        assert_array_equal(model.predict(X), decisions.argmax(axis=1))
        if sampler is OPRFSampler:  # whose scores are positive
            assert_allclose(decisions, probabilities)
        assert_allclose(decisions.max(axis=1), probabilities.max(axis=1), atol=0.1)


@pytest.mark.parametrize(
    ("model", "n_rows", "expected"),
    [
        (NadarayaWatsonRegressor(), 1500, 1000),
        (LocalLinearRegressor(), 1500, 500),
        (LocalLinearRegressor(), 400, 400),
        (LocalLinearRegressor(sigma=1.0), 1500, 500),
    ],
)
def test_number_of_queries_that_choose_sigma_and_the_penalty(
    model, n_rows, expected, rng
):
    """Local fits, which take longer, use half as many as kernel averages."""
    slopes = set()  # of the queries, which are the same for each sigma

    def counted(queries, keys):
        slopes.update(np.round(queries[:, 1] / queries[:, 0], 9))
        return rbf_kernel(queries, keys, gamma=0.5)

    X = rng.normal(size=(n_rows, 2))
    model.set_params(kernel=counted).fit(X, X[:, 0] + rng.normal(size=n_rows))
    assert len(slopes) == expected


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
@pytest.mark.parametrize("table", ["levels", "weak", "wide", "offset", "weights"])
def test_labels_select_the_same_sigma_in_single_precision(
    kernel, table, rng, monkeypatch
):
    n, d = (60, 150) if table == "wide" else (400, 4)
    X, weights = rng.standard_normal((n, d)), None
    if table == "levels":
        X = rng.integers(0, 3, (n, d)).astype(float)
    elif table == "offset":
        X += 1e4
    elif table == "weights":
        weights = 1e-50 * rng.exponential(size=n)
    size = 0.3 if table == "weak" else 3.0
    signal = size * np.sin(2 * (X[:, 0] - X[:, 0].mean())) + X[:, 1] - X[:, 1].mean()
    y = (signal + rng.standard_normal(n) > 0).astype(int)
    model = NadarayaWatsonClassifier(kernel=kernel)
    found = clone(model).fit(X, y, sample_weight=weights)
    name = "sklearn_crt.averages._sigma_choice._tolerates_single_precision"
    monkeypatch.setattr(name, lambda kernel, rows: False)
    expected = clone(model).fit(X, y, sample_weight=weights)
    assert found.sigma_ == pytest.approx(expected.sigma_, rel=1e-6)
    assert_allclose(found.predict_proba(X), expected.predict_proba(X), atol=1e-6)
