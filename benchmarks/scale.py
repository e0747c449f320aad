"""Fit to more rows than fit into memory: python -m benchmarks.scale.

A Dask cluster on this machine, with two processes of one thread, fits ridge regression
with 256 features and the kernel averages of labels to rows of 20 columns in float32.
Each worker draws its blocks of rows from a seed, so nothing is read from disk. For each
number of rows, the first table has seconds by the clock, processor seconds of all
workers, which depend less on what else the machine does, and the largest memory of a
worker and of the process with the scheduler.

Each fit is repeated, and one worker is killed after two fifths of the time; the second
table says whether the predictions of 10,000 other rows are the same to the last bit. Up
to a million rows, it has the largest difference of these predictions from those after
``fit`` in memory, relative to their range. Each fit runs in a process of its own.
``--cache`` keeps what was measured.
"""

import json
import logging
import os
import signal
import sys
import threading
import time
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .cases import five_columns
from .commands import Command, result_alone
from .costs import N_QUERIES, D, peak_memory
from .tables import Table

CALLS = {
    "RandomFeatureRidge": "RandomFeatureRidge(n_components=256)",
    "NadarayaWatsonClassifier": "NadarayaWatsonClassifier(OPRFSampler())",
}
LIMITS = 0.0, 1.5  # between the targets of three classes
KILLED_AFTER = 0.4  # of the time without a loss
N_WORKERS, MOST_IN_MEMORY = 2, 10**6


class Results:
    """Results by keys, in a file if one is named."""

    def __init__(self, path=""):
        self._path, self._kept = Path(path) if path else None, {}
        if self._path is not None and self._path.exists():
            self._kept = json.loads(self._path.read_text())

    def get(self, key, measure):
        """Return what is kept for a key; measure and keep it if necessary."""
        key = "|".join(map(str, key))
        if key not in self._kept:
            self._kept[key] = measure()
            if self._path is not None:
                self._path.write_text(json.dumps(self._kept, indent=0))
        return self._kept[key]


def new_model(name):
    """Return the estimator with the given name."""
    import sklearn_crt as crt

    if name == "RandomFeatureRidge":
        return crt.RandomFeatureRidge(n_components=256, random_state=0)
    return crt.NadarayaWatsonClassifier(crt.OPRFSampler(random_state=0))


def block_of_rows(n_rows, block_id=(0, 0)):
    """Return the rows of a block with their targets in the last column."""
    X, y = five_columns(n_rows, D, [0, block_id[0]])
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
    """Return processor seconds and predictions of a fit in this process."""
    blocks = [block_of_rows(block, (i, 0)) for i in range(n_rows // block)]
    rows = np.concatenate(blocks)
    X, y = np.ascontiguousarray(rows[:, :D]), targets_of(rows, name)
    del blocks, rows
    start = time.process_time()
    model = new_model(name).fit(X, y)
    processor = time.process_time() - start
    return {"processor": processor, "predictions": outputs(model, name)[0]}


def kill_a_worker(client, seconds, killed):
    """Kill one of the workers after some seconds, and append its process id."""
    time.sleep(seconds)
    victim = next(iter(client.run(os.getpid).values()))
    os.kill(victim, signal.SIGKILL)
    killed.append(victim)


def fit_on_cluster(name, n_rows, block, kill_after=None):
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
            n_workers=N_WORKERS,
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


def difference(found, expected):
    """Return the largest difference of predictions relative to their range, as text."""
    found, expected = np.array(found), np.array(expected)
    if np.array_equal(found, expected):
        return "none"
    return f"{np.abs(found - expected).max() / np.ptp(expected):.0e}"


def lines_of(results, name, n_rows, block):
    """Return a line of each table, {column: text}."""

    def measured(function, *options):
        key = function.__name__, name, n_rows, block, "killed" * bool(options)
        run = partial(result_alone, function, name, n_rows, block, *options)
        return results.get(key, run)

    fit = measured(fit_on_cluster)
    again = measured(fit_on_cluster, KILLED_AFTER * fit["seconds"])
    alone = apart = "not run"
    if n_rows <= MOST_IN_MEMORY:
        in_memory = measured(fit_in_memory)
        alone = f"{in_memory['processor']:,.1f}"
        apart = difference(fit["predictions"], in_memory["predictions"])
    start = {"estimator": f"``{CALLS[name]}``", "rows": f"{n_rows:,}"}
    costs = start | {
        "time, s": f"{fit['seconds']:,.0f}",
        "processor time, s": f"{fit['processor']:,.0f}",
        "µs per row": f"{1e6 * fit['processor'] / n_rows:.1f}",
        "worker, MiB": f"{fit['worker']:,.0f}",
        "scheduler, MiB": f"{fit['client']:,.0f}",
    }
    checks = start | {
        "time with a worker killed, s": f"{again['seconds']:,.0f}",
        "difference with a worker killed": difference(
            again["predictions"], fit["predictions"]
        ),
        "processor time in memory, s": alone,
        "difference from a fit in memory": apart,
        "score": f"{fit['score']:.3f}",
    }
    return costs, checks


def scale(rows=(10**6, 10**7, 10**8), block=250_000, cache=""):
    """Return the tables of costs and of checks."""
    import dask
    import distributed

    if any(n_rows % block for n_rows in rows):
        sys.exit(f"--rows must be multiples of --block, {block}")
    results = Results(cache)
    cases = tqdm(list(product(CALLS, rows)), desc="fits", file=sys.stderr)
    found = [lines_of(results, *case, block) for case in cases]
    cluster = f"{N_WORKERS} Dask workers, {D} columns in float32"
    titles = f"Time and memory of a fit with {cluster}", f"Checks with {cluster}"
    tables = [
        Table(title, list(lines[0]), [list(line.values()) for line in lines])
        for title, lines in zip(titles, zip(*found))
    ]
    versions = f"dask {dask.__version__}, distributed {distributed.__version__}"
    return tables, [versions]


if __name__ == "__main__":
    Command(scale, "scale.inc").main()
