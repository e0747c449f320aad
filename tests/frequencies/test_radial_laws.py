"""Laws of the norm: draws, quantiles, limits; and norms in strata."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from sklearn_crt.extend import BlockCoupling, Orthogonal, chi_law
from sklearn_crt.frequencies import Halton, Sobol

# distributions of norms, and the quadrature of a stable variable: draws and quantiles
# of single frequencies are judged against their formulas
from sklearn_crt.frequencies.radial_laws import (
    log_positive_stable,
    stable_law,
    stable_nodes,
    student_law,
)
from sklearn_crt.testing import assert_coupling

LAWS = {
    "chi": chi_law,
    "student 0.5": lambda d: student_law(d, 0.5),
    "student 4": lambda d: student_law(d, 4.0),
    "student inf": lambda d: student_law(d, np.inf),
    "stable 0.5": lambda d: stable_law(d, 0.5),
    "stable 1": lambda d: stable_law(d, 1),
    "stable 1.5": lambda d: stable_law(d, 1.5),
    "stable 2": lambda d: stable_law(d, 2),
}
every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


@pytest.mark.each_value
@every_law
@pytest.mark.parametrize("d", [1, 5, 300])
def test_draws_quantiles_and_distribution_belong_together(law, d, rng):
    law = law(d)
    norms = law.rvs(20_000, random_state=rng)
    assert stats.kstest(norms, law.cdf).pvalue > 1e-6
    u = np.linspace(0.001, 0.999, 200)
    assert_allclose(law.cdf(law.ppf(u)), u, atol=1e-4)
    ends = law.ppf(np.array([0.0, np.nextafter(1, 0)]))
    assert np.all(np.isfinite(ends) & (ends >= 0))
    assert ends[1] <= 1.001e15


@every_law
def test_smaller_draws_begin_larger_ones(law):
    few, many = (law(3).rvs(n, random_state=np.random.default_rng(0)) for n in (5, 50))
    assert_allclose(few, many[:5], rtol=1e-14)


@pytest.mark.parametrize("nu", [0.2, 0.5, 1.5, 30.0])
@pytest.mark.parametrize("d", [1, 7])
def test_student_norm_is_the_root_of_a_beta_prime(d, nu):
    square = stats.betaprime(d / 2, nu)
    u = np.linspace(0.01, 0.99, 50)
    assert_allclose(student_law(d, nu).ppf(u) ** 2, 2 * nu * square.ppf(u), rtol=1e-8)
    r = np.geomspace(1e-2, 1e2, 50)
    assert_allclose(student_law(d, nu).cdf(r), square.cdf(r**2 / (2 * nu)), rtol=1e-10)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1.5])
def test_stable_draw_against_reference_numbers(alpha, vectors):
    draw = np.exp(log_positive_stable(alpha, 1.0, np.log(0.7)))
    expected = vectors["kernels"][f"stable draw alpha={alpha}, U=1, E=0.7"]
    assert_allclose(draw, expected, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.7, 1.2, 1.9, 1.999])
def test_laplace_transform_of_the_stable_variable(alpha):
    log_s, weights = stable_nodes(alpha)
    for g in (1e-4, 0.01, 1.0, 100.0):
        mean = weights @ np.exp(-g * np.exp(log_s))
        assert_allclose(mean, np.exp(-((2 * g) ** (alpha / 2))), atol=1e-8)


def test_stable_law_next_to_its_closed_cases():
    r = np.geomspace(0.05, 50, 40)
    near_cauchy, cauchy = stable_law(4, 1 + 1e-6), stable_law(4, 1)
    assert_allclose(near_cauchy.cdf(r), cauchy.cdf(r), atol=1e-4)
    near_normal, normal = stable_law(4, 2 - 1e-6), stable_law(4, 2)
    assert_allclose(near_normal.cdf(r), normal.cdf(r), atol=1e-4)


def test_norms_are_cut_where_floats_end(rng):
    for law in (stable_law(3, 0.05), student_law(3, 0.02)):
        norms = law.rvs(10_000, random_state=rng)
        assert_allclose(norms.max(), 1e15)
        assert np.all(norms >= 0)


# ------------------------------------------------------------------------ strata
@pytest.mark.each_value
@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("name", ["chi", "student 0.5", "student 4", "stable 1.5"])
def test_stratified_norms(name, d):
    assert_coupling(Orthogonal(stratified=True), LAWS[name], d)


def test_a_block_has_one_norm_in_each_stratum():
    drawn = Orthogonal(stratified=True).draw(chi_law, 12, 4, np.random.default_rng(0))
    strata = np.floor(4 * chi_law(4).cdf(np.sqrt(drawn.sq_norms))).reshape(3, 4)
    assert np.array_equal(np.sort(strata, axis=1), [[0, 1, 2, 3]] * 3)
    partial = Orthogonal(stratified=True).draw(chi_law, 6, 4, np.random.default_rng(0))
    assert_allclose(partial.to_dense(), drawn.to_dense()[:, :6], atol=1e-12)


class Faulty(Orthogonal):
    def __init__(self, fault):
        super().__init__(stratified=True)
        self.fault = fault

    def _norms(self, law, n_frequencies, n_features, rng):
        shape = -(-n_frequencies // n_features), n_features
        strata = np.argsort(rng.random(shape), axis=1)
        places = rng.random(shape)
        if self.fault == "in order":
            strata = np.sort(strata, axis=1)
        elif self.fault == "one place a block":
            places[:] = places[:, :1]
        elif self.fault == "middle":
            places[:] = 0.5
        elif self.fault == "with repetition":
            strata = rng.integers(n_features, size=shape)
        return law.ppf(((strata + places) / n_features).ravel()[:n_frequencies])


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("in order", "order of the strata is not uniform|norms and directions"),
        ("one place a block", "norms of a block depend"),
        ("middle", "norms have the wrong distribution"),
        ("with repetition", "not have one norm in each stratum"),
    ],
)
def test_faulty_strata(fault, message):
    assert_coupling(Faulty("none"), chi_law)
    with pytest.raises(AssertionError, match=message):
        assert_coupling(Faulty(fault), chi_law)


def test_strata_need_quantiles():
    class DrawsOnly:
        def rvs(self, size, random_state):
            return random_state.standard_exponential(size)

    def law(n_features):
        return DrawsOnly()

    rng = np.random.default_rng(0)
    assert Orthogonal().draw(law, 5, 3, rng).n_frequencies == 5
    message = (
        r"coupling=Orthogonal\(stratified=True\) requires the quantile function "
        r"\(ppf\) of the norms, which DrawsOnly does not provide; use 'orthogonal' "
        "or 'iid'"
    )
    with pytest.raises(ValueError, match=message):
        Orthogonal(stratified=True).draw(law, 5, 3, rng)


def test_repr_of_a_coupling():
    assert repr(Sobol()) == "Sobol()"
    assert repr(Orthogonal()) == "Orthogonal()"
    assert repr(Orthogonal(stratified=True)) == "Orthogonal(stratified=True)"
    assert issubclass(Orthogonal, BlockCoupling)


@pytest.mark.parametrize("coupling", [Halton(), Sobol()], ids=repr)
def test_points_need_quantiles(coupling):
    class DrawsOnly:
        def rvs(self, size, random_state):
            return random_state.standard_exponential(size)

    message = (
        f"coupling='{type(coupling).__name__.lower()}' requires the quantile function"
    )
    with pytest.raises(ValueError, match=message):
        coupling.draw(lambda d: DrawsOnly(), 5, 3, np.random.default_rng(0))
