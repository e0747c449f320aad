"""How costs grow: python -m benchmarks.growth, python -m benchmarks.growth dask.

By default transform with rows, features and columns: median processor seconds of
interleaved repetitions, one thread, float64; writes growth.png.

With ``dask`` a fit with the workers of Dask. Rows of 16 columns in float32 are drawn
block by block, 2**17 in each, by whoever needs them; NadarayaWatsonClassifier(
OPRFSampler) of four classes is fitted to them by worker processes of one thread each,
and by one process that has all of them in memory. Measured are processor seconds of the
workers, those of the process with scheduler and client, and the largest memory of a
worker.
"""

import argparse
import os
import pickle
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import NadarayaWatsonClassifier, OPRFSampler, TrigRBFSampler
from sklearn_crt.life_cycle.fitted import value_of
from sklearn_crt.samplers import SimplexRBFSampler

from .tables import ROOT, Table, header, interleave, report

CENTRE = {"rows": 5000, "features": 64, "columns": 1024}
CURVES = {
    "rows": [500, 1000, 2000, 5000, 10000, 20000, 50000],
    "features": [4, 16, 64, 256, 1024, 4096],
    "columns": [32, 128, 512, 1024, 2048, 4096, 8192],
}
QUICK = {"rows": [500, 1000], "features": [4, 16], "columns": [32, 128]}
MAPS = {
    "RBFSampler": RBFSampler(),
    "TrigRBFSampler": TrigRBFSampler(),
    "OPRFSampler": OPRFSampler(),
    "SimplexRBFSampler, structured": SimplexRBFSampler(coupling="structured-simplex"),
}
SIZE, D = 2**17, 16  # rows and columns of a block
ON_PAPER = [(10**9, 8), (10**9, 64), (10**11, 64), (10**11, 1024)]  # rows, workers


def measure(rows, features, columns, repeats):
    """Return seconds of transform by name of the map."""
    X = np.random.default_rng(0).standard_normal((rows, features)) / features**0.5
    fitted = {
        name: sampler.set_params(n_components=columns, random_state=0).fit(X)
        for name, sampler in MAPS.items()
    }
    candidates = {name: lambda m=m: m.transform(X) for name, m in fitted.items()}
    return interleave(candidates, repeats, time.process_time)


def grow(args):
    """Print the tables and draw the curves."""
    import matplotlib.pyplot as plt

    curves = QUICK if args.quick else CURVES
    path = ROOT / "doc" / "_static" / "growth.png" if args.write else args.output
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    tables = []
    progress = tqdm(total=sum(map(len, curves.values())), file=sys.stderr)
    for ax, (what, sizes) in zip(axes, curves.items(), strict=True):
        results = {}
        for size in sizes:
            with threadpool_limits(1):
                results[size] = measure(**CENTRE | {what: size}, repeats=args.repeats)
            progress.update()
        for name in MAPS:
            ax.loglog(sizes, [results[s][name] for s in sizes], ".-", label=name)
        others = ", ".join(f"{n} {k}" for k, n in CENTRE.items() if k != what)
        ax.set(xlabel=what, title=others)
        rows = [
            [str(size), *(f"{1e3 * times[name]:.3g}" for name in MAPS)]
            for size, times in results.items()
        ]
        tables.append(Table(f"milliseconds, {others}", [what, *MAPS], rows))
    axes[0].set_ylabel("seconds of transform")
    axes[0].legend(fontsize="small")
    figure.savefig(path, dpi=100)
    facts = header(1, args.repeats, time.process_time)
    report(tables, facts, "growth.inc" if args.write else None)


class Fit(NamedTuple):
    """A fit and what it cost: seconds, and MiB of the largest worker."""

    model: NadarayaWatsonClassifier
    wall: float
    workers: float
    scheduler: float
    memory: float


def draw(n_rows, number):
    """Return the rows of a block."""
    rng = np.random.default_rng([7, number])
    return rng.standard_normal((min(SIZE, n_rows - number * SIZE), D), np.float32)


