"""Linear attention of torch in the training of whole models."""

import copy
import itertools

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from sklearn_crt.attention.torch import (  # noqa: E402
    LinearAttention,
    calibrate,
    replace_attention,
)

from .modules import (  # noqa: E402
    HEADS,
    LENGTH,
    WIDTH,
    causal_mask,
    frequencies,
    make,
    rows,
)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_gradients_are_finite_where_denominators_nearly_cancel(seed):
    """Quotients of tiny denominators that do not count have no gradient."""
    linear = make(feature_map="hybrid", causal=True, random_state=seed)
    for scale in (10, 30):
        x = (scale * rows()).requires_grad_()
        output, _ = linear(x, x, x)
        output.square().sum().backward()
        assert all(
            torch.isfinite(tensor).all()
            for tensor in (output, x.grad, linear.in_proj_weight.grad)
        )


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_activation_checkpointing_counts_a_batch_once(causal, reentrant):
    plain = make(causal=causal, redraw_interval=2)
    checked = copy.deepcopy(plain)
    for _ in range(3):
        x = 2 * rows()
        gradients = []
        for linear, repeat in ((plain, False), (checked, True)):
            z = x.clone().requires_grad_()
            if repeat:
                output, _ = torch.utils.checkpoint.checkpoint(
                    linear, z, z, z, use_reentrant=reentrant
                )
            else:
                output, _ = linear(z, z, z)
            output.square().sum().backward()
            gradients.append(z.grad)
        torch.testing.assert_close(*gradients)
    for a, b in zip(plain.buffers(), checked.buffers(), strict=True):
        torch.testing.assert_close(a, b)


def test_frozen_weights_stay_frozen():
    exact = nn.MultiheadAttention(WIDTH, HEADS)
    exact.in_proj_weight.requires_grad_(False)
    exact.out_proj.bias.requires_grad_(False)
    linear = LinearAttention.from_multihead(exact)
    frozen = {n for n, p in linear.named_parameters() if not p.requires_grad}
    assert frozen == {"in_proj_weight", "out_proj.bias"}


@pytest.mark.parametrize("option", ["add_zero_attn", "add_bias_kv"])
def test_more_keys_than_the_rows_are_refused(option):
    exact = nn.MultiheadAttention(WIDTH, HEADS, **{option: True})
    with pytest.raises(ValueError, match="neither bias_k nor add_zero_attn"):
        LinearAttention.from_multihead(exact)


class Shared(nn.Module):
    """Layers of one attention, under several names."""

    def __init__(self, **options):
        super().__init__()
        self.first = nn.MultiheadAttention(WIDTH, HEADS)
        self.second = self.first
        self.rest = nn.ModuleList([self.first])
        self.last = nn.MultiheadAttention(WIDTH, HEADS, **options)


def test_a_shared_layer_stays_shared():
    model = Shared()
    assert replace_attention(model, random_state=0) == 2
    assert isinstance(model.first, LinearAttention)
    assert model.second is model.first
    assert model.rest[0] is model.first
    assert isinstance(model.last, LinearAttention)
    assert model.last is not model.first


def test_a_model_is_replaced_as_a_whole_or_not_at_all():
    model = Shared(kdim=8)
    with pytest.raises(ValueError, match="the same width for queries, keys and values"):
        replace_attention(model)
    assert isinstance(model.first, nn.MultiheadAttention)
    with pytest.raises(ValueError, match="itself an attention layer"):
        replace_attention(nn.MultiheadAttention(WIDTH, HEADS))


def encoder(n_layers=2):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, 0.1, batch_first=True)
    return nn.TransformerEncoder(layer, n_layers)


def test_calibrate_reads_batches_and_nothing_else_changes():
    model, batches = encoder(), [(i + 1) * rows() for i in range(4)]
    replace_attention(model, random_state=0)
    model.layers[1].eval()
    with pytest.warns(UserWarning, match="A is 0 as in FAVOR"):
        model.eval()(batches[0])
    model.layers[0].train()
    saved = copy.deepcopy(model.state_dict())
    assert calibrate(model, [(x,) for x in batches]) == 2
    first, second = (layer.self_attn for layer in model.layers)
    assert first.training
    assert first.statistics.training
    assert not second.training
    assert first.statistics.momentum == 0.1
    assert first.statistics.n_batches == second.statistics.n_batches == 4
    for name, value in model.state_dict().items():
        assert torch.equal(value, saved[name]) != (".statistics." in name), name
    # all batches count the same
    queries = torch.cat(batches) @ first.in_proj_weight[:WIDTH].T
    queries = (queries + first.in_proj_bias[:WIDTH]).unflatten(-1, (HEADS, -1))
    mean = queries.mean((0, 1))
    torch.testing.assert_close(first.statistics.query_mean, mean)
    model.eval()(batches[0])  # and no warning
    before = first.statistics.query_mean.clone()
    calibrate(model, [{"src": x} for x in batches])  # anew, not on top of it
    torch.testing.assert_close(first.statistics.query_mean, before)


