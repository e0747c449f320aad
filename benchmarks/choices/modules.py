"""Tables of attention as modules of torch: decoding, DERF, the cost of training."""

import sys
import time
from functools import partial

import numpy as np
from tqdm import tqdm

from ..tables import Table, interleave

D, TOKENS = 64, 20
MAPS = {
    "exact": None,
    "favor++, 64 columns": ("favor++", 64),
    "favor++, 256 columns": ("favor++", 256),
    "derf, 64 columns": ("derf", 64),
}
N_LETTERS, WORD, WIDTH, N_HEADS = 8, 15, 64, 4
WARM, N_TIMED = 16, 48  # batches: DERF makes a map before three of the latter


def decoding(rows=(1000, 4000, 16_000, 32_000), runs=25):
    """Time of a token of causal attention, after so many.

    Milliseconds of one thread, with the projections of the inputs and the output, batch
    1, d = 64, float32: a step of LinearAttention (FAVOR++, 256 columns), whatever came
    before, beside torch's scaled_dot_product_attention to a cache of keys and values
    that is made once. The best of a few runs (--runs) of 20 tokens, in turns.
    """
    import torch
    from torch.nn import functional as F

    from sklearn_crt.attention.torch import LinearAttention

    torch.set_num_threads(1)

    def with_cache(layer, x, cache):
        heads = F.linear(x, layer.in_proj_weight, layer.in_proj_bias)
        q, *new = heads.unflatten(-1, (3, -1, D)).permute(2, 0, 3, 1, 4)
        for kept, part in zip(cache, new, strict=True):
            kept[:, :, -1:] = part
        output = F.scaled_dot_product_attention(q, *cache)
        return layer.out_proj(output.transpose(1, 2).flatten(2))

    table = []
    for n_heads in (1, 8):
        layer = LinearAttention(n_heads * D, n_heads, batch_first=True, random_state=0)
        x = torch.randn(1, 100, n_heads * D)
        layer(x, x, x)
        layer.eval()
        with torch.no_grad():
            _, state = layer.step(x)
            steps = {"step": partial(layer.step, x[:, :1], state)}
            for n in rows:
                cache = torch.randn(2, 1, n_heads, n, D)
                steps[n] = partial(with_cache, layer, x[:, :1], cache)
            tokens = {name: partial(_repeat, step) for name, step in steps.items()}
            clock, summary = time.process_time, np.min
            times = interleave(tokens, runs, clock, summary=summary)
        table.append(
            [str(n_heads), *(f"{1e3 * t / TOKENS:.2f}" for t in times.values())]
        )
    columns = ["heads", "step", *(f"cache of {n}" for n in rows)]
    return [Table("Milliseconds per token", columns, table)]


def _repeat(step):
    for _ in range(TOKENS):
        step()


def derf(seeds=3, steps=300):
    """DERF and FAVOR++ in training: a causal copy task, and the time of a batch.

    A word of 15 random letters of 8, a sign, the same word again: the share of letters
    of the second word that two layers of width 64 with 4 heads foretell after so many
    steps of 32 words, mean and standard error. Time: forward and backward of one causal
    layer of that width, batch 4, milliseconds of one thread, the mean of 48 batches
    after 16, with the three maps that DERF makes between them on the host.
    """
    import torch

    torch.set_num_threads(1)
    copies = []
    for name in tqdm(MAPS, file=sys.stderr):
        found = [_copied(name, seed, steps) for seed in range(seeds)]
        error = f" ± {np.std(found, ddof=1) / seeds**0.5:.3f}" if seeds > 1 else ""
        copies.append([name, f"{np.mean(found):.3f}{error}"])
    clock, summary, columns = time.process_time, np.mean, {}
    for length in (128, 1024):
        batches = {name: _batch(name, length) for name in MAPS}
        columns[length] = interleave(batches, N_TIMED, clock, summary=summary)
    times = [
        [name, *(f"{1e3 * column[name]:.1f}" for column in columns.values())]
        for name in MAPS
    ]
    heads = ["attention", *(f"{length} rows" for length in columns)]
    return [
        Table("Letters copied", ["attention", "share"], copies),
        Table("Milliseconds per batch of training", heads, times),
    ]


def _attention(name, seed):
    """Return a causal layer of torch, or the linear one of a name."""
    from torch import nn

    from sklearn_crt.attention.torch import LinearAttention

    exact = nn.MultiheadAttention(WIDTH, N_HEADS, batch_first=True)
    if MAPS[name] is None:
        return exact
    feature_map, n_components = MAPS[name]
    options = {"feature_map": feature_map, "n_components": n_components}
    return LinearAttention.from_multihead(exact, random_state=seed, **options)


def _batch(name, length):
    """Return a function that trains on a batch, after some batches."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    layer, x = _attention(name, 0), torch.randn(4, length, WIDTH)
    mask = nn.Transformer.generate_square_subsequent_mask(length)
    options = {"attn_mask": mask, "is_causal": True, "need_weights": False}

    def train():
        layer(x, x, x, **options)[0].square().mean().backward()

    for _ in range(WARM):
        train()
    return train


def _copied(name, seed, n_steps):
    """Return the share of letters that a trained model copies."""
    import torch
    from torch import nn
    from torch.nn import functional as F

    torch.manual_seed(seed)
    length = 2 * WORD + 1
    options = {"dropout": 0.0, "activation": "gelu", "norm_first": True}
    layers = [
        nn.TransformerEncoderLayer(
            WIDTH, N_HEADS, 4 * WIDTH, batch_first=True, **options
        )
        for _ in range(2)
    ]
    for i, layer in enumerate(layers):
        layer.self_attn = _attention(name, 2 * seed + i)
    tokens, places = nn.Embedding(N_LETTERS + 1, WIDTH), nn.Embedding(length, WIDTH)
    nn.init.normal_(places.weight, std=0.02)
    last = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, N_LETTERS + 1))
    model = nn.ModuleList([tokens, places, *layers, last])
    mask = nn.Transformer.generate_square_subsequent_mask(length)

    def second_words(size, generator):
        word = torch.randint(N_LETTERS, (size, WORD), generator=generator)
        sign = torch.full((size, 1), N_LETTERS)
        codes = torch.cat([word, sign, word, sign], dim=1)
        x = tokens(codes[:, :-1]) + places.weight
        for layer in layers:
            x = layer(x, src_mask=mask, is_causal=True)
        return last(x)[:, WORD:].flatten(0, 1), codes[:, WORD + 1 :].flatten()

    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    for _ in range(n_steps):
        optimizer.zero_grad()
        F.cross_entropy(*second_words(32, generator)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        logits, targets = second_words(64, torch.Generator().manual_seed(99))
    return float((logits.argmax(-1) == targets).double().mean())
