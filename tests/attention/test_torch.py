"""Linear attention as a module of torch."""

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from sklearn_crt import OPRFSampler, TrigRBFSampler  # noqa: E402
from sklearn_crt.attention import (  # noqa: E402
    fit_heads,
    linear_attention,
    softmax_attention,
)
from sklearn_crt.attention.torch import (  # noqa: E402
    LinearAttention,
    replace_attention,
)
from sklearn_crt.samplers import AnchoredRBFSampler, GERFSampler, PositiveRBFSampler  # noqa: E402

from .modules import (  # noqa: E402
    HEADS,
    LENGTH,
    MAPS,
    WIDTH,
    causal_mask,
    frequencies,
    heads_of,
    make,
    read_with_hidden_keys,
    rows,
)


def relative(found, expected):
    """Return the error over the size, of all entries."""
    error = (found - expected).norm() / expected.norm()
    return error.detach().item()


@pytest.mark.each_value
@pytest.mark.parametrize("masks", ["none", "padding", "causal"])
@pytest.mark.parametrize("feature_map", ["favor+", "favor++", "simplex", "hybrid"])
def test_converges_to_multihead_attention(feature_map, masks):
    exact = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)
    x, options = 0.6 * rows(), {}
    if masks == "padding":
        options["key_padding_mask"] = torch.arange(LENGTH) >= torch.tensor(
            [[LENGTH], [15], [8]]
        )
    if masks == "causal":
        options["attn_mask"] = causal_mask()
    expected, _ = exact(x, x, x, **options)
    errors = []
    for width in (64, 16_384):
        linear = LinearAttention.from_multihead(
            exact, feature_map=feature_map, n_components=width, random_state=0
        )
        found, weights = linear(x, x, x, **options)
        assert weights is None
        errors.append(relative(found, expected))
    assert errors[1] < 0.15
    assert errors[1] < 0.5 * errors[0]


SAMPLERS = {"favor+": (PositiveRBFSampler, 1), "trigonometric": (TrigRBFSampler, 2)}


def fitted_maps(linear, name, given):
    """Return samplers of the frequencies of a module, one for each head."""
    kind, columns_per_frequency = SAMPLERS[name]
    samplers = []
    for weights in frequencies(linear).numpy():  # (d, n_frequencies) of each head
        d, n_frequencies = weights.shape
        options = {"kernel": "softmax", "coupling": given(weights.T)}
        options["n_components"] = columns_per_frequency * n_frequencies
        samplers.append(kind(sigma=d**-0.25, **options).fit(np.zeros((1, d))))
    return samplers


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", [*SAMPLERS, "elu+1", "elu(-)+1", "relu"])
def test_is_the_function_between_projections(name, causal, given):
    linear, x = make(name, causal=causal, dtype=torch.float64).eval(), rows().double()
    feature_map = fitted_maps(linear, name, given) if name in SAMPLERS else name
    heads = linear_attention(*heads_of(linear, x), feature_map, causal=causal)
    expected = linear.out_proj(heads.transpose(1, 2).flatten(2))
    torch.testing.assert_close(linear(x, x, x)[0], expected)


def optimal_A(mean_sq_sums):
    """Return the best parameters for means of |q + k|^2, from pairs of such rows."""
    found = []
    for mean in mean_sq_sums.flatten().tolist():
        pair = np.zeros((1, 4))
        pair[0, 0] = 0.5 * mean**0.5
        found.append(OPRFSampler(sigma=1.0, center=False).fit(pair).A_)
    return torch.tensor(found, dtype=torch.float64)


def test_layouts_and_half_precision():
    linear, x = make(), rows()
    linear(x, x, x)
    linear.eval()
    expected = linear(x, x, x)[0]
    torch.testing.assert_close(linear(x[0], x[0], x[0])[0], expected[0])
    linear.batch_first = False
    turned = x.transpose(0, 1)
    found = linear(turned, turned, turned)[0].transpose(0, 1)
    torch.testing.assert_close(found, expected)
    linear.batch_first = True
    half = linear.bfloat16()(*(x.bfloat16(),) * 3)[0]
    assert half.dtype == torch.bfloat16
    assert relative(half, expected) < 0.2
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.isfinite(make()(x, x, x)[0]).all()


