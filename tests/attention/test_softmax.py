"""Exact attention over a band, and the blend of near and far field."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax

from sklearn_crt.attention import fmm_attention, linear_attention, softmax_attention


def masked(q, k, v, seen):
    """Return softmax attention with minus infinity where a pair is not seen."""
    scores = np.where(seen, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights @ v / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [1, 31, 100])
@pytest.mark.parametrize("band", [0, 1, 5, 40, 200])
def test_band_is_a_mask_of_minus_infinity(rng, n, band, causal):
    q, k, v = rng.standard_normal((3, 2, n, 4))
    i = np.arange(n)
    seen = abs(i[:, None] - i) <= band
    if causal:
        seen &= i <= i[:, None]
    found = softmax_attention(q, k, v, band=band, causal=causal)
    assert_allclose(found, masked(q, k, v, seen), rtol=1e-10, atol=1e-12)


def test_band_and_masked_keys(rng):
    q, k, v = rng.standard_normal((3, 50, 4))
    kept, i = rng.uniform(size=50) < 0.8, np.arange(50)
    seen = (abs(i[:, None] - i) <= 6) & kept
    found = softmax_attention(q, k, v, band=6, key_mask=kept)
    assert_allclose(found, masked(q, k, v, seen), rtol=1e-10, atol=1e-12)


def test_band_needs_memory_linear_in_the_length(rng):
    peaks = []
    for n in (1000, 4000):
        q, k, v = rng.standard_normal((3, n, 8))
        tracemalloc.start()
        softmax_attention(q, k, v, band=10)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 5 * peaks[0]


def test_large_scores_do_not_overflow(rng):
    q, k, v = 100 * rng.standard_normal((3, 20, 4)).astype(np.float32)
    with np.errstate(over="raise", invalid="raise"):
        assert np.isfinite(softmax_attention(q, k, v)).all()


@pytest.mark.parametrize("causal", [False, True])
def test_blend_is_the_sum_of_its_fields(rng, causal):
    q, k, v = rng.standard_normal((3, 2, 3, 40, 4))
    near_weight, far_weight = rng.uniform(size=(2, 3, 1, 1))
    expected = near_weight * softmax_attention(q, k, v, band=3, causal=causal)
    for name in ("elu+1", "relu"):
        far = linear_attention(q, k, v, name, causal=causal)
        expected = expected + far_weight * far
    found = fmm_attention(
        q,
        k,
        v,
        ("elu+1", "relu"),
        band=3,
        near_weight=near_weight,
        far_weight=far_weight,
        causal=causal,
    )
    assert_allclose(found, expected, rtol=1e-12)


def test_ranks_of_far_fields(rng):
    # one map of d columns has rank d, two have 2 d - 1: both keep the vector of ones
    n, d = 40, 4
    q, k = rng.standard_normal((2, n, d))
    one, other = (
        linear_attention(q, k, np.eye(n), name) for name in ("elu+1", "elu(-)+1")
    )
    assert np.linalg.matrix_rank(one) == d
    assert np.linalg.matrix_rank(one + other) == 2 * d - 1


def test_errors(rng):
    q, k, v = rng.standard_normal((3, 6, 4))
    with pytest.raises(ValueError, match="band must be at least 0, got -1"):
        softmax_attention(q, k, v, band=-1)
    with pytest.raises(
        ValueError, match="band requires equal numbers of queries and keys"
    ):
        softmax_attention(q[:2], k, v, band=1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 700])
@pytest.mark.parametrize("masked", [False, True])
def test_blocks_of_queries(n_rows, causal, masked, rng):
    """Queries are cut into blocks, which see all the keys, or those before them."""
    q, k, v = rng.normal(size=(3, 2, n_rows, 4))
    mask = rng.normal(size=(2, n_rows)) if masked else None
    scores = q @ k.swapaxes(1, 2) / 2 + (0 if mask is None else mask[:, None])
    if causal:
        scores = np.where(np.tri(n_rows, dtype=bool), scores, -np.inf)
    expected = softmax(scores, axis=2) @ v
    found = softmax_attention(q, k, v, causal=causal, key_mask=mask)
    assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
