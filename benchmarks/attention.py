"""Time and memory of attention against the length: python -m benchmarks.attention.

One head, causal and not, d = e = 64, m = 256, float32. Best seconds of a few runs, by
processor and by wall clock, and the largest memory beside the inputs, in a process of
its own for each case (as traced by Python for NumPy, of the resident set for torch).
Exact attention stops at --exact rows.
"""

import argparse
import os
import resource
import subprocess
import sys
import time
import tracemalloc

import numpy as np

D, M = 64, 256
NAMES = ("exact", "linear", "exact causal", "linear causal")


def functions(library, rows):
    """Return queries, keys, values and the attentions by name."""
    from sklearn_crt import OPRFSampler
    from sklearn_crt.attention import linear_attention, softmax_attention

    rng = np.random.default_rng(0)
    arrays = [0.3 * rng.standard_normal((rows, D), dtype=np.float32) for _ in "qkv"]
    sampler = OPRFSampler(
        sigma=D**-0.25, kernel="softmax", n_components=M, random_state=0
    ).fit(arrays[0], X_key=arrays[1])
    if library == "torch":
        import torch

        torch.set_num_threads(THREADS)
        arrays = [torch.from_numpy(array) for array in arrays]
    table = {
        "exact": lambda q, k, v: softmax_attention(q, k, v),
        "exact causal": lambda q, k, v: softmax_attention(q, k, v, causal=True),
        "linear": lambda q, k, v: linear_attention(q, k, v, sampler),
        "linear causal": lambda q, k, v: linear_attention(
            q, k, v, sampler, causal=True
        ),
    }
    if library == "torch":
        from torch.nn.functional import scaled_dot_product_attention as fused

        table["fused"] = lambda q, k, v: fused(
            q[None, None], k[None, None], v[None, None]
        )
        table["fused causal"] = lambda q, k, v: fused(
            q[None, None], k[None, None], v[None, None], is_causal=True
        )
    return arrays, table


def peak():
    """Return the largest resident set so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(library, name, rows, repeats):
    """Print processor seconds, seconds and MB of one case."""
    small, _ = functions(library, 64)
    arrays, table = functions(library, rows)
    table[name](*small)  # loads what is loaded once
    if library == "numpy":
        tracemalloc.start()
        table[name](*arrays)
        memory = tracemalloc.get_traced_memory()[1] / 2**20
        tracemalloc.stop()
    else:
        before = peak()
        table[name](*arrays)
        memory = peak() - before
    clocks = []
    for _ in range(repeats):
        start = time.process_time(), time.perf_counter()
        table[name](*arrays)
        clocks.append((time.process_time() - start[0], time.perf_counter() - start[1]))
    print(*np.min(clocks, axis=0), memory)


def main():
    """Print a row for each length."""
    parser = argparse.ArgumentParser(prog="benchmarks.attention", description=__doc__)
    parser.add_argument("--libraries", nargs="+", default=["numpy"])
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[2**i for i in range(10, 17)]
    )
    parser.add_argument("--exact", type=int, default=8192)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    global THREADS
    THREADS = args.threads
    if args.one:
        library, name, rows = args.one
        return measure(library, name, int(rows), args.repeats)
    print(f"{'library':8}{'attention':15}{'rows':>7}{'cpu s':>9}{'s':>9}{'MB':>8}")
    for library in args.libraries:
        names = (*NAMES, "fused", "fused causal") if library == "torch" else NAMES
        for name in names:
            for rows in args.lengths:
                if not name.startswith("linear") and rows > args.exact:
                    continue
                numbers = case(args, library, name, rows)
                print(
                    f"{library:8}{name:15}{rows:7d}{numbers[0]:9.4f}{numbers[1]:9.4f}"
                    f"{numbers[2]:8.1f}",
                    flush=True,
                )
    return None


def case(args, library, name, rows):
    """Run one case in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.attention", "--one", library, name]
    command += [str(rows), "--repeats", str(args.repeats)]
    command += ["--threads", str(args.threads)]
    threads = {f"{pool}_NUM_THREADS": str(args.threads) for pool in ("OMP", "OPENBLAS")}
    result = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **threads},
    )
    return [float(number) for number in result.stdout.split()]


THREADS = 2

if __name__ == "__main__":
    sys.exit(main())