@pytest.mark.each_value
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", MAPS)
def test_training_in_half_precision(feature_map, causal, dtype):
    x = rows().to(dtype)
    for linear in (
        make(feature_map, causal=causal, dtype=dtype),
        make(feature_map, causal=causal).to(dtype),
    ):
        for _ in range(2):
            found = linear(x, x, x)[0]
        found.square().sum().backward()
        assert found.dtype == dtype
        assert torch.isfinite(found).all()
        assert torch.isfinite(linear.in_proj_weight.grad).all()
        # evaluation differs from float32 by the roundings of the projections alone
        wide = copy.deepcopy(linear.eval()).float()
        expected = wide(x.float(), x.float(), x.float())[0]
        assert relative(linear(x, x, x)[0].float(), expected) < 0.05
    if feature_map == "favor++" and not causal:
        wide, linear = make(), make(dtype=dtype)
        wide.load_state_dict(linear.state_dict())
        for module, z in ((wide, x.float()), (linear, x)):
            for _ in range(2):
                module(z, z, z)
        A = linear.statistics.A()
        assert A.dtype == torch.float32
        torch.testing.assert_close(A, wide.statistics.A(), rtol=0.02, atol=0)


def test_statistics_stay_in_float32():
    linear, x = make(), rows()
    linear(x, x, x)
    A = linear.statistics.A()
    linear.bfloat16()
    assert linear.in_proj_weight.dtype == torch.bfloat16
    for name, part in linear.statistics.named_buffers():
        assert part.dtype == (torch.int64 if name == "n_batches" else torch.float32)
    assert torch.equal(linear.statistics.A(), A)
    assert linear.double().statistics.query_mean.dtype == torch.float64


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_a_batch_that_is_not_finite_leaves_no_trace(value, causal):
    linear, x = make(causal=causal), rows()
    spoilt = x.clone()
    spoilt[0, 3, 1] = value
    linear(spoilt, spoilt, spoilt)  # as the first batch, and later
    assert linear.statistics.n_batches == 0
    linear(x, x, x)
    before = {name: part.clone() for name, part in linear.state_dict().items()}
    assert torch.isnan(linear(spoilt, spoilt, spoilt)[0][0, 3]).all()
    for name, part in linear.state_dict().items():
        assert torch.equal(part, before[name])
    assert torch.isfinite(linear(x, x, x)[0]).all()


def test_hidden_keys_are_not_looked_at_by_the_statistics():
    statistics = make().statistics
    q, k = torch.randn(2, 3, HEADS, LENGTH, WIDTH // HEADS)
    weights = (torch.rand(3, 1, LENGTH) < 0.7).float()
    expected = copy.deepcopy(statistics)
    expected.update(q, k, weights)
    statistics.update(q, k.masked_fill(weights[..., None] == 0, torch.nan), weights)
    assert statistics.n_batches == 1
    torch.testing.assert_close(statistics.A(), expected.A())


@pytest.mark.parametrize("masks", ["none", "padding", "causal"])
def test_drop_in_of_the_encoder_layer(masks):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, 0.0, batch_first=True)
    layer.self_attn, x = make("favor+"), rows()
    options = {}
    if masks == "padding":
        options["src_key_padding_mask"] = torch.rand(3, LENGTH) < 0.3
    if masks == "causal":
        options |= {"src_mask": causal_mask(), "is_causal": True}
    trained = layer(x, **options)
    layer.eval()
    with torch.no_grad():  # torch has a fast path here, with exact attention
        found = layer(x, **options)
    torch.testing.assert_close(found, trained)
    calls = []
    layer.self_attn.register_forward_hook(lambda *args: calls.append(1))
    with torch.no_grad():
        layer(x, **options)
    assert calls == [1]


def test_attention_of_a_whole_model():
    model = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(WIDTH, HEADS, 32, 0.0, batch_first=True), 3
    )
    exact, x = copy.deepcopy(model).eval(), rows()
    assert replace_attention(model, feature_map="favor+", random_state=0) == 3
    first, second, _ = (layer.self_attn for layer in model.layers)
    assert not torch.equal(frequencies(first), frequencies(second))
    assert torch.equal(first.in_proj_weight, exact.layers[0].self_attn.in_proj_weight)
    model.eval()
    padding = torch.rand(3, LENGTH) < 0.3
    with torch.no_grad():
        found = model(x, src_key_padding_mask=padding)
    assert torch.isfinite(found).all()
    assert not any(isinstance(m, nn.MultiheadAttention) for m in model.modules())


@pytest.mark.parametrize("feature_map", MAPS)
def test_causality_with_running_statistics(feature_map):
    linear, x = make(feature_map, causal=True), rows()
    for _ in range(2):
        linear(x, x, x)
    later = x.clone()
    later[:, 10:] = 3 * later[:, 10:] + 1
    # the same state before both, in training too
    before, after = (copy.deepcopy(linear)(z, z, z)[0][:, :10] for z in (x, later))
    torch.testing.assert_close(after, before, rtol=1e-4, atol=1e-5)


