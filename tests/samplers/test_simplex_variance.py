"""RF-conformity, and the variance of orthogonal and simplex blocks from it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import Orthogonal, Simplex, chi_law
from sklearn_crt.samplers import GERFSampler, PositiveRBFSampler, SimplexRBFSampler
from sklearn_crt.testing import assert_variance
from sklearn_crt.testing.estimates import assert_mean, seed_estimates
from sklearn_crt.theory import (
    rf_conformity,
    rf_conformity_gap,
    rff_gap,
    sample_conformity,
)

COUPLINGS = ["iid", "orthogonal", "simplex"]


# ------------------------------------------------------------------- conformity
def test_conformity_against_reference_numbers(vectors):
    for d, v, log_right, log_simplex, log_gap, log_simplex_gap in vectors["conformity"]:
        c = -1 / (d - 1)
        assert_allclose(rf_conformity(v, d, 0.0, log=True), log_right, rtol=1e-9)
        assert_allclose(rf_conformity(v, d, c, log=True), log_simplex, rtol=1e-9)
        for cosine, expected in ((0.0, log_gap), (c, log_simplex_gap)):
            gap = rf_conformity_gap(v, d, cosine, relative=True)
            assert_allclose(np.log(gap) + v**2, expected, rtol=1e-9)


def test_gap_of_sines_and_cosines_against_reference_numbers(vectors):
    for d, distance, cross, gap in vectors["rff"]:
        assert_allclose(rff_gap(distance, d), gap, rtol=1e-6, atol=1e-14)
        assert_allclose(np.exp(-(distance**2)) - rff_gap(distance, d), cross, rtol=1e-6)


def binomial_conformity(q, d, cosine, n_terms=120):
    """Sum over k and over the binomial expansion of (1 + c sin(psi))^k."""
    p = np.arange(n_terms)
    # E sin(psi)^p
    sines = np.exp(
        special.gammaln((d + p) / 2)
        - special.gammaln((d + p + 1) / 2)
        + special.gammaln((d + 1) / 2)
        - special.gammaln(d / 2)
    )
    total, factor = 0.0, 1.0
    for k in range(n_terms):
        if k:
            factor *= q / k * (d + k - 1) / (d + 2 * k - 2)
        terms = special.binom(k, p[: k + 1]) * cosine ** p[: k + 1] * sines[: k + 1]
        total += factor * terms.sum()
    return total


@pytest.mark.each_value
@pytest.mark.parametrize("cosine", [-1.0, -0.5, -0.1, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("d", [2, 3, 16])
def test_conformity_of_any_angle(d, cosine):
    for v in (0.1, 1.0, 2.0):
        expected = binomial_conformity(v**2, d, cosine)
        assert_allclose(rf_conformity(v, d, cosine), expected, rtol=1e-9)
        gap = rf_conformity_gap(v, d, cosine)
        assert_allclose(gap, np.exp(v**2) - expected, rtol=1e-6, atol=1e-12)
        one, other = (binomial_conformity(-(v**2), d, c) for c in (cosine, -cosine))
        gap = np.exp(-(v**2)) - (one + other) / 2
        assert_allclose(rff_gap(v, d, cosine), gap, rtol=1e-6, atol=1e-11)


def test_equal_directions_without_angle():
    """At c = 1 two frequencies differ in their norms only."""
    rng = np.random.default_rng(0)
    norms = chi_law(3).rvs((2, 400_000), random_state=rng)
    z = norms.sum(axis=0)
    mean = np.mean(np.sinh(z) / z)  # over directions, d = 3
    assert_allclose(rf_conformity(1.0, 3, 1.0), mean, rtol=0.01)


def test_conformity_is_finite_and_ordered_everywhere():
    v = np.geomspace(1e-4, 30, 12)
    for d in (2, 3, 64, 1000):
        logs = [rf_conformity(v, d, c, log=True) for c in (None, 0.0, -1 / (d - 1))]
        assert np.all(np.isfinite(logs))
        assert np.all(np.diff(logs, axis=0) <= 1e-12 * np.abs(logs[0]) + 1e-15)
        right, simplex = (
            rf_conformity_gap(v, d, c, relative=True) for c in (0.0, -1 / (d - 1))
        )
        assert np.all((right > 0) & (simplex >= right) & (simplex <= 1 + 1e-12))


def test_gap_of_sines_and_cosines_changes_its_sign():
    z = np.linspace(0.01, 12, 2000)
    for d, change in ((3, 3.31), (8, 2.96), (64, 6.91)):
        assert_allclose(z[rff_gap(z, d) < 0][0], change, atol=0.01)
    assert np.all(rff_gap(z[z < 6], 2) > 0)


def test_gap_of_sines_and_cosines_far_away():
    """Terms of far pairs are summed apart from the series without a jump."""
    for d in (2, 3, 16):
        for z in (2.0, 31.6227766, 40.0):
            near = rff_gap([z * (1 - 1e-9), z * (1 + 1e-9)], d, -1 / (d - 1))
            assert np.all(np.isfinite(near))
            assert_allclose(near[0], near[1], rtol=1e-5, atol=1e-13)


def test_sample_conformity_has_the_closed_form_as_its_mean():
    for coupling in (Orthogonal(), Simplex()):
        rng = np.random.default_rng(0)
        W = coupling.draw(chi_law, 4 * 3000, 4, rng).to_dense().reshape(4, -1, 4)
        samples = np.array([sample_conformity(0.8, W[:, i]) for i in range(3000)])
        assert_mean(samples[:, None], rf_conformity([0.8], 4, coupling.cosine(4)))


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (rf_conformity, (-1.0, 3), "'v' parameter of rf_conformity"),
        (rf_conformity, ([1.0, -1.0], 3), "v must be finite and at least 0"),
        (rf_conformity, (1.0, 0), "'n_features' parameter"),
        (rf_conformity, (1.0, 3, -2.0), "'cosine' parameter"),
        (rf_conformity_gap, (np.nan, 3, 0.0), "'v' parameter|v must be finite"),
        (rff_gap, ([np.inf], 3), "z must be finite"),
        (sample_conformity, (1.0, np.ones((3, 1))), "at least two columns"),
    ],
)
def test_bad_arguments(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(*arguments)


# --------------------------------------------------------------------- variance
def fit(sampler, pair, columns, coupling):
    center = {} if sampler is TrigRBFSampler else {"center": False}
    options = {"sigma": 1.0, "n_components": columns, "coupling": coupling}
    return sampler(**options, **center).fit(pair[0], X_key=pair[1])


@pytest.mark.parametrize("section", ["pair4", "pair64"])
@pytest.mark.parametrize("name", ["PosRF", "OPRF"])
def test_variance_of_a_simplex_block(section, name, vectors, request):
    sampler = {"PosRF": PositiveRBFSampler, "OPRF": OPRFSampler}[name]
    pair = request.getfixturevalue(section)
    expected = vectors[section][f"MSE {name} simplex, one block of d"]
    fitted = fit(sampler, pair, pair[0].shape[1], "simplex")
    assert fitted.variance_is_exact_
    assert_allclose(fitted.kernel_variance(*pair), [[expected]], rtol=1e-9)


def pair_with_sum(d, v):
    """Return x and y of norms about v / 2, not parallel, with |x + y| = v."""
    x, y = np.zeros((1, d)), np.zeros((1, d))
    x[0, 0] = y[0, 0] = v / 2
    x[0, 1], y[0, 1] = 0.2, -0.2
    return x, y


@pytest.mark.each_value
@pytest.mark.parametrize("d", [2, 3, 6, 16, pytest.param(64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
def test_variance_by_draws(sampler, coupling, d):
    """One block; A of OPRF is that of the pair."""
    n_blocks = {64: 1500, 16: 10_000}.get(d, 30_000)
    model = sampler(sigma=1.0, coupling=coupling, center=False)
    X, Y = pair_with_sum(d, 1.0)
    assert_variance(model, X, Y, n_blocks=n_blocks)


@pytest.mark.parametrize("d", [2, 3, 6, 16, 64])
@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
def test_order_of_the_couplings(sampler, d):
    for v in (1e-3, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0):
        pair = pair_with_sum(d, v)
        iid, right, simplex = (
            fit(sampler, pair, d, coupling).kernel_variance(*pair)[0, 0]
            for coupling in COUPLINGS
        )
        assert iid >= right * (1 - 1e-12)
        assert right >= simplex * (1 - 1e-12)
        if v <= 1:
            assert simplex < right < iid


def test_variance_of_small_rows(vectors):
    v = 1e-4
    for d in (2, 3, 6, 64):
        log_ratio = special.gammaln((d + 1) / 2) - special.gammaln(d / 2)
        expected = 1 - 2 / d * np.exp(2 * log_ratio)
        if d != 3:
            name = f"small-v coefficient d={d}"
            assert_allclose(expected, vectors["simplex"][name], rtol=1e-10)
        rows = np.eye(d)[:1] * v / 2
        fitted = SimplexRBFSampler(sigma=1.0, n_components=d, center=False).fit(rows)
        variance = fitted.kernel_variance(rows)[0, 0]
        assert_allclose(d * variance / v**2, expected, rtol=1e-5)
    assert round(expected, 5) == 0.00778


def test_partial_blocks_of_a_simplex():
    X, Y = pair_with_sum(4, 1.0)
    for block in (2, 3, 7):
        model = OPRFSampler(sigma=1.0, coupling="simplex", center=False)
        assert_variance(model, X, Y, n_blocks=20_000, block=block)


@pytest.mark.each_value
@pytest.mark.parametrize("columns", [6, 7])
@pytest.mark.parametrize(("s", "A"), [(1, -0.1 + 0.1j), (-1, 0.03), (-1, -0.1 + 0.1j)])
def test_other_members_of_the_family(s, A, columns):
    """What a pair saves depends on s, not on A, real or complex."""
    X, Y = pair_with_sum(3, 0.8)
    options = {"coupling": "simplex", "center": False, "n_components": columns}
    model = GERFSampler(sigma=1.0, A=A, s=s, **options)
    if columns == 6:
        assert_variance(model, X, Y, n_blocks=30_000)
        return
    estimates = seed_estimates(model, X, Y, n_draws=500)
    model.fit(X, X_key=Y)
    squares = (estimates - model.exact_kernel(X, Y)) ** 2
    assert_mean(squares, model.kernel_variance(X, Y))


def test_simplex_is_behind_orthogonal_for_sines_and_cosines():
    for d, z in ((3, 1.0), (16, 1.0), (64, 1.0)):
        assert 0 < rff_gap(z, d, -1 / (d - 1)) < rff_gap(z, d)
    assert rff_gap(1.0, 2, -1.0) < 0


# ------------------------------------------------- angles that depend on the norms
def mean_square_of_blocks(sampler, d, q, n_frequencies):
    """Return the mean squared error of many blocks at x = y, and its standard error."""
    x, n_blocks = np.sqrt(q) / 2 * np.eye(d)[:1], 60_000 // d
    model = sampler(sigma=1.0, coupling="simplex+", center=False, random_state=1)
    fitted = model.set_params(n_components=n_blocks * d).fit(x)
    products = n_blocks * d * fitted.transform(x).reshape(n_blocks, d) ** 2
    squares = (products[:, :n_frequencies].mean(axis=1) - 1) ** 2
    stated = model.set_params(n_components=n_frequencies).fit(x).kernel_variance(x)
    return squares.mean(), squares.std() / np.sqrt(n_blocks), stated[0, 0]


@pytest.mark.each_value
@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
@pytest.mark.parametrize(
    ("d", "q"), [(2, 0.3), (3, 0.3), (6, 0.05), (6, 0.4), (16, 0.3)]
)
def test_variance_of_angles_that_depend_on_the_norms(sampler, d, q):
    """Within the error of the sample of blocks, which is at most 5 percent."""
    for n_frequencies in (d, max(2, d // 2)):
        measured, error, stated = mean_square_of_blocks(sampler, d, q, n_frequencies)
        limit = 5.0 * error + 0.05 * stated
        assert abs(measured - stated) < limit
        options = {"sigma": 1.0, "center": False, "n_components": n_frequencies}
        x = np.sqrt(q) / 2 * np.eye(d)[:1]
        for coupling in ("iid", "simplex"):  # the faults that the test must see
            if coupling == "iid" or (d, n_frequencies) == (6, 6):
                other = sampler(coupling=coupling, **options).fit(x)
                gap = other.kernel_variance(x)[0, 0] - measured
                assert gap > limit


def test_variance_of_several_blocks_and_of_single_frequencies():
    x = 0.2 * np.eye(5)[:1]
    options = {"sigma": 1.0, "center": False, "coupling": "simplex+"}
    one, four = (
        PositiveRBFSampler(n_components=n, **options).fit(x).kernel_variance(x)
        for n in (5, 20)
    )
    assert_allclose(four, one / 4)
    single = PositiveRBFSampler(n_components=1, **options).fit(x)
    assert single.variance_is_exact_
    softmax = PositiveRBFSampler(n_components=5, kernel="softmax", **options).fit(x)
    assert_allclose(softmax.kernel_variance(x), one * np.exp(2 * 0.04))
    # at larger distances the estimate tends to that of a simplex
    far = np.array([[3.0, 0, 0, 0, 0]])
    simplex = PositiveRBFSampler(n_components=5, **options | {"coupling": "simplex"})
    plus = PositiveRBFSampler(n_components=5, **options).fit(far)
    expected = simplex.fit(far).kernel_variance(far)
    assert_allclose(plus.kernel_variance(far), expected, rtol=1e-3)


# ----------------------------------------------------------------------- faults
class WrongCosine(Simplex):
    """Simplex blocks that claim the sign of the cosine the other way."""

    def cosine(self, n_features):
        return 1 / (n_features - 1)


class Rights(Simplex):
    """Simplex blocks that claim right angles."""

    def cosine(self, n_features):
        return 0.0


@pytest.mark.parametrize("coupling", [WrongCosine(), Rights()])
@pytest.mark.parametrize("d", [3, 16])
def test_a_wrong_cosine_is_seen(coupling, d):
    X, Y = pair_with_sum(d, 1.0)
    model = OPRFSampler(sigma=1.0, coupling=coupling, center=False)
    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(model, X, Y, n_blocks=10_000)


def test_gaps_are_continuous_in_the_angle():
    v = np.linspace(0, 5, 7)
    for gap in (rf_conformity_gap, rff_gap):
        assert_allclose(gap(v, 5, -1e-9), gap(v, 5, 0.0), atol=1e-7, rtol=1e-7)
    assert_allclose(rff_gap(v, 5), rff_gap(v, 5, 0.0))
