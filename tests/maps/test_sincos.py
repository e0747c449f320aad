"""Sines and cosines of any phase, by either of the ways that a processor may take."""

import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import GERFSampler, MaternSampler

TOLERANCE = {np.float64: 1.2e-15, np.float32: 4e-7}  # of numbers up to one
_OTHER = "SKLEARN_CRT_TEST_OTHER_TANGENTS"  # set in the process of the last test


@pytest.fixture
def cos_sin(given):
    """Return the sines and cosines of phases, from the features of a sampler."""

    def features(phases):
        m = phases.shape[1]
        sampler = TrigRBFSampler(
            sigma=1.0, n_components=2 * m, coupling=given(np.eye(m)), random_state=0
        )
        found = np.sqrt(phases.dtype.type(m)) * sampler.fit(phases).transform(phases)
        assert found.dtype == phases.dtype
        return found[:, :m], found[:, m:]

    return features


@pytest.mark.filterwarnings("ignore:.*computes features from phases above")
@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("largest", [1e-3, 1.0, 30.0, 1e4, 1e6, 6e7, 7e7, 1e12])
def test_sines_and_cosines_in_a_range(largest, dtype, cos_sin, rng):
    phases = rng.uniform(-largest, largest, size=(300, 300)).astype(dtype)
    phases[:3] = np.pi / 2 * np.round(phases[:3] / (np.pi / 2))  # where they are 0 or 1
    cosines, sines = cos_sin(phases)
    exact = phases.astype(np.float64)
    assert_allclose(cosines, np.cos(exact), rtol=0, atol=TOLERANCE[dtype])
    assert_allclose(sines, np.sin(exact), rtol=0, atol=TOLERANCE[dtype])


def test_small_sines_keep_their_digits(cos_sin):
    phases = np.array([[0.0, 1e-150, -1e-20, 1e-8, -1e-3]])
    _, sines = cos_sin(phases)
    assert_allclose(sines, np.sin(phases), rtol=2e-15)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_each_frequency_has_its_scale(dtype, rng):
    """By hand, for a map whose features have lengths of their own."""
    X = rng.normal(size=(3000, 3)).astype(dtype)
    fitted = GERFSampler(sigma=0.1, n_components=130, random_state=0).fit(X)
    assert (fitted.s_, fitted.A_.imag) == (-1, 0)
    A, W = fitted.A_.real, fitted.frequencies_.astype(float)
    scale = np.exp(A * np.sum(W**2, axis=0)) * (1 - 4 * A) ** 0.75 / np.sqrt(65)
    phases = np.sqrt(1 - 4 * A) * 0.1 * (X.astype(float) - fitted.center_) @ W
    expected = np.hstack([scale * np.cos(phases), scale * np.sin(phases)])
    tolerance = 4e-6 if dtype == np.float32 else 1e-13
    assert_allclose(fitted.transform(X), expected, atol=tolerance * scale.max())


@pytest.mark.parametrize("sampler", [TrigRBFSampler(), MaternSampler(nu=0.5)], ids=str)
@pytest.mark.parametrize("n_components", [33, 64])
def test_blocks_are_those_of_all_rows(sampler, n_components, rng):
    X = rng.normal(size=(9000, 3))
    sampler.set_params(sigma=1.0, n_components=n_components, random_state=0).fit(X)
    together, parts = sampler.transform(X), np.split(X, [1, 257, 4000])
    apart = np.vstack([sampler.transform(part) for part in parts])
    rounding = 1e-15 * (1 + np.abs(X).sum(axis=1).max() * largest_norm(sampler))
    assert_allclose(together, apart, rtol=0, atol=10 * rounding)


def largest_norm(sampler):
    return np.sqrt(sampler.map_.frequencies.sq_norms.max())


WITH_OR_WITHOUT = """
import sys
import numpy as np
import pytest

config = np.show_config(mode="dicts")
extensions = dict(config["SIMD Extensions"])
wide = {"X86_V4", "AVX512_SKX"}
known = {*extensions.get("baseline", ()), *extensions.get("found", ())}
extensions["found"] = sorted(known - wide if known & wide else known | wide)
extensions["baseline"] = []
config["SIMD Extensions"] = extensions
np.show_config = lambda mode=None: config  # says the contrary of what is so
sys.exit(pytest.main([sys.argv[1], "-qpno:cacheprovider"]))
"""


@pytest.mark.skipif(_OTHER in os.environ, reason="this is the other way")
def test_the_same_by_the_other_way():
    """Tangents are vectors on processors with AVX-512 only."""
    command = [sys.executable, "-c", WITH_OR_WITHOUT, __file__]
    environment = {**os.environ, _OTHER: "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 skipped" in run.stdout  # this test
