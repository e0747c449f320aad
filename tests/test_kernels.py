"""Exact radial kernels: values, limits, ends of the float range, input kinds."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as process
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import pairwise
from sklearn.svm import SVC

from sklearn_crt import NadarayaWatsonRegressor
from sklearn_crt.kernels import (
    Gaussian,
    Matern,
    exponential_power_kernel,
    matern_kernel,
)

KERNELS = [matern_kernel, exponential_power_kernel]
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
NUS = [0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 3.5, 4, 7.3, 12, 24.9, 25, 60.5]


@pytest.fixture
def pair(rng):
    return rng.normal(size=(300, 3)), rng.normal(size=(200, 3))


# ------------------------------------------------------------------------ values
def test_reference_numbers(vectors):
    numbers = vectors["kernels"]
    for r in (0.3, 1.0, 4.0):
        rows = np.zeros((1, 2)), np.array([[r, 0.0]])
        for nu in (0.5, 0.8, 1.5, 2.5, 4.0):
            value = matern_kernel(*rows, nu=nu)[0, 0]
            assert_allclose(value, numbers[f"Matern nu={nu} r={r}"], rtol=1e-13)
        for alpha in (0.7, 1.0, 1.5, 2.0):
            value = exponential_power_kernel(*rows, alpha=alpha)[0, 0]
            expected = numbers[f"exp-power alpha={alpha} r={r}"]
            assert_allclose(value, expected, rtol=1e-13)


@pytest.mark.parametrize("nu", NUS + [np.inf])
def test_matern_of_scikit_learn(nu, pair):
    expected = process.Matern(length_scale=2.0, nu=nu)(*pair)
    assert_allclose(matern_kernel(*pair, nu=nu, sigma=0.5), expected, atol=1e-12)


def test_one_kernel_by_two_names(pair):
    matern = matern_kernel(*pair, nu=0.5)
    assert_allclose(exponential_power_kernel(*pair, alpha=1.0), matern, rtol=1e-14)
    gaussian = pairwise.rbf_kernel(*pair, gamma=0.5)
    assert_allclose(matern_kernel(*pair, nu=np.inf), gaussian, rtol=1e-12)
    power = exponential_power_kernel(*pair, alpha=2.0, sigma=0.5**0.5)
    assert_allclose(power, gaussian, rtol=1e-12)


# ------------------------------------------------------------- ends of the floats
@pytest.mark.parametrize("nu", [0.01, *NUS, 200.3, 1e4, 1e12, np.inf])
def test_matern_everywhere(nu):
    r = np.concatenate([[0.0], np.geomspace(1e-320, 1e150, 3000)])
    logs = Matern(nu).log_profile(r)
    assert logs[0] == 0
    assert np.all(np.isfinite(logs))
    assert np.all(np.exp(logs) <= 1)
    assert np.all(np.diff(logs) <= 1e-12 * (1 + np.abs(logs[1:])))


@pytest.mark.parametrize("nu", [7.3, 24.9, 30.0, 200.0, 1000.5])
def test_matern_near_zero_is_its_series(nu):
    """Also at nu = 200, r = 0.1, where SciPy's kve overflows."""
    r = np.geomspace(1e-9, 0.1, 30)
    term, total = 1.0, np.zeros_like(r)
    for k in range(1, 7):  # t^2 = 2 nu r^2
        term = -term * (2 * nu * r**2) / (4 * k * (nu - k))
        total += term
    assert_allclose(np.expm1(Matern(nu).log_profile(r)), total, rtol=1e-6, atol=2e-13)


@pytest.mark.parametrize("nu", [1, 4, 24, 24.9, 25, 30, 40.5])
def test_matern_is_that_of_bessel_functions(nu):
    """In logs, on both sides of nu = 25, where an expansion for large nu begins."""
    r = np.geomspace(1e-3, 50, 300)
    t = np.sqrt(2 * nu) * r
    logs = (1 - nu) * np.log(2) - special.gammaln(nu) + nu * np.log(t) - t
    logs += np.log(special.kve(nu, t))
    near = np.isfinite(logs)
    assert near.mean() > 0.9
    assert_allclose(Matern(nu).log_profile(r)[near], logs[near], atol=2e-13)


