"""Maps of torch modules that are fitted to queries and keys, and then fixed."""

import copy
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose

from sklearn_crt import (
    AnchoredRBFSampler,
    OPRFSampler,
    PoissonSampler,
    clustered_hybrid,
)
from sklearn_crt.attention import fit_heads, linear_attention
from sklearn_crt.samplers import DERFSampler

torch = pytest.importorskip("torch")

from sklearn_crt.attention.torch import (  # noqa: E402
    LinearAttention,
    fit_maps,
    replace_attention,
)

SAMPLERS = {
    "clustered": clustered_hybrid(
        n_clusters=2, n_components=64, kernel="softmax", random_state=0
    ),
    "anchored": AnchoredRBFSampler(n_components=64, kernel="softmax", random_state=0),
    "OPRF": OPRFSampler(n_components=64, kernel="softmax", random_state=0),
    "DERF": DERFSampler(n_components=64, kernel="softmax", random_state=0),
}


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(3, 20, 16, generator=generator) for _ in range(4)]


def new_layer(**options):
    torch.manual_seed(0)
    return LinearAttention(16, 2, batch_first=True, random_state=0, **options)


def new_model(**options):
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
    model = torch.nn.TransformerEncoder(layer, 2)
    replace_attention(model, random_state=0, **options)
    return model


def map_buffers(model):
    return {name: b.clone() for name, b in model.named_buffers() if ".map_" in name}


@pytest.mark.parametrize("name", SAMPLERS)
@pytest.mark.parametrize("causal", [False, True])
def test_outputs_are_those_of_fitted_samplers(name, causal, batches):
    layer = new_layer().double()
    batches = [x.double() for x in batches]
    model = torch.nn.ModuleDict({"layer": layer})
    model.forward = lambda x: layer(x, x, x)[0]
    assert fit_maps(model, SAMPLERS[name], batches) == 1
    x = batches[0]
    weights = layer.in_proj_weight.chunk(3)
    heads = [(x @ w.T).unflatten(-1, (2, 8)).transpose(1, 2).detach() for w in weights]
    everything = torch.cat(batches)
    q, k, _ = (
        (everything @ w.T).unflatten(-1, (2, 8)).transpose(1, 2).detach().numpy()
        for w in weights
    )
    rng = np.random.RandomState(0)
    seed = rng.randint(2**31 - 1)
    sampler = copy.deepcopy(SAMPLERS[name]).set_params(random_state=seed)
    expected = linear_attention(*heads, fit_heads(sampler, q, k), causal=causal)
    expected = layer.out_proj(expected.transpose(1, 2).flatten(2))
    found = layer(x, x, x, is_causal=causal)[0]
    assert_allclose(found.detach(), expected.detach(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", SAMPLERS)
def test_maps_stay_fixed_in_training_until_they_are_fitted_again(name, batches):
    model = new_model(feature_map="favor+", redraw_interval=1)
    assert fit_maps(model, SAMPLERS[name], batches) == 2
    before = map_buffers(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.train()
    for x in batches:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for parameter in model.parameters():
        assert torch.isfinite(parameter).all()
    weight = model.layers[0].self_attn.in_proj_weight
    assert weight.grad.abs().max() > 0
    after = map_buffers(model)
    assert before.keys() == after.keys()
    assert all(torch.equal(before[key], after[key]) for key in before)
    fit_maps(model, SAMPLERS[name], batches)
    again = map_buffers(model)
    assert any(not torch.equal(before[key], again[key]) for key in before)


def test_layers_get_different_frequencies(batches):
    model = new_model()
    fit_maps(model, SAMPLERS["OPRF"], batches)
    first, second = (layer.self_attn._map.tables for layer in model.layers)
    frequencies = [side[0].magnitude.frequencies.weights for side in (first, second)]
    assert not np.allclose(*frequencies)


def test_masked_keys_are_not_read(batches):
    x = batches[0]
    mask = torch.zeros(3, 20, dtype=torch.bool)
    mask[:, 15:] = True
    maps = []
    for value in (0.0, 1e3):
        layer = new_layer()
        model = torch.nn.ModuleDict({"layer": layer})
        model.forward = lambda x, mask, layer=layer: layer(
            batches[1], x, x, key_padding_mask=mask
        )
        changed = x.clone()
        changed[:, 15:] = value
        fit_maps(model, SAMPLERS["anchored"], [(changed, mask)])
        maps.append(map_buffers(model))
    assert all(torch.equal(maps[0][key], maps[1][key]) for key in maps[0])


def test_copies_states_and_steps(batches):
    model = new_model().eval()
    fit_maps(model, SAMPLERS["clustered"], batches)
    x = batches[0]
    expected = model(x)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(x), expected)
    fresh = new_model().eval()
    fit_maps(fresh, SAMPLERS["clustered"], batches[:1])
    fresh.load_state_dict(model.state_dict())
    assert torch.equal(fresh(x), expected)
    attention = model.layers[0].self_attn
    state, outputs = None, []
    for i in range(x.shape[1]):
        output, state = attention.step(x[:, i : i + 1], state)
        outputs.append(output)
    whole = attention(x, x, x, is_causal=True)[0]
    assert_allclose(torch.cat(outputs, 1).detach(), whole.detach(), atol=2e-4)


def test_errors(batches):
    model = new_model()
    with pytest.raises(ValueError, match="batches is empty"):
        fit_maps(model, SAMPLERS["OPRF"], [])
    with pytest.raises(ValueError, match="contains no LinearAttention"):
        fit_maps(torch.nn.Linear(2, 2), SAMPLERS["OPRF"], [torch.zeros(1, 2)])
    with pytest.raises(TypeError, match="different kinds or sizes"):
        fit_maps(model, PoissonSampler(kernel="softmax", random_state=0), batches)
    with pytest.raises(ValueError, match="exp"):
        fit_maps(model, OPRFSampler(), batches)
    several = new_model(feature_map=["favor+", "elu+1"])
    with pytest.raises(ValueError, match="with a single map"):
        fit_maps(several, SAMPLERS["OPRF"], batches)
    fit_maps(model, SAMPLERS["OPRF"], batches)
    with pytest.raises(RuntimeError, match="Call fit_maps again"):
        model.layers[0].self_attn.redraw_()
