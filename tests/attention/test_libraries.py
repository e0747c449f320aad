"""Attention in other libraries of arrays, and gradients."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.attention import (
    LinearAttentionState,
    fit_heads,
    fmm_attention,
    linear_attention,
    softmax_attention,
)
from sklearn_crt.samplers import (
    GERFSampler,
    HybridSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
)

D = 4


def to_numpy(array):
    """Return an array of any library as one of NumPy."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    return array.get() if hasattr(array, "get") else np.asarray(array)


def maps(rng):
    """Return one map of each kind, and one for each head."""
    rows = 0.6 * rng.standard_normal((3, 50, D))
    samplers = [
        kind(sigma=D**-0.25, kernel="softmax", n_components=32, random_state=0)
        for kind in (OPRFSampler, TrigRBFSampler, HybridSampler)
    ]
    fitted = [sampler.fit(rows[0]) for sampler in samplers]
    return [*fitted, "elu+1", fit_heads(samplers[0], rows, rows), [*fitted[:2], "relu"]]


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [0.6, 20.0])
def test_results_are_those_of_numpy(rng, xp, dtype, scale):
    if xp.__name__ == "jax.numpy" and dtype == "float64":
        pytest.skip("JAX has float32 unless told otherwise")
    arrays = rng.standard_normal((3, 2, 3, 21, D)) * np.array(
        [scale, scale, 1.0]
    ).reshape(3, 1, 1, 1, 1)
    arrays, kept = arrays.astype(dtype), rng.uniform(size=(2, 1, 21)) < 0.7
    theirs = [xp.asarray(array.copy()) for array in arrays]
    mask, tolerance = xp.asarray(kept.copy()), 1e-9 if dtype == "float64" else 2e-2
    for feature_map in maps(rng):
        for causal in (False, True):
            found = linear_attention(
                *theirs, feature_map, causal=causal, key_mask=mask, chunk_size=16
            )
            assert type(found) is type(theirs[0])
            assert dtype in str(found.dtype)
            expected = linear_attention(
                *arrays, feature_map, causal=causal, key_mask=kept, chunk_size=16
            )
            assert np.isfinite(to_numpy(found)).all()
            # of long rows a hybrid takes differences of far larger numbers: roundings
            exact = dtype == "float64" and not isinstance(feature_map, HybridSampler)
            if scale < 1 or exact:
                assert_allclose(to_numpy(found), expected, atol=tolerance)
    for causal in (False, True):
        for band in (None, 3):
            options = {"causal": causal, "band": band}
            found = softmax_attention(*theirs, **options, key_mask=mask)
            expected = softmax_attention(*arrays, **options, key_mask=kept)
            assert_allclose(to_numpy(found), expected, atol=1e-4)
        found = fmm_attention(*theirs, band=2, causal=causal)
        expected = fmm_attention(*arrays, band=2, causal=causal)
        assert_allclose(to_numpy(found), expected, atol=1e-3)


def test_states_and_statistics_of_other_libraries(rng, xp):
    q, k, v = (a.astype("float32") for a in rng.standard_normal((3, 3, 5, D)))
    theirs = [xp.asarray(array) for array in (q, k, v)]
    for feature_map in maps(rng)[:-1]:
        state = LinearAttentionState(feature_map)
        for i in range(5):
            state = state.update(*(a[..., i : i + 1, :] for a in theirs[1:]))
        found = state.attend(theirs[0])
        expected = linear_attention(q, k, v, feature_map)
        assert_allclose(to_numpy(found), expected, atol=2e-3)
    sampler = OPRFSampler(kernel="softmax", random_state=0)
    found, expected = (fit_heads(sampler, *rows) for rows in (theirs[:2], (q, k)))
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one.A_, other.A_, rtol=1e-6)


def test_libraries_are_not_mixed(rng):
    torch = pytest.importorskip("torch")
    q, k, v = rng.standard_normal((3, 5, D))
    with pytest.raises(TypeError, match=r"(?i)multiple namespaces"):
        softmax_attention(torch.asarray(q), k, v)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("scale", [0.6, 40.0])
