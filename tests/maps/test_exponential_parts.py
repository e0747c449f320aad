"""Positive pairs and complex diagonals: numbers of the paper, limits, fast ways."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import TrigRBFSampler
from sklearn_crt.extend import Antithetic, Independent
from sklearn_crt.samplers import (
    ComplexExponentialSampler,
    PositiveRBFSampler,
)


def test_reference_base_maps(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    common = {"sigma": 1.0, "n_components": 4, "kernel": "softmax"}
    pairs = {"center": False, "coupling": Antithetic(Independent())}
    for part, name in (
        (TrigRBFSampler(coupling="iid", **common), "MSE trig"),
        (PositiveRBFSampler(**pairs, **common), "MSE positive +-"),
    ):
        variance = part.fit(x, X_key=y).kernel_variance(x, y)
        assert_allclose(variance, reference[name], rtol=1e-12)


def test_reference_complex_exponentials(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    given = np.array([1j, 0.8, 1.3 + 0.4j, -0.7])
    for a, name in (
        (given, "CE a=(i,0.8,1.3+0.4i,-0.7): Var/SM^2"),
        (np.sqrt(np.abs(y[0] / x[0])), "CE real fitted: Var/SM^2"),
    ):
        n = 2 if np.any(a.imag) else 1
        part = ComplexExponentialSampler(a, sigma=1.0, n_components=n).fit(x)
        relative = part.kernel_variance(x, y) / part.exact_kernel(x, y) ** 2
        assert_allclose(relative, reference[name], rtol=1e-12)


def test_imaginary_unit_is_sines_and_cosines(pair64):
    x, y = pair64
    ce = ComplexExponentialSampler(1j, sigma=1.0, n_components=6, coupling="iid").fit(x)
    trig = TrigRBFSampler(sigma=1.0, n_components=6, coupling="iid").fit(x)
    # 1 - K^2 from sums of 64 squares: 64 roundings, of terms up to |x|^2 + |y|^2 = 16
    rtol = 64 * 16 * np.finfo(float).eps / trig.kernel_variance(x, y).item()
    assert_allclose(ce.kernel_variance(x, y), trig.kernel_variance(x, y), rtol=rtol)


@pytest.mark.parametrize(
    "part",
    [
        PositiveRBFSampler(
            center=False, coupling="antithetic", n_components=7, kernel="softmax"
        ),
        ComplexExponentialSampler([1.0, 0.7j, 1 - 0.2j], n_components=7),
        ComplexExponentialSampler([1.0, 0.7j, 1.2], n_components=8, kernel="softmax"),
        ComplexExponentialSampler([1.0, -0.7, 1.2], n_components=7),
    ],
    ids=str,
)
@pytest.mark.parametrize("key", [False, True])
def test_features_are_those_of_log_space(part, key, rng):
    X = rng.normal(size=(20, 3))
    fitted = part.set_params(random_state=0).fit(X)
    found = fitted.transform_key(X) if key else fitted.transform(X)
    ((_, mantissa, exponent),) = fitted.map_.iter_log_features(X, key=key)
    expected = np.exp(exponent) * (1 if mantissa is None else mantissa)
    assert_allclose(found, expected, rtol=1e-13, atol=1e-300)


def test_errors_of_diagonals(pair4):
    with pytest.raises(ValueError, match="must be finite and invertible"):
        ComplexExponentialSampler([1.0, 0.0, 1.0, 1.0]).fit(pair4[0])
    with pytest.raises(ValueError, match="4 nonzero numbers"):
        ComplexExponentialSampler([1.0, 1.0]).fit(pair4[0])
