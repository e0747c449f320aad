"""The logistic regression that turns predicted class indicators into probabilities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.life_cycle.intervals import LeftOut
from sklearn_crt.ridge import _calibration


def rows_of(rng, n_classes, n_rows, signal, noise):
    """Return predictions of indicators, and the class frequencies."""
    codes = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n_rows - n_classes)]
    targets = (codes[:, None] == np.arange(n_classes)).astype(float)
    found = signal * targets + noise * rng.normal(size=targets.shape) + 1 / n_classes
    weights = rng.choice([0.5, 1.0, 3.0], n_rows)
    frequencies = np.bincount(codes, weights, n_classes) / weights.sum()
    if n_classes == 2:
        targets, found = (each[:, 1:] * 2 - 1 for each in (targets, found))
    found[rng.random(n_rows) < 0.05] = np.nan
    rows = LeftOut(
        predictions=found,
        targets=targets,
        variances=found,
        weights=weights,
        fitted=found,
    )
    return rows, frequencies


@pytest.mark.parametrize("refine", [False, True])
@pytest.mark.parametrize(
    ("signal", "noise"), [(0.0, 0.3), (0.5, 0.3), (1.0, 0.02), (-0.3, 0.3)]
)
@pytest.mark.parametrize(
    ("n_classes", "n_rows"), [(2, 5), (2, 200), (3, 200), (8, 200)]
)
def test_newton_steps_find_the_minimum_of_the_search(
    n_classes, n_rows, signal, noise, refine, rng, monkeypatch
):
    """Also where the slope is at its bound of 0, as without a signal."""
    rows, frequencies = rows_of(rng, n_classes, n_rows, signal, noise)
    found, loss = _calibration._minimum(rows, frequencies, None, refine=refine)
    assert found[0] >= 0
    monkeypatch.setattr(_calibration, "_MOST_PARAMETERS", 0)
    expected, least = _calibration._minimum(rows, frequencies, None, refine=refine)
    assert_allclose(loss, least, atol=1e-6 if not refine else 1e-14)
    assert loss <= least + 1e-12
    if refine:
        assert_allclose(found, expected, atol=1e-7)


def test_second_derivatives_are_those_of_the_gradient(rng):
    rows, frequencies = rows_of(rng, 3, 50, 0.5, 0.3)
    loss = _calibration._PenalisedLoss(rows, frequencies, with_matrix=True)
    parameters = rng.normal(size=len(loss.penalties))
    value, gradient, second = loss.derivatives(parameters)
    assert_allclose(loss.with_gradient(parameters)[0], value)
    steps = 1e-6 * np.eye(len(parameters))
    numeric = [
        loss.with_gradient(parameters + step)[1]
        - loss.with_gradient(parameters - step)[1]
        for step in steps
    ]
    assert_allclose(np.array(numeric) / 2e-6, second, atol=1e-8)
    values = [
        loss.value(parameters + step) - loss.value(parameters - step) for step in steps
    ]
    assert_allclose(np.array(values) / 2e-6, gradient, atol=1e-8)
