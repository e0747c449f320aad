"""Each contract check fails on the fault it is there to catch."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, stats
from sklearn.base import clone

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.extend import (
    BlockCoupling,
    Coupling,
    Frequencies,
    Orthogonal,
    Simplex,
    SimplexPlus,
    chi_law,
)
from sklearn_crt.samplers import (
    ComplexExponentialSampler,
    GaussianMixtureSampler,
    PositiveRBFSampler,
)
from sklearn_crt.testing import (
    assert_coupling,
    assert_invariant,
    assert_nested,
    assert_unbiased,
    assert_variance,
)
from sklearn_crt.testing.estimates import (
    assert_mean,
    block_estimates,
    contract_rows,
    seed_estimates,
)

from .cases import sampler_cases

ALL = [TrigRBFSampler, PositiveRBFSampler, OPRFSampler]


@pytest.mark.parametrize(
    "sampler",
    [
        TrigRBFSampler(),
        OPRFSampler(coupling="antithetic"),
        ComplexExponentialSampler([1.0, 0.7j, 1.2, 0.9]),
    ],
    ids=str,
)
def test_blocks_hold_all_the_columns_of_their_frequencies(sampler):
    X, n_blocks = contract_rows(4), 10
    sampler.set_params(sigma=1.0)
    estimates, narrow = block_estimates(sampler, X, n_blocks=n_blocks)
    assert estimates.shape == (n_blocks, 6, 6)
    n_components = n_blocks * 4 * narrow.map_.columns_per_frequency
    whole = clone(sampler).set_params(n_components=n_components, random_state=0)
    assert_allclose(estimates.mean(axis=0), whole.fit(X).approximate_kernel(X))
    # each estimate is that of four frequencies
    one = clone(sampler).set_params(n_components=n_components // n_blocks)
    first = one.set_params(random_state=0).fit(X).approximate_kernel(X)
    assert_allclose(estimates[0], first, rtol=1e-9)


class UnsignedQR(Orthogonal):
    """QR without the signs of R's diagonal, which is not Haar."""

    def _directions(self, norms, n_features, rng):
        gaussian = rng.standard_normal((*norms.shape, n_features))
        q, _ = np.linalg.qr(np.swapaxes(gaussian, -1, -2))
        return np.swapaxes(q, -1, -2)


class OneRadius(Orthogonal):
    """One norm for all the frequencies of a block."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        projection = super().draw(radial_law, n_frequencies, n_features, rng)
        weights = projection.to_dense().T
        norms = np.linalg.norm(weights, axis=1)
        blocks = np.arange(n_frequencies) // n_features * n_features
        return Frequencies((weights / norms[:, None] * norms[blocks][:, None]).T)


class OneStream(BlockCoupling):
    """One seed for the norms and for the directions."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        size = (n_frequencies, n_features)
        directions = np.random.default_rng(0).standard_normal(size)
        seeds = np.random.default_rng(0).standard_normal(size)[:, 0]
        norms = radial_law(n_features).ppf(stats.norm.cdf(seeds))
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        return Frequencies((norms[:, None] * unit).T)

    def _directions(self, norms, n_features, rng):
        raise NotImplementedError


class Oblique(Orthogonal):
    """Claims right angles, draws independent directions."""

    def _directions(self, norms, n_features, rng):
        gaussian = rng.standard_normal((*norms.shape, n_features))
        return gaussian / np.linalg.norm(gaussian, axis=-1, keepdims=True)


class OneDrawOfNorms(SimplexPlus):
    """The norms of the first block for all the blocks."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        class Repeated:
            def rvs(self, size, random_state):
                one = radial_law(n_features).rvs(n_features, random_state=random_state)
                return np.resize(one, size)

        return super().draw(lambda _: Repeated(), n_frequencies, n_features, rng)


class NotRotated(SimplexPlus):
    """Swept blocks without a rotation after."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        right = super().draw(radial_law, n_frequencies, n_features, rng).to_dense()
        blocks = right.T.reshape(-1, n_features, n_features)
        _, r = np.linalg.qr(np.swapaxes(blocks, -1, -2))
        signs = np.sign(np.einsum("...ii->...i", r))
        same_angles = np.swapaxes(signs[..., None] * r, -1, -2)
        return Frequencies(same_angles.reshape(-1, n_features).T)


class Sharp(Simplex):
    """Claims the cosine of a simplex in one dimension less."""

    def cosine(self, n_features):
        return -1 / (n_features - 2)


@pytest.mark.each_value
@pytest.mark.parametrize("two_sides", [False, True])
@pytest.mark.parametrize("sampler", sampler_cases() + sampler_cases(parts=True))
def test_estimates_of_seeds_are_those_of_fits(sampler, two_sides, rng):
    """Though the rows are read once, where that is the same."""
    X, Y = contract_rows(3), 0.3 * rng.normal(size=(2, 3)) if two_sides else None
    # a mixture needs more columns for all of its maps
    n_components = 130 if isinstance(sampler, GaussianMixtureSampler) else 24
    sampler = clone(sampler).set_params(n_components=n_components)
    found = seed_estimates(sampler, X, Y, n_draws=3)
    fits = [clone(sampler).set_params(random_state=k).fit(X, X_key=Y) for k in range(3)]
    assert_allclose(found, [fitted.approximate_kernel(X, Y) for fitted in fits])


@pytest.mark.parametrize("sampler", [PositiveRBFSampler, OPRFSampler])
def test_rotation_without_signs_is_biased(sampler):
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(sampler(sigma=1.0, coupling=UnsignedQR()))


