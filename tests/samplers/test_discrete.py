"""Monomials of integer frequencies: weights, signs, zeros, limits, shifts."""

import itertools
import math
import pickle
from contextlib import nullcontext
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import optimize, sparse, special, stats
from scipy.spatial.distance import cdist
from sklearn.base import clone

from sklearn_crt import NadarayaWatsonClassifier
from sklearn_crt.extend import FeatureMap
from sklearn_crt.samplers import GeometricSampler, PoissonSampler
from sklearn_crt.testing import assert_nested, assert_unbiased, check_sampler

pytestmark = pytest.mark.usefixtures("few_seeds")

SAMPLERS = [PoissonSampler, GeometricSampler]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)
both_signs = pytest.mark.parametrize("positive", [False, True])
both_kernels = pytest.mark.parametrize("kernel", ["gaussian", "softmax"])


def parameter(fitted):
    return fitted.lambda_ if isinstance(fitted, PoissonSampler) else fitted.p_


def optimal_p(means):
    """Return the best p for means of abs(x_l) times means of abs(y_l)."""
    row = np.sqrt(means)[None]
    return GeometricSampler(sigma=1.0, center=False, n_components=1).fit(row).p_


def log_second_moments(law, parameter, x, y):
    """Return the logs of E (f(x) g(y))^2 exp(|x|^2 + |y|^2), sums over all counts."""
    products = np.abs(x[:, None] * y)
    if law is PoissonSampler:
        return x.shape[1] * parameter + (products**2).sum(axis=2) / parameter
    z = 2 * products / np.sqrt(1 - parameter)
    return np.sum(np.log(special.i0e(z)) + z, axis=2) - x.shape[1] * np.log(parameter)


@pytest.fixture
def X(rng):
    return rng.normal([1.0, -2.0, 0.0], [1.0, 0.5, 0.7], size=(300, 3))


# --------------------------------------------------------------- reference numbers
@pytest.mark.parametrize("section", ["pair4", "pair64"])
@both_kernels
@pytest.mark.parametrize(
    ("sampler", "name", "law"),
    [(PoissonSampler, "PoisRF", "lambda*"), (GeometricSampler, "GeomRF", "p*")],
)
def test_variance_of_a_pair(section, sampler, name, law, kernel, vectors, request):
    pair, numbers = request.getfixturevalue(section), vectors[section]
    factor = np.exp(numbers["N = |x|^2+|y|^2"]) if kernel == "softmax" else 1.0
    plus = f"{name}+ {law}"
    if sampler is PoissonSampler:
        plus += " (shift c = min(x,y) - 0.1)"
    for key, variance, options in (
        (f"{name} {law}", f"Var {name}", {"center": False}),
        (plus, f"Var {name}+", {"positive": True, "epsilon": 0.1}),
    ):
        fitted = sampler(sigma=1.0, n_components=1, kernel=kernel, **options)
        fitted.fit(pair[0], X_key=pair[1])
        assert_allclose(parameter(fitted), numbers[key], rtol=1e-11)
        expected = numbers[variance] * factor
        assert_allclose(fitted.kernel_variance(*pair), [[expected]], rtol=1e-10)
        exact = numbers["K Gaussian"] * np.sqrt(factor)
        assert_allclose(fitted.exact_kernel(*pair), [[exact]], rtol=1e-10)


def test_parameters_of_two_sets(vectors):
    X = np.array([[1, 0.5], [-0.5, 2], [0.3, -1]])
    Y = np.array([[0.2, 1], [-1, 0.4]])
    poisson = PoissonSampler(sigma=1.0, center=False).fit(X, X_key=Y)
    assert_allclose(poisson.lambda_, vectors["sets"]["PoisRF lambda*"], rtol=1e-12)
    geometric = GeometricSampler(sigma=1.0, center=False).fit(X, X_key=Y)
    assert_allclose(geometric.p_, vectors["sets"]["GeomRF p*"], rtol=1e-12)


# ------------------------------------------------- the map, without random numbers
def log_law(fitted, counts):
    if isinstance(fitted, PoissonSampler):
        return stats.poisson.logpmf(counts, fitted.lambda_)
    return stats.geom.logpmf(counts + 1, fitted.p_)


