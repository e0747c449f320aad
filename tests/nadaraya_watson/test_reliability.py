"""Which averages can be told from noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.kernel_approximation import Nystroem, RBFSampler

from sklearn_crt import (
    GERFSampler,
    MaternSampler,
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    PoissonSampler,
    TrigRBFSampler,
)
from sklearn_crt.nadaraya_watson._norms import Norms
from sklearn_crt.nadaraya_watson._reliability import (
    error_of_signs,
    group_columns,
    split_sums,
    standard_error,
    trust,
)


def parts_of(features, sums, index=None):
    return features @ split_sums(sums, group_columns(index, sums.size))


def test_error_is_that_of_a_mean(rng):
    """With one column a group it is the standard error of 16 times their mean."""
    features, sums = rng.normal(size=(5, 16)), rng.normal(size=16)
    error = standard_error(parts_of(features, sums), None, 16)
    assert_allclose(error, 16 * stats.sem(features * sums, axis=1))


@pytest.mark.parametrize("n_frequencies", [20, 64, 500])
def test_error_is_unbiased(n_frequencies, rng):
    """Its square has the mean of the variance; z threshold at 1e-6."""
    terms = rng.exponential(size=(20_000, n_frequencies))
    parts = parts_of(terms, np.ones(n_frequencies))
    squares = standard_error(parts, None, n_frequencies) ** 2
    z = (squares.mean() - n_frequencies) / stats.sem(squares)
    assert abs(z) < stats.norm.isf(0.5e-6)


def test_pairs_of_columns_stay_together(rng):
    """A cosine and the sine of the same frequency are no two estimates."""
    features, sums = rng.normal(size=(3, 40)), np.ones(40)
    index = np.tile(np.arange(20), 2)
    both = features[:, :20] + features[:, 20:]
    expected = standard_error(parts_of(both, np.ones(20)), None, 20)
    assert_allclose(
        standard_error(parts_of(features, sums, index), index, 40), expected
    )


def test_one_frequency_says_nothing_of_its_error():
    index = np.array([0, 0])
    parts = parts_of(np.ones((3, 2)), np.ones(2), index)
    assert_array_equal(standard_error(parts, index, 2), np.inf)
    assert_array_equal(trust(np.ones(3), np.full(3, np.inf)), 0)


def test_error_of_signs_sees_rounding(rng):
    X = rng.normal(size=(100, 5))
    X -= X.mean(axis=0)
    error = error_of_signs(X, X.sum(axis=0), Norms.of(X, np.ones(100)))
    assert np.all(np.abs(X @ X.sum(axis=0)) < error)


def test_trust_is_continuous():
    assert_allclose(
        trust(np.array([-1.0, 0.0, 1.0, 2.0, 3.0, 1.0, 0.0]), np.r_[[1.0] * 5, 0, 0]),
        [0, 0, 0.25, 1, 1, 1, 0],
    )


@pytest.mark.parametrize("sampler", [TrigRBFSampler, MaternSampler])
def test_errors_of_denominators(sampler, rng):
    """Errors over standard errors have mean square 1, up to what t(15) allows."""
    X, queries = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    ratios = []
    for seed in range(100):
        inside = sampler(sigma=2.0, coupling="iid", n_components=64, random_state=seed)
        model = NadarayaWatsonRegressor(inside).fit(X, X[:, 0])
        truth = model.sampler_.exact_kernel(queries, X).sum(axis=1)
        ((_, (scores, log_scale, error)),) = model._engine.scores(queries)
        scale = np.exp(log_scale[:, 0])
        ratios.append(np.mean(((scores[:, -1] * scale - truth) / (error * scale)) ** 2))
    mean = 15 / 13  # of the square of t(15)
    assert abs(np.mean(ratios) - mean) < stats.norm.isf(0.5e-6) * stats.sem(ratios)


def table(rng):
    X = rng.normal(size=(300, 4))
    return X, np.exp(X[:, 0]), rng.normal(size=(200, 4)) * 1.5


@pytest.mark.parametrize("sigma", [0.3, 1.0, 3.0, 30.0])
@pytest.mark.parametrize(
    "sampler",
    [
        TrigRBFSampler(random_state=0),
        TrigRBFSampler(random_state=0, n_components=2),
        MaternSampler(random_state=0),
        PoissonSampler(random_state=0),
        GERFSampler(random_state=0),
        OPRFSampler(random_state=0),
        RBFSampler(random_state=0),
    ],
    ids=repr,
)
@pytest.mark.filterwarnings("ignore:For .* rows all the kernel:RuntimeWarning")
def test_averages_stay_in_the_range_of_the_targets(sampler, sigma, rng):
    X, y, queries = table(rng)
    name = "sigma" if hasattr(sampler, "sigma") else "gamma"
    sampler.set_params(**{name: sigma})
    for targets in (y, np.stack([y, -y], axis=1)):
        found = NadarayaWatsonRegressor(sampler).fit(X, targets).predict(queries)
        slack = 1e-9 * np.ptp(targets)
        assert np.all(found >= targets.min(axis=0) - slack)
        assert np.all(found <= targets.max(axis=0) + slack)


def test_standardised_rows_are_no_features(rng):
    """Their sum is rounding, and so was each denominator: averages of 1e18."""
    X, y, queries = table(rng)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.warns(UserWarning, match="The rows look like no features"):
        model = NadarayaWatsonRegressor().fit(X, y)
    with pytest.warns(RuntimeWarning, match="For 200 rows all the kernel") as record:
        found = model.predict(queries)
    assert len(record) == 1
    assert record[0].filename == __file__
    assert_allclose(found, y.mean(), rtol=1e-3)


def test_nystroem_is_reliable(rng):
    """Its columns are no repeated estimates of one kernel."""
    X, y, _ = table(rng)
    sampler = Nystroem(gamma=0.1, random_state=0)
    assert NadarayaWatsonRegressor(sampler).fit(X, y).score(X, y) > 0


def test_one_warning_counts_the_unreliable_rows(rng):
    X, y, queries = table(rng)
    sampler = TrigRBFSampler(sigma=2.0, n_components=40, random_state=0)
    model = NadarayaWatsonRegressor(sampler).fit(X, y)
    ((_, (scores, _, error)),) = model._engine.scores(queries)
    n_unreliable = int(np.sum(scores[:, -1] < 2 * error))
    assert np.sum(scores[:, -1] <= 0) < n_unreliable < 200
    message = f"For {n_unreliable} rows all the kernel weights.*positive"
    with pytest.warns(RuntimeWarning, match=message) as record:
        model.predict(queries)
    assert len(record) == 1
    labels = y > 1
    classifier = NadarayaWatsonClassifier(sampler).fit(X, labels)
    for method in (classifier.predict, classifier.predict_proba):
        with pytest.warns(RuntimeWarning, match=message) as record:
            method(queries)
        assert len(record) == 1


def test_probabilities_of_unreliable_rows_lean_on_the_prior(rng):
    X, y, queries = table(rng)
    sampler = TrigRBFSampler(sigma=2.0, n_components=40, random_state=0)
    model = NadarayaWatsonClassifier(sampler).fit(X, y > 1)
    ((_, (scores, _, error)),) = model._engine.scores(queries)
    total, positive = scores.sum(axis=1), np.maximum(scores, 0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300)
    weight = np.clip(total / (2 * error), 0, 1)[:, None] ** 2
    expected = weight * shares + (1 - weight) * model.class_prior_
    first = np.where(positive.any(axis=1), scores.argmax(axis=1), 1)
    expected[~positive.any(axis=1)] = model.class_prior_
    keeps = expected.argmax(axis=1) == first
    assert 0 < np.sum(keeps & (weight[:, 0] < 1)) < np.sum(weight < 1)
    with pytest.warns(RuntimeWarning, match="the class prior is predicted there, in"):
        found = model.predict_proba(queries)
    assert_allclose(found[keeps], expected[keeps], atol=2e-3)
    assert_array_equal(found.argmax(axis=1), first)
    assert np.all(np.abs(found[~keeps, 0] - 0.5) < 2e-3)  # just enough


def test_positive_maps_do_not_change(rng):
    X, y, queries = table(rng)
    model = NadarayaWatsonRegressor(OPRFSampler(sigma=3.0, random_state=0)).fit(X, y)
    for _, sums in model._engine.scores(queries):
        assert sums.error is None
    features = model.sampler_.transform(queries), model.sampler_.transform_key(X)
    front = NadarayaWatsonRegressor().fit(features[1], y)
    for _, sums in front._engine.scores(features[0]):
        assert sums.error is None
    weights = features[0] @ features[1].T
    assert_allclose(front.predict(features[0]), weights @ y / weights.sum(axis=1))
