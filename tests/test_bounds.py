"""The bounds hold in simulation, and the printed version of one does not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, optimize, stats

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import Antithetic, Independent, Orthogonal, chi_law
from sklearn_crt.samplers import (
    GERFSampler,
    PositiveRBFSampler,
    angular_hybrid,
    gaussian_hybrid,
)
from sklearn_crt.theory import (
    hrf_max_relative_error,
    hrf_max_relative_error_bound,
    hrf_relative_error,
    oprf_legendre,
    oprf_log_sup,
    oprf_tail_bound,
    oprf_uniform_n_frequencies,
    orthogonal_gain_bound,
)

# the mean of the largest gradient over a ball, in closed form: no public result shows
# it alone, and a bound that is too large by a factor would be seen nowhere else
from sklearn_crt.theory.oprf import log_mean_gradient

PAIRS = Antithetic(Independent())


def log_product(w, x, y, A):
    d, sq_norms = len(x), x @ x + y @ y
    linear = np.sqrt(1 - 4 * A) * (w @ (x + y))
    square = 2 * A * np.sum(w**2, axis=-1)
    return 0.5 * d * np.log(1 - 4 * A) + square + linear - sq_norms


def statistics(x, y):
    return {
        "sq_sum": np.sum((x + y) ** 2),
        "sq_norms": x @ x + y @ y,
        "n_features": len(x),
    }


@pytest.mark.parametrize("d, A", [(1, -0.3), (2, -0.05), (6, -2.0)])
def test_supremum_is_that_of_one_product(d, A, rng):
    for _ in range(5):
        x, y = rng.normal(size=(2, d))
        log_sup = oprf_log_sup(**statistics(x, y), A=A)
        draws = log_product(10 * rng.normal(size=(5000, d)), x, y, A)
        assert draws.max() <= log_sup + 1e-9
        best = optimize.minimize(lambda w, *args: -log_product(w, *args), x, (x, y, A))
        assert_allclose(-best.fun, log_sup, rtol=1e-6, atol=1e-6)


def test_supremum_of_the_features_of_a_sampler(rng):
    X = rng.normal(size=(60, 3))
    fitted = OPRFSampler(sigma=0.6, n_components=5000, random_state=0).fit(X)
    rows = fitted.sigma_ * (X - fitted.center_)
    products = 5000 * fitted.transform(X[:1]) * fitted.transform(X[1:2])
    bound = oprf_log_sup(**statistics(rows[0], rows[1]), A=fitted.A_)
    assert np.log(products.max()) <= bound


def test_worst_case_of_the_norms():
    """sq_sum = 2 sq_norms, where x = y, gives the largest supremum."""
    log_sups = oprf_log_sup(np.linspace(0, 1.4, 8), 0.7, 4, A=-0.1)
    assert np.all(np.diff(log_sups) > 0)
    assert_allclose(log_sups[-1], 2 * np.log(1.4) + 0.7 / 0.4)


@pytest.mark.parametrize(
    "d, A, n_frequencies, scale",
    [(2, -0.3, 50, 0.6), (6, -0.1, 120, 0.3), (6, -0.4, 402, 0.3), (3, -1.0, 201, 1.0)],
)
def test_tail_is_below_its_bound(d, A, n_frequencies, scale, rng):
    x, y = scale * rng.normal(size=(2, d))
    kernel, n_draws = np.exp(-0.5 * np.sum((x - y) ** 2)), 2000
    W = rng.normal(size=(n_draws, n_frequencies, d))
    independent = np.exp(log_product(W, x, y, A)).mean(axis=1)
    drawn = Orthogonal().draw(chi_law, n_draws * n_frequencies, d, rng)
    W = drawn.to_dense().T.reshape(n_draws, n_frequencies, d)
    orthogonal = np.exp(log_product(W, x, y, A)).mean(axis=1)
    largest = np.exp(oprf_log_sup(**statistics(x, y), A=A))
    for share in (0.5, 0.9, 1.4):
        eps = share * largest * np.sqrt(np.log(2) / (2 * n_frequencies))
        bound, upper = (
            oprf_tail_bound(eps, n_frequencies, **statistics(x, y), A=A, upper=side)
            for side in (False, True)
        )
        assert upper < bound <= 1

        def frequent(events, bound):
            return stats.binom.sf(np.sum(events) - 1, n_draws, bound) < 1e-6

        assert not frequent(np.abs(independent - kernel) >= eps, bound)
        assert not frequent(independent - kernel >= eps, upper)
        assert not frequent(orthogonal - kernel >= eps, upper)


def quadrature(d, q, N, A):
    """Return products of features, and their probabilities, on a fine grid."""
    B, norm = np.sqrt(1 - 4 * A), np.linspace(0, 14, 4001)
    along = np.linspace(-14, 14, 8001 if d == 1 else 1601)
    first = np.exp(-0.5 * along**2)[:, None]
    if d == 1:
        weights, square = first, along[:, None] ** 2
    else:  # the norm of the other coordinates
        weights = first * (norm ** (d - 2) * np.exp(-0.5 * norm**2))
        square = along[:, None] ** 2 + norm**2
    exponent = 2 * A * square + (B * np.sqrt(q) * along[:, None] - N)
    return (1 - 4 * A) ** (d / 2) * np.exp(exponent), weights / weights.sum()


@pytest.mark.parametrize(
    "d, q, N, A, gap",
    [
        (1, 0.5, 0.7, -0.1, 0.1),
        (1, 0.5, 0.7, -0.1, 0.01),
        (1, 0.0, 0.3, -1.0, 0.2),
        (1, 2.0, 1.5, -0.05, 0.3),
        pytest.param(3, 1.2, 0.9, -0.2, 0.5, marks=pytest.mark.slow),
        (3, 0.1, 0.4, -2.0, 2.0),
    ],
)
def test_legendre_transform_against_quadrature(d, q, N, A, gap):
    products, weights = quadrature(d, q, N, A)
    kernel = np.exp(q / 2 - N)
    assert_allclose(np.sum(weights * products), kernel, rtol=1e-4)

    def negative(theta):
        top = theta * products.max()
        mean = np.sum(weights * np.exp(theta * products - top))
        return top + np.log(mean) - theta * (kernel + gap)

    ends = 1e-6, 200 / products.max()
    best = optimize.minimize_scalar(negative, bounds=ends, method="bounded")
    found = oprf_legendre(kernel + gap, q, N, d, A)
    assert_allclose(found, -best.fun, rtol=1e-4)
    # the quadratic approximation holds for small gaps
    variance = np.sum(weights * products**2) - kernel**2
    small = oprf_legendre(kernel + 1e-4, q, N, d, A)
    assert_allclose(small, 1e-8 / (2 * variance), rtol=1e-2)


def test_legendre_transform_at_its_ends():
    sup = np.exp(oprf_log_sup(0.5, 0.7, 4, -0.1))
    kernel = np.exp(0.25 - 0.7)
    values = np.linspace(kernel + 1e-6, sup * (1 - 1e-3), 30)
    transform = oprf_legendre(values, 0.5, 0.7, 4, -0.1)
    assert np.all(transform > 0)
    assert np.all(np.diff(transform) > 0)
    assert np.all(np.diff(transform, 2) > 0)  # it is convex
    assert oprf_legendre(1.001 * sup, 0.5, 0.7, 4, -0.1) == np.inf
    assert oprf_tail_bound(2 * sup, 10, 0.5, 0.7, 4, -0.1, upper=True) == 0
    with pytest.raises(ValueError, match="value must be greater than the kernel"):
        oprf_legendre(kernel, 0.5, 0.7, 4, -0.1)
    assert oprf_tail_bound(1e-30, 10, 0.5, 0.7, 4, -0.1, upper=True) == 1
    # where the supremum is huge, the bound says little, but stays a bound
    assert 0.99 < oprf_tail_bound(0.9, 100, 0.0, 0.0, 64, -0.5, upper=True) < 1


@pytest.mark.parametrize("wrong", [1.0, 2.0])
@pytest.mark.parametrize("kind", ["independent", "orthogonal"])
def test_upper_tail_is_below_its_legendre_bound_and_close_to_it(kind, wrong, rng):
    """An exponent that is twice as large would be violated."""
    d, A, n_frequencies, n_draws = 3, -0.3, 50, 20_000
    x, y = np.array([0.5, 0.2, 0.1]), np.array([0.4, 0.3, -0.1])
    kernel = np.exp(-0.5 * np.sum((x - y) ** 2))
    total = n_draws * n_frequencies
    if kind == "independent":
        W = rng.normal(size=(total, d))
    else:
        W = Orthogonal().draw(chi_law, total, d, rng).to_dense().T
    products = np.exp(log_product(W, x, y, A)).reshape(n_draws, n_frequencies)
    estimates, observed, limits = products.mean(axis=1), [], []
    for eps in (0.1, 0.2, 0.3, 0.4, 0.5):
        bound = oprf_tail_bound(eps, n_frequencies, **statistics(x, y), A=A, upper=True)
        claim = bound**wrong
        observed.append(np.mean(estimates - kernel >= eps))
        limits.append(stats.binom.isf(1e-6, n_draws, claim) / n_draws)
        if kind == "independent" and wrong == 1.0:
            assert observed[-1] > 0.02 * bound
        hoeffding = oprf_tail_bound(eps, n_frequencies, **statistics(x, y), A=A)
        assert bound < hoeffding
    holds = np.all(np.array(observed) <= limits)
    assert holds or wrong > 1
    assert not holds or wrong == 1 or kind == "orthogonal"


@pytest.mark.parametrize("M", [2, 4, 6, 11])
@pytest.mark.parametrize("A", [0.0, -0.2])
def test_orthogonal_frequencies_save_at_least_the_bound(A, M, rng):
    d = 4
    for scale in (0.05, 0.4, 1.0):
        x, y = scale * rng.normal(size=(2, 1, d))
        gains = []
        for coupling in ("iid", "orthogonal"):
            fitted = GERFSampler(
                sigma=1.0, A=A, s=1, n_components=M, coupling=coupling, center=False
            ).fit(x, X_key=y)
            gains.append(fitted.kernel_variance(x, y)[0, 0])
        gain = gains[0] - gains[1]
        zero = np.exp(-np.sum(x**2) - np.sum(y**2))
        bound = orthogonal_gain_bound(M, d, fitted.exact_kernel(x, y)[0, 0], zero)
        assert 0 < bound <= gain * (1 + 1e-6)
        if scale == 0.05:
            assert_allclose(bound, gain, rtol=0.05)  # it is sharp for small rows
        if d >= M:
            excess = fitted.exact_kernel(x, y)[0, 0] - zero
            assert_allclose(bound, (1 - 1 / M) * 2 / (d + 2) * excess**2)


def test_theorem_9_1_for_another_function(rng):
    """Products of cosh, whose power series has non-negative coefficients."""
    d, M, n_draws, z = 3, 3, 100_000, np.array([0.6, -0.2, 0.5])
    drawn = Orthogonal().draw(chi_law, n_draws * M, d, rng).to_dense().T
    blocks = {
        "orthogonal": drawn.reshape(n_draws, M, d),
        "independent": rng.normal(size=(n_draws, M, d)),
    }
    estimates = {
        kind: (np.cosh(W @ z) * np.exp(-0.3 * np.sum(W**2, axis=2))).mean(axis=1)
        for kind, W in blocks.items()
    }
    squares = {kind: (some - some.mean()) ** 2 for kind, some in estimates.items()}
    gain = squares["independent"].mean() - squares["orthogonal"].mean()
    error = np.sqrt(sum(some.var() for some in squares.values()) / n_draws)
    mean_at_zero = 1.6 ** (-d / 2)
    mean = mean_at_zero * np.exp(z @ z / (2 * 1.6))
    assert_allclose(estimates["independent"].mean(), mean, rtol=0.01)
    bound = orthogonal_gain_bound(M, d, mean, mean_at_zero)
    assert gain + stats.norm.isf(1e-6) * error > bound > 0
    # without the value at zero, the claim would be violated
    assert gain + stats.norm.isf(1e-6) * error < orthogonal_gain_bound(
        M, d, mean, 1e-300
    )


def test_tail_bound_is_not_idle(rng):
    A, n_frequencies, eps, zero = -1.0, 40, 0.35, np.zeros(1)
    W = rng.normal(size=(20_000, n_frequencies, 1))
    estimates = np.exp(log_product(W, zero, zero, A)).mean(axis=1)
    bound = oprf_tail_bound(eps, n_frequencies, 0.0, 0.0, 1, A)
    assert 0 < np.mean(np.abs(estimates - 1) >= eps) < bound < 0.3


def test_bound_of_the_paper_as_printed_is_violated(rng):
    """Theorem 4.2 lacks the factor (1 - 4A)^d."""
    d, A, n_frequencies, eps = 64, -0.5, 100, 0.9
    W = rng.normal(size=(1000, n_frequencies, d))
    estimates = np.exp(log_product(W, np.zeros(d), np.zeros(d), A)).mean(axis=1)
    observed = np.mean(np.abs(estimates - 1) >= eps)
    printed = 2 * np.exp(-n_frequencies * eps**2 / 2)  # exp((|x|^2 + |y|^2) / 2A) = 1
    assert_allclose(printed, 5e-18, rtol=0.05)
    assert observed > 0.95
    assert oprf_tail_bound(eps, n_frequencies, 0.0, 0.0, d, A) >= observed


@pytest.mark.each_value
@pytest.mark.parametrize("d", [1, 2, 7, 64])
@pytest.mark.parametrize("radius", [0.1, 0.8, 3.0])
@pytest.mark.parametrize("A", [-0.1, -2.0])
def test_bound_of_the_gradient_against_quadrature(d, radius, A):
    """The mean over the norm u of the largest gradient over the ball."""
    B, law = np.sqrt(1 - 4 * A), stats.chi(d)

    def log_integrand(u):
        t = np.minimum(radius, 0.5 * B * u)
        exponent = 2 * A * u**2 + 2 * (B * u * t - t**2) + law.logpdf(u)
        return np.log(np.sqrt(2) * (B * u + 2 * radius)) + exponent

    peak = log_integrand(np.linspace(0.01, 30, 3000)).max()
    edge = 2 * radius / B
    integral = sum(
        integrate.quad(lambda u: np.exp(log_integrand(u) - peak), *ends, limit=200)[0]
        for ends in ((1e-12, edge), (edge, edge + 3), (edge + 3, edge + 40))
    )
    expected = np.log(integral) + peak + 0.5 * d * np.log(1 - 4 * A)
    assert_allclose(log_mean_gradient(radius, d), expected, rtol=1e-6, atol=1e-6)


def test_bound_of_the_gradient_against_a_grid(rng):
    d, A, radius = 2, -0.4, 0.8
    B, steps = np.sqrt(1 - 4 * A), np.linspace(-radius, radius, 9)
    points = np.array([(a, b) for a in steps for b in steps if a * a + b * b <= 0.64])
    squares = np.sum(points**2, axis=1)
    largest = []
    for w in rng.normal(size=(300, d)):
        half = B * points @ w - squares
        log_values = 0.5 * d * np.log(1 - 4 * A) + 2 * A * w @ w + half[:, None] + half
        slopes = np.sum((B * w - 2 * points) ** 2, axis=1)
        gradients = np.exp(log_values) * np.sqrt(slopes[:, None] + slopes)
        largest.append(gradients.max())
    assert np.mean(largest) < np.exp(log_mean_gradient(radius, d))
    assert np.mean(largest) > 0.2 * np.exp(log_mean_gradient(radius, d))  # and not idle


@pytest.mark.parametrize("d", [1, 2])
def test_uniform_error_on_a_net(d, rng):
    radius, A, eps, delta = 0.5, -0.2, 0.3, 0.1
    number = oprf_uniform_n_frequencies(eps, delta, radius, d, A)
    steps = np.linspace(-radius, radius, 41 if d == 1 else 13)
    grid = np.stack(np.meshgrid(*[steps] * d), axis=-1).reshape(-1, d)
    grid = grid[np.linalg.norm(grid, axis=1) <= radius]
    kernel = np.exp(-0.5 * np.sum((grid[:, None] - grid) ** 2, axis=2))
    worst = []
    for _ in range(20):
        W = rng.normal(size=(number, d))
        exponent = A * np.sum(W**2, axis=1) + np.sqrt(1 - 4 * A) * grid @ W.T
        features = np.exp(exponent - np.sum(grid**2, axis=1)[:, None])
        features *= (1 - 4 * A) ** (d / 4)
        worst.append(np.abs(features @ features.T / number - kernel).max())
    assert np.sum(np.array(worst) > eps) == 0  # at most one in ten would do


@pytest.mark.parametrize("d", [1, 2])
def test_uniform_error_of_attention_on_a_net(d, rng):
    """Unnormalised weights of all queries and keys of a ball, theorem 4.3."""
    radius, A, eps, delta = 0.5, -0.2, 0.3, 0.1
    options = {"attention": True}
    number = oprf_uniform_n_frequencies(eps, delta, radius, d, A, **options)
    steps = np.linspace(-radius, radius, 41 if d == 1 else 13)
    grid = np.stack(np.meshgrid(*[steps] * d), axis=-1).reshape(-1, d)
    grid = grid[np.linalg.norm(grid, axis=1) <= radius]
    weights = np.exp(grid @ grid.T / np.sqrt(d))
    rows = grid / d**0.25
    worst = []
    for _ in range(20):
        W = rng.normal(size=(number, d))
        exponent = A * np.sum(W**2, axis=1) + np.sqrt(1 - 4 * A) * rows @ W.T
        features = np.exp(exponent - 0.5 * np.sum(rows**2, axis=1)[:, None])
        features *= (1 - 4 * A) ** (d / 4)
        worst.append(np.abs(features @ features.T / number - weights).max())
    assert np.sum(np.array(worst) > eps) == 0


def test_attention_scales_rows_and_errors():
    number = oprf_uniform_n_frequencies(0.1, 0.1, 1.2, 16, -0.4, attention=True)
    by_hand = oprf_uniform_n_frequencies(0.1 * np.exp(-0.36), 0.1, 0.6, 16, -0.4)
    assert_allclose(number, by_hand, rtol=1e-12)
    # the leading factor is Gamma / eps^2, where Gamma = S^2 exp(2 R^2 / sqrt(d))
    wide, narrow = (
        oprf_uniform_n_frequencies(eps, 0.1, 1.2, 16, -0.4, attention=True)
        for eps in (1e-6, 1e-5)
    )
    assert 100 < wide / narrow < 115


def test_uniform_number_in_its_arguments():
    arguments = {"eps": 0.1, "delta": 0.05, "radius": 0.5, "n_features": 3, "A": -0.3}
    number = oprf_uniform_n_frequencies(**arguments)
    assert isinstance(number, int)
    for change in ({"eps": 0.05}, {"delta": 0.01}, {"radius": 0.6}, {"n_features": 4}):
        assert oprf_uniform_n_frequencies(**{**arguments, **change}) > number
    by_hand = np.log(4 / 0.05) * 2 * 2.2**3 * np.exp(2 * 0.25 / 0.6) / 0.01
    assert number > by_hand  # the net has more than one point
    assert oprf_uniform_n_frequencies(0.1, 0.1, 5.0, 500, -0.01) == np.inf


def test_arrays_of_pairs(rng):
    X = rng.normal(size=(5, 3))
    q, N = np.sum((X + X[0]) ** 2, axis=1), np.sum(X**2, axis=1) + X[0] @ X[0]
    together = oprf_tail_bound(0.7, 10_000, q, N, 3, A=-0.5)
    alone = [oprf_tail_bound(0.7, 10_000, *pair, 3, A=-0.5) for pair in zip(q, N)]
    assert_allclose(together, alone, rtol=1e-12)
    assert np.all(np.diff(oprf_tail_bound([0.1, 0.2, 0.4], 900, 0.5, 0.7, 4, -0.1)) < 0)


RIGHT = {"sq_sum": 0.5, "sq_norms": 0.7, "n_features": 4, "A": -0.1}


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"A": 0}, "The 'A' parameter of .* must be"),
        ({"A": 0.1}, "The 'A' parameter of .* must be"),
        ({"n_features": 0}, "The 'n_features' parameter"),
        ({"sq_sum": -1.0}, "The 'sq_sum' parameter"),
        ({"sq_sum": [0.1, -1.0]}, "sq_sum must not contain negative"),
        ({"sq_norms": [np.nan]}, "sq_norms must not contain negative numbers or NaN"),
        ({"sq_sum": 1.5}, "sq_sum .* must be at most twice sq_norms"),
    ],
)
def test_wrong_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        oprf_log_sup(**{**RIGHT, **wrong})
    with pytest.raises(ValueError, match=message):
        oprf_tail_bound(0.1, 10, **{**RIGHT, **wrong})


def test_wrong_arguments_of_the_tail_and_the_uniform_bound():
    for eps in (0.0, [0.1, -0.1], np.nan):
        with pytest.raises(ValueError, match="eps"):
            oprf_tail_bound(eps, 10, **RIGHT)
    with pytest.raises(ValueError, match="'n_frequencies' parameter"):
        oprf_tail_bound(0.1, 0, **RIGHT)
    right = {"eps": 0.1, "delta": 0.1, "radius": 1.0, "n_features": 2, "A": -0.3}
    for wrong in ({"eps": 0}, {"delta": 1.0}, {"radius": 0.0}, {"A": 0.0}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"The '{name}' parameter"):
            oprf_uniform_n_frequencies(**{**right, **wrong})


@pytest.mark.parametrize("radius", [0.5, 1.0, 1.5, 2.5])
@pytest.mark.parametrize("kind", ["angular", "gaussian", "trigonometric", "positive"])
def test_relative_errors_of_hybrids_are_those_of_the_samplers(kind, radius):
    theta = np.linspace(0, np.pi, 7)
    X = radius * np.array([[1.0, 0.0]])
    Y = radius * np.stack([np.cos(theta), np.sin(theta)], axis=1)
    m, n = 5, 3
    common = {"sigma": 1.0, "coupling": "iid", "kernel": "softmax"}
    if kind == "trigonometric":
        sampler = TrigRBFSampler(n_components=2 * m, **common)
    elif kind == "positive":
        sampler = PositiveRBFSampler(
            n_components=2 * m, center=False, **common | {"coupling": PAIRS}
        )
    else:
        width = 4 * m * (n + 1) if kind == "angular" else 4 * m * (2 * n + 1)
        common |= {"n_components": width, "n_coefficients": n}
        if kind == "gaussian":
            sampler = gaussian_hybrid(lambda_sigma=0.7, **common)
        else:
            sampler = angular_hybrid(**common)
    sampler.fit(X, X_key=Y)
    expected = np.sqrt(sampler.kernel_variance(X, Y)) / sampler.exact_kernel(X, Y)
    error = hrf_relative_error(theta, radius, m, n, kind=kind, lambda_sigma=0.7)
    assert_allclose(error, expected[0], rtol=1e-6, atol=1e-7)
    largest = hrf_max_relative_error(radius, m, n, kind=kind, lambda_sigma=0.7)
    fine = hrf_relative_error(
        np.linspace(0, np.pi, 30_001), radius, m, n, kind=kind, lambda_sigma=0.7
    )
    assert_allclose(largest, fine.max(), rtol=1e-7)


def test_bound_of_the_angular_hybrid():
    for radius in (1.0, 1.5, 2.5):
        alone = np.exp(2 * radius**2) * -np.expm1(-4 * radius**2)
        for m, n in ((10, 1), (4, 8)):
            error = hrf_max_relative_error(radius, m, n)
            assert error <= hrf_max_relative_error_bound(radius, m, n)
            base = hrf_max_relative_error(radius, m, kind="positive")
            assert_allclose(base, alone / np.sqrt(2 * m))
            assert error < base
    with pytest.raises(ValueError, match=r"radius=0.9 must be at least 1"):
        hrf_max_relative_error_bound(0.9, 10, 1)


@pytest.mark.parametrize("kind", ["angular", "gaussian", "trigonometric", "positive"])
def test_error_of_long_rows_on_a_sphere(kind):
    theta, options = np.array([0.0, 0.5, np.pi / 2, np.pi]), {"kind": kind}
    for radius in (15.0, 18.0, 30.0):
        error = hrf_relative_error(theta, radius, 10, 4, **options)
        assert np.all(error >= 0)  # infinite, perhaps, and no NaN
        largest = hrf_max_relative_error(radius, 10, 4, **options)
        assert largest >= error.max()
        if kind == "angular":
            assert largest <= hrf_max_relative_error_bound(radius, 10, 4)
    # at a right angle both base maps have half of the exponent, exp(r^2)
    second = {"angular": 2 * (0.25 + 0.25 / 4), "trigonometric": 1.0, "positive": 1.0}
    if kind in second:
        error = hrf_relative_error(np.pi / 2, 18.0, 10, 4, **options)
        assert_allclose(np.log(error), 18.0**2 + 0.5 * np.log(second[kind] / 20))
