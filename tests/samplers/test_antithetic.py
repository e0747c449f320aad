"""Pairs of frequencies w and -w: closed forms, columns, range and refusals."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from sklearn_crt.extend import (
    Antithetic,
    Independent,
    Orthogonal,
    Simplex,
    SimplexPlus,
    chi_law,
)
from sklearn_crt.samplers import (
    DERFSampler,
    OPRFSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)
from sklearn_crt.testing import assert_coupling, assert_variance, check_sampler
from sklearn_crt.testing.estimates import contract_rows

pytestmark = pytest.mark.usefixtures("few_seeds")

POSITIVE = [PositiveRBFSampler, OPRFSampler]


def fit(sampler, pair, n_components, base=None, **options):
    coupling = Antithetic(base)
    model = sampler(
        sigma=1.0, n_components=n_components, coupling=coupling, center=False, **options
    )
    return model.fit(pair[0], X_key=pair[1])


def best_A(q, d, coupling):
    """Return the parameter that is best for a single pair with |x + y|^2 = q."""
    row = 0.5 * np.sqrt(q) * np.eye(1, d)
    options = {"sigma": 1.0, "center": False, "n_components": 2, "coupling": coupling}
    return OPRFSampler(**options).fit(row).A_


@pytest.mark.each_value
@pytest.mark.parametrize("n_features", [1, 4])
@pytest.mark.parametrize("kernel", ["gaussian", "softmax"])
@pytest.mark.parametrize("sampler", POSITIVE)
def test_contract(sampler, kernel, n_features):
    check_sampler(sampler(coupling="antithetic", kernel=kernel), n_features)


def test_contract_of_the_coupling():
    assert_coupling(Antithetic(), chi_law)


@pytest.mark.parametrize("n_features", [2, 3])
@pytest.mark.parametrize("base", [Independent(), Simplex()], ids=repr)
def test_variance_with_other_bases(base, n_features):
    sampler = PositiveRBFSampler(sigma=1.0, coupling=Antithetic(base))
    assert_variance(sampler, contract_rows(n_features))


@pytest.mark.parametrize(
    ("base", "name"),
    [(None, "rel_mse_orth_4pairs"), (Independent(), "rel_mse_iid_4pairs")],
)
def test_reference_numbers(base, name, pair4, beyond):
    fitted = fit(OPRFSampler, pair4, 8, base)
    assert_allclose(fitted.A_, beyond["antithetic"]["A"], rtol=1e-12)
    relative = fitted.kernel_variance(*pair4) / fitted.exact_kernel(*pair4) ** 2
    assert_allclose(relative, [[beyond["antithetic"][name]]], rtol=1e-10)


@pytest.mark.parametrize("d", [1, 2, 16, 1000])
@pytest.mark.parametrize("q", [0.0, 1e-14, 1e-6, 0.5, 8.0, 1e6])
def test_best_parameter_lies_between_those_of_single_frequencies(q, d):
    low, high = (best_A(part, d, "iid") for part in (q, q / 2))
    assert low - 1e-15 <= best_A(q, d, "antithetic") <= high + 1e-15


@pytest.mark.parametrize("q", [0.05, 1.0, 6.0])
def test_a_moved_parameter_is_worse(q):
    d, A = 5, best_A(q, 5, "antithetic")

    def log_second_moment(A):  # of (f(w) + f(-w)) / 2, over the squared kernel
        rho = 1 / (1 - 8 * A)
        constant = d * np.log((1 + rho) / (2 * np.sqrt(rho)))
        return constant + np.logaddexp(rho * q, -q)

    best = log_second_moment(A)
    for factor in (0.98, 1.02):
        assert log_second_moment(factor * A) > best


@pytest.mark.parametrize("sampler", POSITIVE)
def test_variance_where_all_terms_are_small(sampler):
    # (cosh q - 1) K^2 / m for A = 0: the difference of exponentials has no digits left
    pair = np.full((1, 3), 1e-5), np.full((1, 3), 2e-5)
    fitted = fit(sampler, pair, 2)
    q, rho = np.sum((pair[0] + pair[1]) ** 2), 1 / (1 - 8 * getattr(fitted, "A_", 0))
    leading = q**2 * (0.125 * (1 + rho) ** 2 + 0.5 * (1 / 3) - (1 / 3))
    if sampler is PositiveRBFSampler:
        leading = 0.5 * q**2
    assert_allclose(fitted.kernel_variance(*pair), [[leading]], rtol=1e-4)


def test_variance_far_away_overflows_to_infinity_at_most(rng):
    X = rng.normal(size=(4, 3)) * 100
    for sampler in POSITIVE:
        variance = fit(sampler, (X, X), 6).kernel_variance(X)
        assert not np.any(np.isnan(variance))


@pytest.mark.parametrize("base", [None, Simplex()], ids=repr)
@pytest.mark.parametrize("sampler", POSITIVE)
def test_columns_are_those_of_w_and_of_minus_w(sampler, base, rng):
    X = rng.normal(size=(5, 3))
    fitted = sampler(sigma=0.4, n_components=7, coupling=Antithetic(base)).fit(X)
    x, W = 0.4 * (X - X.mean(axis=0)), fitted.frequencies_
    W = np.hstack([W[:, :3], -W[:, :3], W[:, 3:]])
    A = getattr(fitted, "A_", 0.0)
    share = np.repeat([1 / 8, 1 / 4], [6, 1])
    exponent = A * np.sum(W**2, axis=0) - np.sum(x**2, axis=1, keepdims=True)
    exponent += np.sqrt(1 - 4 * A) * x @ W
    expected = np.sqrt(share) * (1 - 4 * A) ** 0.75 * np.exp(exponent)
    assert_allclose(fitted.transform(X), expected, rtol=1e-12)
    assert fitted.map_.frequency_index().tolist() == [0, 1, 2, 0, 1, 2, 3]
    assert fitted.map_.columns_per_frequency == 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [0.1, 5.0, 40.0])
@pytest.mark.parametrize("n_features", [4, 60])  # without and with half of the product
@pytest.mark.parametrize("width", [20, 21])
def test_features_are_the_exponentials_of_log_features(
    scale, n_features, width, dtype, rng
):
    X = (rng.normal(size=(50, n_features)) * scale / n_features**0.5).astype(dtype)
    fitted = OPRFSampler(sigma=1.0, n_components=width, coupling="antithetic").fit(X)
    ((_, mantissa, exponent),) = fitted.map_.iter_log_features(X)
    assert mantissa is None
    with np.errstate(under="ignore", over="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*eatures of .* are too", RuntimeWarning)
        expected, out = np.exp(exponent), fitted.transform(X)
    tolerance = 1e-12 if dtype == np.float64 else 2e-3
    assert_allclose(out, expected, rtol=tolerance, atol=np.finfo(dtype).tiny * 1e6)


@pytest.mark.parametrize("sampler", [OPRFSampler, DERFSampler])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("n_features", [6, 60])  # without and with half of the product
@pytest.mark.parametrize("width", [1, 2, 20, 21])
def test_opposite_rows_change_places(sampler, convert, n_features, width, rng):
    """The feature of w for x - c is that of -w for c - x."""
    X = rng.normal(size=(30, n_features))
    fitted = sampler(n_components=width, coupling="antithetic", random_state=0).fit(X)
    n_pairs, opposite = width // 2, 2 * fitted.center_ - X
    places = np.r_[n_pairs : 2 * n_pairs, :n_pairs]
    for method in (fitted.transform, fitted.transform_key):
        expected = method(opposite)[:, places]
        found = method(convert(X))[:, : 2 * n_pairs]
        assert_allclose(found, expected, rtol=1e-9)
        assert width == 1 or not np.allclose(found, expected[:, places])


def test_draws_nest():
    X = np.random.default_rng(0).normal(size=(9, 3))
    wide, narrow = (
        OPRFSampler(n_components=n, coupling="antithetic", random_state=0).fit(X)
        for n in (14, 6)
    )
    columns = np.r_[:3, 7:10]  # of pairs: the opposite ones are the second half
    factor = np.sqrt(14 / 6)
    assert_allclose(narrow.transform(X), wide.transform(X)[:, columns] * factor)


@pytest.mark.parametrize("coupling", ["antithetic", Antithetic()], ids=str)
def test_other_maps_refuse_pairs(coupling):
    with pytest.raises(ValueError, match=r"TrigRBFSampler; use one of 'iid'"):
        TrigRBFSampler(coupling=coupling).fit(np.eye(3))


@pytest.mark.parametrize("base", [Antithetic(), SimplexPlus()], ids=str)
def test_bases_that_cannot_be_made_antithetic(base):
    with pytest.raises(ValueError, match="cannot be made antithetic"):
        Antithetic(base)


def test_coupling_says_what_its_base_says():
    base = Orthogonal(stratified=True)
    coupling = Antithetic(base)
    assert repr(coupling) == "Antithetic(Orthogonal(stratified=True))"
    assert not coupling.independent_norms
    assert Antithetic(Simplex()).cosine(4) == pytest.approx(-1 / 3)
    assert coupling.block_sizes(7, 3).tolist() == [3, 3, 1]
    assert (coupling.exact, coupling.bias) == (True, 0.0)
    draws = [c.draw(chi_law, 5, 3, np.random.default_rng(0)) for c in (coupling, base)]
    assert_allclose(draws[0].to_dense(), draws[1].to_dense())