@every_sampler
@pytest.mark.parametrize("options", [{}, {"center": False}, {"positive": True}])
def test_features_are_the_monomials_of_the_paper(sampler, options, X):
    X[:5, 2], X[5:9, 0] = 0, 0
    fitted = sampler(sigma=0.8, random_state=0, **options)
    features = fitted.fit_transform(X)
    counts = fitted.frequencies_
    assert_array_equal(counts, np.round(counts))
    x = 0.8 * (X - fitted.center_)
    weights = np.exp(-0.5 * (special.gammaln(counts + 1) + log_law(fitted, counts)))
    expected = np.prod(x[:, :, None] ** counts * weights, axis=1)
    expected *= np.exp(-0.5 * np.sum(x**2, axis=1, keepdims=True)) / 10
    assert_allclose(features, expected, rtol=1e-6, atol=1e-12)
    if "positive" in options:
        assert np.all(features > 0)
    if "center" in options:
        assert np.sum(features[:9] == 0) > 10  # zeros are exact


@every_sampler
@both_signs
@both_kernels
def test_sum_over_all_counts(sampler, positive, kernel, rng):
    """Kernel and variance without drawing: all counts, with their probabilities."""
    X, Y = 0.6 * rng.normal(size=(8, 2)), 0.6 * rng.normal(size=(6, 2))
    grid = np.array(list(itertools.product(range(60), repeat=2)), dtype=float)
    options = {"positive": positive, "kernel": kernel, "n_components": 1}
    fitted = sampler(sigma=0.9, **options).fit(X, X_key=Y)
    logs = log_law(fitted, grid)
    law = np.exp(logs.sum(axis=1))
    weights = np.exp(-0.5 * (special.gammaln(grid + 1) + logs)).prod(axis=1)
    features = []  # as in the test above
    for Z in (X, Y):
        x = 0.9 * (Z - fitted.center_)
        row = np.exp(-0.5 * np.sum(x**2, axis=1))
        if kernel == "softmax":
            row *= np.exp(0.5 * 0.9**2 * np.sum(Z**2, axis=1))
        features.append(np.prod(x[:, None] ** grid, axis=2) * weights * row[:, None])
    queries, keys = features
    assert_allclose((law * queries) @ keys.T, fitted.exact_kernel(X, Y), rtol=1e-9)
    variance = (law * queries**2) @ (keys**2).T - fitted.exact_kernel(X, Y) ** 2
    claim = fitted.kernel_variance(X, Y)
    assert_allclose(variance, claim, rtol=1e-7, atol=1e-12)


@every_sampler
@pytest.mark.parametrize("sigma", [0.3, 1.0, 6.0])
def test_law_of_the_counts(sampler, sigma, X):
    fitted = sampler(sigma=sigma, n_components=20_000, random_state=0).fit(X)
    counts = fitted.frequencies_
    bins = np.arange(counts.max() + 2)
    for row in counts:
        observed = np.histogram(row, bins)[0]
        expected = row.size * np.exp(log_law(fitted, bins[:-1]))
        common = expected > 10
        rest = row.size - expected[common].sum()
        p_value = stats.chisquare(
            [*observed[common], observed[~common].sum() + 1e-9],
            [*expected[common], rest + 1e-9],
        ).pvalue
        assert p_value > 1e-6
    assert np.all(np.abs(np.corrcoef(counts) - np.eye(3)) < 0.04)


# ----------------------------------------------------------------------- contract
# positive: coordinates up to 1.5, whose powers have heavy tails at sigma=1
@pytest.mark.each_value
@every_sampler
@pytest.mark.parametrize(("positive", "sigma"), [(False, 1.0), (True, 0.4)])
@both_kernels
def test_contract(sampler, positive, sigma, kernel):
    check_sampler(sampler(sigma=sigma, positive=positive, kernel=kernel))


@pytest.mark.each_value
@every_sampler
@both_signs
@pytest.mark.parametrize(
    ("n_features", "sigma"),
    [(1, 0.5), pytest.param(9, 0.2, marks=pytest.mark.slow)],
)
def test_contract_in_other_dimensions(sampler, positive, n_features, sigma):
    check_sampler(sampler(sigma=sigma, positive=positive), n_features)