def test_gradients(rng, causal, scale):
    torch = pytest.importorskip("torch")
    arrays = rng.standard_normal((3, 1, 3, 6, D))
    arrays[:2] *= scale
    tensors = [torch.tensor(array, requires_grad=True) for array in arrays]
    for feature_map in maps(rng):
        if scale > 1 and feature_map != "elu+1":
            continue  # the map itself is too steep for differences
        assert torch.autograd.gradcheck(
            lambda q, k, v: linear_attention(q, k, v, feature_map, causal=causal),  # noqa: B023
            tensors,
            fast_mode=True,  # along random directions
        )
    assert torch.autograd.gradcheck(
        lambda q, k, v: fmm_attention(q, k, v, band=2, causal=causal),
        tensors,
        fast_mode=True,
    )


def test_gradients_of_halves_of_chunks(rng):
    # keys far apart in size, where one product of features would not do
    torch = pytest.importorskip("torch")
    q, k, v = 0.3 * rng.standard_normal((3, 8, D))
    k[5] = 60.0
    tensors = [torch.tensor(array, requires_grad=True) for array in (q, k, v)]
    sampler = maps(rng)[0]
    assert torch.autograd.gradcheck(
        lambda q, k, v: linear_attention(q, k, v, sampler, causal=True), tensors
    )


def test_jit_of_jax(rng):
    jax = pytest.importorskip("jax")
    q, k, v = (jax.numpy.asarray(a) for a in rng.standard_normal((3, 21, D)))
    sampler = maps(rng)[0]

    def attend(q, k, v):
        return linear_attention(q, k, v, sampler, causal=True)

    assert_allclose(jax.jit(attend)(q, k, v), attend(q, k, v), atol=1e-4)


@pytest.mark.each_value
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["q", "k"])
def test_what_is_not_finite_is_seen_in_the_output(rng, xp, name, value):
    """NaN for the queries that see it, and all other rows as they were."""
    arrays = dict(zip("qkv", rng.standard_normal((3, 2, 3, 21, D)).astype("float32")))
    clean = {key: xp.asarray(array.copy()) for key, array in arrays.items()}
    arrays[name][1, 2, 9, 1] = value
    spoilt = {key: xp.asarray(array) for key, array in arrays.items()}
    others = [
        kind(sigma=D**-0.25, kernel="softmax", n_components=32, random_state=0)
        for kind in (GERFSampler, PositiveRBFSampler, SimplexRBFSampler)
    ]
    others = [sampler.fit(0.6 * rng.standard_normal((50, D))) for sampler in others]
    for feature_map in [*maps(rng), *others, "elu(-)+1", "relu"]:
        for causal in (False, True):
            options = {"feature_map": feature_map, "causal": causal, "chunk_size": 16}
            if xp is np:
                what = "NaN" if np.isnan(value) else "infinity"
                with pytest.raises(ValueError, match=f"Input {name} contains {what}"):
                    linear_attention(**spoilt, **options)
                continue
            with np.errstate(all="ignore"):  # array_api_strict is NumPy inside
                found = to_numpy(linear_attention(**spoilt, **options))
            lost = np.zeros(found.shape, bool)
            seeing = slice(9, 10) if name == "q" else slice(9 if causal else 0, None)
            lost[1, 2, seeing] = True
            assert np.isnan(found[lost]).all()
            expected = to_numpy(linear_attention(**clean, **options))
            assert_allclose(found[~lost], expected[~lost], rtol=1e-2, atol=1e-3)


def test_states_of_what_is_not_finite(rng, xp):
    q, k, v = (xp.asarray(a.astype("float32")) for a in rng.standard_normal((3, 5, D)))
    for feature_map in [*maps(rng)[:4], "relu"]:
        state = LinearAttentionState(feature_map).update(k, v)
        if xp is np:
            with pytest.raises(ValueError, match="Input q contains NaN"):
                state.attend(q * np.nan)
            with pytest.raises(ValueError, match="Input k contains NaN"):
                state.update(k * np.nan, v)
            continue
        assert np.isnan(to_numpy(state.attend(q * np.nan))).all()
        assert np.isnan(to_numpy(state.update(k * np.nan, v).attend(q))).all()
        assert np.isfinite(to_numpy(state.attend(q))).all()
