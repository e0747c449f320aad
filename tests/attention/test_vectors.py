"""Attention against reference numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.attention import (
    fmm_attention,
    linear_attention,
    softmax_attention,
)
from sklearn_crt.attention._heads import mean_sq_sum, optimal_A
from sklearn_crt.attention._log_features import Features
from sklearn_crt.attention._sums import KeySums
from sklearn_crt.maps import port

from .conftest import SIGMOID_1, angular_hybrid, exponential_map, trigonometric_map

TOLERANCE = {"rtol": 0, "atol": 1e-9}


@pytest.mark.parametrize("causal", [False, True])
def test_exact(case, attention_vectors, causal):
    expected = attention_vectors["exact causal" if causal else "exact"]
    found = softmax_attention(case.q, case.k, case.v, causal=causal)
    assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["FAVOR+", "FAVOR++"])
def test_positive(case, attention_vectors, name, causal):
    A = 0.0 if name == "FAVOR+" else attention_vectors["A*"]
    feature_map = exponential_map(case.W, A)
    found = linear_attention(case.q, case.k, case.v, feature_map, causal=causal)
    expected = attention_vectors[f"{name} causal" if causal else name]
    assert_allclose(found, expected, **TOLERANCE)


def test_parameter_A_of_a_head(case, attention_vectors):
    mean = mean_sq_sum(case.q, case.k)
    assert_allclose(mean[0, 0], attention_vectors["mean |x+y|^2"], **TOLERANCE)
    assert_allclose(optimal_A(mean, 4)[0, 0], attention_vectors["A*"], **TOLERANCE)
    assert optimal_A(np.zeros(1), 4)[0] == 0
    assert_allclose(optimal_A(np.array([1e-12]), 4), -1e-12 / 8, rtol=1e-9)


def test_log_features(case, attention_vectors):
    feature_map = exponential_map(case.W, attention_vectors["A*"]).rescaled(4**-0.25)
    _, exponent = port(feature_map, case.q).log_features(case.q)
    expected = attention_vectors["log phi(x_1), FAVOR++"]
    assert_allclose(exponent[0], expected, **TOLERANCE)


def test_trigonometric(case, attention_vectors):
    expected = np.array(attention_vectors["trigonometric"])
    feature_map = trigonometric_map(case.W)
    ported = port(feature_map.rescaled(4**-0.25), case.q)
    ones = np.ones((5, 1))
    sums = KeySums.of(
        Features.of(ported, case.k, key=True), np.hstack([case.v, ones])
    ).read(Features.of(ported, case.q))
    ratios = sums.values[:, :-1] / sums.values[:, -1:]
    assert_allclose(ratios, expected, **TOLERANCE)
    # few frequencies, one denominator negative: the rule of unreliable rows
    features = [
        np.exp(exponent) * mantissa
        for mantissa, exponent in (ported.log_features(x) for x in (case.q, case.k))
    ]
    products = features[0][:, None] * features[1]  # (query, key, column)
    parts = products.sum(axis=1).reshape(5, 2, 6).sum(axis=1)  # of each frequency
    total = parts.sum(axis=1)
    assert (total > 0).tolist() == [True] * 4 + [False]
    error = np.sqrt(6 / 5 * np.sum((parts - total[:, None] / 6) ** 2, axis=1))
    share = np.clip(total / (2 * error), 0, 1)[:, None] ** 2
    assert (share < 1).any()
    clipped = np.clip(expected, case.v.min(axis=0), case.v.max(axis=0))
    wanted = share * clipped + (1 - share) * case.v.mean(axis=0)
    found = linear_attention(case.q, case.k, case.v, feature_map)
    assert_allclose(found, wanted, **TOLERANCE)


def test_angular_hybrid(case, attention_vectors):
    feature_map = angular_hybrid(case.W, case.T).rescaled(4**-0.25)
    ported = port(feature_map, case.q)
    mantissa, exponent = ported.log_features(case.q)
    queries = mantissa * np.exp(exponent)
    mantissa, exponent = ported.log_features(case.k, key=True)
    keys = mantissa * np.exp(exponent)
    products = queries @ keys.T
    expected = attention_vectors["angular kernel estimate (1,1)"]
    assert_allclose(products[0, 0], expected, **TOLERANCE)
    sums = KeySums.of(
        Features.of(ported, case.k, key=True), np.hstack([case.v, np.ones((5, 1))])
    ).read(Features.of(ported, case.q))
    ratios = sums.values[:, :-1] / sums.values[:, -1:]
    assert_allclose(ratios, attention_vectors["angular hybrid"], **TOLERANCE)
    found = linear_attention(case.q, case.k, case.v, feature_map)
    assert np.isfinite(found).all()


@pytest.mark.parametrize("causal", [False, True])
def test_band(case, attention_vectors, causal):
    expected = attention_vectors["banded causal k=1" if causal else "banded k=1"]
    found = softmax_attention(case.q, case.k, case.v, causal=causal, band=1)
    assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize("causal", [False, True])
def test_deterministic(case, attention_vectors, causal):
    expected = attention_vectors["far elu+1 causal" if causal else "far elu+1"]
    found = linear_attention(case.q, case.k, case.v, "elu+1", causal=causal)
    assert_allclose(found, expected, **TOLERANCE)


def test_multipole(case, attention_vectors):
    expected = attention_vectors["fmm k=1, elu(+-)+1, w1=sigmoid(0), w2=sigmoid(1)"]
    found = fmm_attention(
        case.q, case.k, case.v, band=1, near_weight=0.5, far_weight=SIGMOID_1
    )
    assert_allclose(found, expected, **TOLERANCE)
