"""Time and memory of attention against the length: python -m benchmarks.attention.

One head, causal and not, d = e = 64, m columns, 128 points of a coreset, float32. Best
seconds of a few runs, by processor and by wall clock, and the largest memory beside the
inputs, in a process of its own for each case (as traced by Python for NumPy, of the
resident set for torch). Exact attention stops at --exact rows.

With torch among the libraries a second table says from which length on each is faster
than torch's fused kernel of exact attention, and --write writes that to the guide.
"""

import importlib.util
import itertools
import time
from functools import partial

import numpy as np

from .commands import Command, result_alone
from .costs import peak_memory
from .tables import Table, traced_peak

D = 64
COLUMNS = 64, 256
LENGTHS = tuple(2**i for i in range(10, 17))
NAMES = ["exact", *(f"linear {m}" for m in COLUMNS), "coreset"]
NAMES += ["exact causal", *(f"linear {m} causal" for m in COLUMNS)]
FUSED = "fused", "fused causal"


def functions(library, rows, threads):
    """Return queries, keys, values and the attentions by name."""
    from sklearn_crt import OPRFSampler
    from sklearn_crt.attention import (
        coreset_attention,
        linear_attention,
        softmax_attention,
    )

    rng = np.random.default_rng(0)
    arrays = [0.3 * rng.standard_normal((rows, D), dtype=np.float32) for _ in "qkv"]
    options = {"sigma": D**-0.25, "kernel": "softmax", "random_state": 0}
    maps = {
        m: OPRFSampler(n_components=m, **options).fit(arrays[0], X_key=arrays[1])
        for m in COLUMNS
    }
    if library == "torch":
        import torch

        torch.set_num_threads(threads)
        arrays = [torch.from_numpy(array) for array in arrays]
    table = {
        "exact": softmax_attention,
        "exact causal": partial(softmax_attention, causal=True),
        "coreset": coreset_attention,
    }
    for m, sampler in maps.items():
        linear = partial(linear_attention, feature_map=sampler)
        table[f"linear {m}"] = linear
        table[f"linear {m} causal"] = partial(linear, causal=True)
    if library == "torch":
        table["fused"] = fused
        table["fused causal"] = partial(fused, causal=True)
    return arrays, table


def fused(*rows, causal=False):
    """Return the exact attention of one head by torch."""
    from torch.nn.functional import scaled_dot_product_attention

    one_head = (each[None, None] for each in rows)
    return scaled_dot_product_attention(*one_head, is_causal=causal)


def measure(library, name, rows, repeats, threads):
    """Return processor seconds, seconds, MB, and how much faster than fused it is."""
    small, _ = functions(library, 64, threads)
    arrays, table = functions(library, rows, threads)
    table[name](*small)  # loads what is loaded once
    if library == "numpy":
        memory = traced_peak(partial(table[name], *arrays))
    else:
        before = peak_memory()
        table[name](*arrays)
        memory = peak_memory() - before
    other = [FUSED[name.endswith("causal")]] if library == "torch" else []
    clocks = {one: [] for one in (name, *other)}
    for _ in range(repeats):
        for one, seconds in clocks.items():  # in turns, since machines are noisy
            start = time.process_time(), time.perf_counter()
            table[one](*arrays)
            seconds.append(
                (time.process_time() - start[0], time.perf_counter() - start[1])
            )
    best = [np.min(seconds, axis=0) for seconds in clocks.values()]
    return [*best[0], memory, best[-1][0] / best[0][0]]


def attention(
    libraries=("numpy", "torch"), lengths=LENGTHS, exact=8192, repeats=3, threads=2
):
    """Print a row for each length, and return the table of torch."""
    libraries = [name for name in libraries if importlib.util.find_spec(name)]
    print(f"{'library':8}{'attention':18}{'rows':>7}{'cpu s':>9}{'s':>9}{'MB':>8}")
    found = {}
    for library in libraries:
        names = (*NAMES, *FUSED) if library == "torch" else NAMES
        for name, rows in itertools.product(names, lengths):
            if not name.startswith(("linear", "coreset")) and rows > exact:
                continue
            case = library, name, rows
            found[case] = numbers = result_alone(
                measure, *case, repeats, threads, threads=threads
            )
            print(
                f"{library:8}{name:18}{rows:7d}{numbers[0]:9.4f}{numbers[1]:9.4f}"
                f"{numbers[2]:8.1f}",
                flush=True,
            )
    return [against_fused(found, exact)] if "torch" in libraries else []


def against_fused(found, longest):
    """Return from which length on attentions are faster than torch's fused kernel."""
    lengths = sorted({rows for library, _, rows in found if library == "torch"})
    lengths = [rows for rows in lengths if rows <= longest]
    table = []
    for name in (name for name in NAMES if not name.startswith("exact")):
        fused = FUSED[name.endswith("causal")]
        ratios = np.array([found["torch", name, rows][3] for rows in lengths])
        memory = [found["torch", n, lengths[-1]][2] for n in (fused, name)]
        cells = [f"{ratio:.2f}" for ratio in ratios]
        memory = " / ".join(f"{number:.0f}" for number in memory)
        table.append([name, *cells, break_even(lengths, ratios), memory])
    columns = ["attention", *(f"{rows} rows" for rows in lengths)]
    columns += ["faster from", f"MB at {lengths[-1]}, fused / this"]
    return Table("Speed-up over the fused exact attention of torch", columns, table)


def break_even(lengths, ratios):
    """Return the length from which on ratios exceed 1, on lines between their logs."""
    below = np.flatnonzero(ratios < 1)
    if below.size == 0:
        return f"below {lengths[0]}"
    if below[-1] == len(lengths) - 1:
        return f"beyond {lengths[-1]}"
    some = slice(below[-1], below[-1] + 2)
    log = np.interp(0, np.log(ratios[some]), np.log(lengths[some]))
    return f"{float(f'{np.exp(log):.2g}'):.0f}"


if __name__ == "__main__":
    Command(attention, "attention_lengths.inc", threads=2).main()
