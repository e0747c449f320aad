"""Generalised exponential features: the family, its variance, and the search for A."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import optimize, sparse

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler, TrigRBFSampler

# the second moment and its minimum, formulas that a fitted sampler shows at one point
from sklearn_crt.maps import log_rho
from sklearn_crt.samplers import GERFSampler, PositiveRBFSampler, _gerf
from sklearn_crt.testing import assert_unbiased, assert_variance, check_sampler
from sklearn_crt.testing.estimates import assert_mean, contract_rows, seed_estimates

pytestmark = pytest.mark.usefixtures("few_seeds")


def optimal_A(q, d):
    """Return the parameter that is best for a single pair with |x + y|^2 = q."""
    row = 0.5 * np.sqrt(q) * np.eye(1, d)
    return OPRFSampler(sigma=1.0, center=False, n_components=1).fit(row).A_


def member(A=0.0, s=1, **params):
    """Return an unfitted sampler of one member of the family, whatever the data."""
    defaults = {"sigma": 1.0, "n_components": 2, "coupling": "iid", "center": False}
    return GERFSampler(A=A, s=s, **{**defaults, **params})


# the fourth moments of larger A are too heavy for a test of the variance
MEMBERS = [
    (-0.1 + 0.05j, 1),
    (-0.03 + 0.06j, 1),
    (-0.1 + 0.05j, -1),
    (0.02 + 0.03j, -1),
    (0.03, -1),
]
every_member = pytest.mark.parametrize("A, s", MEMBERS)


def printed_second_moment(A, s, q, N, d):
    """Equation 6 of the paper as it is printed, for small arguments."""
    first = np.sqrt(1 + 16 * A**2 / (1 - 8 * A) + 0j) ** d
    second = s + s / (1 - 8 * A)
    third = (1 + 16 * abs(A) ** 2 / (1 - 8 * A.real)) ** (d / 2)
    fourth = s / 2 + (s + 2 * abs(1 - 4 * A)) / (2 * (1 - 8 * A.real))
    terms = (first * np.exp(second * q)).real + third * np.exp(fourth * q)
    return 0.5 * np.exp(-(s + 1) * N) * terms


# ------------------------------------------------------------- reference numbers
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("s", [1, -1])
@pytest.mark.parametrize("section", ["pair4", "pair64"])
def test_variance_of_a_complex_member(section, s, kernel, vectors, request):
    pair, numbers = request.getfixturevalue(section), vectors[section]
    fitted = member(A=-0.2 + 0.3j, s=s, kernel=kernel).fit(pair[0], X_key=pair[1])
    factor = np.exp(numbers["N = |x|^2+|y|^2"]) if kernel == "softmax" else 1
    expected = numbers[f"Var GERF A=-0.2+0.3i s={s:+d}"] * factor
    assert_allclose(fitted.kernel_variance(*pair), [[expected]], rtol=1e-10)


@pytest.mark.parametrize("section", ["pair4", "pair64"])
def test_best_real_member_of_sines_and_cosines(section, vectors, request):
    pair, numbers = request.getfixturevalue(section), vectors[section]
    A = _gerf.trigonometric_A(numbers["q- = |x-y|^2"], pair[0].shape[1])
    assert_allclose(A, numbers["s=-1 optimum A"], rtol=1e-9, atol=1e-13)
    lam, phi = log_rho(complex(A))
    assert_allclose(np.exp(lam), numbers["s=-1 optimum rho"], rtol=1e-12)
    assert phi == 0
    fitted = member(A=A, s=-1).fit(pair[0], X_key=pair[1])
    expected = numbers["Var at that optimum"]
    assert_allclose(fitted.kernel_variance(*pair), [[expected]], rtol=1e-10)


def test_choice_for_the_reference_pairs(vectors, pair4, pair64):
    # at equal columns the positive member has two frequencies for one of the other
    near = GERFSampler(sigma=0.7, center=False).fit(pair4[0], X_key=pair4[1])
    assert near.s_ == -1
    q = np.sum((pair4[0] - pair4[1]) ** 2)
    expected = vectors["pair4"]["s=-1 optimum A"]
    assert_allclose(_gerf.trigonometric_A(q, 4), expected, rtol=1e-9)
    assert_allclose(near.A_, _gerf.trigonometric_A(0.49 * q, 4), rtol=1e-9)
    far = GERFSampler(sigma=1.0, center=False).fit(pair64[0], X_key=pair64[1])
    assert far.s_ == 1
    assert_allclose(far.A_, vectors["pair64"]["OPRF A*"], rtol=1e-12)
    assert_allclose(far.log_D_, vectors["pair64"]["OPRF log D"], rtol=1e-12)
    assert_allclose(far.B_, vectors["pair64"]["OPRF B"], rtol=1e-12)
    assert (far.C_, near.C_) == (-1, 0)


# lam, phi, s, q, d, log(Var / K^2): in 60 digits, by the formula of the docstring
PRECISE = [
    (0.0, 0.0, -1, 1e-9, 3, -42.1396788544528),
    (2e-7, 0.0, -1, 1e-6, 8, -28.4520014634529),
    (1e-6, 1e-5, -1, 1e-7, 5, -28.1757321574966),
    (-1e-7, 1e-6, 1, 1e-10, 5, -23.0257885318372),
    (1e-4, 1e-3, 1, 0.0, 64, -16.3408344943619),
    (-3.0, 1.2, 1, 40.0, 16, 59.636272288517),
    (0.3, 0.9, -1, 25.0, 2, 27.6148942070048),
    (-17.0, 0.0, 1, 1e7, 700, 5465.21099635948),
]


@pytest.mark.parametrize("case", PRECISE)
def test_variance_keeps_its_digits(case):
    *point, expected = case
    assert_allclose(_gerf.log_variance(*point), expected, rtol=1e-12)


# --------------------------------------------------------------------- objective
def test_objective_is_equation_6_and_has_its_gradient(rng):
    for _ in range(100):
        d, s = int(rng.integers(1, 9)), int(rng.choice([-1, 1]))
        A = complex(rng.uniform(-1, 0.12), rng.uniform(-1, 1))
        q, N = rng.uniform(0, 2), rng.uniform(0, 2)
        point = log_rho(A)
        log_square = s * q - (s + 1) * N  # of the kernel
        expected = np.log(printed_second_moment(A, s, q, N, d)) - log_square
        assert_allclose(_gerf.log_second_moment(*point, s, q, d), expected, atol=1e-9)
        value, gradient = _gerf.value_and_gradient(point, s, q, d)
        assert_allclose(value, expected, rtol=1e-9, atol=1e-9)
        numeric = optimize.approx_fprime(
            point, lambda p, *args: _gerf.value_and_gradient(p, *args)[0], 1e-6, s, q, d
        )
        assert_allclose(gradient, numeric, rtol=1e-3, atol=1e-3 * max(1, abs(value)))


def test_log_rho_of_a_small_parameter():
    rho = 1 / (1 - 8 * (-0.2 + 0.3j))
    assert_allclose(np.exp(complex(*log_rho(-0.2 + 0.3j))), rho)
    assert_allclose(log_rho(1e-13 + 1e-14j), [8e-13, 8e-14], rtol=1e-9)
    assert log_rho(-0.2 - 0.3j) == log_rho(-0.2 + 0.3j)


def test_real_optimum_of_sines_and_cosines(rng):
    for d in (1, 2, 10, 1000):
        for q in (1e-12, 1e-3, 0.3, 2.5):
            A = _gerf.trigonometric_A(q, d)
            lam = log_rho(complex(A))[0]
            assert 0 < A < 1 / 8
            best = _gerf.log_variance(lam, 0.0, -1, q, d)
            for factor in (0.9, 1.1):
                assert _gerf.log_variance(factor * lam, 0.0, -1, q, d) > best
    assert _gerf.trigonometric_A(0.0, 3) == 0
    assert _gerf.trigonometric_A(1e4, 3) == 0
    assert_allclose(_gerf.trigonometric_A(1e-9, 50), 1e-9 / (4 * 50), rtol=1e-7)


def random_statistics(rng, size):
    for _ in range(size):
        d = int(np.exp(rng.uniform(0, np.log(300))))
        total, share = np.exp(rng.uniform(-4, 6)), rng.uniform(-1, 1)
        yield d, total * (1 + share), total * (1 - share)


def search(d, q_plus, q_minus):
    optima = {-1: _gerf.trigonometric_A(q_minus, d), 1: optimal_A(q_plus, d)}
    return _gerf.best_member(optima, {-1: q_minus, 1: q_plus}, d)


def test_never_worse_than_oprf_and_trigonometric_features(rng):
    for d, q_plus, q_minus in random_statistics(rng, 40):
        s, A = search(d, q_plus, q_minus)
        columns = np.log(2)  # a positive map has twice the frequencies
        q = {1: q_plus, -1: q_minus}[s]
        found = _gerf.log_variance(*log_rho(A), s, q, d)
        found -= columns * (s == 1 and A.imag == 0)
        oprf = _gerf.log_variance(
            log_rho(complex(optimal_A(q_plus, d)))[0], 0, 1, q_plus, d
        )
        assert found <= oprf - columns + 1e-12
        assert found <= _gerf.log_variance(0, 0, -1, q_minus, d) + 1e-12


def test_no_complex_parameter_is_better_than_the_real_optimum(rng):
    """So the search ends on a real A; a counterexample would be worth a paper."""
    for d, *q in random_statistics(rng, 100):
        phi = np.abs(rng.uniform(0, np.pi / 2, 200)) * rng.choice([0.01, 0.1, 1], 200)
        step = rng.uniform(-9, 9, 200) * rng.choice([0.01, 0.1, 1], 200)
        for s, square, optimum in (
            (1, q[0], optimal_A),
            (-1, q[1], _gerf.trigonometric_A),
        ):
            lam = log_rho(complex(optimum(square, d)))[0]
            best = _gerf.log_second_moment(lam, 0.0, s, square, d)
            values = _gerf.log_second_moment(lam + step, phi, s, square, d)
            assert np.all(values >= best - 1e-11 * max(1, abs(best)))
    assert all(search(*case)[1].imag == 0 for case in random_statistics(rng, 40))


def test_search_from_complex_starts_finds_the_real_optimum():
    """About another A, from points off the real axis."""
    for d, q in ((1, 0.3), (4, 3.0), (64, 16.0)):
        for s, A in ((-1, _gerf.trigonometric_A(q, d)), (1, optimal_A(q, d))):
            other = (1 - np.exp(-0.4) * (1 - 8 * A)) / 8
            ends = list(_gerf.complex_candidates(other, s, q, d))
            values = [_gerf.log_second_moment(*end, s, q, d) for end in ends]
            best = _gerf.log_second_moment(*log_rho(complex(A)), s, q, d)
            assert_allclose(min(values), best, rtol=1e-7, atol=1e-7)


def test_equal_columns_decide(rng):
    """At the pair of rows that the choice is made for."""
    X, signs = rng.normal(size=(300, 4)), []
    for sigma in np.geomspace(0.1, 1, 20):
        options = {"sigma": sigma, "coupling": "iid", "random_state": 0}
        gerf = GERFSampler(center=False, **options).fit(X)
        x = sigma * X
        squares, mean = np.sum(x**2, axis=1).mean(), x.mean(axis=0)
        q_plus, q_minus = (2 * squares + 2 * sign * mean @ mean for sign in (1, -1))
        half = np.eye(4)[:2] * np.sqrt([q_plus, q_minus])[:, None] / (2 * sigma)
        pair = half.sum(axis=0)[None], (half[0] - half[1])[None]
        variances = [
            fitted.kernel_variance(*pair)[0, 0]
            for fitted in (
                gerf,
                OPRFSampler(center=False, **options).fit(X),
                TrigRBFSampler(**options).fit(X),
            )
        ]
        assert variances[0] <= min(variances) * (1 + 1e-9)
        signs.append(gerf.s_)
    assert signs == sorted(signs)  # sines and cosines first, one change
    assert set(signs) == {-1, 1}


@pytest.mark.parametrize("sigma", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("n_components", [1, 8, 9, 128])
def test_no_column_is_wasted(sigma, n_components, rng):
    X = rng.normal(size=(40, 3))
    fitted = GERFSampler(sigma=sigma, n_components=n_components, random_state=0).fit(X)
    assert np.all(np.any(fitted.transform(X) != 0, axis=0))
    per_column = {1: 1, -1: 2}[fitted.s_]
    assert fitted.map_.frequencies.n_frequencies == -(-n_components // per_column)


# -------------------------------------------------------------- the contract
@pytest.mark.each_value
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("sigma", [pytest.param(0.4, marks=pytest.mark.slow), 1.5])
def test_contract(sigma, coupling):
    check_sampler(GERFSampler(sigma=sigma, coupling=coupling))


@pytest.mark.each_value
@pytest.mark.parametrize(
    "A, s, kernel",
    [
        *((A, s, "gaussian") for A, s in MEMBERS[::2]),
        *(
            pytest.param(A, s, "gaussian", marks=pytest.mark.slow)
            for A, s in MEMBERS[1::2]
        ),
        (-0.1 + 0.05j, 1, "softmax"),
        pytest.param(0.02 + 0.03j, -1, "softmax", marks=pytest.mark.slow),
    ],
)
def test_contract_of_a_member(A, s, kernel):
    check_sampler(member(A=A, s=s, kernel=kernel, coupling="orthogonal"), 3)


@pytest.mark.each_value
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@every_member
def test_two_sets_of_rows(A, s, coupling):
    X = contract_rows(3)[:3]
    Y = 0.8 * contract_rows(3, random_state=1)[[1, 5]] + 0.1
    sampler = member(A=A, s=s, coupling=coupling)
    assert_unbiased(sampler, X, Y, n_blocks=20_000)
    assert_variance(sampler, X, Y, n_blocks=20_000)


@pytest.mark.each_value
@pytest.mark.parametrize("columns, coupling", [(1, "iid"), (7, "orthogonal")])
@pytest.mark.parametrize(
    "A, s",
    [*MEMBERS[1:3], pytest.param(*MEMBERS[3], marks=pytest.mark.slow), (-0.1, 1)],
)
def test_odd_number_of_columns(A, s, columns, coupling):
    X = np.array([[0.5, 0.1, -0.2], [-0.2, 0.4, 0.6]])
    sampler = member(A=A, s=s, n_components=columns, coupling=coupling)
    estimates = seed_estimates(sampler, X, n_draws=500)
    fitted = sampler.fit(X)
    assert_mean(estimates, fitted.exact_kernel(X))
    squares = (estimates - fitted.exact_kernel(X)) ** 2
    assert_mean(squares, fitted.kernel_variance(X))


def test_without_the_conjugate_the_estimate_is_biased():
    class Unconjugated(GERFSampler):
        def transform_key(self, X):
            features = super().transform_key(X)
            features[:, self.n_components // 2 :] *= -1
            return features

    with pytest.raises(AssertionError, match="biased"):
        params = member(A=0.02 + 0.03j, s=-1).get_params()
        assert_unbiased(Unconjugated(**params), n_blocks=5000)


class WrongSign(GERFSampler):
    """Adds what pairs of one block save."""

    def kernel_variance(self, X, Y=None):
        options = {**self.get_params(), "coupling": "iid"}
        independent = GERFSampler(**options).fit(X).kernel_variance(X, Y)
        return 2 * independent - super().kernel_variance(X, Y)


@every_member
def test_wrong_sign_of_the_cross_moment_is_seen(A, s):
    wrong = WrongSign(**member(A, s, coupling="orthogonal").get_params())
    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(wrong, n_blocks=20_000)


# ----------------------------------------------------------------- given A and s
def test_what_is_given_is_kept_and_the_rest_is_chosen(rng):
    X = rng.normal(size=(60, 4))
    for sigma in (0.1, 1.0):
        chosen = GERFSampler(sigma=sigma, random_state=0).fit(X)
        for s in (1, -1):
            fitted = GERFSampler(sigma=sigma, s=s, random_state=0).fit(X)
            assert fitted.s_ == s
            if s == chosen.s_:
                assert fitted.A_ == chosen.A_
                assert_allclose(fitted.transform(X), chosen.transform(X))
        given = GERFSampler(sigma=sigma, A=chosen.A_, random_state=0).fit(X)
        assert (given.A_, given.s_) == (chosen.A_, chosen.s_)
        assert_allclose(given.transform(X), chosen.transform(X))
        other = GERFSampler(sigma=sigma, A=-0.1 + 0.2j, random_state=0).fit(X)
        assert other.A_ == -0.1 + 0.2j
        assert other.with_sigma(2 * sigma).A_ == other.A_


@pytest.mark.parametrize("A", [-0.3, -0.3 + 0.2j, 0.0])
def test_the_sign_for_a_given_A_has_the_smaller_variance(A, rng):
    """At a pair of rows, on which the choice is exact."""
    signs = set()
    for scale in np.geomspace(0.1, 3, 9):
        for x, y in scale * np.stack([rng.normal(size=(2, 3)) for _ in range(5)]):
            variances, options = {}, {"A": A, "sigma": 1.0, "coupling": "iid"}
            for s in (1, -1):
                fitted = GERFSampler(s=s, center=False, n_components=2, **options)
                fitted.fit(x[None], X_key=y[None])
                variances[s] = fitted.kernel_variance(x[None], y[None])[0, 0]
            chosen = GERFSampler(center=False, **options).fit(x[None], X_key=y[None])
            assert variances[chosen.s_] <= min(variances.values()) * (1 + 1e-9)
            signs.add(chosen.s_)
    assert signs == {1, -1}


@pytest.mark.parametrize("A", [0.125, 1 / 8 + 1j, 3, np.nan, complex(0, np.inf)])
def test_A_without_a_variance_is_refused(A):
    with pytest.raises(ValueError, match=r"A=.*real part must be below 1/8"):
        GERFSampler(A=A).fit(np.eye(3))


@pytest.mark.parametrize("params", [{"A": "best"}, {"s": 0}, {"s": 1.0}, {"s": 1j}])
def test_parameters_of_another_kind_are_refused(params):
    with pytest.raises(ValueError, match=f"'{next(iter(params))}' parameter of GERF"):
        GERFSampler(**params).fit(np.eye(3))


# ------------------------------------------------------------------- special cases
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
def test_members_are_the_other_samplers(kernel, coupling, rng):
    X = rng.normal(size=(20, 5))
    X[1] = X[0] + 1e-6
    options = {"sigma": 0.6, "kernel": kernel, "coupling": coupling, "random_state": 0}
    trigonometric = TrigRBFSampler(n_components=15, **options).fit(X)
    sines = member(A=0.0, s=-1, n_components=15, **options).fit(X)
    assert_allclose(sines.transform(X), trigonometric.transform(X), rtol=1e-9)
    expected = trigonometric.kernel_variance(X)
    scale = np.sqrt(np.exp(np.add.outer(*[(0.36 * X**2).sum(axis=1)] * 2)))
    scale = scale if kernel == "softmax" else np.ones_like(scale)
    assert_allclose(
        sines.kernel_variance(X) / scale**2, expected / scale**2, atol=1e-15, rtol=1e-8
    )

    optimal = OPRFSampler(n_components=7, **options).fit(X)
    positive = member(A=optimal.A_, n_components=7, center=True, **options).fit(X)
    assert_allclose(positive.transform(X), optimal.transform(X), rtol=1e-12)
    assert_allclose(positive.kernel_variance(X), optimal.kernel_variance(X))
    for fitted in (sines, positive):
        assert fitted.symmetric_
        assert_allclose(fitted.transform_key(X), fitted.transform(X), rtol=1e-15)


def test_general_formula_of_a_positive_member():
    q = np.array([0.0, 1e-6, 0.3, 5.0, 300.0])
    for d, A in ((1, -0.2), (7, -1e-6), (100, -30.0)):
        rho = 1 / (1 - 8 * A)
        log_square = d * np.log1p((1 - rho**0.5) ** 2 / (2 * rho**0.5)) + rho * q
        expected = log_square + np.log(-np.expm1(-log_square))
        point = log_rho(complex(A))
        assert_allclose(_gerf.log_variance(*point, 1, q, d), expected, rtol=1e-9)
        assert_allclose(
            _gerf.log_second_moment(*point, 1, q, d), log_square, atol=1e-12
        )


@every_member
def test_two_sides_are_one_map_where_A_is_real(A, s, rng):
    X = rng.normal(size=(9, 3))
    fitted = member(A=A, s=s, n_components=7).fit(X)
    assert fitted.symmetric_ == (complex(A).imag == 0)
    same = np.allclose(fitted.transform(X), fitted.transform_key(X))
    assert same == fitted.symmetric_


def test_attributes_are_numbers_of_python(rng):
    fitted = GERFSampler().fit(rng.normal(size=(30, 3)))
    kinds = [type(getattr(fitted, name)) for name in ("A_", "B_", "D_", "log_D_")]
    assert kinds == [complex] * 4
    assert_allclose(fitted.B_**2, fitted.s_ * (1 - 4 * fitted.A_))
    assert_allclose(fitted.D_, (1 - 4 * fitted.A_) ** (3 / 4))
    assert_allclose(np.exp(fitted.log_D_), fitted.D_)


# ------------------------------------------------------------------------- fitting
@pytest.mark.parametrize("order", [1, -1])
def test_pieces_equal_the_whole_where_the_choice_flips(order, rng):
    narrow, wide = 0.1 * rng.normal(size=(50, 3)), 3 * rng.normal(size=(50, 3))
    pieces = GERFSampler(sigma=1.0, n_components=8, random_state=0)
    widths = []
    for batch in (narrow, wide)[::order]:
        pieces.partial_fit(batch)
        widths.append(pieces.map_.frequencies.n_frequencies)
    whole = GERFSampler(sigma=1.0, n_components=8, random_state=0)
    X = np.vstack([narrow, wide])
    whole.fit(X)
    assert (widths == [4, 8]) == (order == 1)
    assert_allclose(pieces.A_, whole.A_, rtol=1e-9)
    assert_allclose(pieces.transform(X), whole.transform(X), rtol=1e-7)
    assert pieces.transform(X).shape == (100, 8)


def test_another_sigma_may_need_more_frequencies(rng):
    X = rng.normal(size=(50, 3))
    fitted = GERFSampler(sigma=0.1, random_state=0).fit(X)
    again = GERFSampler(sigma=2.0, random_state=0).fit(X)
    assert fitted.map_.frequencies.n_frequencies < again.map_.frequencies.n_frequencies
    assert_allclose(fitted.with_sigma(2.0).transform(X), again.transform(X))


@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize(("scale", "s"), [(1.0, 1), (0.05, -1)])
def test_statistics_of_two_sides(center, scale, s, rng):
    X, Y = rng.normal(size=(40, 3)), rng.normal(2.0, 0.5, size=(60, 3))
    sigma = scale * np.array([1.0, 0.5, 2.0])
    fitted = GERFSampler(sigma=sigma, center=center).fit(X, X_key=Y)
    a, b = (fitted.sigma_ * (Z - fitted.center_) for Z in (X, Y))
    mean = ((a[:, None] + s * b) ** 2).sum(axis=2).mean()
    assert fitted.s_ == s
    expected = optimal_A(mean, 3) if s > 0 else _gerf.trigonometric_A(mean, 3)
    assert_allclose(fitted.A_, expected, rtol=1e-9)


@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("d", [1, 1000])
@pytest.mark.filterwarnings("ignore:.*eatures of .* are too:RuntimeWarning")
def test_no_nan_at_any_sigma(d, kernel, rng):
    X = rng.normal(size=(12, d)) / np.sqrt(d)
    for sigma in (1e-2, 1, 1e2, 1e8):
        for columns in (1, 4, 9):
            fitted = GERFSampler(sigma=sigma, n_components=columns, kernel=kernel).fit(
                X
            )
            for values in (fitted.transform(X), fitted.transform_key(X)):
                assert not np.isnan(values).any()
            assert not np.isnan(fitted.kernel_variance(X)).any()
            assert not np.isnan(fitted.approximate_kernel(X)).any()


def test_infinite_D_is_no_warning(rng):
    X = rng.normal(size=(12, 1000))
    fitted = GERFSampler(sigma=100.0, random_state=0).fit(X)
    assert np.isinf(fitted.D_)
    assert_allclose(fitted.log_D_, 250 * np.log(1 - 4 * fitted.A_))
    assert np.isinf(member(A=-5000 + 1j).fit(X).D_)


def test_constant_data():
    X = np.full((5, 2), 7.0)
    fitted = GERFSampler(sigma=1.0).fit(X)
    assert abs(fitted.A_) < 1e-25
    assert_allclose(fitted.kernel_variance(X), 0, atol=1e-12)
    assert_allclose(fitted.approximate_kernel(X), 1)
    opposite = GERFSampler(sigma=1.0, center=False)
    opposite.fit(X, X_key=-X)  # |x + y| = 0: positive features are exact
    assert opposite.s_ == 1
    assert abs(opposite.A_) < 1e-25
    assert_allclose(opposite.approximate_kernel(X, -X), np.exp(-196.0), rtol=1e-9)


def test_sparse_rows_and_float32(rng):
    X = sparse.random(60, 30, density=0.1, random_state=0, format="csr")
    X = sparse.csr_array(X)
    options = {"sigma": 3.0, "n_components": 21, "random_state": 0}
    dense = member(A=-0.02 + 0.05j, center=True, **options).fit(X.toarray())
    fitted = member(A=-0.02 + 0.05j, center=True, **options).fit(X)
    for side in ("transform", "transform_key"):
        features = getattr(fitted, side)(X)
        assert_allclose(features, getattr(dense, side)(X.toarray()), rtol=1e-9)
        single = getattr(fitted, side)(X.astype(np.float32))
        assert single.dtype == np.float32
        assert_allclose(single, features, atol=1e-3 * np.abs(features).max())


@pytest.mark.filterwarnings(
    "ignore:For .* rows, the sum of the kernel weights:RuntimeWarning"
)
def test_in_the_kernel_average(rng):
    X = rng.normal(size=(300, 4))
    y = (X[:, 0] + 0.1 * rng.normal(size=300) > 0).astype(int)
    for sigma in (1e-2, 0.5, 1.0, 1e2):
        sampler = GERFSampler(sigma=sigma, n_components=256, random_state=0)
        model = NadarayaWatsonClassifier(sampler).fit(X, y)
        assert np.all(np.isfinite(model.predict_proba(X)))
        if sigma in (0.5, 1.0):
            assert model.score(X, y) > 0.85


def test_variance_in_the_middle_is_below_that_of_both_families(rng):
    """At the point it is tuned for, by the sampler's own variance."""
    x = np.full((1, 8), 0.1)
    y = np.linspace(-0.4, 0.5, 8)[None]
    options = {"sigma": 1.0, "n_components": 16, "coupling": "iid"}
    variances = [
        Sampler(center=False, **options).fit(x, X_key=y).kernel_variance(x, y)[0, 0]
        for Sampler in (GERFSampler, OPRFSampler, PositiveRBFSampler)
    ]
    trigonometric = TrigRBFSampler(**options).fit(x).kernel_variance(x, y)[0, 0]
    assert variances[0] < min(2 * variances[1], 2 * variances[2], trigonometric)
