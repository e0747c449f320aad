"""Dense exponential features: closed forms, optimum, two sides, odd tables."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_crt import DERFSampler, OPRFSampler
from sklearn_crt.extend import Antithetic, Independent
from sklearn_crt.testing import (
    assert_nested,
    assert_unbiased,
    assert_variance,
    check_sampler,
)

pytestmark = pytest.mark.usefixtures("few_seeds")

PAIRS = Antithetic(Independent())


@pytest.fixture
def sides(rng):
    """Return rows of two sides with other means and covariances."""
    X = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 3)) * 0.3
    Y = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3)) * 0.3 + [0.2, 0, -0.4]
    return X, Y


@pytest.mark.parametrize(  # others than in the contract of all samplers
    "coupling", ["antithetic", pytest.param(PAIRS, marks=pytest.mark.slow)], ids=str
)
def test_contract(coupling):
    check_sampler(DERFSampler(coupling=coupling))


@pytest.mark.each_value
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("coupling", ["iid", PAIRS], ids=str)
def test_contract_with_two_sides(coupling, kernel, sides):
    X, Y = sides[0][:6], sides[1][:5]
    sampler = DERFSampler(sigma=1.0, coupling=coupling, kernel=kernel)
    assert_unbiased(sampler, X, Y)
    assert_variance(sampler, X, Y)
    assert not sampler.fit(X, X_key=Y).symmetric_


@pytest.mark.parametrize(
    "coupling",
    [
        "orthogonal",
        "antithetic",
        pytest.param("simplex", marks=pytest.mark.slow),
        pytest.param("sobol", marks=pytest.mark.slow),
    ],
)
def test_independent_frequencies_are_an_upper_estimate(coupling, sides):
    X = sides[0][:6]
    sampler = DERFSampler(sigma=1.0, n_components=6, coupling=coupling)
    errors = []
    for seed in range(150):
        fitted = sampler.set_params(random_state=seed).fit(X)
        errors.append(fitted.approximate_kernel(X) - fitted.exact_kernel(X))
    assert not fitted.variance_is_exact_
    assert np.mean(np.square(errors)) < fitted.kernel_variance(X).mean()


def test_reference_numbers(beyond):
    numbers = beyond["dense"]
    X = np.array(numbers["X"])
    fitted = DERFSampler(sigma=1.0, n_components=1, coupling="iid").fit(X)
    assert_allclose(fitted.center_, numbers["center"], rtol=1e-12)
    assert_allclose(np.eye(2) - 4 * fitted.A_, numbers["Sigma"], rtol=1e-10)
    rho = 1 / (1 - 8 * np.linalg.eigvalsh(fitted.A_))
    assert_allclose(np.sort(rho), np.sort(numbers["rho"]), rtol=1e-10)
    relative = fitted.kernel_variance(X) / fitted.exact_kernel(X) ** 2
    expected = numbers["rel_var_one_frequency_rows01"]
    assert_allclose(relative[0, 1], expected, rtol=1e-10)
    fitted = DERFSampler(sigma=1.0, n_components=2, coupling=PAIRS).fit(X)
    relative = fitted.kernel_variance(X) / fitted.exact_kernel(X) ** 2
    assert_allclose(relative[0, 1], numbers["rel_var_one_pair_rows01"], rtol=1e-10)


@pytest.mark.parametrize(("side", "name"), [(1, "plus"), (-1, "minus")])
def test_reference_feature(side, name, beyond, given):
    numbers = beyond["dense"]
    X, coupling = np.array(numbers["X"]), given([side * np.array(numbers["w"])])
    fitted = DERFSampler(sigma=1.0, n_components=1, coupling=coupling).fit(X)
    ((_, _, exponent),) = fitted.map_.iter_log_features(X[:1])
    assert_allclose(exponent, [[numbers[f"log_feature_{name}_row0"]]], rtol=1e-10)


def test_features_do_not_hang_on_the_choice_of_axes(rng):
    X = np.vstack([np.sqrt(3) * np.eye(3), -np.sqrt(3) * np.eye(3)])
    noise = 1e-9 * rng.normal(size=X.shape)  # every axis is an eigenvector, up to this
    features = [DERFSampler(random_state=0).fit(Z).transform(X) for Z in (X, X + noise)]
    assert_allclose(*features, rtol=1e-6)


def test_equal_variances_of_all_directions_make_oprf(rng):
    rows = np.sqrt(3) * np.eye(3)
    X = np.vstack([rows, -rows])  # covariance: the identity
    dense, plain = (
        cls(sigma=0.6, n_components=7, random_state=0).fit(X)
        for cls in (DERFSampler, OPRFSampler)
    )
    assert_allclose(dense.A_, plain.A_ * np.eye(3), atol=1e-12)
    with_iid = [s.set_params(coupling="iid").fit(X) for s in (dense, plain)]
    assert_allclose(*(s.kernel_variance(X) for s in with_iid), rtol=1e-9)


def test_moved_parameters_are_worse(sides, rng):
    X, _ = sides
    fitted = DERFSampler(sigma=1.0, coupling="iid", n_components=1).fit(X)
    x = X - fitted.center_
    sums = x[:, None] + x

    def log_second_moments(R):  # over the squared kernel, of one frequency
        rho, vectors = np.linalg.eigh(R)
        constant = np.sum(np.log((1 + rho) / (2 * np.sqrt(rho))))
        return constant + (sums @ vectors) ** 2 @ rho

    R = np.linalg.inv(np.eye(3) - 8 * fitted.A_)
    kernel, variance = fitted.exact_kernel(X), fitted.kernel_variance(X)
    moments = kernel**2 * np.exp(log_second_moments(R))
    assert_allclose(variance + kernel**2, moments, rtol=1e-9)
    best = log_second_moments(R).mean()
    for _ in range(20):
        noise = rng.normal(size=(3, 3))
        moved = R + 0.02 * np.linalg.eigvalsh(R).min() * (noise + noise.T)
        assert log_second_moments(moved).mean() > best


def test_variance_is_below_that_of_one_number_for_all(rng):
    X = rng.normal(size=(200, 5)) * [3, 1, 1, 0.1, 0.1]
    dense, plain = (
        cls(sigma=0.5, coupling="iid").fit(X) for cls in (DERFSampler, OPRFSampler)
    )
    logs = [np.log(s.kernel_variance(X)).mean() for s in (dense, plain)]
    assert logs[0] < logs[1] - 0.3


def test_a_map_for_each_side_is_better_on_other_scales(rng):
    X, Y = rng.normal(size=(500, 4)) * 0.2, rng.normal(size=(400, 4)) * 2.0
    two = DERFSampler(sigma=0.7, coupling="iid").fit(X, X_key=Y)
    both = np.vstack([X, Y - Y.mean(axis=0) + X.mean(axis=0)])
    one = DERFSampler(sigma=0.7, coupling="iid").fit(both)
    logs = [np.log(s.kernel_variance(X, Y)).mean() for s in (two, one)]
    assert logs[0] < logs[1] - 0.5


TABLES = {
    "constant": np.ones((6, 3)),
    "one row": np.ones((1, 3)),
    "one-hot": np.eye(8)[np.arange(30) % 8],
    "few rows": np.random.default_rng(0).normal(size=(5, 40)),
    "large": 1e6 * np.random.default_rng(0).normal(size=(50, 3)),
}


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("name", TABLES)
def test_degenerate_tables_are_finite(name, keys):
    X = TABLES[name]
    fitted = DERFSampler(random_state=0).fit(
        X, X_key=X[: len(X) // 2 + 1] if keys else None
    )
    assert np.all(np.isfinite(fitted.transform(X)))
    assert np.all(np.isfinite(fitted.transform_key(X)))
    assert np.all(np.isfinite(fitted.approximate_kernel(X)))
    assert not np.any(np.isnan(fitted.kernel_variance(X)))


def test_few_rows_generalise(rng):
    B = rng.normal(size=(64, 64)) / np.sqrt(np.arange(1, 65))
    X, new = rng.normal(size=(50, 64)) @ B, rng.normal(size=(100, 64)) @ B
    logs = [
        np.median(np.log(cls(coupling="iid").fit(X).kernel_variance(new)))
        for cls in (DERFSampler, OPRFSampler)
    ]
    assert logs[0] < logs[1]


def test_batches_and_merging_with_two_sides(sides):
    X, Y = sides
    whole = DERFSampler(random_state=0).fit(X, X_key=Y)
    parts = DERFSampler(random_state=0).partial_fit(X[:7], X_key=Y[:20])
    parts.partial_fit(X[7:], X_key=Y[20:])
    assert_allclose(parts.transform(X), whole.transform(X), rtol=1e-8)
    one = DERFSampler(random_state=0).fit(X[:9], X_key=Y[:9])
    one.merge(DERFSampler(random_state=1).fit(X[9:], X_key=Y[9:]))
    assert_allclose(one.transform_key(Y), whole.transform_key(Y), rtol=1e-8)


def test_too_many_columns():
    X = sparse.csr_array(np.zeros((3, 5000)))
    with pytest.raises(ValueError, match=r"at most 4096 features, .*X has 5000"):
        DERFSampler().fit(X)


def test_as_many_frequencies_as_columns(sides):
    fitted = DERFSampler(n_components=9).fit(sides[0])
    assert fitted.map_.frequencies.n_frequencies == 9
    assert_nested(DERFSampler(sigma=1.0), sides[0])
