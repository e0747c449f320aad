"""Maps of maps: features are the composition, variances those of independent maps."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import (
    AngularCoefficient,
    ComplexExponentialSampler,
    GaussianCoefficient,
    HybridSampler,
    PositiveRBFSampler,
)
from sklearn_crt.testing import assert_variance
from sklearn_crt.testing.estimates import contract_rows

from ..hybrids import KINDS, hybrid, named


@pytest.fixture
def composed(apply_map):
    """Return sum lam_k K_k from the estimates of the maps, for sigma=1."""

    def compose(sampler, X, Y):
        def product(part):
            return apply_map(part, X) @ apply_map(part, Y, key=True).T

        pairs = zip(sampler.a_, sampler.coefficients_, strict=True)
        lambdas = [a + product(part) for a, part in pairs]
        lambdas.append(1 - sum(lambdas))
        kernels = [product(base) for base in sampler.bases_]
        estimate = sum(lam * k for lam, k in zip(lambdas, kernels, strict=True))
        if sampler.spare_ is None:
            return estimate
        weight = sampler.map_.spare_weight
        return (1 - weight) * estimate + weight * product(sampler.spare_)

    return compose


class Constant(TransformerMixin, BaseEstimator):
    """A coefficient a + 0 without randomness."""

    def __init__(self, a=0.0):
        self.a = a

    def fit(self, X, y=None):
        self.a_ = self.a
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return np.zeros((X.shape[0], 1))

    def exact_kernel(self, X, Y=None):
        return np.zeros((X.shape[0], (X if Y is None else Y).shape[0]))

    kernel_variance = exact_kernel


THREE = {
    "bases": named(
        OPRFSampler(),
        PositiveRBFSampler(center=False, coupling="antithetic"),
        TrigRBFSampler(),
    ),
    "coefficients": named(
        AngularCoefficient(n_components=2),
        GaussianCoefficient(sigma=0.5, n_components=4),
    ),
}


# ------------------------------------------------------------------- composition
@pytest.mark.parametrize(
    "params",
    [
        {"n_components": 24, "n_coefficients": 2},
        {"n_components": 31},
        {"n_components": 30, "shared": True},
        {"n_components": 77, "kind": "gaussian"},
        {"n_components": 100, **THREE},
        {"n_components": 40, "kind": "real", "n_clusters": (2, 1)},
        {"n_components": 35, "kind": "clustered"},
        *(
            {
                "n_components": 20,
                "bases": named(OPRFSampler(), TrigRBFSampler()),
                "coefficients": named(Constant(a)),
            }
            for a in (-0.5, 0.0, 0.4, 1.0, 2.5)
        ),
    ],
)
def test_features_are_the_composition(params, composed, rng):
    X, Y = 0.5 * rng.normal(size=(9, 3)), 0.5 * rng.normal(size=(8, 3))
    sampler = hybrid(**params).fit(X, X_key=Y)
    queries, keys = sampler.transform(X), sampler.transform_key(Y)
    assert queries.shape == (9, params["n_components"])
    expected = composed(sampler, X, Y)
    assert_allclose(queries @ keys.T, expected, rtol=1e-11, atol=1e-12)
    assert_allclose(sampler.approximate_kernel(X, Y), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("key", [False, True])
def test_features_are_those_of_log_space(kind, kernel, key, rng):
    X = rng.normal(size=(30, 3))
    sampler = hybrid(kind, kernel=kernel, n_components=63).fit(X)
    logs = sampler.map_.iter_log_features(X, key=key)
    expected = np.vstack([m * (1 if e is None else np.exp(e)) for _, m, e in logs])
    out = sampler.transform_key(X) if key else sampler.transform(X)
    assert_allclose(out, expected, rtol=1e-11, atol=1e-13 * np.abs(expected).max())


def test_raw_rows_of_a_part_are_the_unit_rows_of_the_hybrid(composed, rng):
    """A part that reads raw rows, here for its row factors, has no centre."""
    X = rng.normal(size=(30, 3)) + 4
    softmax = TrigRBFSampler(sigma=1.0, kernel="softmax", n_components=4)
    params = {"coefficients": named(softmax), "n_components": 60, "center": True}
    sampler = hybrid(sigma=0.4, **params).fit(X)
    unit = 0.4 * (X - X.mean(axis=0))
    expected = composed(sampler, unit, unit)
    for rows in (X, sparse.csr_array(X)):
        estimate = sampler.approximate_kernel(rows)
        assert_allclose(estimate, expected, rtol=1e-10, atol=1e-12)


def test_rows_are_judged_once_not_once_for_each_part(rng):
    """Of several chunks, whose parts are samplers that would all warn."""
    X = rng.normal(size=(3000, 4))
    sampler = hybrid(n_components=64).fit(pd.DataFrame(X, columns=list("abcd")))
    for method in (sampler.transform, lambda X: sampler.kernel_variance(X[:5])):
        with pytest.warns(UserWarning, match="X does not have valid feature") as record:
            method(X)
        assert len(record) == 1


def test_parts_without_weight_are_left_out(rng):
    X = rng.normal(size=(5, 3))
    bases = named(OPRFSampler(), TrigRBFSampler())

    def widths(a):
        sampler = hybrid(n_components=24, bases=bases, coefficients=named(Constant(a)))
        return [base.n_components for base in sampler.fit(X).bases_]

    # (1 + 1) m + (1 + 1) 2m, without a = 0 and without 1 - a = 0
    assert widths(0.5) == [4, 8]
    assert widths(0.0) == [4, 10]
    assert widths(1.0) == [6, 12]


def test_both_sides_are_real_and_differ(rng):
    X = rng.normal(size=(20, 3))
    for kind in KINDS:
        sampler = hybrid(kind, n_components=64).fit(X)
        assert not sampler.symmetric_
        assert sampler.transform(X).dtype == np.float64
        assert not np.allclose(sampler.transform(X), sampler.transform_key(X))
    bases, coefficients = named(OPRFSampler(), TrigRBFSampler()), named(Constant(0.5))
    sampler = hybrid(
        bases=named(TrigRBFSampler()), coefficients=[], n_components=9
    ).fit(X)
    assert sampler.symmetric_
    sampler = hybrid(bases=bases, coefficients=coefficients, n_components=12).fit(X)
    assert not sampler.symmetric_  # - r (x) L of the key side


def test_frequencies_of_the_maps(rng):
    X = rng.normal(size=(50, 5))
    m, n = 3, 4
    sampler = hybrid(n_components=4 * m * (n + 1), n_coefficients=n).fit(X)
    # n + 2 m frequencies, not m n
    assert sampler.frequencies_.shape == (5, n + 2 * m)
    first, last = sampler.bases_
    independent = first.frequencies.to_dense(), last.frequencies.to_dense()
    assert not np.allclose(*independent)
    shared = clone(sampler).set_params(shared=True).fit(X)
    first, last = shared.bases_
    assert_allclose(first.frequencies.to_dense(), last.frequencies.to_dense())
    directions = shared.coefficients_[0].frequencies.to_dense()
    assert not np.allclose(directions[:, :m], last.frequencies.to_dense())


# ---------------------------------------------------------------------- variance
@pytest.mark.parametrize("shared", [False, True])
def test_reference_mse(vectors, pair4, shared):
    how = "shared" if shared else "independent"
    common = {"kernel": "softmax", "coupling": "iid", "n_coefficients": 4}
    cases = {
        f"MSE angular, {how}": {"kind": "angular", "n_components": 4 * 2 * 5},
        f"MSE Gaussian hybrid, {how}": {
            "kind": "gaussian",
            "lambda_sigma": 0.8,
            "n_components": 4 * 2 * 9,
        },
    }
    x, y = pair4
    for name, params in cases.items():
        sampler = hybrid(shared=shared, **params, **common).fit(x, X_key=y)
        variance = sampler.kernel_variance(x, y)
        assert_allclose(variance, vectors["hrf"][name], rtol=1e-12)
        assert sampler.variance_is_exact_


@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("kind", ["angular", "gaussian"])
def test_variance_of_independent_maps(kind, coupling):
    X = contract_rows(4)
    params = {"n_coefficients": 5, "n_components": 4 * 3 * 11}
    sampler = hybrid(kind, coupling=coupling, **params).fit(X)
    assert sampler.variance_is_exact_
    assert sampler.spare_ is None
    assert_variance(sampler, X)


@pytest.mark.parametrize("kind", ["angular", "gaussian"])
def test_variance_of_shared_projections(kind):
    X = contract_rows(3) * np.array([[1.0, 0.4, 0.8, 1.1, 0.9, 1.3]]).T
    params = {"coupling": "iid", "n_coefficients": 2, "n_components": 4 * 3 * 5}
    sampler = hybrid(kind, shared=True, **params).fit(X)
    assert sampler.variance_is_exact_
    independent = clone(sampler).set_params(shared=False).fit(X)
    gain = independent.kernel_variance(X) - sampler.kernel_variance(X)
    assert gain.max() > 0.01 * sampler.kernel_variance(X).max()  # not rounding
    assert_variance(sampler, X)


class Forgetful(HybridSampler):
    """Claims the variance of independent projections for shared ones."""

    def kernel_variance(self, X, Y=None):
        independent = HybridSampler(**self.get_params(deep=False)).set_params(
            shared=False
        )
        return independent.fit(X, X_key=Y).kernel_variance(X, Y)


def test_the_covariance_of_shared_projections_counts():
    """The test above fails where it is left out."""
    X = contract_rows(3) * np.array([[1.0, 0.4, 0.8, 1.1, 0.9, 1.3]]).T
    params = hybrid(coupling="iid", n_coefficients=2).get_params(deep=False)
    sampler = Forgetful(**params | {"n_components": 4 * 3 * 5, "shared": True})
    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(sampler.fit(X), X)


def test_variance_of_three_bases():
    X = contract_rows(4)
    # 8 columns of coefficients: (1 + 2) m + (1 + 4) 2 m + (1 + 6) 2 m
    sampler = hybrid(n_components=27 * 3, **THREE).fit(X)
    assert [base.n_components for base in sampler.bases_] == [3, 6, 6]
    assert_variance(sampler, X)


@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_variance_with_spare_columns(kernel):
    X = contract_rows(3)
    params = {"n_coefficients": 5, "n_components": 4 * 2 * 6 + 10, "kernel": kernel}
    sampler = hybrid(center=True, sigma=0.8, **params).fit(X + 1)
    assert sampler.spare_.n_components == 10
    assert_variance(sampler, X + 1)


def test_shared_orthogonal_projections_say_that_the_variance_is_not_theirs(rng):
    X = rng.normal(size=(20, 4))
    params = {"n_components": 48, "n_coefficients": 2, "shared": True}
    assert not hybrid(**params).fit(X).variance_is_exact_
    assert hybrid(coupling="iid", **params).fit(X).variance_is_exact_


@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("shared", [False, True])
def test_no_variance_at_angles_0_and_pi(shared, kernel, coupling, rng):
    X = rng.normal(size=(10, 6))
    X *= 1.2 / np.linalg.norm(X, axis=1, keepdims=True)
    params = {"kernel": kernel, "coupling": coupling, "shared": shared}
    sampler = hybrid(n_components=4 * 3 * 5, n_coefficients=4, **params).fit(X)
    for Y in (X, -X):
        exact = np.diag(sampler.exact_kernel(X, Y))
        # 0 up to the squares of roundings
        assert np.diag(sampler.kernel_variance(X, Y)).max() < 1e-20
        assert_allclose(np.diag(sampler.approximate_kernel(X, Y)), exact, rtol=1e-12)
    params |= {"n_coefficients": 4, "n_components": 4 * 3 * 9}
    gaussian = hybrid("gaussian", **params).fit(X)
    assert np.diag(gaussian.kernel_variance(X)).max() < 1e-20
    assert np.diag(gaussian.kernel_variance(X, -X)).min() > 1e-6


def test_angular_variance_falls_like_theta():
    r, m, n = 1.5, 10, 4
    theta = 1e-4
    X = r * np.array([[1.0, 0.0]])
    Y = r * np.array([[np.cos(theta), np.sin(theta)]])
    params = {"kernel": "softmax", "coupling": "iid", "n_coefficients": n}
    sampler = hybrid(n_components=4 * m * (n + 1), **params).fit(X)
    error = np.sqrt(sampler.kernel_variance(X, Y)) / sampler.exact_kernel(X, Y)
    w = np.exp(2 * r**2) * -np.expm1(-4 * r**2)  # HRF theorem 3.5
    expected = w / (2 * np.pi * m * n) ** 0.5
    # the next terms of the expansion are of order theta
    assert_allclose(error / theta**0.5, expected, rtol=10 * theta)


# ------------------------------------------------------------------------ extremes
@pytest.mark.parametrize("kind", KINDS)
def test_variance_of_rows_that_are_far_away(kind, rng):
    X = rng.normal(size=(30, 8))
    sampler = hybrid(kind, sigma=100.0, n_components=200).fit(X)
    variance = sampler.kernel_variance(X)  # it may be infinite
    assert np.all(variance >= 0)


@pytest.mark.parametrize("base", [OPRFSampler(), ComplexExponentialSampler(2.0)])
def test_one_row_through_maps_of_one_column(base, rng):
    X = rng.normal(size=(5, 3))
    coefficients = named(PositiveRBFSampler(sigma=1.0, n_components=1))
    bases = named(base, OPRFSampler())
    sampler = hybrid(bases=bases, coefficients=coefficients, n_components=3).fit(X)
    assert [part.n_components for part in sampler.bases_] == [1, 1]
    expected = sampler.transform(X)[:1]
    assert_allclose(sampler.transform(X[:1]), expected, rtol=1e-10)
    expected = sampler.transform(X[:1]) @ sampler.transform_key(X).T
    assert_allclose(sampler.approximate_kernel(X[:1], X), expected, rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_no_row_is_lost_between_large_and_small_factors(kind, kernel, rng):
    X = rng.normal(size=(30, 8))
    far = np.vstack([30 * X, 0 * X[:1]])
    sampler = hybrid(kind, n_components=200, kernel=kernel).fit(X)
    with warnings.catch_warnings():  # features may overflow or vanish, and say so
        warnings.filterwarnings("ignore", ".*[Ff]eatures of")
        for values in (sampler.transform(far), sampler.transform_key(far)):
            assert not np.any(np.isnan(values))
    assert not np.any(np.isnan(sampler.approximate_kernel(far)))
    assert np.all(sampler.kernel_variance(far) >= 0)
