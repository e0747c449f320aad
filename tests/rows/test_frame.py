import numpy as np
import pytest
from numpy.testing import assert_array_equal

from sklearn_crt.rows import Frame, Scratch


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 3), (70, 3), (3001, 3), (2999, 1), (2050, 17)])
def test_rows_of_any_shape(shape, dtype, order, rng):
    """Narrow rows are taken several at a time, and the last few by themselves."""
    n_features = shape[1]
    X = np.asarray(rng.normal(size=shape), dtype, order)
    center, sigma = rng.normal(size=(2, n_features)).astype(dtype)
    number = dtype(0.3)
    before = X.copy()
    for scratch in (None, Scratch()):
        assert_array_equal(Frame(sigma).rows(X, scratch).matrix, X * sigma)
        assert_array_equal(Frame(number).rows(X, scratch).matrix, X * number)
        assert_array_equal(
            Frame(number, center).rows(X, scratch).matrix, (X - center) * number
        )
        assert_array_equal(
            Frame(sigma, center).rows(X, scratch).matrix, (X - center) * sigma
        )
    assert_array_equal(X, before)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("sign", [-1, 1])
def test_no_norm_is_above_its_bound(sign, known, rng):
    X = sign * np.abs(rng.standard_cauchy(size=(50, 4)))
    rows = Frame(0.5, np.ones(4)).rows(X)
    largest = np.sqrt(np.sum(rows.matrix**2, axis=1)).max()
    if known:
        assert rows.sq_norms.shape == (50, 1)
    assert largest * (1 - 1e-12) <= rows.norm_bound <= 2.000001 * largest
