"""What pairs of frequencies of one block save, of many pairs of rows and of few."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from sklearn_crt import TrigRBFSampler
from sklearn_crt.samplers import HybridSampler, MaternSampler, PositiveRBFSampler
from sklearn_crt.theory import rf_conformity, rf_conformity_gap, rff_gap

DIMENSIONS = [1, 2, 3, 16, 64]
DIMENSIONS += [pytest.param(d, marks=pytest.mark.slow) for d in (4, 300, 1000)]
every_dimension = pytest.mark.parametrize("d", DIMENSIONS)


def positive_gap(q, d, cosine=0.0):
    return rf_conformity_gap(np.sqrt(q), d, cosine, relative=True)


def trigonometric_gap(q, d, cosine=0.0):
    return rff_gap(np.sqrt(q), d, cosine)


def log_conformity(q, d, cosine):
    return rf_conformity(np.sqrt(q), d, cosine, log=True)


def cosines(d):
    if d == 1:
        return [0.0, 0.3, -0.3]
    return [0.0, *[0.3] * (d <= 64), 1 / (d - 1), -1 / (d - 1)]


@pytest.fixture
def q():
    """Values of both ways through: so many that tables of them are made."""
    values = np.append(np.geomspace(1e-12, 1e4, 4200), [0.0, 2e5])
    shuffled = np.random.default_rng(0).permutation(values)
    return np.append([0.0, 2e5], shuffled).reshape(2, -1)


def many_and_few(gap, q, d, cosine):
    """Return each fifth of q, and its values among many and among few."""
    some = q[:, ::5]
    return some, gap(q, d, cosine)[:, ::5], gap(some, d, cosine)


@every_dimension
def test_positive_gaps_of_many_are_those_of_few(d, q):
    for cosine in cosines(d):
        some, values, series = many_and_few(positive_gap, q, d, cosine)
        assert np.all(values[some == 0] == 0)
        # a gap for an acute angle changes its sign, and is of any size
        floor = np.where((cosine > 0) & (some > 0.1), 1e-2, 0)
        size = np.maximum(np.abs(series), floor)[some > 0]
        assert np.max(np.abs(values - series)[some > 0] / size) < 1e-13


@every_dimension
def test_trigonometric_gaps_of_many_are_those_of_few(d, q):
    q = np.minimum(q, 1e5)
    for cosine in cosines(d):
        some, values, series = many_and_few(trigonometric_gap, q, d, cosine)
        error = np.abs(values - series)
        near = (some > 0) & (some <= 1)
        assert np.max(error[near] / np.abs(series[near])) < 1e-13
        assert error.max() < 5e-15
        assert np.all(values[some == 0] == 0)


def test_values_that_are_far_away(q):
    """Beyond what any table holds."""
    far = np.append(q.ravel(), [2e3, 3e5])
    for gap, d, cosine in (
        (trigonometric_gap, 2, 1.0),
        *(
            (gap, 3, c)
            for gap in (positive_gap, trigonometric_gap)
            for c in (0.0, -0.5)
        ),
    ):
        series = np.concatenate([gap(part, d, cosine) for part in (far[:9], far[-9:])])
        values = gap(far, d, cosine)
        assert_allclose(np.append(values[:9], values[-9:]), series, atol=2e-12)


def mean_sine(d):
    """Return E sin(psi) for the density ~ sin(psi)^(d - 1)."""
    logs = special.gammaln([(d + 1) / 2, (d + 2) / 2, d / 2])
    return np.exp(2 * logs[0] - logs[1] - logs[2])


@pytest.mark.parametrize("d", DIMENSIONS[1:])
def test_few_terms_of_the_series(d):
    """Near 0 all the digits of the leading terms, also for a small cosine."""
    for q in (1e-12, 1e-9):
        expected = q**2 / 2 * (1 - (d + 1) / (d + 2))
        assert_allclose(positive_gap(q, d), expected, rtol=1e-8)
        assert_allclose(trigonometric_gap(q, d), expected, rtol=1e-8)
        for cosine in cosines(d)[1:]:
            expected = -q * cosine * mean_sine(d)
            assert_allclose(positive_gap(q, d, cosine), expected, rtol=1e-7)


@pytest.mark.parametrize("cosine", [-0.5, 0.0, 0.5])
@pytest.mark.parametrize("d", [3, 16])
def test_positive_gap_against_conformity(d, cosine):
    q = np.geomspace(0.1, 100, 50)
    expected = -np.expm1(log_conformity(q, d, cosine) - q)
    assert_allclose(positive_gap(q, d, cosine), expected, rtol=1e-11, atol=1e-13)


def test_acute_angles_of_more_than_the_window_holds():
    """F_c exceeds exp(q) by 10^50: the logarithm of F_c is summed instead."""
    q = np.array([50.0, 1000.0])
    expected = -np.expm1(log_conformity(q, 1000, 0.5) - q)
    assert_allclose(positive_gap(q, 1000, 0.5), expected, rtol=1e-12)
    assert expected[1] < -1e40
    many = positive_gap(np.full(5000, 50.0), 1000, 0.5)
    assert_allclose(many, expected[0], rtol=1e-12)


def test_far_gap_in_odd_dimensions():
    """The asymptotic form begins at q = 1000 without a step."""
    for d in (1, 3, 5, 7):
        left, right = trigonometric_gap(np.array([1000.0, 1000.0 * (1 + 1e-12)]), d)
        assert_allclose(left, right, rtol=1e-10)


@pytest.mark.each_value
@pytest.mark.parametrize(
    "sampler",
    [
        *(
            kind(coupling=coupling)
            for kind in (PositiveRBFSampler, TrigRBFSampler)
            for coupling in ("orthogonal", "simplex")
        ),
        HybridSampler(),
        MaternSampler(shape_matrix=np.diag([1.0, 2.0, 3.0, 4.0])),
    ],
    ids=str,
)
@pytest.mark.parametrize("n_queries", [5, 120, 700])  # few, many, in several blocks
def test_variance_of_many_pairs_is_that_of_few(sampler, n_queries, rng):
    X = rng.normal(size=(n_queries, 4))
    Y = np.vstack([X[:5], rng.normal(size=(400, 4))])
    fitted = sampler.set_params(random_state=0).fit(X)
    whole, some = fitted.kernel_variance(X, Y), slice(None, None, n_queries // 5)
    parts = [fitted.kernel_variance(X[some], y) for y in np.array_split(Y, 9)]
    assert_allclose(whole[some], np.hstack(parts), rtol=1e-9, atol=1e-15)
    own = fitted.kernel_variance(X)
    assert_allclose(own[:, :5], whole[:, :5], rtol=1e-7, atol=1e-15)
