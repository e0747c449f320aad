"""The expected calibration error of class probabilities."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.inspection import expected_calibration_error


def by_loop(y, probabilities, n_bins):
    """Return the definition, bin by bin."""
    confidence = probabilities.max(axis=1)
    hits = probabilities.argmax(axis=1) == y
    edges = np.arange(n_bins + 1) / n_bins
    total = 0.0
    for low, high in pairwise(edges):
        inside = (confidence >= low) & ((confidence < high) | (high == 1))
        if inside.any():
            total += inside.mean() * abs(
                hits[inside].mean() - confidence[inside].mean()
            )
    return total


@pytest.mark.parametrize("n_bins", [1, 7, 15])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_definition(rng, n_bins, dtype):
    probabilities = rng.dirichlet(np.ones(4), size=500).astype(dtype)
    y = rng.integers(4, size=500)
    found = expected_calibration_error(y, probabilities, n_bins=n_bins)
    assert isinstance(found, float)
    wide = probabilities.astype(np.float64)
    assert_allclose(found, by_loop(y, wide, n_bins), atol=1e-12)


def test_calibrated_labels_have_a_small_error(rng):
    """The error of 15 means of n / 15 hits each decreases like 1 / sqrt(n)."""
    for n, limit in ((2_000, 0.05), (200_000, 0.005)):
        probabilities = rng.dirichlet(np.ones(5), size=n)
        drawn = probabilities.cumsum(axis=1) < rng.random((n, 1))
        y = drawn.sum(axis=1)
        assert expected_calibration_error(y, probabilities) < limit
        # confidences that are too large by the same factor for all rows
        sharp = probabilities**2 / (probabilities**2).sum(axis=1, keepdims=True)
        gap = (sharp.max(axis=1) - probabilities.max(axis=1)).mean()
        found = expected_calibration_error(y, sharp)
        assert abs(found - gap) < limit


def test_limits_and_labels():
    assert expected_calibration_error([0, 1, 2], np.eye(3)) == 0
    assert expected_calibration_error([1, 2, 0], np.eye(3)) == 1
    right = expected_calibration_error(["b", "a"], [[0, 1], [1, 0]])
    assert right == 0
    labels = np.array(["a", "b", "c"])
    one_class = expected_calibration_error(["c"], [[0, 0.2, 0.8]], labels=labels)
    assert_allclose(one_class, 0.2)


@pytest.mark.parametrize(
    ("y", "probabilities", "options", "message"),
    [
        ([0, 1], [[0.5, 0.5, 0], [1, 0, 0]], {}, "3 columns, but there are 2 labels"),
        ([0, 5], [[0.5, 0.5], [1, 0]], {"labels": [0, 1]}, "contains 5, which is not"),
        ([0, 1], [[0.5, 0.6], [1, 0]], {}, "must be non-negative and add up to 1"),
        ([0, 1], [[1.5, -0.5], [1, 0]], {}, "must be non-negative and add up to 1"),
        ([0, 1], [[0.5, 0.5], [1, 0]], {"n_bins": 0}, "n_bins == 0, must be >= 1"),
        ([0], [[0.5, 0.5], [1, 0]], {}, "inconsistent numbers of samples"),
    ],
)
def test_errors(y, probabilities, options, message):
    with pytest.raises(ValueError, match=message):
        expected_calibration_error(y, probabilities, **options)
