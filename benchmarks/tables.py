"""How all benchmarks measure, and the tables that they print and write.

One process, the candidates in turns, medians; Markdown for the screen and
reStructuredText for the pages. Nothing of the package is imported before it is needed,
so that other versions of it can be measured.
"""

import platform
import shlex
import sys
import tracemalloc
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np
import scipy
import sklearn
from joblib import cpu_count
from threadpoolctl import threadpool_info

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "doc" / "benchmarks"
UNITS = {"milliseconds": 1e3, "microseconds": 1e6}
MEAN = {"mean": partial(np.nanmean, axis=0)}


def interleave(candidates, repeats, clock, *, summary=np.median):
    """Call the candidates in turns; return the median seconds of each, or a summary.

    Each time in another order, since the first to allocate after calls that allocate
    nothing pays for fresh memory.
    """
    seconds = {name: [] for name in candidates}
    names, rng = list(candidates), np.random.default_rng(0)
    for repetition in range(repeats + 1):
        for place in rng.permutation(len(names)):
            name = names[place]
            start = clock()
            candidates[name]()
            if repetition > 0:  # the first is a warm-up
                seconds[name].append(clock() - start)
    return {name: float(summary(times)) for name, times in seconds.items()}


def traced_peak(function):
    """Return the largest memory that a call holds beyond what there was, in MiB."""
    tracemalloc.start()
    function()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak / 2**20


def processor():
    """Return the name of the processor, and how many this process may run on."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1] for line in lines if line.startswith("model name")]
    name = names[0].strip() if names else platform.processor() or platform.machine()
    return f"{name}, {cpu_count()} processor{'s' * (cpu_count() > 1)}"


def numpy_features():
    """Return the groups of instructions that this NumPy chooses among, and has here."""
    found = np.show_config(mode="dicts")["SIMD Extensions"]
    return [*found["baseline"], *found.get("found", [])]


def header(threads=1):
    """Return what the numbers depend on, one fact a line."""
    import sklearn_crt

    modules = (np, scipy, sklearn, sklearn_crt)
    versions = [f"{module.__name__} {module.__version__}" for module in modules]
    pools = {
        f"{pool['internal_api']} {pool['version']} {pool.get('architecture', '')}"
        for pool in threadpool_info()
        if pool["user_api"] == "blas"
    }
    return [
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {processor()}",
        f"Python {platform.python_version()}, {', '.join(versions)}",
        f"NumPy uses {', '.join(numpy_features())}",
        f"BLAS {', '.join(sorted(pools))}; threads: {threads}",
    ]


def of_interleaved(repeats, clock):
    """Return the fact that says how times were measured."""
    return f"median of {repeats} interleaved repetitions, {clock.__name__}"


@dataclass
class Table:
    """A title, the names of the columns, and rows of texts.

    ``notes`` are lines above the table.
    """

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: tuple[str, ...] = ()

    def markdown(self):
        """Return the table as Markdown."""
        lines = [f"## {self.title}", "", *self.notes, ""]
        lines.append(f"| {' | '.join(self.columns)} |")
        lines.append("| --- |" + " ---: |" * (len(self.columns) - 1))
        lines += [f"| {' | '.join(row)} |" for row in self.rows]
        return "\n".join(lines) + "\n"

    def rst(self):
        """Return the table as reStructuredText, with one line per row."""
        lines = [*self.notes, ""] if self.notes else []
        lines += [
            f".. csv-table:: {self.title}",
            f"   :header: {_line(self.columns)}",
            "",
            *(f"   {_line(row)}" for row in self.rows),
        ]
        return "\n".join(lines) + "\n"


def _line(cells):
    """Return cells as comma-separated values, quoted where that is needed."""
    quoted = (f'"{cell}"' if "," in cell else cell for cell in cells)
    return ", ".join(quoted)


def against_baseline(title, results, baseline, unit="milliseconds"):
    """Return the table of times, and of ratios to the baseline, one row per case."""
    names = list(next(iter(results.values())))
    rows = [
        [str(case)]
        + [f"{UNITS[unit] * t[n]:.3g} ({t[baseline] / t[n]:.1f})" for n in names]
        for case, t in results.items()
    ]
    title = f"{title}: {unit} (speed-up over {baseline})"
    return Table(title, ["rows x input columns to features, dtype", *names], rows)


def table_of_sets(title, columns, found, digits, summaries=MEAN):
    """Return the table of the numbers of each data set, and of functions of them all.

    The functions get an array with a row for each data set, and return a row.
    """
    numbers = np.array(list(found.values()))
    lines = found | {name: of_all(numbers) for name, of_all in summaries.items()}
    rows = [[name, *(f"{v:.{digits}f}" for v in vs)] for name, vs in lines.items()]
    return Table(title, ["data set", *columns], rows)


def geometric_mean(numbers):
    """Return the geometric mean over the first axis."""
    return np.exp(np.mean(np.log(numbers), axis=0))


def command_line():
    """Return the command that runs."""
    module = sys.modules["__main__"].__spec__.name.removesuffix(".__main__")
    return shlex.join(["python", "-m", module, *sys.argv[1:]])


def report(tables, facts, page=None, command=None):
    """Print tables and facts, and write them to a page of doc/benchmarks, if named.

    The page says what wrote it: ``command``, or what runs.
    """
    print("\n".join(f"- {fact}" for fact in facts), end="\n\n")
    print("\n".join(table.markdown() for table in tables))
    if page is not None:
        PAGES.mkdir(exist_ok=True)
        command = command or command_line()
        written = [f".. dropdown:: Written by ``{command}``", ""]
        written += [f"   * {fact}" for fact in facts]
        text = "\n".join(written) + "\n\n"
        text += "\n".join(table.rst() for table in tables)
        (PAGES / page).write_text(text)
