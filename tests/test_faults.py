"""Each contract check fails on the fault it is there to catch."""

import numpy as np
import pytest
from scipy import sparse, stats

from sklearn_crt import (
    HybridSampler,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)
from sklearn_crt.frequencies import (
    BlockCoupling,
    Orthogonal,
    Projection,
    Simplex,
    SimplexPlus,
    chi_law,
)
from sklearn_crt.frequencies._simplex_plus import balance
from sklearn_crt.samplers import (
    AngularCoefficient,
    ClusteredSampler,
    ComplexExponentialSampler,
)
from sklearn_crt.samplers._rows import UnitRows
from sklearn_crt.testing import (
    assert_coupling,
    assert_invariant,
    assert_mean,
    assert_nested,
    assert_unbiased,
    assert_variance,
    block_estimates,
    contract_rows,
)

ALL = [TrigRBFSampler, PositiveRBFSampler, OPRFSampler]


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
        return Projection((weights / norms[:, None] * norms[blocks][:, None]).T)


class OneStream(BlockCoupling):
    """One seed for the norms and for the directions."""

    def draw(self, radial_law, n_frequencies, n_features, rng):
        size = (n_frequencies, n_features)
        directions = np.random.default_rng(0).standard_normal(size)
        seeds = np.random.default_rng(0).standard_normal(size)[:, 0]
        norms = radial_law(n_features).ppf(stats.norm.cdf(seeds))
        unit = directions / np.linalg.norm(directions, axis=1, keepdims=True)
        return Projection((norms[:, None] * unit).T)

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

    def _directions(self, norms, n_features, rng):
        return balance(norms)


class Sharp(Simplex):
    """Claims the cosine of a simplex in one dimension less."""

    def cosine(self, n_features):
        return -1 / (n_features - 2)


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
    "coupling",
    [
        UnsignedQR(),
        OneRadius(),
        OneStream(),
        Oblique(),
        OneDrawOfNorms(),
        Sharp(),
        NotRotated(),
    ],
)
def test_wrong_coupling(coupling):
    with pytest.raises(AssertionError):
        assert_coupling(coupling, chi_law)


def test_wrong_norms():
    with pytest.raises(AssertionError, match="norms do not have their law"):

        class Wide(Orthogonal):
            def draw(self, radial_law, n_frequencies, n_features, rng):
                right = super().draw(radial_law, n_frequencies, n_features, rng)
                return Projection(1.02 * right.to_dense())

        assert_coupling(Wide(), chi_law)


@pytest.mark.parametrize("base", ALL)
def test_bandwidth_off_by_two_percent(base):
    class Off(base):
        def _unit(self, X, *tables):
            rows = super()._unit(X, *tables)
            return UnitRows(X, 1.02 * self.sigma_, self._center(), rows.frequencies)

    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(Off(sigma=1.0))


@pytest.mark.parametrize("base", ALL)
def test_variance_of_a_wrong_power(base):
    class Wrong(base):
        def _variance(self, X, Y):
            kernel = self._kernel(X, Y)
            right = super()._variance(X, Y) * self._n_frequencies
            return (right + kernel**2 - kernel) / self._n_frequencies

    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(Wrong(sigma=1.0))


@pytest.mark.parametrize("base", ALL)
def test_variance_that_forgets_the_coupling(base):
    class Forgetful(base):
        def _n_pairs(self):
            return 0

    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(Forgetful(sigma=1.0))


def test_bias_beyond_the_stated(rng):
    estimates = 1.02 + 0.01 * rng.standard_normal((1000, 3))
    assert_mean(estimates, np.ones(3), bias=0.02)
    with pytest.raises(AssertionError, match="biased"):
        assert_mean(estimates, np.ones(3), bias=0.01)


class Spoilt(PositiveRBFSampler):
    """Features that ``change`` spoils after the fact."""

    change = None

    def _fit(self, X, X_key, sample_weight, first):
        self._n_rows = len(X) if isinstance(X, np.ndarray) else X.shape[0]
        return super()._fit(X, X_key, sample_weight, first)

    def __setstate__(self, state):
        super().__setstate__(state)
        self._restored = 2

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
        (lambda self, X, F: F * self._n_rows, "partial_fit"),
        (lambda self, X, F: F * getattr(self, "_restored", 1), "pickling"),
    ],
)
def test_variant_features(change, message, rng):
    with pytest.raises(AssertionError, match=message):
        assert_invariant(_spoil(change), rng.normal(size=(400, 4)))


