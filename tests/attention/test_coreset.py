"""Attention to few weighted keys that stand for all."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt.attention import coreset_attention, softmax_attention


def to_numpy(array):
    """Return an array of any library as one of NumPy."""
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    return array.get() if hasattr(array, "get") else np.asarray(array)


def few_keys(rng, n_keys=60, n_different=9):
    """Return keys that stand several times among each other, two batches of three."""
    different = rng.standard_normal((2, 3, n_different, 4))
    which = np.append(np.arange(n_different), rng.integers(n_different, size=51))
    return different[..., rng.permutation(which)[:n_keys], :]


@pytest.mark.parametrize("n_points", [9, 20, 60, 100])
@pytest.mark.parametrize("masked", [False, True, "numbers"])
def test_enough_points_are_exact(rng, n_points, masked):
    q, v = rng.standard_normal((2, 2, 3, 60, 4))
    k, mask = few_keys(rng), None
    if masked:
        mask = rng.uniform(size=(2, 1, 60)) < 0.6
    if masked == "numbers":
        mask = np.where(mask, 3 * rng.standard_normal((2, 3, 60)), -np.inf)
    exact = softmax_attention(q, k, v, key_mask=mask)
    found = coreset_attention(q, k, v, n_points, key_mask=mask)
    assert_allclose(found, exact, atol=1e-12)
    fewer = coreset_attention(q, k, v, 5, key_mask=mask)
    assert np.abs(fewer - exact).max() > 1e-3


@pytest.mark.parametrize("size, most", [(0.5, 0.02), (1.0, 0.075), (1.5, 0.2)])
def test_error_is_far_below_that_of_the_mean(size, most):
    # the rows of the table in the guide
    errors, of_mean = [], []
    for seed in range(3):
        rng, scale = np.random.default_rng(seed), np.linspace(0.3, 1.7, 16)
        q, k = rng.standard_normal((2, 500, 16))
        q, k = size * q * scale, size * k * scale[::-1]
        v = np.tanh(k @ rng.standard_normal((16, 16)))
        exact = softmax_attention(q, k, v)
        errors.append(np.mean((coreset_attention(q, k, v, 128) - exact) ** 2))
        of_mean.append(np.mean((v.mean(axis=0) - exact) ** 2))
    error = np.sqrt(np.mean(errors)) / v.std()
    assert error < most
    assert error < 0.5 * np.sqrt(np.mean(of_mean)) / v.std()


def test_a_group_counts_as_often_as_it_has_keys(rng):
    q, v = rng.standard_normal((2, 100, 4))
    k = np.repeat([[1.0, 0, 0, 0], [0, 2, 0, 0]], [90, 10], axis=0)
    found = coreset_attention(q, k + 1e-9 * rng.standard_normal(k.shape), v, 2)
    assert_allclose(found, softmax_attention(q, k, v), atol=1e-7)


def test_translations_and_the_order_of_keys_change_nothing(rng):
    q, k, v = rng.standard_normal((3, 2, 300, 8))
    found = coreset_attention(q, k, v, 20)
    # q.(k + c) is q.k and a constant for each query
    moved = coreset_attention(q, k + 7 * rng.standard_normal(8), v, 20)
    assert_allclose(moved, found, atol=1e-11)
    constant = coreset_attention(q, k, v, 20, key_mask=np.full(300, -1e4))
    assert_allclose(constant, found, atol=1e-10)
    order = rng.permutation(300)
    permuted = coreset_attention(q, k[:, order], v[:, order], 20)
    assert_allclose(permuted, found, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("scale", [1e-20, 1.0, 100.0, 1e4])
def test_scores_of_any_size(rng, dtype, scale):
    q, k, v = rng.standard_normal((3, 200, 4)).astype(dtype)
    q, k = (scale * rows for rows in (q, k))  # scores of up to 1e4 and 1e8
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = coreset_attention(q, k, v, 16)
        many = coreset_attention(q, k, v, 200)
    assert found.dtype == dtype
    assert found.min() >= v.min()
    assert found.max() <= v.max()
    assert_allclose(many, softmax_attention(q, k, v), atol=1e-5)


def test_keys_whose_squares_overflow(rng):
    q, k, v = rng.standard_normal((3, 200, 4)).astype("float32")
    expected = coreset_attention(q, k, v, 16)
    found = coreset_attention(q * 2.0**-80, k * 2.0**80, v, 16)
    assert_allclose(found, expected, atol=1e-5)


def test_small_groups_of_keys_have_points(rng):
    # most keys are near one place, and random keys would leave others without a point
    places = 2 * rng.standard_normal((12, 4))
    which = np.append(np.zeros(600, dtype=int), np.arange(240) % 12)
    k = places[which] + 0.01 * rng.standard_normal((840, 4))
    q, v = rng.standard_normal((2, 840, 4))
    error = coreset_attention(q, k, v, 24) - softmax_attention(q, k, v)
    assert np.abs(error).max() < 0.02


def test_rows_of_zeros(rng):
    q, k, v = rng.standard_normal((3, 50, 4))
    mean = np.broadcast_to(v.mean(axis=0), v.shape)
    assert_allclose(coreset_attention(0 * q, k, v, 8), mean, atol=1e-13)
    assert_allclose(coreset_attention(q, 0 * k, v, 8), mean, atol=1e-13)
    k[:30] = 0
    found = coreset_attention(q, k, v, 21)
    assert_allclose(found, softmax_attention(q, k, v), atol=1e-12)
    assert_allclose(coreset_attention(q[:1], k[:1], v[:1], 8), v[:1], atol=1e-13)


@pytest.mark.parametrize("hidden", ["bool", "-inf", "least", -1e9, -1e4])
def test_hidden_keys_are_no_keys(rng, hidden):
    q, k, v = rng.standard_normal((3, 2, 90, 4))
    seen = np.broadcast_to(np.arange(90) % 3 > 0, (2, 90)).copy()
    expected = coreset_attention(q, k[:, seen[0]], v[:, seen[0]], 10)
    k[:, ~seen[0]] *= 50
    seen[1] = False  # a batch that sees nothing
    names = {"bool": None, "-inf": -np.inf, "least": np.finfo(float).min}
    nothing = names.get(hidden, hidden)
    mask = seen if nothing is None else np.where(seen, 0.0, nothing)
    found = coreset_attention(q, k, v, 10, key_mask=mask)
    assert_allclose(found[0], expected[0], atol=1e-12)
    if hidden in names:
        assert (found[1] == 0).all()
    single = [rows.astype("float32") for rows in (q, k, v)]
    found = coreset_attention(*single, 10, key_mask=mask)
    assert found.dtype == np.float32
    assert_allclose(found[0], expected[0], atol=1e-5)


def test_results_are_those_of_numpy(rng, xp):
    q, k, v = (a.astype("float32") for a in rng.standard_normal((3, 2, 3, 80, 4)))
    seen = rng.uniform(size=(2, 1, 80)) < 0.7
    theirs = [xp.asarray(a.copy()) for a in (q, k, v)]
    found = coreset_attention(*theirs, 12, key_mask=xp.asarray(seen.copy()))
    assert type(found) is type(theirs[0])
    assert found.dtype == theirs[0].dtype
    expected = coreset_attention(q, k, v, 12, key_mask=seen)
    assert_allclose(to_numpy(found), expected, atol=1e-5)


def test_gradients_are_those_of_fixed_groups(rng):
    torch = pytest.importorskip("torch")
    q, k, v = rng.standard_normal((3, 2, 8, 2))
    bias = rng.standard_normal((2, 8))
    bias[0, 4] = -np.inf
    tensors = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    assert torch.autograd.gradcheck(
        lambda *rows: coreset_attention(*rows, 5, key_mask=torch.tensor(bias)), tensors
    )
    weights = torch.tensor(bias[1], requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda weights: coreset_attention(*tensors, 5, key_mask=weights), weights
    )


def test_a_query_that_is_not_finite_is_lost_alone(rng, xp):
    q, k, v = (a.astype("float32") for a in rng.standard_normal((3, 20, 4)))
    expected, spoilt = coreset_attention(q, k, v, 5), q.copy()
    spoilt[3, 1] = np.nan
    theirs = [xp.asarray(a.copy()) for a in (spoilt, k, v)]
    if xp is np:
        with pytest.raises(ValueError, match="Input q contains NaN"):
            coreset_attention(*theirs, 5)
        return
    found = to_numpy(coreset_attention(*theirs, 5))
    assert np.isnan(found[3]).all()
    rest = np.arange(20) != 3
    assert_allclose(found[rest], expected[rest], atol=1e-5)


def test_errors(rng, xp):
    q, k, v = (xp.asarray(a) for a in rng.standard_normal((3, 6, 4)))
    with pytest.raises(
        ValueError, match="coreset_attention does not support causal=True"
    ):
        coreset_attention(q, k, v, causal=True)
    with pytest.raises(ValueError, match="n_points must be at least 1, got 0"):
        coreset_attention(q, k, v, 0)
    with pytest.raises(ValueError, match="Input k contains infinity"):
        coreset_attention(q, k + xp.inf, v)
    with pytest.raises(
        ValueError, match="k and v must have equal numbers of rows, got 6 and 2"
    ):
        coreset_attention(q, k, v[:2, :])
