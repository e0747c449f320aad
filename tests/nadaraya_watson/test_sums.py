"""Sums of features in log space, against direct computation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.nadaraya_watson._sums import FeatureSums


@pytest.mark.parametrize("signed", [False, True])
def test_feature_sums_beyond_the_range_of_floats(signed, rng):
    """Exponents of thousands, checked in shifted arithmetic."""
    exponent = rng.normal(scale=3, size=(40, 5)) + 1000 * np.arange(-2, 3)
    mantissa = rng.choice([-1.0, 1.0], size=(40, 5)) if signed else None
    targets = rng.normal(size=(40, 2))
    sums = FeatureSums()
    assert sums.empty
    for rows in np.array_split(np.arange(40), 3):
        part = None if mantissa is None else mantissa[rows]
        sums.add(part, exponent[rows], targets[rows])
    signs = 1.0 if mantissa is None else mantissa
    plain = (signs * np.exp(exponent - 1000 * np.arange(-2, 3))).T @ targets
    query = -1000.0 * np.arange(-2, 3) + rng.normal(size=(7, 5))
    expected = np.exp(query + 1000 * np.arange(-2, 3)) @ plain
    scores, log_scale = sums.average(None, query)
    assert_allclose(scores * np.exp(log_scale), expected, rtol=1e-9)


def test_feature_sums_merge_equals_add(rng):
    exponent, targets = rng.normal(scale=50, size=(30, 4)), rng.normal(size=(30, 2))
    together, left, right = FeatureSums(), FeatureSums(), FeatureSums()
    together.add(None, exponent, targets)
    left.add(None, exponent[:10], targets[:10])
    right.add(None, exponent[10:], targets[10:])
    left.merge(right)
    assert_allclose(left.sums, together.sums, rtol=1e-12)
    assert_allclose(left.shift, together.shift)


def test_feature_sums_of_columns_of_zeros():
    exponent = np.array([[0.0, -np.inf], [1.0, -np.inf]])
    sums = FeatureSums()
    sums.add(None, exponent[:1], np.ones((1, 1)))
    sums.add(None, exponent[1:], np.ones((1, 1)))
    scores, log_scale = sums.average(None, np.array([[0.0, 5.0], [-np.inf, -np.inf]]))
    assert_allclose(scores * np.exp(log_scale), [[1 + np.e], [0.0]])
