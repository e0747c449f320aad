"""Modules of torch and rows for them, for the tests of attention."""

import copy
from functools import partial

import pytest

torch = pytest.importorskip("torch")

from sklearn_crt.attention.torch import LinearAttention  # noqa: E402

WIDTH, HEADS, LENGTH, N_COLUMNS = 16, 4, 23, 32
MAPS = [
    "favor+",
    "favor++",
    "derf",
    "simplex",
    "trigonometric",
    "hybrid",
    "elu+1",
    "elu(-)+1",
    "relu",
]


def make(feature_map="favor++", **options):
    """Return a module, ready for training."""
    options = {"batch_first": True, "random_state": 0, **options}
    options.setdefault("n_components", N_COLUMNS)
    return LinearAttention(WIDTH, HEADS, feature_map=feature_map, **options)


def rows(length=LENGTH, n_batch=3, dtype=torch.float32):
    """Return rows, (n_batch, length, WIDTH)."""
    return torch.randn(n_batch, length, WIDTH, dtype=dtype)


wide_rows = partial(rows, dtype=torch.float64)


def trained(feature_map="favor++", **options):
    """Return a module of float64 that has seen two batches, for evaluation."""
    linear = make(feature_map, **{"dtype": torch.float64, **options})
    for _ in range(2):  # for maps that adapt
        x = rows(dtype=linear.in_proj_weight.dtype)
        linear(x, x, x)
    return linear.eval()


def frequencies(linear):
    """Return the frequencies that a module keeps, (n_heads, d, n_frequencies)."""
    (weights,) = (b for name, b in linear.named_buffers() if name.endswith("weights"))
    return weights


def heads_of(linear, x):
    """Return queries, keys and values of the heads, 3 times (batch, heads, L, d)."""
    projected = torch.nn.functional.linear(
        x, linear.in_proj_weight, linear.in_proj_bias
    )
    return projected.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4).detach()


def read_with_hidden_keys(linear, x):
    """Let a module and a copy of it read rows whose last keys are hidden.

    They are far from all others in the rows of the copy, which is returned with them.
    """
    padding = torch.zeros(x.shape[:2], dtype=torch.bool)
    padding[:, 12:] = True
    other, garbage = copy.deepcopy(linear), x.clone()
    garbage[:, 12:] = 50
    linear(x, x, x, key_padding_mask=padding)
    other(x, garbage, garbage, key_padding_mask=padding)
    return other, garbage


def causal_mask(dtype=torch.float32):
    """Return the causal mask of torch."""
    mask = torch.nn.Transformer.generate_square_subsequent_mask(LENGTH)
    return mask.to(dtype)