def test_statistics_are_those_of_the_batches_so_far():
    linear, x = make(dtype=torch.float64, momentum=0.25), rows().double()
    batches = [x, 2 * x]
    for z in batches:
        linear(z, z, z)
    means = []
    for z in batches:
        q, k, _ = heads_of(linear, z)
        q, k = (part.transpose(0, 1).flatten(1, 2) for part in (q, k))
        means.append(
            (q.mean(1), k.mean(1), q.pow(2).sum(-1).mean(-1), k.pow(2).sum(-1).mean(-1))
        )
    mix = [0.75 * a + 0.25 * b for a, b in zip(*means, strict=True)]
    q_mean, k_mean, q_square, k_square = mix
    mean = (q_square + k_square + 2 * (q_mean * k_mean).sum(-1)) / 2  # sqrt of d = 4
    torch.testing.assert_close(linear.statistics.A().flatten(), optimal_A(mean))
    assert not linear.statistics.A().requires_grad
    saved = copy.deepcopy(linear.state_dict())
    linear.eval()(x, x, x)
    for name, value in linear.state_dict().items():
        assert torch.equal(value, saved[name])


def test_first_batch_bidirectional_uses_its_own_statistics():
    linear, x = make(dtype=torch.float64), rows().double()
    linear(x, x, x)
    q, k, _ = heads_of(linear, x)
    sampler = OPRFSampler(kernel="softmax", center=False)
    expected = torch.tensor([head.A_ for head in fit_heads(sampler, q, k)])
    torch.testing.assert_close(linear.statistics.A().flatten(), expected.double())


def test_padding_is_not_in_the_statistics():
    linear = make()
    other, _ = read_with_hidden_keys(linear, rows())
    torch.testing.assert_close(linear.statistics.A(), other.statistics.A())


def test_redraw_changes_the_frequencies_in_place():
    linear, x = make("favor+").eval(), rows()
    before, place = linear(x, x, x)[0], frequencies(linear).data_ptr()
    assert linear.redraw_() is linear
    assert frequencies(linear).data_ptr() == place
    assert not torch.allclose(linear(x, x, x)[0], before)
    again = make("favor+").redraw_().eval()
    again.load_state_dict(linear.state_dict())
    torch.testing.assert_close(again(x, x, x)[0], linear(x, x, x)[0])


def test_a_loaded_state_gives_the_same_output():
    linear, x = make(), rows()
    linear(x, x, x)
    other = make(random_state=5)
    other.load_state_dict(linear.state_dict())
    torch.testing.assert_close(other.eval()(x, x, x)[0], linear.eval()(x, x, x)[0])


def test_band_is_blended_with_learned_weights():
    linear, x = make("elu+1", band=2), rows()
    linear(x, x, x)[0].sum().backward()
    assert linear.near_logit.grad.abs().min() > 0
    assert linear.far_logit.grad.abs().min() > 0
    with torch.no_grad():
        linear.far_logit.fill_(-1e4)
        linear.near_logit.fill_(1e4)
        q, k, v = heads_of(linear, x)
        near = softmax_attention(q, k, v, band=2).transpose(1, 2).flatten(2)
        torch.testing.assert_close(linear(x, x, x)[0], linear.out_proj(near))


def test_gradients_reach_all_parameters():
    for feature_map in MAPS:
        linear, x = make(feature_map), rows().requires_grad_()
        linear(x, x, x)[0].square().sum().backward()
        assert torch.isfinite(x.grad).all()
        for parameter in linear.parameters():
            assert torch.isfinite(parameter.grad).all()
            assert parameter.grad.abs().sum() > 0


def test_dropout_leaves_the_mean():
    linear, x = make("favor+", dropout=0.3), rows()
    draws = torch.stack([linear(x, x, x)[0].detach() for _ in range(400)])
    expected = linear.eval()(x, x, x)[0]
    z = (draws.mean(0) - expected) / (draws.std(0) / 20)
    assert z.abs().max() < 6.5  # 1e-7 an entry
    assert draws.std(0).min() > 0


def test_training_learns():
    linear, x = make(), rows()
    target = torch.randn(3, LENGTH, WIDTH)
    optimizer, losses = torch.optim.Adam(linear.parameters(), 1e-2), []
    for _ in range(40):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(linear(x, x, x)[0], target)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().item())
    assert losses[-1] < 0.9 * losses[0]


