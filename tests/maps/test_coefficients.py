"""Coefficients of hybrids: signs, weighted maps, maps of rows with other columns."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_crt.extend import StructuredOrthogonal
from sklearn_crt.samplers import AngularCoefficient, GaussianCoefficient


def test_reference_coefficients(vectors, pair4):
    reference, (x, y) = vectors["hrf"], pair4
    angular = AngularCoefficient(n_components=4, coupling="iid").fit(x, X_key=y)
    gaussian = GaussianCoefficient(sigma=0.8, n_components=8, coupling="iid")
    gaussian.fit(x, X_key=y)
    assert_allclose(1 / gaussian.a_, reference["rho normaliser"], rtol=1e-12)
    for part, name in ((angular, "angular"), (gaussian, "Gaussian")):
        mean = part.a_ + part.exact_kernel(x, y)
        variance = part.kernel_variance(x, y)
        value = {"angular": "theta/pi", "Gaussian": "lam Gaussian"}[name]
        assert_allclose(mean, reference[value], rtol=1e-12)
        assert_allclose(mean**2 + variance, reference[f"E lam^2 {name}"], rtol=1e-12)
        rest = (1 - mean) ** 2 + variance
        assert_allclose(rest, reference[f"E (1-lam)^2 {name}"], rtol=1e-12)


def test_lambda_is_0_for_equal_rows_and_1_for_opposite_ones(rng):
    X = rng.normal(size=(9, 3))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    for part in (AngularCoefficient(), GaussianCoefficient(sigma=0.3)):
        part.fit(X)
        assert_allclose(np.diag(part.a_ + part.exact_kernel(X)), 0, atol=1e-14)
        assert_allclose(np.diag(part.a_ + part.exact_kernel(X, -X)), 1, atol=1e-14)
    assert part.fit(np.zeros((3, 2))).a_ == 1.0


def test_angles_at_zero_rows():
    X = np.array([[0.0, 0.0], [1.0, 2.0]])
    part = AngularCoefficient(n_components=50, random_state=0).fit(X)
    assert_allclose(part.exact_kernel(X) + 0.5, [[0, 0.5], [0.5, 0]])
    assert_allclose(np.diag(part.approximate_kernel(X)), -0.5)


def test_angles_do_not_depend_on_sigma(rng):
    X = rng.normal(size=(9, 3))
    part = AngularCoefficient(random_state=0).fit(X)
    assert_array_equal(part.with_sigma(0.3).transform(X), part.transform(X))
    assert_array_equal(part.transform(3 * X), part.transform(X))


@pytest.mark.parametrize(
    "coupling", ["structured-orthogonal", StructuredOrthogonal()], ids=str
)
def test_angles_need_exact_directions(coupling, rng):
    with pytest.raises(
        ValueError, match=r"because signs need .*use one of 'iid', 'orthogonal'"
    ):
        AngularCoefficient(coupling=coupling).fit(rng.normal(size=(9, 4)))


def test_variances_of_tiny_rows_are_at_most_infinite(rng):
    X = 1e-150 * rng.normal(size=(9, 3))  # the weight of the map is about 1e300
    part = GaussianCoefficient(random_state=0).fit(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        variance = part.kernel_variance(X)
    assert (variance >= 0).all()
