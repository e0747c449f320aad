"""Compare maps and estimators with their peers: python -m benchmarks.compare.

One process. The candidates take turns, so that a slow minute of the machine meets them
all. A cell is the median in milliseconds and, in brackets, how many times faster than
RBFSampler of scikit-learn: read the ratios.

--cases chooses: a grid of sizes, for transform and fit of the maps, and groups of other
cases (groups.py), structured couplings and estimators among them.
"""

import sys
import textwrap
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import gen_batches
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from sklearn_crt import (
    NadarayaWatsonClassifier,
    OPRFSampler,
    TrigRBFSampler,
)

from . import groups
from .cases import (
    BASELINE,
    CASES,
    DensityClassifier,
    fitted_maps,
    gamma_of,
    make_maps,
    make_rows,
)
from .commands import command_parser
from .tables import (
    Table,
    against_baseline,
    header,
    interleave,
    report,
)

SHORT_MAPS = BASELINE, "TrigRBFSampler", "OPRFSampler"
SIGMA = 1.0  # of the averages


def transforms(case, n_threads):
    """Return transform of each map."""
    X, _ = make_rows(case)
    return groups.transforms(fitted_maps(case, X, n_jobs=n_threads), X)


def fits(case, n_threads):
    """Return fit of each map."""
    X, _ = make_rows(case)
    maps = make_maps(case, gamma_of(X), n_jobs=n_threads)
    return {name: lambda m=m: m.fit(X) for name, m in maps.items()}


def pipelines(case, n_threads):
    """Return fit and predict of each map of the short table with Ridge behind it."""
    X, y = make_rows(case)
    maps = make_maps(case, gamma_of(X), n_jobs=n_threads)
    models = {name: make_pipeline(maps[name], Ridge()) for name in SHORT_MAPS}
    return {name: lambda m=m: m.fit(X, y).predict(X) for name, m in models.items()}


def short_table(results, n_threads, repeats):
    """Return times of transform, and of a pipeline, relative to RBFSampler."""
    rows = []
    for case, times in results.items():
        if case.n_rows == 20000 and case.n_components == 1024:
            rows.append(_short_row(f"{case.n_features} ({case.dtype})", times))
            if case.n_features == 64:
                with threadpool_limits(n_threads, user_api="blas"):
                    todo = pipelines(case, n_threads)
                    times = interleave(todo, repeats, clock_of(n_threads))
                name = f"64 with Ridge: fit and predict ({case.dtype})"
                rows.append(_short_row(name, times))
    title = f"Time to transform 20,000 rows to 1,024 features, {n_threads} thread"
    title += "s" * (n_threads > 1) + ", and speed-up over RBFSampler"
    return Table(title, ["input columns", *SHORT_MAPS], rows)


def _short_row(name, times):
    ratios = [f"{times[BASELINE] / times[other]:.1f} x" for other in SHORT_MAPS[1:]]
    return [name, f"{1e3 * times[BASELINE]:.0f} ms", *ratios]


def measure_grid(cases, threads, repeats):
    """Return the tables of transform and fit, and the medians of each."""
    tables, medians = [], {}
    progress = tqdm(total=2 * len(cases) * len(threads), file=sys.stderr)
    for n_threads in threads:
        clock = clock_of(n_threads)
        name = f"{n_threads} thread{'s' * (n_threads > 1)}"
        for what, candidates in (("transform", transforms), ("fit", fits)):
            results = medians[n_threads, what] = {}
            for case in cases:
                progress.set_description(f"{what}, {case}")
                with threadpool_limits(n_threads, user_api="blas"):
                    todo = candidates(case, n_threads)
                    results[case] = interleave(todo, repeats, clock)
                progress.update()
            tables.append(against_baseline(f"{what}, {name}", results, BASELINE))
    return tables, medians


def clock_of(n_threads):
    """Return the clock: processor time ignores what else runs, but adds threads up."""
    return time.process_time if n_threads == 1 else time.perf_counter


