"""Gaps of many pairs, from tables, against the series of each."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import special

from sklearn_crt import (
    HybridSampler,
    MaternSampler,
    PositiveRBFSampler,
    TrigRBFSampler,
)
from sklearn_crt.maps import _loop
from sklearn_crt.maps._piecewise import tabulate
from sklearn_crt.maps.block_savings import (
    _gaussian,
    log_conformity,
    positive_gap,
    trigonometric_gap,
)

DIMENSIONS = [1, 2, 3, 4, 16, 64, 300, 1000]


def cosines(d):
    if d == 1:
        return [0.0, 0.3, -0.3]
    return [0.0, *[0.3] * (d <= 64), 1 / (d - 1), -1 / (d - 1)]


@pytest.fixture
def q():
    """Values of both ways through, more than are summed one by one."""
    values = np.append(np.geomspace(1e-12, 1e4, 4200), [0.0, 2e5])
    shuffled = np.random.default_rng(0).permutation(values)
    return np.append([0.0, 2e5], shuffled).reshape(2, -1)


def table_and_series(gap, q, d, cosine):
    """Return q, values from the table and from the series, at each fifth of q."""
    some = q[:, ::5]
    series = gap(some, d, cosine)
    assert some.size <= _gaussian._FEW < q.size
    return some, gap(q, d, cosine)[:, ::5], series


@pytest.mark.parametrize("d", DIMENSIONS)
def test_positive_table_against_the_series(d, q):
    for cosine in cosines(d):
        some, values, series = table_and_series(positive_gap, q, d, cosine)
        assert np.all(values[some == 0] == 0)
        # a gap for an acute angle changes its sign, and is of any size
        floor = np.where((cosine > 0) & (some > 0.1), 1e-2, 0)
        size = np.maximum(np.abs(series), floor)[some > 0]
        assert np.max(np.abs(values - series)[some > 0] / size) < 1e-13


@pytest.mark.parametrize("d", DIMENSIONS)
def test_trigonometric_table_against_the_series(d, q):
    q = np.minimum(q, 1e5)  # beyond, the series again
    for cosine in cosines(d):
        some, values, series = table_and_series(trigonometric_gap, q, d, cosine)
        error = np.abs(values - series)
        near = (some > 0) & (some <= 1)
        assert np.max(error[near] / np.abs(series[near])) < 1e-13
        assert error.max() < 5e-15
        assert np.all(values[some == 0] == 0)


def test_values_beyond_the_tables(q):
    far = np.append(q.ravel(), [2e3, 3e5])
    for d, cosine in ((2, 1.0), (3, 0.0), (3, -0.5)):
        for gap in (positive_gap, trigonometric_gap):
            series = np.concatenate(
                [gap(part, d, cosine) for part in (far[:9], far[-9:])]
            )
            values = gap(far, d, cosine)
            assert_allclose(np.append(values[:9], values[-9:]), series, atol=2e-12)


def mean_sine(d):
    """Return E sin(psi) for the density ~ sin(psi)^(d - 1)."""
    logs = special.gammaln([(d + 1) / 2, (d + 2) / 2, d / 2])
    return np.exp(2 * logs[0] - logs[1] - logs[2])


def test_few_terms_of_the_series():
    """Near 0 all the digits of the leading terms, also for a small cosine."""
    for d in DIMENSIONS[1:]:
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
    many = positive_gap(np.full(_gaussian._FEW + 1, 50.0), 1000, 0.5)
    assert_allclose(many, expected[0], rtol=1e-12)


def test_far_gap_in_odd_dimensions():
    """The asymptotic form begins at q = 1000 without a step."""
    for d in (1, 3, 5, 7):
        left, right = trigonometric_gap(np.array([1000.0, 1000.0 * (1 + 1e-12)]), d)
        assert_allclose(left, right, rtol=1e-10)


@pytest.mark.parametrize("coupling", ["orthogonal", "simplex"])
@pytest.mark.parametrize("sampler", [PositiveRBFSampler, TrigRBFSampler])
def test_variance_of_many_pairs_is_that_of_few(sampler, coupling, rng):
    X, Y = rng.normal(size=(2, 80, 16))
    fitted = sampler(coupling=coupling, random_state=0).fit(X)
    halves = [fitted.kernel_variance(rows, Y) for rows in np.split(X, 2)]
    assert_allclose(fitted.kernel_variance(X, Y), np.vstack(halves), rtol=1e-12)


# ----------------------------------------------------------------------- tables
def test_table_of_a_known_function():
    table = tabulate(lambda q: np.cos(3 * q) + 1 / (1 + q), 250)
    q = np.append(np.linspace(0, 250, 100_001), [250.0])
    assert_allclose(table(q), np.cos(3 * q) + 1 / (1 + q), rtol=0, atol=2e-13)
    assert table(q.reshape(1, -1)[:, :0]).shape == (1, 0)


def test_table_keeps_the_digits_of_a_small_function():
    table = tabulate(lambda q: q * np.expm1(-q), 9, power=2)
    q = np.append(
        np.geomspace(1e-150, 9, 1001), np.float64(15) - np.geomspace(1e-15, 1)
    )
    assert_allclose(table(q), q * np.expm1(-q), rtol=1e-14)
    assert table(np.zeros(3)).tolist() == [0, 0, 0]
    near = table(np.array([-1e-15, 1e-15, np.nan]))  # rounding of differences
    assert_allclose(near[:2], 0, atol=1e-14)
    assert np.isnan(near[2])


def test_table_halves_pieces_where_the_function_bends():
    def bump(q):
        return 1 / (1 + 4 * (q - 37.3) ** 2)

    table = tabulate(bump, 200)
    q = np.linspace(0, 200, 100_001)
    assert_allclose(table(q), bump(q), rtol=1e-12)
    widths = np.diff(table.edges)
    assert widths.min() < 0.6 < 2 < widths.max()


@pytest.mark.parametrize(
    "sampler",
    [
        PositiveRBFSampler(),
        TrigRBFSampler(coupling="simplex"),
        HybridSampler(),
        MaternSampler(metric=np.diag([1.0, 2.0, 3.0, 4.0])),
    ],
)
def test_variance_block_by_block(sampler, rng, monkeypatch):
    X = rng.normal(size=(30, 4))
    Y = np.vstack([X[:5], rng.normal(size=(20, 4))])
    fitted = sampler.set_params(random_state=0).fit(X)
    whole = [fitted.kernel_variance(X), fitted.kernel_variance(X, Y)]
    monkeypatch.setattr(_loop, "_PAIRS", 7 * 25)
    blocks = [fitted.kernel_variance(X), fitted.kernel_variance(X, Y)]
    for one, other in zip(whole, blocks, strict=True):
        assert_allclose(other, one, rtol=1e-9, atol=1e-15)
    assert_allclose(np.diag(blocks[0]), np.diag(whole[0]), rtol=1e-12, atol=1e-30)
