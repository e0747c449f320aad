"""Features of single columns: their values, and their derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_crt.metric._column_features import ColumnFeatures, Metric


@pytest.fixture
def table(rng):
    """Return a normal column, a constant one, one of two values and a skewed one."""
    X = rng.normal(size=(300, 4))
    X[:, 1], X[:, 2] = 7.0, rng.integers(0, 2, size=300)
    X[:, 3] = np.exp(2 * X[:, 3])
    return X, rng.uniform(0.5, 2, size=300)


@pytest.mark.parametrize("hats", [True, False])
def test_features_are_standardised(hats, table):
    X, weights = table
    features = ColumnFeatures.of(X, weights, hats=hats)
    S = features(X)
    assert S.shape == (300, 13 if hats else 3)  # five hats of two columns each
    assert features.has_hats == hats
    assert_allclose(np.average(S, axis=0, weights=weights), 0, atol=1e-9)
    assert_allclose(np.average(S**2, axis=0, weights=weights), 1)
    assert features(X.astype(np.float32)).dtype == np.float32


def test_scores_are_bounded_and_increasing(table):
    X, weights = table
    features = ColumnFeatures.of(X, weights, hats=False)
    far = np.repeat(X[:1], 3, axis=0)
    far[:, 3] = X[:, 3].max() * np.array([1, 10, 1e6])
    raw = features(far)[:, 2] * features.scales[2] + features.means[2]
    assert raw[0] < raw[1] < raw[2] < 4


def test_hats_are_linear_interpolation(table):
    """With all knots they are a basis of the functions linear between the knots."""
    X, weights = table
    features = ColumnFeatures.of(X, weights, hats=True)
    x, knots = X[:, 0], features.knots[0]
    assert knots[0] == x.min()
    assert knots[-1] == x.max()
    assert len(knots) == 6
    values = np.array([0.3, -1, 2, 0, 1, 5])
    S = np.column_stack([np.ones(300), features(X)[:, 3:8]])
    target = np.interp(x, knots, values)
    fitted = S @ np.linalg.lstsq(S, target, rcond=None)[0]
    assert_allclose(fitted, target, atol=1e-9)


def test_hats_continue_beyond_the_training_values(table):
    """Rows outside are farther from all rows, but distances stay bounded."""
    X, weights = table
    features = ColumnFeatures.of(X, weights, hats=True)
    knots = features.knots[0]
    for end, inner in ((knots[0], knots[1]), (knots[-1], knots[-2])):
        far = np.repeat(X[:1], 4, axis=0)
        far[:, 0] = end + (end - inner) * np.array([0, 1e-6, 2, 1e9])
        at_end, near, outside, farthest = features(far)[:, 3:8]
        moved = X[:1].copy()
        moved[:, 0] = inner
        # the line through the last two knots goes on, and is softly clipped at 4
        line = at_end - features(moved)[0, 3:8]
        assert_allclose(near, at_end + 1e-6 * line, atol=1e-9)
        assert_allclose(outside, at_end + 2 / np.sqrt(1 + 0.25) * line, atol=1e-9)
        assert_allclose(farthest, at_end + 4 * line, atol=1e-6)


@pytest.mark.parametrize("hats", [True, False])
def test_slopes_are_derivatives(hats, table):
    X, weights = table
    features = ColumnFeatures.of(X, weights, hats=hats)
    slopes, columns = features.slopes(X)
    step = 1e-7
    for j in range(4):
        moved = X.copy()
        moved[:, j] += step
        gaps = np.abs((features(moved) - features(X)) / step - slopes * (columns == j))
        # the derivative jumps at a knot, at which only knots themselves are
        assert np.count_nonzero(gaps > 1e-4 * (1 + np.abs(slopes))) <= 6


def test_sparse_rows_are_mapped_alike(table, rng):
    X, weights = table
    features = ColumnFeatures.of(X, weights, hats=True)
    components, none = rng.normal(size=(2, 13)), np.zeros(0)
    metric = Metric("agop", {}, features, components, none, none, none)
    expected = features(X) @ components.T
    for rows in (X, sparse.csr_array(X)):
        assert_allclose(metric.mapped(rows), expected, atol=1e-9)
