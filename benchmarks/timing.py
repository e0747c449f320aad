"""How all comparisons measure: one process, the candidates in turns, medians."""

import platform
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import sklearn_crt


def processor():
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.processor() or platform.machine()


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
    rng = np.random.default_rng(0)
    for repetition in range(repeats + 1):
        for name in rng.permutation(list(candidates)):
            start = clock()
            candidates[name]()
            if repetition > 0:  # the first is a warm-up
                seconds[name].append(clock() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}
