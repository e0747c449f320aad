"""Several far-field maps in one module, and sinusoidal positions."""

import copy

import numpy as np
import pytest
from numpy.testing import assert_allclose

torch = pytest.importorskip("torch")

from sklearn_crt import OPRFSampler  # noqa: E402
from sklearn_crt.attention import fmm_attention  # noqa: E402
from sklearn_crt.attention.torch import (  # noqa: E402
    LinearAttention,
    calibrate,
    rotary,
    sinusoidal,
)

MAPS = ["elu+1", "elu(-)+1"]


def layer(feature_map=MAPS, **options):
    torch.manual_seed(0)
    options = {"batch_first": True, "random_state": 0, "n_components": 16} | options
    return LinearAttention(8, 2, feature_map=feature_map, **options)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("maps", [MAPS, ["relu", "elu+1", "elu(-)+1"]])
def test_output_is_that_of_fmm_attention(maps, causal):
    module, x = layer(maps, band=3, causal=causal).double(), torch.randn(2, 20, 8)
    x = x.double()
    with torch.no_grad():
        module.near_logit.normal_()
        module.far_logit.normal_()
    assert module.far_logit.shape == (2, 1, len(maps))
    q, k, v = module._project(x, x, x)
    near, far = module.near_logit.sigmoid(), module.far_logit.sigmoid()
    options = {"band": 3, "causal": causal}
    # fmm_attention has one weight for all far fields, so it is called for each of them
    parts = [
        fmm_attention(q, k, v, [name], near_weight=0 * near, far_weight=w, **options)
        for name, w in zip(maps, far.split(1, dim=-1), strict=True)
    ]
    zero = fmm_attention(q, k, v, [], near_weight=near, **options)
    expected = module.out_proj((sum(parts) + zero).transpose(1, 2).flatten(2))
    torch.testing.assert_close(module(x, x, x)[0], expected)


def test_several_maps_without_a_band():
    module, x = layer(["favor++", "elu+1"]), torch.randn(2, 20, 8)
    assert not hasattr(module, "near_logit")
    module.train()
    module(x, x, x)
    module.eval()
    output = module(x, x, x)[0]
    alone = []
    for i in (0, 1):
        with torch.no_grad():
            module.far_logit[:] = -torch.inf
            module.far_logit[..., i] = 0
        alone.append(module(x, x, x)[0])
    bias = module.out_proj.bias
    torch.testing.assert_close(output, alone[0] + alone[1] - bias)


def test_weights_of_all_maps_are_trained():
    module, x = layer([*MAPS, "favor+"], band=2), torch.randn(2, 20, 8)
    module(x, x, x)[0].square().sum().backward()
    assert torch.all(module.far_logit.grad != 0)
    assert torch.all(module.near_logit.grad != 0)


@pytest.mark.parametrize("band", [None, 2])
def test_steps_equal_the_whole_sequence(band):
    module = layer(["favor+", "elu+1", "relu"], band=band).eval()
    x, state, outputs = torch.randn(3, 11, 8), None, []
    for part in x.split([4, 1, 1, 5], dim=1):
        output, state = module.step(part, state)
        outputs.append(output)
    whole = module(x, x, x, is_causal=True)[0]
    torch.testing.assert_close(torch.cat(outputs, 1), whole, atol=1e-5, rtol=1e-4)


def test_each_map_has_its_frequencies_and_its_statistics():
    module, x = layer(["favor++", "favor++"]), torch.randn(4, 30, 8)
    first, second = module._far_fields
    kinds = [name for name, _ in first.named_buffers() if "weights" in name]
    names = [name for name in kinds if name.startswith("map_")]
    assert names
    before = [f.get_buffer(names[0]).clone() for f in (first, second)]
    assert not torch.equal(*before)
    assert calibrate(torch.nn.Sequential(Wrapped(module)), [x]) == 1
    assert first.statistics.A().abs().min() > 0
    torch.testing.assert_close(first.statistics.A(), second.statistics.A())
    module.redraw_()
    after = [f.get_buffer(names[0]) for f in (first, second)]
    assert all(not torch.equal(*pair) for pair in zip(before, after, strict=True))


class Wrapped(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x):
        return self.attention(x, x, x)[0]


def test_saved_and_copied():
    module, x = layer(["favor++", "elu+1"], band=2), torch.randn(2, 20, 8)
    module(x, x, x)
    module.eval()
    other = layer(["favor++", "elu+1"], band=2, random_state=1)
    other.load_state_dict(module.state_dict())
    other.eval()
    torch.testing.assert_close(other(x, x, x)[0], module(x, x, x)[0])
    twin = copy.deepcopy(module)
    torch.testing.assert_close(twin(x, x, x)[0], module(x, x, x)[0])
    assert "['OPRF" in repr(module) or "OPRFSampler" in repr(module)


def test_one_map_in_a_list_is_that_map():
    x = torch.randn(2, 20, 8)
    alone, listed = layer("favor+"), layer(["favor+"])
    assert {*alone.state_dict()} == {*listed.state_dict()}
    torch.testing.assert_close(alone(x, x, x)[0], listed(x, x, x)[0])
    with pytest.raises(ValueError, match="feature_map is an empty list"):
        layer([])
    sampler = OPRFSampler(kernel="softmax", n_components=8)
    assert len(layer([sampler, sampler])._far_fields) == 2


# ------------------------------------------------------------- sinusoidal positions
@pytest.mark.parametrize("d", [1, 4, 7])
def test_sines_and_cosines_of_positions(d):
    positions = torch.tensor([0, 1, 5, 1000])
    found = sinusoidal(torch.zeros(4, d, dtype=torch.float64), positions).numpy()
    expected = np.empty((4, d))
    for column in range(d):
        angle = positions.numpy() / 10_000 ** ((column - column % 2) / d)
        expected[:, column] = np.cos(angle) if column % 2 else np.sin(angle)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    rows = torch.randn(2, 3, 4, d, dtype=torch.float64)
    difference = (sinusoidal(rows, positions) - rows).numpy()
    assert_allclose(difference, np.broadcast_to(expected, (2, 3, 4, d)), atol=1e-12)


def test_positions_within_a_module():
    """Without positions, attention does not see the order of the keys."""
    x, order = torch.randn(1, 12, 8), torch.randperm(12)
    changes = []
    for positional in (None, rotary, sinusoidal):
        module = layer("elu+1", positional=positional).eval()
        whole, permuted = module(x, x, x)[0], module(x, x[:, order], x[:, order])[0]
        changes.append(float((whole - permuted).abs().max().detach()))
    assert changes[0] < 1e-5
    assert min(changes[1:]) > 1e-3
    module, state, outputs = layer("elu+1", positional=sinusoidal).eval(), None, []
    for token in x.split(1, dim=1):
        output, state = module.step(token, state)
        outputs.append(output)
    torch.testing.assert_close(
        torch.cat(outputs, 1), module(x, x, x, is_causal=True)[0], atol=1e-5, rtol=1e-4
    )
