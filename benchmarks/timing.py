"""How all comparisons measure: one process, the candidates in turns, medians."""

import platform
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import sklearn
from joblib import cpu_count
from threadpoolctl import threadpool_info

import sklearn_crt


def processor():
    """Return the name of the processor, and how many this process may run on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    name = names[0].strip() if names else platform.processor() or platform.machine()
    return f"{name}, {cpu_count()} processor{'s' * (cpu_count() > 1)}"


def numpy_features():
    """Return the groups of instructions that this NumPy chooses among, and has here."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]
    return [*found["baseline"], *found.get("found", [])]


def avx512_names():
    """Return those with AVX-512, by the names that NPY_DISABLE_CPU_FEATURES takes.

    They depend on the version: AVX512F, AVX512_SKX, ... or, from 2.4 on, X86_V4.
    """
    return [n for n in numpy_features() if n.startswith("AVX512") or n == "X86_V4"]


def header(threads=1, repeats=None, clock=None):
    """Return what the numbers depend on, one fact a line."""
    modules = (np, scipy, sklearn, sklearn_crt)
    versions = [f"{module.__name__} {module.__version__}" for module in modules]
    pools = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {processor()}",
        f"Python {platform.python_version()}, {', '.join(versions)}",
        f"NumPy uses {', '.join(numpy_features())}",
        f"BLAS {', '.join(sorted(pools))}; threads: {threads}",
    ]
    if repeats is not None:
        measure = f"median of {repeats} interleaved repetitions"
        lines.append(f"{measure}, {clock.__name__}")
    return lines


def interleave(candidates, repeats, clock):
    """Call the candidates in turns; return the median seconds of each.

    Each time in another order, since the first to allocate after calls that allocate
    nothing pays for fresh memory.
    """
    seconds = {name: [] for name in candidates}
    names, rng = list(candidates), np.random.default_rng(0)
    for repetition in range(repeats + 1):
        for place in rng.permutation(len(names)):
            name = names[place]
            start = clock()
            candidates[name]()
            if repetition > 0:  # the first is a warm-up
                seconds[name].append(clock() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}