@every_sampler
def test_contract_sees_a_lost_sign_and_a_wrong_sigma(sampler, with_fault):
    def unsigned(self, rows, **options):
        return None, super(type(self), self).log_features(rows, **options)[1]

    def off(self, rows, **options):
        return super(type(self), self).log_features(rows.scaled(1.02), **options)

    lost, wide = (
        with_fault(sampler, log_features=f, features=FeatureMap.features)
        for f in (unsigned, off)
    )
    for wrong in (lost(sigma=1.0), wide(sigma=1.0), wide(sigma=1.0, positive=True)):
        with pytest.raises(AssertionError, match="biased"):
            assert_unbiased(wrong)


# ----------------------------------------------------------------------- optima
@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("options", [{}, {"center": False}, {"positive": True}])
def test_a_moved_lambda_is_worse(sigma, options, X):
    fitted = PoissonSampler(sigma=sigma, n_components=1, **options).fit(X)
    x = sigma * (X - fitted.center_)
    products = np.einsum("il,jl->ijl", x**2, x**2).sum(axis=2).mean()
    optimum = fitted.lambda_
    assert_allclose(optimum, math.sqrt(products / 3), rtol=1e-9)

    assert_optimal(fitted.fit(X[::10]), X[::10], X[::10])


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
def test_a_moved_p_is_worse(sigma, pair4):
    fitted = GeometricSampler(sigma=sigma, center=False, n_components=1)
    assert_optimal(fitted.fit(pair4[0], X_key=pair4[1]), *pair4)


def assert_optimal(fitted, X, Y):
    """Assert the variance of one frequency, and that its parameter is the best."""
    x, y = (fitted.sigma_ * (Z - fitted.center_) for Z in (X, Y))
    sq_norms = np.add.outer(np.sum(x**2, axis=1), np.sum(y**2, axis=1))

    def moments(value):
        return log_second_moments(type(fitted), value, x, y)

    best, kernel = moments(parameter(fitted)), fitted.exact_kernel(X, Y)
    expected = np.exp(best - sq_norms) - kernel**2
    assert_allclose(fitted.kernel_variance(X, Y), expected, rtol=1e-6, atol=1e-12)
    for factor in (0.98, 1.02):
        if isinstance(fitted, PoissonSampler):
            moved = factor * fitted.lambda_
        else:
            moved = 1 - factor * (1 - fitted.p_)
        assert moments(moved).mean() > best.mean()


@pytest.mark.parametrize("scale", [1e-4, 1e-2, 1.0, 30.0, 1e4])
def test_optimal_p_minimises_the_second_moment(scale, rng):
    means = scale * rng.random(7)

    def objective(u):
        z = 2 * means * math.exp(u / 2)
        log_i0 = np.log(special.i0e(z)) + z
        return -7 * math.log(-math.expm1(-u)) + log_i0.sum()

    found = -math.log1p(-optimal_p(means))
    bounds = found / 10, min(10 * found, 18)
    best = optimize.minimize_scalar(objective, bounds=bounds, method="bounded")
    assert objective(found) <= best.fun * (1 + 1e-9)


def test_optimal_p_at_its_limits():
    assert optimal_p(np.full(3, 1e-20)) == 1 - 1e-8
    assert optimal_p(np.full(3, 1e200)) == 1e-8
    small, large = np.array([3e-5, 4e-5]), np.full(3, 1e5)
    assert_allclose(1 - optimal_p(small), np.sqrt(np.mean(small**2)), rtol=1e-3)
    assert_allclose(optimal_p(large), 1e-5, rtol=1e-3)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("options", [{}, {"center": False}, {"positive": True}])
def test_statistic_of_the_geometric_law(options, weighted, X, rng):
    Y = rng.normal(1.0, 0.3, size=(50, 3))
    w = rng.integers(0, 3, size=300) if weighted else None
    sigma = np.array([0.3, 1.0, 2.0])
    fitted = GeometricSampler(sigma=sigma, **options).fit(X, X_key=Y, sample_weight=w)
    x, y = (sigma * (Z - fitted.center_) for Z in (X, Y))
    means = np.average(np.abs(x), axis=0, weights=w) * np.abs(y).mean(axis=0)
    assert_allclose(fitted.p_, optimal_p(means), rtol=1e-9)


