"""Class probabilities: smoothed frequencies, chosen by the leave-one-out log loss."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial import distance
from sklearn.base import clone
from sklearn.metrics import log_loss

from sklearn_crt import (
    LocalLinearClassifier,
    NadarayaWatsonClassifier,
    OPRFSampler,
    Prototypes,
)

KINDS = [
    NadarayaWatsonClassifier(sigma=2.0),
    LocalLinearClassifier(sigma=1.0, alpha=0.1),
]


def frequencies(model, X, y):
    """Return the shares of the classes, from the weights of the training rows."""
    shares = np.maximum(model.kernel_weights(X) @ np.eye(y.max() + 1)[y], 0)
    return shares / shares.sum(axis=1, keepdims=True)


def smoothed(shares, sizes, amount, exponent):
    n, added = sizes[:, None], amount / shares.shape[1]
    counts = np.where(n * shares > 1e-5 * added, n * shares, 0)
    found = (counts + added) / (n + amount)
    found = found**exponent
    return found / found.sum(axis=1, keepdims=True)


@pytest.fixture(params=[2, 3])
def table(request, rng):
    """Return rows of classes that overlap."""
    X = rng.normal(size=(400, 3))
    edges = [0.0, 1.0][: request.param - 1]
    return X, np.digitize(X[:, 0] + 0.7 * rng.normal(size=400), edges)


@pytest.mark.each_value
@pytest.mark.parametrize("model", KINDS, ids=str)
def test_the_smoothing_with_the_lowest_log_loss(model, table):
    """Each of the training rows is predicted by a model without it.

    The loss includes additional rows, whose features are those of all training rows
    with equal probabilities, and whose labels are random, and the divergence of the
    total probabilities from the class shares.
    """
    X, y = table
    n = 200  # with fewer rows, local linear fits are recalibrated
    X, y, Q = X[:n], y[:n], X[n:]
    shares, sizes = [], []
    for i in range(n):
        rest = np.arange(n) != i
        one = clone(model).fit(X[rest], y[rest])
        shares.append(frequencies(one, X[i : i + 1], y[rest]))
        sizes.append(one.effective_sample_size(X[i : i + 1]))
    shares, sizes = np.concatenate(shares), np.concatenate(sizes)
    losses = {}
    for a in np.geomspace(0.05, 10, 9):
        for t in 2.0 ** np.arange(-0.75, 2.25, 0.25):
            found = smoothed(shares, sizes, a, t)
            added = -2 / n * np.log(found).mean()  # of two random rows
            expected = np.bincount(y) / n
            gap = np.sum(expected * np.log(expected / found.mean(axis=0)))
            losses[a, t] = log_loss(y, found) + added + n / 70 * gap
    model = clone(model).fit(X, y)
    sizes = model.effective_sample_size(Q)
    expected = smoothed(frequencies(model, Q, y), sizes, *min(losses, key=losses.get))
    assert_allclose(model.predict_proba(Q), expected, rtol=1e-8)


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_better_than_frequencies_and_with_the_same_labels(model, rng):
    X = rng.normal(size=(6000, 3))
    y = (X[:, 0] + 0.7 * rng.normal(size=6000) > 0).astype(int)
    model = clone(model).set_params(sigma=5.0).fit(X[:300], y[:300])
    raw = frequencies(model, X[300:], y[:300])
    X, own = X[300:], (np.arange(5700), y[300:])
    found = model.predict_proba(X)
    assert 0 < found.min() < found.max() < 1
    assert_allclose(found.sum(axis=1), 1)
    assert_array_equal(found.argmax(axis=1), model.predict(X))
    gain = np.log(found[own]) - np.log(np.maximum(raw[own], 1e-4))
    assert gain.mean() > 5 * gain.std() / np.sqrt(len(gain))


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_smoothing_depends_neither_on_batches_nor_on_the_unit_of_weights(
    model, table, rng
):
    X, y = np.round(table[0], 1), table[1]
    counts = rng.integers(1, 4, 400)
    expected = clone(model).fit(X, y, counts).predict_proba(X[:50])
    for weights in (1e-30 * counts, 1e30 * counts):
        found = clone(model).fit(X, y, weights).predict_proba(X[:50])
        assert_allclose(found, expected, rtol=1e-8)
    classes = np.unique(y)
    parts = clone(model).partial_fit(X[:99], y[:99], classes, counts[:99])
    other = clone(model).partial_fit(X[99:200], y[99:200], classes, counts[99:200])
    parts.predict_proba(X[:5])
    parts.merge(other).partial_fit(X[200:], y[200:], sample_weight=counts[200:])
    assert_allclose(parts.predict_proba(X[:50]), expected, rtol=1e-8)
    again = pickle.loads(pickle.dumps(parts.freeze()))
    assert_allclose(again.predict_proba(X[:50]), expected, rtol=1e-8)
    sparse_rows = clone(model).fit(sparse.csr_array(X), y, counts)
    found = sparse_rows.predict_proba(sparse.csr_array(X[:50]))
    assert_allclose(found, expected, rtol=1e-6)


def test_repeated_rows_predict_each_other(rng):
    """In a table of few distinct rows, probabilities are the shares of their cells."""
    X = rng.integers(0, 2, size=(4000, 3)).astype(float)
    chances = rng.uniform(0.1, 0.9, size=8)[(X @ [1, 2, 4]).astype(int)]
    y = (rng.uniform(size=4000) < chances).astype(int)
    for model in KINDS:
        fitted = clone(model).set_params(sigma="auto").fit(X, y)
        assert_allclose(fitted.predict_proba(X)[:, 1], chances, atol=0.12)


@pytest.mark.parametrize("sigma", [0.1, 0.15, 2.0])
@pytest.mark.parametrize("model", KINDS, ids=str)
def test_classes_that_do_not_overlap(model, sigma, rng):
    """The width of the kernel hardly affects the probability of the right class.

    No row is misclassified when it is left out, so with two random labels, one row of
    102 is expected to be wrong.
    """
    y = np.arange(100) % 2
    X = rng.normal(size=(100, 2)) + 12 * y[:, None]
    model = clone(model).set_params(sigma=sigma).fit(X, y)
    found = model.predict_proba(X)[np.arange(100), y]
    assert 0.985 < np.median(found) < 0.9965
    assert found.max() < 0.9975


@pytest.mark.parametrize("model", KINDS, ids=str)
def test_rows_without_other_rows_do_not_affect_the_smoothing(model, table, rng):
    """If such a row is left out, its prediction is the prior, which may have zeros.

    Its log loss could be infinite, and would then hide the losses of all other rows.
    """
    X, y = table
    classes = np.append(np.unique(y), 9)  # there are no rows of class 9 yet
    one = clone(model).partial_fit(X[:1], y[:1], classes).predict_proba(X[:1])
    assert 0 < one.min() < one.max() < 1

    def compact(X, Y):
        return np.maximum(1 - distance.cdist(X, Y, "sqeuclidean"), 0)

    model = clone(model).set_params(kernel=compact, sigma=0.5)
    expected = clone(model).partial_fit(X, y, classes).predict_proba(X)
    X_far, y_far = np.append(X, [[99, 0, 0]], axis=0), np.append(y, 0)
    found = model.partial_fit(X_far, y_far, classes).predict_proba(X)
    assert_allclose(found, expected, rtol=1e-8)


def test_queries_without_weight_have_the_prior(table):
    """Compactly supported kernels vanish at distant queries."""

    def hat(X, Y):
        gaps = np.abs(X[:, None] - Y).max(axis=2)
        return np.maximum(1 - gaps, 0)

    X, y = table
    model = NadarayaWatsonClassifier(hat, sigma=0.5).fit(X, y)
    with pytest.warns(RuntimeWarning, match="For 1 rows, the sum of the kernel"):
        found = model.predict_proba(np.full((1, 3), 99.0))
    assert_allclose(found[0], model.class_prior_, rtol=1e-12)


def test_other_frequencies(table, frequencies_of):
    """Prototypes are smoothed by one row; features have no effective number of rows."""
    X, y = table
    model = NadarayaWatsonClassifier(Prototypes(40, random_state=0)).fit(X, y)
    shares, sizes = frequencies_of(model, X), model.effective_sample_size(X)
    assert_allclose(model.predict_proba(X), smoothed(shares, sizes, 1, 1))
    model = NadarayaWatsonClassifier(OPRFSampler(sigma=1.0, random_state=0)).fit(X, y)
    sums = model.kernel_.approximate_kernel(X, X) @ np.eye(y.max() + 1)[y]
    shares = sums / sums.sum(axis=1, keepdims=True)
    assert_allclose(model.predict_proba(X), shares)


def test_one_class():
    model = NadarayaWatsonClassifier().fit(np.zeros((3, 1)), ["a", "a", "a"])
    assert_array_equal(model.predict_proba(np.zeros((2, 1))), 1)
