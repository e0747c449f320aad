"""What the estimators cost on large tables: python -m benchmarks.costs.

Regression with 20 columns in float64, drawn by a formula, so that no file is needed.
Each size is measured in a process of its own, with one thread: processor seconds of
``fit`` and of ``predict`` on 10,000 other rows, and the largest memory of the process
less what it had once the rows were drawn. The last column is the score (R2) of these
predictions after a fit to 100,000 rows, or to the most rows but one of ``--rows``. An
estimator that would need more than ``--most`` seconds or ``--memory`` GiB for a size,
as its time and memory at the size before suggest, is not measured.
"""

import json
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

from .tables import Table, command_parser, header, output_alone, report

D, N_QUERIES = 20, 10_000
SIZES = 10_000, 100_000, 1_000_000
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


def draw(n_rows, seed):
    """Return rows and targets: a smooth function of five columns, with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, D))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + np.abs(X[:, 3]) + 0.5 * X[:, 4]
    return X, y + 0.3 * rng.standard_normal(n_rows)


def peak_memory():
    """Return the largest resident memory of this process, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


def measure(name, n_rows):
    """Return seconds of fit and of predict, the added memory in MiB, and R2."""
    model = make_pipeline(StandardScaler(), MODELS[name]())
    X, y = draw(n_rows, 0)
    queries, targets = draw(N_QUERIES, 1)
    model.fit(X[:500], y[:500])  # imports everything that is loaded on first use
    before, start = peak_memory(), time.process_time()
    model.fit(X, y)
    fitted = time.process_time()
    found = model.predict(queries)
    done = time.process_time()
    error = np.mean((found - targets) ** 2) / targets.var()
    return fitted - start, done - fitted, peak_memory() - before, 1 - error


def measured_alone(name, n_rows):
    """Return what ``measure`` returns in a new process with one thread."""
    return json.loads(output_alone("costs", "--one", name, n_rows))


def is_too_much(before, growth, most, memory):
    """Return whether an estimator would need too much time or memory.

    ``before`` is what was measured with fewer rows, or None if that was too much, and
    ``growth`` the factor by which the number of rows has grown since.
    """
    if before is None:
        return True
    fit, predict, mebibytes, _ = before
    too_slow = (fit + predict) * GROWTH ** np.log10(growth) > most
    return too_slow or mebibytes * growth > 1024 * memory


def costs(args):
    """Print the table, and write it to the page with ``--write``."""
    cells = {name: [] for name in MODELS}
    progress = tqdm(total=len(MODELS) * len(args.rows), file=sys.stderr)
    for name, found in cells.items():
        for place, n_rows in enumerate(args.rows):
            progress.set_description(f"{name}, {n_rows}")
            too_much = False
            if place > 0:
                growth = n_rows / args.rows[place - 1]
                too_much = is_too_much(found[-1], growth, args.most, args.memory)
            found.append(None if too_much else measured_alone(name, n_rows))
            progress.update()
    progress.close()
    sizes = [f"{n_rows:,}" for n_rows in args.rows]
    kinds = "fit, s", "predict, s", "memory, MiB"
    columns = ["estimator", *(f"{kind}: {size}" for kind in kinds for size in sizes)]
    place = max(0, len(sizes) - 2)
    columns.append("R²")
    rows = [
        [f"``{name}``", *numbers(found), shown(found[place], 3)]
        for name, found in cells.items()
    ]
    title = f"Seconds of fit and of {N_QUERIES:,} predictions, and memory, by rows"
    page = "costs.inc" if args.write else None
    report([Table(title, columns, rows)], header(1), page)


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


def main():
    """Read the command line."""
    parser = command_parser("costs", __doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--most", type=float, default=120.0, metavar="SECONDS")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GIB")
    parser.add_argument("--write", action="store_true", help="write doc/benchmarks")
    parser.add_argument("--one", nargs=2, metavar=("NAME", "ROWS"))
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], int(args.one[1]))))
    else:
        costs(args)


if __name__ == "__main__":
    main()
