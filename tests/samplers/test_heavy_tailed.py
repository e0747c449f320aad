"""Matern, Laplacian, exponential-power maps: limits, variance, large phases."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse, special, stats
from sklearn.base import clone
from sklearn.metrics import pairwise

from sklearn_crt import TrigRBFSampler
from sklearn_crt.extend import Coupling, Frequencies, Independent, Orthogonal
from sklearn_crt.kernels import (
    exponential_power_kernel,
    matern_kernel,
)
from sklearn_crt.samplers import (
    ExponentialPowerSampler,
    LaplacianSampler,
    MaternSampler,
)
from sklearn_crt.testing import assert_unbiased, assert_variance
from sklearn_crt.testing.estimates import block_estimates

SAMPLERS = [MaternSampler, LaplacianSampler, ExponentialPowerSampler]
every_sampler = pytest.mark.parametrize("sampler", SAMPLERS)


@pytest.fixture
def X(rng):
    return rng.normal(size=(40, 3))


@pytest.fixture
def shape_matrix():
    return np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.4]])


def on_a_line(distances, n_features):
    rows = np.zeros((1 + len(distances), n_features))
    rows[1:, 0] = distances
    return rows


# ------------------------------------------------------------------------- limits
@pytest.mark.parametrize("coupling", ["iid", "orthogonal"])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (MaternSampler(nu=0.5), LaplacianSampler()),
        (ExponentialPowerSampler(alpha=1.0), LaplacianSampler()),
        (MaternSampler(nu=np.inf), TrigRBFSampler()),
        (ExponentialPowerSampler(alpha=2.0), TrigRBFSampler(sigma=2**0.5)),
    ],
)
def test_one_map_by_two_names(one, other, coupling, X):
    sigma = 1.0 if other.sigma is None else other.sigma
    one.set_params(sigma=1.0, coupling=coupling, random_state=3).fit(X)
    other.set_params(sigma=sigma, coupling=coupling, random_state=3).fit(X)
    assert_allclose(one.transform(X), other.transform(X), atol=1e-12)
    assert_allclose(one.exact_kernel(X), other.exact_kernel(X), rtol=1e-12)
    variance = other.kernel_variance(X)
    assert_allclose(one.kernel_variance(X), variance, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    ("sampler", "kernel"),
    [
        (MaternSampler(nu=4), lambda X: matern_kernel(X, nu=4, sigma=0.7)),
        (LaplacianSampler(), lambda X: matern_kernel(X, nu=0.5, sigma=0.7)),
        (
            LaplacianSampler(norm="l1"),
            lambda X: pairwise.laplacian_kernel(X, gamma=0.7),
        ),
        (
            ExponentialPowerSampler(alpha=0.7),
            lambda X: exponential_power_kernel(X, alpha=0.7, sigma=0.7),
        ),
    ],
)
def test_exact_kernel_is_the_function(sampler, kernel, X):
    fitted = sampler.set_params(sigma=0.7).fit(X)
    assert_allclose(fitted.exact_kernel(X), kernel(X), rtol=1e-9)


# ----------------------------------------------------------------------- variance
def test_variance_of_one_frequency(vectors):
    X, numbers = on_a_line([1.0], 2), vectors["kernels"]
    for sampler, name in (
        (LaplacianSampler(n_components=2), "Var RFF Laplacian r=1, one frequency"),
        (MaternSampler(n_components=2), "Var RFF Matern-3/2 r=1, one frequency"),
        (
            LaplacianSampler(n_components=1, random_phase=True),
            "Var phase feature Laplacian r=1",
        ),
        (LaplacianSampler(n_components=1), "Var phase feature Laplacian r=1"),
    ):
        fitted = sampler.set_params(sigma=1.0, coupling="iid").fit(X)
        assert_allclose(fitted.kernel_variance(X)[0, 1], numbers[name], rtol=1e-12)


@pytest.mark.parametrize(
    ("sampler", "ratios"),
    [
        (LaplacianSampler(), (0.923, 0.860, 0.845, 0.922)),
        (MaternSampler(nu=1.5), (0.813, 0.641, 0.591, 0.845)),
        (ExponentialPowerSampler(alpha=0.7), (0.952, 0.933, 0.929, 0.948)),
        (MaternSampler(nu=np.inf), (0.163, 0.150, 0.158, 0.671)),
    ],
)
def test_orthogonality_ratios_of_the_design(sampler, ratios):
    """Of one block at d = 16, found there by Monte Carlo."""
    X = on_a_line([0.2, 0.5, 1.0, 2.0], 16)
    sampler.set_params(sigma=1.0, n_components=32)
    one, other = (
        sampler.set_params(coupling=coupling).fit(X).kernel_variance(X)[0, 1:]
        for coupling in ("orthogonal", "iid")
    )
    assert_allclose(one / other, ratios, atol=2e-3)


def gap(sampler, r, d):
    """Return what an orthogonal pair of frequencies saves at some distances."""
    X = on_a_line(r, d)
    sigma = 1.0 if sampler.sigma is None else sampler.sigma
    sampler.set_params(sigma=sigma, n_components=4)
    one, other = (
        sampler.set_params(coupling=coupling).fit(X).kernel_variance(X[:1], X[1:])
        for coupling in ("iid", "orthogonal")
    )
    return 2 * (one - other)[0]


@pytest.mark.parametrize("d", [2, 5, 64])
def test_gap_of_a_mixture_of_one_scale_is_the_gaussian_gap(d):
    r = np.geomspace(0.05, 6, 30)
    expected = gap(TrigRBFSampler(), r, d)
    assert_allclose(gap(MaternSampler(nu=1e7), r, d), expected, atol=1e-6)
    expected = gap(TrigRBFSampler(sigma=2**0.5), r, d)
    found = gap(ExponentialPowerSampler(alpha=2 - 1e-7), r, d)
    assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("d", [2, 3, 20])
def test_two_ways_to_the_gap_of_the_laplacian_kernel(d):
    r = np.geomspace(1e-4, 30, 50)
    by_student = gap(LaplacianSampler(), r, d)
    by_stable = gap(ExponentialPowerSampler(alpha=1 - 1e-9), r, d)
    assert_allclose(by_student, by_stable, rtol=1e-5, atol=1e-8)


def test_gap_against_a_double_integral():
    """E 0F1(; d/2; -r^2 (s_1^2 + s_2^2) / 4) over two norms, as it is defined."""
    d, nu = 6, 3.0
    x, weights = np.polynomial.legendre.leggauss(400)
    u, weights = (x + 1) / 2, weights / 2
    norms = np.sqrt(2 * nu * stats.betaprime(d / 2, nu).ppf(u))
    r = np.array([0.3, 1.0, 2.5])
    kernel = matern_kernel([[0.0]], r[:, None], nu=nu)[0]
    z = r[:, None, None] * np.hypot(norms[:, None], norms)
    bessel = special.gamma(d / 2) * (2 / z) ** (d / 2 - 1) * special.jv(d / 2 - 1, z)
    moments = weights @ bessel @ weights
    assert_allclose(gap(MaternSampler(nu=nu), r, d), kernel**2 - moments, atol=2e-6)


@pytest.mark.each_value
@pytest.mark.parametrize(
    "sampler",
    [
        MaternSampler(nu=0.05),
        MaternSampler(nu=0.8),
        MaternSampler(nu=300.0),
        ExponentialPowerSampler(alpha=0.05),
        ExponentialPowerSampler(alpha=1.99),
        LaplacianSampler(norm="l1", random_phase=True),
    ],
)
@pytest.mark.parametrize("d", [1, 2, 30])
@pytest.mark.filterwarnings("ignore:The frequencies of:RuntimeWarning")
def test_variance_at_all_distances(sampler, d):
    X = on_a_line(np.geomspace(1e-9, 1e9, 60), d)
    fitted = sampler.set_params(sigma=1.0, n_components=2 * d + 1).fit(X)
    variance = fitted.kernel_variance(X)[0]
    assert np.all(np.isfinite(variance) & (variance >= 0) & (variance < 2))
    assert_allclose(np.diag(fitted.exact_kernel(X)), 1)


def test_stratified_norms_halve_the_variance():
    """The table of the design: one block at d = 16, distances 0.5, 1, 2."""
    X = on_a_line([0.5, 1.0, 2.0], 16)
    for sampler, ratios in (
        (LaplacianSampler(), (0.456, 0.587, 0.834)),
        (MaternSampler(nu=1.5), (0.326, 0.375, 0.785)),
        (TrigRBFSampler(), (0.095, 0.103, 0.650)),
    ):
        sampler.set_params(sigma=1.0, coupling=Orthogonal(stratified=True))
        estimates, fitted = block_estimates(sampler, X, n_blocks=3000)
        squares = (estimates - fitted.exact_kernel(X))[:, 0, 1:] ** 2
        assert not fitted.variance_is_exact_
        independent = fitted.kernel_variance(X)[0, 1:]  # that is what it reports
        iid = clone(fitted).set_params(coupling="iid").fit(X)
        assert_allclose(independent, iid.kernel_variance(X)[0, 1:])
        found = np.mean(squares, axis=0) / independent
        standard = np.std(squares, axis=0) / np.sqrt(3000) / independent
        assert np.all(np.abs(found - ratios) < 5 * standard + 1e-3)


class GaussianGap(LaplacianSampler):
    """Claims that a pair saves what it saves for the Gaussian kernel."""

    def kernel_variance(self, X, Y=None):
        params = {"n_components": self.n_components, "sigma": self.sigma}
        iid, blocks = (
            TrigRBFSampler(coupling=coupling, **params).fit(X).kernel_variance(X, Y)
            for coupling in ("iid", "orthogonal")
        )
        independent = LaplacianSampler(coupling="iid", **params).fit(X)
        return independent.kernel_variance(X, Y) - (iid - blocks)


def test_variance_without_the_quadrature_is_wrong():
    with pytest.raises(AssertionError, match="wrong variance"):
        assert_variance(GaussianGap(sigma=1.0))


# the errors of the paper's theorems 11 and 12 and table 1
class Changed(Coupling):
    """Independent frequencies, changed after they are drawn."""

    def __init__(self, change):
        self.change = change

    def draw(self, radial_law, n_frequencies, n_features, rng):
        right = Independent().draw(radial_law, n_frequencies, n_features, rng)
        return Frequencies(self.change(right.to_dense(), rng))


def test_laws_as_printed_in_the_paper_are_biased():
    def without_root_2_nu(frequencies, rng):
        return frequencies / np.sqrt(2 * 1.5)

    def without_chi(frequencies, rng):
        d, m = frequencies.shape
        return frequencies / np.sqrt(rng.chisquare(d, size=m))

    def one_number_a_column(frequencies, rng):
        return rng.standard_cauchy(size=frequencies.shape)

    for sampler, change in (
        (MaternSampler(nu=1.5), without_root_2_nu),
        (ExponentialPowerSampler(alpha=0.7), without_chi),
        (LaplacianSampler(), one_number_a_column),
    ):
        assert_unbiased(sampler.set_params(sigma=1.0, coupling="iid"), n_blocks=5000)
        with pytest.raises(AssertionError, match="biased"):
            changed = sampler.set_params(coupling=Changed(change))
            assert_unbiased(changed, n_blocks=5000)


# ------------------------------------------------------------------- shape matrices
@pytest.mark.parametrize("sampler", [MaternSampler(nu=0.8), LaplacianSampler()])
@pytest.mark.parametrize("sigma", [0.7, [0.5, 1.0, 2.0]])
def test_shape_matrix_is_a_change_of_coordinates(sampler, sigma, shape_matrix, X):
    sampler.set_params(
        sigma=sigma, shape_matrix=shape_matrix, random_state=0, n_components=31
    )
    fitted = sampler.fit(X)
    changed = np.asarray(sigma) * X @ np.linalg.cholesky(shape_matrix)
    plain = type(sampler)(sigma=1.0, random_state=0, n_components=31)
    plain.set_params(**({"nu": 0.8} if sampler.__class__ is MaternSampler else {}))
    plain.fit(changed)
    assert_allclose(fitted.transform(X), plain.transform(changed), atol=1e-9)
    assert_allclose(fitted.exact_kernel(X), plain.exact_kernel(changed), rtol=1e-9)
    assert_allclose(
        fitted.kernel_variance(X, X[:5]),
        plain.kernel_variance(changed, changed[:5]),
        rtol=1e-7,
        atol=1e-12,
    )
    r = fitted.exact_kernel(X[:1], X[1:2])[0, 0]
    u = np.asarray(sigma) * (X[0] - X[1])
    distance = np.sqrt(u @ shape_matrix @ u)
    alone = type(plain)(**plain.get_params()).set_params(random_state=0)
    alone.fit(np.zeros((1, 1)))
    assert_allclose(r, alone.exact_kernel([[0.0]], [[distance]])[0, 0], rtol=1e-9)


@every_sampler
def test_shape_matrix_with_sparse_rows_and_float32(sampler, shape_matrix, X, not_dense):
    fitted = sampler(shape_matrix=shape_matrix, random_state=0).fit(X)
    expected = fitted.transform(X)
    csr = sparse.csr_array(X)
    with not_dense(sparse.csr_array):
        from_csr = sampler(shape_matrix=shape_matrix, random_state=0).fit(csr)
        assert_allclose(from_csr.transform(csr), expected, atol=1e-9)
        kernel = from_csr.exact_kernel(csr)
    assert_allclose(kernel, fitted.exact_kernel(X), rtol=1e-8)
    single = sampler(shape_matrix=shape_matrix, random_state=0).fit(
        X.astype(np.float32)
    )
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    assert single.exact_kernel(X.astype(np.float32)).dtype == np.float32


@every_sampler
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda M: M[:2, :2], r"shape_matrix has shape \(2, 2\), but X has 3 features"),
        (lambda M: np.triu(M), "shape_matrix must be symmetric"),
        (
            lambda M: M - 2 * np.eye(3),
            "shape_matrix must be positive definite, but its sma",
        ),
        (lambda M: np.full((3, 3), np.inf), "infinity"),
        (lambda M: "mahalanobis", "'shape_matrix' parameter"),
    ],
)
def test_wrong_shape_matrix(sampler, change, message, shape_matrix, X):
    with pytest.raises(ValueError, match=message):
        sampler(shape_matrix=change(shape_matrix)).fit(X)


# ------------------------------------------------------------------------ L1 norm
def test_l1_laplacian_has_one_coupling(X):
    for coupling in ("auto", "iid", Independent()):
        fitted = LaplacianSampler(norm="l1", coupling=coupling, random_state=0).fit(X)
        assert fitted.variance_is_exact_
        assert fitted.get_params()["coupling"] is coupling
    for coupling in ("orthogonal", Orthogonal()):
        with pytest.raises(ValueError, match=r"with norm='l1'.*use 'auto' or 'iid'"):
            LaplacianSampler(norm="l1", coupling=coupling).fit(X)
    with pytest.raises(
        ValueError, match="shape_matrix requires norm='l2', got norm='l1'"
    ):
        LaplacianSampler(norm="l1", shape_matrix=np.eye(3)).fit(X)


def test_auto_is_orthogonal_for_l2(X):
    auto = LaplacianSampler(random_state=0).fit(X)
    named = LaplacianSampler(coupling="orthogonal", random_state=0).fit(X)
    assert_allclose(auto.transform(X), named.transform(X))
    assert auto.variance_is_exact_


def test_l1_distances_of_sparse_rows(X):
    csr = sparse.csr_array(X * (np.abs(X) > 0.5))
    fitted = LaplacianSampler(norm="l1", sigma=[1.0, 2.0, 0.5]).fit(csr)
    assert_allclose(fitted.exact_kernel(csr), fitted.exact_kernel(csr.toarray()))


# ------------------------------------------------------------- structured couplings
def test_few_columns_with_nearly_uniform_directions(X, rng):
    """At d = 16, alpha = 0.7, one axis, distance 3, the estimate is 0.05 too large."""
    message = (
        r"coupling='structured-orthogonal' is not supported by \w+ with up to 32 "
        r"columns \(X has 3\), because .* use one of 'iid', 'orthogonal'"
    )
    for sampler in (LaplacianSampler, ExponentialPowerSampler):
        with pytest.raises(ValueError, match=message):
            sampler(coupling="structured-orthogonal").fit(X)
    MaternSampler(coupling="structured-orthogonal").fit(X)
    wide = on_a_line([0.7, 1.4, 3.0], 33)
    fitted = LaplacianSampler(
        coupling="structured-orthogonal", sigma=1.0, n_components=200_000
    ).fit(wide)
    assert not fitted.variance_is_exact_
    error = fitted.approximate_kernel(wide[:1], wide) - fitted.exact_kernel(
        wide[:1], wide
    )
    assert np.abs(error).max() < 0.02


# ----------------------------------------------------------------------- parameters
@pytest.mark.parametrize(
    ("sampler", "message"),
    [
        (MaternSampler(nu=0), r"'nu' parameter .* \(0.0, inf\]"),
        (MaternSampler(nu="rough"), "'nu' parameter"),
        (ExponentialPowerSampler(alpha=0), r"'alpha' parameter .* \(0.0, 2.0\]"),
        (ExponentialPowerSampler(alpha=2.5), r"'alpha' parameter"),
        (LaplacianSampler(norm="max"), "'norm' parameter"),
        (LaplacianSampler(random_phase="yes"), "'random_phase' parameter"),
        (MaternSampler(coupling="auto"), "coupling='auto' is not supported by Matern"),
    ],
)
def test_parameters_out_of_range(sampler, message, X):
    with pytest.raises(ValueError, match=message):
        sampler.fit(X)


@pytest.mark.filterwarnings("ignore:The frequencies of:RuntimeWarning")
@pytest.mark.parametrize("alpha", [0.05, 0.049, 1e-4])
def test_variance_where_tails_are_heaviest(alpha, X):
    sampler = ExponentialPowerSampler(alpha=alpha, random_state=0)
    independent = clone(sampler).set_params(coupling="iid").fit(X).kernel_variance(X)
    # orthogonality saves next to nothing there
    assert_allclose(sampler.fit(X).kernel_variance(X), independent, rtol=1e-3)
    assert sampler.variance_is_exact_ == (alpha == 0.05)


@pytest.mark.parametrize(
    ("sampler", "advice"),
    [
        (ExponentialPowerSampler(alpha=0.25), r"R\^-0.25\. .* alpha of 0.3 or more"),
        (MaternSampler(nu=0.1), r"R\^-0.2\. .* nu of 0.15 or more"),
    ],
)
def test_very_heavy_tails_are_warned_about_with_the_reason(sampler, advice, X):
    for data in (X, X.astype(np.float32)):
        with pytest.warns(RuntimeWarning, match=advice) as record:
            fitted = sampler.fit(data)
        assert record[0].filename == __file__
        features = fitted.transform(data)
        assert np.all(np.isfinite(features))
        assert_allclose(np.sum(features**2, axis=1), 1, rtol=1e-5)
        assert np.all(np.isfinite(fitted.frequencies_))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ExponentialPowerSampler(alpha=0.3).fit(X)
        MaternSampler(nu=0.15).fit(X)


# -------------------------------------------------------------------- large phases
def test_large_phases_in_float32_are_those_of_float64(rng):
    """Against phases of the same float32 frequencies and rows, in float64."""
    X = rng.normal(size=(300, 3)).astype(np.float32)
    options = {"alpha": 0.3, "sigma": 1.0, "n_components": 4000, "random_state": 0}

    fitted = ExponentialPowerSampler(**options).fit(X)
    phases = X.astype(np.float64) @ fitted.frequencies_.astype(np.float64)
    large = np.abs(phases) > 2.0**20
    assert 0.01 < large.mean() < 0.2

    def worst(cosines):
        return np.abs(cosines - np.cos(phases))[large].max()

    assert worst(fitted.transform(X)[:, :2000] * np.sqrt(2000)) < 1e-4
    careless = X @ fitted.frequencies_
    assert careless.dtype == np.float32
    assert worst(np.cos(careless)) > 0.1


def test_some_rows_with_large_phases_do_not_change_the_others(rng):
    X = rng.normal(size=(300, 3)).astype(np.float32)
    wide = X.copy()
    wide[::2] *= 1e6
    fitted = LaplacianSampler(sigma=1.0, n_components=64, random_state=0).fit(X)
    assert_allclose(fitted.transform(wide)[1::2], fitted.transform(X)[1::2], atol=1e-6)


# -------------------------------------------------------------------- random phases
@pytest.mark.parametrize("sampler", [*SAMPLERS, TrigRBFSampler])
def test_random_phases_nest_and_are_the_columns(sampler, X):
    options = {"random_phase": True, "random_state": 0, "sigma": 1.0}
    few = sampler(n_components=3, **options).fit(X)
    many = sampler(n_components=7, **options).fit(X)
    assert_allclose(few.phase_, many.phase_[:3])
    expected = np.cos(X @ many.frequencies_ + many.phase_) * np.sqrt(2 / 7)
    assert_allclose(many.transform(X), expected, atol=1e-9)
    assert_allclose(many.map_.frequency_index(), np.arange(7))
    smaller = np.sqrt(7 / 3) * many.transform(X)[:, :3]
    assert_allclose(smaller, few.transform(X), atol=1e-9)


def test_pairs_or_phases():
    """Pairs win near x = y; phases win where the kernel is small."""
    X = on_a_line([0.05, 8.0], 3)
    pairs, phases = (
        LaplacianSampler(sigma=1.0, coupling="iid", random_phase=choice)
        .fit(X)
        .kernel_variance(X)[0, 1:]
        for choice in (False, True)
    )
    assert pairs[0] < 0.2 * phases[0]
    assert_allclose(pairs[1], phases[1], rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "sampler", [MaternSampler(nu=0.01), ExponentialPowerSampler(alpha=0.01)], ids=str
)
def test_large_phases_of_a_row_depend_on_no_other_row(sampler, convert, dtype, rng):
    """A product of one row is rounded in another way than that of many."""
    X = rng.normal(size=(60, 4)).astype(dtype)
    sampler.set_params(random_state=0)
    with pytest.warns(RuntimeWarning, match="their sines and cosines are noise"):
        fitted = sampler.fit(X)
    whole = fitted.transform(convert(X))
    if dtype == np.float64:  # float32 has three digits of phases that are not large
        assert_allclose(whole, fitted.transform(X), atol=1e-7)
    for size in (1, 7):
        parts = [X[i : i + size] for i in range(0, len(X), size)]
        found = np.vstack([fitted.transform(convert(part)) for part in parts])
        assert_allclose(found, whole, atol=1e-7)