def averages(quick, repeats):
    """Nadaraya-Watson classifiers, exact and with random features.

    The exact classifier is compared with one KernelDensity per class, and with
    KNeighborsClassifier with all training rows as neighbours; all three return the same
    probabilities. The classifiers with random features are compared with the exact one.
    """
    return [_exact_averages(quick, repeats), _averages_of_features(quick, repeats)]


def make_classes(n_rows, n_classes=26, n_features=16, dtype=np.float32):
    """Return rows around one centre a class, and their labels."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((n_classes, n_features), dtype=dtype)
    y = rng.integers(n_classes, size=n_rows)
    X = rng.standard_normal((n_rows, n_features), dtype=dtype)
    return X + centres[y], y


def gaussian(distances):
    """Return the weights of neighbours at these distances."""
    return np.exp(-0.5 * np.square(SIGMA * distances))


def _exact_averages(quick, repeats):
    n_train, n_queries = (1800, 200) if quick else (18000, 2000)
    X, y = make_classes(n_train + n_queries)
    queries = X[n_train:]
    classifiers = {
        "NadarayaWatsonClassifier": NadarayaWatsonClassifier(
            sigma=SIGMA, calibrate=False
        ),
        "one KernelDensity per class": DensityClassifier(1 / SIGMA),
        "KNeighborsClassifier": KNeighborsClassifier(n_train, weights=gaussian),
    }
    fitted = {n: c.fit(X[:n_train], y[:n_train]) for n, c in classifiers.items()}
    calls = {n: lambda c=c: c.predict_proba(queries) for n, c in fitted.items()}
    times = groups.timed(calls, repeats)
    name, *_ = classifiers
    probabilities = fitted[name].predict_proba(queries)
    rows = []
    for other, classifier in fitted.items():
        difference = abs(classifier.predict_proba(queries) - probabilities).max()
        ratio = times[other] / times[name]
        rows.append(
            [other, f"{times[other]:.3g} s", f"{ratio:.1f}", f"{difference:.0e}"]
        )
    columns = ["exact estimator", "predict_proba", "ratio", "largest difference"]
    title = f"{n_train:,} rows, {n_queries:,} queries, 26 classes, float32"
    return Table(title, columns, rows)


def peak_bytes(function):
    """Return the largest memory that a call holds beyond what there was."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def fit_batches(model, X, y):
    """Fit in batches of 50,000 rows."""
    model = clone(model)
    for rows in gen_batches(len(y), 50_000):
        model.partial_fit(X[rows], y[rows], classes=range(26))


def _averages_of_features(quick, repeats):
    few, many = (3, 4) if quick else (5, 6)  # powers of ten
    sizes = 10**few, 10**many
    X, y = make_classes(10**many)
    queries, _ = make_classes(10000)
    rows, exact = [], NadarayaWatsonClassifier(sigma=SIGMA).fit(X, y)
    # a tenth: it is linear in the queries
    tenth = {"exact": lambda: exact.predict(queries[:1000])}
    seconds_exact = 10 * groups.timed(tenth, 1)["exact"]
    for cls in tqdm((OPRFSampler, TrigRBFSampler), file=sys.stderr):
        sampler = cls(sigma=SIGMA, n_components=256, random_state=0)
        model = NadarayaWatsonClassifier(sampler)
        fits = {n: lambda n=n, m=model: m.fit(X[:n], y[:n]) for n in sizes}
        short, long = groups.timed(fits, repeats).values()
        batches = [lambda n=n, m=model: fit_batches(m, X[:n], y[:n]) for n in sizes]
        peaks = [f"{peak_bytes(fit) / 2**20:.0f} MiB" for fit in batches]
        predict = {"predict": lambda m=model: m.predict(queries)}
        (seconds,) = groups.timed(predict, repeats).values()
        rows.append(
            [cls.__name__, f"{short:.3g} s", f"{long:.3g} s", f"{long / short:.1f}"]
            + [*peaks, f"{seconds:.3g} s", f"{seconds_exact / seconds:.0f}"]
        )
    columns = ["sampler", f"fit, 10^{few} rows", f"fit, 10^{many} rows", "ratio"]
    columns += [f"memory with batches, 10^{few} rows", f"10^{many} rows"]
    columns += ["predict, 10,000 rows", "speed-up over exact"]
    title = f"10^{many} rows of 16 columns, 256 features, 26 classes, float32"
    return Table(title, columns, rows)


