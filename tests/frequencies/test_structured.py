"""Structured couplings: the fast product, its memory, and the bias that is left."""

import pickle
from functools import lru_cache

import numpy as np
import pytest
from numpy.polynomial import Chebyshev
from numpy.testing import assert_allclose, assert_array_equal
from scipy import linalg, sparse, special, stats

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import (
    Frequencies,
    StructuredOrthogonal,
    StructuredSimplex,
    chi_law,
)

# the fast product, whose signs and norms are compared with whole matrices
from sklearn_crt.frequencies.structured import HadamardFrequencies
from sklearn_crt.samplers import PositiveRBFSampler
from sklearn_crt.testing import (
    assert_coupling,
    assert_invariant,
    assert_nested,
    assert_unbiased,
    assert_variance,
    check_sampler,
)
from sklearn_crt.testing.estimates import contract_rows

pytestmark = pytest.mark.usefixtures("few_seeds")

COUPLINGS = [StructuredOrthogonal(), StructuredSimplex()]


def simplex_matrix(d):
    """Return the matrix of Reid et al. 2023, equation 9, as it is printed there."""
    S = np.zeros((d, d))
    S[:-1, :-1] = np.sqrt(d / (d - 1)) * np.eye(d - 1)
    S[:-1, :-1] -= (np.sqrt(d) + 1) / (d - 1) ** 1.5
    S[-1, :-1] = 1 / np.sqrt(d - 1)
    return S


def product_of_matrices(signs, norms, n_features, simplex):
    """Return the weights of a projection, from whole matrices."""
    size = signs.shape[2]
    H = linalg.hadamard(size) / np.sqrt(size)
    blocks = []
    for sign in np.swapaxes(signs, 0, 1):
        block = np.eye(size)
        for diagonal in sign:
            block = H @ (diagonal[:, None] * block)
        blocks.append(simplex_matrix(size) @ block if simplex else block)
    rows = np.vstack(blocks)[: norms.size] * norms[:, None]
    return rows[:, :n_features].T


