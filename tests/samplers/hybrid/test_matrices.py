"""Complex exponential features and Gaussian coefficients with free matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import (
    AngularCoefficient,
    ComplexExponentialSampler,
    GaussianCoefficient,
    HybridSampler,
    PositiveRBFSampler,
)
from sklearn_crt.testing import assert_unbiased, assert_variance
from sklearn_crt.testing.estimates import contract_rows


def invertible(d, rng, *, imaginary=False):
    B = stats.ortho_group.rvs(d, random_state=rng) + 0.2 * rng.normal(size=(d, d))
    return B + 0.5j * rng.normal(size=(d, d)) if imaginary else B


def relative_variance(B, x, y):
    """Return Var / K^2 for one frequency, from lemma 2.4 of the paper."""
    z = B @ x + np.linalg.inv(B.T) @ y
    return 0.5 * np.exp(np.sum(np.abs(z) ** 2)) + 0.5 * np.exp(z @ z).real - 1


# -------------------------------------------------- complex exponential features
@pytest.mark.parametrize("imaginary", [False, True])
def test_variance_is_that_of_the_lemma(imaginary, rng):
    B = invertible(3, rng, imaginary=imaginary)
    X, Y = 0.4 * rng.normal(size=(2, 5, 3))
    columns = 2 if imaginary else 1
    options = {"sigma": 1.0, "n_components": columns, "coupling": "iid"}
    fitted = ComplexExponentialSampler(B, **options).fit(X, X_key=Y)
    squares = fitted.exact_kernel(X, Y) ** 2
    expected = [[relative_variance(B, x, y) for y in Y] for x in X]
    if not imaginary:  # a real feature has no second column, and twice the variance
        z = [[B @ x + np.linalg.inv(B.T) @ y for y in Y] for x in X]
        expected = np.expm1(np.sum(np.square(z), axis=-1))
    assert_allclose(fitted.kernel_variance(X, Y) / squares, expected, rtol=1e-9)


@pytest.mark.parametrize("imaginary", [False, True])
def test_no_error_where_the_two_terms_cancel(imaginary, rng):
    B = invertible(4, rng, imaginary=imaginary)
    x = rng.normal(size=4)
    if imaginary:  # both the real and the imaginary part must cancel, equation 18
        B = np.diag(rng.normal(size=4)) @ stats.ortho_group.rvs(4, random_state=rng)
        B = 1j * B
    y = -(B.T @ B).real @ x
    sampler = ComplexExponentialSampler(B, sigma=1.0, n_components=10, random_state=0)
    fitted = sampler.fit(x[None], X_key=y[None])
    exact = fitted.exact_kernel(x[None], y[None])
    assert_allclose(fitted.approximate_kernel(x[None], y[None]), exact, rtol=1e-9)
    assert fitted.kernel_variance(x[None], y[None])[0, 0] < 1e-12 * exact[0, 0] ** 2


@pytest.mark.parametrize("entries", [[1.3, -0.7, 0.9], [1.3, 0.7j, 0.9 - 0.2j]])
def test_a_diagonal_matrix_is_its_diagonal(entries, rng):
    X = 0.5 * rng.normal(size=(20, 3))
    options = {"sigma": 0.8, "n_components": 12, "random_state": 0}
    vector = ComplexExponentialSampler(entries, **options).fit(X)
    matrix = ComplexExponentialSampler(np.diag(entries), **options).fit(X)
    assert_allclose(matrix.matrix_, np.diag(vector.matrix_))
    for side in ("transform", "transform_key"):
        assert_allclose(
            getattr(matrix, side)(X), getattr(vector, side)(X), rtol=1e-9, atol=1e-12
        )
    assert_allclose(matrix.kernel_variance(X), vector.kernel_variance(X), rtol=1e-9)


def test_symmetric_where_the_matrix_is_a_rotation(rng):
    X = rng.normal(size=(20, 3))
    turn = stats.ortho_group.rvs(3, random_state=rng)
    fitted = ComplexExponentialSampler(turn, sigma=0.5, random_state=0).fit(X)
    assert fitted.symmetric_
    assert_allclose(fitted.transform(X), fitted.transform_key(X))
    assert not ComplexExponentialSampler(invertible(3, rng)).fit(X).symmetric_


def test_rows_of_other_kinds(rng):
    X = 0.3 * rng.normal(size=(20, 4)) * (rng.random((20, 4)) > 0.3)
    B = invertible(4, rng, imaginary=True)
    fitted = ComplexExponentialSampler(B, sigma=1.0, random_state=0).fit(X)
    dense = fitted.transform(X)
    assert_allclose(fitted.transform(sparse.csr_array(X)), dense, atol=1e-12)
    single = fitted.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, dense, atol=1e-5)
    assert_allclose(fitted.transform(X[3:4]), dense[3:4], atol=1e-13)


@pytest.mark.parametrize(
    "matrix", [0.0, [1.0, 0.0], np.eye(2), np.ones((3, 3)), np.nan, "no", [[1, 2, 3]]]
)
def test_matrices_without_an_inverse_are_refused(matrix):
    with pytest.raises(ValueError, match=r"finite and invertible|'matrix' parameter"):
        ComplexExponentialSampler(matrix).fit(np.eye(3))


# ---------------------------------------------------------- Gaussian coefficients
@pytest.mark.parametrize("positive", [False, True])
def test_coefficient_and_its_variance(positive, rng):
    M, P = invertible(3, rng), invertible(3, rng)
    X, Y = 0.4 * rng.normal(size=(2, 6, 3))
    options = {"sigma": 0.7, "n_components": 2, "coupling": "iid"}
    fitted = GaussianCoefficient(
        key_matrix=M, query_matrix=P, positive=positive, **options
    ).fit(X, X_key=Y)
    u, v = 0.7 * X @ P.T, -0.7 * Y @ M.T
    gaps = np.sum((u[:, None] - v) ** 2, axis=2)
    assert fitted.a_ == 0
    assert_allclose(fitted.exact_kernel(X, Y), np.exp(-gaps / 2))
    expected = (1 - np.exp(-gaps)) ** 2 / 2
    if positive:
        expected = (np.exp(4 * u @ v.T) - np.exp(-gaps)) / 2
    assert_allclose(fitted.kernel_variance(X, Y), expected, rtol=1e-9, atol=1e-15)


def test_a_diagonal_is_a_matrix(rng):
    X, Y = 0.4 * rng.normal(size=(2, 6, 3))
    m, p = rng.normal(size=(2, 3))
    options = {"sigma": 0.7, "random_state": 0}
    row = GaussianCoefficient(key_matrix=m, query_matrix=p, **options)
    square = GaussianCoefficient(
        key_matrix=np.diag(m), query_matrix=np.diag(p), **options
    )
    row, square = row.fit(X, X_key=Y), square.fit(X, X_key=Y)
    for method in ("approximate_kernel", "exact_kernel", "kernel_variance"):
        assert_allclose(getattr(row, method)(X, Y), getattr(square, method)(X, Y))
    stored = row.transform(sparse.csr_array(X))
    assert_allclose(stored, row.transform(X))


def test_coefficient_fires_where_x_is_minus_M_y(rng):
    M = invertible(4, rng)
    Y = rng.normal(size=(5, 4))
    X = -Y @ M.T
    fitted = GaussianCoefficient(key_matrix=M, sigma=3.0, random_state=0).fit(X)
    assert_allclose(np.diag(fitted.approximate_kernel(X, Y)), 1)
    assert fitted.exact_kernel(X, Y)[~np.eye(5, dtype=bool)].max() < 0.1


@pytest.mark.parametrize(
    "kernel", ["gaussian", pytest.param("softmax", marks=pytest.mark.slow)]
)
def test_hybrid_with_free_matrices(kernel, rng):
    """Two bases that are exact for a relation each, and a default."""
    d = 3
    relations = [invertible(d, rng) for _ in range(2)]
    # x = -M y, and B'B x = -y where B'B is the inverse of a symmetric M
    relations = [M @ M.T for M in relations]
    roots = [np.linalg.cholesky(np.linalg.inv(M)).T for M in relations]
    bases = [
        (f"pair{k}", ComplexExponentialSampler(B)) for k, B in enumerate(roots)
    ] + [("default", TrigRBFSampler())]
    coefficients = [
        (f"near{k}", GaussianCoefficient(key_matrix=M, n_components=4))
        for k, M in enumerate(relations)
    ]
    hybrid = HybridSampler(
        bases=bases,
        coefficients=coefficients,
        sigma=1.0,
        kernel=kernel,
        n_components=100,
    )
    X = contract_rows(d)
    assert_unbiased(hybrid, X)
    assert_variance(hybrid, X)
    y = 0.3 * rng.normal(size=(1, d))
    for k, (M, B) in enumerate(zip(relations, roots, strict=True)):
        x = -y @ M.T
        fitted = hybrid.fit(np.concatenate([x, X]), X_key=np.concatenate([y, X]))
        mean, _ = fitted.map_.coefficient_moments(*fitted.map_.frame.pair(x, y))
        assert_allclose(mean[k], 1)
        own = ComplexExponentialSampler(B, sigma=1.0).fit(x, X_key=y)
        assert own.kernel_variance(x, y)[0, 0] < 1e-12


@pytest.mark.parametrize("fault", ["transposed", "sign"])
def test_wrong_matrices_are_seen(fault, rng):
    class Wrong(GaussianCoefficient):
        def exact_kernel(self, X, Y=None):
            M = -self.key_matrix if fault == "sign" else self.key_matrix.T
            right = GaussianCoefficient(key_matrix=M, sigma=self.sigma).fit(X)
            return right.exact_kernel(X, Y)

    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(Wrong(key_matrix=invertible(4, rng), sigma=1.0))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"positive": True}, "positive of .* has no effect without key_matrix"),
        ({"query_matrix": np.eye(3)}, "query_matrix of .* has no effect without key"),
        ({"key_matrix": np.eye(2)}, r"key_matrix has shape \(2, 2\), but X has 3"),
        (
            {"key_matrix": np.eye(3), "query_matrix": np.eye(4)},
            r"query_matrix has shape \(4, 4\)",
        ),
        ({"key_matrix": np.full((3, 3), np.nan)}, "key_matrix contains NaN"),
    ],
)
def test_matrices_that_do_not_fit_are_refused(params, message):
    with pytest.raises(ValueError, match=message):
        GaussianCoefficient(**params).fit(np.eye(3))


def test_other_parts_stay_as_they_are(rng):
    X = rng.normal(size=(30, 3))
    plain = GaussianCoefficient(random_state=0).fit(X)
    assert plain.a_ >= 1
    assert AngularCoefficient().fit(X).a_ == 0.5
    assert isinstance(PositiveRBFSampler().fit(X).map_.phase, float)
