"""What the estimators cost on large tables: python -m benchmarks.costs.

Regression with 20 columns in float64, drawn by a formula, so that no file is needed.
Each size is measured in a process of its own, with one thread: processor seconds of
``fit`` and of ``predict`` on 10,000 other rows, and the largest memory of the process
less what it had once the rows were drawn. The last column is the score (R2) of these
predictions after a fit to 100,000 rows, or to the most rows but one of ``--rows``. An
estimator that would need more than two minutes or 8 GiB for a size, as its time and
memory at the size before suggest, is not measured.
"""

import resource
import sys
import time

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tqdm import tqdm

import sklearn_crt as crt

from .cases import five_columns
from .commands import Command, result_alone
from .tables import Table

D, N_QUERIES = 20, 10_000
SIZES = 10_000, 100_000, 1_000_000
MOST_SECONDS, MOST_MEBIBYTES = 120.0, 8 * 1024
GROWTH = 12.0  # of the time, if there are ten times as many rows
MODELS = {
    "HistGradientBoostingRegressor": HistGradientBoostingRegressor,
    "RandomFeatureRidge": lambda: crt.RandomFeatureRidge(random_state=0),
    "RandomFeatureRidge(AnovaSampler)": lambda: crt.RandomFeatureRidge(
        crt.AnovaSampler(random_state=0)
    ),
    "TableRegressor": lambda: crt.tables.TableRegressor(random_state=0),
    "TrigRBFSampler, Ridge": lambda: make_pipeline(
        crt.TrigRBFSampler(n_components=500, random_state=0), Ridge()
    ),
    "LearnedMetric, LocalLinearRegressor": lambda: make_pipeline(
        crt.LearnedMetric(random_state=0), crt.LocalLinearRegressor()
    ),
    "NadarayaWatsonRegressor": crt.NadarayaWatsonRegressor,
    "NadarayaWatsonRegressor(OPRFSampler)": lambda: crt.NadarayaWatsonRegressor(
        crt.OPRFSampler(n_components=300, random_state=0)
    ),
}


def peak_memory():
    """Return the largest resident memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure(name, n_rows):
    """Return seconds of fit and of predict, the added memory in MiB, and R2."""
    model = make_pipeline(StandardScaler(), MODELS[name]())
    X, y = five_columns(n_rows, D)
    queries, targets = five_columns(N_QUERIES, D, 1)
    model.fit(X[:500], y[:500])  # imports everything that is loaded on first use
    before, start = peak_memory(), time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    found = model.predict(queries)
    done = time.process_time()
    error = np.mean((found - targets) ** 2) / targets.var()
    return fitted - start, done - fitted, peak_memory() - before, 1 - error


def is_too_much(before, growth):
    """Return whether an estimator would need too much time or memory.

    ``before`` is what was measured with fewer rows, or None if that was too much, and
    ``growth`` the factor by which the number of rows has grown since.
    """
    if before is None:
        return True
    fit, predict, mebibytes, _ = before
    too_slow = (fit + predict) * GROWTH ** np.log10(growth) > MOST_SECONDS
    return too_slow or mebibytes * growth > MOST_MEBIBYTES


def costs(rows=SIZES):
    """Return the table of seconds and memory."""
    cells = {name: [] for name in MODELS}
    progress = tqdm(total=len(MODELS) * len(rows), file=sys.stderr)
    for name, found in cells.items():
        for place, n_rows in enumerate(rows):
            progress.set_description(f"{name}, {n_rows}")
            too_much = place > 0 and is_too_much(found[-1], n_rows / rows[place - 1])
            found.append(None if too_much else result_alone(measure, name, n_rows))
            progress.update()
    progress.close()
    sizes = [f"{n_rows:,}" for n_rows in rows]
    kinds = "fit, s", "predict, s", "memory, MiB"
    columns = ["estimator", *(f"{kind}: {size}" for kind in kinds for size in sizes)]
    place = max(0, len(sizes) - 2)
    lines = [
        [f"``{name}``", *numbers(found), shown(found[place], 3)]
        for name, found in cells.items()
    ]
    title = f"Seconds of fit and of {N_QUERIES:,} predictions, and memory, by rows"
    return [Table(title, [*columns, "R²"], lines)]


def numbers(cells):
    """Return the texts of all seconds of fit, then of predict, then the memory."""
    return [shown(cell, kind) for kind in range(3) for cell in cells]


def shown(cell, kind):
    """Return seconds of fit or of predict, MiB of memory, or R2 as text."""
    if cell is None:
        return "–"
    number = cell[kind]
    if kind == 3:
        return f"{number:.2f}"
    return f"{number:,.0f}" if kind == 2 else f"{float(f'{number:.2g}'):g}"


if __name__ == "__main__":
    Command(costs, "costs.inc").main()
