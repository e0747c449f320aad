"""Linear attention of torch where it is compiled, exported and batched."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from sklearn_crt.attention import linear_attention  # noqa: E402
from sklearn_crt.attention.torch import rotary  # noqa: E402

from .modules import LENGTH, MAPS, trained, wide_rows  # noqa: E402

make, rows = trained, wide_rows

# A program takes 1 to 20 seconds. Each run compiles a map of random features, and
# exports a fixed one; other maps, training, steps and Inductor are slow.


def of_kinds(*usual):
    """Return the marker of all maps, causal or not, most of which are slow."""
    cases = [(name, causal) for causal in (False, True) for name in MAPS]
    return pytest.mark.parametrize(
        "feature_map, causal",
        [
            pytest.param(*case, marks=[] if case in usual else pytest.mark.slow)
            for case in cases
        ],
    )


@pytest.fixture(autouse=True)
def reset():
    torch.compiler.reset()


class Layer(nn.Module):
    """Attention of rows to themselves."""

    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x, hidden=None):
        return self.attention(x, x, x, key_padding_mask=hidden)[0]


def exported(layer):
    """Return a program for rows of any length."""
    length = torch.export.Dim("length", min=2)
    return torch.export.export(
        layer,
        (rows(),),
        dynamic_shapes={"x": {1: length}},
        prefer_deferred_runtime_asserts_over_guards=layer.attention.causal,
    )


@of_kinds(("favor++", True))
def test_one_graph(feature_map, causal):
    layer = Layer(make(feature_map, causal=causal, positional=rotary))
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    x, hidden = rows(), torch.rand(3, LENGTH) < 0.3
    hidden[:, 0] = False
    gradients = []
    for one in (layer, compiled):
        z = x.clone().requires_grad_()
        output = one(z, hidden)
        output.square().sum().backward()
        gradients.append((output, z.grad))
    torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_one_graph_while_training(causal):
    layers = [Layer(make(causal=causal, band=3).train()) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    compiled = torch.compile(layers[1], fullgraph=True, backend="aot_eager")
    for _ in range(2):
        x = rows()
        found, expected = compiled(x), layers[0](x)
        torch.testing.assert_close(found, expected)
        found.sum().backward()
        expected.sum().backward()
    pairs = zip(layers[0].named_buffers(), layers[1].named_buffers(), strict=True)
    for (name, expected), (_, found) in pairs:
        torch.testing.assert_close(found, expected, msg=name)
    pairs = zip(layers[0].parameters(), layers[1].parameters(), strict=True)
    for expected, found in pairs:
        torch.testing.assert_close(found.grad, expected.grad)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself
def test_inductor():
    layer = Layer(make())
    compiled = torch.compile(layer, fullgraph=True)
    x = rows()
    torch.testing.assert_close(compiled(x), layer(x))


@of_kinds(("elu+1", False))
def test_export_of_any_length(feature_map, causal):
    band = 3 if feature_map in ("favor++", "hybrid") else None
    layer = Layer(make(feature_map, causal=causal, band=band))
    program = exported(layer).module()
    for n in (2, LENGTH, 300, 1100):
        x = rows(n)
        torch.testing.assert_close(program(x), layer(x), rtol=1e-7, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("feature_map", ["favor++", "trigonometric"])
def test_compiled_chunks_do_not_underflow(feature_map):
    # of growing keys each one hides those before
    layer = Layer(make(feature_map, causal=True))
    x = rows(1100) * torch.linspace(0, 60, 1100, dtype=torch.float64)[:, None]
    program = torch.export.export(layer, (x,))
    found = program.module()(x)
    assert torch.isfinite(found).all()
    torch.testing.assert_close(found, layer(x), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("feature_map", ["favor++", "hybrid"])
def test_a_compiled_step(feature_map):
    linear, x = make(feature_map, positional=rotary), rows(4)
    step = torch.compile(linear.step, fullgraph=True, backend="eager")
    state = other = None
    for i in range(4):
        expected, state = linear.step(x[:, i : i + 1], state)
        found, other = step(x[:, i : i + 1], other)
        torch.testing.assert_close(found, expected)


@pytest.mark.each_value
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("feature_map", MAPS)
def test_vmap(feature_map, causal):
    layer = Layer(make(feature_map, causal=causal))
    x = torch.stack([rows() for _ in range(2)])
    expected = torch.stack([layer(one) for one in x])
    torch.testing.assert_close(torch.vmap(layer)(x), expected, rtol=1e-7, atol=1e-9)
    q, k, v = torch.randn(3, 2, LENGTH, 4, dtype=torch.float64)
    if feature_map in ("elu+1", "relu"):

        def attend(q, k, v):
            return linear_attention(q, k, v, feature_map, causal=causal)

        expected = attend(q, k, v)
        torch.testing.assert_close(torch.vmap(attend)(q, k, v), expected)
