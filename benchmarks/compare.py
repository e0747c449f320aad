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
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import softmax
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.neighbors import KernelDensity, KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils import gen_batches
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
    gamma_of,
    make_maps,
    make_rows,
)
from .commands import command_parser
from .tables import (
    Table,
    against_baseline,
    header,
    of_interleaved,
    report,
    traced_peak,
)

SHORT_MAPS = BASELINE, "TrigRBFSampler", "OPRFSampler"
SIGMA = 1.0  # of the averages


def short_table(results, n_threads, repeats):
    """Return times of transform, and of a pipeline, relative to RBFSampler."""
    rows = []
    for case, times in results.items():
        if case.n_rows == 20000 and case.n_components == 1024:
            rows.append(_short_row(f"{case.n_features} ({case.dtype})", times))
            if case.n_features == 64:
                times = pipelines(case, n_threads, repeats)
                name = f"64 with Ridge: fit and predict ({case.dtype})"
                rows.append(_short_row(name, times))
    title = f"Time to transform 20,000 rows to 1,024 features, {n_threads} thread"
    title += "s" * (n_threads > 1) + ", and speed-up over RBFSampler"
    return Table(title, ["input columns", *SHORT_MAPS], rows)


def pipelines(case, n_threads, repeats):
    """Return seconds of fit and predict of each map with Ridge behind it."""
    X, y = make_rows(case)
    maps = make_maps(case, gamma_of(X), SHORT_MAPS, n_threads)
    models = {name: make_pipeline(sampler, Ridge()) for name, sampler in maps.items()}
    todo = {name: lambda m=m: m.fit(X, y).predict(X) for name, m in models.items()}
    return groups.timed(todo, repeats, n_threads)


def _short_row(name, times):
    ratios = [f"{times[BASELINE] / times[other]:.1f} x" for other in SHORT_MAPS[1:]]
    return [name, f"{1e3 * times[BASELINE]:.0f} ms", *ratios]


def measure_grid(cases, threads, repeats):
    """Return the tables of transform and fit, and the medians of the last transform."""
    tables = []
    for n_threads in threads:
        transform, fit = {}, {}
        name = f"{n_threads} thread{'s' * (n_threads > 1)}"
        for case in tqdm(cases, desc=name, file=sys.stderr):
            X, _ = make_rows(case)
            maps = make_maps(case, gamma_of(X), n_jobs=n_threads)
            fits = {each: partial(sampler.fit, X) for each, sampler in maps.items()}
            fit[case] = groups.timed(fits, repeats, n_threads)
            todo = groups.transforms(maps, X)
            transform[case] = groups.timed(todo, repeats, n_threads)
        for what, results in (("transform", transform), ("fit", fit)):
            tables.append(against_baseline(f"{what}, {name}", results, BASELINE))
    return tables, transform


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


class DensityClassifier:
    """The exact Nadaraya-Watson classifier by Bayes: one KernelDensity a class."""

    def fit(self, X, y):
        """Fit one density a class."""
        labels, counts = np.unique(y, return_counts=True)
        self._log_prior = np.log(counts / len(y))
        self._densities = [
            KernelDensity(bandwidth=1 / SIGMA).fit(X[y == label]) for label in labels
        ]
        return self

    def predict_proba(self, X):
        """Return density times prior, normalised."""
        scores = [density.score_samples(X) for density in self._densities]
        return softmax(np.transpose(scores) + self._log_prior, axis=1)


def _exact_averages(quick, repeats):
    n_train, n_queries = (1800, 200) if quick else (18000, 2000)
    X, y = make_classes(n_train + n_queries)
    queries = X[n_train:]
    classifiers = {
        "NadarayaWatsonClassifier": NadarayaWatsonClassifier(
            sigma=SIGMA, calibrate=False
        ),
        "one KernelDensity per class": DensityClassifier(),
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
        peaks = [f"{traced_peak(fit):.0f} MiB" for fit in batches]
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
        facts = [*header(), of_interleaved(n_repeats, time.process_time)]
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
        help=f"one grid of {', '.join(CASES)}, or groups, with commas between; quick "
        "is one small case",
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
        tables, transform = measure_grid(CASES[args.grid], args.threads, repeats)
        last = args.threads[-1]
        clock = groups.clock_of(last)
        facts = [*header(args.threads), of_interleaved(repeats, clock)]
        report(tables, facts, "transform.inc" if args.write else None)
        if args.write:
            table = short_table(transform, last, repeats)
            report([table], facts, "short.inc")
    report_groups(args.groups, args.quick, args.repeats, args.write)


if __name__ == "__main__":
    main()
