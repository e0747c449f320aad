"""Features of running covariances in modules of torch."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from sklearn_crt import DERFSampler  # noqa: E402
from sklearn_crt.attention import linear_attention, softmax_attention  # noqa: E402
from sklearn_crt.attention.torch import LinearAttention, calibrate  # noqa: E402

from .modules import (  # noqa: E402
    HEADS,
    LENGTH,
    N_COLUMNS,
    WIDTH,
    heads_of,
    make,
    read_with_hidden_keys,
    rows,
    wide_rows,
)

D = WIDTH // HEADS


def uneven(n_batch=3):
    """Return rows that are not about zero, with columns of unlike scales."""
    x = wide_rows(n_batch=n_batch)
    return x * torch.linspace(0.2, 1.5, WIDTH, dtype=x.dtype) + 0.5


def maps(linear):
    """Return the arrays of the map."""
    found = {n: b.clone() for n, b in linear.named_buffers() if n.startswith("map_")}
    return found


def fitted(linear, x):
    """Return samplers fitted on the rows of each head, of the seeds of the module."""
    q, k, _ = heads_of(linear, x).transpose(1, 2).flatten(2, 3).numpy()
    options = {"kernel": "softmax", "coupling": "antithetic", "sigma": D**-0.25}
    options["n_components"] = N_COLUMNS
    return [
        DERFSampler(random_state=seed, **options).fit(q[h], X_key=k[h])
        for h, seed in enumerate(linear.seeds.tolist())
    ]


@pytest.mark.parametrize("causal", [False, True])
def test_a_calibrated_module_has_the_maps_of_fitted_samplers(causal):
    linear, batches = make("derf", dtype=torch.float64, causal=causal), []
    for n_batch in (3, 3):
        batches.append(uneven(n_batch))
    assert calibrate(linear.eval(), [(x,) * 3 for x in batches]) == 1
    x = torch.cat(batches)
    q, k, v = heads_of(linear, x)
    expected = linear_attention(q, k, v, fitted(linear, x), causal=causal)
    expected = linear.out_proj(expected.transpose(1, 2).flatten(2))
    torch.testing.assert_close(linear(x, x, x)[0], expected, rtol=1e-6, atol=1e-8)


def test_running_covariances_are_those_of_the_batches_so_far():
    linear = make("derf", dtype=torch.float64, momentum=0.25)
    batches = [uneven(), 2 * uneven() + 1]
    sums = 0
    for x in batches:
        linear(x, x, x)
        q, _, _ = heads_of(linear, x).transpose(1, 2).flatten(2, 3)
        moments = torch.cat([q, torch.ones_like(q[..., :1])], dim=-1)
        moments = moments.mT @ moments / q.shape[1]
        sums = moments if x is batches[0] else 0.75 * sums + 0.25 * moments
    mean = sums[:, :D, D]
    torch.testing.assert_close(linear.statistics.query_mean, mean)
    covariance = sums[:, :D, :D] - mean[:, :, None] * mean[:, None]
    torch.testing.assert_close(linear.statistics.query_covariance, covariance)
    share = (0.75**2 + 0.25**2) / (3 * LENGTH)
    assert linear.statistics.query_share[0].item() == pytest.approx(share)


def test_hidden_keys_and_batches_that_are_not_finite_are_left_out():
    linear = make("derf", dtype=torch.float64)
    other, garbage = read_with_hidden_keys(linear, uneven())
    garbage[0, 0] = torch.nan
    other(garbage, garbage, garbage)
    buffers = linear.statistics.buffers(), other.statistics.buffers()
    for a, b in zip(*buffers, strict=True):
        torch.testing.assert_close(a, b)


def test_the_error_is_less_than_that_of_favor():
    torch.manual_seed(1)
    exact = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, dtype=torch.float64)
    x, errors = uneven(32), {}
    for feature_map in ("favor++", "derf"):
        options = {"feature_map": feature_map, "n_components": 64, "random_state": 0}
        linear = LinearAttention.from_multihead(exact, **options)
        calibrate(linear, [(x, x, x)])
        linear.eval()
        expected = softmax_attention(*heads_of(linear, x))
        expected = linear.out_proj(expected.transpose(1, 2).flatten(2))
        errors[feature_map] = (linear(x, x, x)[0] - expected).square().mean()
    assert errors["derf"] < 0.5 * errors["favor++"]


def test_training_adapts_the_map_to_earlier_batches():
    linear, x = make("derf", dtype=torch.float64, causal=True), uneven()
    before, changes = maps(linear), []
    for _ in range(20):
        later = x.clone()
        later[:, 10:] = 3 * later[:, 10:] + 1
        pair = [copy.deepcopy(linear)(z, z, z)[0][:, :10] for z in (x, later)]
        torch.testing.assert_close(*pair)  # the map has not seen this batch
        linear(x, x, x)
        after = maps(linear)
        changes.append(any(not torch.equal(before[n], after[n]) for n in before))
        before = after
    assert np.flatnonzero(changes).tolist() == [1, 2, 4, 8, 16]
    linear.eval()(x, x, x)
    assert all(torch.equal(part, before[n]) for n, part in maps(linear).items())


def test_a_shared_layer_and_checkpoints_have_gradients():
    linear, x = make("derf", dtype=torch.float64), uneven()
    y = x
    for _ in range(3):  # the map changes in between
        y = y + linear(y, y, y)[0]
    y.square().sum().backward()
    checked = make("derf", dtype=torch.float64)
    plain = copy.deepcopy(checked)
    for _ in range(3):
        x = uneven().requires_grad_()
        z = x.detach().clone().requires_grad_()
        plain(x, x, x)[0].square().sum().backward()
        output = torch.utils.checkpoint.checkpoint(
            checked, z, z, z, use_reentrant=False
        )
        output[0].square().sum().backward()
        torch.testing.assert_close(z.grad, x.grad)


def test_state_is_saved_and_goes_on():
    linear = make("derf", dtype=torch.float64)
    for _ in range(3):
        x = uneven()
        linear(x, x, x)
    other = make("derf", dtype=torch.float64, random_state=5)
    other.load_state_dict(linear.state_dict())
    linear.eval()
    other.eval()
    torch.testing.assert_close(other(x, x, x), linear(x, x, x))
    for module in (linear, other):  # of the frequencies that were loaded
        calibrate(module, [(x, x, x)])
    torch.testing.assert_close(other(x, x, x), linear(x, x, x))
    before = linear(x, x, x)[0]
    seeds = linear.seeds.clone()
    linear.redraw_()
    assert not torch.equal(linear.seeds, seeds)
    assert not torch.allclose(linear(x, x, x)[0], before)
    q, k, v = heads_of(linear, x)
    expected = linear_attention(q, k, v, fitted(linear, x))
    expected = linear.out_proj(expected.transpose(1, 2).flatten(2))
    torch.testing.assert_close(linear(x, x, x)[0], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision(dtype):
    x = uneven().to(dtype)
    for linear in (make("derf", dtype=dtype), make("derf").to(dtype)):
        for _ in range(3):
            linear(x, x, x)[0].sum().backward()
        assert linear.statistics.query_covariance.dtype == torch.float32
        wide = make("derf")  # with a map that was not rounded
        state = linear.state_dict()
        wide.load_state_dict(state)
        wide.redraw_()
        linear.redraw_()
        z = x.float()
        expected = wide.eval()(z, z, z)[0]
        error = (linear.eval()(x, x, x)[0].float() - expected).norm()
        assert error < 0.05 * expected.norm()


def test_own_samplers_and_the_warning():
    sampler = DERFSampler(kernel="softmax", n_components=24, center=False)
    linear, x = make(sampler), rows()
    with pytest.warns(UserWarning, match="A is 0 as in FAVOR"):
        linear.eval()(x, x, x)
    linear.train()(x, x, x)
    linear.eval()(x, x, x)  # and no warning
    state = None
    for i in range(LENGTH):
        output, state = linear.step(x[:, i : i + 1], state)
    whole = linear(x, x, x, is_causal=True)[0]
    torch.testing.assert_close(output, whole[:, -1:], rtol=1e-4, atol=1e-5)
