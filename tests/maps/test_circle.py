import inspect
import os
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_crt import GERFSampler, MaternSampler, TrigRBFSampler
from sklearn_crt.maps import _circle

BOTH_WAYS = pytest.mark.parametrize("fast", [True, False])
TOLERANCE = {np.float64: 6e-16, np.float32: 3e-7}  # of numbers up to one


@pytest.fixture
def choose(monkeypatch):
    """Return a function that chooses the way to sines and cosines."""
    return lambda fast: monkeypatch.setattr(_circle, "has_fast_tangent", lambda: fast)


def cos_sin(phases, scale=1.0):
    cosines, sines = np.empty((2, *phases.shape), phases.dtype)
    _circle.write_cos_sin(phases.copy(), scale, cosines, sines)
    return cosines, sines


@BOTH_WAYS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("largest", [1e-3, 1.0, 30.0, 1e4, 1e6, 6e7, 7e7, 1e12])
def test_sines_and_cosines_in_a_range(largest, dtype, fast, choose, rng):
    choose(fast)
    phases = rng.uniform(-largest, largest, size=(300, 300)).astype(dtype)
    quarters = np.pi / 2 * np.round(phases[:3] / (np.pi / 2))  # where they are 0 or 1
    phases[:3] = quarters
    cosines, sines = cos_sin(phases)
    exact = phases.astype(np.float64)
    assert_allclose(cosines, np.cos(exact), rtol=0, atol=TOLERANCE[dtype])
    assert_allclose(sines, np.sin(exact), rtol=0, atol=TOLERANCE[dtype])


@BOTH_WAYS
def test_small_sines_keep_their_digits(fast, choose):
    choose(fast)
    phases = np.array([[0.0, 1e-300, -1e-20, 1e-8, -1e-3]])
    _, sines = cos_sin(phases)
    assert_allclose(sines, np.sin(phases), rtol=1e-15)


@BOTH_WAYS
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_no_number_stays_none(dtype, fast, choose, rng):
    choose(fast)
    phases = rng.normal(size=(4, 8)).astype(dtype)
    phases[1, 2] = np.nan
    for part, function in zip(cos_sin(phases), (np.cos, np.sin), strict=True):
        assert_allclose(part, function(phases), rtol=0, atol=TOLERANCE[dtype])
    phases[2, 3] = np.inf
    with pytest.warns(RuntimeWarning, match="invalid value"):
        cosines, sines = cos_sin(phases)
    missing = ~np.isfinite(phases)
    assert_array_equal(np.isnan(cosines), missing)
    assert_array_equal(np.isnan(sines), missing)


@BOTH_WAYS
def test_scale_of_each_column_and_room_in_wider_arrays(fast, choose, rng):
    choose(fast)
    phases, scale = rng.normal(size=(700, 130)), rng.uniform(-2, 2, size=130)
    out = np.full((700, 263), 7.0)
    _circle.write_cos_sin(phases.copy(), scale, out[:, :130], out[:, 131:261])
    assert_allclose(out[:, :130], scale * np.cos(phases), rtol=0, atol=2e-15)
    assert_allclose(out[:, 131:261], scale * np.sin(phases), rtol=0, atol=2e-15)
    assert np.all(out[:, [130, 261, 262]] == 7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    "sampler",
    [
        TrigRBFSampler(n_components=33),
        MaternSampler(nu=0.5, n_components=64),
        GERFSampler(sigma=0.1, n_components=31),
    ],
)
def test_features_are_the_same_either_way(sampler, dtype, choose, rng):
    X = rng.normal(size=(3000, 3)).astype(dtype)
    sampler.set_params(random_state=0).fit(X)
    features = []
    for fast in (True, False):
        choose(fast)
        features.append(sampler.transform(X))
    assert_allclose(*features, rtol=0, atol=2 * TOLERANCE[dtype])


def test_blocks_are_those_of_all_rows(rng):
    X = rng.normal(size=(9000, 3))
    sampler = TrigRBFSampler(n_components=32, random_state=0).fit(X)
    together, parts = sampler.transform(X), np.split(X, [1, 257, 4000])
    apart = np.vstack([sampler.transform(part) for part in parts])
    assert_allclose(together, apart, rtol=0, atol=1e-14)


def test_tangents_are_left_alone_where_the_processor_is_told_not_to():
    known = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    wide = [name for name in known if name.startswith(("AVX512", "X86_V4"))]
    if not (_circle.has_fast_tangent() and wide):
        pytest.skip("NumPy does not choose AVX-512 here")
    source = inspect.getsource(_circle.has_fast_tangent)  # its own imports take longer
    imports = "import sys; import numpy as np; from functools import cache"
    code = f"{imports}\n{source}\nprint(has_fast_tangent())"
    for disabled, expected in (([], "True"), (wide, "False")):
        environment = {**os.environ, "NPY_DISABLE_CPU_FEATURES": " ".join(disabled)}
        command = [sys.executable, "-c", code]
        result = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        )
        assert result.stdout.strip() == expected
