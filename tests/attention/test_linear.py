"""Linear attention: its forms agree, it is causal, stable and converges."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_crt import OPRFSampler, TrigRBFSampler
from sklearn_crt.attention import (
    LinearAttentionState,
    fit_heads,
    linear_attention,
    softmax_attention,
)
from sklearn_crt.samplers import (
    GERFSampler,
    HybridSampler,
    PositiveRBFSampler,
    SimplexRBFSampler,
    gaussian_hybrid,
)

from .conftest import masked_quadratic, relative_error

D = 8
SAMPLERS = [
    PositiveRBFSampler(kernel="softmax"),
    OPRFSampler(kernel="softmax"),
    OPRFSampler(kernel="softmax", coupling="simplex"),
    SimplexRBFSampler(kernel="softmax"),
    TrigRBFSampler(kernel="softmax"),
    HybridSampler(kernel="softmax"),
]
IDS = ["favor+", "favor++", "favor++ simplex", "simplex", "trigonometric", "hybrid"]
MAPS = [*SAMPLERS, "elu+1", "elu(-)+1", "relu"]


def rows(rng, n=37, scale=0.6, leading=()):
    """Return queries, keys and values."""
    q, k = scale * rng.standard_normal((2, *leading, n, D))
    return q, k, rng.standard_normal((*leading, n, 5))


def fitted(feature_map, rng, n_components=48):
    """Fit a sampler on earlier rows; leave a deterministic map as it is."""
    if isinstance(feature_map, str):
        return feature_map
    q, k, _ = rows(rng, 100)
    feature_map.set_params(sigma=D**-0.25, n_components=n_components, random_state=0)
    return feature_map.fit(q, X_key=k)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", MAPS, ids=[*IDS, *MAPS[len(IDS) :]])
def test_all_forms_are_the_masked_quadratic_one(rng, feature_map, causal):
    q, k, v = rows(rng)
    feature_map = fitted(feature_map, rng, 2048)  # denominators of both signs are rare
    if isinstance(feature_map, str):
        function = {
            "elu+1": lambda x: np.where(x > 0, x + 1, np.exp(x)),
            "elu(-)+1": lambda x: np.where(x < 0, 1 - x, np.exp(-x)),
            "relu": lambda x: np.maximum(x, 0) + 1e-3,
        }[feature_map]
        queries, keys = function(q), function(k)
    else:
        queries, keys = feature_map.transform(q), feature_map.transform_key(k)
    expected = masked_quadratic(queries, keys, v, causal)
    for chunk_size in (None, 1, 8, 64):
        options = {"causal": causal, "chunk_size": chunk_size}
        found = linear_attention(q, k, v, feature_map, **options)
        assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("feature_map", MAPS, ids=[*IDS, *MAPS[len(IDS) :]])
def test_token_by_token(rng, feature_map):
    q, k, v = rows(rng)
    feature_map = fitted(feature_map, rng)
    state, found = LinearAttentionState(feature_map), []
    for i in range(len(q)):
        state = state.update(k[i : i + 1], v[i : i + 1])
        found.append(state.attend(q[i : i + 1]))
    expected = linear_attention(q, k, v, feature_map, causal=True)
    assert_allclose(np.concatenate(found), expected, rtol=1e-9, atol=1e-9)
    at_once = LinearAttentionState(feature_map).update(k, v).attend(q)
    expected = linear_attention(q, k, v, feature_map)
    assert_allclose(at_once, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("scale", [0.6, 30.0])
@pytest.mark.parametrize("feature_map", MAPS, ids=[*IDS, *MAPS[len(IDS) :]])
def test_no_row_depends_on_later_rows(rng, feature_map, scale):
    q, k, v = rows(rng, scale=scale)
    feature_map = fitted(feature_map, rng)
    before = linear_attention(q, k, v, feature_map, causal=True)[:20]
    for i in range(3):
        arrays = [q.copy(), k.copy(), v.copy()]
        arrays[i][20:] = 5 * arrays[i][20:] + 1
        after = linear_attention(*arrays, feature_map, causal=True)[:20]
        # what comes later in a chunk may change roundings, nothing more
        assert_allclose(after, before, rtol=1e-9, atol=1e-9)


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1, 3, 10, 30])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", MAPS, ids=[*IDS, *MAPS[len(IDS) :]])
def test_finite_and_convex_at_any_scale(rng, feature_map, causal, scale, dtype):
    q, k, v = (a.astype(dtype) for a in rows(rng, 150, scale, (2,)))
    if not isinstance(feature_map, str):
        feature_map = fitted(feature_map, rng).fit(
            q.reshape(-1, D), X_key=k.reshape(-1, D)
        )
    with np.errstate(all="raise", under="ignore"):
        found = linear_attention(q, k, v, feature_map, causal=causal)
    assert found.dtype == dtype
    assert np.isfinite(found).all()
    high, low = v.max(axis=-2, keepdims=True), v.min(axis=-2, keepdims=True)
    if causal:
        high, low = np.maximum.accumulate(v, -2), np.minimum.accumulate(v, -2)
    slack = 100 * np.finfo(dtype).eps
    assert (found <= high + slack).all()
    assert (found >= low - slack).all()


def test_early_rows_keep_their_keys_beside_far_larger_ones(rng):
    # exp(large) of the last key leaves nothing of the first ones on a common scale
    q, k, v = rows(rng, 64, 1.0)
    k[-1] *= 200
    feature_map = fitted(OPRFSampler(kernel="softmax"), rng)
    found = linear_attention(q, k, v, feature_map, causal=True)
    alone = linear_attention(q[:63], k[:63], v[:63], feature_map, causal=True)
    assert_allclose(found[:63], alone, rtol=1e-9, atol=1e-9)


WIDTHS = [64, 256, 1024]
N_SEEDS = [48, 24, 12]  # the errors of few columns have the tails


@cache  # maps of many columns serve causal attention and the other
def errors_by_width(i):
    """Return the root mean squared errors at the widths, causal and not."""
    rng = np.random.default_rng(20240607)
    q, k, v = rows(rng, 48, 0.4)
    exact = [softmax_attention(q, k, v, causal=causal) for causal in (False, True)]
    squares = np.zeros((2, len(WIDTHS)))
    for j, (width, n_seeds) in enumerate(zip(WIDTHS, N_SEEDS, strict=True)):
        one = fitted(SAMPLERS[i], rng, width)
        for seed in range(n_seeds):
            one.set_params(random_state=seed).fit(q, X_key=k)
            for causal in (False, True):
                found = linear_attention(q, k, v, one, causal=causal)
                error = relative_error(found, exact[causal])
                squares[int(causal), j] += error**2 / n_seeds
    return np.sqrt(squares)


@pytest.mark.each_value
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "i",
    [
        # check_attention has a hybrid, and simplex has the code of favor+
        pytest.param(i, marks=pytest.mark.slow) if name in ("simplex", "hybrid") else i
        for i, name in enumerate(IDS)
    ],
    ids=IDS,
)
def test_error_falls_with_the_root_of_the_width(i, causal):
    errors = errors_by_width(i)[int(causal)]
    slope = np.polyfit(np.log(WIDTHS), np.log(errors), 1)[0]
    assert -0.6 < slope < -0.4, (slope, errors)


@pytest.mark.parametrize("causal", [False, True])
def test_heads_with_maps_of_their_own_equal_heads_alone(rng, causal):
    scales = np.array([0.2, 0.6, 1.5])[:, None, None]
    q, k, v = (array for array in rows(rng, 30, 1.0, (2, 3)))
    q, k = scales * q, scales * k
    samplers = fit_heads(OPRFSampler(kernel="softmax", random_state=0), q, k)
    assert np.ptp([sampler.A_ for sampler in samplers]) > 0.1
    found = linear_attention(q, k, v, samplers, causal=causal)
    mixed = linear_attention(q, k, v, ["elu+1", *samplers[1:]], causal=causal)
    for h, sampler in enumerate(samplers):
        alone = linear_attention(q[:, h], k[:, h], v[:, h], sampler, causal=causal)
        assert_allclose(found[:, h], alone, rtol=1e-12, atol=1e-12)
        if h:
            assert_allclose(mixed[:, h], alone, rtol=1e-12, atol=1e-12)


OF_HEADS = {
    "GERF": GERFSampler(kernel="softmax", n_components=47, center=False),
    "trigonometric": TrigRBFSampler(kernel="softmax", n_components=47),
    "hybrid, its own centres": HybridSampler(kernel="softmax"),
    "hybrid, its own constants": gaussian_hybrid(kernel="softmax"),
}


@pytest.mark.parametrize("name", OF_HEADS)
@pytest.mark.parametrize("place", [0.0, 1.0])
def test_parameters_of_heads_are_not_mixed(rng, name, place):
    scales = np.array([0.2, 0.4, 0.6])[:, None, None]
    q, k, v = (array for array in rows(rng, 30, 1.0, (2, 3)))
    q, k = place + scales * q, place + scales * k
    samplers = fit_heads(clone(OF_HEADS[name]).set_params(random_state=0), q, k)
    found = linear_attention(q, k, v, samplers)
    for h, sampler in enumerate(samplers):
        alone = linear_attention(q[:, h], k[:, h], v[:, h], sampler)
        assert_allclose(found[:, h], alone, rtol=1e-9, atol=1e-9)


def test_fit_on_the_whole_sequence_would_leak(rng):
    # why the statistics of A must come from earlier batches
    q, k, v = rows(rng)
    other = k.copy()
    other[20:] *= 3
    found = [
        linear_attention(
            q,
            keys,
            v,
            OPRFSampler(sigma=D**-0.25, kernel="softmax", random_state=0).fit(
                q, X_key=keys
            ),
            causal=True,
        )[:20]
        for keys in (k, other)
    ]
    assert np.abs(found[0] - found[1]).max() > 1e-4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", MAPS, ids=[*IDS, *MAPS[len(IDS) :]])
def test_masked_keys_count_nothing(rng, feature_map, causal):
    q, k, v = rows(rng, leading=(2,))
    feature_map = fitted(feature_map, rng)
    kept = np.ones((2, 37), bool)
    kept[1, 25:] = False
    garbage = k.copy()
    garbage[1, 25:] = 1e3
    found = linear_attention(q, garbage, v, feature_map, causal=causal, key_mask=kept)
    short = [array[1, :25] for array in (q, k, v)]
    alone = linear_attention(*short, feature_map, causal=causal)
    assert_allclose(found[1, :25], alone, rtol=1e-9, atol=1e-9)
    exact = softmax_attention(q, garbage, v, causal=causal, key_mask=kept)
    assert_allclose(exact[1, :25], softmax_attention(*short, causal=causal), rtol=1e-9)


def test_numbers_as_mask_are_added_to_the_scores(rng):
    q, k, v = rows(rng)
    weights = rng.uniform(0.1, 3, 37)
    feature_map = fitted(PositiveRBFSampler(kernel="softmax"), rng)
    features = feature_map.transform(q), weights[:, None] * feature_map.transform_key(k)
    for causal in (False, True):
        options = {"causal": causal, "key_mask": np.log(weights)}
        found = linear_attention(q, k, v, feature_map, **options)
        assert_allclose(found, masked_quadratic(*features, v, causal), rtol=1e-9)


@pytest.mark.parametrize("feature_map", ["elu+1", TrigRBFSampler(kernel="softmax")])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("spread", [0.0, 3.0, 100.0])
def test_a_constant_in_the_mask_changes_nothing(rng, feature_map, causal, spread):
    (q, k, v), feature_map = rows(rng), fitted(feature_map, rng)
    bias = spread * rng.standard_normal(37)
    bias[[3, 20]] = -np.inf
    options = {"causal": causal, "key_mask": bias}
    expected = linear_attention(q, k, v, feature_map, **options)
    for constant in (-1000.0, -100.0, -70.0, 70.0, 200.0, 1000.0):
        mask = bias + constant
        for size in (None, 8):
            options = {"causal": causal, "key_mask": mask, "chunk_size": size}
            found = linear_attention(q, k, v, feature_map, **options)
            assert_allclose(found, expected, rtol=1e-9, atol=1e-10)
        state = LinearAttentionState(feature_map)
        for part in (slice(15), slice(15, 37)):
            state = state.update(k[part], v[part], key_mask=mask[part])
        assert_allclose(state.attend(q)[-1], expected[-1], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("causal", [False, True])
def test_graded_masks_weight_the_mean_that_replaces_negative_denominators(rng, causal):
    q, k, v = rows(rng, 4000)
    q = np.zeros_like(q) + 40  # so that the features say nothing about the scores
    feature_map = fitted(TrigRBFSampler(kernel="softmax"), rng)
    logs = np.arange(4000) / 16
    found = linear_attention(q, k, v, feature_map, causal=causal, key_mask=logs)
    shifted = linear_attention(q, k, v, feature_map, causal=causal, key_mask=logs - 250)
    assert_allclose(found, shifted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("hides", [-1e3, -1e4, -1e9])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", SAMPLERS, ids=IDS)
def test_large_negative_numbers_hide_keys(rng, feature_map, causal, hides):
    q, k, v = rows(rng, 60)
    feature_map = fitted(feature_map, rng)
    keep = np.arange(60) >= 25  # left padding
    other = np.where(keep[:, None], v, v + 50)
    for size in (None, 8):
        options = {"causal": causal, "chunk_size": size}
        expected, graded, changed = (
            linear_attention(q, k, values, feature_map, key_mask=mask, **options)
            for values, mask in (
                (v, keep),
                (v, np.where(keep, 0.0, hides)),
                (other, np.where(keep, 0.0, hides)),
            )
        )
        assert_allclose(graded[25:], expected[25:], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(changed[25:], graded[25:])
    state = LinearAttentionState(feature_map)
    for part in (slice(40), slice(40, 60)):
        mask = None if part.start == 40 else np.where(keep[part], 0.0, hides)
        state = state.update(k[part], other[part], key_mask=mask)
    assert_allclose(state.attend(q)[-1], expected[-1], rtol=1e-9, atol=1e-12)
    if causal:  # a query that attends to no other key averages these keys
        first = linear_attention(q[:25], k[:25], v[:25], feature_map, causal=True)
        rounding = 100 * np.finfo(float).eps * abs(hides)  # of the exponents
        assert_allclose(graded[:25], first, rtol=rounding, atol=rounding)


@pytest.mark.parametrize("of_rows", ["f", "d"])
@pytest.mark.parametrize("of_mask", ["e", "f", "d"])
@pytest.mark.parametrize("feature_map", ["elu+1", TrigRBFSampler(kernel="softmax")])
@pytest.mark.filterwarnings("error")
def test_the_smallest_number_of_any_type_hides(rng, of_rows, of_mask, feature_map):
    q, k, v = (array.astype(of_rows) for array in rows(rng))
    feature_map = fitted(feature_map, rng)
    mask = np.zeros(37, of_mask)
    mask[:5] = np.finfo(of_mask).min
    for causal in (False, True):
        same = {"causal": causal, "key_mask": mask == 0}
        options = {"causal": causal, "key_mask": mask}
        for attention in (
            lambda **options: linear_attention(q, k, v, feature_map, **options),
            lambda **options: softmax_attention(q, k, v, **options),
        ):
            np.testing.assert_array_equal(attention(**options), attention(**same))


@pytest.mark.parametrize("causal", [False, True])
def test_double_precision_masks_keep_single_precision(rng, causal):
    arrays = [array.astype(np.float32) for array in rows(rng)]
    options = {"causal": causal, "key_mask": np.zeros(37)}
    for feature_map in (PositiveRBFSampler(kernel="softmax"), "relu"):
        found = linear_attention(*arrays, fitted(feature_map, rng), **options)
        assert found.dtype == np.float32
    assert softmax_attention(*arrays, **options).dtype == np.float32


def test_a_query_without_keys_gets_zeros(rng):
    q, k, v = rows(rng)
    hidden = np.arange(37) >= 5  # the first five keys are left out
    least = np.where(hidden, 0, np.finfo(float).min)
    for causal, mask in ((False, hidden), (True, hidden), (True, least)):
        options = {"causal": causal, "key_mask": mask}
        for found in (
            linear_attention(q, k, v, fitted(SAMPLERS[1], rng), **options),
            softmax_attention(q, k, v, **options),
        ):
            assert np.isfinite(found).all()
            assert (found[:5] == 0).all() == causal


def test_more_keys_than_queries(rng):
    q, k, v = rows(rng)
    feature_map = fitted(SAMPLERS[0], rng)
    found = linear_attention(q[:3], k, v, feature_map)
    assert_allclose(found, linear_attention(q, k, v, feature_map)[:3], rtol=1e-12)


def test_centred_map_estimates_the_same(rng):
    q, k, v = rows(rng, 48, 0.5)
    q, k = q + 0.3, k - 0.2
    sampler = OPRFSampler(
        sigma=D**-0.25, kernel="softmax", n_components=20_000, random_state=0
    )
    exact = softmax_attention(q, k, v)
    for center in (False, True):
        sampler.set_params(center=center).fit(q, X_key=k)
        assert relative_error(linear_attention(q, k, v, sampler), exact) < 0.05


ERRORS = [
    (lambda a: {"q": a.q.astype(int)}, TypeError, "q must be float32 or float64"),
    (lambda a: {"q": a.q[0]}, ValueError, r"q must have shape \(\.\.\., n_rows"),
    (lambda a: {"k": a.k[:, :3]}, ValueError, "equal numbers of columns, got 8 and 3"),
    (lambda a: {"v": a.v[:3]}, ValueError, "equal numbers of rows, got 37 and 3"),
    (lambda a: {"v": a.v.astype("f")}, TypeError, "k and v must have the same dtype"),
    (lambda a: {"q": a.q.astype("f")}, TypeError, "q and k must have the same dtype"),
    (
        lambda a: {"q": a.q[:3], "causal": True},
        ValueError,
        "equal numbers of queries and keys",
    ),
    (
        lambda a: {"feature_map": "elu"},
        ValueError,
        "must be one of the deterministic maps",
    ),
    (lambda a: {"feature_map": 3}, TypeError, "feature_map must be a fitted sampler"),
    (lambda a: {"chunk_size": 0}, ValueError, "chunk_size must be at least 1"),
    (lambda a: {"chunk_size": 3, "causal": True}, ValueError, "a power of two"),
    (lambda a: {"key_mask": np.ones(4, bool)}, ValueError, "key_mask has 4 entries"),
    (lambda a: {"key_mask": np.ones(37, int)}, TypeError, "Pass key_mask == 1"),
    (lambda a: {"key_mask": [True] * 37}, TypeError, "not a supported array type"),
    (lambda a: {"q": a.q[None][:0]}, ValueError, "without empty axes"),
    (lambda a: {"feature_map": ["relu"]}, ValueError, "has 1 maps, one for each head"),
]


@pytest.mark.parametrize("change, error, message", ERRORS)
def test_errors(rng, change, error, message):
    from types import SimpleNamespace

    q, k, v = rows(rng)
    options = {"q": q, "k": k, "v": v, "feature_map": "elu+1"}
    options |= change(SimpleNamespace(q=q, k=k, v=v))
    with pytest.raises(error, match=message):
        linear_attention(**options)


def test_errors_of_maps(rng):
    q, k, v = rows(rng)
    with pytest.raises(NotFittedError):
        linear_attention(q, k, v, OPRFSampler(kernel="softmax"))
    with pytest.raises(ValueError, match="which weights the keys differently"):
        linear_attention(q, k, v, OPRFSampler().fit(q))
    with pytest.raises(ValueError, match="one sigma per column"):
        sampler = OPRFSampler(sigma=np.ones(D), kernel="softmax")
        linear_attention(q, k, v, sampler.fit(q))
    with pytest.raises(ValueError, match="fitted on 7 features, but q and k have 8"):
        linear_attention(q, k, v, OPRFSampler(kernel="softmax").fit(q[:, 1:]))
    with pytest.raises(ValueError, match="does not contain any tokens"):
        LinearAttentionState("elu+1").attend(q)