def test_rotation_without_signs_loses_a_fifth_at_d_4():
    X = 0.7 * np.eye(4)[:1]
    sampler = PositiveRBFSampler(sigma=1.0, center=False, coupling=UnsignedQR())
    estimates, _ = block_estimates(sampler, X)
    assert 0.76 < estimates.mean() < 0.82  # the kernel is 1


def test_right_rotation_keeps_the_axes_with_a_hundred_thousand_blocks():
    X = contract_rows(4)
    for sampler in (PositiveRBFSampler, OPRFSampler):
        mechanism = sampler(sigma=1.0, center=False, coupling="orthogonal")
        assert_unbiased(mechanism, X, n_blocks=100_000)


@pytest.mark.parametrize(
    "coupling, message",
    [
        (UnsignedQR(), "biased"),
        (OneRadius(), "norms of a block depend"),
        (OneStream(), "norms and directions depend"),
        (Oblique(), "angles in a block"),
        (OneDrawOfNorms(), "norms have the wrong distribution"),
        (Sharp(), "angles in a block"),
        (NotRotated(), "biased"),
    ],
)
def test_wrong_coupling(coupling, message):
    with pytest.raises(AssertionError, match=message):
        assert_coupling(coupling, chi_law)


def test_wrong_norms():
    with pytest.raises(AssertionError, match="norms have the wrong distribution"):

        class Wide(Orthogonal):
            def draw(self, radial_law, n_frequencies, n_features, rng):
                right = super().draw(radial_law, n_frequencies, n_features, rng)
                return Frequencies(1.02 * right.to_dense())

        assert_coupling(Wide(), chi_law)


@pytest.mark.parametrize("base", ALL)
def test_sigma_off_by_two_percent(base, with_fault):
    def log_features(self, rows, **options):
        return super(type(self), self).log_features(rows.scaled(1.02), **options)

    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(with_fault(base, log_features=log_features)(sigma=1.0))


@pytest.mark.parametrize("base", ALL)
def test_variance_of_a_wrong_power(base, with_fault):
    def variance(self, X, Y):
        kernel, m = self.kernel(X, Y), self.n_frequencies
        right = super(type(self), self).variance(X, Y) * m
        return (right + kernel**2 - kernel) / m

    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(with_fault(base, variance=variance)(sigma=1.0))


@pytest.mark.parametrize("base", ALL)
def test_variance_that_forgets_the_coupling(base, with_fault):
    forgetful = with_fault(base, n_pairs=0)
    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(forgetful(sigma=1.0))


def test_bias_beyond_the_stated(rng):
    estimates = 1.02 + 0.01 * rng.standard_normal((1000, 3))
    assert_mean(estimates, np.ones(3), bias=0.02)
    with pytest.raises(AssertionError, match="biased"):
        assert_mean(estimates, np.ones(3), bias=0.01)


class Spoilt(PositiveRBFSampler):
    """Features that ``change`` spoils after the fact."""

    change = None

    def fit(self, X, y=None, **options):
        self.n_rows = X.shape[0]
        return super().fit(X, y, **options)

    def partial_fit(self, X, y=None, **options):
        self.n_rows = X.shape[0]
        return super().partial_fit(X, y, **options)

    def __setstate__(self, state):
        super().__setstate__(state)
        self.restored = 2

    def transform(self, X):
        return type(self).change(self, X, super().transform(X))


def _spoil(function):
    Spoilt.change = staticmethod(function)
    return Spoilt(sigma=1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda self, X, F: F / F.max(), "depends on other rows"),
        (lambda self, X, F: F * (1 + np.arange(len(F)))[:, None], "depends on other"),
        (lambda self, X, F: F.astype(np.float64), "float32 in"),
        (lambda self, X, F: F * (self.n_jobs or 1), "threads"),
        (lambda self, X, F: F + np.random.default_rng().random(), "depends on other"),
        (lambda self, X, F: F * (1 + sparse.issparse(X)), "sparse input"),
        (lambda self, X, F: F * self.n_rows, "partial_fit"),
        (lambda self, X, F: F * getattr(self, "restored", 1), "pickling"),
    ],
)
def test_variant_features(change, message, rng):
    with pytest.raises(AssertionError, match=message):
        assert_invariant(_spoil(change), rng.normal(size=(400, 4)))


class OneSeed(Coupling):
    """Frequencies of one generator, or of one for each number of them."""

    def __init__(self, *, of_the_number):
        self.of_the_number = of_the_number

    def draw(self, radial_law, n_frequencies, n_features, rng):
        seed = [*rng.integers(2**31, size=3), n_frequencies]
        rng = np.random.default_rng(seed if self.of_the_number else 0)
        return Orthogonal().draw(radial_law, n_frequencies, n_features, rng)


def test_one_draw_for_all(rng):
    with pytest.raises(AssertionError, match="one draw for all"):
        coupling = OneSeed(of_the_number=False)
        sampler = PositiveRBFSampler(coupling=coupling)
        assert_invariant(sampler, rng.normal(size=(400, 4)))


def test_width_and_nesting(rng):
    X = rng.normal(size=(20, 4))

    class Rounded(PositiveRBFSampler):
        def transform(self, X):
            return np.repeat(super().transform(X), 2, axis=1)

    with pytest.raises(AssertionError, match="columns"):
        assert_nested(Rounded(), X)

    with pytest.raises(AssertionError, match="draws of"):
        assert_nested(PositiveRBFSampler(coupling=OneSeed(of_the_number=True)), X)
