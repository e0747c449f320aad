"""Closed forms, reference numbers, optima and limits of the single mechanisms."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.samplers import PositiveRBFSampler
from sklearn_crt.testing.estimates import assert_mean, seed_estimates
from sklearn_crt.theory import rf_conformity_gap, rff_gap

POSITIVE = [PositiveRBFSampler, OPRFSampler]


def fit(sampler, pair, columns, coupling, **options):
    if sampler is not TrigRBFSampler:
        options["center"] = False
    model = sampler(sigma=1.0, n_components=columns, coupling=coupling, **options)
    return model.fit(pair[0], X_key=pair[1])


def positive_gap(q, d):
    return rf_conformity_gap(np.sqrt(q), d, 0.0, relative=True)


def trigonometric_gap(q, d):
    return rff_gap(np.sqrt(q), d)


def optimal_A(q, d):
    """Return the parameter that is best for a single pair with |x + y|^2 = q."""
    row = 0.5 * np.sqrt(q) * np.eye(1, d)
    return OPRFSampler(sigma=1.0, center=False, n_components=1).fit(row).A_


@pytest.mark.parametrize(
    ("sampler", "columns", "name"),
    [
        (TrigRBFSampler, 2, "Var TrigRF"),
        (PositiveRBFSampler, 1, "Var PosRF"),
        (OPRFSampler, 1, "Var OPRF"),
    ],
)
@pytest.mark.parametrize("section", ["pair4", "pair64"])
def test_variance_of_one_frequency(section, sampler, columns, name, vectors, request):
    pair, numbers = request.getfixturevalue(section), vectors[section]
    fitted = fit(sampler, pair, columns, "iid")
    assert_allclose(fitted.exact_kernel(*pair), [[numbers["K Gaussian"]]], rtol=1e-12)
    assert_allclose(fitted.kernel_variance(*pair), [[numbers[name]]], rtol=1e-10)
    softmax = fit(sampler, pair, columns, "iid", kernel="softmax")
    factor = np.exp(numbers["N = |x|^2+|y|^2"])
    assert_allclose(softmax.exact_kernel(*pair), [[numbers["SM softmax"]]], rtol=1e-12)
    variance = softmax.kernel_variance(*pair)
    assert_allclose(variance, [[numbers[name] * factor]], rtol=1e-10)


@pytest.mark.parametrize(
    ("sampler", "coupling", "columns", "name"),
    [
        (PositiveRBFSampler, "orthogonal", 1, "MSE PosRF orf, one block of d"),
        (OPRFSampler, "orthogonal", 1, "MSE OPRF orf, one block of d"),
        (TrigRBFSampler, "orthogonal", 2, "MSE RFF orf, d frequencies"),
        (TrigRBFSampler, "iid", 2, "MSE RFF iid, d frequencies"),
    ],
)
@pytest.mark.parametrize("section", ["pair4", "pair64"])
def test_variance_of_a_block(
    section, sampler, coupling, columns, name, vectors, request
):
    pair = request.getfixturevalue(section)
    fitted = fit(sampler, pair, columns * pair[0].shape[1], coupling)
    assert_allclose(
        fitted.kernel_variance(*pair), [[vectors[section][name]]], rtol=1e-9
    )


@pytest.mark.parametrize("section", ["pair4", "pair64"])
def test_variance_of_two_blocks_and_a_rest(section, vectors, request):
    pair = request.getfixturevalue(section)
    fitted = fit(OPRFSampler, pair, 2 * pair[0].shape[1] + 2, "orthogonal")
    expected = vectors[section]["MSE OPRF orf, blocks d,d,2"]
    assert_allclose(fitted.kernel_variance(*pair), [[expected]], rtol=1e-9)


@pytest.mark.parametrize("section", ["pair4", "pair64"])
def test_optimal_parameter_of_a_pair(section, vectors, request):
    fitted = fit(OPRFSampler, request.getfixturevalue(section), 4, "iid")
    assert_allclose(fitted.A_, vectors[section]["OPRF A*"], rtol=1e-12)


def test_optimal_parameter_on_the_grid(vectors):
    for d, q, _, A, _ in vectors["rho_grid"]:
        assert_allclose(optimal_A(q, d), A, rtol=1e-12, atol=0)


def test_optimal_parameter_of_two_sets(vectors):
    X = np.array([[1, 0.5], [-0.5, 2], [0.3, -1]])
    Y = np.array([[0.2, 1], [-1, 0.4]])
    fitted = OPRFSampler(sigma=1.0, center=False).fit(X, X_key=Y)
    rho = vectors["sets"]["OPRF rho*"]
    assert_allclose(fitted.A_, (1 - 1 / rho) / 8, rtol=1e-10)
    centred = OPRFSampler(sigma=1.0).fit(X, X_key=Y)
    q = vectors["sets"]["mean |x+y-2c|^2, 2c = mean x + mean y"]
    assert_allclose(centred.A_, optimal_A(q, 2), rtol=1e-10)


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
def test_a_moved_parameter_is_worse(sigma, rng):
    X = rng.normal(size=(60, 5))
    fitted = OPRFSampler(sigma=sigma, coupling="iid", n_components=1).fit(X)
    x = sigma * (X - fitted.center_)
    sq_sums = np.sum((x[:, None] + x) ** 2, axis=2)

    def log_second_moments(A):  # of one frequency, over the squared kernel
        rho = 1 / (1 - 8 * A)
        return 5 * np.log((1 + rho) / (2 * np.sqrt(rho))) + rho * sq_sums

    kernel, variance = fitted.exact_kernel(X), fitted.kernel_variance(X)
    moments = kernel**2 * np.exp(log_second_moments(fitted.A_))
    assert_allclose(variance + kernel**2, moments, rtol=1e-9)
    best = log_second_moments(fitted.A_).mean()
    for factor in (0.98, 1.02):
        assert log_second_moments(factor * fitted.A_).mean() > best


def test_oprf_without_spread_is_posrf():
    X = np.zeros((3, 2))
    assert OPRFSampler().fit(X).A_ == 0
    assert optimal_A(0.0, 7) == 0


@pytest.mark.parametrize("sampler", POSITIVE)
def test_positive_features(sampler, rng):
    X = rng.normal(size=(50, 3))
    assert np.all(sampler(random_state=0).fit_transform(X) > 0)


def test_sines_and_cosines_have_norm_one(rng):
    X = rng.normal(size=(50, 3))
    features = TrigRBFSampler(n_components=64).fit_transform(X)
    assert_allclose(np.sum(features**2, axis=1), 1)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize(
    ("kernel", "columns"), [("gaussian", 1), ("gaussian", 9), ("softmax", 5)]
)
def test_odd_number_of_columns(kernel, columns, coupling):
    X = np.array([[0.6, 0.1, -0.3], [-0.2, 0.5, 0.9]])
    sampler = TrigRBFSampler(
        sigma=1.0, n_components=columns, coupling=coupling, kernel=kernel
    )
    estimates = seed_estimates(sampler, X, n_draws=350)
    fitted = sampler.fit(X)
    assert_mean(estimates, fitted.exact_kernel(X))
    squares = (estimates - fitted.exact_kernel(X)) ** 2
    assert_mean(squares, fitted.kernel_variance(X))


def test_last_single_column_is_nested_too(rng):
    X = rng.normal(size=(4, 3))
    odd = TrigRBFSampler(n_components=5, random_state=0).fit(X)
    even = TrigRBFSampler(n_components=6, random_state=0).fit(X)
    assert_allclose(odd.frequencies_, even.frequencies_)
    assert odd.phase_ == even.phase_


# ------------------------------------------------------------------- conformity
def test_positive_gap_against_reference_numbers(vectors):
    for d, v, _, _, log_gap, _ in vectors["conformity"]:
        assert_allclose(np.log(positive_gap(v**2, d)) + v**2, log_gap, rtol=1e-9)


def test_positive_gap_against_the_hypergeometric_function():
    q = np.linspace(0.5, 60, 40)
    for d in (1, 2, 3, 8, 64):
        expected = -np.expm1(np.log(special.hyp1f1(d, d / 2, q / 2)) - q)
        assert_allclose(positive_gap(q, d), expected, rtol=1e-7, atol=1e-14)


def test_positive_gap_in_bulk_equals_one_by_one(rng):
    q = np.concatenate([[0.0], rng.exponential(30, size=700), [900.0, 5000.0]])
    together = positive_gap(q.reshape(-1, 37), 6)
    assert together.shape == (19, 37)
    assert_allclose(together.ravel(), [positive_gap(v, 6) for v in q], rtol=1e-9)
    assert np.all((together >= 0) & (together <= 1 + 1e-12))
    assert together.ravel()[0] == 0


def test_trigonometric_gap_against_reference_numbers(vectors):
    for d, distance, _, gap in vectors["rff"]:
        assert_allclose(trigonometric_gap(distance**2, d), gap, rtol=1e-6, atol=1e-14)


def test_trigonometric_gap_changes_its_sign():
    r = np.linspace(0.01, 12, 2000)
    for d, change in ((3, 3.31), (8, 2.96), (64, 6.9)):
        first = r[trigonometric_gap(r**2, d) < 0][0]
        assert_allclose(first, change, atol=0.05)
    assert np.all(trigonometric_gap(r[r < 6] ** 2, 2) > 0)


def test_orthogonality_ratios_of_the_design():
    """Variance of a block of d over that of independent frequencies."""
    table = {4: (0.495, 0.471, 0.409, 0.605), 16: (0.163, 0.150, 0.158, 0.671)}
    for d, ratios in table.items():
        X = np.zeros((5, d))
        X[1:, 0] = 0.2, 0.5, 1, 2
        one, other = (
            TrigRBFSampler(sigma=1.0, n_components=2 * d, coupling=coupling)
            .fit(X)
            .kernel_variance(X)[0, 1:]
            for coupling in ("orthogonal", "iid")
        )
        assert_allclose(one / other, ratios, atol=6e-4)
