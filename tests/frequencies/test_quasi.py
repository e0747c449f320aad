"""Halton and Sobol points: the law of each frequency, nesting, limits."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import qmc

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import Independent, chi_law
from sklearn_crt.frequencies import Halton, Sobol
from sklearn_crt.testing import assert_unbiased
from sklearn_crt.testing.estimates import seed_estimates

COUPLINGS = {"halton": Halton, "sobol": Sobol}
FAMILY = 1e-6


class RootBetaPrime:
    """Another radial law, that of the kernel exp(-r)."""

    def __init__(self, n_features):
        self.square = stats.betaprime(n_features / 2, 0.5)

    def ppf(self, u):
        return np.sqrt(self.square.ppf(u))

    def cdf(self, r):
        return self.square.cdf(r**2)


def assert_law(coupling, radial_law, d=3, n_seeds=600):
    """Assert the law of the norm and the direction of the first frequencies."""
    draws = np.stack(
        [
            coupling.draw(radial_law, 4, d, np.random.default_rng(seed)).to_dense().T
            for seed in range(n_seeds)
        ]
    )
    norms = np.linalg.norm(draws, axis=2)
    p_values = []
    for j in range(4):
        p_values.append(stats.kstest(norms[:, j], radial_law(d).cdf).pvalue)
        # in three dimensions a coordinate of a uniform direction is uniform
        for coordinate in (draws[:, j] / norms[:, j, None]).T:
            p_values.append(stats.kstest(coordinate, stats.uniform(-1, 2).cdf).pvalue)
    assert min(p_values) > FAMILY / len(p_values), f"wrong law: p = {min(p_values)}"


@pytest.mark.each_value
@pytest.mark.parametrize("radial_law", [chi_law, RootBetaPrime])
@pytest.mark.parametrize("coupling", list(COUPLINGS.values()))
def test_each_frequency_has_its_law(coupling, radial_law):
    assert_law(coupling(), radial_law)


class NextDimension(Sobol):
    """Takes the level of a norm from the law in one dimension more."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        def law(d):
            level = stats.chi(d + 1).cdf
            right = radial_law(d)
            wrong = type("Law", (), {})()
            wrong.ppf = lambda u: right.ppf(level(stats.chi(d).ppf(u)))
            return wrong

        return super().draw(law, n_frequencies, n_features, rng)


class NotScrambled(Halton):
    """The same points for every seed."""

    def _points(self, n_points, n_features, source):
        return qmc.Halton(n_features, scramble=False).random(n_points)


@pytest.mark.parametrize("fault", [NextDimension(), NotScrambled()])
def test_wrong_laws_are_seen(fault):
    with pytest.raises(AssertionError, match="wrong law"):
        assert_law(fault, chi_law, n_seeds=300)


def test_points_without_scrambling_are_biased():
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(OPRFSampler(sigma=1.0, coupling=NotScrambled()), n_blocks=0)


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("name", list(COUPLINGS))
def test_draws_nest_and_any_number_is_silent(name, d):
    large = COUPLINGS[name]().draw(chi_law, 100, d, np.random.default_rng(0))
    for m in (1, 2, 3, 37, 64, 65):
        small = COUPLINGS[name]().draw(chi_law, m, d, np.random.default_rng(0))
        assert_allclose(small.to_dense(), large.to_dense()[:, :m], rtol=1e-13)


def test_sobol_names_its_largest_dimension():
    with pytest.raises(ValueError, match=r"21201 features, but X has 21202.*halton"):
        Sobol().draw(chi_law, 1, 21202, np.random.default_rng(0))


def test_halton_in_many_dimensions():
    W = Halton().draw(chi_law, 3, 1000, np.random.default_rng(0)).to_dense()
    assert np.all(np.isfinite(W))
    assert_allclose(np.linalg.norm(W, axis=0), np.sqrt(1000), rtol=0.1)


def test_points_at_the_edge_have_finite_frequencies():
    class Edge(Sobol):
        def _points(self, n_points, n_features, source):
            return np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.5]])[:n_points]

    W = Edge().draw(chi_law, 3, 2, np.random.default_rng(0)).to_dense()
    assert np.all(np.isfinite(W))


@pytest.mark.parametrize("name", list(COUPLINGS))
def test_few_dimensions_gain_much(name):
    X = 0.5 * np.eye(2)
    squares = []
    for coupling in ("iid", name):
        sampler = TrigRBFSampler(sigma=1.0, n_components=1024, coupling=coupling)
        errors = seed_estimates(sampler, X, n_draws=20)[:, 0, 1] - np.exp(-0.25)
        squares.append(np.mean(errors**2))
    assert squares[1] < 0.05 * squares[0]


def test_exactness_is_not_claimed(rng):
    X = rng.normal(size=(10, 3))
    for name in COUPLINGS:
        fitted, other = (
            OPRFSampler(coupling=coupling, n_components=9).fit(X)
            for coupling in (name, Independent())
        )
        assert not fitted.variance_is_exact_
        assert_allclose(fitted.kernel_variance(X), other.kernel_variance(X))
        assert OPRFSampler(coupling=name, n_components=1).fit(X).variance_is_exact_
