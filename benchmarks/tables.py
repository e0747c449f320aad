"""Tables of results, as Markdown for the screen and as reStructuredText for pages."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "doc" / "benchmarks"


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
        """Return the table as reStructuredText."""
        lines = [*self.notes, "", f".. list-table:: {self.title}", "   :header-rows: 1"]
        lines.append("")
        for row in [self.columns, *self.rows]:
            marks = ["   * -", *["     -"] * (len(row) - 1)]
            lines += [f"{mark} {cell}" for mark, cell in zip(marks, row, strict=True)]
        return "\n".join(lines) + "\n"

    def csv(self):
        """Return the table as reStructuredText with one line a row."""
        lines = [
            f".. csv-table:: {self.title}",
            f"   :header: {', '.join(self.columns)}",
        ]
        lines += ["", *(f"   {', '.join(row)}" for row in self.rows)]
        return "\n".join(lines) + "\n"


UNITS = {"milliseconds": 1e3, "microseconds": 1e6}


def against_baseline(title, results, baseline, unit="milliseconds"):
    """Return the table of times, and of ratios to the baseline, one row a case."""
    names = list(next(iter(results.values())))
    rows = [
        [str(case)]
        + [f"{UNITS[unit] * t[n]:.3g} ({t[baseline] / t[n]:.1f})" for n in names]
        for case, t in results.items()
    ]
    title = f"{title}: {unit} (times faster than {baseline})"
    return Table(title, ["rows to columns", *names], rows)


def report(tables, facts, command, page=None):
    """Print the tables, and write them to a page of the documentation.

    Parameters
    ----------
    tables : list of Table
        What was measured.
    facts : list of str
        What the numbers depend on.
    command : str
        What was run.
    page : str, default=None
        Name of a file in doc/benchmarks.
    """
    print("\n".join(f"- {fact}" for fact in facts), end="\n\n")
    print("\n".join(table.markdown() for table in tables))
    if page is not None:
        PAGES.mkdir(exist_ok=True)
        written = [f"Written by ``{command}``:", "", *(f"* {fact}" for fact in facts)]
        text = "\n".join(written) + "\n\n"
        text += "\n".join(table.rst() for table in tables)
        (PAGES / page).write_text(text)


def write_between(path, name, text):
    """Replace what stands between two comments, ``.. name`` and ``.. end of name``."""
    begin, end = f".. {name}\n", f".. end of {name}\n"
    before, rest = path.read_text().split(begin)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}")