@dataclass(frozen=True)
class Group:
    """A function of ``quick`` and of repetitions, and its page."""

    tables: Callable
    page: str | None
    repeats: int = 7


USERS = {  # the cases that groups stands for
    "one-row": Group(groups.one_row, "group_one_row.inc"),
    "small": Group(groups.small, "group_small.inc"),
    "sparse": Group(groups.sparse_rows, "group_sparse.inc"),
}
GROUPS = USERS | {
    "estimators": Group(groups.estimators, None, 5),
    "searches": Group(groups.searches, None, 3),
    "waits": Group(groups.waits, None, 5),
    "couplings": Group(groups.couplings, "couplings.inc", 5),
    "averages": Group(averages, "nadaraya_watson.inc", 3),
}


def report_groups(names, quick, repeats, write):
    """Print the tables of groups of cases, and write each to a page of its own."""
    for name in (progress := tqdm(names, file=sys.stderr)):
        progress.set_description(name)
        group = GROUPS[name]
        n_repeats = repeats or group.repeats
        tables = group.tables(quick, n_repeats)
        notes = textwrap.wrap(" ".join(group.tables.__doc__.split()), 88)
        tables[0] = replace(tables[0], notes=(*notes, *tables[0].notes))
        command = f"python -m benchmarks.compare --cases {name} --repeats {n_repeats}"
        facts = header(1, n_repeats, time.process_time)
        report(tables, facts, group.page if write else None, command)


def parse(arguments=None):
    """Return the options, with a grid or None and a list of groups."""
    parser = command_parser("compare", __doc__)
    lines = ["groups beside the grids, the first three of them by the name groups:"]
    lines += [f"  {n:10} {g.tables.__doc__.splitlines()[0]}" for n, g in GROUPS.items()]
    parser.epilog = "\n".join(lines)
    parser.add_argument(
        "--cases",
        default="default",
        help=f"one grid of {', '.join(CASES)}, or groups, with commas between; full "
        "adds d = 784 and 4096 columns to the default, quick is one small case",
    )
    parser.add_argument(
        "--quick", action="store_true", help="small sizes, to see that groups run"
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1], help="of a grid")
    parser.add_argument("--repeats", type=int, help="7; 5 of couplings, 3 of averages")
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the tables of the documentation",
    )
    args = parser.parse_args(arguments)
    names = args.cases.split(",")
    args.grid = names.pop(0) if names[0] in CASES else None
    args.groups = [
        name for part in names for name in (USERS if part == "groups" else [part])
    ]
    if unknown := set(args.groups) - set(GROUPS):
        parser.error(f"unknown cases {', '.join(sorted(unknown))}")
    return args


def main():
    """Run the comparison that the command line asks for."""
    args = parse()
    warnings.filterwarnings("ignore", "n_components > n_samples")  # Nystroem
    if args.grid:
        repeats = args.repeats or 7
        tables, medians = measure_grid(CASES[args.grid], args.threads, repeats)
        last = args.threads[-1]
        facts = header(args.threads, repeats, clock_of(last))
        report(tables, facts, "transform.inc" if args.write else None)
        if args.write:
            table = short_table(medians[last, "transform"], last, repeats)
            report([table], facts, "short.inc")
    report_groups(args.groups, args.quick, args.repeats, args.write)


if __name__ == "__main__":
    main()
