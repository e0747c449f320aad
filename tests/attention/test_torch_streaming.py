"""Linear attention of torch token by token, and positions of rows."""

import copy
import io

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from sklearn_crt.attention.torch import rotary  # noqa: E402
from sklearn_crt.samplers import PositiveRBFSampler  # noqa: E402

from .modules import HEADS, LENGTH, MAPS, WIDTH, trained, wide_rows  # noqa: E402

make, rows = trained, wide_rows


def stream(linear, x, sizes, state=None, axis=1):
    """Return the outputs for pieces of a sequence, and the last state."""
    outputs = []
    for piece in x.split(sizes, axis):
        output, state = linear.step(piece, state)
        outputs.append(output)
    return torch.cat(outputs, axis), state


@pytest.mark.each_value
@pytest.mark.parametrize("sizes", [[1] * LENGTH, [5, 1, 13, 4]])
@pytest.mark.parametrize("band", [None, 3])
@pytest.mark.parametrize("feature_map", MAPS)
def test_steps_are_causal_attention(feature_map, band, sizes):
    linear, x = make(feature_map, band=band, positional=rotary), rows()
    expected = linear(x, x, x, is_causal=True)[0]
    found, state = stream(linear, x, sizes)
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    assert state["n_tokens"].tolist() == [LENGTH] * 3


def test_layouts_and_types():
    linear, x = make("favor+", dtype=torch.float32), rows(dtype=torch.float32)
    expected = linear(x, x, x, is_causal=True)[0]
    found, _ = stream(linear, x[0], [1] * LENGTH, axis=0)
    torch.testing.assert_close(found, expected[0])
    half = copy.deepcopy(linear).bfloat16()
    found, state = stream(half, x.bfloat16(), [LENGTH - 2, 2])
    assert found.dtype == torch.bfloat16
    assert state["values"].dtype == torch.float32
    assert (found.float() - expected).norm() < 0.05 * expected.norm()
    linear.batch_first = False
    found, _ = stream(linear, x.transpose(0, 1), [9, 14], axis=0)
    torch.testing.assert_close(found.transpose(0, 1), expected)


@pytest.mark.parametrize("feature_map", ["favor++", "trigonometric"])
def test_beams_go_on_from_a_common_beginning(feature_map):
    linear, x = make(feature_map, band=2, positional=rotary), rows()
    _, state = stream(linear, x[:, :10], [4, 6])
    before = {name: part.clone() for name, part in state.items()}
    beams = torch.tensor([2, 0, 0, 2])
    chosen = {name: part[beams] for name, part in state.items()}
    ends = torch.randn(4, 3, WIDTH, dtype=x.dtype)
    found, _ = stream(linear, ends, [1, 2], chosen)
    whole = torch.cat([x[beams, :10], ends], dim=1)
    expected = linear(whole, whole, whole, is_causal=True)[0][:, 10:]
    torch.testing.assert_close(found, expected, rtol=1e-7, atol=1e-9)
    for name, part in state.items():  # a step changes no state
        assert torch.equal(part, before[name])


@pytest.mark.parametrize("feature_map", ["favor++", "hybrid"])
def test_a_state_is_saved_and_loaded(feature_map):
    linear, x = make(feature_map, band=2), rows()
    _, state = stream(linear, x[:, :10], [4, 6])
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    holder = nn.Module()
    for name, part in loaded.items():
        holder.register_buffer(name, part)
    loaded = holder.state_dict()
    expected, _ = linear.step(x[:, 10:12], state)
    assert torch.equal(linear.step(x[:, 10:12], loaded)[0], expected)


def test_a_step_reads_no_statistics():
    linear, x = make(dropout=0.5).train(), rows()
    saved = copy.deepcopy(linear.state_dict())
    found, _ = linear.step(x)
    for name, part in linear.state_dict().items():
        assert torch.equal(part, saved[name])
    linear.eval()
    torch.testing.assert_close(found, linear(x, x, x, is_causal=True)[0])
    with pytest.raises(ValueError, match="at least one token"):
        linear.step(x[:, :0])


def test_positional_stands_between_projection_and_features():
    calls = []

    def double(x, positions):
        calls.append((x.shape, positions.tolist()))
        return 2 * x

    linear, x = make("favor+"), rows()
    doubled = copy.deepcopy(linear)
    with torch.no_grad():
        doubled.in_proj_weight[: 2 * WIDTH] *= 2
        doubled.in_proj_bias[: 2 * WIDTH] *= 2
    linear.positional = double
    found = linear(x, x[:, :5], x[:, :5])[0]
    expected = doubled(x, x[:, :5], x[:, :5])[0]
    torch.testing.assert_close(found, expected)
    assert calls == [
        ((3, HEADS, LENGTH, 4), list(range(LENGTH))),
        ((3, HEADS, 5, 4), list(range(5))),
    ]


@pytest.mark.parametrize("d", [4, 5])
def test_rotary_products_depend_on_differences(d):
    q, k = torch.randn(2, 1, d, dtype=torch.float64)
    places = torch.arange(7.0, dtype=torch.float64)
    turned = [rotary(x.expand(7, d), places) for x in (q, k)]
    products = turned[0] @ turned[1].T
    for gap in range(-6, 7):
        diagonal = products.diagonal(gap)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    # complex numbers with a rate of 1 and of 1 / 100
    numbers = torch.complex(q[0, :2], q[0, 2:4]) * torch.exp(
        1j * 3 * torch.tensor([1, 0.01], dtype=torch.float64)
    )
    torch.testing.assert_close(turned[0][3, :2], numbers.real)
    torch.testing.assert_close(turned[0][3, 2:4], numbers.imag)
    assert torch.equal(turned[0][:, 4:], q[:, 4:].expand(7, d - 4))


def test_an_own_sampler_streams():
    sampler = PositiveRBFSampler(kernel="softmax", n_components=24)
    linear, x = make(sampler), rows()
    found, _ = stream(linear, x, [20, 3])
    torch.testing.assert_close(found, linear(x, x, x, is_causal=True)[0])


@pytest.mark.parametrize("feature_map", ["favor++", "hybrid", "derf"])
def test_a_map_that_is_kept_follows_the_buffers(feature_map):
    linear, x = make(feature_map), rows()
    other = make(feature_map, random_state=1)

    def train():
        for _ in range(2):
            linear.train()(2 * x, x, x)
        linear.eval()

    changes = [linear.redraw_, lambda: linear.load_state_dict(other.state_dict())]
    if linear.statistics is not None:
        changes.append(train)
    for change in changes:
        before, _ = linear.step(x)
        change()
        found, _ = linear.step(x)
        expected, _ = copy.deepcopy(linear).step(x)  # of a map that is made anew
        assert torch.equal(found, expected)
        assert not torch.allclose(found, before)
    with torch.inference_mode():
        linear.redraw_()
        linear.step(x)
    linear.step(x)[0].sum().backward()  # of a map that was made without gradients
    assert linear.float().step(x.float())[0].dtype == torch.float32
