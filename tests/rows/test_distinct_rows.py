"""The distinct rows of dense and sparse tables, in the order of the data."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from sklearn_crt.rows.distinct_rows import distinct_rows


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
