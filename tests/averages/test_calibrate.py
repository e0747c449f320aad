"""Class probabilities without calibration: the class shares of the kernel sums."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.utils.class_weight import compute_sample_weight

from sklearn_crt import (
    LocalLinearClassifier,
    NadarayaWatsonClassifier,
    OPRFSampler,
    TrigRBFSampler,
)


@pytest.fixture
def table(rng):
    X = rng.normal(size=(300, 2))
    return X, np.digitize(X[:, 0] + 0.5 * rng.normal(size=300), [-0.5, 0.5])


@pytest.mark.parametrize("kernel", ["gaussian", OPRFSampler(random_state=0)])
def test_shares_of_the_kernel_sums(kernel, table, rng):
    X, y = table
    weights = rng.uniform(0.5, 2, size=300)
    model = NadarayaWatsonClassifier(kernel, sigma=1.5, calibrate=False)
    model.fit(X, y, weights)
    if kernel == "gaussian":
        sums = model.kernel_weights(X).toarray() @ np.eye(3)[y]
    else:
        sums = model.kernel_.approximate_kernel(X) @ (weights[:, None] * np.eye(3)[y])
    expected = sums / sums.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X), expected, rtol=1e-6, atol=1e-12)


def test_a_sum_that_is_not_positive_has_the_prior(rng):
    X, y = rng.normal(size=(200, 3)), rng.integers(0, 2, size=200)
    sampler = TrigRBFSampler(n_components=20, sigma=2.0, random_state=0)
    model = NadarayaWatsonClassifier(sampler, calibrate=False).fit(X, y)
    queries = 5 * rng.normal(size=(300, 3))
    sums = model.kernel_.approximate_kernel(queries, X) @ np.eye(2)[y]
    total = sums.sum(axis=1, keepdims=True)
    n_lost = int(np.sum(total <= 0))
    assert 0 < n_lost < 300
    with pytest.warns(
        RuntimeWarning, match=f"For {n_lost} rows, the sum of the kernel"
    ):
        found = model.predict_proba(queries)
    expected = np.where(total > 0, sums / total, model.class_prior_)
    assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    decisions = expected[:, 1] - expected[:, 0]
    with pytest.warns(RuntimeWarning, match="For"):
        assert_allclose(model.decision_function(queries), decisions, rtol=1e-6)


def test_values_of_linear_fits(table):
    X, y = table
    model = LocalLinearClassifier(sigma=1.0, alpha=0.1, calibrate=False).fit(X, y)
    expected = model.kernel_weights(X).toarray() @ np.eye(3)[y]
    assert_allclose(model.predict_proba(X), expected, atol=1e-9)


def test_class_weight_of_local_linear_fits(table):
    X, y = table
    for class_weight in ("balanced", {0: 2.0, 2: 0.5}):
        own = compute_sample_weight(class_weight, y)
        model = LocalLinearClassifier(class_weight=class_weight).fit(X, y)
        expected = LocalLinearClassifier().fit(X, y, own)
        assert_allclose(model.predict_proba(X), expected.predict_proba(X))
        assert_allclose(model.class_prior_, expected.class_prior_)


@pytest.mark.parametrize("model", [NadarayaWatsonClassifier, LocalLinearClassifier])
def test_weights_count_as_repeated_rows(model, table, rng):
    """With fixed parameters and without calibration, nothing is chosen."""
    X, y = table
    counts = rng.integers(0, 4, size=300)
    fixed = {"sigma": 1.0, "calibrate": False}
    if model is LocalLinearClassifier:
        fixed["alpha"] = 0.1
    weighted = model(**fixed).fit(X, y, counts)
    copies = np.repeat(np.arange(300), counts)
    with pytest.warns(UserWarning, match="rows are copies of other rows"):
        repeated = model(**fixed).fit(X[copies], y[copies])
    expected = repeated.predict_proba(X)
    assert_allclose(weighted.predict_proba(X), expected, rtol=1e-6, atol=1e-9)