@pytest.mark.parametrize("nu", [3.5, 4.5, 7.5, 20.5])
def test_half_integer_matern_is_a_polynomial_times_an_exponential(nu):
    """In whole numbers up to the last step, for any number of values."""
    t, n = np.geomspace(1e-3, 50, 10_000), int(nu - 0.5)
    total = sum(
        math.factorial(n + k)
        * (2 * t) ** (n - k)
        / math.factorial(k)
        / math.factorial(n - k)
        for k in range(n + 1)
    )
    total = total.astype(float)  # NumPy 1 leaves large whole numbers as objects
    expected = np.log(total * (math.factorial(n) / math.factorial(2 * n))) - t
    for size in (100, t.size):
        logs = Matern(nu).log_profile(t[:size] / np.sqrt(2 * nu))
        assert_allclose(logs, expected[:size], atol=2e-13, rtol=1e-13)


@pytest.mark.parametrize("nu", [0.01, 0.3, 0.8, 1.0, 4.0, 4.3, 10, 24, 24.9])
def test_many_values_are_those_of_few(nu):
    """Of many a table is made; the Bessel functions of SciPy err as much."""
    r = np.concatenate([[0.0], np.geomspace(1e-8, 1e4, 50_001)])
    kernel = Matern(nu)
    few = np.concatenate([kernel.log_profile(part) for part in np.array_split(r, 5)])
    many = kernel.log_profile(r)
    error = np.abs(many - few) / np.maximum(np.abs(few), 1)
    assert error.max() < 2e-13
    assert many[0] == 0
    assert np.all(many <= 0)


def test_large_nu_tends_to_the_gaussian_kernel():
    r = np.linspace(0, 5, 50)
    for nu in (1e2, 1e4, 1e6):
        logs = [kernel.log_profile(r) for kernel in (Matern(nu), Gaussian())]
        error = np.abs(np.exp(logs[0]) - np.exp(logs[1])).max()
        assert 0.05 / nu < error < 0.5 / nu


# -------------------------------------------------------------------- input kinds
@every_kernel
def test_float32_sparse_scales_and_blocks(kernel, pair):
    X, Y = pair
    sigma = np.array([0.5, 1.0, 2.0])
    expected = kernel(X, Y, sigma=sigma)
    assert_allclose(kernel(X * sigma, Y * sigma), expected, rtol=1e-10)
    single = kernel(X.astype(np.float32), Y.astype(np.float32), sigma=sigma)
    assert single.dtype == np.float32
    assert_allclose(single, expected, atol=1e-6)
    csr = kernel(sparse.csr_array(X), sparse.csr_matrix(Y), sigma=sigma)
    assert_allclose(csr, expected, rtol=1e-9)
    many = kernel(np.tile(X, (8, 1)), Y, sigma=sigma)  # more than are computed at once
    assert_allclose(many, np.tile(expected, (8, 1)), rtol=1e-10)


@every_kernel
def test_one_set(kernel, pair):
    K = kernel(pair[0])
    assert np.all(np.diag(K) == 1)
    assert_allclose(K, kernel(pair[0], pair[0].copy()), atol=1e-9)
    assert_allclose(K, K.T, rtol=1e-9)
    far = kernel(pair[0] + 1e6)  # distances are taken about the mean
    assert_allclose(far, K, atol=1e-8)


@every_kernel
def test_metric(kernel, pair, rng):
    A = rng.normal(size=(3, 3))
    M = A @ A.T + np.eye(3)
    r = cdist(*pair, metric="mahalanobis", VI=M)[:, :, None]
    by_distance = np.array([kernel(np.zeros((1, 1)), row)[0] for row in r])
    assert_allclose(kernel(*pair, shape_matrix=M), by_distance, rtol=1e-9)
    assert_allclose(kernel(pair[0][0], pair[1][0], shape_matrix=M), by_distance[0, 0])


