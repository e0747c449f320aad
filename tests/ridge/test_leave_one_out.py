"""What ridge regression derives from leave-one-out errors, against fitting again."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.preprocessing import StandardScaler

from sklearn_crt import (
    CentersRBFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)
from sklearn_crt.life_cycle.intervals import Errors

ALPHAS = np.array([1e-3, 0.1, 10.0])


def noisy_rows(rng, n_rows):
    """Return rows, and targets whose noise does not depend on the row."""
    X = rng.uniform(-2, 2, (n_rows, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(n_rows)
    return X, y


@pytest.fixture
def table(rng):
    X, y = noisy_rows(rng, 80)
    return X, y, rng.integers(1, 4, 80).astype(float)


@pytest.fixture
def frozen(table):
    sampler = TrigRBFSampler(n_components=30, random_state=0)
    return FrozenEstimator(sampler.fit(table[0]))


# ------------------------------------------------------------------------ errors
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_errors_are_those_of_models_fitted_without_a_row(fit_intercept, table, frozen):
    X, y, weights = table
    options = {"alpha": ALPHAS, "fit_intercept": fit_intercept}
    model = RandomFeatureRidge(frozen, **options).fit(X, y, weights)
    Z = frozen.transform(X)
    for alpha, error in zip(ALPHAS, model.loo_errors_[0], strict=True):
        squares = np.empty(80)
        for i in range(80):
            others = np.arange(80) != i
            ridge = Ridge(alpha, fit_intercept=fit_intercept, solver="svd")
            ridge.fit(Z[others], y[others], weights[others])
            squares[i] = (y[i] - ridge.predict(Z[[i]])[0]) ** 2
        assert_allclose(error, np.average(squares, weights=weights), rtol=1e-7)
    assert model.alpha_ == ALPHAS[np.argmin(model.loo_errors_)]


def test_errors_with_the_penalty_of_centres(table):
    X, y, _ = table
    fixed = FrozenEstimator(CentersRBFSampler(n_components=9, random_state=0).fit(X))
    model = RandomFeatureRidge(fixed, alpha=0.1, clip=False).fit(X, y)
    squares = [
        (y[i] - clone(model).fit(X[rows], y[rows]).predict(X[[i]])[0]) ** 2
        for i in range(80)
        for rows in [np.arange(80) != i]
    ]
    assert_allclose(model.loo_errors_[0, 0], np.mean(squares), rtol=1e-7)


def test_errors_of_classes_are_those_of_their_indicators(table, frozen):
    X, y, _ = table
    labels = np.digitize(y, [-0.5, 0.5])
    model = RandomFeatureRidgeClassifier(frozen, alpha=ALPHAS).fit(X, labels)
    indicators = (labels[:, None] == np.arange(3)).astype(float)
    one_by_one = RandomFeatureRidge(frozen, alpha=ALPHAS).fit(X, indicators)
    assert_allclose(model.loo_errors_, one_by_one.loo_errors_.sum(axis=2), rtol=1e-9)


@pytest.mark.parametrize("n_rows", [25, 80])  # fewer and more rows than features
def test_a_row_is_left_out_and_none_of_its_copies(n_rows, table, frozen):
    X, y, weights = (array[:n_rows] for array in table)
    rng = np.random.default_rng(0)
    copies = np.repeat(np.arange(n_rows), rng.integers(1, 4, n_rows))
    X, y, weights = X[copies], y[copies], weights[copies]
    model = RandomFeatureRidge(frozen, alpha=ALPHAS).fit(X, y, weights)
    Z = frozen.transform(X)
    for alpha, error in zip(ALPHAS, model.loo_errors_[0], strict=True):
        squares = np.empty(len(X))
        for i in range(len(X)):
            others = np.arange(len(X)) != i
            ridge = Ridge(alpha, solver="svd")
            ridge.fit(Z[others], y[others], weights[others])
            squares[i] = (y[i] - ridge.predict(Z[[i]])[0]) ** 2
        assert_allclose(error, np.average(squares, weights=weights), rtol=1e-7)


def labels_of_cells(rng, columns, slope):
    """Return rows of categories, their labels, and the probabilities of label 1."""
    X = np.stack([rng.integers(0, n, 4000) for n in columns], axis=1)
    cell = np.ravel_multi_index(X.T, columns)
    log_odds = slope * rng.standard_normal(np.prod(columns))
    p = 1 / (1 + np.exp(-log_odds[cell]))
    return X.astype(float), (rng.random(4000) < p).astype(int), p


@pytest.mark.parametrize("columns", [(4, 4, 4), (2, 3), (2, 2, 2, 2, 2)])
def test_labels_of_tables_with_few_distinct_rows(columns, rng):
    X, labels, p = labels_of_cells(rng, columns, 1.5)
    X = StandardScaler().fit_transform(X)
    train, test = slice(2000), slice(2000, 4000)
    model = RandomFeatureRidgeClassifier(n_components=256, random_state=0)
    found = model.fit(X[train], labels[train]).predict_proba(X[test])[:, 1]
    p = p[test]
    divergence = p * np.log(p / found) + (1 - p) * np.log((1 - p) / (1 - found))
    # each cell has a parameter, and half the error of a maximum likelihood estimate
    assert divergence.mean() < 2 * np.prod(columns) / 2000 + 0.01
    best = np.mean(np.where(p > 0.5, labels[test], 1 - labels[test]))
    assert np.mean((found > 0.5) == labels[test]) > best - 0.02


def test_numbers_of_tables_with_few_distinct_rows(rng):
    x = rng.integers(0, 10, 2000)
    y = (x % 2) * 2 - 1 + 0.3 * rng.standard_normal(2000)
    X = StandardScaler().fit_transform(x[:, None])
    model = RandomFeatureRidge(random_state=0).fit(X[:1000], y[:1000])
    errors = model.predict(X[1000:]) - y[1000:]
    assert np.sqrt(np.mean(errors**2)) < 0.32
    low, high = model.predict_interval(X[1000:], 0.9).T
    # 1.645 standard deviations of the noise on each side
    assert abs(np.mean(high - low) / (2 * 1.645 * 0.3) - 1) < 0.1
    assert 0.86 < np.mean((low <= y[1000:]) & (y[1000:] <= high)) < 0.94


def test_a_row_that_determines_its_own_prediction_has_no_finite_error(rng):
    X = rng.standard_normal((200, 300))
    model = RandomFeatureRidge("linear", alpha=[0.0], clip=False).fit(X, X[:, 0])
    assert np.isposinf(model.loo_errors_).all()
    assert np.isinf(model.predict_interval(X)).all()
    lower, upper = model.predict_quantiles(X, [0.4, 0.6]).T
    assert np.isneginf(lower).all()
    assert np.isposinf(upper).all()
    best = RandomFeatureRidge("linear", alpha=[0.0, 5.0]).fit(X, X[:, 0])
    assert best.alpha_ == 5.0


# ------------------------------------------------------------------------ sample
@pytest.mark.parametrize("kernel", ["gaussian", "linear"])
def test_the_sample_of_many_rows_does_not_depend_on_batches(kernel, rng):
    X, y = noisy_rows(rng, 6000)  # of which 4096 are left out
    weights = rng.exponential(size=6000)
    options = {"random_state": 0, "sigma": 0.5, "n_components": 40}
    options = options if kernel == "gaussian" else {}
    whole = RandomFeatureRidge(kernel, **options).fit(X, y, weights)
    parts = np.array_split(np.arange(6000), 3)
    batches = clone(whole)
    for rows in parts:
        batches.partial_fit(X[rows], y[rows], weights[rows])
    first, *others = (clone(whole).fit(X[r], y[r], weights[r]) for r in parts)
    for other in others:
        first.merge(other)
    thin = clone(whole).fit(sparse.csr_array(X), y, weights)
    for other in (batches, first, thin):
        assert_allclose(other.loo_errors_, whole.loo_errors_, rtol=1e-7)
        ends = [model.predict_interval(X[:99], 0.9) for model in (other, whole)]
        assert_allclose(*ends, rtol=1e-6)


@pytest.mark.parametrize("share", [0.3, 0.5])
def test_intervals_of_tables_with_equal_rows(share, rng):
    """Rows of zeros with target zero count as often as they occur."""
    X = rng.standard_normal((7000, 4))
    X[rng.random(7000) < share] = 0
    y = X[:, 0] + 0.3 * rng.standard_normal(7000) * (X != 0).any(axis=1)
    model = RandomFeatureRidge(random_state=0, n_components=100)
    model.fit(X[:5000], y[:5000])
    low, high = model.predict_interval(X[5000:], 0.9).T
    inside = np.mean((low <= y[5000:]) & (y[5000:] <= high))
    # of the rows of zeros 1, of the others 0.9
    assert 0.87 < inside < 0.97


def test_equal_rows_have_the_errors_of_their_kind(rng):
    """Their standard deviations are equal, up to rounding errors."""
    deviations = np.where(np.arange(1500) < 750, 1.0, 1.05 + 0.1 * rng.random(1500))
    noise = np.where(deviations == 1, 1.0, 0.2) * rng.standard_normal(1500)
    errors = Errors(noise[:, None], deviations[:, None], np.ones(1500))
    queries = np.array([[1 - 1e-12], [1.0], [1 + 1e-12], [1.1]])
    found = errors.quantiles(queries, np.array([0.95]))[:, 0, 0]
    assert_allclose(found[:3], 1.645, rtol=0.2)
    assert_allclose(found[3], 0.2 * 1.645 * 1.1, rtol=0.2)


def test_samples_are_drawn_by_weight(rng):
    """Few rows of large weight determine the errors of the weighted population."""
    X, y = noisy_rows(rng, 20_000)
    heavy = np.arange(20_000) % 20 == 0
    y[heavy] += rng.standard_normal(1000)
    weights = np.where(heavy, 19.0, 1.0)
    weights /= weights.mean()
    model = RandomFeatureRidge(n_components=60, sigma=1.0, random_state=0)
    model.fit(X, y, weights)
    squares = (y - model.predict(X)) ** 2
    expected = np.average(squares, weights=weights)
    assert abs(model.loo_errors_.min() / expected - 1) < 0.15
    low, high = model.predict_interval(X, 0.9).T
    inside = (low <= y) & (y <= high)
    assert abs(np.average(inside, weights=weights) - 0.9) < 0.02


def test_errors_of_a_sample_are_those_of_the_table(rng):
    X, y = noisy_rows(rng, 20_000)
    model = RandomFeatureRidge(n_components=60, sigma=1.0, random_state=0).fit(X, y)
    squares = (y - model.predict(X)) ** 2  # 300 rows a column: close to leave-one-out
    error = model.loo_errors_.min()
    assert abs(error - squares.mean()) < 5 * squares.std() / np.sqrt(4096)


# -------------------------------------------------------------------------- prior
def test_automatic_penalties_keep_the_prior_near_the_spread_of_targets(rng):
    X = rng.standard_normal((400, 3))
    y = X[:, 0] + 0.5 * rng.standard_normal(400)
    sampler = FrozenEstimator(TrigRBFSampler(sigma=0.1, random_state=0).fit(X))
    Z = sampler.transform(X)
    size = np.mean(np.sum((Z - Z.mean(axis=0)) ** 2, axis=1))
    model = RandomFeatureRidge(sampler).fit(X, y)
    alphas, errors = model._value.solution.alphas, model.loo_errors_[0]
    priors = [
        np.sqrt(size * model.noise_variance_ / alpha)
        for alpha in alphas
        for model in [RandomFeatureRidge(sampler, alpha=alpha).fit(X, y)]
    ]
    allowed = np.array(priors) <= 5 * y.std()
    assert 5 < allowed.sum() < 25
    assert_array_equal(np.isfinite(errors), allowed)


# ------------------------------------------------------------------- extrapolation
@pytest.mark.usefixtures("few_features")
def test_predictions_stay_within_the_range_of_the_targets(rng):
    X = rng.uniform(-1, 1, (300, 2))
    y = 3 * X[:, 0] + X[:, 1] ** 3
    far = np.concatenate([4 * X, 100 * X])
    model = RandomFeatureRidge(random_state=0).fit(X, np.c_[y, -10 * y])
    free = clone(model).set_params(clip=False).fit(X, np.c_[y, -10 * y])
    least = np.array([y.min(), -10 * y.max()])
    most = np.array([y.max(), -10 * y.min()])
    results = [model.predict(far), *model.predict_quantiles(far, [0.01, 0.99]).T]
    results += [*np.moveaxis(model.predict_interval(far), -1, 0)]
    for values in results:
        values = values.reshape(-1, 2) if values.shape[-1] == 2 else values.T
        assert np.all((values >= least) & (values <= most))
    assert np.any((free.predict(far) < least) | (free.predict(far) > most))


def test_predictions_less_certain_than_the_mean_target_are_shrunk(table, frozen):
    X, y, _ = table
    model = RandomFeatureRidge(frozen, alpha=1e-6).fit(X, y)
    free = clone(model).set_params(clip=False).fit(X, y)
    far = np.concatenate([X, X + 3, 5 * X])
    mean, std = free.predict(far, return_std=True)
    certain = np.sqrt(std**2 - free.noise_variance_)  # without the noise
    shares = np.minimum(1, y.std() / certain)
    assert np.sum(shares[:80] == 1) > 70
    assert np.sum(shares < 0.9) > 50
    expected = np.clip(y.mean() + shares * (mean - y.mean()), y.min(), y.max())
    assert_allclose(model.predict(far), expected, rtol=1e-6)


def test_a_function_without_noise_is_continued_up_to_the_range():
    """Its predictions are certain, however far away the nearest training row is."""
    x = np.linspace(0, 5, 200)[:, None]
    model = RandomFeatureRidge(random_state=0).fit(x, 2 * x[:, 0])
    assert_allclose(model.predict([[5.5]]), [10.0])


# ----------------------------------------------------------------------- intervals
@pytest.mark.parametrize("noise", ["normal", "heavy tails", "by leverage"])
def test_intervals_cover(noise, rng):
    X, y = noisy_rows(rng, 6000)
    if noise == "heavy tails":
        y += 0.3 * rng.standard_t(2, 6000)
    elif noise == "by leverage":  # rows far out are rare, and their noise is larger
        X = rng.standard_normal((6000, 2))
        y = X[:, 0] + 0.1 * np.sum(X**2, axis=1) * rng.standard_normal(6000)
    model = RandomFeatureRidge(random_state=0, n_components=100).fit(X[:2000], y[:2000])
    for coverage in (0.5, 0.8, 0.9, 0.99):
        low, high = model.predict_interval(X[2000:], coverage).T
        inside = np.sum((low <= y[2000:]) & (y[2000:] <= high))
        # binomial, with the quantile's own error: 2000 rows against 4000
        deviation = np.sqrt(4000 * coverage * (1 - coverage) * 3)
        assert abs(inside - 4000 * coverage) < stats.norm.isf(1e-8) * deviation + 20
        ends = [0.5 - coverage / 2, 0.5 + coverage / 2]
        low, high = model.predict_quantiles(X[2000:], ends).T
        below, above = np.mean(y[2000:] < low), np.mean(y[2000:] > high)
        assert_allclose([below, above], [ends[0]] * 2, atol=0.035)


def test_intervals_follow_the_noise_where_it_grows_with_the_variance(rng):
    X = rng.standard_normal((6000, 2))
    size = np.sum(X**2, axis=1)
    y = X[:, 0] + 0.1 * size * rng.standard_normal(6000)
    model = RandomFeatureRidge(random_state=0, n_components=100).fit(X[:3000], y[:3000])
    low, high = model.predict_interval(X[3000:], 0.8).T
    outer = size[3000:] > np.quantile(size, 0.8)
    inside = (low <= y[3000:]) & (y[3000:] <= high)
    assert inside[outer].mean() > 0.65  # .40 with one width for all rows
    widths = high - low
    assert widths[outer].mean() > 2 * widths[~outer].mean()


@pytest.mark.usefixtures("few_features", "few_folds")
def test_intervals_are_nested_and_quantiles_in_order(table):
    X, y, _ = table
    model = RandomFeatureRidge(random_state=0).fit(X, np.c_[y, X[:, 0]])
    rows = np.concatenate([X, 2 * X])
    before = np.zeros((160, 2))
    for coverage in (0.1, 0.5, 0.9, 0.999):
        ends = model.predict_interval(rows, coverage)
        assert ends.shape == (160, 2, 2)
        levels = [0.5 - coverage / 2, 0.5 + coverage / 2]
        assert_array_equal(ends, model.predict_quantiles(rows, levels))
        widths = ends[..., 1] - ends[..., 0]
        assert np.all(widths >= before)
        before = widths
    levels = np.linspace(0, 1, 21)
    values = model.predict_quantiles(rows, levels)
    assert values.shape == (160, 2, 21)
    assert np.all(np.diff(values, axis=-1) >= 0)
    assert_array_equal(model.predict_quantiles(rows, levels[7]), values[..., 7])
    again = pickle.loads(pickle.dumps(clone(model).fit(X, np.c_[y, X[:, 0]]).freeze()))
    assert_allclose(again.predict_interval(rows), model.predict_interval(rows))
    for call, message in {
        lambda: model.predict_interval(X, 1.5): "coverage == 1.5, must be < 1",
        lambda: model.predict_quantiles(X, [0.5, 2]): "quantiles must be a number or",
    }.items():
        with pytest.raises(ValueError, match=message):
            call()


# --------------------------------------------------------------------- probabilities
def likelihood_of_labels(model, X, labels):
    codes = np.searchsorted(model.classes_, labels)
    return -np.mean(np.log(model.predict_proba(X)[np.arange(len(X)), codes]))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_probabilities_are_calibrated(n_classes, rng):
    """Labels drawn with known probabilities: the divergence from these is small."""
    X = rng.uniform(-2, 2, (9000, 2))
    logits = np.stack([np.zeros(9000), 2 * X[:, 0] - 1, X[:, 1] + X[:, 0] ** 2], 1)
    P = np.exp(logits[:, :n_classes])
    P /= P.sum(axis=1, keepdims=True)
    labels = (rng.random((9000, 1)) > np.cumsum(P, axis=1)).sum(axis=1)
    model = RandomFeatureRidgeClassifier(random_state=0, n_components=100)
    model.fit(X[:3000], labels[:3000])
    found = model.predict_proba(X[3000:])
    assert_allclose(found.sum(axis=1), 1)
    divergence = np.mean(np.sum(P[3000:] * np.log(P[3000:] / found), axis=1))
    assert divergence < 0.03  # of a constant, .3; of the clipped scores, .1
    for k in range(n_classes):
        for group in np.array_split(np.argsort(found[:, k]), 6):
            gap = found[group, k].mean() - P[3000:][group, k].mean()
            assert abs(gap) < 0.1
    assert_array_equal(model.classes_[found.argmax(axis=1)], model.predict(X[3000:]))


@pytest.mark.parametrize("n_classes", [1, 2, 3])
def test_probabilities_without_calibration_are_the_indicators(n_classes, table, frozen):
    X, y, weights = table
    labels = np.digitize(y, [-0.5, 0.5][: n_classes - 1])
    model = RandomFeatureRidgeClassifier(frozen, alpha=0.1, calibrate=False)
    found = model.fit(X, labels, weights).predict_proba(3 * X)
    Z = frozen.transform(3 * X)
    indicators = Z @ model.coef_.T + model.intercept_
    if n_classes == 2:  # the difference of the two indicators
        indicators = np.concatenate([1 - indicators, 1 + indicators], axis=1) / 2
    clipped = np.clip(indicators, 0, 1)
    expected = clipped / clipped.sum(axis=1, keepdims=True)
    assert_allclose(found, expected if n_classes > 1 else np.ones((80, 1)), atol=1e-9)
    assert np.any(found == (0 if n_classes > 1 else 1))
    # they do not depend on leave-one-out predictions, so weights count copies
    copies = np.repeat(np.arange(80), weights.astype(int))
    again = clone(model).fit(X[copies], labels[copies]).predict_proba(3 * X)
    assert_allclose(again, found, atol=1e-8)


@pytest.mark.usefixtures("few_folds")
@pytest.mark.parametrize("n_classes", [1, pytest.param(2, marks=pytest.mark.slow), 3])
def test_probabilities_are_never_0_or_1(n_classes, rng):
    labels = np.repeat(np.arange(n_classes), 50)
    X = 10.0 * labels[:, None] + rng.standard_normal((50 * n_classes, 2))
    model = RandomFeatureRidgeClassifier(n_components=200, random_state=0)
    found = model.fit(X, labels).predict_proba(np.concatenate([X, 1e3 * X]))
    assert found.shape == (100 * n_classes, n_classes)
    assert_allclose(found.sum(axis=1), 1)
    if n_classes > 1:
        assert found.min() > 1e-4
        assert found[:50, 0].min() > 0.9
        assert model.score(X, labels) == 1


def test_probabilities_of_rare_classes_and_weighted_ones(rng):
    X = rng.standard_normal((8000, 2))
    labels = rng.random(8000) < 1 / (1 + np.exp(4.5 - 2 * X[:, 0]))
    share = labels.mean()
    assert 0.02 < share < 0.06
    model = RandomFeatureRidgeClassifier(random_state=0, n_components=100)
    model.fit(X[:4000], labels[:4000])
    assert abs(model.predict_proba(X[4000:])[:, 1].mean() - share) < 0.012
    constant = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert likelihood_of_labels(model, X[4000:], labels[4000:]) < 0.85 * constant
    balanced = clone(model).set_params(class_weight="balanced")
    balanced.fit(X[:4000], labels[:4000])
    found = balanced.predict_proba(X[4000:])[:, 1]
    assert found[labels[4000:]].mean() > 0.7
    assert 0.2 < found.mean() < 0.45


def test_probabilities_do_not_depend_on_the_order_of_rows():
    """A search that stops early would stop elsewhere when the rounding differs."""
    rng = np.random.default_rng(3)  # where such a search differs by 5e-8
    X = rng.standard_normal((2000, 3))
    labels = np.digitize(X[:, 0] + rng.standard_normal(2000), np.linspace(-1, 1, 4))
    options = {"sigma": 0.5, "n_components": 50, "random_state": 0}
    model = RandomFeatureRidgeClassifier(**options)  # which needs no sample of rows
    expected = clone(model).fit(X, labels).predict_proba(X)
    order = rng.permutation(2000)
    found = clone(model).fit(X[order], labels[order]).predict_proba(X)
    assert_allclose(found, expected, atol=1e-11)


@pytest.mark.parametrize("seed", [4, 7])
def test_rows_far_from_the_others_do_not_make_predictions_wild(seed):
    """Generalised cross-validation takes too small a penalty: .80 and .93 here."""
    rng = np.random.default_rng(seed)
    X = StandardScaler().fit_transform(rng.standard_t(1.5, (600, 6)))
    y = np.tanh(X[:, 0]) + 0.2 * rng.standard_normal(600)
    model = RandomFeatureRidge(clip=False, random_state=0).fit(X[:300], y[:300])
    error = np.sqrt(np.mean((model.predict(X[300:]) - y[300:]) ** 2))
    assert error < 0.7 * y.std()


def test_standard_deviations_of_a_function_without_noise(rng):
    """They are not zero, because the function is unknown between the training rows."""
    X = rng.normal(size=(1600, 3))
    y = np.sin(X[:, 0]) + X[:, 1]
    model = RandomFeatureRidge(random_state=0).fit(X[:600], y[:600])
    assert model.noise_variance_ < 1e-7
    mean, std = model.predict(X[600:], return_std=True)
    assert np.mean(np.abs(mean - y[600:]) > 3 * std) < 0.05
