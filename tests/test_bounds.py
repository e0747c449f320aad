"""The bound of large errors in the guide of OPRF holds, and that of the paper not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, stats

from sklearn_crt import OPRFSampler
from sklearn_crt.extend import Orthogonal, chi_law


def log_product(w, x, y, A):
    d, sq_norms = len(x), x @ x + y @ y
    linear = np.sqrt(1 - 4 * A) * (w @ (x + y))
    square = 2 * A * np.sum(w**2, axis=-1)
    return 0.5 * d * np.log(1 - 4 * A) + square + linear - sq_norms


def log_largest(x, y, A):
    """Return log S, where S is the largest product of the features of x and y."""
    q, sq_norms = np.sum((x + y) ** 2), x @ x + y @ y
    return 0.5 * len(x) * np.log(1 - 4 * A) + q * (0.5 - 1 / (8 * A)) - sq_norms


def tail_bound(eps, n_frequencies, x, y, A):
    return 2 * np.exp(-2 * n_frequencies * (eps / np.exp(log_largest(x, y, A))) ** 2)


@pytest.mark.parametrize("d, A", [(1, -0.3), (2, -0.05), (6, -2.0)])
def test_supremum_is_that_of_one_product(d, A, rng):
    for _ in range(5):
        x, y = rng.normal(size=(2, d))
        log_sup = log_largest(x, y, A)
        draws = log_product(10 * rng.normal(size=(5000, d)), x, y, A)
        assert draws.max() <= log_sup + 1e-9
        best = optimize.minimize(lambda w, *args: -log_product(w, *args), x, (x, y, A))
        assert_allclose(-best.fun, log_sup, rtol=1e-6, atol=1e-6)


def test_supremum_of_the_features_of_a_sampler(rng):
    X = rng.normal(size=(60, 3))
    fitted = OPRFSampler(sigma=0.6, n_components=5000, random_state=0).fit(X)
    rows = fitted.sigma_ * (X - fitted.center_)
    products = 5000 * fitted.transform(X[:1]) * fitted.transform(X[1:2])
    assert np.log(products.max()) <= log_largest(rows[0], rows[1], fitted.A_)


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
    for share in (0.5, 0.9, 1.4):
        eps = share * np.exp(log_largest(x, y, A))
        eps *= np.sqrt(np.log(2) / (2 * n_frequencies))
        bound = tail_bound(eps, n_frequencies, x, y, A)
        assert 0.2 < bound / 2 < 1

        def frequent(events, bound):
            return stats.binom.sf(np.sum(events) - 1, n_draws, min(bound, 1)) < 1e-6

        assert not frequent(np.abs(independent - kernel) >= eps, bound)
        assert not frequent(independent - kernel >= eps, bound / 2)
        assert not frequent(orthogonal - kernel >= eps, bound / 2)


def test_tail_bound_is_not_idle(rng):
    A, n_frequencies, eps, zero = -1.0, 40, 0.35, np.zeros(1)
    W = rng.normal(size=(20_000, n_frequencies, 1))
    estimates = np.exp(log_product(W, zero, zero, A)).mean(axis=1)
    bound = tail_bound(eps, n_frequencies, zero, zero, A)
    assert 0 < np.mean(np.abs(estimates - 1) >= eps) < bound < 0.3


def test_bound_of_the_paper_as_printed_is_violated(rng):
    """Theorem 4.2 lacks the factor (1 - 4A)^d."""
    d, A, n_frequencies, eps = 64, -0.5, 100, 0.9
    W, zero = rng.normal(size=(1000, n_frequencies, d)), np.zeros(d)
    estimates = np.exp(log_product(W, zero, zero, A)).mean(axis=1)
    observed = np.mean(np.abs(estimates - 1) >= eps)
    printed = 2 * np.exp(-n_frequencies * eps**2 / 2)  # exp((|x|^2 + |y|^2) / 2A) = 1
    assert_allclose(printed, 5e-18, rtol=0.05)
    assert observed > 0.95
    assert tail_bound(eps, n_frequencies, zero, zero, A) >= observed
