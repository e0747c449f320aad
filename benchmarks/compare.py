"""Compare the maps and estimators with their peers: python -m benchmarks.compare.

One process. The candidates take turns, so that a slow minute of the machine meets them
all, each time in another order, since the first to allocate after calls that allocate
nothing pays for fresh memory. Cells are median milliseconds and, in brackets, the
ratio to RBFSampler in the same row: read the ratios.
"""

import argparse
import platform
import sys
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info, threadpool_limits
from tqdm import tqdm

import sklearn_crt

from .cases import CASES, N_QUERIES, gamma_of, make_classifiers, make_maps, make_rows
from .roofline import make_rooflines

BASELINE = "RBFSampler"


def processor():
    """Return the name of the processor."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    return names[0].strip() if names else platform.processor() or platform.machine()


def header(threads, repeats, clock):
    """Return what the numbers depend on, as Markdown lines."""
    modules = (np, scipy, sklearn, sklearn_crt)
    versions = [f"{module.__name__} {module.__version__}" for module in modules]
    pools = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return [
        f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {processor()}",
        f"- python {platform.python_version()}, {', '.join(versions)}",
        f"- BLAS {', '.join(sorted(pools))}; threads: {threads}",
        f"- median of {repeats} interleaved repetitions, {clock.__name__}",
    ]


def interleave(candidates, repeats, clock):
    """Call the candidates in turns; return the median seconds of each."""
    seconds = {name: [] for name in candidates}
    rng = np.random.default_rng(0)
    for repetition in range(repeats + 1):
        for name in rng.permutation(list(candidates)):
            start = clock()
            candidates[name]()
            if repetition > 0:  # the first is a warm-up
                seconds[name].append(clock() - start)
    return {name: float(np.median(times)) for name, times in seconds.items()}


def transforms(case):
    """Return transform of each map, and the rooflines."""
    X, _ = make_rows(case)
    fitted = {n: m.fit(X) for n, m in make_maps(case, gamma_of(X)).items()}
    candidates = {name: lambda m=m: m.transform(X) for name, m in fitted.items()}
    return candidates | make_rooflines(X, case.n_components)


def fits(case):
    """Return fit of each Nadaraya-Watson classifier."""
    X, y = make_rows(case)
    classifiers = make_classifiers(case, gamma_of(X))
    return {name: lambda c=c: c.fit(X, y) for name, c in classifiers.items()}


def predictions(case):
    """Return predict of each Nadaraya-Watson classifier."""
    X, y = make_rows(case)
    queries, _ = make_rows(case, N_QUERIES)
    fitted = {n: c.fit(X, y) for n, c in make_classifiers(case, gamma_of(X)).items()}
    return {name: lambda c=c: c.predict(queries) for name, c in fitted.items()}


def table(title, results):
    """Return a Markdown table with one row a case and one column a candidate."""
    names = list(dict.fromkeys(n for medians in results.values() for n in medians))
    lines = [f"\n## {title}\n", f"| rows to columns | {' | '.join(names)} |"]
    lines.append("| --- |" + " ---: |" * len(names))
    for case, medians in results.items():
        base = medians[BASELINE]
        cells = [
            f"{1e3 * medians[name]:.3g} ({medians[name] / base:.2f})"
            if name in medians
            else ""
            for name in names
        ]
        lines.append(f"| {case} | {' | '.join(cells)} |")
    return lines


def main():
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="one small case")
    size.add_argument("--full", action="store_true", help="add d = 784 and D = 4096")
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--output", type=Path, help="file to write instead of stdout")
    args = parser.parse_args()
    cases = CASES["quick" if args.quick else "full" if args.full else "default"]
    widest = max(case.n_components for case in cases)
    few = [case for case in cases if case.n_components == widest]
    sections = {
        "transform; rooflines: a product, then exp or cos": (transforms, cases),
        "NadarayaWatsonClassifier.fit": (fits, few),
        f"NadarayaWatsonClassifier.predict, {N_QUERIES} rows": (predictions, few),
    }
    clock = time.process_time if args.threads == 1 else time.perf_counter
    # negative scores (sines), fewer rows than components (Nystroem)
    warnings.simplefilter("ignore")
    n_steps = len(cases) + 2 * len(few)
    with threadpool_limits(args.threads), tqdm(total=n_steps, file=sys.stderr) as bar:
        lines = header(args.threads, args.repeats, clock)
        for title, (candidates, of_cases) in sections.items():
            results = {}
            for case in of_cases:
                bar.set_description(str(case))
                results[case] = interleave(candidates(case), args.repeats, clock)
                bar.update()
            lines += table(title, results)
    text = "\n".join(lines) + "\n"
    if args.output:
        args.output.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
