"""Radial profiles, against reference numbers and at their ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.maps._profiles import log_matern


def test_profiles_against_reference_numbers(vectors):
    for name, value in vectors["kernels"].items():
        if name.startswith("Matern"):
            nu, r = (float(part.split("=")[1]) for part in name.split()[1:])
            log_kernel = log_matern(np.array([r]), nu)
            assert_allclose(np.exp(log_kernel), value, rtol=1e-12)


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.8, 1.5, 2.5, 4.0, 30.0, np.inf])
def test_matern_profile_at_its_ends(nu):
    r = np.array([0.0, 1e-300, 1e-9, 1e4])
    log_kernel = log_matern(r, nu)
    assert_allclose(log_kernel[:2], 0, atol=1e-12)
    assert np.all(np.isfinite(log_kernel))
    assert log_kernel[3] < -1e3


@pytest.mark.parametrize("nu", [0.3, 0.8, 1.0, 4.0, 4.3, 10, 24, 24.9])
def test_many_values_from_a_table(nu):
    r = np.append(np.geomspace(1e-5, 1e4, 30_000), 0.0)
    few = np.concatenate([log_matern(part, nu) for part in np.array_split(r, 3)])
    many = log_matern(r, nu)
    # the Bessel functions of SciPy err as much
    error = np.abs(many - few) / np.maximum(np.abs(few), 1)
    assert error.max() < 2e-13
    assert many[-1] == 0
    assert np.all(many <= 0)
