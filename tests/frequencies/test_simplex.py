"""Simplex blocks: angles, nesting, and the sweeps that follow the norms."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sklearn_crt import OPRFSampler
from sklearn_crt.extend import Orthogonal, Simplex, SimplexPlus, chi_law

# the simplex matrix, its corners, and the sweeps: linear algebra that is judged block
# by block against reference numbers, before it is hidden by a rotation
from sklearn_crt.frequencies.simplex import (
    apply_simplex,
    balance,
    simplex_from_orthogonal,
)
from sklearn_crt.samplers import PositiveRBFSampler, SimplexRBFSampler


def blocks(coupling, n_blocks, d, seed=0):
    rng = np.random.default_rng(seed)
    return coupling.draw(chi_law, n_blocks * d, d, rng).to_dense().T.reshape(-1, d, d)


def test_matrix_against_reference_numbers(vectors):
    S = apply_simplex(np.eye(4), axis=0)
    for i, j in np.ndindex(4, 4):
        assert_allclose(S[i, j], vectors["simplex"][f"S[{i},{j}] d=4"], atol=1e-14)
    product = apply_simplex(np.array([1.0, 2, 3, 4]))
    expected = [vectors["simplex"][f"(S [1,2,3,4])[{i}]"] for i in range(4)]
    assert_allclose(product, expected, atol=1e-14)


@pytest.mark.parametrize("d", [2, 3, 10, 200])
def test_rows_are_unit_vectors_at_one_angle(d, rng):
    S = apply_simplex(np.eye(d), axis=0)
    expected = np.full((d, d), -1 / (d - 1))
    np.fill_diagonal(expected, 1)
    assert_allclose(S @ S.T, expected, atol=1e-12)
    X = rng.normal(size=(5, d, 3))
    assert_allclose(apply_simplex(X, axis=1), S @ X, atol=1e-12)


@pytest.mark.parametrize("d", [2, 5, 70])
def test_block_is_a_triangle_times_an_orthogonal_one(d):
    norms = np.linalg.norm(blocks(Simplex(), 2, d), axis=2)
    orthogonal = blocks(Orthogonal(), 2, d)
    assert_allclose(norms, np.linalg.norm(orthogonal, axis=2))
    gram = np.full((d, d), -1 / (d - 1))
    np.fill_diagonal(gram, 1)
    # the last vector is minus the sum of the others
    triangle = np.zeros((d, d))
    triangle[:-1, :-1] = np.linalg.cholesky(gram[:-1, :-1])
    triangle[-1] = -triangle[:-1].sum(axis=0)
    directions = triangle @ (orthogonal / norms[..., None])
    assert_allclose(blocks(Simplex(), 2, d), norms[..., None] * directions, atol=1e-11)


@pytest.mark.parametrize("d", [2, 3, 64, 1000])
def test_corners_of_a_simplex(d, rng):
    """To rounding: the sums of many vectors lose nothing."""
    corners = simplex_from_orthogonal(np.eye(d)[None])[0]
    gram = corners @ corners.T
    assert_allclose(np.diag(gram), 1, rtol=1e-13)
    assert_allclose(gram[~np.eye(d, dtype=bool)], -1 / (d - 1), atol=1e-14)
    assert_allclose(corners.sum(axis=0), 0, atol=1e-12)
    assert np.all(np.triu(corners, 1) == 0)
    some = simplex_from_orthogonal(np.eye(d)[None, : d // 2])[0]
    assert np.array_equal(some, corners[: d // 2])


def test_few_vectors_of_a_high_dimension():
    """A partial block is drawn from as many vectors, not from a whole rotation."""
    rng = np.random.default_rng(0)
    tracemalloc.start()
    try:
        W = Simplex().draw(chi_law, 40, 4096, rng).to_dense()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 0.1 * 8 * 4096**2  # of a whole rotation
    unit = W / np.linalg.norm(W, axis=0)
    assert_allclose((unit.T @ unit)[np.triu_indices(40, 1)], -1 / 4095, atol=1e-13)


def test_two_dimensions_have_opposite_vectors():
    for coupling in (Simplex(), SimplexPlus()):
        W = blocks(coupling, 3, 2)
        W /= np.linalg.norm(W, axis=2, keepdims=True)
        assert_allclose(W[:, 0], -W[:, 1], atol=1e-12)


def test_one_dimension_has_both_signs():
    for coupling in (Simplex(), SimplexPlus()):
        W = blocks(coupling, 50, 1)
        assert W.min() < 0 < W.max()


@pytest.mark.parametrize("d", [1, 2, 3, 7])
@pytest.mark.parametrize("coupling", [Simplex(), SimplexPlus()])
def test_partial_blocks_begin_full_ones(coupling, d):
    whole = blocks(coupling, 3, d).reshape(-1, d).T
    for m in range(1, 3 * d):
        part = coupling.draw(chi_law, m, d, np.random.default_rng(0))
        assert part.n_frequencies == m
        assert_allclose(part.to_dense(), whole[:, :m], atol=1e-13)


# ----------------------------------------------------------------------- sweeps
def length_of_sum(sizes, n_sweeps):
    unit = balance(np.atleast_2d(np.asarray(sizes, dtype=float)), n_sweeps)
    assert_allclose(np.linalg.norm(unit, axis=2), 1)
    return np.linalg.norm(np.einsum("bi,bil->bl", np.atleast_2d(sizes), unit), axis=1)


def test_sweeps_against_reference_numbers(vectors):
    for n in range(4):
        name = f"SimRF+ r=(1,2,3,4): |sum w| after {n} sweeps"
        expected = vectors["simplex"][name]
        assert_allclose(length_of_sum([1, 2, 3, 4], n), expected, rtol=1e-8)


@pytest.mark.parametrize("d", [3, 6, 16])
def test_the_sum_never_grows(d, rng):
    sizes = chi_law(d).rvs((200, d), random_state=rng)
    lengths = np.stack([length_of_sum(sizes, n) for n in range(11)])
    assert np.all(np.diff(lengths, axis=0) <= 1e-12)
    longest = sizes.max(axis=1)
    balanced = 2 * longest < 0.9 * sizes.sum(axis=1)
    assert np.all(lengths[-1, balanced] < 1e-2)
    # where one exceeds all the others together, they stand against it
    alone = 2 * longest > sizes.sum(axis=1)
    excess = 2 * longest - sizes.sum(axis=1)
    assert np.all(lengths[-1, alone] >= excess[alone] * (1 - 1e-12))


def test_blocks_are_swept_apart(rng):
    sizes = chi_law(4).rvs((50, 4), random_state=rng)
    sizes[3] = 1.0  # at rest from the start
    sizes[7] = [1.0, 1e-200, 1e-200, 1e-200]
    together = balance(sizes)
    for size, unit in zip(sizes, together, strict=True):
        assert_allclose(balance(size[None])[0], unit, atol=1e-14)
    assert_allclose(together[3], apply_simplex(np.eye(4), axis=0), atol=1e-12)


def test_a_vector_without_a_resultant_keeps_its_direction():
    unit = balance(np.array([[1.0, 0.0, 0.0]]))
    assert np.all(np.isfinite(unit))
    assert_allclose(np.linalg.norm(unit, axis=2), 1)


def test_blocks_have_norms_of_their_own():
    norms = np.linalg.norm(blocks(SimplexPlus(), 20, 6), axis=2)
    assert np.unique(norms.round(9)).size == 120


# ------------------------------------------------------------ the mechanism's part
def test_angles_follow_the_fitted_parameter(rng):
    X = rng.normal(size=(40, 6))
    fitted = [
        OPRFSampler(sigma=sigma, coupling="simplex+", random_state=0).fit(X)
        for sigma in (0.05, 0.1)
    ]
    frequencies = [sampler.frequencies_ for sampler in fitted]
    assert np.abs(frequencies[0] - frequencies[1]).max() > 1e-3
    assert_allclose(*(np.linalg.norm(W, axis=0) for W in frequencies))
    moved = fitted[0].with_sigma(0.1)
    assert_allclose(moved.frequencies_, frequencies[1], atol=1e-12)
    batches = OPRFSampler(sigma=0.1, coupling="simplex+", random_state=0)
    for batch in np.array_split(X, 4):
        batches.partial_fit(batch)
    assert_allclose(batches.frequencies_, frequencies[1], atol=1e-9)


def test_features_weigh_the_frequencies():
    """Sum of w exp(2 A |w|^2) is zero, for a small A and for a huge one."""
    for A in (-0.01, -3.0, -5000.0):
        coupling = SimplexPlus().weigh(2 * A)
        W = blocks(coupling, 1, 32)[0]
        assert np.all(np.isfinite(W))
        squares = np.sum(W**2, axis=1)
        factors = np.exp(2 * A * (squares - squares.min()))
        sizes = factors * np.sqrt(squares)
        total = np.linalg.norm(factors @ W)
        bound = max(2 * sizes.max() - sizes.sum(), 0)
        assert_allclose(total, bound, atol=1e-3 * sizes.sum())


def test_plain_simplex_beyond_a_mean_of_one_half(rng):
    X = rng.normal(size=(40, 6))
    for sigma, exact in ((0.1, False), (1.0, True)):
        options = {"sigma": sigma, "random_state": 0, "n_components": 12}
        plus = OPRFSampler(coupling="simplex+", **options).fit(X)
        plain = OPRFSampler(coupling="simplex", **options).fit(X)
        assert plus.variance_is_exact_ is exact
        same = np.allclose(plus.frequencies_, plain.frequencies_)
        assert same is exact


@pytest.mark.parametrize(("q", "exact"), [(0.499, False), (0.501, True)])
def test_the_mean_of_one_half_is_that_of_squared_sums(q, exact):
    row = np.sqrt(q) / 2 * np.eye(7)[:1]  # |x + x|^2 = q
    options = {"sigma": 1.0, "center": False, "coupling": "simplex+"}
    assert OPRFSampler(**options).fit(row).variance_is_exact_ is exact


def test_positive_features_ignore_the_data(rng):
    options = {"coupling": "simplex+", "random_state": 0}
    one, other = (
        PositiveRBFSampler(sigma=sigma, **options).fit(rng.normal(size=(9, 5)))
        for sigma in (0.1, 2.0)
    )
    assert_allclose(one.frequencies_, other.frequencies_)


@pytest.mark.parametrize(("d", "q"), [(3, 0.25), (6, 0.25), (16, 0.25), (6, 0.5)])
@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
def test_weight_dependence_helps_at_small_sums(sampler, d, q):
    """Squared error of one block, over that of the simplex."""
    X = np.sqrt(q) / 2 * np.eye(d)
    errors = []
    for coupling in ("simplex", "simplex+"):
        model = sampler(sigma=1.0, coupling=coupling, center=False, random_state=0)
        fitted = model.set_params(n_components=2000 * d).fit(X[:1])
        columns = fitted.transform(X).reshape(d, 2000, d) ** 2  # x = y
        errors.append((2000 * columns.sum(axis=2) - 1) ** 2)
    ratio = errors[1].mean() / errors[0].mean()
    assert ratio < (0.8 if q < 0.3 else 1.0)


# -------------------------------------------------------------- SimplexRBFSampler
@pytest.mark.parametrize("coupling", ["simplex", "simplex+", "structured-simplex"])
def test_simplex_sampler_is_the_positive_one_with_simplex_blocks(coupling, rng):
    X = rng.normal(size=(30, 5))
    params = {} if coupling == "simplex" else {"coupling": coupling}
    model = SimplexRBFSampler(random_state=0, **params)
    same = PositiveRBFSampler(coupling=coupling, random_state=0)
    assert_array_equal(model.fit_transform(X), same.fit_transform(X))
    assert_array_equal(model.kernel_variance(X), same.kernel_variance(X))
    assert model.variance_is_exact_ is (coupling == "simplex")