def test_calibrate_needs_something_to_do():
    model = encoder()
    with pytest.raises(ValueError, match="No layer of the model adapts"):
        calibrate(model, [rows()])
    replace_attention(model)
    with pytest.raises(ValueError, match="batches is empty"):
        calibrate(model, [])


def test_redraw_interval():
    linear, x = make(redraw_interval=2), rows()
    draws = []
    for _ in range(5):
        linear(x, x, x)
        draws.append(frequencies(linear).clone())
    changes = [not torch.equal(a, b) for a, b in itertools.pairwise(draws)]
    assert changes == [False, True, False, True]
    linear.eval()
    for _ in range(3):
        linear(x, x, x)
    assert torch.equal(frequencies(linear), draws[-1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("feature_map", ["favor++", "trigonometric"])
def test_least_numbers_stand_for_minus_infinity(feature_map, dtype):
    least = torch.finfo(dtype).min
    linear, x = make(feature_map, dtype=dtype), rows().to(dtype)
    linear(x, x, x)
    linear.eval()
    mask = causal_mask(dtype)
    expected = linear(x, x, x, attn_mask=mask)[0]
    assert torch.equal(linear(x, x, x, is_causal=True)[0], expected)
    found = linear(x, x, x, attn_mask=mask.clamp_min(least))[0]
    assert torch.equal(found, expected)
    padding = torch.zeros(3, LENGTH, dtype=dtype)
    padding[:, 15:] = -torch.inf
    expected = linear(x, x, x, key_padding_mask=padding)[0]
    found = linear(x, x, x, key_padding_mask=padding.clamp_min(least))[0]
    assert torch.equal(found, expected)


def test_masks_of_each_head():
    linear, x = make("favor+"), rows()
    causal, whole = linear(x, x, x, is_causal=True)[0], linear(x, x, x)[0]
    for mask in (causal_mask(), causal_mask() == -torch.inf):
        mask = mask.expand(3 * HEADS, LENGTH, LENGTH)
        assert torch.equal(linear(x, x, x, attn_mask=mask)[0], causal)
        nothing = torch.zeros_like(mask)
        assert torch.equal(linear(x, x, x, attn_mask=nothing)[0], whole)


@pytest.mark.parametrize("shape", [(0, LENGTH, WIDTH), (3, 0, WIDTH)])
@pytest.mark.parametrize("causal", [False, True])
def test_no_rows(causal, shape):
    linear, x = make(causal=causal), torch.zeros(shape)
    output = linear(x, x, x)[0]
    assert output.shape == shape
    output.sum().backward()
    assert linear.statistics.n_batches == 0
    if shape[1] == 0:  # no keys: what a query sees is nothing
        found = make("favor+")(rows(), x, x)[0]
        assert torch.equal(found, make("favor+").out_proj.bias.expand_as(rows()))


@pytest.mark.parametrize("name", ["elu+1", "elu(-)+1"])
@pytest.mark.parametrize("causal", [False, True])
def test_small_elu_features_are_not_lost(name, causal):
    linear, x = make(name, causal=causal), rows()
    with torch.no_grad():
        linear.in_proj_bias[: 2 * WIDTH] = -100.0 if name == "elu+1" else 100.0
        wide = copy.deepcopy(linear).double()
        found, expected = linear(x, x, x)[0], wide(*(x.double(),) * 3)[0]
    # a difference of 1e-7 * 100 in an exponent
    torch.testing.assert_close(found.double(), expected, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(found, linear.out_proj.bias.expand_as(found))


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_trace_of_one_length_is_refused():
    linear, x = make("favor+", causal=True).eval(), rows()
    with pytest.raises(RuntimeError, match="for this sequence length only"):
        torch.jit.trace(lambda x: linear(x, x, x)[0], x)