def test_own_samplers():
    sampler = PositiveRBFSampler(kernel="softmax", n_components=24, coupling="simplex")
    linear, x = make(sampler), rows()
    assert frequencies(linear).shape == (HEADS, WIDTH // HEADS, 24)
    assert torch.isfinite(linear(x, x, x)[0]).all()
    assert make(OPRFSampler(kernel="softmax", n_components=9)).statistics is not None
    assert "PositiveRBFSampler" in repr(linear)


@pytest.mark.parametrize("sampler", [GERFSampler, AnchoredRBFSampler])
def test_maps_of_rows_that_are_not_there_are_refused(sampler):
    with pytest.raises(
        TypeError, match="adapts its feature map to the rows passed to fit"
    ):
        make(sampler(kernel="softmax", n_components=16))


def test_errors():
    linear, x = make(), rows()
    for mask in (
        torch.rand(LENGTH, LENGTH) < 0.5,
        torch.randn(LENGTH, LENGTH),
        torch.rand(3 * HEADS, LENGTH, LENGTH) < 0.5,
        causal_mask()[:, :-1],
    ):
        with pytest.raises(
            ValueError, match="does not compute weights of individual pairs"
        ):
            linear(x, x, x, attn_mask=mask)
    linear(x, x, x, attn_mask=torch.zeros(LENGTH, LENGTH))  # leaves out nothing
    with pytest.raises(ValueError, match="key_padding_mask must have the shape"):
        linear(x, x, x, key_padding_mask=torch.zeros(3, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match="is not divisible by num_heads=0"):
        LinearAttention(WIDTH, 0)
    with pytest.raises(ValueError, match="is not divisible by num_heads=5"):
        LinearAttention(16, 5)
    with pytest.raises(ValueError, match="'favor' must be one of"):
        make("favor")
    with pytest.raises(ValueError, match="the same width for queries, keys and values"):
        LinearAttention.from_multihead(nn.MultiheadAttention(16, 4, kdim=8))
    with pytest.raises(ValueError, match="which weights the keys differently"):
        make(OPRFSampler())
    with pytest.raises(
        TypeError, match="draws feature maps of different kinds or sizes"
    ):
        make(OfManySizes(kernel="softmax"))


class OfManySizes(PositiveRBFSampler):
    """A sampler with a number of columns that depends on the seed."""

    def fit(self, X, y=None, X_key=None):
        self.n_components = 8 + self.random_state % 5
        return super().fit(X, X_key=X_key)


def test_seeds_are_reproducible():
    modules = make(), make(), make(random_state=1)
    heads, again, other = map(frequencies, modules)
    assert torch.equal(heads, again)
    assert not torch.equal(heads, other)
    assert not torch.equal(heads[0], heads[1])
    assert np.isfinite(heads.numpy()).all()


@pytest.mark.parametrize("hides", [-1e4, -1e9])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", ["trigonometric", "hybrid", "favor++"])
def test_large_negative_numbers_hide_keys(feature_map, causal, hides):
    linear, x = make(feature_map, causal=causal), rows()
    linear(x, x, x)
    linear.eval()
    hidden = (torch.arange(LENGTH) < 9).expand(3, LENGTH)
    other = torch.where(hidden[..., None], x + 50, x)
    expected = linear(x, x, x, key_padding_mask=hidden)[0][:, 9:]
    graded = torch.where(hidden, hides, 0.0)
    for values in (x, other):
        found = linear(x, x, values, key_padding_mask=graded)[0][:, 9:]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("name", ["key_padding_mask", "attn_mask"])
def test_integer_masks_are_refused(name, dtype):
    linear, x = make(), rows()
    shape = (3, LENGTH) if name == "key_padding_mask" else (LENGTH, LENGTH)
    with pytest.raises(TypeError, match=rf"{name} must be boolean .* Pass mask == 0"):
        linear(x, x, x, **{name: torch.ones(shape, dtype=dtype)})


@pytest.mark.parametrize(
    "options", [pytest.param({}, marks=pytest.mark.slow), {"causal": True, "band": 2}]
)
@pytest.mark.parametrize(
    "training", [True, pytest.param(False, marks=pytest.mark.slow)]
)
@pytest.mark.each_value
@pytest.mark.parametrize("feature_map", MAPS)
def test_shapes_on_the_meta_device(feature_map, training, options):
    linear = make(feature_map, device="meta", redraw_interval=2, **options)
    x = rows().to("meta")
    linear.train(training)
    for _ in range(3):
        assert linear(x, x, x)[0].shape == x.shape
    masks = {
        "key_padding_mask": torch.ones(3, LENGTH, dtype=torch.bool, device="meta"),
        "attn_mask": causal_mask().to("meta"),
    }
    assert linear(x, x, x, **masks)[0].shape == x.shape
    output, state = linear.step(x)
    assert output.shape == x.shape
    assert linear.step(x, state)[0].shape == x.shape