def test_geometric_law_of_many_rows_comes_from_a_sample(rng):
    X = rng.exponential(size=(6000, 3))
    keys = rng.normal(size=(4000, 3))
    whole = GeometricSampler(random_state=0).fit(X, X_key=keys)
    parts = GeometricSampler(random_state=0)
    for rows, key_rows in zip(np.split(X, 8), np.split(keys, 8), strict=True):
        parts.partial_fit(rows, X_key=key_rows)
    assert_allclose(parts.p_, whole.p_, rtol=1e-12)
    assert_array_equal(parts.frequencies_, whole.frequencies_)
    x, y = (whole.sigma_ * np.abs(Z - whole.center_) for Z in (X, keys))
    exact = optimal_p(x.mean(axis=0) * y.mean(axis=0))
    assert_allclose(whole.p_, exact, rtol=0.05)
    assert whole.p_ != exact
    x, y = (np.abs(Z) for Z in (X, keys))
    raw = GeometricSampler(center=False, sigma=1.0).fit(X, X_key=keys)
    assert_allclose(raw.p_, optimal_p(x.mean(axis=0) * y.mean(axis=0)), rtol=1e-10)


# -------------------------------------------------------- frequencies of the data
@every_sampler
@both_signs
def test_frequencies_are_drawn_again(sampler, positive, X):
    first = sampler(sigma=1.0, positive=positive, random_state=0).fit(X[:100])
    before, law = first.frequencies_, parameter(first)
    first.partial_fit(3 * X[100:])
    assert parameter(first) != law
    assert not np.array_equal(first.frequencies_, before)
    together = np.vstack([X[:100], 3 * X[100:]])
    whole = clone(first).fit(together)
    assert_array_equal(whole.frequencies_, first.frequencies_)
    assert_allclose(first.transform(X), whole.transform(X), rtol=1e-5, atol=1e-12)


@every_sampler
@pytest.mark.parametrize("sigma", [0.1, 30.0])
@pytest.mark.filterwarnings("ignore:.* features of .* rows are too:RuntimeWarning")
def test_draws_nest_where_counts_are_small_and_large(sampler, sigma, X):
    assert_nested(sampler(sigma=sigma), X)


@every_sampler
@both_signs
def test_another_sigma_without_the_rows(sampler, positive, X):
    one = sampler(sigma=0.5, positive=positive, random_state=0).fit(X)
    other = sampler(sigma=2.0, positive=positive, random_state=0).fit(X)
    assert_allclose(one.with_sigma(2.0).transform(X), other.transform(X), rtol=1e-9)


# -------------------------------------------------------------- zeros and limits
@every_sampler
@pytest.mark.parametrize("options", [{}, {"center": False}, {"positive": True}])
def test_columns_of_zeros_and_constants(sampler, options, X):
    padded = np.column_stack([X, np.zeros(300), np.full(300, 0.1)])
    if not options.get("center", True):
        padded[:, 4] = 0
    fitted = sampler(sigma=0.5, n_components=4000, random_state=0, **options)
    features = fitted.fit_transform(padded)
    assert np.all(np.isfinite(features))
    counts = fitted.frequencies_
    taken = counts[3] > 0
    assert 0 < taken.mean() < 1
    assert_allclose(features[:, taken], 0, atol=1e-4)  # epsilon where positive
    if "positive" not in options:
        assert np.all(features[:, taken] == 0)
    rows = padded[:20]
    error = fitted.approximate_kernel(rows) - fitted.exact_kernel(rows)
    assert np.mean(error**2) < 5 * np.mean(fitted.kernel_variance(rows))


@every_sampler
def test_raw_rows_without_spread(sampler):
    X = np.full((5, 2), 7.0)
    raw = sampler(center=False, sigma=1.0).fit(X)
    assert np.all(np.isfinite(raw.transform(X)))
    with pytest.warns(UserWarning, match="All rows are equal"):
        sampler(center=False).fit(np.zeros((5, 2)))


@every_sampler
def test_zero_to_the_power_of_zero_is_one(sampler):
    X = np.array([[0.0, 0.5], [0.5, 0.0], [0.0, 0.0], [0.4, -0.3]])
    fitted = sampler(sigma=1.0, center=False, n_components=300, random_state=0).fit(X)
    ((_, signs, logs),) = fitted.map_.iter_log_features(X)
    counts = fitted.frequencies_
    assert_array_equal(logs[0] == -np.inf, counts[0] > 0)
    assert_array_equal(logs[1] == -np.inf, counts[1] > 0)
    assert_array_equal(logs[2] == -np.inf, counts.any(axis=0))
    assert_array_equal(signs[3], (-1) ** counts[1])
    assert not np.any(np.isnan(logs))
    assert not np.any(np.isnan(signs))


