"""Compare the maps with their peers and with the machine: python -m benchmarks.compare.

One process. The candidates take turns, so that a slow minute of the machine meets them
all. A cell is the median in milliseconds and, in brackets, how many times faster than
RBFSampler of scikit-learn: read the ratios. Rooflines are the bare work of a map, one
product into memory that is there already and one function in place.
"""

import argparse
import sys
import textwrap
import time
import warnings

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .cases import CASES, gamma_of, make_maps, make_rows
from .roofline import make_rooflines
from .tables import ROOT, Table, report, write_between
from .timing import header, interleave

BASELINE = "RBFSampler"
OWN_ROOFLINE = {
    "TrigRBFSampler": "half product, cos and sin",
    "PositiveRBFSampler": "product, exp",
    "OPRFSampler": "product, exp",
}


def transforms(case, n_threads):
    """Return transform of each map, and the rooflines."""
    X, _ = make_rows(case)
    maps = make_maps(case, gamma_of(X), n_jobs=n_threads)
    fitted = {name: sampler.fit(X) for name, sampler in maps.items()}
    candidates = {name: lambda m=m: m.transform(X) for name, m in fitted.items()}
    return candidates | make_rooflines(X, case.n_components, n_threads)


def fits(case, n_threads):
    """Return fit of each map."""
    X, _ = make_rows(case)
    maps = make_maps(case, gamma_of(X), n_jobs=n_threads)
    return {name: lambda m=m: m.fit(X) for name, m in maps.items()}


def against_baseline(title, results):
    """Return the table of milliseconds and ratios to the baseline."""
    names = list(next(iter(results.values())))
    rows = [
        [str(case)] + [f"{1e3 * t[n]:.3g} ({t[BASELINE] / t[n]:.1f})" for n in names]
        for case, t in results.items()
    ]
    return Table(title, ["rows to columns", *names], rows)


def against_roofline(title, results):
    """Return the table of times over those of the own roofline."""
    rows = [
        [str(case)] + [f"{t[n] / t[own]:.2f}" for n, own in OWN_ROOFLINE.items()]
        for case, t in results.items()
    ]
    return Table(title, ["rows to columns", *OWN_ROOFLINE], rows)


def for_readme(results, facts, n_threads):
    """Return the short table of the README."""
    names = [BASELINE, "TrigRBFSampler", "OPRFSampler"]
    chosen = {
        case: times
        for case, times in results.items()
        if case.n_rows == 20000 and case.n_components == 1024
    }
    rows = [
        [f"{case.n_features} ({case.dtype})", f"{1e3 * t[BASELINE]:.0f} ms"]
        + [f"{t[BASELINE] / t[n]:.1f} x" for n in names[1:]]
        for case, t in chosen.items()
    ]
    title = f"20000 rows to 1024 columns, {n_threads} thread{'s' * (n_threads > 1)}"
    table = Table(title, ["from columns", *names], rows)
    return f"{table.csv()}\n{textwrap.fill('. '.join(facts), 88)}.\n"


def main():
    """Run the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(prog="benchmarks.compare", description=__doc__)
    parser.add_argument(
        "--cases",
        default="default",
        choices=list(CASES),
        help="full adds d = 784 and 4096 columns; quick is one small case",
    )
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--write", action="store_true", help="write the page of the docs and the README"
    )
    args = parser.parse_args()
    cases = CASES[args.cases]
    warnings.simplefilter("ignore")  # fewer rows than components (Nystroem)
    tables, medians = [], {}
    progress = tqdm(total=2 * len(cases) * len(args.threads), file=sys.stderr)
    for n_threads in args.threads:
        # processor time ignores what else runs, and cannot tell threads
        clock = time.process_time if n_threads == 1 else time.perf_counter
        name = f"{n_threads} thread{'s' * (n_threads > 1)}"
        for what, candidates in (("transform", transforms), ("fit", fits)):
            results = medians[n_threads, what] = {}
            for case in cases:
                progress.set_description(f"{what}, {case}")
                with threadpool_limits(n_threads, user_api="blas"):
                    todo = candidates(case, n_threads)
                    results[case] = interleave(todo, args.repeats, clock)
                progress.update()
            title = f"{what}, {name}: milliseconds (times faster than {BASELINE})"
            tables.append(against_baseline(title, results))
            if what == "transform":
                title = f"{what}, {name}: time over that of the own roofline"
                tables.append(against_roofline(title, results))
    facts = header(args.threads, args.repeats, clock)
    page = "transform.inc" if args.write else None
    command = "python -m benchmarks.compare " + " ".join(sys.argv[1:])
    report(tables, facts, command.strip(), page)
    if args.write:
        last = args.threads[-1]
        text = for_readme(medians[last, "transform"], facts, last)
        write_between(ROOT / "README.rst", "speed", text)


if __name__ == "__main__":
    main()
