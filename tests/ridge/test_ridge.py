"""Ridge regression on features, against scikit-learn on the same features."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse
from scipy.stats import kstest, spearmanr
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge, Ridge, RidgeClassifier
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_crt import (
    CentersRBFSampler,
    OPRFSampler,
    RandomFeatureRidge,
    RandomFeatureRidgeClassifier,
    TrigRBFSampler,
)

FIXED = TrigRBFSampler(sigma=0.5, n_components=50, random_state=0)
OPRF = OPRFSampler(n_components=60, random_state=0)  # whose sigma is selected


@pytest.fixture
def table(rng):
    """Return rows, targets and weights."""
    X = rng.standard_normal((400, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + 100 + 0.1 * rng.standard_normal(400)
    return X, y, rng.integers(1, 4, 400).astype(float)


@pytest.fixture
def frozen(table):
    sampler = TrigRBFSampler(n_components=60, random_state=0).fit(table[0])
    return FrozenEstimator(sampler)


# ------------------------------------------------------------------ scikit-learn
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [1e-4, 1.0])
@pytest.mark.parametrize("n_outputs", [1, 2])
def test_equals_ridge_of_scikit_learn(alpha, fit_intercept, n_outputs, table, frozen):
    X, y, weights = table
    y = y if n_outputs == 1 else np.c_[y, -3 * X[:, 2]]
    options = {"fit_intercept": fit_intercept}
    found = RandomFeatureRidge(frozen, alpha=alpha, clip=False, **options)
    found.fit(X, y, weights)
    expected = Ridge(alpha, solver="svd", **options)
    Z = frozen.transform(X)
    expected.fit(Z, y, weights)
    tolerance = {"rtol": 1e-8, "atol": 1e-8}
    assert_allclose(found.predict(X), expected.predict(Z), **tolerance)
    assert_allclose(found.coef_, expected.coef_, **tolerance)
    assert_allclose(found.intercept_, expected.intercept_, **tolerance)
    assert_array_equal(found.alpha_, alpha)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_equals_ridge_classifier_of_scikit_learn(n_classes, table, frozen):
    X, y, weights = table
    labels = np.array(["a", "b", "c"])[np.digitize(y, [100.2, 101][: n_classes - 1])]
    found = RandomFeatureRidgeClassifier(frozen, alpha=0.1).fit(X, labels, weights)
    expected = RidgeClassifier(0.1).fit(frozen.transform(X), labels, weights)
    coef, intercept = np.atleast_2d(expected.coef_), expected.intercept_
    if n_classes > 2:  # indicators of 0 and 1 instead of -1 and 1
        coef, intercept = coef / 2, (intercept + 1) / 2
    assert_allclose(found.coef_, coef, atol=1e-8)
    assert_allclose(found.intercept_, intercept, atol=1e-8)


@pytest.mark.parametrize(("deviation", "class_weight"), [(0.3, "balanced"), (3, None)])
def test_selects_equal_weights_for_two_classes_if_they_help(
    deviation, class_weight, rng
):
    """Whether equal weights help depends on the variances of the two classes."""
    X = rng.standard_normal((1200, 3))
    labels = (rng.random(1200) < 0.04).astype(int)
    X[labels == 1] = 1 + deviation * X[labels == 1]
    frozen = FrozenEstimator(TrigRBFSampler(n_components=60, random_state=0).fit(X))
    whole = RandomFeatureRidgeClassifier(frozen, alpha=0.1).fit(X, labels)
    expected = RidgeClassifier(0.1, class_weight=class_weight)
    expected.fit(frozen.transform(X), labels)
    assert_allclose(whole.coef_[0], expected.coef_, atol=1e-8)
    # probabilities refer to the proportions of the classes, up to 4 standard errors
    found, share = whole.predict_proba(X)[:, 1], labels.mean()
    error = np.sqrt(share * (1 - share) / len(labels))
    assert_allclose(found.mean(), share, rtol=0, atol=4 * error)
    # batches may lack a class, and determine the weights together
    model, order = clone(whole), np.argsort(labels, kind="stable")
    for rows in np.array_split(order, 4):
        model.partial_fit(X[rows], labels[rows], classes=[0, 1])
    assert_allclose(model.predict_proba(X)[:, 1], found, atol=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_may_be_sorted_by_class(dtype, rng):
    X = rng.normal(size=(3000, 3)).astype(dtype)
    labels = (X[:, 0] > 1.5).astype(int)
    order = np.argsort(labels, kind="stable")
    sampler = TrigRBFSampler(sigma=1, n_components=30, random_state=0)
    model = RandomFeatureRidgeClassifier(sampler)
    expected = model.fit(X, labels).predict_proba(X)
    found = model.fit(X[order], labels[order]).predict_proba(X)
    assert_allclose(found, expected, atol=1e-3)


def test_rare_class_that_the_sample_lacks_has_the_larger_scores(rng):
    """Leave-one-out predictions of 4096 rows determine the class probabilities."""
    frozen = FrozenEstimator(TrigRBFSampler(sigma=1, random_state=0).fit([[0.0]]))
    for n_positive in (1, 2, 4, 6):
        X = rng.normal(size=(40_000, 1))
        X[:n_positive] += 5
        labels = np.arange(40_000) < n_positive
        found = RandomFeatureRidgeClassifier(frozen).fit(X, labels).predict_proba(X)
        assert roc_auc_score(labels, found[:, 1]) > 0.9


def test_equal_weights_need_leave_one_out_predictions_of_all_rows():
    """If one class is rare, its rows may be predicted by nothing but themselves."""
    X = np.random.default_rng(1).normal(size=(1000, 2))
    labels = np.arange(1000) < 5
    X[labels] = 3 * X[labels] + 1
    sampler = TrigRBFSampler(sigma=3, n_components=300, random_state=0)
    model = RandomFeatureRidgeClassifier(sampler, alpha=1e-9).fit(X, labels)
    assert np.isfinite(model.loo_errors_).all()


def test_later_batches_may_change_the_weights_of_two_classes(rng):
    sampler = TrigRBFSampler(n_components=30, random_state=0)
    model, batches = RandomFeatureRidgeClassifier(sampler, alpha=0.1), []
    for class_weight, deviation in ("balanced", 0.3), (None, 3):
        X = rng.standard_normal((2000, 3))
        labels = (rng.random(2000) < 0.04).astype(int)
        X[labels == 1] = 1 + deviation * X[labels == 1]
        batches.append((X, labels))
        model.partial_fit(X, labels, classes=[0, 1])
        X, labels = (np.concatenate(parts) for parts in zip(*batches, strict=True))
        expected = RidgeClassifier(0.1, class_weight=class_weight)
        expected.fit(model.kernel_.transform(X), labels)
        assert_allclose(model.coef_[0], expected.coef_, atol=1e-8)


def test_standard_deviations_are_those_of_a_gaussian_process(table, frozen):
    X, y, _ = table
    options = {"alpha": 0.3, "fit_intercept": False, "clip": False}
    model = RandomFeatureRidge(frozen, **options).fit(X, y)
    mean, std = model.predict(X[:50] + 1, return_std=True)
    noise = model.noise_variance_
    kernel = ConstantKernel(noise / 0.3) * DotProduct(sigma_0=1e-100)
    process = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)
    Z = frozen.transform(X[:50] + 1)
    process.fit(frozen.transform(X), y)
    expected, latent = process.predict(Z, return_std=True)
    assert_allclose(mean, expected, rtol=1e-6)
    assert_allclose(std, np.sqrt(latent**2 + noise), rtol=1e-6)


def test_standard_deviations_are_those_of_bayesian_ridge(table, frozen):
    X, y, _ = table
    Z = frozen.transform(X)
    bayes = BayesianRidge(fit_intercept=False).fit(Z, y)
    alpha = bayes.lambda_ / bayes.alpha_
    options = {"alpha": alpha, "fit_intercept": False, "clip": False}
    model = RandomFeatureRidge(frozen, **options).fit(X, y)
    mean, std = model.predict(X, return_std=True)
    expected, theirs = bayes.predict(Z, return_std=True)
    assert_allclose(mean, expected, rtol=1e-6)
    unit = std / np.sqrt(model.noise_variance_)
    assert_allclose(unit, theirs * np.sqrt(bayes.alpha_), rtol=1e-6)


@pytest.mark.parametrize("class_weight", ["balanced", {"a": 3.0}, {"b": 0.0}])
def test_class_weights_are_those_of_scikit_learn(class_weight, table, frozen):
    X, y, _ = table
    labels = np.array(["a", "b", "c"])[np.digitize(y, [100.5, 101.5])]
    options = {"class_weight": class_weight}
    found = RandomFeatureRidgeClassifier(frozen, alpha=0.1, **options).fit(X, labels)
    expected = RidgeClassifier(0.1, **options).fit(frozen.transform(X), labels)
    assert_allclose(found.coef_, expected.coef_ / 2, rtol=1e-6, atol=1e-9)
    assert_allclose(found.intercept_, (expected.intercept_ + 1) / 2, atol=1e-9)


def test_class_weights_times_weights_of_rows(table, frozen):
    X, y, weights = table
    labels = y > 101.5
    model = RandomFeatureRidgeClassifier(frozen, alpha=0.1, class_weight="balanced")
    model.fit(X, labels, weights)
    shares = [weights[labels == label].sum() for label in (False, True)]
    own = weights * (sum(shares) / 2 / np.array(shares))[labels.astype(int)]
    plain = RandomFeatureRidgeClassifier(frozen, alpha=0.1).fit(X, labels, own)
    assert_allclose(model.coef_, plain.coef_, rtol=1e-8)


def test_batches_take_class_weights_that_are_numbers(table, frozen):
    X, y, _ = table
    labels, options = y > 101.5, {"alpha": 0.1, "class_weight": {True: 5.0}}
    model = RandomFeatureRidgeClassifier(frozen, **options)
    for rows in (slice(0, 150), slice(150, None)):
        model.partial_fit(X[rows], labels[rows], classes=[False, True])
    whole = RandomFeatureRidgeClassifier(frozen, **options).fit(X, labels)
    assert_allclose(model.coef_, whole.coef_, rtol=1e-8)
    other = clone(model).set_params(class_weight={True: 2.0}).fit(X, labels)
    with pytest.raises(ValueError, match="but class_weight is"):
        model.merge(other)
    model = RandomFeatureRidgeClassifier(frozen, class_weight="balanced")
    with pytest.raises(ValueError, match="'balanced' needs all rows at once"):
        model.partial_fit(X, labels, classes=[False, True])
    with pytest.raises(ValueError, match="Negative values in data"):
        model.set_params(class_weight={True: -1.0}).fit(X, labels)


def test_centres_have_the_penalty_of_kernel_ridge(table):
    X, y, _ = table
    sampler = CentersRBFSampler(n_components=40, random_state=0)
    options = {"alpha": 0.5, "fit_intercept": False, "clip": False}
    model = RandomFeatureRidge(sampler, **options).fit(X, y)
    sampler.fit(X)
    F, K = sampler.transform(X), sampler.penalty_
    coef = np.linalg.solve(F.T @ F + 0.5 * K, F.T @ y)
    assert_allclose(model.predict(X), F @ coef, rtol=1e-7)
    _, std = model.predict(X, return_std=True)
    middle = np.linalg.inv(F.T @ F + 0.5 * K)
    factor = 1 + np.einsum("ni,ij,nj->n", F, middle, F)
    assert_allclose(std**2, model.noise_variance_ * factor, rtol=1e-6)


# ----------------------------------------------------------- batches and weights
@pytest.mark.usefixtures("few_features")
@pytest.mark.parametrize("kernel", [FIXED, OPRF, "linear", "gaussian"], ids=repr)
def test_batches_in_any_order(kernel, table):
    X, y, _ = table
    whole = RandomFeatureRidge(kernel, random_state=0).fit(X, y)
    parts = np.array_split(np.random.default_rng(1).permutation(400), 5)
    model = clone(whole)
    for rows in parts:
        model.partial_fit(X[rows], y[rows])
        model.predict(X[:3])  # between batches: nothing of it stays
    assert_allclose(model.predict(X), whole.predict(X), rtol=1e-7)
    assert_allclose(model.freeze().predict(X), whole.predict(X), rtol=1e-7)
    assert model.kernel_ == "linear" or model.sigma_ == pytest.approx(whole.sigma_)


@pytest.mark.usefixtures("few_features")
@pytest.mark.parametrize("kernel", [FIXED, OPRF, "linear", "matern"], ids=repr)
def test_partial_fit_after_fit_equals_fit_on_all_rows(kernel, table):
    X, y, weights = table
    whole = RandomFeatureRidge(kernel, random_state=0).fit(X, y, weights)
    model = clone(whole).fit(X[:250] + 1, y[:250], weights[:250])
    model.fit(X[:300], y[:300], weights[:300])
    model.partial_fit(X[300:], y[300:], sample_weight=weights[300:])
    for one, other in zip(*(m.predict(X, return_std=True) for m in (model, whole))):
        assert_allclose(one, other, rtol=1e-7)
    # the smallest penalties amplify rounding errors
    assert_allclose(model.loo_errors_, whole.loo_errors_, rtol=1e-4)
    labels = (y > 100.5).astype(int)
    whole = RandomFeatureRidgeClassifier(kernel, random_state=0).fit(X, labels)
    model = clone(whole).fit(X[:300], labels[:300]).partial_fit(X[300:], labels[300:])
    expected = whole.decision_function(X)
    assert_allclose(model.decision_function(X), expected, atol=1e-8)


@pytest.mark.usefixtures("few_features")
def test_merge_equals_fit(table, frozen):
    X, y, _ = table
    # the least penalties of "auto" magnify the rounding of sums a billion times
    whole = RandomFeatureRidge(frozen, alpha=np.geomspace(1e-2, 1e2, 9)).fit(X, y)
    left, right = (
        clone(whole).partial_fit(X[rows], y[rows])
        for rows in (slice(150), slice(150, None))
    )
    before = right.predict(X)
    left.merge(right)
    assert left.sigma_ == whole.sigma_
    assert_allclose(left.loo_errors_, whole.loo_errors_, rtol=1e-8)
    assert_allclose(left.predict(X), whole.predict(X), rtol=1e-8)
    assert_array_equal(right.predict(X), before)
    labels = (y > 100.5).astype(int)
    for kernel in (FIXED, "gaussian"):
        whole = RandomFeatureRidgeClassifier(kernel, random_state=0).fit(X, labels)
        parts = [
            clone(whole).fit(X[rows], labels[rows])
            for rows in (slice(150), slice(150, None))
        ]
        found = parts[0].merge(parts[1]).decision_function(X)
        assert_allclose(found, whole.decision_function(X), atol=1e-8)


@pytest.mark.usefixtures("few_features")
def test_merge_raises_where_models_differ(table, frozen):
    X, y, _ = table
    model = RandomFeatureRidge(frozen).fit(X, y)
    elsewhere = FrozenEstimator(clone(frozen.estimator).fit(X + 1))
    others = {
        r"kernel=FrozenEstimator\(sampler\)": RandomFeatureRidge(elsewhere).fit(X, y),
        "but kernel is FrozenEst": RandomFeatureRidge().fit(X, y),
        "but alpha is 'auto' in one": RandomFeatureRidge(frozen, alpha=1.0).fit(X, y),
        "same number of outputs": RandomFeatureRidge(frozen).fit(X, np.c_[y, y]),
        "the same columns": RandomFeatureRidge("linear").fit(X[:, :2], y),
        "another RandomFeatureRidge": RandomFeatureRidgeClassifier().fit(X, y > 100),
    }
    for message, other in others.items():
        with pytest.raises(ValueError, match=message):
            clone(model).fit(X, y).merge(other)
    one, other = (RandomFeatureRidge(sigma=s).fit(X, y) for s in (0.5, "scale"))
    with pytest.raises(
        ValueError, match=r"but sigma is 0\.5 in one object and 'scale' in"
    ):
        one.merge(other)


@pytest.mark.usefixtures("few_features")
@pytest.mark.parametrize("kernel", ["gaussian", FIXED], ids=repr)
def test_integer_weights_equal_repeated_rows(kernel, table):
    """With given parameters, as leave-one-out errors of copies are smaller."""
    X, y, weights = table
    copies = np.repeat(np.arange(400), weights.astype(int))
    found = RandomFeatureRidge(kernel, sigma=0.5, alpha=0.1, random_state=0)
    found.fit(X, y, weights)
    expected = clone(found).fit(X[copies], y[copies])
    both = zip(*(m.predict(X, return_std=True) for m in (found, expected)))
    for one, other in both:
        assert_allclose(one, other, rtol=1e-7)
    assert found.kernel_.n_components == expected.kernel_.n_components
    zero = np.where(np.arange(400) < 300, weights, 0)
    found.fit(X, y, zero)
    expected.fit(X[:300], y[:300], weights[:300])
    assert_allclose(found.predict(X), expected.predict(X), rtol=1e-7)


@pytest.mark.usefixtures("few_features")
@pytest.mark.each_value
@pytest.mark.parametrize("kernel", ["gaussian", OPRF, "linear"], ids=repr)
@pytest.mark.parametrize("by", ["fit", "partial_fit", "merge"])
def test_choices_do_not_depend_on_the_unit_of_small_weights(by, kernel, table):
    X, y, weights = table
    weights = weights / 4  # below 1 on average
    models = [
        fitted_by(by, RandomFeatureRidge(kernel, random_state=0), X, y, weights * unit)
        for unit in (1.0, 1e-5)
    ]
    first = models[0]
    for model, unit in zip(models, (1.0, 1e-5), strict=True):
        assert_allclose(model.alpha_, first.alpha_ * unit, rtol=1e-6)
        assert_allclose(model.loo_errors_, first.loo_errors_, rtol=1e-6)
        assert_allclose(model.noise_variance_, first.noise_variance_, rtol=1e-6)
        for one, other in zip(*(m.predict(X, return_std=True) for m in (model, first))):
            assert_allclose(one, other, rtol=1e-6)
        if kernel != "linear":
            assert_allclose(model.sigma_, first.sigma_, rtol=1e-9)
            assert model.kernel_.n_components == first.kernel_.n_components


@pytest.mark.usefixtures("few_features")
@pytest.mark.each_value
@pytest.mark.parametrize("class_weight", [None, "balanced"])
@pytest.mark.parametrize("kernel", ["gaussian", OPRF, "linear"], ids=repr)
def test_decisions_do_not_depend_on_the_unit_of_small_weights(
    kernel, class_weight, table
):
    X, y, weights = table
    labels, weights = np.digitize(y, [100.5, 101.5]), weights / 4
    model = RandomFeatureRidgeClassifier(
        kernel, class_weight=class_weight, random_state=0
    )
    first = clone(model).fit(X, labels, weights)
    model.fit(X, labels, weights * 1e-3)
    assert_allclose(model.decision_function(X), first.decision_function(X))
    assert_allclose(model.alpha_, first.alpha_ * 1e-3)


def fitted_by(by, model, X, y, weights):
    """Return a model that is fitted to all rows at once, or to batches."""
    if by == "fit":
        return model.fit(X, y, weights)
    parts = slice(0, 150), slice(150, None)
    if by == "partial_fit":
        for rows in parts:
            model.partial_fit(X[rows], y[rows], weights[rows])
        return model
    left, right = (clone(model).fit(X[s], y[s], weights[s]) for s in parts)
    return left.merge(right)


@pytest.mark.usefixtures("few_features")
def test_equal_weights_below_one_equal_no_weights(table):
    X, y, _ = table
    expected = RandomFeatureRidge(random_state=0).fit(X, y)
    model = clone(expected).fit(X, y, np.full(400, 0.01))
    for one, other in zip(*(m.predict(X, return_std=True) for m in (model, expected))):
        assert_allclose(one, other, rtol=1e-7)
    assert_allclose(model.alpha_, 0.01 * expected.alpha_)


def test_a_given_penalty_is_relative_to_the_weights(table, frozen):
    X, y, weights = table
    Z = frozen.transform(X)
    model = RandomFeatureRidge(frozen, alpha=0.01).fit(X, y, weights / 100)
    expected = Ridge(0.01, solver="svd").fit(Z, y, weights / 100)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-8)
    assert model.alpha_ == 0.01


def test_a_warning_for_weights_that_are_hardly_numbers_of_rows(table):
    X, y, _ = table
    model = RandomFeatureRidge("linear").fit(X, y, np.full(400, 10.0))
    with pytest.warns(UserWarning, match="mean of the sample weights is 11. A row"):
        model.fit(X, y, np.full(400, 11.0))


def test_a_warning_for_rows_that_were_repeated_on_purpose(table):
    X, y, _ = table
    copies = np.repeat(np.arange(400), np.where(np.arange(400) < 100, 4, 1))
    with pytest.warns(
        UserWarning, match="300 of 700 rows are copies of other rows with the same"
    ):
        RandomFeatureRidge("linear").fit(X[copies], y[copies])
    cells = np.round(X)  # equal rows of a discrete table are independent
    RandomFeatureRidge("linear").fit(cells, (y > 100.5).astype(float))
    # nor are rows with the same frequent value copies
    spike = np.where(np.arange(400) < 150, 0.0, np.linspace(-1, 1, 400))
    with warnings.catch_warnings(action="error"):
        RandomFeatureRidge("linear").fit(spike[:, None], (y > 100).astype(float))


def test_moments_do_not_cancel(rng):
    """Far from zero, in chunks: the products are those about the mean."""
    Z, y = rng.standard_normal((2000, 3)) + 1e7, rng.standard_normal(2000) - 1e8
    model = RandomFeatureRidge(FrozenEstimator(FunctionTransformer().fit(Z)), alpha=1.0)
    for rows in (slice(500), slice(500, 501), slice(501, None)):
        model.partial_fit(Z[rows], y[rows])
    Z, y = Z - Z.mean(axis=0), y - y.mean()
    expected = Ridge(1.0, solver="svd").fit(Z, y)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-7, atol=1e-7)
    centred = clone(model).fit(Z, y)
    assert_allclose(model.loo_errors_, centred.loo_errors_, rtol=1e-6)
    assert_allclose(model.noise_variance_, centred.noise_variance_, rtol=1e-9)


# --------------------------------------------------------------------- the choice
def test_sigma_is_selected_on_some_of_many_rows(rng, with_fault):
    X = rng.standard_normal((1600, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(1600)
    mapped = []

    def log_features(self, rows, **options):
        mapped.append(rows.shape[0])
        return super(type(self), self).log_features(rows, **options)

    counted = with_fault(TrigRBFSampler, log_features=log_features)
    model = RandomFeatureRidge(counted(n_components=4, random_state=2)).fit(X, y)
    # once for moments and once for errors; sixteen rows a column for each sigma
    assert sum(mapped) == 2 * (1600 + 4 * 64)
    assert model.loo_errors_.shape == (4, 30)
    alone = RandomFeatureRidge(clone(model.kernel).set_params(sigma=model.sigma_))
    alone.fit(X, y)
    assert_allclose(model.predict(X), alone.predict(X), rtol=1e-8)
    batches = clone(model).partial_fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    assert_allclose(batches.freeze().predict(X), model.predict(X), rtol=1e-8)


def test_penalties_do_not_depend_on_scale(table):
    X, y, _ = table
    model = RandomFeatureRidge("linear").fit(X, y)
    scaled = RandomFeatureRidge("linear").fit(1e6 * X, 1e-9 * y)
    assert_allclose(scaled.predict(1e6 * X), 1e-9 * model.predict(X), rtol=1e-8)
    assert_allclose(scaled.alpha_, 1e12 * model.alpha_, rtol=1e-6)


def test_intervals_cover(rng):
    X = rng.uniform(-2, 2, (2000, 2))
    y = np.sin(3 * X[:, 0]) * X[:, 1] + 0.3 * rng.standard_normal(2000)
    model = RandomFeatureRidge(random_state=0).fit(X[:500], y[:500])
    mean, std = model.predict(X[500:], True)
    inside = np.mean(np.abs(y[500:] - mean) < 1.645 * std)
    assert 0.86 < inside < 0.94  # 0.9 +- 3 * 0.0077 and the error of s


# ------------------------------------------------------------------------- edges
def faults():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    yield "one row", X[:1], np.ones(1)
    yield "two rows", X[:2], np.arange(2.0)
    yield "constant columns", np.full((30, 4), 7.3), X[:, 0]
    yield "constant targets", X, np.full(30, 1e9 + 0.1)
    yield "equal columns", X[:, [0, 0, 0, 0]], X[:, 0]
    yield "rows repeated", np.repeat(X[:2], 15, axis=0), X[:, 0]
    yield "fewer rows than columns", rng.standard_normal((5, 40)), X[:5, 0]
    yield "huge", 1e100 * X, 1e100 * X[:, 0]
    yield "tiny", 1e-100 * X, 1e-100 * X[:, 0]


@pytest.mark.each_value
@pytest.mark.parametrize("alpha", ["auto", 0.0, 1.0])
@pytest.mark.parametrize("kernel", ["linear", "gaussian"])
@pytest.mark.parametrize("fault", faults(), ids=lambda fault: fault[0])
def test_no_nan(fault, kernel, alpha):
    _, X, y = fault
    with np.errstate(all="raise", under="ignore"):
        model = RandomFeatureRidge(kernel, alpha=alpha, random_state=0).fit(X, y)
        mean, std = model.predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert not np.isnan(std).any()
    spread = np.ptp(y) + 1e-6 * np.abs(y).max()
    assert np.all(np.abs(mean - y.mean()) <= 3 * spread)
    assert not np.isnan(model.loo_errors_).any()


def test_columns_that_differ_by_rounding_are_constant():
    """What is the same number up to its last digit tells nothing of the targets."""
    X = np.full((30, 4), 0.1)
    X[::2] = np.nextafter(0.1, 1)
    y = np.arange(30.0) % 2
    model = RandomFeatureRidge("linear").fit(X, y)
    assert_allclose(model.predict(X), 0.5)


def test_types(table):
    X, y, _ = table
    X32 = X.astype(np.float32)
    model = RandomFeatureRidge(FIXED).fit(X32, y)
    assert model.predict(X32).dtype == np.float64
    wide = RandomFeatureRidge(FIXED).fit(X, y)
    assert abs(model.score(X32, y) - wide.score(X, y)) < 0.02
    fixed = [RandomFeatureRidge(FIXED, alpha=0.01).fit(A, y) for A in (X32, X)]
    assert_allclose(*(m.predict(X) for m in fixed), rtol=1e-4)
    labels = y > 100.5
    classifier = RandomFeatureRidgeClassifier(FIXED).fit(X32, labels)
    assert classifier.decision_function(X32).dtype == np.float32
    assert classifier.predict(X32).dtype == bool
    thin = sparse.csr_array(np.where(X > 0.5, X, 0))
    for kernel in ("linear", FIXED):
        one = RandomFeatureRidge(kernel).fit(thin, y).predict(thin)
        other = RandomFeatureRidge(kernel).fit(thin.toarray(), y)
        assert_allclose(one, other.predict(thin.toarray()), rtol=1e-8)


@pytest.mark.parametrize("unit", [1e-46, 1e-120, 1e60])
def test_targets_of_float32_rows_have_any_unit(unit, table):
    X, y, _ = table
    X = X.astype(np.float32)
    expected = RandomFeatureRidge(FIXED, alpha=0.1).fit(X, y - 100).predict(X)
    found = RandomFeatureRidge(FIXED, alpha=0.1).fit(X, unit * (y - 100)).predict(X)
    assert_allclose(found / unit, expected, rtol=1e-5, atol=1e-5)


def test_the_data_of_the_caller_are_neither_changed_nor_shared(table):
    X, y, _ = table
    whole, before = RandomFeatureRidge("linear").fit(X, y), X.copy()
    assert_array_equal(X, before)
    identity = FunctionTransformer()
    RandomFeatureRidge(FrozenEstimator(identity.fit(X))).fit(X, y)
    assert_array_equal(X, before)
    again = pickle.loads(pickle.dumps(whole))
    assert_array_equal(again.predict(X), whole.predict(X))
    for method in ("fit", "partial_fit"):
        batch = X[:200].copy()
        model = getattr(RandomFeatureRidge(FIXED), method)(batch, y[:200])
        batch[:] = 0
        model.partial_fit(X[200:], y[200:])
        expected = RandomFeatureRidge(FIXED).fit(X, y)
        assert_allclose(model.predict(X), expected.predict(X), rtol=1e-8)


# -------------------------------------------------------------------------- freezing
def test_a_frozen_classifier_is_little_more_than_coefficients_and_frequencies():
    X, y = (rows[:900] for rows in load_digits(return_X_y=True))
    model = RandomFeatureRidgeClassifier(n_components=360, random_state=0).fit(X, y)
    expected, errors = model.decision_function(X), model.loo_errors_
    assert len(pickle.dumps(model)) < 3 * X.nbytes  # no Gram matrix
    model = pickle.loads(pickle.dumps(model.freeze()))
    n_components = model.kernel_.n_components
    least = model.coef_.nbytes + 8 * 64 * n_components // 2
    least += 4 * 64 * n_components  # for score_samples
    least += errors.nbytes
    assert len(pickle.dumps(model)) < 1.2 * least
    assert_array_equal(model.decision_function(X), expected)
    assert_array_equal(model.loo_errors_, errors)


@pytest.mark.parametrize("n_rows", [200, 400])  # fewer and more rows than columns
def test_a_frozen_regressor_keeps_half_a_matrix_for_standard_deviations(n_rows, table):
    X, y = table[0][:n_rows], table[1][:n_rows]
    options = {"n_components": 300, "random_state": 0}
    model = RandomFeatureRidge(**options).fit(X, y)
    expected = model.predict(X + 0.1, return_std=True)
    model = pickle.loads(pickle.dumps(model.freeze()))
    leading = 300 // 16  # axes for the bounds of variances
    assert len(pickle.dumps(model)) < 1.2 * 4 * 300 * (301 / 2 + leading)
    for one, other in zip(model.predict(X + 0.1, return_std=True), expected):
        assert_allclose(one, other, rtol=1e-6)
    outputs = np.c_[y, X[:, 2]]  # each with a penalty of its own
    model = RandomFeatureRidge(**options).fit(X, outputs)
    expected = model.predict(X + 0.1, return_std=True)
    model = pickle.loads(pickle.dumps(model.freeze()))
    for one, other in zip(model.predict(X + 0.1, return_std=True), expected):
        assert_allclose(one, other, rtol=1e-9)


@pytest.mark.usefixtures("few_features")
@pytest.mark.parametrize("kernel", ["gaussian", FIXED, "linear"], ids=repr)
def test_a_frozen_model_accepts_no_further_rows(kernel, table):
    X, y, _ = table
    model = RandomFeatureRidge(kernel, random_state=0).fit(X, y)
    other = clone(model).fit(X, y)
    model.freeze().freeze()
    with pytest.raises(ValueError, match="partial_fit cannot change this estimator"):
        model.partial_fit(X, y)
    with pytest.raises(
        ValueError, match="merge cannot change this estimator, which is"
    ):
        model.merge(other)
    with pytest.raises(
        ValueError, match="merge cannot change this estimator, which is"
    ):
        other.merge(model)
    assert_allclose(model.fit(X, y).predict(X), other.predict(X))


def test_rows_of_many_entries_are_not_kept(rng):
    X = rng.standard_normal((2100, 2001))
    y = X[:, 0] + 0.1 * rng.standard_normal(2100)
    model = RandomFeatureRidge(n_components=20, random_state=0).fit(X, y)
    expected = clone(model).partial_fit(X[:100], y[:100]).partial_fit(X[100:], y[100:])
    assert_allclose(model.predict(X), expected.predict(X), rtol=1e-8)
    assert len(pickle.dumps(model)) < X.nbytes / 3  # a sample of 524 rows
    assert_allclose(model.loo_errors_, expected.loo_errors_, rtol=1e-8)
    assert model.loo_errors_.shape == (4, 30)
    model.partial_fit(X[:100], y[:100])  # sigma and the map remain as they are
    fixed = RandomFeatureRidge(FrozenEstimator(model.kernel_))
    fixed.fit(np.r_[X, X[:100]], np.r_[y, y[:100]])
    assert_allclose(model.predict(X), fixed.predict(X), rtol=1e-8)


@pytest.mark.parametrize("kernel", [Nystroem(n_components=30), OPRFSampler()], ids=repr)
def test_other_features(kernel, table):
    X, y, _ = table
    pipeline = make_pipeline(
        StandardScaler(), RandomFeatureRidge(kernel, random_state=0)
    ).fit(X, y)
    assert pipeline.score(X, y) > 0.8


@pytest.mark.parametrize("n_features", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_few_columns_may_have_many_waves(n_features, rng):
    X = rng.uniform(-1, 1, size=(1500, n_features))
    y = np.sin(20 * X).sum(axis=1) + 0.3 * rng.standard_normal(1500)
    model = RandomFeatureRidge(random_state=0).fit(X[:1000], y[:1000])
    assert model.score(X[1000:], y[1000:]) > 0.8  # of .85 and .92 without noise


def test_errors_may_be_the_first_that_is_asked_for(table):
    X, y, _ = table
    sampler = TrigRBFSampler(n_components=50, random_state=0)
    model = RandomFeatureRidge(sampler).partial_fit(X, y)
    found = model.loo_errors_
    assert_allclose(found, clone(model).fit(X, y).loo_errors_, rtol=1e-8)


def test_rows_out_of_range(table):
    X, y, weights = table
    model = RandomFeatureRidge(FIXED).fit(X, y)
    with pytest.raises(ValueError, match="y has 2 outputs, but the first batch had 1"):
        model.partial_fit(X, np.c_[y, y])
    with pytest.raises(ValueError, match="X has 2 features, but RandomFeatureRidge is"):
        model.predict(X[:, :2])
    with pytest.raises(ValueError, match="at least one non-zero"):
        model.fit(X, y, 0 * weights)
    with pytest.raises(ValueError, match="are too large for their type"):
        RandomFeatureRidge("linear").fit(1e200 * X, y)
    model = RandomFeatureRidgeClassifier().partial_fit(X, y > 100, classes=[0, 1])
    with pytest.raises(ValueError, match=r"y has the labels \[2\], which are not"):
        model.partial_fit(X, np.full(400, 2))


def test_a_failed_fit_leaves_the_model(table):
    X, y, _ = table
    model = RandomFeatureRidge("linear").fit(X, y)
    before = model.predict(X)
    with pytest.raises(ValueError, match="too large"):
        model.fit(1e200 * X, y)
    assert_array_equal(model.predict(X), before)


def test_the_solution_is_computed_once_a_change(table, monkeypatch):
    X, y, _ = table
    made, eigh = [], linalg.eigh

    def counted(*arguments, **options):
        made.append(1)
        return eigh(*arguments, **options)

    monkeypatch.setattr(linalg, "eigh", counted)
    model = RandomFeatureRidge(FIXED).fit(X, y)
    model.predict(X), model.alpha_, model.coef_, model.loo_errors_
    assert len(made) == 1
    model = pickle.loads(pickle.dumps(model))
    model.predict(X)
    assert len(made) == 1
    model.partial_fit(X, y).predict(X)
    assert len(made) == 2
    model.freeze().predict(X)
    assert len(made) == 2


@pytest.mark.usefixtures("few_folds")
def test_defaults_predict_iris_and_wine():
    """With more features than rows, the selected penalty does not interpolate."""
    for load in (load_iris, load_wine):
        X, y = load(return_X_y=True)
        X = StandardScaler().fit_transform(X)
        parts = train_test_split(X, y, random_state=0, stratify=y)
        model = RandomFeatureRidgeClassifier(random_state=0).fit(parts[0], parts[2])
        assert model.score(parts[1], parts[3]) > 0.9


@pytest.mark.parametrize("seed", range(10))
def test_rounding_errors_do_not_choose_the_penalty(seed):
    """Models that interpolate have nearly equal errors for all small penalties.

    Centring makes one eigenvalue of the Gram matrix zero, apart from a rounding error.
    Where the largest of these penalties is at the limit of a tie, the next one may win.
    """
    rng = np.random.default_rng(seed)
    X, y = rng.random((15, 30)), rng.integers(3, size=15).astype(float)
    alphas = [
        RandomFeatureRidge(n_components=64, random_state=0).fit(rows, y).alpha_
        for rows in (X, *(X * (1 + 1e-15 * rng.normal(size=(4, 15, 30)))))
    ]
    steps = np.log(np.divide(alphas, alphas[0])) / np.log(1.94)  # between penalties
    assert np.abs(steps).max() < 1.1


@pytest.mark.parametrize(
    "kernel",
    ["gaussian", pytest.param("matern", marks=pytest.mark.slow), FIXED, "linear"],
    ids=repr,
)
def test_scores_of_samples_of_classifiers(kernel, rng):
    """The scores are uniform for rows of the same distribution.

    Estimated variances change the ranks of rows that are nearly equally similar only.
    """
    X = rng.normal(size=(2000, 3))
    codes = rng.integers(3, size=2000)
    n_components = 100 if kernel in ("gaussian", "matern") else "auto"
    model = RandomFeatureRidgeClassifier(
        kernel, n_components=n_components, random_state=0
    )
    model.fit(X[:1000], codes[:1000])
    found = model.score_samples(X[1000:])
    assert kstest(found, "uniform").pvalue > 1e-9
    assert np.quantile(model.score_samples(X[1000:] + 6), 0.9) < 0.02
    copy = pickle.loads(pickle.dumps(model.freeze()))
    assert_allclose(copy.score_samples(X[1000:]), found)
    indicators = np.eye(3)[codes[:1000]]
    is_linear = kernel == "linear"
    exact = RandomFeatureRidge(
        kernel if is_linear else FrozenEstimator(model.kernel_),
        alpha=model.alpha_,
        clip=False,
    )
    expected = exact.fit(X[:1000], indicators).score_samples(X[1000:])
    if is_linear:  # with few features, the variances are not estimated
        assert_allclose(found, expected, atol=1e-3)
    else:
        assert spearmanr(expected, found).statistic > 0.9


@pytest.mark.parametrize("kernel", ["gaussian", "matern"])
def test_scores_of_samples(kernel, rng):
    """They are uniform for rows of the same distribution, and low for distant rows."""
    X = rng.normal(size=(4000, 3))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=4000)
    model = RandomFeatureRidge(kernel, n_components=100, random_state=0).fit(
        X[:2000], y[:2000]
    )
    found = model.score_samples(X[2000:])
    assert kstest(found, "uniform").pvalue > 1e-9
    assert np.quantile(model.score_samples(X[2000:] + 6), 0.9) < 0.02
    expected = model.freeze().score_samples(X[2000:])
    assert_allclose(found, expected)
    both = RandomFeatureRidge(
        kernel, sigma=model.sigma_, n_components=100, random_state=0
    ).fit(X[:2000], np.stack([y, y], axis=1)[:2000])
    assert_allclose(both.score_samples(X[2000:]), found, atol=0.01)


def test_effective_sample_sizes_are_those_of_the_hat_matrix(table, frozen):
    """The variance is at least the sum of the squared weights of the targets."""
    X, y, _ = table
    options = {"clip": False, "fit_intercept": False}
    model = RandomFeatureRidge(frozen, alpha=0.3, **options).fit(X, y)
    mean, std = model.predict(X + 1, return_std=True)
    found = model.effective_sample_size(X + 1)
    assert_allclose(1 / found, std**2 / model.noise_variance_ - 1, rtol=1e-6)
    Z, Q = frozen.transform(X), frozen.transform(X + 1)
    weights = Q @ np.linalg.solve(Z.T @ Z + 0.3 * np.eye(Z.shape[1]), Z.T)
    assert_allclose(weights @ y, mean, rtol=1e-6)
    assert np.all(found <= 1 / np.sum(weights**2, axis=1))
    labels = RandomFeatureRidgeClassifier(frozen, alpha=0.3, fit_intercept=False)
    labels.fit(X, y > np.median(y))  # classes of equal size have equal weights
    assert_allclose(labels.effective_sample_size(X + 1), found, rtol=1e-5)


def test_labels_that_are_noise_have_the_class_shares():
    """By chance, some of the candidates seem to predict a few hundred labels."""
    excess = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = rng.normal(size=(2200, 10)), rng.random(2200) < 0.3
        model = RandomFeatureRidgeClassifier(n_components=256, random_state=0)
        found = model.fit(X[:200], y[:200]).predict_proba(X[200:])
        of_shares = log_loss(y[200:], np.full(2000, y[:200].mean()))
        excess.append(log_loss(y[200:], found) - of_shares)
    assert np.mean(excess) < 0.015