class Constant(PositiveRBFSampler):
    """Ignores the seed."""

    def _generators(self):
        return np.random.default_rng(0).spawn(2)


def test_one_draw_for_all(rng):
    with pytest.raises(AssertionError, match="one draw for all"):
        assert_invariant(Constant(), rng.normal(size=(400, 4)))


def test_width_and_nesting(rng):
    X = rng.normal(size=(20, 4))

    class Rounded(PositiveRBFSampler):
        def transform(self, X):
            return np.repeat(super().transform(X), 2, axis=1)

    with pytest.raises(AssertionError):
        assert_nested(Rounded(), X)

    class NotNested(PositiveRBFSampler):
        def _generators(self):
            return np.random.default_rng([*self._seed, self.n_components]).spawn(2)

    with pytest.raises(AssertionError, match="draws of"):
        assert_nested(NotNested(), X)


class SameSigns(HybridSampler):
    """Forgets the minus sign of the key side."""

    def _draw_projection(self, n_features, rng):
        projection = super()._draw_projection(n_features, rng)
        self._terms = [term._replace(key_sign=1) for term in self._terms]
        return projection


class OneStreamForAll(HybridSampler):
    """Coefficients share their randomness with the base maps."""

    def _generators(self):
        class Repeated(np.random.Generator):
            def spawn(self, n):
                seed = self.integers(2**31)
                return [np.random.default_rng(seed) for _ in range(n)]

        first, second = super()._generators()
        return Repeated(first.bit_generator), second


class CertainCoefficient(AngularCoefficient):
    """Claims that it has no variance."""

    def _variance(self, X, Y):
        return np.zeros_like(super()._variance(X, Y))


class Unconjugated(ComplexExponentialSampler):
    """Forgets the sign of the imaginary part of the key side."""

    def _features(self, rows, out, key):
        mantissa, exponent = super()._features(rows, out, key)
        n_pairs = self.n_components // 2
        if key:
            mantissa[:, n_pairs : 2 * n_pairs] *= -1
        return mantissa, exponent


class OtherPlaces(ClusteredSampler):
    """Gives keys the columns of the query cluster of the same number."""

    def _members(self, unit, key):
        labels = self.clusters_[key].assign(unit)
        for block in self.blocks_:
            members = np.flatnonzero(block.queries[labels])
            if members.size:
                yield block, members


HYBRID = {"sigma": 1.0, "n_components": 24, "n_coefficients": 2, "coupling": "iid"}


@pytest.mark.parametrize("fault", [SameSigns, OneStreamForAll])
@pytest.mark.parametrize("kind", ["angular", "gaussian"])
def test_wrong_composition(fault, kind):
    params = HYBRID | {"n_components": 16 if kind == "angular" else 24, "kind": kind}
    params["n_coefficients"] = 1
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(fault(**params), 1.4 * contract_rows(), n_draws=200)


class MeanCoefficients(HybridSampler):
    """Forgets that the coefficients vary: lambda^2 for the mean of its square."""

    def _main_variance(self, *pair):
        lambdas = [
            a + c.exact_kernel(*pair) for a, c in zip(self.a_, self.coefficients_)
        ]
        lambdas.append(1 - sum(lambdas))
        variances = [base.kernel_variance(*pair) for base in self.bases_]
        return sum(m**2 * v for m, v in zip(lambdas, variances, strict=True))


class SharedUnawares(HybridSampler):
    """Has shared projections and the variance of independent ones."""

    def _covariance_is_known(self):
        return False


def test_variance_of_a_wrong_composition():
    X = contract_rows() * np.linspace(0.6, 1.4, 6)[:, None]
    for fault, shared in ((MeanCoefficients, False), (SharedUnawares, True)):
        assert_variance(HybridSampler(shared=shared, **HYBRID), X)
        with pytest.raises(AssertionError, match="wrong variance"):
            assert_variance(fault(shared=shared, **HYBRID), X)


def test_coefficient_without_its_variance():
    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(CertainCoefficient(coupling="iid"))


def test_key_side_without_conjugate():
    with pytest.raises(AssertionError, match="biased"):
        assert_unbiased(Unconjugated([1j, 0.8, 1.2j, -1.0], sigma=1.0))


def test_keys_in_the_blocks_of_queries():
    X = contract_rows()
    sampler = OtherPlaces(sigma=1.0, n_components=40, random_state=0).fit(
        X, X_key=2 * X
    )
    product = sampler.transform(X) @ sampler.transform_key(2 * X).T
    assert not np.allclose(product, sampler.approximate_kernel(X, 2 * X))
