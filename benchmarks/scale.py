"""Fit to more rows than fit into memory: python -m benchmarks.scale.

A Dask cluster on this machine, with ``--workers`` processes of one thread, fits ridge
regression with 256 features and the kernel averages of labels to rows of 20 columns in
float32. Each worker draws its blocks of rows from a seed, so nothing is read from disk.
For each number of rows, the first table has seconds by the clock, processor seconds of
all workers, which depend less on what else the machine does, and the largest memory of
a worker and of the process with the scheduler.

Up to ``--most-killed`` rows, a fit is repeated in which one worker is killed after two
fifths of the time; the second table says whether the predictions of 10,000 other rows
are the same to the last bit. Up to ``--most-in-memory`` rows, it has the largest
difference of these predictions from those after ``fit`` in memory, relative to their
range. Each fit runs in a process of its own. ``--cache`` keeps what was measured.
"""

import argparse
import json
import logging
import os
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .costs import N_QUERIES, D, draw, peak_memory
from .tables import Table, command_parser, header, output_alone, report

MODELS = ("RandomFeatureRidge", "NadarayaWatsonClassifier")
CALLS = {
    "RandomFeatureRidge": "RandomFeatureRidge(n_components=256)",
    "NadarayaWatsonClassifier": "NadarayaWatsonClassifier(OPRFSampler())",
}
LIMITS = 0.0, 1.5  # between the targets of three classes
KILLED_AFTER = 0.4  # of the time without a loss


def new_model(name):
    """Return the estimator with the given name."""
    import sklearn_crt as crt

    if name == "RandomFeatureRidge":
        return crt.RandomFeatureRidge(n_components=256, random_state=0)
    return crt.NadarayaWatsonClassifier(crt.OPRFSampler(random_state=0))


def block_of_rows(n_rows, block_id=(0, 0)):
    """Return the rows of a block with their targets in the last column."""
    X, y = draw(n_rows, [0, block_id[0]])
    return np.column_stack([X, y]).astype(np.float32)


def targets_of(rows, name):
    """Return the targets, or the classes, of rows from ``block_of_rows``."""
    y = rows[:, D]
    return y if name == "RandomFeatureRidge" else (y > LIMITS[0]) * 1 + (y > LIMITS[1])


def outputs(model, name):
    """Return the predictions for rows of another block, and their score."""
    rows = block_of_rows(N_QUERIES, (2**31, 0))
    X, y = rows[:, :D], targets_of(rows, name)
    classifies = name != "RandomFeatureRidge"
    found = model.predict_proba(X) if classifies else model.predict(X)
    return found.astype(float).tolist(), model.score(X, y)


