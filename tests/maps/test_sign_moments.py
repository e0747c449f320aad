"""Signs of projections on orthogonal directions, in many dimensions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.samplers import AngularCoefficient, HybridSampler
from sklearn_crt.testing import assert_variance

THETA = np.array([1e-6, 1e-3, 0.1, 0.7, 1.3, np.pi / 2 - 1e-3, np.pi / 2])


def legendre(start, stop, n_nodes):
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    half = (stop - start) / 2
    return start + half * (nodes + 1), half * weights


def mean_minimum(theta, d):
    """Return E min(theta, delta), from the density of two lengths in the plane.

    ((d - 5) / 2) log(1 - u - v + u v sin(delta)^2), for squared lengths u and v.
    """
    lengths, weights = legendre(0, min(1, 90 / d), 100)
    u, v = np.meshgrid(lengths, lengths)
    masses = [legendre(0, theta, 12), legendre(theta, np.pi / 2, 24)]
    total = mean = 0.0
    for delta, weight in zip(*np.hstack(masses), strict=True):
        left = np.maximum(1 - u - v + u * v * np.sin(delta) ** 2, 1e-300)
        density = weight * (weights @ np.exp((d - 5) / 2 * np.log(left)) @ weights)
        total, mean = total + density, mean + min(theta, delta) * density
    return mean / total


def gap(theta, d):
    """Return what two orthogonal directions save, from stated variances.

    Of two directions the variance is half of v + c, with v of one and c the mean of
    the product of two sign products, less that of independent ones, over 4.
    """
    X, Y = np.zeros((1, d)), np.zeros((np.size(theta), d))
    X[0, 0], Y[:, 0], Y[:, 1] = 1, np.cos(theta), np.sin(theta)
    orthogonal, independent = (
        AngularCoefficient(n_components=2, coupling=coupling)
        .fit(X)
        .kernel_variance(X, Y)
        for coupling in ("orthogonal", "iid")
    )
    return 8 * (independent - orthogonal)[0]


@pytest.mark.parametrize("d", [30, 38, 39, 40, 100, 199, 200, 256, 784, 2000, 4096])
def test_moment_against_quadrature_in_logs(d):
    independent = (1 - 2 * THETA / np.pi) ** 2
    expected = [1 - 4 / np.pi * mean_minimum(theta, d) for theta in THETA]
    for angles in (THETA, np.pi - THETA):
        moments = independent - gap(angles, d)
        assert_allclose(moments, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("d", [39, 200, 784])
def test_gap_of_signs_against_quadrature_in_logs(d):
    """What a pair saves is about 1 / d: its digits count, not those of the moment."""
    theta = np.array([0.3, 1.0])
    independent = (1 - 2 * theta / np.pi) ** 2
    expected = [4 / np.pi * mean_minimum(angle, d) for angle in theta]
    found = gap(theta, d)
    assert_allclose(found, independent - 1 + expected, rtol=1e-9)
    assert np.all(np.abs(found) > 1e-6)


def test_variance_of_many_orthogonal_signs(rng):
    X, Y = rng.normal(size=(2, 1, 200))
    assert_variance(AngularCoefficient(), X, Y, n_blocks=400)


@pytest.mark.parametrize("d", [200, 256, 784])
def test_hybrid_of_many_columns(d, rng):
    images = 255 * np.maximum(rng.normal(size=(60, d)), 0)
    for params in ({}, {"n_coefficients": 2, "n_components": 256}):
        sampler = HybridSampler(random_state=0, **params).fit(images)
        assert np.isfinite(sampler.transform(images)).all()
        variance = sampler.kernel_variance(images)
        assert np.all((variance >= 0) & np.isfinite(variance))
