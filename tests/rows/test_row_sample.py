"""Random samples of rows by position, in batches or by weight, and distinct rows."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.stats import binomtest

from sklearn_crt.rows.row_sample import RowSample, distinct_rows


def assert_same(found, expected):
    dense = [
        sample.X.toarray() if sparse.issparse(sample.X) else sample.X
        for sample in (found, expected)
    ]
    assert_array_equal(*dense)
    assert_array_equal(found.y, expected.y)
    assert_array_equal(found.weights, expected.weights)
    assert_array_equal(found.priorities, expected.priorities)
    assert found.threshold == expected.threshold
    assert found.n_seen == expected.n_seen


@pytest.fixture
def batch(rng):
    """Rows, numbered targets and weights; a quarter of the weights is 0."""
    weights = rng.exponential(size=1000) * (rng.random(1000) < 0.75)
    return rng.normal(size=(1000, 2)), np.arange(1000), weights


@pytest.mark.parametrize("by_weight", [False, True])
@pytest.mark.parametrize("size", [1, 50, 2000])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_batches_and_merged_parts_have_the_sample_of_all_rows(
    by_weight, size, convert, batch
):
    X, y, weights = batch
    options = {"seed": 3, "size": size, "by_weight": by_weight}
    whole = RowSample.of(convert(X), y, weights, **options)
    assert whole.X.shape[0] == min(size, np.count_nonzero(weights))
    cuts = [0, 1, 1, 40, 300, 310, 1000]
    batches = [(convert(X[i:j]), y[i:j], weights[i:j]) for i, j in pairwise(cuts)]
    assert_same(RowSample.of_batches(batches[:1] + batches[2:], **options), whole)
    starts = [np.count_nonzero(weights[:i]) for i in cuts]
    parts = [
        RowSample.of(*batch, n_before=start, **options)
        for batch, start in zip(batches, starts, strict=False)
    ]
    assert_same(parts[0] + ((parts[2] + parts[3]) + (parts[4] + parts[5])), whole)


@pytest.mark.parametrize("by_weight", [False, True])
def test_parts_that_keep_all_rows_merge_to_the_sample_of_all_rows(by_weight, batch):
    """Each of them starts at position 0, and they may have other seeds."""
    X, y, weights = batch
    options = {"size": 400, "by_weight": by_weight}
    whole = RowSample.of(X, y, weights, seed=(1, 2), **options)
    parts = [
        RowSample.of(X[k : k + 250], y[k : k + 250], weights[k : k + 250], **one)
        for k, one in zip(
            range(0, 1000, 250),
            [{"seed": (1, 2), **options}] + 3 * [{"seed": 9, **options}],
            strict=True,
        )
    ]
    assert_same(((parts[0] + parts[1]) + parts[2]) + parts[3], whole)
    assert_same(parts[0] + (parts[1] + parts[2]), (parts[0] + parts[1]) + parts[2])


def test_rows_without_weight_have_no_position(batch):
    X, y, weights = batch
    counted = weights > 0
    options = {"seed": 0, "size": 60, "n_before": 7}
    for by_weight in (False, True):
        options["by_weight"] = by_weight
        found = RowSample.of(X, y, weights, **options)
        rows = X[counted], y[counted], weights[counted]
        assert_same(found, RowSample.of(*rows, **options))
    assert RowSample.of(X, y, 0 * weights, **options).X.shape == (0, 2)


def test_rows_are_drawn_by_position_and_not_by_content(rng):
    """Copies of a row are as likely to be drawn as other rows, each with its weight."""
    X = np.repeat([[0.0], [1.0]], [300, 700], axis=0)
    found = [RowSample.of(X, seed=seed, size=100) for seed in range(20)]
    assert all(sample.weights.sum() == 100 for sample in found)
    n_zeros = sum(np.count_nonzero(sample.X == 0) for sample in found)
    assert binomtest(n_zeros, 2000, 0.3).pvalue > 1e-4
    # another seed draws other rows
    numbers = [
        RowSample.of(X, np.arange(1000), seed=seed, size=100).y for seed in (0, 1)
    ]
    assert np.intersect1d(*numbers).size < 40  # 10 on average, with deviation 3


@pytest.mark.parametrize("size", [1, 20, 200])
def test_totals_of_samples_by_weight_are_unbiased(size, rng):
    """A row of large weight is nearly always drawn, and then nearly keeps its weight.

    The variance of a Horvitz-Thompson total over a part of the rows is at most
    sum w^2 / (size - 1), from which the bounds are derived. For size 1 it is infinite.
    """
    n_draws, n_rows = 2000, 100
    weights = rng.exponential(size=n_rows) ** 2
    weights[0] = 300.0
    part = np.arange(n_rows) % 3 == 1
    X, y = np.zeros((n_rows, 1)), np.arange(n_rows)
    samples = [
        RowSample.of(X, y, weights, seed=seed, size=size, by_weight=True)
        for seed in range(n_draws)
    ]
    if size >= n_rows:
        assert all(np.array_equal(sample.weights, weights) for sample in samples)
        return
    often = np.mean([0 in sample.y for sample in samples])
    if size == 1:  # the heaviest row is drawn in proportion to its share
        share = weights[0] / weights.sum()
        assert binomtest(round(often * n_draws), n_draws, share).pvalue > 1e-4
        return
    assert often > 0.95
    for counted in (part, ~part, np.ones(n_rows, dtype=bool)):
        totals = np.array(
            [sample.weights[counted[sample.y]].sum() for sample in samples]
        )
        spread = np.std(totals) / np.sqrt(n_draws)
        assert_allclose(totals.mean(), weights[counted].sum(), atol=4.5 * spread + 1e-9)


def test_weights_of_uniform_samples_are_those_of_the_rows(batch):
    X, y, weights = batch
    found = RowSample.of(X, y, weights, seed=0, size=100)
    assert_array_equal(found.weights, weights[found.y])
    assert_array_equal(found.X, X[found.y])
    assert np.all(np.diff(found.y) > 0)  # in the order of the data


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("targets", [None, (), (2,)], ids=str)
def test_groups_of_equal_rows(kind, dtype, targets, rng):
    X = rng.integers(-1, 2, (200, 3)).astype(dtype)
    X[X == 0] *= rng.choice([-1, 1], np.count_nonzero(X == 0))  # -0.0 equals 0
    y = None if targets is None else rng.integers(0, 2, (200, *targets))
    first, places = distinct_rows(kind(X), y)
    table = X if y is None else np.column_stack([X, y])
    assert_array_equal(table[first][places], table)
    assert len(np.unique(table, axis=0)) == len(first)
    assert np.all(np.diff(first) > 0)
    assert np.all(first[places] <= np.arange(200))
