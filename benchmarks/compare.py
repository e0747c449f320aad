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
from dataclasses import replace

from threadpoolctl import threadpool_limits
from tqdm import tqdm

from .cases import CASES, gamma_of, make_maps, make_rows
from .groups import BASELINE, GROUPS
from .roofline import make_rooflines
from .tables import ROOT, Table, against_baseline, report, write_between
from .timing import header, interleave

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
            if what == "transform":
                title = f"{what}, {name}: time over that of the own roofline"
                tables.append(against_roofline(title, results))
    return tables, medians


def clock_of(n_threads):
    """Return the clock: processor time ignores what else runs, but adds threads up."""
    return time.process_time if n_threads == 1 else time.perf_counter


def report_groups(names, quick, repeats, write):
    """Print the tables of groups of cases, and write each to a page of its own."""
    for name in (progress := tqdm(names, file=sys.stderr)):
        progress.set_description(name)
        group = GROUPS[name]
        tables = group(quick, repeats)
        if tables:
            notes = textwrap.wrap(" ".join(group.__doc__.split()), 88)
            tables[0] = replace(tables[0], notes=(*notes, *tables[0].notes))
        command = f"python -m benchmarks.compare --cases {name} --repeats {repeats}"
        page = f"group_{name.replace('-', '_')}.inc" if write else None
        report(tables, header(1, repeats, time.process_time), command, page)


def parse(arguments=None):
    """Return the options, with a grid or None and a list of groups."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.compare",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="groups beside the grids, all of them by the name groups:\n"
        + "\n".join(
            f"  {name:10} {group.__doc__.splitlines()[0]}"
            for name, group in GROUPS.items()
        ),
    )
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
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument(
        "--write",
        action="store_true",
        help="write the pages of the docs, and for a grid the table of the README",
    )
    args = parser.parse_args(arguments)
    names = args.cases.split(",")
    args.grid = names.pop(0) if names[0] in CASES else None
    args.groups = list(GROUPS) if names == ["groups"] else names
    if unknown := set(args.groups) - set(GROUPS):
        parser.error(f"unknown cases {', '.join(sorted(unknown))}")
    return args


def main():
    """Run the comparison that the command line asks for."""
    args = parse()
    warnings.filterwarnings("ignore", "n_components > n_samples")  # Nystroem
    command = f"python -m benchmarks.compare {' '.join(sys.argv[1:])}".strip()
    if args.grid:
        tables, medians = measure_grid(CASES[args.grid], args.threads, args.repeats)
        last = args.threads[-1]
        facts = header(args.threads, args.repeats, clock_of(last))
        report(tables, facts, command, "transform.inc" if args.write else None)
        if args.write:
            text = for_readme(medians[last, "transform"], facts, last)
            write_between(ROOT / "README.rst", "speed", text)
    report_groups(args.groups, args.quick, args.repeats, args.write)


if __name__ == "__main__":
    main()
