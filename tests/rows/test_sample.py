"""Samples of rows that depend on the content of the rows alone."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import kstest

from sklearn_crt.rows.sample import DistinctSample


def keys_of(X, y=None):
    """Return the hashes of the distinct rows in ascending order."""
    y = np.zeros(X.shape[0]) if y is None else y
    return DistinctSample.of([(X, y, np.ones(X.shape[0]))], X.shape[0]).keys


@pytest.fixture(params=["normal", "integers", "one column", "identity"])
def X(request, rng):
    return {
        "normal": rng.normal(size=(5000, 7)),
        "integers": np.unique(rng.integers(-2, 3, (5000, 6)).astype(float), axis=0),
        "one column": np.arange(5000.0)[:, None],
        "identity": np.eye(500),
    }[request.param]


def test_hashes_of_distinct_rows_are_distinct_and_uniform(X):
    keys = keys_of(X)
    assert len(keys) == len(X)
    assert kstest(keys / 2.0**64, "uniform").pvalue > 1e-3
    of_targets = keys_of(X[:1].repeat(len(X), axis=0), np.arange(len(X)))
    assert len(of_targets) == len(X)
    assert kstest(of_targets / 2.0**64, "uniform").pvalue > 1e-3


@pytest.mark.parametrize("size", [100, 10_000])
def test_sample_depends_on_the_content_alone(X, size, rng):
    y, weights = rng.integers(0, 3, len(X)), rng.integers(1, 4, len(X))
    expected = DistinctSample.of([(X, y, weights)], size)
    assert len(expected.keys) == min(size, len(X))
    order = rng.permutation(len(X))
    copies = rng.permutation(np.repeat(order, weights[order]))
    one, halves = np.ones(len(copies)), (slice(300), slice(300, None))
    for batches in (
        [(X[order], y[order], weights[order])],
        [(X[copies], y[copies], one)],
        [(X[copies][half], y[copies][half], one[half]) for half in halves],
        [(sparse.csr_array(X[order]), y[order], weights[order])],
        [(np.asfortranarray(X), y, weights)],
        [(np.where(X == 0, -0.0, X), y, weights)],
    ):
        found = DistinctSample.of(batches, size)
        rows = found.X.toarray() if sparse.issparse(found.X) else found.X
        assert_array_equal(found.keys, expected.keys)
        assert_array_equal(rows, expected.X)
        assert_array_equal(found.y, expected.y)
        assert_array_equal(found.weights, expected.weights)


def test_weights_are_those_of_all_copies(rng):
    X, counts = rng.normal(size=(300, 2)), rng.integers(1, 5, 300)
    copies = rng.permutation(np.repeat(np.arange(300), counts))
    y = np.arange(300)  # numbers the rows
    found = DistinctSample.of([(X[copies], y[copies], np.ones(len(copies)))], 100)
    assert_array_equal(found.X, X[found.y])
    assert_allclose(found.weights, counts[found.y])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rounding_errors_hardly_change_the_sample(form, rng):
    """They are relative to the largest numbers of a row, and other numbers are smaller.

    The errors are about 2^-37 of the smallest numbers, whose step of rounding is 2^-26.
    """
    X, y = rng.normal(size=(5000, 7)), np.arange(5000)  # numbers the rows
    X *= 10.0 ** np.array([0, 0, -1, -2, -3, -4, -4])
    blurred = X + 2.0**-50 * rng.normal(size=X.shape)
    one, other = (
        DistinctSample.of([(form(rows), y, np.ones(5000))], 2500).y
        for rows in (X, blurred)
    )
    assert np.intersect1d(one, other).size >= 2475


def test_sample_has_rows_of_all_categories(rng):
    """Codes of categories are large numbers, compared with the other columns."""
    X = np.column_stack([rng.normal(size=3000), rng.choice([1e15, 2e15, 3e15], 3000)])
    few = DistinctSample.of([(X, np.zeros(3000), np.ones(3000))], 300)
    counts = np.unique(few.X[:, 1], return_counts=True)[1]
    assert len(counts) == 3
    assert counts.min() > 50  # 100 on average, with a standard deviation of 8


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_that_differ_in_their_last_digits_are_distinct(form):
    X = 1e12 + np.arange(500.0)[:, None]  # seconds, for instance
    assert len(keys_of(form(X))) == 500


def test_float32_rows_have_the_hashes_of_equal_float64_rows(X):
    small = X.astype(np.float32)
    assert_array_equal(keys_of(small), keys_of(small.astype(float)))


def test_entries_that_change_places_change_the_hash():
    X = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 1.0, 2.0], [3.0, 0.0, 0.0]])
    assert len(keys_of(X)) == 4
    assert len(keys_of(X[[0, 0]], np.array([[1.0, 2.0], [2.0, 1.0]]))) == 2
