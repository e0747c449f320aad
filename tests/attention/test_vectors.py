"""Attention against reference numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import OPRFSampler
from sklearn_crt.attention import (
    fit_heads,
    fmm_attention,
    linear_attention,
    softmax_attention,
)

from .conftest import SIGMOID_1

TOLERANCE = {"rtol": 0, "atol": 5e-13}  # of twelve digits


@pytest.mark.parametrize("causal", [False, True])
def test_exact(case, attention_vectors, causal):
    expected = attention_vectors["exact causal" if causal else "exact"]
    found = softmax_attention(case.q, case.k, case.v, causal=causal)
    assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ["FAVOR+", "FAVOR++"])
def test_positive(case, samplers, attention_vectors, name, causal):
    sampler = samplers.favor if name == "FAVOR+" else samplers.favor_optimal
    found = linear_attention(case.q, case.k, case.v, sampler, causal=causal)
    expected = attention_vectors[f"{name} causal" if causal else name]
    assert_allclose(found, expected, **TOLERANCE)


def test_parameter_A_of_a_head(case, samplers, attention_vectors):
    expected = attention_vectors["A*"]
    assert_allclose(samplers.favor_optimal.A_, expected, **TOLERANCE)
    sampler = OPRFSampler(kernel="softmax", center=False)
    (head,) = fit_heads(sampler, case.q[None], case.k[None])
    assert_allclose(head.A_, expected, **TOLERANCE)
    (nothing,) = fit_heads(sampler, 0 * case.q[None], 0 * case.k[None])
    assert nothing.A_ == 0
    (small,) = fit_heads(sampler, np.full((1, 1, 4), 1e-6), np.zeros((1, 1, 4)))
    assert_allclose(small.A_, -2e-12 / 8, rtol=1e-9)  # of |x + y|^2 = 2e-12


def test_log_features(case, samplers, attention_vectors):
    ((_, mantissa, exponent),) = samplers.favor_optimal.map_.iter_log_features(case.q)
    assert mantissa is None
    expected = attention_vectors["log phi(x_1), FAVOR++"]
    assert_allclose(exponent[0], expected, **TOLERANCE)


def ratios(sampler, case):
    """Return averages of the values over products of features, whatever their sign."""
    products = sampler.transform(case.q) @ sampler.transform_key(case.k).T
    return products @ case.v / products.sum(axis=1, keepdims=True)


def test_trigonometric(case, samplers, attention_vectors):
    expected = np.array(attention_vectors["trigonometric"])
    assert_allclose(ratios(samplers.trigonometric, case), expected, **TOLERANCE)
    # few frequencies, one denominator negative: the rule of unreliable rows
    features = samplers.trigonometric.transform(case.q)
    keys = samplers.trigonometric.transform_key(case.k)
    products = features[:, None] * keys  # (query, key, column)
    parts = products.sum(axis=1).reshape(5, 2, 6).sum(axis=1)  # of each frequency
    total = parts.sum(axis=1)
    assert (total > 0).tolist() == [True] * 4 + [False]
    error = np.sqrt(6 / 5 * np.sum((parts - total[:, None] / 6) ** 2, axis=1))
    share = np.clip(total / (2 * error), 0, 1)[:, None] ** 2
    assert (share < 1).any()
    clipped = np.clip(expected, case.v.min(axis=0), case.v.max(axis=0))
    wanted = share * clipped + (1 - share) * case.v.mean(axis=0)
    found = linear_attention(case.q, case.k, case.v, samplers.trigonometric)
    assert_allclose(found, wanted, **TOLERANCE)


def test_angular_hybrid(case, samplers, attention_vectors):
    sampler = samplers.angular
    products = sampler.transform(case.q) @ sampler.transform_key(case.k).T
    expected = attention_vectors["angular kernel estimate (1,1)"]
    assert_allclose(products[0, 0], expected, **TOLERANCE)
    expected = attention_vectors["angular hybrid"]
    assert_allclose(ratios(sampler, case), expected, **TOLERANCE)
    found = linear_attention(case.q, case.k, case.v, sampler)
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