@every_sampler
@both_signs
@both_kernels
@pytest.mark.each_value
@pytest.mark.parametrize("sigma", [1e-8, 1e-2, 1.0, 1e2, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_nan_at_any_sigma(sampler, positive, kernel, sigma, dtype, X):
    X = X[:60].astype(dtype)
    X[:3, 1] = 0
    fitted = sampler(sigma=sigma, positive=positive, kernel=kernel, random_state=0)
    fitted.fit(X)
    for _, mantissa, exponent in fitted.map_.iter_log_features(X):
        assert mantissa is None or np.all(np.abs(mantissa) == 1)
        assert np.all(exponent < np.inf)
    if kernel == "gaussian" or sigma <= 1e2:
        with np.errstate(over="ignore", invalid="ignore"):
            assert not np.any(np.isnan(fitted.approximate_kernel(X)))
    assert not np.any(np.isnan(fitted.kernel_variance(X)))
    if sigma <= 1e2:
        law = parameter(fitted)
        assert 1e-12 <= law <= 1e15


@every_sampler
@both_signs
@pytest.mark.parametrize("sigma", [1e-2, 1.0, 1e2])
@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
def test_kernel_averages_are_finite(sampler, positive, sigma, X):
    y = (X[:, 0] > 1).astype(int)
    inner = sampler(sigma=sigma, positive=positive, random_state=0)
    model = NadarayaWatsonClassifier(inner).fit(X[:200], y[:200])
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_large_counts_are_exact(rng):
    """p at 1e-8: counts of about 1e8, whose powers are logs of thousands of digits."""
    X = 1e7 * (1 + rng.random((40, 2)))
    fitted = GeometricSampler(sigma=1.0, center=False, random_state=0).fit(X)
    assert fitted.p_ == 1e-8
    counts = fitted.frequencies_
    assert_array_equal(counts, np.round(counts))
    assert_allclose(counts.mean(), 1e8, rtol=0.5)
    ((_, _, logs),) = fitted.map_.iter_log_features(X)
    assert np.all(np.isfinite(logs))


# ------------------------------------------------------------------------- shift
@every_sampler
@both_kernels
def test_values_below_the_minimum_are_raised(sampler, kernel, X, rng):
    fitted = sampler(sigma=0.5, positive=True, epsilon=1e-3, kernel=kernel)
    fitted.fit(X)
    assert_allclose(fitted.center_, X.min(axis=0) - 1e-3 / 0.5)
    Y = X[:20] - rng.exponential(2.0, size=(20, 3))
    raised = np.maximum(Y, X.min(axis=0))
    assert np.any(raised != Y)
    assert np.any(np.all(raised == Y, axis=1))
    factor = np.exp(0.5 * 0.25 * (np.sum(Y**2, axis=1) - np.sum(raised**2, axis=1)))
    if kernel == "gaussian":
        factor = np.ones(20)
    features = fitted.transform(raised) * factor[:, None]
    assert_allclose(fitted.transform(Y), features, rtol=1e-9)
    assert_allclose(
        fitted.kernel_variance(Y, X),
        fitted.kernel_variance(raised, X) * factor[:, None] ** 2,
        rtol=1e-8,
    )
    plain = sampler(sigma=0.5, kernel=kernel).fit(X)
    assert_allclose(fitted.exact_kernel(Y), plain.exact_kernel(Y), rtol=1e-10)


@every_sampler
def test_shift_is_below_both_sides(sampler, X, rng):
    Y = rng.normal(size=(50, 3))
    sigma = np.array([1.0, 2.0, 4.0])
    fitted = sampler(sigma=sigma, positive=True, epsilon=0.01).fit(X, X_key=Y)
    least = np.vstack([X, Y]).min(axis=0)
    assert_allclose(fitted.center_, least - 0.01 / sigma)
    weights = np.ones(300)
    weights[X.argmin(axis=0)] = 0
    fitted.fit(X, sample_weight=weights)
    assert_allclose(fitted.center_, X[weights > 0].min(axis=0) - 0.01 / sigma)


@every_sampler
def test_positive_features_far_from_zero_in_float32(sampler, rng):
    X = (1e4 + rng.normal(size=(50, 3))).astype(np.float32)
    fitted = sampler(sigma=0.5, positive=True, random_state=0).fit(X)
    for _, mantissa, exponent in fitted.map_.iter_log_features(X):
        assert mantissa is None
        assert np.all(np.isfinite(exponent))


@every_sampler
def test_center_is_the_mean(sampler, X):
    assert_allclose(sampler().fit(X).center_, X.mean(axis=0))
    assert_allclose(sampler(center=False).fit(X).center_, 0)


@every_sampler
@pytest.mark.parametrize("epsilon", [0, -1.0, np.inf])
def test_epsilon_out_of_range(sampler, epsilon, X):
    with pytest.raises(ValueError, match="'epsilon' parameter of"):
        sampler(epsilon=epsilon).fit(X)


@every_sampler
def test_the_default_of_epsilon(sampler, X):
    options = {"positive": True, "random_state": 0}
    default, number = sampler(**options), sampler(epsilon=1e-8, **options)
    assert_array_equal(default.fit_transform(X), number.fit_transform(X))


@every_sampler
@pytest.mark.parametrize(
    ("params", "message"),
    [
        (
            {"epsilon": 1e-3},
            "epsilon=0.001 has no effect with positive=False.*epsilon=None",
        ),
        (
            {"epsilon": 1e-8},
            "epsilon=1e-08 has no effect with positive=False.*epsilon=None",
        ),
        (
            {"positive": True, "center": False},
            "center=False has no effect with positive=True.*center=True",
        ),
    ],
)
def test_parameters_without_effect_are_refused(sampler, params, message, X):
    with pytest.raises(ValueError, match=message):
        sampler(**params).fit(X)


# ------------------------------------------------------------------------ sparse
@every_sampler
@both_kernels
@pytest.mark.parametrize("options", [{}, {"center": False}, {"positive": True}])
def test_sparse_equals_dense(sampler, kernel, options, rng, not_dense):
    X = sparse.random(60, 30, density=0.2, random_state=0, format="csr")
    X.data -= 0.4
    dense = sampler(sigma=0.8, kernel=kernel, random_state=0, **options)
    dense.fit(X.toarray())
    expected = dense.transform(X.toarray())
    variance = dense.kernel_variance(X.toarray())
    for kind in (sparse.csr_array, sparse.csr_matrix):
        table = kind(X)
        # the error of a positive map is stated on 16 x 16 pairs, which are dense
        with nullcontext() if "positive" in options else not_dense(kind):
            fitted = clone(dense).fit(table)
        assert_array_equal(fitted.frequencies_, dense.frequencies_)
        with not_dense(kind):
            features = fitted.transform(table)
            stated = fitted.kernel_variance(table)
        # a coordinate of epsilon has a relative error of 1e-8
        assert_allclose(features, expected, rtol=1e-6, atol=1e-12)
        assert_allclose(stated, variance, rtol=1e-9)


@every_sampler
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_minimum_of_columns(sampler, convert):
    X = np.array([[1.0, -2.0, 0.0], [-3.0, 0.0, 5.0], [9.0, 4.0, 7.0]])
    options = {"sigma": 1.0, "positive": True, "epsilon": 1e-3}
    some = sampler(**options).fit(convert(X), sample_weight=[1.0, 0.0, 2.0])
    assert_allclose(some.center_, np.array([1, -2, 0]) - 1e-3)
    for order in (1, -1):
        parts = [sampler(**options).fit(convert(X[k : k + 2])) for k in (0, 1)][::order]
        assert_allclose(parts[0].merge(parts[1]).center_, np.array([-3, -2, 0]) - 1e-3)


@every_sampler
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("value", [0.0, 7.0, -1e6])
def test_rows_near_rows_that_are_all_equal(sampler, positive, value):
    X = np.full((20, 3), value)
    with pytest.warns(UserWarning, match="All rows are equal") as caught:
        fitted = sampler(positive=positive, random_state=0).fit(X)
    assert caught[0].filename == __file__
    near = X[:1] + np.array([[0.1, -0.2, 0.1], [0.0, 0.3, 0.1]]) / fitted.sigma_
    near = np.vstack([X[:1], np.maximum(near, X[:1]) if positive else near])
    assert np.all(fitted.kernel_variance(near) * fitted.map_.n_components < 1)
    assert np.all(np.abs(fitted.approximate_kernel(near)) < 2)


@every_sampler
def test_a_constant_column_warns_of_nothing(sampler, X):
    X = X.copy()
    X[:, 1] = 5.0
    fitted = sampler(random_state=0).fit(X)
    moved = X[:5] + np.array([0.0, 0.3, 0.0]) / fitted.sigma_
    assert np.all(np.isfinite(fitted.kernel_variance(moved)))


@every_sampler
@pytest.mark.parametrize("options", [{}, {"center": False}, {"positive": True}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_transform_is_mantissa_times_exponential(sampler, options, dtype, convert, X):
    """Of zeros, empty rows and columns without any entry too."""
    X = np.column_stack([X, np.zeros(300)]).astype(dtype)
    X[::3, 1], X[7] = 0, 0
    fitted = sampler(n_components=70, random_state=0, **options)
    table = convert(X)
    features = fitted.fit(table).transform(table)
    for rows, mantissa, exponent in fitted.map_.iter_log_features(table):
        expected = np.exp(exponent) * (1 if mantissa is None else mantissa)
        tolerance = 1e-5 if dtype == np.float32 else 1e-13
        assert_allclose(features[rows], expected, rtol=tolerance)
        assert "positive" in options or np.any(expected == 0)  # the column of zeros


@every_sampler
def test_a_pickle_holds_no_table(sampler, X):
    fitted = sampler(n_components=640, random_state=0).fit(X)
    size = len(pickle.dumps(fitted))
    fitted.transform(X)
    assert len(pickle.dumps(fitted)) < size + 640 * (8 + X.shape[1]) + 1000


# ---------------------------------------------------- the variance, with all its digits
def exact_bessel(z):
    """Return I_0 of a Decimal."""
    total = term = Decimal(1)
    k = 0
    while term > total * Decimal(10) ** -50:
        k += 1
        term *= (z / 2) ** 2 / k**2
        total += term
    return total


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    ("scale", "d"), [(1e-3, 4), (0.1, 3), (1.0, 40), (3.0, 8), (8.0, 3)]
)
def test_geometric_variance_has_all_its_digits(scale, d, convert, rng):
    """From nearly none, where p is near 1, to arguments that need many terms."""
    X, Y = scale * rng.normal(size=(5, d)), scale * rng.normal(size=(7, d))
    X[0], X[1, 0], Y[2, 0] = 0, 0, 0
    fitted = GeometricSampler(sigma=1.0, center=False, n_components=1).fit(X, X_key=Y)
    variance = fitted.kernel_variance(convert(X), convert(Y))
    with localcontext() as context:
        context.prec = 60
        p = Decimal(fitted.p_)
        root = (1 - p).sqrt()
        for (i, x), (j, y) in itertools.product(enumerate(X), enumerate(Y)):
            x, y = (list(map(Decimal, row)) for row in (x, y))
            ratio = Decimal(1)  # second moment over the squared kernel
            for one, other in zip(x, y, strict=True):
                ratio *= exact_bessel(2 * abs(one * other) / root) / p
                ratio *= (-2 * one * other).exp()
            distance = sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
            expected = float((ratio - 1) * (-distance).exp())
            # exponents of about the squared norms are rounded to 16 digits
            size = 1 + float(sum(a * a for a in (*x, *y)))
            assert_allclose(variance[i, j], expected, rtol=4e-15 * size + 1e-13)


@pytest.mark.parametrize("shift", [0.0, 3.5])  # which alone makes products overflow
@pytest.mark.parametrize("d", [3, 40, 300])  # one group of coordinates, and several
def test_a_variance_in_groups_of_coordinates(shift, d, rng):
    X, Y = shift + rng.normal(scale=0.2 if shift else 1.0, size=(2, 9, d))
    Y[:, 2] = 0
    if shift == 0:
        X[3] *= 20  # beyond the series
    fitted = GeometricSampler(sigma=1.0, center=False, n_components=1).fit(X, X_key=Y)
    excess = log_second_moments(GeometricSampler, fitted.p_, X, Y) - 2 * X @ Y.T
    expected = np.exp(excess + np.log(-np.expm1(-excess)) - cdist(X, Y) ** 2)
    assert_allclose(fitted.kernel_variance(X, Y), expected, rtol=1e-8)


@every_sampler
def test_variance_of_equal_rows_far_from_the_origin(sampler, rng):
    X = 1e4 + rng.normal(size=(5, 3))
    fitted = sampler(sigma=1.0).fit(X)
    one = np.diag(fitted.kernel_variance(X))
    assert_allclose(one, np.diag(fitted.kernel_variance(X, X.copy())), rtol=1e-12)
    assert np.all(one > 0)
