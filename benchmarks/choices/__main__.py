"""Which map, which average: the tables behind the choices of the user guide.

``python -m benchmarks.choices NAME`` prints a table, or a few of one question:

* defaults: those of the kernel averages against k neighbours
* metric: learned metrics and local linear averages beside boosting and others
* evidence: local linear regression in each candidate of a metric, beside boosting
* tables: mixed tables, with categories and missing values, beside boosting
* ridge_tables, ridge_time: ridge on features beside other models; its time by rows
* linear_models: ridge on features beside Nystroem and boosting
* coverage: intervals on tables, by similarity to the training rows, and shifted
* log_losses: class probabilities of averages and local fits beside boosting and ridge

``NAME --help`` says what it measures and what can be chosen; --quick takes a minute at
most. Sets of UCI come from the folder SKLEARN_CRT_DATA.
"""

import argparse
import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from threadpoolctl import threadpool_limits

from ..tables import command_parser, header, report
from . import averages, coverage, linear, metric, mixed, probabilities, ridge_tables

OPTIONS = {
    "widths": "numbers of columns",
    "seeds": "number of random splits and draws",
    "sets": "of data",
    "splits": "number of splits",
    "cache": "file of the results, for further runs",
    "methods": "to compare",
    "rows": "the most of a set, or those that are timed",
    "repeats": "of what is timed",
}


@dataclass(frozen=True)
class Choice:
    """A function that returns tables, its page, and its options with --quick.

    The parameters of the function and their defaults are the options. BLAS has one
    thread.
    """

    tables: Callable
    page: str | None
    quick: dict = field(default_factory=dict)

    @property
    def name(self):
        """The name of the function."""
        return self.tables.__name__

    @property
    def defaults(self):
        """The defaults of the options."""
        parameters = inspect.signature(self.tables).parameters
        return {name: of.default for name, of in parameters.items()}

    def add_to(self, subparsers):
        """Add the options of the table to those of the command line."""
        text = inspect.getdoc(self.tables)
        parser = subparsers.add_parser(
            self.name,
            help=text.splitlines()[0].replace("%", "%%"),  # it is a format
            description=text,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        for name, default in self.defaults.items():
            values = default if isinstance(default, tuple) else (default,)
            shown = " ".join(map(str, values))
            about = {"help": f"{OPTIONS[name]} (default: {shown or 'none'})"}
            if isinstance(default, bool):
                about["action"] = "store_true"
            else:
                about |= {"type": type(values[0]), "metavar": name.upper()}
            if isinstance(default, tuple):
                about["nargs"] = "+"
            if isinstance(default, tuple) and isinstance(values[0], str):
                about["choices"] = values
            parser.add_argument(f"--{name}", **about)
        parser.add_argument(
            "--quick", action="store_true", help="few of all, to see that it runs"
        )
        if self.page:
            parser.add_argument(
                "--write", action="store_true", help="write the page of the docs"
            )

    def run(self, args):
        """Print the tables, and write them where that is asked for."""
        given = {name: getattr(args, name) for name in self.defaults}
        given = {name: value for name, value in given.items() if value is not None}
        options = self.defaults | (self.quick if args.quick else {}) | given
        with threadpool_limits(1):
            tables = self.tables(**options)
        facts = header(1, options.get("repeats"), time.process_time)
        report(tables, facts, self.page if getattr(args, "write", False) else None)


CHOICES = (
    Choice(
        averages.defaults,
        "defaults.inc",
        {"seeds": 2, "sets": ("iris", "wine", "banknote", "diabetes")},
    ),
    Choice(
        metric.metric,
        "metric.inc",
        {"seeds": 2, "rows": 500, "sets": ("banknote", "diabetes")},
    ),
    Choice(
        mixed.tables,
        "mixed.inc",
        {"seeds": 1, "rows": 400, "sets": ("titanic", "imports", "airfoil")},
    ),
    Choice(
        metric.evidence,
        "evidence.inc",
        {"splits": 1, "rows": 500, "sets": ("energy", "stock")},
    ),
    Choice(
        ridge_tables.ridge_tables,
        "ridge_tables.inc",
        {"splits": 1, "seeds": 1, "sets": ("autos", "energy", "cmc", "rare_phoneme")},
    ),
    Choice(ridge_tables.ridge_time, "ridge_time.inc", {"rows": (1000,), "repeats": 1}),
    Choice(
        coverage.coverage,
        "coverage.inc",
        {"splits": 1, "rows": 300, "sets": ("housing", "stock")},
    ),
    Choice(
        probabilities.log_losses,
        "log_losses.inc",
        {"splits": 1, "sets": ("wifi", "rare_phoneme")},
    ),
    Choice(
        linear.linear_models,
        "linear_models.inc",
        {"widths": (50,), "seeds": 1, "sets": ("letter",)},
    ),
)


def main():
    """Print the tables that the command line asks for."""
    parser = command_parser("choices", __doc__)
    subparsers = parser.add_subparsers(dest="name", required=True, metavar="NAME")
    for choice in CHOICES:
        choice.add_to(subparsers)
    args = parser.parse_args()
    {choice.name: choice for choice in CHOICES}[args.name].run(args)


if __name__ == "__main__":
    main()
