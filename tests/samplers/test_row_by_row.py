"""Features of a row are the same alone and in batches of any size."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn import config_context

from sklearn_crt import TrigRBFSampler
from sklearn_crt.extend import Frequencies, Independent
from sklearn_crt.maps import SignMap
from sklearn_crt.rows import Frame
from sklearn_crt.samplers import (
    ExponentialPowerSampler,
    LaplacianSampler,
    MaternSampler,
)

from ..cases import array_libraries, sampler_cases

pytestmark = [
    pytest.mark.filterwarnings("ignore:The frequencies of:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:For .* computes features from:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:This hybrid requires|.* maps require"),
]
SIZES = 1, 2, 3, 7, 64
N_ROWS = 1000


def in_batches(fitted, rows, size, side="transform"):
    """Return the features of the first rows, so many at a time."""
    stop = min(N_ROWS, 8 * size)
    parts = [rows[i : min(i + size, stop)] for i in range(0, stop, size)]
    return np.vstack([np.asarray(getattr(fitted, side)(part)) for part in parts])


def exponents_or_phases(fitted, X):
    """Return bounds on the numbers whose exponentials or sines are the features.

    They are w.x and multiples of |x|^2 and |w|^2, of centred rows times sigma.
    """
    rows = np.linalg.norm(fitted.sigma_ * X.astype(np.float64), axis=1)
    norms = np.sqrt(fitted.map_.frequencies.sq_norms.max(initial=0))
    return (1 + rows + norms) ** 2


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "sampler", sampler_cases() + sampler_cases(parts=True), ids=str
)
def test_features_of_a_row_are_the_same_in_batches_of_any_size(sampler, dtype, rng):
    """BLAS has another order of summation for one row than for many.

    A number z is rounded by a few units in its last place, and exp(z), cos(z) and
    sin(z) change by as much.
    """
    X = (0.5 * rng.normal(size=(N_ROWS, 5)) + 0.1).astype(dtype)
    fitted = sampler.set_params(random_state=0).fit(X)
    eps = np.finfo(dtype).eps
    # beyond 2^5 phases of float32 come from float64
    most = exponents_or_phases(fitted, X)
    most = most if dtype == np.float64 else np.minimum(most, 2**8)
    for side in ("transform", "transform_key"):
        whole = getattr(fitted, side)(X)
        assert whole.dtype == dtype
        scale = np.abs(whole).max()
        for size in SIZES:
            found = in_batches(fitted, X, size, side)
            error = np.abs(found - whole[: len(found)]).max(axis=1)
            assert np.all(error <= 4 * eps * most[: len(found)] * scale), size


LONG_ROWS = [
    TrigRBFSampler(sigma=1.0),
    TrigRBFSampler(sigma=1.0, kernel="gaussian", random_phase=True, coupling="iid"),
    MaternSampler(sigma=1.0),
    LaplacianSampler(sigma=1.0),
    ExponentialPowerSampler(sigma=1.0, alpha=0.7, random_phase=True),
    MaternSampler(sigma=1.0, nu=0.01),
    ExponentialPowerSampler(sigma=1.0, alpha=0.01),
]


def assert_the_same_alone(fitted, rows, dtype, tolerance):
    """Compare rows in batches of all sizes with the same rows among 1000."""
    whole = np.asarray(fitted.transform(rows))
    assert whole.dtype == dtype
    for size in SIZES:
        found = in_batches(fitted, rows, size)
        assert_allclose(found, whole[: len(found)], rtol=0, atol=tolerance)


@pytest.mark.each_value
@pytest.mark.parametrize(
    "convert, length",
    [
        (np.asarray, 1e9),
        (sparse.csr_array, 1e3),
        pytest.param(np.asarray, 1e3, marks=pytest.mark.slow),
        pytest.param(sparse.csr_array, 1e9, marks=pytest.mark.slow),
        pytest.param(np.asarray, 1, marks=pytest.mark.slow),
        pytest.param(sparse.csr_array, 1, marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sampler", LONG_ROWS, ids=str)
def test_large_phases_are_the_same_in_batches_of_any_size(
    sampler, dtype, convert, length, rng
):
    """Also beyond 2^53, where a float64 phase has no digit left.

    Products of BLAS are in use up to |w| |x| = 2^5 in float32, 2^8 for Gaussian
    frequencies, and 2^26 in float64. Their error is 2^-22 or 2^-51 of that bound.
    """
    X = rng.normal(size=(N_ROWS, 5)).astype(dtype)
    fitted = sampler.set_params(random_state=0).fit(X)
    X *= rng.choice([1, 0.1], size=(N_ROWS, 1)).astype(dtype)
    X[::2] *= dtype(length)  # long rows stand beside short ones
    is_gaussian = isinstance(sampler, TrigRBFSampler)
    most = 2.0 ** (8 if is_gaussian else 5), 2.0**26
    error = most[0] * 2.0**-22 if dtype == np.float32 else most[1] * 2.0**-51
    scale = np.abs(fitted.transform(X)).max()
    assert_the_same_alone(fitted, convert(X), dtype, error * scale)


@array_libraries
@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["array_api_strict", "torch"])
@pytest.mark.parametrize("device", ["host", "elsewhere"])
def test_large_phases_in_other_libraries(name, device, dtype, rng, monkeypatch):
    library = pytest.importorskip(name)
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    X = rng.normal(size=(N_ROWS, 5)).astype(dtype)
    fitted = MaternSampler(sigma=1.0, nu=0.05, random_state=0).fit(X)
    X[::2] *= 1e9
    rows = library.asarray(X)
    if device == "elsewhere":
        if name == "torch":
            pytest.skip("torch has no second device here")
        rows = library.asarray(X, device=library.Device("device1"))
    expected = fitted.transform(X)
    with config_context(array_api_dispatch=True):
        other = MaternSampler(sigma=1.0, nu=0.05, random_state=0).fit(rows)
        whole = other.transform(rows)
        assert type(whole) is type(rows)
        for size in SIZES:
            parts = [other.transform(rows[i : i + size, :]) for i in range(0, 64, size)]
            parts = [to_numpy(part) for part in parts]
            found = np.vstack(parts)
            error = 2.0**-17 if dtype == "float32" else 2.0**-25
            assert found.dtype == dtype
            assert_allclose(found, to_numpy(whole)[: len(found)], rtol=0, atol=error)
            assert_allclose(found, expected[: len(found)], rtol=0, atol=error)


def to_numpy(array):
    """Return an array of any device as one of NumPy."""
    if type(array).__module__.startswith("array_api_strict"):
        library = pytest.importorskip("array_api_strict")
        array = array.to_device(library.Device("CPU_DEVICE"))
    return np.asarray(array)


@pytest.mark.parametrize("d", [5, 300])
def test_structured_frequencies_have_large_phases_too(d, rng):
    """Those of more than 256 columns are never written out."""
    X = rng.normal(size=(N_ROWS, d)).astype(np.float32)
    sampler = MaternSampler(
        nu=0.5 if d > 5 else 1.5,
        sigma=1.0,
        coupling="structured-orthogonal",
        n_components=600,
        random_state=0,
    )
    fitted = sampler.fit(X)
    X[::2] *= 1e4
    assert_the_same_alone(fitted, X, np.float32, 2.0**-17)


@pytest.mark.each_value
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_signs_of_products_that_are_nearly_zero(dtype, convert, rng):
    """A rounding error decides on the sign, and so it has to be the same one."""
    directions = rng.normal(size=(20, 23)).astype(dtype)
    signs = SignMap(Frame(), 23, Frequencies(directions), Independent())
    X = rng.normal(size=(N_ROWS, 20)).astype(dtype)
    w = directions[:, np.arange(N_ROWS) % 23].T.astype(np.float64)
    along = np.sum(X * w, axis=1) / np.sum(w * w, axis=1)
    X = (X - along[:, None] * w).astype(dtype)

    def features(rows):
        return signs.features(signs.frame.rows(convert(rows)))

    whole = features(X)
    for size in SIZES:
        parts = [features(X[i : i + size]) for i in range(0, N_ROWS, size)]
        assert_allclose(np.vstack(parts), whole)