def make_block(n_rows, block_info):
    """Return the rows of a block of a Dask array."""
    return draw(n_rows, block_info[None]["chunk-location"][0])


def label(X):
    """Return one of four classes for each row."""
    return (X[:, 0] > 0) + 2 * (X[:, 1] > 0)


def dask_arrays(n_rows):
    """Return rows and labels as Dask arrays."""
    import dask.array as da

    sizes = [SIZE] * (n_rows // SIZE) + [n_rows % SIZE] * (n_rows % SIZE > 0)
    meta = np.empty((0, D), np.float32)
    X = da.map_blocks(
        make_block, n_rows, chunks=(tuple(sizes), (D,)), dtype=meta.dtype, meta=meta
    )
    return X, label(X)


def peak_memory():
    """Return the largest resident memory of this process, in MiB."""
    with open("/proc/self/status") as status:
        lines = dict(line.split(":", 1) for line in status)
    return int(lines["VmHWM"].split()[0]) / 1024


def fit_in_one_process(model, n_rows):
    """Return a fit on all the rows in memory, drawn in it."""
    start, wall = time.process_time(), time.perf_counter()
    X = np.empty((n_rows, D), np.float32)
    for number, first in enumerate(range(0, n_rows, SIZE)):
        X[first : first + SIZE] = draw(n_rows, number)
    with threadpool_limits(1):
        fitted = model.fit(X, label(X))
    seconds = time.process_time() - start, time.perf_counter() - wall
    return Fit(fitted, seconds[1], seconds[0], 0.0, peak_memory())


def fit_on_workers(model, n_rows, client, *, kill_after=None):
    """Return a fit by the workers; one of them may be killed after some seconds."""
    from sklearn_crt import dask as crt_dask

    killer = None
    before = client.run(time.process_time)
    if kill_after is not None:
        victim = min(client.run(os.getpid).values())
        killer = threading.Timer(kill_after, os.kill, (victim, signal.SIGKILL))
        killer.start()
    here, wall = time.process_time(), time.perf_counter()
    fitted = crt_dask.fit(model, *dask_arrays(n_rows))
    wall, here = time.perf_counter() - wall, time.process_time() - here
    if killer is not None:
        killer.join()
    seconds = client.run(time.process_time)
    used = sum(now - before.get(worker, 0) for worker, now in seconds.items())
    return Fit(fitted, wall, used, here, max(client.run(peak_memory).values()))


def same(a, b):
    """Return whether the sums of two fits agree to the last bit."""
    a, b = (value_of(fit.model).sums for fit in (a, b))
    return all(map(np.array_equal, a.total, b.total))


def largest_error(a, b):
    """Return the largest relative difference of the sums of two fits."""
    a, b = (value_of(fit.model).sums.sums for fit in (a, b))
    return float(np.max(np.abs(a / b - 1)))


def sizes_of_state(model):
    """Return the bytes of what a block returns in each pass, and of the map."""
    from sklearn_crt.rows import Statistics

    X = draw(SIZE, 0)
    part = pickle.dumps(value_of(model).without_map())
    statistics = pickle.dumps(Statistics((0,)).read(X))
    return len(statistics), len(part), len(pickle.dumps(model.kernel_))


def on_paper(seconds_a_row, states):
    """Return the table of what large fits cost, from measured constants."""
    statistics, part, _ = states
    rows = []
    for n_rows, n_workers in ON_PAPER:
        n_blocks = -(-n_rows // SIZE)
        read = 2 * n_rows * D * 4
        moved = n_blocks * (statistics + part) * 8 / 7  # and sums of eight, again
        cells = [
            f"{n_rows:.0e}",
            str(n_workers),
            f"{n_blocks}",
            f"{read / 1e9:.3g}",
            f"{moved / 1e9:.3g}",
            f"{n_rows * seconds_a_row / n_workers:.3g}",
            f"{read / n_workers / (n_rows * seconds_a_row / n_workers) / 1e6:.3g}",
        ]
        rows.append(cells)
    columns = ["rows", "workers", "blocks", "GB of rows, read in two passes"]
    columns += ["GB of statistics and sums, at most", "processor seconds per worker"]
    columns.append("MB/s read per worker")
    return Table("On paper, from the constants above", columns, rows)


def grow_with_workers(args):
    """Print the tables of a fit with Dask."""
    import dask
    from distributed import Client, LocalCluster

    from sklearn_crt import dask as crt_dask

    n_rows = int(args.rows)
    model = NadarayaWatsonClassifier(
        OPRFSampler(n_components=args.columns, random_state=0), sigma="scale"
    )
    one = fit_in_one_process(model, n_rows)
    states = sizes_of_state(one.model)
    rows = [["one process", *_cells(one, one), *["–"] * 3]]
    # A profile takes the stacks of workers a hundred times a second, idle ones too.
    dask.config.set({"distributed.worker.profile.enabled": False})
    seconds_a_row = np.inf
    for n_workers in args.workers:
        cluster = LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
        )
        with cluster, Client(cluster) as client:
            crt_dask.fit(model, *dask_arrays(SIZE * n_workers))  # imports
            first, second = (fit_on_workers(model, n_rows, client) for _ in range(2))
            killed = None
            if n_workers > 1:
                kill_after = 0.7 * second.wall
                killed = fit_on_workers(model, n_rows, client, kill_after=kill_after)
        seconds_a_row = min(seconds_a_row, second.workers / n_rows)
        verdicts = [
            f"{largest_error(second, one):.1e}",
            str(same(first, second)),
            "–" if killed is None else f"{same(killed, first)}, {killed.wall:.3g} s",
        ]
        name = "1 worker" if n_workers == 1 else f"{n_workers} workers"
        rows.append([name, *_cells(second, one), *verdicts])
        print(rows[-1], file=sys.stderr)
    columns = [
        "fit by",
        "wall, s",
        "processor, s",
        "and scheduler, s",
        "over one process",
    ]
    columns += ["and scheduler", "memory, MiB", "largest difference of sums"]
    columns += ["twice the same bits", "one killed: same bits, wall"]
    title = f"{n_rows:.0e} rows of {D} columns, {args.columns} features"
    facts = [
        *header(1),
        f"{os.cpu_count()} processors, load {os.getloadavg()[2]:.0f} in the last 15 "
        "minutes; one thread per worker, profiles of Dask off",
        f"a block returns {states[0]} bytes of statistics, then {states[1]} of sums; "
        f"the map, which goes to each worker once, has {states[2]}",
        f"{1e6 * seconds_a_row:.3g} processor seconds of the workers a million rows, "
        "drawing them twice among these",
    ]
    found = [Table(title, columns, rows), on_paper(seconds_a_row, states)]
    report(found, facts, "dask.inc" if args.write else None)


def _cells(fit, one):
    both = fit.workers + fit.scheduler
    numbers = fit.wall, fit.workers, both, fit.workers / one.workers, both / one.workers
    return [*(f"{number:.3g}" for number in numbers), f"{fit.memory:.0f}"]


def main():
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.growth",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=grow)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("growth.png"))
    parser.add_argument("--quick", action="store_true", help="two small sizes each")
    parser.add_argument(
        "--write", action="store_true", help="write the page and figure of the docs"
    )
    subparsers = parser.add_subparsers(metavar="dask")
    of_dask = subparsers.add_parser("dask", help="a fit with the workers of Dask")
    of_dask.set_defaults(run=grow_with_workers)
    of_dask.add_argument("--rows", type=float, default=1e7)
    of_dask.add_argument("--columns", type=int, default=512)
    of_dask.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    of_dask.add_argument("--write", action="store_true", help="write the page")
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
