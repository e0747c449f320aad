"""Samplers that are written outside of the package, alone and as parts of hybrids."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import BaseEstimator, TransformerMixin, clone

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import Antithetic, FrequencyMap, Independent, chi_law
from sklearn_crt.samplers import (
    AngularCoefficient,
    BaseFeatureSampler,
    GaussianCoefficient,
    HybridSampler,
    PoissonSampler,
    PositiveRBFSampler,
)
from sklearn_crt.testing import check_sampler
from sklearn_crt.testing.estimates import assert_mean, contract_rows, seed_estimates

from ..hybrids import named, optimal_parts

pytestmark = pytest.mark.usefixtures("few_seeds")

PAIRS = PositiveRBFSampler(center=False, coupling=Antithetic(Independent()))


IID = {
    "bases": named(PAIRS, TrigRBFSampler(coupling="iid")),
    "coefficients": named(AngularCoefficient(n_components=1, coupling="iid")),
}


def hybrid(**params):
    return HybridSampler(**{"sigma": 1.0, "random_state": 0} | IID | params)


@dataclass(frozen=True, eq=False)
class LaplacianMap(FrequencyMap):
    """Cosines of random phases, for exp(-|x - y|)."""

    phases: np.ndarray  # (n_components,)

    def log_features(self, rows, *, key=False, out=None):
        turned = rows.project(self.frequencies) + self.phases.astype(rows.dtype)
        scale = np.sqrt(rows.dtype.type(2 / self.n_components))
        return scale * np.cos(turned), None

    def kernel(self, X, Y):
        return np.exp(-np.sqrt(X.sq_distances(Y)))

    def variance(self, X, Y):
        kernel = self.kernel(X, Y)
        return (1 + 0.5 * kernel**2 - kernel**2) / self.n_components


class Laplacian(BaseFeatureSampler):
    """exp(-|x - y|), with independent frequencies alone."""

    def __init__(
        self, *, sigma=1.0, n_components=100, n_jobs=None, random_state=None
    ):  # fmt: skip
        self.sigma = sigma
        self.n_components = n_components
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _make_map(self, statistics, drawn):
        m, rng = self.n_components, statistics.frequency_stream()
        coupling = Independent()
        frequencies = coupling.draw(_CauchyLike, m, statistics.n_features, rng)
        phases = rng.spawn(1)[0].uniform(0, 2 * np.pi, size=m)
        frame = self._frame(statistics)
        return LaplacianMap(frame, m, frequencies, coupling, phases)


class _CauchyLike:
    """Norm of a Gaussian vector over an independent absolute normal variable."""

    def __init__(self, n_features):
        self.n_features = n_features

    def rvs(self, size, random_state):
        uniform = random_state.uniform(size=(np.prod(size), 2))
        norms = chi_law(self.n_features).ppf(uniform[:, 0])
        return (norms / chi_law(1).ppf(uniform[:, 1])).reshape(size)


class Bare(TransformerMixin, BaseEstimator):
    """Random Fourier features with nothing but what a base map needs."""

    claim = 1.0  # of the stated variance

    def __init__(self, n_components=10, random_state=None):
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X, y=None):
        rng = np.random.RandomState(self.random_state)
        self.w_ = rng.normal(size=(X.shape[1], self.n_components))
        self.b_ = rng.uniform(0, 2 * np.pi, size=self.n_components)
        return self

    def transform(self, X):
        return np.sqrt(2 / self.n_components) * np.cos(X @ self.w_ + self.b_)

    def exact_kernel(self, X, Y=None):
        Y = X if Y is None else Y
        return np.exp(-0.5 * ((X[:, None] - Y) ** 2).sum(axis=2))

    def kernel_variance(self, X, Y=None):
        kernel = self.exact_kernel(X, Y)
        return self.claim * (1 + 0.5 * kernel**4 - kernel**2) / self.n_components


class Modest(Bare):
    """States four times its variance."""

    claim = 4.0


def judge(sampler, X, n_draws=30):
    """Assert mean and summed variance of the estimates over seeds."""
    estimates = seed_estimates(sampler, X, n_draws=n_draws)
    fitted = clone(sampler).fit(X)
    expected = fitted.exact_kernel(X)
    assert_mean(estimates, expected)
    losses = ((estimates - expected) ** 2).sum(axis=(1, 2))
    assert_mean(losses[:, None], fitted.kernel_variance(X).sum(keepdims=True)[0])


def test_the_third_party_sampler_passes_the_contract():
    check_sampler(Laplacian())


@pytest.mark.parametrize(
    "params",
    [
        {"bases": named(Laplacian(), TrigRBFSampler(coupling="iid"))},
        pytest.param(
            {"bases": named(TrigRBFSampler(coupling="iid"), Laplacian())},
            marks=pytest.mark.slow,
        ),
        {"coefficients": named(Laplacian(n_components=4))},
        {"bases": named(Bare(), PAIRS)},
        pytest.param({"bases": named(PAIRS, Bare())}, marks=pytest.mark.slow),
        {"coefficients": named(Bare(n_components=3))},
        {"bases": named(PoissonSampler(), OPRFSampler(coupling="iid"))},
    ],
)
def test_third_party_samplers(params):
    X = 0.5 * contract_rows(4)  # light tails: the losses have a mean that is seen
    sampler = hybrid(n_components=60, **params)
    judge(sampler, X)
    fitted = sampler.fit(X)

    def kernel(part):  # of unit rows, which X is
        rows = part.frame.rows(X)
        return part.kernel(rows, rows)

    pairs = zip(fitted.a_, fitted.coefficients_, strict=True)
    means = [a + kernel(part) for a, part in pairs]
    kernels = [kernel(base) for base in fitted.bases_]
    expected = means[0] * kernels[0] + (1 - means[0]) * kernels[1]
    if fitted.spare_ is None:
        assert_allclose(fitted.exact_kernel(X), expected, rtol=1e-12)


def test_a_wrong_variance_of_a_part_is_seen():
    bases = named(Modest(), PAIRS)
    sampler = hybrid(n_components=60, bases=bases)
    with pytest.raises(AssertionError, match=r"biased: .* at \((np\.int64\(0\)|0),\)"):
        judge(sampler, 0.5 * contract_rows(4))


def test_a_hybrid_of_a_hybrid():
    X = 0.5 * contract_rows(3)
    inner = HybridSampler(**optimal_parts("iid"))
    sampler = hybrid(
        bases=named(inner, TrigRBFSampler(coupling="iid")),
        coefficients=named(GaussianCoefficient(n_components=4, coupling="iid")),
        n_components=200,
    )
    expected = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    assert_allclose(sampler.fit(X).exact_kernel(X), expected)
    judge(sampler, X)


def test_a_transformer_in_single_precision(rng):
    X = rng.normal(size=(9, 3))
    sampler = hybrid(bases=named(Bare(), TrigRBFSampler()), n_components=60).fit(X)
    single = sampler.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert_allclose(single, sampler.transform(X), atol=1e-5)


def test_a_base_of_another_width():
    class Wide(Bare):
        def transform(self, X):
            return np.hstack([super().transform(X)] * 2)

    with pytest.raises(ValueError, match="A base must have exactly this number"):
        hybrid(bases=named(Wide(), TrigRBFSampler())).fit(contract_rows())


def test_an_error_in_a_property_of_a_part_is_not_hidden(with_fault):
    def columns(self):
        return self.no_such_attribute

    broken = with_fault(Laplacian, columns_per_frequency=property(columns))
    with pytest.raises(AttributeError, match="no_such_attribute"):
        hybrid(bases=named(broken(), TrigRBFSampler())).fit(contract_rows())