def make(rng, size, n_features, n_frequencies, simplex):
    shape = (3, -(-n_frequencies // size), size)
    signs = rng.choice([-1.0, 1.0], shape)
    return signs, rng.uniform(1, 2, n_frequencies), n_features, simplex


@pytest.mark.each_value
@pytest.mark.parametrize("simplex", [False, True])
@pytest.mark.parametrize(
    ("size", "n_features", "n_frequencies"),
    [
        (2, 2, 5),
        (4, 3, 4),
        (16, 1, 1),
        (16, 2, 33),
        (16, 16, 16),
        (32, 17, 100),
        (512, 300, 5),
        (512, 512, 1100),
        (1024, 1000, 1030),
    ],
)
def test_projection_is_the_product_of_its_matrices(
    size, n_features, n_frequencies, simplex, rng
):
    parts = make(rng, size, n_features, n_frequencies, simplex)
    projection = HadamardFrequencies(*parts)
    weights = product_of_matrices(*parts)
    assert projection.n_frequencies == n_frequencies
    assert_allclose(projection.to_dense(), weights, atol=1e-12)
    assert_allclose(projection.sq_norms, np.square(weights).sum(axis=0), rtol=1e-10)
    X = rng.normal(size=(300, n_features))
    X[rng.random(X.shape) < 0.5] = 0
    for rows in (X, X[:1], X[:0], np.asfortranarray(X), sparse.csr_array(X)):
        expected = (rows.toarray() if sparse.issparse(rows) else rows) @ weights
        assert_allclose(projection.apply(rows), expected, atol=1e-10)


@pytest.mark.parametrize("convert", [sparse.csr_array, sparse.csr_matrix])
def test_more_sparse_rows_than_are_written_out_at_once(convert, rng):
    X = rng.normal(size=(40_000, 20)) * rng.integers(0, 2, size=(40_000, 20))
    X[7] = 0
    frequencies = HadamardFrequencies(*make(rng, 32, 20, 70, False))
    expected = frequencies.apply(X)
    assert_allclose(frequencies.apply(convert(X)), expected, rtol=1e-12, atol=1e-12)
    assert frequencies.apply(convert(X)[:0]).shape == (0, 70)


@pytest.mark.parametrize("simplex", [False, True])
def test_float32(simplex, rng):
    projection = HadamardFrequencies(*make(rng, 512, 400, 700, simplex))
    single = projection.to(np.empty(0, np.float32))
    X = rng.normal(size=(50, 400)).astype(np.float32)
    for rows in (X, sparse.csr_array(X)):
        product = single.apply(rows)
        assert product.dtype == np.float32
        assert_allclose(product, projection.apply(rows), rtol=0, atol=3e-4)
    assert single.to_dense().dtype == single.sq_norms.dtype == np.float32
    assert projection.sq_norms.dtype == projection.to_dense().dtype == np.float64
    assert projection.apply(X).dtype == np.float64


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_draws_nest(coupling):
    def draw(n_frequencies, n_features):
        rng = np.random.default_rng(0)
        return coupling.draw(chi_law, n_frequencies, n_features, rng)

    for d in (3, 300, 512):  # the small draws of the last two are written out
        large = draw(1100, d)
        for m in (1, 7, 512, 700):
            small = draw(m, d)
            assert_allclose(small.to_dense(), large.to_dense()[:, :m], atol=1e-12)
            assert_allclose(small.sq_norms, large.sq_norms[:m], rtol=1e-12)


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_grows_with_rows_plus_columns(coupling, dtype, rng):
    def numbers(projection):
        arrays = (v for v in vars(projection).values() if isinstance(v, np.ndarray))
        return sum(array.nbytes for array in arrays) // np.dtype(dtype).itemsize

    for d, m in ((512, 512), (4096, 300), (1024, 5000), (1100, 3000)):
        projection = coupling.draw(chi_law, m, d, rng).to(np.empty(0, dtype))
        assert isinstance(projection, HadamardFrequencies)
        assert numbers(projection) <= 5 * m + 6 * d
        assert len(pickle.dumps(projection)) < 8 * (5 * m + 6 * d) + 2000
    for d, m in ((256, 4000), (1000, 256)):  # at most a constant times d + m
        assert type(coupling.draw(chi_law, m, d, rng)) is Frequencies


@pytest.mark.parametrize("coupling", ["structured-orthogonal", "structured-simplex"])
def test_sampler_in_many_dimensions(coupling, rng):
    X = 0.05 * rng.standard_normal((600, 300)) + 0.02
    sampler = OPRFSampler(coupling=coupling, sigma=1.0, n_components=601)
    assert isinstance(sampler.fit(X).map_.frequencies, HadamardFrequencies)
    assert_invariant(sampler, X)
    assert_nested(sampler, X[:5])


@pytest.mark.parametrize(
    "sampler", [pytest.param(OPRFSampler, marks=pytest.mark.slow), TrigRBFSampler]
)
def test_contract_where_the_frequencies_are_not_written_out(sampler):
    sampler = sampler(sigma=1.0, coupling="structured-simplex", n_components=600)
    assert_unbiased(sampler, contract_rows(300), n_blocks=100)
    assert isinstance(
        sampler.fit(contract_rows(300)).map_.frequencies, HadamardFrequencies
    )


# --------------------------------------------------------------------------- variance
def test_variance_without_padding_is_that_of_the_exact_blocks(rng):
    for d, like in ((16, "orthogonal"), (15, "iid")):
        X = 0.2 * rng.normal(size=(10, d))
        for sampler in (PositiveRBFSampler(), TrigRBFSampler()):
            sampler.set_params(sigma=1.0, coupling="structured-orthogonal")
            variance = sampler.fit(X).kernel_variance(X)
            assert not sampler.variance_is_exact_
            exact = sampler.set_params(coupling=like).fit(X)
            assert_array_equal(variance, exact.kernel_variance(X))


@pytest.mark.parametrize("sampler", [TrigRBFSampler, PositiveRBFSampler])
def test_variance_of_the_exact_blocks_is_met_in_64_dimensions(sampler):
    structured = sampler(sigma=1.0, coupling="structured-orthogonal")
    assert_variance(structured, contract_rows(64), n_blocks=2000)


# ------------------------------------------------------------------------------- bias
class UnitNorm:
    """The law of a norm that is always 1."""

    def rvs(self, size, random_state):
        return np.ones(size)


@lru_cache(maxsize=1)
def cosines_of_blocks(coupling, n_features, size, n_blocks):
    """Return the cosines of the frequencies with an axis and a diagonal."""
    directions = np.eye(n_features)[0], np.full(n_features, n_features**-0.5)
    rng = np.random.default_rng(0)
    drawn = coupling.draw(lambda _: UnitNorm(), size * n_blocks, n_features, rng)
    return drawn.apply(np.array(directions)).reshape(2, n_blocks, size)


def relative_bias(coupling, n_features, size, sq_norm, sign, n_blocks=25_000):
    """Return the relative bias and its standard error along an axis and a diagonal.

    Of a positive estimate at |x + y|^2 = sq_norm for sign 1, of sines and cosines at
    |x - y|^2 for -1. The norm of the frequency, chi_size, is integrated out.
    """
    results, z = [], sign * sq_norm / 2
    # of the squared cosine; to eight digits, and many times faster
    mean = Chebyshev.interpolate(
        lambda t: special.hyp1f1(size / 2, 0.5, z * t), 24, [0, 1]
    )
    for cosines in cosines_of_blocks(coupling, n_features, size, n_blocks):
        means = mean(cosines**2).mean(axis=1) / np.exp(z)
        results.append((means.mean() - 1, means.std() / np.sqrt(n_blocks)))
    return np.array(results)


LIMIT = stats.norm.isf(1e-7)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("n_features", [1, 2, 4, 9, 16])
def test_stated_bias_of_padded_blocks(coupling, n_features):
    for sign in (1, -1):
        bias, error = relative_bias(coupling, n_features, 16, 1.4**2, sign).T
        assert np.all(np.abs(bias) < coupling.bias + LIMIT * error)
        assert np.all(LIMIT * error < coupling.bias)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize(("size", "stated"), [(16, 0.015), (32, 0.005), (64, 0.002)])
def test_bias_of_long_rows_falls_with_the_dimension(coupling, size, stated):
    bias, error = relative_bias(
        coupling, size, size, 4.0, 1, n_blocks=250_000 // size
    ).T
    assert np.all(np.abs(bias) < stated + LIMIT * error)


class Unpadded(StructuredOrthogonal):
    """Blocks of the next power of two, however small."""

    def _size(self, n_features):
        return 1 << (n_features - 1).bit_length()


class OneProduct(StructuredOrthogonal):
    """One product with signs and a Hadamard matrix: only 2^d rotations."""

    _n_products = 1


class LawBeforePadding(StructuredOrthogonal):
    """Norms of the dimension of the rows, directions of the padded one."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        return super().draw(
            lambda _: radial_law(n_features), n_frequencies, n_features, rng
        )


def test_unpadded_blocks_are_biased():
    for d, axis, diagonal in ((2, -0.315, None), (4, 0.013, 0.227)):
        bias, error = relative_bias(Unpadded(), d, d, 4.0, 1, n_blocks=100_000).T
        assert abs(bias[0] - axis) < 0.002 + LIMIT * error[0]
        assert diagonal is None or abs(bias[1] - diagonal) < 0.002 + LIMIT * error[1]


@pytest.mark.parametrize("coupling", [Unpadded(), OneProduct(), LawBeforePadding()])
def test_contract_sees_wrong_blocks(coupling):
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(TrigRBFSampler(sigma=1.0, coupling=coupling))


# ---------------------------------------------------------------- Givens rotations
GIVENS = [StructuredOrthogonal(rotation="givens"), StructuredSimplex(rotation="givens")]


@pytest.mark.parametrize("coupling", GIVENS, ids=str)
@pytest.mark.parametrize("d", [2, 3, 7, 16])
def test_givens_rotations_in_any_dimension(coupling, d):
    """Exact angles without padding, and directions that are close to uniform."""
    assert coupling.block_sizes(2 * d + 1, d).tolist() == [d, d, 1]
    assert_coupling(coupling, chi_law, d, n_blocks=2000)


@pytest.mark.parametrize("coupling", GIVENS, ids=str)
def test_givens_rotations_as_a_fast_product(coupling, rng, monkeypatch):
    d, m = 33, 100
    monkeypatch.setattr(StructuredOrthogonal, "_dense_up_to", 1000)
    dense = coupling.draw(chi_law, m, d, np.random.default_rng(0))
    monkeypatch.setattr(StructuredOrthogonal, "_dense_up_to", 1)
    fast = coupling.draw(chi_law, m, d, np.random.default_rng(0))
    assert type(fast).__name__ == "GivensFrequencies"
    X = rng.normal(size=(50, d))
    assert_allclose(fast.apply(X), X @ dense.to_dense(), rtol=1e-9, atol=1e-9)
    assert_allclose(fast.sq_norms, np.sum(dense.to_dense() ** 2, axis=0))
    single = fast.to(np.empty(0, np.float32)).apply(X.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, fast.apply(X), atol=1e-3)
    half = coupling.draw(chi_law, m // 2, d, np.random.default_rng(0))
    assert_allclose(half.to_dense(), dense.to_dense()[:, : m // 2])


@pytest.mark.parametrize("d", [3, pytest.param(4, marks=pytest.mark.slow), 8])
def test_bias_and_variance_with_givens_rotations(d):
    check_sampler(PositiveRBFSampler(coupling=GIVENS[1]), d)


def test_too_few_givens_rotations_are_seen():
    """After a single round, an axis stays in the plane of two coordinates."""

    class OneRound(StructuredOrthogonal):
        def _stored(self, frequencies):
            frequencies._signs = frequencies._signs[:1]
            frequencies._orders = frequencies._orders[:1]
            return super()._stored(frequencies)

    with pytest.raises(AssertionError):
        assert_coupling(OneRound(rotation="givens"), chi_law, 7, n_blocks=2000)


def test_other_rotations_are_refused():
    with pytest.raises(ValueError, match="rotation='haar' must be 'hadamard' or"):
        StructuredSimplex(rotation="haar")
    assert repr(GIVENS[0]) == "StructuredOrthogonal(rotation='givens')"
    assert repr(StructuredSimplex()) == "StructuredSimplex()"
