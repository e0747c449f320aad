"""Which averages can be told from noise."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.kernel_approximation import Nystroem, RBFSampler

from sklearn_crt import (
    NadarayaWatsonClassifier,
    NadarayaWatsonRegressor,
    OPRFSampler,
    TrigRBFSampler,
)
from sklearn_crt.samplers import GERFSampler, MaternSampler, PoissonSampler


def denominators(sampler, queries, X):
    """Return the sums of weights of queries, and their errors by the jackknife.

    The frequencies are dealt to 16 groups in turn.
    """
    sums = sampler.transform_key(X).sum(axis=0)
    terms = sampler.transform(queries) * sums
    index = sampler.map_.frequency_index()
    total, groups = terms.sum(axis=1), index % 16
    sizes = np.bincount(np.unique(index) % 16)
    n_groups = np.count_nonzero(sizes)
    if n_groups < 2:  # one frequency says nothing of its error
        return total, np.full(total.size, np.inf)
    parts = np.stack([terms[:, groups == g].sum(axis=1) for g in range(sizes.size)])
    gaps = parts - total * (sizes / sizes.sum())[:, None]
    return total, np.sqrt(n_groups / (n_groups - 1) * np.sum(gaps**2, axis=0))


def trust(total, error):
    """Return the weight of an average: 1 from two errors on, 0 at zero."""
    return np.clip(total / (2 * error), 0, 1) ** 2


@pytest.mark.parametrize(
    "sampler",
    [
        TrigRBFSampler(n_components=40),
        TrigRBFSampler(n_components=41),  # a last cosine alone
        TrigRBFSampler(n_components=600, coupling="iid"),
        TrigRBFSampler(n_components=2),  # one frequency
        MaternSampler(n_components=30, random_phase=True),
        PoissonSampler(n_components=50),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel:RuntimeWarning")
def test_unreliable_averages_lean_on_the_mean(sampler, rng):
    X, y, queries = table(rng)
    sampler = clone(sampler).set_params(sigma=1.0, random_state=0)
    model = NadarayaWatsonRegressor(sampler).fit(X, y)
    fitted = model.kernel_
    total, error = denominators(fitted, queries, X)
    products = fitted.transform(queries) @ fitted.transform_key(X).T
    with np.errstate(divide="ignore"):
        average = np.clip(products @ y / total, y.min(), y.max())
    share = trust(total, error)
    expected = share * average + (1 - share) * y.mean()
    assert_allclose(model.predict(queries), expected, rtol=1e-6)
    few = sampler.n_components == 2
    assert few or np.any((share > 0) & (share < 1))


@pytest.mark.parametrize("sampler", [TrigRBFSampler, MaternSampler])
def test_errors_of_denominators(sampler, rng):
    """Errors over standard errors have mean square 1, up to what t(15) allows."""
    X, queries = rng.normal(size=(200, 3)), rng.normal(size=(20, 3))
    ratios = []
    for seed in range(100):
        inside = sampler(sigma=2.0, coupling="iid", n_components=64, random_state=seed)
        model = NadarayaWatsonRegressor(inside).fit(X, X[:, 0])
        truth = model.kernel_.exact_kernel(queries, X).sum(axis=1)
        total, error = denominators(model.kernel_, queries, X)
        ratios.append(np.mean(((total - truth) / error) ** 2))
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
@pytest.mark.filterwarnings("ignore:For .* rows, the sum of the kernel:RuntimeWarning")
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
    with pytest.warns(
        UserWarning, match="kernel='linear' requires features of a kernel"
    ):
        model = NadarayaWatsonRegressor("linear").fit(X, y)
    with pytest.warns(
        RuntimeWarning, match="For 200 rows, the sum of the kernel"
    ) as record:
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
    total, error = denominators(model.kernel_, queries, X)
    n_unreliable = int(np.sum(total < 2 * error))
    assert np.sum(total <= 0) < n_unreliable < 200
    message = f"For {n_unreliable} rows, the sum of the kernel weights.*positive"
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
    products = model.kernel_.approximate_kernel(queries, X)
    scores = products @ np.eye(2)[(y > 1).astype(int)]
    total, error = denominators(model.kernel_, queries, X)
    positive = np.maximum(scores, 0)
    shares = positive / np.maximum(positive.sum(axis=1, keepdims=True), 1e-300)
    weight = trust(total, error)[:, None]
    expected = weight * shares + (1 - weight) * model.class_prior_
    first = np.where(positive.any(axis=1), scores.argmax(axis=1), 1)
    expected[~positive.any(axis=1)] = model.class_prior_
    keeps = expected.argmax(axis=1) == first
    assert 0 < np.sum(keeps & (weight[:, 0] < 1)) < np.sum(weight < 1)
    with pytest.warns(RuntimeWarning, match="the class prior partly or entirely"):
        found = model.predict_proba(queries)
    assert_allclose(found[keeps], expected[keeps], atol=2e-3)
    assert_array_equal(found.argmax(axis=1), first)
    assert np.all(np.abs(found[~keeps, 0] - 0.5) < 2e-3)  # just enough


def test_positive_maps_are_always_reliable(rng):
    """Nothing cancels there, whatever the error of the columns."""
    X, y, queries = table(rng)
    for n_components in (2, 40):
        sampler = OPRFSampler(sigma=3.0, n_components=n_components, random_state=0)
        model = NadarayaWatsonRegressor(sampler).fit(X, y)
        sampler = model.kernel_
        features = sampler.transform(queries), sampler.transform_key(X)
        weights = features[0] @ features[1].T
        expected = weights @ y / weights.sum(axis=1)
        assert_allclose(model.predict(queries), expected)
        front = NadarayaWatsonRegressor("linear").fit(features[1], y)
        assert_allclose(front.predict(features[0]), expected)