def fit_in_memory(name, n_rows, block):
    """Return what ``measured`` does for a fit in this process."""
    blocks = [block_of_rows(block, (i, 0)) for i in range(n_rows // block)]
    rows = np.concatenate(blocks)
    X, y = np.ascontiguousarray(rows[:, :D]), targets_of(rows, name)
    del blocks, rows
    start = time.perf_counter(), time.process_time()
    model = new_model(name).fit(X, y)
    seconds = time.perf_counter() - start[0]
    processor = time.process_time() - start[1]
    predictions, score = outputs(model, name)
    return {
        "seconds": seconds,
        "processor": processor,
        "worker": peak_memory(),
        "predictions": predictions,
        "score": score,
    }


def kill_a_worker(client, seconds, killed):
    """Kill one of the workers after some seconds, and append its process id."""
    time.sleep(seconds)
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    killed.append(victim)


def fit_on_cluster(name, n_rows, block, n_workers, kill_after=None):
    """Return seconds, memory in MiB, predictions and score of a fit on a cluster."""
    import dask.array as da
    from distributed import Client, LocalCluster

    from sklearn_crt import dask as crt_dask

    chunks = ((block,) * (n_rows // block), (D + 1,))
    rows = da.map_blocks(block_of_rows, block, chunks=chunks, dtype=np.float32)
    X, y = rows[:, :D], targets_of(rows, name)
    killed = []
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,  # of what a killed worker leaves behind
        ) as cluster,
        Client(cluster) as client,
    ):
        # imports everything that is loaded on first use
        crt_dask.fit(new_model(name), *(part[:block] for part in (X, y)))
        before = client.run(time.process_time)
        if kill_after is not None:
            arguments = client, kill_after, killed
            threading.Thread(target=kill_a_worker, args=arguments, daemon=True).start()
        start = time.perf_counter()
        model = crt_dask.fit(new_model(name), X, y)
        seconds = time.perf_counter() - start
        after = client.run(time.process_time)
        pids = set(client.run(os.getpid).values())
        if kill_after is not None and (not killed or killed[0] in pids):
            raise RuntimeError(
                "The fit ended before a worker was killed, because it was much faster "
                "than the one before. Run the command again while no other programs "
                "use the processors."
            )
        processor = sum(after.values()) - sum(before.values())
        worker = max(client.run(peak_memory).values())
        client_memory = peak_memory()
    predictions, score = outputs(model, name)
    return {
        "seconds": seconds,
        "processor": processor,
        "worker": worker,
        "client": client_memory,
        "predictions": predictions,
        "score": score,
    }


def measured(args, results, name, n_rows, how, kill_after=None):
    """Return what a fit in a process of its own costs and predicts, or what it did."""
    key = f"{name}, {n_rows}, {how}, {args.block}, {args.workers}"
    if key not in results:
        options = ["--one", name, how, "--rows", n_rows, "--block", args.block]
        options += ["--workers", args.workers]
        if kill_after is not None:
            options += ["--kill-after", kill_after]
        printed = output_alone("scale", *options)
        results[key] = json.loads(printed.splitlines()[-1])
        if args.cache:
            args.cache.write_text(json.dumps(results))
    return results[key]


def difference(found, expected):
    """Return the largest difference of predictions relative to their range, as text."""
    found, expected = np.array(found), np.array(expected)
    if np.array_equal(found, expected):
        return "none"
    return f"{np.abs(found - expected).max() / np.ptp(expected):.0e}"


def rows_of(args, results, name, n_rows):
    """Return a row of each table."""
    fit = measured(args, results, name, n_rows, "cluster")
    killed = lost = alone = apart = "not run"
    if n_rows <= args.most_killed:
        after = KILLED_AFTER * fit["seconds"]
        again = measured(args, results, name, n_rows, "killed", after)
        killed = f"{again['seconds']:,.0f}"
        lost = difference(again["predictions"], fit["predictions"])
    if n_rows <= args.most_in_memory:
        in_memory = measured(args, results, name, n_rows, "memory")
        alone = f"{in_memory['processor']:,.1f}"
        apart = difference(fit["predictions"], in_memory["predictions"])
    start = [f"``{CALLS[name]}``", f"{n_rows:,}"]
    costs = [
        f"{fit['seconds']:,.0f}",
        f"{fit['processor']:,.0f}",
        f"{1e6 * fit['processor'] / n_rows:.1f}",
        f"{fit['worker']:,.0f}",
        f"{fit['client']:,.0f}",
    ]
    return [*start, *costs], [*start, killed, lost, alone, apart, f"{fit['score']:.3f}"]


def scale(args):
    """Print the tables, and write them to the page with ``--write``."""
    results = {}
    if args.cache and args.cache.exists():
        results = json.loads(args.cache.read_text())
    cases = [(name, n_rows) for n_rows in sorted(args.rows) for name in args.models]
    found = {
        case: rows_of(args, results, *case)
        for case in tqdm(cases, desc="fits", file=sys.stderr)
    }
    costs = [
        "estimator",
        "rows",
        "time, s",
        "processor time, s",
        "µs per row",
        "worker, MiB",
        "scheduler, MiB",
    ]
    checks = [
        "estimator",
        "rows",
        "time with a worker killed, s",
        "difference with a worker killed",
        "processor time in memory, s",
        "difference from a fit in memory",
        "score",
    ]
    by_model = [found[name, n_rows] for name in args.models for n_rows in args.rows]
    cluster = f"{args.workers} Dask workers, {D} columns in float32"
    titles = f"Time and memory of a fit with {cluster}", f"Checks with {cluster}"
    tables = [
        Table(title, columns, list(rows))
        for title, columns, rows in zip(titles, (costs, checks), zip(*by_model))
    ]
    report(tables, facts(), "scale.inc" if args.write else None)


def facts():
    """Return what the numbers depend on, with the versions of Dask."""
    import dask
    import distributed

    versions = f"dask {dask.__version__}, distributed {distributed.__version__}"
    return [*header(1), versions]


def main():
    """Read the command line."""
    parser = command_parser("scale", __doc__)
    sizes = [10**6, 10**7, 10**8]
    parser.add_argument("--rows", type=int, nargs="+", default=sizes)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--block", type=int, default=250_000, help="rows of a block")
    parser.add_argument("--most-killed", type=int, default=10**8, metavar="ROWS")
    parser.add_argument("--most-in-memory", type=int, default=10**6, metavar="ROWS")
    parser.add_argument("--cache", type=Path, help="file of the results")
    parser.add_argument("--write", action="store_true", help="write doc/benchmarks")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--kill-after", type=float, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if any(n_rows % args.block for n_rows in args.rows):
        parser.error(f"--rows must be multiples of --block, {args.block}")
    if args.one is None:
        return scale(args)
    name, how = args.one
    if how == "memory":
        result = fit_in_memory(name, args.rows[0], args.block)
    else:
        size = args.rows[0], args.block, args.workers
        result = fit_on_cluster(name, *size, args.kill_after)
    print(json.dumps(result))
    return None


if __name__ == "__main__":
    main()
