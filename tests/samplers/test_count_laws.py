"""Monomials whose exponents have a distribution that users define."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

from sklearn_crt.extend import CountLaw, DiscreteSampler

# the distributions of the package, which implement by formulas what others inherit
from sklearn_crt.maps import GeometricLaw, PoissonLaw
from sklearn_crt.testing import assert_unbiased, assert_variance, check_sampler

pytestmark = pytest.mark.usefixtures("few_seeds")

LAWS = [PoissonLaw(0.7), PoissonLaw(12.0), GeometricLaw(0.8), GeometricLaw(0.05)]
PRODUCTS = np.array([0.0, 1e-9, 0.3, -0.3, 0.7, 2.0, -5.0, 12.0, 40.0])


@dataclass(frozen=True)
class NegativeBinomial(CountLaw):
    """The number of failures before r successes."""

    r: float
    p: float

    def log_probability(self, counts):
        return stats.nbinom.logpmf(counts, self.r, self.p)


@dataclass(frozen=True)
class PowerLaw(CountLaw):
    """Probabilities that are proportional to a power of k + 1."""

    exponent: float

    def log_probability(self, counts):
        normalizer = math.log(special.zeta(self.exponent))
        return -self.exponent * np.log(counts + 1.0) - normalizer


class NegativeBinomialSampler(DiscreteSampler):
    """Exponents that suit normally distributed rows."""

    def _make_law(self, sizes):
        return NegativeBinomial(0.5, 1 / (1 + 2 * np.mean(sizes**2)))


class PowerLawSampler(DiscreteSampler):
    def _make_law(self, sizes):
        return PowerLaw(4.0)


# ---------------------------------------------------------- what a law inherits
@pytest.mark.parametrize("law", LAWS, ids=str)
def test_inherited_methods_equal_the_formulas(law):
    expected = law.log_excess(PRODUCTS)
    assert_allclose(CountLaw.log_excess(law, PRODUCTS), expected, rtol=1e-9, atol=1e-13)
    counts = np.random.default_rng(0).integers(0, 30, (5, 40)).astype(float)
    expected = np.broadcast_to(law.log_weights(counts), 40)
    assert_allclose(CountLaw.log_weights(law, counts), expected, rtol=1e-10)
    X, Y = np.random.default_rng(1).normal(size=(2, 6, 4))
    columns = list(zip(X.T, Y.T, strict=True))
    total = CountLaw.sum_of_log_excesses(law, columns)
    assert_allclose(total, law.sum_of_log_excesses(columns), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("r, p", [(0.5, 0.3), (2.0, 0.9)])
def test_excess_of_another_law_against_its_closed_form(r, p):
    c = PRODUCTS[:-1]
    series = special.hyp0f1(r, c**2 / (1 - p))
    expected = -r * np.log(p) + np.log(series) - 2 * c
    found = NegativeBinomial(r, p).log_excess(c)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-13)


def test_excess_is_accurate_where_it_is_tiny():
    """At c = lambda, a Poisson distribution has no variance."""
    for gap in (0.0, 1e-9, 1e-5):
        found = CountLaw.log_excess(PoissonLaw(0.5), np.array([0.5 + gap]))
        assert_allclose(found, gap**2 / 0.5, rtol=1e-5, atol=1e-25)


def test_excess_of_heavy_tails_and_of_light_ones():
    law, c, k = PowerLaw(4.0), 1.3, np.arange(200)
    logs = 2 * k * np.log(c) - 2 * special.gammaln(k + 1) - law.log_probability(k)
    expected = special.logsumexp(logs) - 2 * c
    assert_allclose(law.log_excess(np.array([c])), [expected], rtol=1e-10)

    @dataclass(frozen=True)
    class LightTail(CountLaw):
        def log_probability(self, counts):
            logs = -3 * special.gammaln(np.asarray(counts, dtype=float) + 1)
            return logs - math.log(special.hyp0f1(1, 1) - 0.15)

    assert_array_equal(LightTail().log_excess(np.array([0.5])), [np.inf])


@pytest.mark.parametrize("law", [*LAWS, NegativeBinomial(0.5, 0.2)], ids=str)
def test_draws_by_inversion_follow_the_probabilities(law):
    drawn = CountLaw.draw(law, (4000, 5), np.random.default_rng(0)).ravel()
    values = np.arange(drawn.max() + 1)
    expected = drawn.size * np.exp(law.log_probability(values))
    common = expected > 10
    observed = np.bincount(drawn)
    rest = drawn.size - expected[common].sum()
    p_value = stats.chisquare(
        [*observed[common], observed[~common].sum() + 1e-9],
        [*expected[common], rest + 1e-9],
    ).pvalue
    assert p_value > 1e-6
    first = CountLaw.draw(law, (10, 5), np.random.default_rng(0))
    assert_array_equal(first.ravel(), drawn[:50])


def test_distributions_that_cannot_be_drawn_are_refused():
    @dataclass(frozen=True)
    class Fixed(CountLaw):
        logs: tuple[float, ...]

        def log_probability(self, counts):
            known = np.array([*self.logs, -np.inf])
            return known[np.minimum(np.asarray(counts, int), len(self.logs))]

    @dataclass(frozen=True)
    class Half(PowerLaw):
        def log_probability(self, counts):
            return super().log_probability(counts) - math.log(2)

    @dataclass(frozen=True)
    class Double(PowerLaw):
        def log_probability(self, counts):
            return super().log_probability(counts) + math.log(2)

    rng = np.random.default_rng(0)
    for law in (Fixed((0.0,)), Double(4.0)):
        with pytest.raises(ValueError, match="must be positive for every exponent"):
            law.draw((10, 2), rng)
    with pytest.raises(ValueError, match=r"add up to 0\.5\. Correct log_prob"):
        Half(4.0).draw((1000, 2), rng)


# ------------------------------------------------------------- samplers of users
@pytest.mark.parametrize("options", [{}, {"kernel": "softmax"}, {"positive": True}])
@pytest.mark.parametrize("sampler", [NegativeBinomialSampler, PowerLawSampler])
def test_contract(sampler, options):
    check_sampler(sampler(n_components=24, **options), 3)


@pytest.mark.parametrize("sampler", [NegativeBinomialSampler, PowerLawSampler])
def test_mean_and_variance_of_many_estimates(sampler):
    assert_unbiased(sampler(sigma=1.0, n_components=8))
    assert_variance(sampler(sigma=1.0, n_components=8))


def test_size_of_the_rows_reaches_the_law(rng):
    X = rng.normal(size=(500, 4)) * [1.0, 2.0, 0.5, 1.0] + 3.0
    fitted = NegativeBinomialSampler(sigma=0.7).fit(X)
    sizes = 0.7 * X.std(axis=0)
    assert_allclose(fitted.map_.law.p, 1 / (1 + 2 * np.mean(sizes**2)), rtol=1e-12)
    both = PowerLawSampler(sigma=0.7).fit(X, X_key=2 * X)
    assert both.map_.law == PowerLaw(4.0)


def test_negative_binomial_exponents_suit_normal_rows(rng):
    """Its mean variance is below those of the distributions of the package."""
    from sklearn_crt.samplers import GeometricSampler, PoissonSampler

    X = rng.normal(size=(300, 4))
    means = [
        sampler(sigma=1.0).fit(X).kernel_variance(X).mean()
        for sampler in (NegativeBinomialSampler, GeometricSampler, PoissonSampler)
    ]
    assert means == sorted(means)


# ------------------------------------------------------------------------ faults
@dataclass(frozen=True)
class DrawnWrongly(NegativeBinomial):
    def draw(self, size, rng):
        return NegativeBinomial(self.r, 0.9 * self.p).draw(size, rng)


@dataclass(frozen=True)
class WrongExcess(NegativeBinomial):
    def log_excess(self, products):
        return 1.05 * super().log_excess(products)


@pytest.mark.parametrize(
    "law, check, message",
    [
        (DrawnWrongly, assert_unbiased, "biased"),
        (WrongExcess, assert_variance, "wrong variance"),
    ],
)
def test_wrong_laws_are_seen(law, check, message):
    class Wrong(DiscreteSampler):
        def _make_law(self, sizes):
            return law(0.5, 1 / (1 + 2 * np.mean(sizes**2)))

    with pytest.raises(AssertionError, match=message):
        check(Wrong(sigma=1.0, n_components=8))