@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (matern_kernel, {"nu": 4, "sigma": 0.3}),
        (matern_kernel, {"nu": 0.8}),
        (exponential_power_kernel, {"alpha": 0.7}),
    ],
)
def test_in_the_tools_of_scikit_learn(kernel, options, pair):
    X = pair[0][:40]
    y = (X[:, 0] > 0).astype(float)
    K = kernel(X, **options)
    single = pairwise.pairwise_kernels(X, metric=kernel, **options)
    assert_allclose(single, K, atol=1e-10)
    by_function = KernelRidge(kernel=kernel, kernel_params=options).fit(X, y)
    by_matrix = KernelRidge(kernel="precomputed").fit(K, y)
    assert_allclose(by_function.predict(X), by_matrix.predict(K), atol=1e-6)
    svc = SVC(kernel=lambda X, Y: kernel(X, Y, **options)).fit(X, y)
    assert svc.score(X, y) > 0.9
    exact = NadarayaWatsonRegressor(lambda X, Y: kernel(X, Y, **options), sigma=1.0)
    expected = K @ y / K.sum(axis=1)
    assert_allclose(exact.fit(X, y).predict(X), expected, atol=1e-9)


@every_kernel
def test_close_rows_that_are_far_from_zero(kernel, rng):
    X = 1e3 + rng.normal(size=(5, 3))
    Y = X + np.geomspace(1e-12, 1e-2, 5)[:, None]
    expected = [kernel(x, y) for x, y in zip(X, Y)]
    assert_allclose(np.diag(kernel(X, Y)), expected, rtol=1e-9)
    csr = kernel(sparse.csr_array(X), sparse.csr_array(Y))
    assert_allclose(np.diag(csr), expected, rtol=1e-9)
    many = kernel(np.ones((100, 2)), np.ones((90, 2)))
    assert np.all(many == 1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_close_rows_keep_the_digits_of_their_differences(dtype, rng):
    """Of |x|^2 + |y|^2 - 2 x.y few are left."""
    X = (100 * rng.normal(size=(20, 3))).astype(dtype)
    Y = (X + 0.01 * rng.normal(size=(20, 3))).astype(dtype)
    squares = ((X.astype(np.longdouble) - Y) ** 2).sum(axis=1)
    expected = np.exp(-np.sqrt(squares)).astype(dtype)
    found = np.diag(matern_kernel(X, Y, nu=0.5))
    assert found.dtype == dtype
    assert_allclose(found, expected, rtol=100 * np.finfo(dtype).eps)
    products = (X**2).sum(axis=1) + (Y**2).sum(axis=1) - 2 * (X * Y).sum(axis=1)
    lost = np.abs(np.exp(-np.sqrt(np.maximum(products, 0))) / expected - 1).max()
    assert lost > 1e3 * np.finfo(dtype).eps  # what the test is there for


# ------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: matern_kernel(X, nu=0), r"'nu' parameter .* \(0.0, inf\]"),
        (lambda X: exponential_power_kernel(X, alpha=2.1), r"'alpha' .* \(0.0, 2.0\]"),
        (lambda X: matern_kernel(X, sigma=-1.0), "'sigma' parameter"),
        (lambda X: matern_kernel(X, sigma=[1.0, 2.0]), r"shape \(3,\)"),
        (lambda X: matern_kernel(X, sigma=[1.0, 0.0, 1.0]), "must be positive"),
        (
            lambda X: matern_kernel(X, shape_matrix=np.eye(2)),
            r"shape_matrix has shape \(2, 2\)",
        ),
        (lambda X: matern_kernel(X, shape_matrix=-np.eye(3)), "eigenvalue is -1;"),
        (
            lambda X: matern_kernel(X, shape_matrix=np.triu(np.ones((3, 3)))),
            "symmetric",
        ),
        (lambda X: matern_kernel(X, shape_matrix=np.full((3, 3), np.nan)), "NaN"),
        (lambda X: matern_kernel(X * np.nan), "NaN"),
        (lambda X: matern_kernel(X, X[:, :2]), "dimension"),
        (lambda X: matern_kernel(X[0]), r"shape \(3,\) needs .* Y .*, got None"),
        (lambda X: matern_kernel(X[0], X), r"reshape\(1, -1\)"),
        (lambda X: matern_kernel(X[0], X[0, :2]), "needs a single row"),
        (lambda X: matern_kernel(X[0], X[1], sigma=[1.0, -1, 1]), "positive"),
        (lambda X: matern_kernel(X[0], X[1], sigma=[1.0, 2]), "shape"),
        (lambda X: matern_kernel(X[0], X[1] * np.nan), "Input Y contains NaN"),
    ],
)
def test_errors(call, message, pair):
    with pytest.raises(ValueError, match=message):
        call(pair[0])
